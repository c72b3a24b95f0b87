"""Dispatch the `rkllm-chat` command line to a subcommand or to the chat.

This module turns command-line options into `Settings`, selects the interface and maps errors and signals to exit codes.
It imports the MCP SDK, the inference engines and the terminal interface only when they are needed, so that `--help`
stays fast.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..core.command_line import Parser
from ..core.errors import ChatError, UsageError
from ..core.plugins import find_plugin
from ..core.redact import Redactor
from ..core.sanitize import sanitize_for_terminal
from ..core.standard_streams import WRITE_ERROR_CODE, describe_write_error, open_missing_streams
from ..core.version import __version__
from . import json_commands
from .commands import COMMANDS, format_commands, split_command
from .process_end import discard_unwritable_output, flush_output, is_output_broken, run_interface
from .prompt_input import Prompt, PromptPart, read_prompt, read_schema

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..tui.theme import Theme

_DESCRIPTION = "Chat with an on-device model that calls MCP tools."
_PLAIN_TERMINALS = ("dumb", "unknown")
_PICK_SESSION = "pick"
_OUTPUT_FORMATS = ("text", "json", "stream-json")
_THEMES = ("auto", "light", "dark", "none")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rkllm-chat` and return the exit code.

    Args:
        argv: The arguments without the program's name; defaults to `sys.argv[1:]`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_missing_streams()
    try:
        try:
            return _dispatch(arguments)
        finally:  # also after the exit that argparse raises for --help
            flush_output()
    except ChatError as error:
        print(f"rkllm-chat: {sanitize_for_terminal(str(Redactor().redact_error(error)))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of the pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None or not is_output_broken():
            raise
        print(f"rkllm-chat: {describe_write_error(error)}", file=sys.stderr)
        return WRITE_ERROR_CODE
    finally:
        discard_unwritable_output()


def _dispatch(arguments: list[str]) -> int:
    """Run the subcommand that the arguments name, or the chat."""
    if arguments and arguments[0] in json_commands.SUMMARIES:
        json_commands.main(arguments)
    name, rest = split_command(arguments, make_parser())
    if name in json_commands.SUMMARIES:
        json_commands.main([name, *rest])
    if run := {"chat": run_chat, "new-server": _new_server}.get(name):
        return run(rest)
    is_built_in = name in COMMANDS
    module = import_module(f"...{COMMANDS[name].module}", __name__) if is_built_in else find_plugin("commands", name)
    code: int = module.main(rest)
    return code


def run_chat(arguments: Sequence[str]) -> int:
    """Start the interactive chat, or run one turn if there is text from `-p` or a pipe."""
    options = make_parser().parse(arguments)
    with _disabled_echo() if options.prompt is None else contextlib.nullcontext():
        return _chat_with(options)


def _chat_with(options: argparse.Namespace) -> int:
    """Run the chat with an exception hook and error messages that hide secrets."""
    secrets = Redactor()
    sys.excepthook = partial(print_traceback, secrets)
    try:
        return _start_interface(options, secrets)
    except ChatError as error:
        raise secrets.redact_error(error) from None


def _expand_prompt_file(prompt: Prompt | None) -> Prompt | None:
    """Replace `/name arguments` on the command line by the user's prompt of that name. Raises ChatError."""
    if prompt is None or not prompt.parts[0].is_typed or not prompt.parts[0].text.startswith("/"):
        return prompt
    from ..config.loader import state_folder
    from ..config.project_trust import TrustStore
    from ..config.prompt_files import expand_command

    text = expand_command(prompt.parts[0].text, TrustStore(str(state_folder())))
    return replace(prompt, parts=(PromptPart(text), *prompt.parts[1:]))


