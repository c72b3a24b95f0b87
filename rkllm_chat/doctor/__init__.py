"""`rkllm-chat doctor`: what this machine, its model and its configuration need. It reads files and writes none.

CHECKS is what is looked at, in the order in which it is told; each looks for itself, so one that fails hides no other.
It starts no program, loads no library and no model, and asks no MCP server; a service that has the model is asked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..clean import clean_json, clean_line
from ..config import Settings
from ..discover import find_settings, places
from ..errors import ConfigError, UsageError
from ..redact import Redactor
from . import machine, model, servers, service
from .board import Board, Check, Line, State, run_check
from .report import write_report

DESCRIPTION = "Say what this machine, its model and its configuration need. It reads files and starts nothing."
EPILOG = "Exit codes: 0 nothing is wrong, 1 something is wrong, 2 usage."
STATES: tuple[State, ...] = ("ok", "look", "wrong")  # from the best to the worst

CHECKS: dict[str, Check] = {
    "configuration": model.check_configuration,
    "user": machine.check_user,
    "platform": machine.check_platform,
    "kernel": machine.check_kernel,
    "driver": machine.check_driver,
    "nodes": machine.check_nodes,
    "library": model.check_library,
    "model": model.check_model,
    "service": service.check_services,
    "context": model.check_context,
    "memory": model.check_memory,
    "domain": model.check_domain,
    "tokenizer": model.check_tokenizer,
    "template": model.check_template,
    "calls": model.check_calls,
    "NPU": machine.check_npu,
    "DDR": machine.check_ddr,
    "CPU": machine.check_cpus,
    "temperature": machine.check_temperature,
    "servers": servers.check_servers,
    "sandbox": servers.check_sandbox,
}


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Looks and tells; gives the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        board = find_board(options, environment)
    except UsageError as error:
        if not options.json:
            raise
        write_json({"ok": False, "error": {"type": error.type_word, "message": str(error), "details": {}}})
        return error.exit_code
    lines = look(board, environment)
    worst = max((line.state for line in lines), key=STATES.index)
    if options.json:
        write_json({"ok": True, "result": {"lines": [asdict(line) for line in lines], "state": worst}})
    elif options.board_report:
        write(write_report(board, lines))
    else:
        write(show(lines))
    return int(worst == "wrong")


def describe(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """The same as text, for a face of this program. Raises UsageError."""
    board = find_board(make_parser().parse_args(arguments), environment)
    return show(look(board, environment))


def look(board: Board, environment: Mapping[str, str]) -> list[Line]:
    """What all checks found, without secrets of the configuration."""
    secrets = Redactor()
    secrets.learn_settings(board.settings, environment)
    found = [line for name, check in CHECKS.items() for line in run_check(name, check, board)]
    return [replace(line, value=secrets.hide_all(line.value), advice=secrets.hide_all(line.advice)) for line in found]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rkllm-chat doctor", description=DESCRIPTION, epilog=EPILOG)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument("--board-report", action="store_true", help="Markdown to send us, with what a run must tell")
    parser.add_argument("--root", metavar="DIR", default="/", help="look into DIR in place of / (files somebody sent)")
    parser.add_argument("--config", metavar="FILE", default="", help="read this configuration alone")
    parser.add_argument(
        "--model", metavar="PATH|URL", help="a model's file or URL (default: that of the configuration)"
    )
    return parser


def find_board(options: argparse.Namespace, environment: Mapping[str, str]) -> Board:
    """The machine and the settings of the options. Raises UsageError."""
    root = Path(options.root).expanduser().resolve()
    if not root.is_dir():
        raise UsageError(f"There is no folder {options.root}.")
    settings, trouble = Settings(), ""
    try:
        settings = find_settings(options.config, environment)
    except ConfigError as error:
        trouble = str(error)
    if options.model is not None:
        settings = replace(settings, model=options.model)
    return Board(root, settings, environment, find_files(options.config, environment), trouble)


def find_files(named: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The configuration files that count."""
    if alone := named or environment.get("RKLLM_CHAT_CONFIG", ""):
        return (alone,)
    return tuple(str(path) for path in places(environment) if path.is_file())


def show(lines: Sequence[Line]) -> str:
    """One line each, the advice below it."""
    width = max(len(line.name) for line in lines)
    text: list[str] = []
    for line in lines:
        text.append(f"{line.state:<5} {clean_line(line.name):<{width}}  {clean_line(line.value)}")
        if line.advice:
            text.append(f"{'':<5} {'':<{width}}  {clean_line(line.advice)}")
    return "\n".join(text) + "\n"


def write_json(value: Any) -> None:
    write(clean_json(json.dumps(value, ensure_ascii=False)) + "\n")


def write(text: str) -> None:
    """In UTF-8 whatever the locale is; what UTF-8 cannot hold becomes "?"."""
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
    sys.stdout.buffer.flush()
