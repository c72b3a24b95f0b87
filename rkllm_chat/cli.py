"""The door: a command line becomes settings and one face, which is imported when it is chosen. The only exit codes.

It imports no SDK, no engine and no face itself, so `--help` costs next to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from . import __version__, oneshot
from .bundled import BUNDLED
from .clean import clean
from .errors import ChatError, ServerNotFoundError, UsageError

if TYPE_CHECKING:
    from .config import Settings

DESCRIPTION = "Chat with an on-device model that calls MCP tools."
EPILOG = (
    f"Other commands: rkllm-chat serve NAME (runs an MCP server that ships: {', '.join(BUNDLED)}),"
    " rkllm-chat new-server DEST (makes one of your own), rkllm-chat doctor (says what this machine needs),"
    f" and for scripts, with one JSON document each: rkllm-chat {', '.join(oneshot.NAMES)}. All of it: see the README."
)
PLAIN_TERMINALS = ("dumb", "unknown")
FORMS = ("text", "json", "stream-json")


def main(argv: Sequence[str] | None = None) -> int:
    """`rkllm-chat`. Gives the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["doctor"]:
            from . import doctor

            return doctor.main(arguments[1:])
        if arguments[:1] == ["new-server"]:
            return new_server(arguments[1:])
        if arguments and arguments[0] in oneshot.NAMES:
            oneshot.main(arguments)
        return serve(arguments[1:]) if arguments[:1] == ["serve"] else chat(arguments)
    except ChatError as error:
        print(f"rkllm-chat: {clean(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read our output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def chat(arguments: Sequence[str]) -> int:
    """The chat at the terminal, or one turn where there is text from -p or a pipe."""
    options = make_parser().parse_args(arguments)
    with hushed() if options.prompt is None else contextlib.nullcontext():
        return chat_with(options)


def chat_with(options: argparse.Namespace) -> int:
    start_log(options.log_file, options.verbose)
    try:
        line, settings = read_prompt(options.prompt), find(options)
    except ChatError as error:
        from . import ask

        return ask.fail(error, options.output_format)
    from .discover import state_folder, when_changed

    if line is None:
        from . import repl
        from .desk import Source

        source = Source(partial(find, options), partial(when_changed, options.config))
        return run(repl.chat(settings, state_folder(), use_color(options.no_color), source))
    from . import ask

    return run(ask.ask(settings, line, options.output_format, state_folder()))


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
        print(clean(f"{say} It is in {configfile.CONFIG} now."), file=sys.stderr)
    else:
        print(clean(f"{say} Put this into {configfile.CONFIG}:\n"), file=sys.stderr, flush=True)
        print(planned.entry, end="")
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rkllm-chat", description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("-p", "--prompt", metavar="TEXT", help="one turn, then exit; - reads standard input")
    add("--output-format", choices=FORMS, default="text", help="how -p answers (default: text)")
    model = "a .gguf or .rkllm file, or the URL of an OpenAI-compatible service (default: the small model that ships)"
    add("--model", metavar="PATH|URL", help=model)
    add("--backend", metavar="NAME", help="auto, rkllm, llama, openai or scripted (default: auto)")
    add("--config", metavar="FILE", default="", help="read this configuration alone")
    add("--server", metavar="NAME", action="append", help="only these servers; may be repeated")
    add("--no-servers", action="store_true", help="no servers at all")
    add("--tool-format", metavar="NAME", help="how calls are asked for: json or xml (default: json)")
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
    add("--log-file", metavar="FILE", help="where the program's own log goes (default: nowhere)")
    add("-v", "--verbose", action="store_true", help="a longer log")
    add("--version", action="version", version=f"rkllm-chat {__version__}")
    return parser


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
    from .discover import find_settings
    from .formats import FORMATS

    settings = find_settings(options.config)
    chosen = {
        "model": options.model,
        "backend": options.backend,
        "language": options.language,
        "system": options.system,
        "tool_format": None if options.tool_format == "auto" else options.tool_format,
        "max_steps": options.max_steps,
        "context_tokens": options.context,
    }
    settings = replace(settings, **{key: value for key, value in chosen.items() if value is not None})
    written = {"temperature": options.temperature, "max_tokens": options.max_tokens, "seed": options.seed}
    generation = replace(settings.generation, **{key: v for key, v in written.items() if v is not None})
    policy = settings.policy
    allow, deny = (*policy.allow, *(options.allow or ())), (*policy.deny, *(options.deny or ()))
    settings = replace(settings, generation=generation, policy=replace(policy, allow=allow, deny=deny))
    known = [language.AUTO, *language.languages()]
    check_choice("language", settings.language, known)
    check_choice("prompt language", settings.prompt_language, known)
    check_choice("tool format", settings.tool_format, list(FORMATS))
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


def read_prompt(option: str | None) -> str | None:
    """The text of one turn from -p, from standard input for `-p -` or a pipe; None for a chat."""
    if option is None and sys.stdin is not None and sys.stdin.isatty():
        return None
    if option in (None, "-"):
        data = sys.stdin.buffer.read() if sys.stdin is not None else b""
        option = data.decode("utf-8", errors="replace").strip()
    if not option or not option.strip():
        raise UsageError("The prompt is empty.", "Write it behind -p, or into standard input.")
    return option


def use_color(refused: bool) -> bool:
    plain = refused or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def start_log(path: str | None, verbose: bool) -> None:
    """Our log goes to a file or nowhere: the terminal belongs to the talk."""
    handler: logging.Handler = logging.NullHandler()
    if path:
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"The log file {path} cannot be written: {error.strerror}.") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)


def run(face: Coroutine[Any, Any, int]) -> int:
    """Runs a face to its exit code; SIGINT, SIGTERM and SIGHUP end it in good order, as 130, 143 and 129."""

    async def guarded() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(face)
        received: list[int] = []

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        await asyncio.wait([task])
        return 128 + received[0] if task.cancelled() and received else task.result()

    return asyncio.run(guarded())