def _start_interface(options: argparse.Namespace, secrets: Redactor) -> int:
    """Load the settings and start the terminal chat or print mode."""
    _start_log(options, secrets)
    try:
        prompt, settings = _expand_prompt_file(read_prompt(options.prompt)), _load_settings(options)
        schema = read_schema(options.json_schema)
        if prompt is not None and settings.session == _PICK_SESSION:
            raise UsageError("--resume needs an ID for a single turn.", "rkllm-chat sessions lists them.")
    except ChatError as error:
        from . import print_mode

        return print_mode.print_error(secrets.redact_error(error), options.output_format)
    from ..config.loader import find_exposed_secrets, read_modification_times, state_folder
    from ..config.secrets import add_settings_secrets

    add_settings_secrets(secrets, settings, os.environ)
    exposed = find_exposed_secrets(options.config)
    if prompt is None:
        from ..chat.app import SettingsSource
        from ..config.files import find_own_config, find_single_file
        from ..tui import repl

        source = SettingsSource(
            partial(_load_settings, options),
            partial(read_modification_times, options.config),
            partial(_diagnose, options),
            Path(find_own_config(options.config)),
            find_single_file(options.config, os.environ),
        )
        themes = partial(_choose_theme, options)
        return run_interface(repl.run_chat(settings, state_folder(), themes, source, secrets, exposed))
    from . import print_mode

    output = print_mode.Output(options.output_format, options.quiet, options.no_stream, schema)
    limits = print_mode.Limits(options.timeout, options.max_cost_s)
    return run_interface(print_mode.run_prompt(settings, prompt, output, state_folder(), secrets, exposed, limits))


def _diagnose(options: argparse.Namespace, arguments: Sequence[str]) -> str:
    """Return the report of `rkllm-chat doctor` for the configuration of the chat."""
    from . import doctor

    return doctor.diagnose([*(("--config", options.config) if options.config else ()), *arguments])


