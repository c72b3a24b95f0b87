"""One command from its first to its last moment: what it prints is out before the server is waited for.

What ends it early (an error, a signal, a reader that has gone) still ends the server.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from ..errors import ChatError, InterruptedByUserError
from ..oneshot.envelope import HELP, failure, printable, write
from ..oneshot.sitting import Sitting, Stopped, explain_fault, ignore_signals, listen_for_signals
from .options import no_options, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..reach import Opened
    from .options import Options

UNWRITTEN = 8


class Course(Sitting):
    """What one command has open, and what it leaves: complaints, and of each server its entry and its tools."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Opened] = []
        self.listed: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        self.complaints: list[str] = []


def run(words: Sequence[str]) -> int:
    """The exit code."""
    course, options = Course(), no_options()
    try:
        listen_for_signals()
        text, code = work(words, options, course)
        ignore_signals()
    except (Stopped, KeyboardInterrupt) as stop:
        name = stop.name if isinstance(stop, Stopped) else "SIGINT"
        error = InterruptedByUserError(f"Stopped by {name}.", phase=course.phase, signal=name)
        text, code = tell(error, options, course), 128 + signal.Signals[name]
    is_written = not text or write({HELP: text})
    complain(course, options.verbose)
    for entry, tools in course.listed:
        from .cache import cache_path, remember

        remember(cache_path(entry), tools)
    close_all([opened for opened in (course.opened, *course.others) if opened])
    return code if is_written else code or UNWRITTEN


def close_all(opened: Sequence[Opened]) -> None:
    """Ends the servers, side by side."""
    if len(opened) < 2:
        for one in opened:
            close(one)
        return
    from threading import Thread

    threads = [Thread(target=close, args=(one,)) for one in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def close(opened: Opened) -> None:
    with suppress(Exception):  # what there was to say is out, and there is nobody left to tell
        opened.close()


def work(words: Sequence[str], options: Options, course: Course) -> tuple[str, int]:
    """What goes to standard output, and the exit code."""
    try:
        rest = parse(words, options)
        if options.version:
            from .. import __version__

            return f"mcp-tool {__version__}", 0
        if rest[:1] == ["completion"]:
            from .shells import complete

            return complete(rest[1:], options), 0
        if rest:
            from .calling import call

            return call(rest[0], rest[1:], options, course), 0
        from .listing import list_all

        return list_all(options, course), 0
    except ChatError as error:
        return tell(error, options, course), error.exit_code
    except Exception as error:  # whatever it is, it is one line, and the server is ended
        fault = explain_fault(error)
        return tell(fault, options, course), fault.exit_code


def tell(error: ChatError, options: Options, course: Course) -> str:
    """Has an error told on standard error; gives the document of it, where documents are wanted."""
    lines = error.details.get("lines") or error.details.get("faults") or [str(error)]
    course.complaints += [str(line) for line in lines]
    if options.output not in ("json", "yaml"):
        return ""
    import json

    document = json.dumps(failure(error, course.secrets), ensure_ascii=False, default=str)
    if options.output == "json":
        return printable(document)
    from .outputs import to_yaml

    return to_yaml(json.loads(document))


def complain(course: Course, is_verbose: bool) -> None:
    """Writes what there is to say to standard error: every complaint in one line, without secrets."""
    from ..clean import clean, clean_line

    lines = [f"mcp-tool: {clean_line(line)}" for line in course.complaints]
    if is_verbose and course.opened is not None:
        lines.append(clean(course.opened.way.last_words))
    if lines:
        with suppress(OSError):
            data = "".join(f"{line}\n" for line in lines if line)
            os.write(sys.stderr.fileno(), course.secrets.hide_all(data).encode("utf-8", errors="replace"))
