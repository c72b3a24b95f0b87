"""The door: a command line becomes settings and one face, which is imported when it is chosen. The only exit codes.

It imports no SDK, no engine and no face itself, so `--help` costs next to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from . import __version__, oneshot
from .bundled import BUNDLED
from .clean import clean
from .errors import ChatError, ServerNotFoundError, UsageError
from .redact import Redactor

if TYPE_CHECKING:
    from .config import Settings

DESCRIPTION = "Chat with an on-device model that calls MCP tools."
EPILOG = (
    f"Other commands: rkllm-chat serve NAME (runs an MCP server that ships: {', '.join(BUNDLED)}),"
    " rkllm-chat new-server DEST (makes one of your own), rkllm-chat trust NAME (accepts a server of this folder),"
    " rkllm-chat doctor (says what this machine needs),"
    f" and for scripts, with one JSON document each: rkllm-chat {', '.join(oneshot.NAMES)}. All of it: see the README."
)
PLAIN_TERMINALS = ("dumb", "unknown")
FORMS = ("text", "json", "stream-json")
LARGEST_PROMPT = 16 << 20


def main(argv: Sequence[str] | None = None) -> int:
    """`rkllm-chat`. Gives the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["doctor"]:
            from . import doctor

            return doctor.main(arguments[1:])
        if arguments[:1] == ["new-server"]:
            return new_server(arguments[1:])
        if arguments[:1] == ["trust"]:
            from . import accept

            return accept.main(arguments[1:])
        if arguments and arguments[0] in oneshot.NAMES:
            oneshot.main(arguments)
        return serve(arguments[1:]) if arguments[:1] == ["serve"] else chat(arguments)
    except ChatError as error:
        print(f"rkllm-chat: {clean(str(Redactor().mend(error)))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read our output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    finally:
        drop_unsaid()


def drop_unsaid() -> None:
    """Drops what cannot be written any more, as where the terminal has gone: Python would exit with 120 for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def chat(arguments: Sequence[str]) -> int:
    """The chat at the terminal, or one turn where there is text from -p or a pipe."""
    options = make_parser().parse_args(arguments)
    with hushed() if options.prompt is None else contextlib.nullcontext():
        return chat_with(options)


def chat_with(options: argparse.Namespace) -> int:
    secrets = Redactor()
    sys.excepthook = partial(show_fault, secrets)
    try:
        return talk(options, secrets)
    except ChatError as error:
        raise secrets.mend(error) from None


def talk(options: argparse.Namespace, secrets: Redactor) -> int:
    start_log(options, secrets)
    try:
        (line, is_mended), settings = read_prompt(options.prompt), find(options)
    except ChatError as error:
        from . import ask

        return ask.fail(secrets.mend(error), options.output_format)
    from .discover import find_exposed, state_folder, when_changed

    secrets.learn_settings(settings, os.environ)
    exposed = find_exposed(options.config)
    if line is None:
        from . import repl
        from .desk import Source

        source = Source(partial(find, options), partial(when_changed, options.config))
        return run(repl.chat(settings, state_folder(), use_color(options.no_color), source, secrets, exposed))
    from . import ask

    return run(ask.ask(settings, line, options.output_format, state_folder(), secrets, is_mended, exposed))


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Keeps what is typed while we start for the screen: it is not shown, and an Enter stays an Enter."""
    if os.environ.get("TERM", "dumb") in PLAIN_TERMINALS or sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    import termios

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    now = termios.tcgetattr(keyboard)
    now[0] &= ~termios.ICRNL
    now[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(keyboard, termios.TCSANOW, now)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def serve(arguments: Sequence[str]) -> int:
    """Runs a bundled MCP server: on standard input and output, or over HTTP until a signal ends it."""
    from . import bundled

    options = bundled.read_options(arguments)
    if options.http is None:
        bundled.build_server(options).run("stdio")
        return 0
    logging.basicConfig(level=logging.ERROR, format="rkllm-chat: %(message)s")
    from .bundled import http

    token = http.read_token(options.token_env)
    server = bundled.build_server(options)
    with http.listen(options.host, options.http) as listener:
        url = http.find_url(listener, options.host)
        print(f"rkllm-chat: {options.name} listens at {url}", file=sys.stderr, flush=True)
        return run(http.serve(server, listener, options.host, token))


def new_server(arguments: Sequence[str]) -> int:
    """Makes a server project of the user's own; its configuration entry goes to standard output or into the file."""
    from . import configfile
    from .bundled import project

    options = project.read_options(arguments)
    planned = project.plan(options.dest)
    addition = configfile.plan_addition(planned.entry, planned.name) if options.add else ""
    project.make(planned)
    say = f"Made the server {planned.name} in {planned.folder}; try it there with pytest."
    if options.add:
        configfile.add(addition)
        accept_own(planned.name)
        print(clean(f"{say} It is in {configfile.CONFIG} now."), file=sys.stderr)
    else:
        print(clean(f"{say} Put this into {configfile.CONFIG}:\n"), file=sys.stderr, flush=True)
        print(planned.entry, end="")
    return 0


def accept_own(name: str) -> None:
    """A server that the user himself has put into the configuration of this folder needs no question."""
    from .configfile import CONFIG
    from .discover import find_settings, state_folder
    from .trust import Accepted

    for server in find_settings().servers:
        if server.name == name and server.source == str(CONFIG):
            Accepted(str(state_folder())).accept(server)


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="rkllm-chat", description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("-p", "--prompt", metavar="TEXT", help="one turn, then exit; - reads standard input")
    add("--output-format", choices=FORMS, default="text", help="how -p answers (default: text)")
    model = "a .gguf or .rkllm file, or the URL of an OpenAI-compatible service (default: the small model that ships)"
    add("--model", metavar="PATH|URL", help=model)
    add("--backend", metavar="NAME", help="auto, rkllm, llama, openai or scripted (default: auto)")
    add("--config", metavar="FILE", default="", help="read this configuration alone")
    add("--server", metavar="NAME", action="append", help="only these servers; may be repeated")
    add("--no-servers", action="store_true", help="no servers at all")
    forms = "how calls are asked for: json, xml, hermes ... (default: auto, in the form of the model's family)"
    add("--tool-format", metavar="NAME", help=forms)
    add("--system", metavar="TEXT", help="who the model is to be")
    add("--allow", metavar="PATTERN", action="append", help="run these tools without asking; may be repeated")
    add("--deny", metavar="PATTERN", action="append", help="never run these tools; may be repeated")
    go_on = parser.add_mutually_exclusive_group()
    go_on.add_argument("--continue", action="store_true", dest="newest", help="go on with the newest session")
    go_on.add_argument("--resume", metavar="ID", help="go on with this session; the beginning of its id is enough")
    add("--language", metavar="CODE", help="en, ja or zh (default: auto, that of the locale)")
    add("--max-steps", metavar="N", type=positive, help="rounds of tool calls in one turn (default: 8)")
    add("--max-tokens", metavar="N", type=positive, help="tokens of one reply (default: 1024)")
    add("--context", metavar="N", type=positive, help="tokens of context (default: the model's own)")
    add("--temperature", metavar="X", type=warmth, help="0 is greedy (default: what the model asks for, else 0.6)")
    add("--seed", metavar="N", type=int, help="makes sampling repeatable")
    add("--no-color", action="store_true", help="no colours")
    log = "the program's own log, as JSON lines: starts, stops, faults, and of calls sizes and times (default: none)"
    add("--log-file", metavar="FILE", help=log)
    add("--log-bodies", action="store_true", help="in the log also what is sent and received, without secrets")
    add("-v", "--verbose", action="store_true", help="a longer log")
    add("--version", action="version", version=f"rkllm-chat {__version__}")
    return parser


class Parser(argparse.ArgumentParser):
    """Names the option that was probably meant."""

    def error(self, message: str) -> NoReturn:
        words = message.split() if message.startswith("unrecognized arguments") else []
        options = [option for action in self._actions for option in action.option_strings]
        unknown = [word.partition("=")[0] for word in words if word.startswith("-") and word not in options]
        near = [get_close_matches(word, options, n=1) for word in unknown]
        meant = " or ".join(dict.fromkeys(option for found in near for option in found))
        super().error(f"{clean(message)}. Did you mean {meant}?" if meant else clean(message))


def positive(text: str) -> int:
    number = int(text)
    if not 0 < number <= 1_000_000:
        raise argparse.ArgumentTypeError("must be from 1 to 1000000")
    return number


def warmth(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError("must be from 0 to 100")
    return number


def find(options: argparse.Namespace) -> Settings:
    """The settings of the configuration files, with what the command line says over them."""
    from . import language
    from .backends import BACKENDS
    from .discover import find_settings, state_folder
    from .families import AUTO
    from .formats import FORMATS
    from .trust import Accepted

    settings = find_settings(options.config)
    chosen = {
        "model": options.model,
        "backend": options.backend,
        "language": options.language,
        "system": options.system,
        "tool_format": options.tool_format,
        "max_steps": options.max_steps,
        "context_tokens": options.context,
    }
    settings = replace(settings, **{key: value for key, value in chosen.items() if value is not None})
    written = {"temperature": options.temperature, "max_tokens": options.max_tokens, "seed": options.seed}
    generation = replace(settings.generation, **{key: v for key, v in written.items() if v is not None})
    policy = settings.policy
    kept = Accepted(str(state_folder())).read_rules()
    allow = tuple(dict.fromkeys((*policy.allow, *kept["allow"], *(options.allow or ()))))
    deny = tuple(dict.fromkeys((*policy.deny, *kept["deny"], *(options.deny or ()))))
    settings = replace(settings, generation=generation, policy=replace(policy, allow=allow, deny=deny))
    known = [language.AUTO, *language.languages()]
    check_choice("language", settings.language, known)
    check_choice("prompt language", settings.prompt_language, known)
    check_choice("tool format", settings.tool_format, [AUTO, *FORMATS])
    check_choice("backend", settings.backend, ["auto", *BACKENDS])
    return choose_servers(replace(settings, session=choose_session(options)), options)


def choose_session(options: argparse.Namespace) -> str:
    """The session to go on with, looked up before anything is opened; "" for a new one."""
    if options.resume is None:
        return "newest" if options.newest else ""
    from .discover import state_folder
    from .journal import Shelf

    return Shelf(state_folder() / "sessions").find(options.resume)


def check_choice(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UsageError(f'There is no {what} "{name}".', f"Known are {', '.join(known)}.")


def choose_servers(settings: Settings, options: argparse.Namespace) -> Settings:
    if options.no_servers:
        return replace(settings, servers=())
    if not options.server:
        return settings
    names = [server.name for server in settings.servers]
    for name in options.server:
        if name not in names:
            raise ServerNotFoundError(
                f'There is no server "{name}".', f"Configured are {', '.join(names)}.", available=names
            )
    return replace(settings, servers=tuple(s for s in settings.servers if s.name in options.server))


def read_prompt(option: str | None) -> tuple[str | None, bool]:
    """The text of one turn from -p, from standard input for `-p -` or a pipe, None for a chat; and whether bytes in it
    that are no UTF-8 were replaced. No more of standard input is read than a prompt may have."""
    if option is None and sys.stdin is not None and sys.stdin.isatty():
        return None, False
    data = (option or "").encode("utf-8", errors="surrogateescape")  # as Python keeps bytes of the command line
    if option in (None, "-"):
        data = sys.stdin.buffer.read(LARGEST_PROMPT + 1).strip() if sys.stdin is not None else b""
    if len(data) > LARGEST_PROMPT:
        raise UsageError(f"The prompt is larger than {LARGEST_PROMPT >> 20} MB.", "Put it into a file for a tool.")
    text = data.decode("utf-8", errors="replace")
    if not text.strip():
        raise UsageError("The prompt is empty.", "Write it behind -p, or into standard input.")
    return text, text.encode() != data


def use_color(refused: bool) -> bool:
    plain = refused or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def start_log(options: argparse.Namespace, secrets: Redactor) -> None:
    """Our log goes to a file or nowhere: the terminal belongs to the talk."""
    handler: logging.Handler = logging.NullHandler()
    if options.log_file:
        from . import logfile

        try:
            handler = logfile.LogFile(Path(options.log_file), secrets, bodies=options.log_bodies)
        except OSError as error:
            text = logfile.explain_refusal(options.log_file, error)
            raise UsageError(text, "Name a plain file of yours.") from None
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.INFO, handlers=[handler], force=True)


def show_fault(secrets: Redactor, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A fault of ours as Python shows it, without what may be secret in it."""
    import traceback

    sys.stderr.write(clean(secrets.hide_all("".join(traceback.format_exception(kind, error, trace)))))


def run(face: Coroutine[Any, Any, int]) -> int:
    """Runs a face to its exit code; SIGINT, SIGTERM and SIGHUP end it in good order, as 130, 143 and 129."""

    async def guarded() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(face)
        received: list[int] = []

        def stop(number: int) -> None:
            received.append(number)
            if number == signal.SIGHUP:
                let_go_of_terminal()
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        await asyncio.wait([task])
        if not task.cancelled() and isinstance(task.exception(), OSError) and let_go_of_terminal():
            return 128 + signal.SIGHUP  # it was written to before the signal came
        return 128 + received[0] if task.cancelled() and received else task.result()

    return asyncio.run(guarded())


def let_go_of_terminal() -> bool:
    """Sends what would be written to a terminal that has gone to nowhere, so that all can be closed in good order.

    Says whether one has gone.
    """
    import termios

    gone: list[int] = []
    for file in (1, 2):
        try:
            termios.tcgetattr(file)
        except termios.error as error:
            gone += [file] if error.args[0] == errno.EIO else []
    for file in gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), file)
    return bool(gone)