@contextlib.contextmanager
def _disabled_echo() -> Iterator[None]:
    """Disable echo and line editing of the terminal until the chat reads its input.

    What the user types during startup stays in the terminal's buffer, with Enter as a carriage return.
    """
    if os.environ.get("TERM", "dumb") in _PLAIN_TERMINALS or sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    import termios

    input_fd = sys.stdin.fileno()
    original = termios.tcgetattr(input_fd)
    modified = termios.tcgetattr(input_fd)
    modified[0] &= ~termios.ICRNL
    modified[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(input_fd, termios.TCSANOW, modified)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal has been closed
            termios.tcsetattr(input_fd, termios.TCSADRAIN, original)


def _new_server(arguments: Sequence[str]) -> int:
    """Create the project of a user's own MCP server.

    The configuration entry is printed to standard output or, with `--add`, written to the configuration file.
    """
    from ..config import editor
    from ..mcp_servers import scaffold

    options = scaffold.make_parser().parse(arguments)
    plan = scaffold.plan_project(options.dest)
    addition = editor.plan_addition(plan.entry, plan.name) if options.add else ""
    scaffold.create_project(plan)
    message = f"Created the server {plan.name} in {plan.folder}. Run its tests there with pytest."
    if options.add:
        editor.append_entry(addition)
        _trust_added_server(plan.name)
        print(sanitize_for_terminal(f"{message} It is configured in {editor.DEFAULT_CONFIG_PATH}."), file=sys.stderr)
    else:
        print(
            sanitize_for_terminal(f"{message} Add this to {editor.DEFAULT_CONFIG_PATH}:\n"),
            file=sys.stderr,
            flush=True,
        )
        print(plan.entry, end="")
    return 0


def _trust_added_server(name: str) -> None:
    """Trust a server that the user has just added to this folder's configuration."""
    from ..config.editor import DEFAULT_CONFIG_PATH
    from ..config.loader import load_settings, state_folder
    from ..config.project_trust import TrustStore
    from ..mcp_client.acceptance import accept, review_start

    for server in load_settings().servers:
        if server.name == name and server.source == str(DEFAULT_CONFIG_PATH):
            accept(TrustStore(str(state_folder())), review_start(server))


def make_parser() -> Parser:
    """Build the argument parser of the chat."""
    parser = Parser(
        prog="rkllm-chat",
        usage="rkllm-chat [OPTIONS] [COMMAND ...]",
        description=_DESCRIPTION,
        epilog=format_commands(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    prompt = (
        "run one turn and exit; repeatable; - stands for standard input; a pipe is attached; @FILE, @URI attach too"
    )
    add("-p", "--prompt", metavar="TEXT", action="append", help=prompt)
    add("--output-format", choices=_OUTPUT_FORMATS, default="text", help="output format of -p (default: text)")
    add("-q", "--quiet", action="store_true", help="with -p: print the answer and errors alone")
    add("--no-stream", action="store_true", help="with -p: print the answer when it is complete")
    schema = "with -p: the answer is a JSON value that matches this JSON Schema, a file or the JSON itself"
    add("--json-schema", metavar="FILE|JSON", help=schema)
    add("--timeout", metavar="SECONDS", type=parse_seconds, help="with -p: end after this time, with exit code 7")
    cost = "with -p: end before a prompt that would be evaluated later than this after the turn began, by its forecast"
    add("--max-cost-s", metavar="SECONDS", type=parse_seconds, help=cost)
    model = "a .gguf or .rkllm file, or the URL of an OpenAI-compatible service (default: the bundled small model)"
    add("--model", metavar="PATH|URL", help=model)
    add("--backend", metavar="NAME", help="auto, rkllm, llama, openai or scripted (default: auto)")
    add("--config", metavar="FILE", default="", help="read only this configuration file")
    add("--server", metavar="NAME", action="append", help="use only this server; repeatable")
    add("--no-servers", action="store_true", help="use no servers")
    tool_format = "format of tool calls: json, xml, hermes ... (default: auto, that of the model's family)"
    add("--tool-format", metavar="NAME", help=tool_format)
    add("--system", metavar="TEXT", help="system prompt: the role of the model")
    add("--allow", metavar="PATTERN", action="append", help="run matching tools without asking; repeatable")
    add("--deny", metavar="PATTERN", action="append", help="never run matching tools; repeatable")
    session = parser.add_mutually_exclusive_group()
    session.add_argument("--continue", action="store_true", dest="newest", help="resume the newest session")
    resume = "resume this session; a unique prefix of its id is enough; without ID, pick one"
    session.add_argument("--resume", metavar="ID", nargs="?", const=_PICK_SESSION, help=resume)
    add("--language", metavar="CODE", help="language of the interface: en, ja or zh (default: auto, by the locale)")
    add("--max-steps", metavar="N", type=parse_positive, help="maximum rounds of tool calls in one turn (default: 8)")
    add("--max-tokens", metavar="N", type=parse_positive, help="maximum tokens of one reply (default: 1024)")
    add("--context", metavar="N", type=parse_positive, help="context size in tokens (default: that of the model)")
    add(
        "--temperature",
        metavar="X",
        type=parse_temperature,
        help="sampling temperature; 0 is greedy (default: that of the model, else 0.6)",
    )
    add("--seed", metavar="N", type=parse_integer, help="seed of the sampler, for repeatable replies")
    add("--theme", choices=_THEMES, help="colors: auto (default), light, dark or none")
    add("--no-color", action="store_true", help="disable colors, as --theme none does")
    log = "write a log of starts, stops, errors, and sizes and times of calls, as JSON lines (default: no log)"
    add("--log-file", metavar="FILE", help=log)
    add("--log-bodies", action="store_true", help="include sent and received content in the log, with secrets hidden")
    add("-v", "--verbose", action="store_true", help="log more details")
    add("--version", action="version", version=f"rkllm-chat {__version__}")
    return parser


def parse_positive(text: str) -> int:
    """Parse an integer from 1 to 1,000,000 for argparse."""
    number = parse_integer(text)
    if not 0 < number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"must be from 1 to 1000000, not {text}")
    return number


def parse_integer(text: str) -> int:
    """Parse an integer for argparse, whose own message would name this function."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None


def parse_seconds(text: str) -> float:
    """Parse a positive number of seconds, at most one day, for argparse."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text!r}") from None
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 86400, not {text}")
    return number


def parse_temperature(text: str) -> float:
    """Parse a sampling temperature from 0 to 100 for argparse."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"must be from 0 to 100, not {text}")
    return number


def _load_settings(options: argparse.Namespace) -> Settings:
    """Merge the configuration files, the saved rules and the command line into settings.

    Raises:
        ChatError: A file, a name or a server is invalid.
    """
    from ..chat.setting_choices import check_choices
    from ..config.loader import load_settings, state_folder
    from ..config.project_trust import TrustStore
    from ..config.trust_rules import Origin

    settings = load_settings(options.config)
    overrides = {
        "model": options.model,
        "backend": options.backend,
        "language": options.language,
        "system": options.system,
        "tool_format": options.tool_format,
        "max_steps": options.max_steps,
        "context_tokens": options.context,
        "theme": options.theme,
    }
    settings = replace(settings, **{key: value for key, value in overrides.items() if value is not None})
    generation_overrides = {"temperature": options.temperature, "max_tokens": options.max_tokens, "seed": options.seed}
    generation = replace(settings.generation, **{key: v for key, v in generation_overrides.items() if v is not None})
    policy = settings.policy
    saved_rules = TrustStore(str(state_folder())).read_rules()
    allow = tuple(dict.fromkeys((*policy.allow, *saved_rules["allow"], *(options.allow or ()))))
    deny = tuple(dict.fromkeys((*policy.deny, *saved_rules["deny"], *(options.deny or ()))))
    given = {key: value for key, value in {**overrides, **generation_overrides}.items() if value is not None}
    origins = {key if key in overrides else f"generation.{key}": Origin.COMMAND_LINE for key in given}
    policy = replace(policy, allow=allow, deny=deny)
    settings = replace(settings, generation=generation, policy=policy, origins={**settings.origins, **origins})
    check_choices(settings)
    return _choose_servers(replace(settings, session=_choose_session(options)), options)


def _choose_session(options: argparse.Namespace) -> str:
    """Return the id of the session to resume, "newest", "pick" for a question, or "" for a new session.

    The session is looked up here so that an unknown id fails before anything is opened.
    """
    if options.resume is None:
        return "newest" if options.newest else ""
    if options.resume == _PICK_SESSION:
        return _PICK_SESSION
    from ..config.loader import state_folder
    from ..storage.session_files import SessionDirectory

    return SessionDirectory(state_folder() / "sessions").find_id(options.resume)


def _choose_servers(settings: Settings, options: argparse.Namespace) -> Settings:
    """Apply `--server` and `--no-servers`. Raises ServerNotFoundError."""
    if options.no_servers:
        return replace(settings, servers=(), skipped=())
    if not options.server:
        return settings
    from ..config.servers import find_server

    chosen = {find_server(name, settings.servers, settings.skipped).name for name in options.server}
    return replace(settings, servers=tuple(s for s in settings.servers if s.name in chosen))


def _choose_theme(options: argparse.Namespace, name: str) -> Theme:
    """Return the theme of a name; one without colors if standard output shows none or a switch disables them."""
    from ..tui.theme import choose_theme

    is_disabled = options.no_color or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return choose_theme("none" if is_disabled or not sys.stdout.isatty() else name, os.environ)


def _start_log(options: argparse.Namespace, secrets: Redactor) -> None:
    """Configure logging to the file of `--log-file`, or to nowhere: the terminal shows the conversation."""
    handler: logging.Handler = logging.NullHandler()
    if options.log_file:
        from ..storage import log_file

        try:
            handler = log_file.LogFile(Path(options.log_file), secrets, bodies=options.log_bodies)
        except OSError as error:
            text = log_file.describe_open_error(options.log_file, error)
            raise UsageError(text, "Name a regular file that you can write.") from None
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.INFO, handlers=[handler], force=True)


def print_traceback(
    secrets: Redactor, error_type: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print the traceback of an internal error with secrets hidden; installed as `sys.excepthook`."""
    import traceback

    sys.stderr.write(
        sanitize_for_terminal(secrets.redact_all("".join(traceback.format_exception(error_type, error, trace))))
    )
