"""One command from its first to its last moment: stopped by nothing, it prints one document and leaves nothing behind.

What ends it early (a signal, an error, a reader that has gone) still ends the server, and first prints what it was.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress

from ..errors import ChatError, InterruptedByUserError, TimeLimitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..config import ServerConfig
    from ..reach import Opened
    from ..redact import Redactor

SCHEMA_S = 2.0
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """Somebody wants this command to end."""

    def __init__(self, number: int) -> None:
        self.name = signal.Signals(number).name


class Sitting:
    """What one command has open. `phase` is what it is doing; `opened` the server, once it is started.

    `chosen` is the server that it is about and the entry that it was made from.
    """

    def __init__(self) -> None:
        self.phase = "arguments"
        self.opened: Opened | None = None
        self.chosen: tuple[ServerConfig, Mapping[str, Any]] | None = None
        self.keep_s: float | None = None
        self.wants_meta = self.is_verbose = False

    @property
    def secrets(self) -> Redactor:
        """What must not come out."""
        from ..redact import Redactor

        return Redactor(*self.chosen, os.environ) if self.chosen else Redactor()

    def open(self, server: ServerConfig) -> Opened:
        """Starts or reaches the server. A signal that comes between its start and our knowing of it waits."""
        from ..reach import open_server

        self.phase = "start"
        with held_back() if server.command else nothing_held():
            self.opened = open_server(server, self.keep_s)
        return self.opened

    def meta(self) -> dict[str, Any]:
        """What was spoken, with whom, and how long each phase took."""
        if self.opened is None:
            return {}
        way = self.opened.way
        return {
            "server": self.opened.server.name,
            "serverInfo": way.info,
            "protocolVersion": way.version,
            "seconds": {phase: round(seconds, 6) for phase, seconds in way.seconds.items()},
        }


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 1 for a command that failed or whose document nobody read."""
    sitting = Sitting()
    fill_standard_streams()
    try:
        listen_for_signals()
        document = work(arguments, sitting)
        ignore_signals()
    except Stopped as stop:
        document = interrupted(stop.name, sitting)
    except KeyboardInterrupt:
        document = interrupted("SIGINT", sitting)
    from ..clean import clean
    from .envelope import write

    is_written = write(document)
    if (opened := sitting.opened) is not None:
        if sitting.is_verbose and (words := opened.way.last_words):
            sys.stderr.write(f"{clean(sitting.secrets.hide_all(words))}\n")
            sys.stderr.flush()
        with suppress(Exception):  # the document is out: there is nobody left to tell
            opened.close()
    return 0 if is_written and document.get("ok", True) else 1


def work(arguments: Sequence[str], sitting: Sitting) -> dict[str, Any]:
    """The document of a command."""
    try:
        from .commands import COMMANDS
        from .options import parse

        options = parse(arguments)
        if options.help:
            return {"help": options.help}
        sitting.wants_meta, sitting.is_verbose, sitting.keep_s = options.meta, options.verbose, options.keep_alive
        result = COMMANDS[options.command](options, sitting)
        document = {"ok": True, "result": sitting.secrets.hide(result)}
        return {**document, "meta": sitting.meta()} if sitting.wants_meta else document
    except ChatError as error:
        return fail(error, sitting)
    except Exception as error:  # whatever it is, whoever reads our output gets a document
        return fail(explain_fault(error), sitting)


def fail(error: ChatError, sitting: Sitting) -> dict[str, Any]:
    from .envelope import failure

    return failure(error, sitting.secrets)


def interrupted(name: str, sitting: Sitting) -> dict[str, Any]:
    return fail(InterruptedByUserError(f"Stopped by {name}.", phase=sitting.phase, signal=name), sitting)


def explain_fault(error: Exception) -> ChatError:
    """A fault of ours, with its place in our code."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename.rpartition('/')[2]}:{place.tb_lineno}" if place else ""
    return ChatError(f"{type(error).__name__}: {error}", "This is a fault of rkllm-chat.", where=where)


def fill_standard_streams() -> None:
    """Where one of the three is closed, the next pipe would take its number, and get what is meant for a reader."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number; what is written there fails


def listen_for_signals() -> None:
    """From now on a signal ends the command in good order, unless it was ignored from the start (nohup)."""

    def stop(number: int, _frame: object) -> None:
        ignore_signals()
        raise Stopped(number)

    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def ignore_signals() -> None:
    """The command is over; ending the server has its own limits."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def held_back() -> Iterator[None]:
    """Signals that would end the command come when this is left."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def schema_limit(seconds: float = SCHEMA_S) -> Iterator[None]:
    """A server's schema may hold a pattern that takes for ever to search: then this ends as a TimeLimitError."""

    def stop(_number: int, _frame: object) -> None:
        text = f"The tool's schema is not worked out within {seconds:g} s."
        raise TimeLimitError(text, "Give the arguments as JSON with --no-check.", phase="arguments")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def nothing_held() -> Iterator[None]:
    yield
