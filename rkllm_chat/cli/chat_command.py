"""Start the chat, or one turn of it: turn the command line into settings and select the interface.

The MCP SDK, the inference engines and the terminal interface are imported when they are needed.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..core.errors import ChatError, UsageError
from ..core.redact import Redactor
from ..core.sanitize import sanitize_for_terminal
from .chat_options import PICK_SESSION
from .process_end import run_interface
from .prompt_input import Prompt, PromptPart, read_prompt, read_schema
from .setting_options import parse_settings

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..tui.theme import Theme
    from .terminal_guard import TerminalGuard

_PLAIN_TERMINALS = ("dumb", "unknown")


def open_chat(options: argparse.Namespace) -> int:
    """Start the interactive chat, or run one turn if there is text from `-p` or a pipe; return the exit code.

    The exception hook and error messages hide secrets.

    Args:
        options: What the parser of `chat_options` returned.

    Raises:
        ChatError: The chat cannot be started, or it failed.
    """
    secrets = Redactor()
    sys.excepthook = partial(print_traceback, secrets)
    if options.plain:
        os.environ["TERM"] = "dumb"
    if options.message and (options.prompt or not (sys.stdin.isatty() and sys.stdout.isatty())):
        options.prompt = [*(options.prompt or ()), options.message]
    with _disabled_echo() if options.prompt is None else contextlib.nullcontext() as guard:
        if guard and sys.stdout.isatty():  # until the imports have ended; the first line of the chat covers it
            sys.stdout.write("...\r")
            sys.stdout.flush()
        try:
            return _start_interface(options, secrets, guard)
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


def _start_interface(options: argparse.Namespace, secrets: Redactor, guard: TerminalGuard | None) -> int:
    """Load the settings and start the terminal chat or print mode."""
    _start_log(options, secrets)
    if options.output_format == "prompt":
        options.print_prompt, options.output_format = True, "text"
    try:
        prompt, settings = _expand_prompt_file(read_prompt(options.prompt)), _load_settings(options)
        if prompt is None and options.image:
            raise UsageError("--image needs -p.", "In the chat, /attach FILE attaches a picture.")
        if prompt is None and options.print_prompt:
            raise UsageError("--output-format prompt needs -p.", "In the chat, /context prompt shows it.")
        prompt = prompt and replace(prompt, images=tuple(options.image))
        schema = read_schema(options.json_schema)
        if prompt is not None and settings.session == PICK_SESSION:
            raise UsageError("--resume needs an ID for a single turn.", "rkllm-chat sessions lists them.")
    except ChatError as error:
        from . import print_mode

        return print_mode.print_error(secrets.redact_error(error), options.output_format)
    from ..config.loader import find_exposed_secrets, read_modification_times, state_folder
    from ..config.secrets import add_settings_secrets

    add_settings_secrets(secrets, settings, os.environ)
    exposed = find_exposed_secrets(options.config)
    if prompt is None:
        from ..config.files import find_own_config, find_single_file
        from ..config.settings_source import SettingsSource
        from ..tui import repl

        if guard:
            from ..core import i18n

            words = i18n.load()
            words.set_language(settings.language)
            guard.set_message(words("repl.ended"))
        source = SettingsSource(
            partial(_load_settings, options),
            partial(read_modification_times, options.config),
            partial(_diagnose, options),
            Path(find_own_config(options.config)),
            find_single_file(options.config, os.environ),
        )
        themes = partial(_choose_theme, options)
        message = (options.message or "").strip()
        chat = repl.run_chat(settings, state_folder(), themes, source, secrets, exposed, options.output_dir, message)
        return run_interface(chat)
    from . import print_mode

    output = print_mode.Output(options.output_format, options.quiet, schema, options.output_dir, options.print_prompt)
    turn = print_mode.run_prompt(settings, prompt, output, state_folder(), secrets, exposed, options.timeout)
    return run_interface(turn)


def _diagnose(options: argparse.Namespace, arguments: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """Return the report of `rkllm-chat doctor` for the configuration of the chat."""
    from . import doctor

    return doctor.diagnose([*(("--config", options.config) if options.config else ()), *arguments])


@contextlib.contextmanager
def _disabled_echo() -> Iterator[TerminalGuard | None]:
    """Disable echo and line editing of the terminal until the chat reads its input, and restore them at the end.

    What the user types during startup stays in the terminal's buffer, with Enter as a carriage return. Yields the guard
    that restores them however the program ends; None if there is no terminal that can be changed.
    """
    if os.environ.get("TERM", "dumb") in _PLAIN_TERMINALS or sys.stdin is None or not sys.stdin.isatty():
        yield None
        return
    import termios

    from .terminal_guard import TerminalGuard

    input_fd = sys.stdin.fileno()
    guard = TerminalGuard(input_fd)
    original = termios.tcgetattr(input_fd)
    modified = termios.tcgetattr(input_fd)
    modified[0] &= ~termios.ICRNL
    modified[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(input_fd, termios.TCSANOW, modified)
    try:
        yield guard
    finally:
        with contextlib.suppress(termios.error):  # the terminal has been closed
            termios.tcsetattr(input_fd, termios.TCSADRAIN, original)
        guard.end()


def _load_settings(options: argparse.Namespace, session: str = "") -> Settings:
    """Merge the configuration files, the saved rules and the command line into settings.

    Args:
        options: The command line.
        session: Id of the session to resume that the user has picked meanwhile.

    Raises:
        ChatError: A file, a name or a server is invalid.
    """
    from ..chat.setting_choices import check_setting_choices
    from ..config.loader import load_settings, state_folder
    from ..config.named_settings import replace_setting
    from ..config.policy import qualify_patterns
    from ..config.project_trust import TrustStore, needs_acceptance

    settings = replace(load_settings(options.config), session=session or _choose_session(options))
    written = [(key, value) for key in ("model", "system") if (value := getattr(options, key)) is not None]
    written += parse_settings(options.set)
    if settings.session not in ("", PICK_SESSION) and "model" not in dict(written):
        from ..chat.sessions import adopt_model

        settings = adopt_model(settings, state_folder())
    for key, value in written:
        settings = replace_setting(settings, key, value)
    policy = settings.policy
    saved_rules = TrustStore(str(state_folder())).read_rules()
    given = options.allow or ()
    if any(map(needs_acceptance, settings.servers)):  # who names a tool here and now means the folder's server too
        given = qualify_patterns(given)
    allow = tuple(dict.fromkeys((*policy.allow, *saved_rules["allow"], *given)))
    deny = tuple(dict.fromkeys((*policy.deny, *saved_rules["deny"], *(options.deny or ()))))
    policy = replace(policy, allow=allow, deny=deny)
    settings = replace(settings, policy=policy)
    check_setting_choices(settings)
    return _choose_servers(settings, options)


def _choose_session(options: argparse.Namespace) -> str:
    """Return the id of the session to resume, "newest", "pick" for a question, or "" for a new session.

    The session is looked up here so that an unknown id fails before anything is opened.
    """
    if options.resume is None:
        return "newest" if options.newest else ""
    if options.resume == PICK_SESSION:
        return PICK_SESSION
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
            bodies = options.log_bodies or options.verbose > 1
            handler = log_file.LogFile(Path(options.log_file), secrets, bodies=bodies)
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
