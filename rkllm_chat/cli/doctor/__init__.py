"""Run the checks of `rkllm-chat doctor` on this machine, its model and its configuration.

CHECKS lists the checks in the order of the output; they are independent, so a failing one hides no other. A row says
what was tried: a GGUF answers in a process of its own, unless it has before, bubblewrap runs, the NPU's nodes are
opened, a model service behind a URL is asked. What would load the NPU or start programs of others is only looked at,
and its row says "not tried". With `--tools` or `--speed` the model is loaded and measured instead.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from ...config.files import find_config_files
from ...config.loader import load_settings, state_folder
from ...config.named_settings import replace_setting
from ...config.secrets import add_settings_secrets
from ...config.settings import Settings
from ...core.command_line import Parser
from ...core.errors import ChatError, ConfigError, UsageError
from ...core.redact import Redactor
from ...core.sanitize import sanitize_line
from ...core.user_paths import expand_home
from ..output import write_error, write_output, write_result
from . import access, machine, model, plugins, servers, service
from .board import Board, Check, CheckState, Finding, run_check
from .fix_script import write_fix_script
from .report import write_report

_DESCRIPTION = (
    "Check this machine, its model and its configuration: what can be tried is tried, but no server is started."
)
_EPILOG = "Exit codes: 0 no check failed, 1 a check failed, 2 usage error."
_FORMATS = ("text", "json", "report", "fix-script")
_STATES: tuple[CheckState, ...] = ("ok", "warn", "wrong")  # from the best to the worst

CHECKS: dict[str, Check] = {
    "configuration": model.check_configuration,
    "state": machine.check_state_folder,
    "user": machine.check_user,
    "platform": machine.check_platform,
    "kernel": machine.check_kernel,
    "driver": machine.check_driver,
    "nodes": access.check_nodes,
    "library": model.check_library,
    "libraries": model.check_other_libraries,
    "model": model.check_model,
    "engine": model.check_engine,
    "instructions": model.check_instructions,
    "pair": model.check_pair,
    "media": model.check_media,
    "service": service.check_services,
    "context": model.check_context,
    "memory": model.check_memory,
    "domain": model.check_domain,
    "tokenizer": model.check_tokenizer,
    "template": model.check_template,
    "CPU": machine.check_cpus,
    "DDR": machine.check_ddr,
    "NPU": machine.check_npu,
    "temperature": machine.check_temperature,
    "servers": servers.check_servers,
    "sandbox": servers.check_sandbox,
    "plugin": plugins.check_plugins,
}


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run the checks, print their result and return the exit code.

    Raises:
        ChatError: An option is invalid, or no model can be measured; with `--json` it is printed as a document instead.
    """
    options = make_parser().parse(arguments)
    try:
        if options.speed:
            from .speed import measure_speed

            return measure_speed(options, environment)
        board = _find_board(options, environment)
    except ChatError as error:
        if options.output != "json":
            raise
        return write_error(error)
    if options.output == "fix-script":
        write_output(write_fix_script(board))
        return 0
    lines = _probe_tools(board) if options.tools else run_checks(board, environment, options.only)
    worst = max((line.state for line in lines), key=_STATES.index, default="ok")
    if options.output == "json":
        write_result({"lines": [asdict(line) for line in lines], "state": worst})
    elif options.output == "report":
        write_output(write_report(board, lines))
    else:
        write_output(_show(lines))
    return int(worst == "wrong")


def diagnose(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[tuple[str, str, str]]:
    """Return the rows of the report, for the chat. Raises UsageError."""
    lines = run_checks(_find_board(make_parser().parse(arguments), environment), environment)
    return [row for line in lines for row in ((line.state, line.name, line.value), ("", "", line.advice)) if row[2]]


def run_checks(board: Board, environment: Mapping[str, str], only: str = "") -> list[Finding]:
    """Run all checks, or only one, and hide the secrets of the configuration in their results."""
    secrets = Redactor()
    add_settings_secrets(secrets, board.settings, environment)
    checks = {only: CHECKS[only]} if only else CHECKS
    results = [line for name, check in checks.items() for line in run_check(name, check, board)]
    return [
        replace(line, value=secrets.redact_all(line.value), advice=secrets.redact_all(line.advice)) for line in results
    ]


def make_parser() -> Parser:
    """Build the argument parser of the command."""
    parser = Parser(prog="rkllm-chat doctor", description=_DESCRIPTION, epilog=_EPILOG)
    formats = (
        f"{', '.join(_FORMATS)} (default: text). report: Markdown to send to the developers, without names of people "
        "and machines; fix-script: a shell script for sudo that sets clocks, device rules and groups, or undoes it"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--output", metavar="FORMAT", choices=_FORMATS, default="text", help=formats)
    output.add_argument("--json", dest="output", action="store_const", const="json", help="print one JSON document")
    for name in ("report", "fix-script"):  # they go in version 0.3
        former = "--board-report" if name == "report" else f"--{name}"
        output.add_argument(former, dest="output", action="store_const", const=name, help=argparse.SUPPRESS)
    parser.add_argument(
        "--tools",
        action="store_true",
        help="load the model, try it with 18 questions about invented tools, and remember how it is asked best",
    )
    parser.add_argument(
        "--speed", action="store_true", help="load the model and measure the speed of prefill and decode"
    )
    parser.add_argument("--only", choices=CHECKS, default="", help=argparse.SUPPRESS)  # goes in 0.3, with `plugins`
    parser.add_argument("--root", metavar="DIR", default="/", help="examine the file system below DIR instead of /")
    parser.add_argument("--config", metavar="FILE", default="", help="read only this configuration file")
    models = "model file or service URL (default: that of the configuration); repeatable with --speed"
    parser.add_argument("-m", "--model", metavar="PATH|URL", action="append", help=models)
    parser.add_argument("--compare", dest="model", action="append", help=argparse.SUPPRESS)  # goes in version 0.3
    return parser


def _find_board(options: argparse.Namespace, environment: Mapping[str, str]) -> Board:
    """Return the machine and settings that the options select. Raises UsageError."""
    root = expand_home(options.root).resolve()
    if not root.is_dir():
        raise UsageError(f"The folder {options.root} does not exist.")
    settings, config_error = Settings(), ""
    try:
        settings = load_settings(options.config, environment)
    except ConfigError as error:
        config_error = str(error)
    if options.model:
        settings = replace_setting(settings, "model", options.model[-1])
    return Board(root, settings, environment, _find_files(options.config, environment), config_error)


def _probe_tools(board: Board) -> list[Finding]:
    """Try what the model can do with tools; an error of it is a finding."""
    from .tool_probes import probe_tools

    try:
        return asyncio.run(probe_tools(board.settings, state_folder(), _report_progress))
    except ChatError as error:
        return [Finding("tools", "wrong", error.message, error.hint)]


def _report_progress(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{sanitize_line(line)}\n")
    sys.stderr.flush()


def _find_files(config_option: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the configuration files in use: the named one, or those of the search path that exist."""
    return tuple(path for path, _ in find_config_files(config_option, environment))


def _show(lines: Sequence[Finding]) -> str:
    """Format the results as a table, with the advice below a result."""
    if not lines:
        return "Nothing was found.\n"
    width = max(len(line.name) for line in lines)
    text: list[str] = []
    for line in lines:
        text.append(f"{line.state:<5} {sanitize_line(line.name):<{width}}  {sanitize_line(line.value)}")
        if line.advice:
            text.append(f"{'':<5} {'':<{width}}  {sanitize_line(line.advice)}")
    return "\n".join(text) + "\n"
