"""How the process ends: by signals, with a terminal that is gone, and with output that cannot be written."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any


def run_interface(interface: Coroutine[Any, Any, int]) -> int:
    """Run an interface to its exit code.

    SIGINT, SIGTERM and SIGHUP cancel it, so that it cleans up; the exit codes are then 130, 143 and 129.
    """
    import asyncio  # takes longer than the rest of --help

    async def guarded() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(interface)
        received_signals: list[int] = []

        def stop(number: int) -> None:
            received_signals.append(number)
            if number == signal.SIGHUP:
                _detach_closed_terminal()
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        await asyncio.wait([task])
        if not task.cancelled() and isinstance(task.exception(), OSError) and _detach_closed_terminal():
            return 128 + signal.SIGHUP  # a write failed before SIGHUP arrived
        return 128 + received_signals[0] if task.cancelled() and received_signals else task.result()

    return asyncio.run(guarded())


def flush_output() -> None:
    """Write what is buffered; a terminal that is gone needs no output."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def is_output_broken() -> bool:
    """Return whether standard output cannot be written. A line break is written to find out."""
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        return True
    return False


def discard_unwritable_output() -> None:
    """Flush the output streams and discard what cannot be written any more.

    When the terminal is gone, Python would exit with 120 because of the data left in the buffers.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _detach_closed_terminal() -> bool:
    """Redirect all but standard input to /dev/null where its terminal has been closed.

    Writes then succeed, so that the cleanup can finish.

    Returns:
        Whether a terminal has been closed.
    """
    import termios

    closed: list[int] = []
    for descriptor in range(1, 64):  # what the chat opens at its start is small; /dev/fd would need /proc
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            closed += [descriptor] if error.args[0] == errno.EIO else []
    for descriptor in closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), descriptor)
    return bool(closed)
