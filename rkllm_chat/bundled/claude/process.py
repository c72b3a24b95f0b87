"""Runs a command to its end: text in, what it wrote out, within a time, and nothing of it is left behind.

On Linux children are found also when they have left the group, and they are ended even when this program is killed
(`servers/processes.py`); on macOS the group alone is ended, on Windows the command alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from ...servers.processes import find_living, send_all, start_guard
from ...servers.programs import MARK

LARGEST_OUTPUT = 16 << 20
LARGEST_ERRORS = 64 << 10
GRACE_S = 1.5
POLL_S = 0.02
ON_LINUX = sys.platform == "linux"


@dataclass(frozen=True)
class Done:
    """How a command ended. `exit_code` is None where its time ran out, negative for a signal.

    `output` is cut at LARGEST_OUTPUT bytes, and then `is_cut`; of `errors` the last LARGEST_ERRORS bytes are kept.
    """

    exit_code: int | None
    output: bytes
    errors: bytes
    is_cut: bool


class Family:
    """The processes of one command, known by its group and by a mark in their environment."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(8)
        self._named = f"{MARK}={self.mark}"
        self._guard = start_guard(self._named) if ON_LINUX else None
        self._process: Process | None = None

    def adopt(self, process: Process) -> None:
        self._process = process
        if self._guard and self._guard.stdin:
            self._guard.stdin.write(f"{process.pid}\n".encode())

    async def end(self) -> None:
        """All are asked to end, and after GRACE_S made to."""
        for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            if not self._send(number):
                return
            with anyio.move_on_after(GRACE_S):
                while self._is_alive():  # noqa: ASYNC110 - the kernel tells nobody
                    await anyio.sleep(POLL_S)

    def _send(self, number: signal.Signals) -> bool:
        """Whether there was anybody to signal."""
        if self._process is None:
            return False
        if ON_LINUX:
            return send_all(self._process.pid, self._named.encode(), number)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self._process.pid, number)
            return True
        return False

    def _is_alive(self) -> bool:
        if ON_LINUX and self._process:
            return bool(find_living(self._process.pid, self._named.encode()))
        return self._process is not None and self._process.returncode is None

    def close(self) -> None:
        if self._guard:
            self._guard.kill()
            self._guard.communicate()


async def run(command: Sequence[str], text: str, limit_s: float, environment: Mapping[str, str], cwd: Path) -> Done:
    """Gives the command a text on its standard input and waits for its end, `limit_s` seconds at most.

    It is ended with all its children when the time has run out, when the caller is cancelled, and what it has left
    running when it ends by itself. Raises OSError where it cannot be started.
    """
    family = Family()
    output, errors = bytearray(), bytearray()
    cut: list[bool] = []
    process: Process | None = None
    try:
        process = await anyio.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**environment, MARK: family.mark},
            start_new_session=True,
        )
        family.adopt(process)
        assert process.stdin and process.stdout and process.stderr
        with anyio.move_on_after(limit_s) as limit:
            async with anyio.create_task_group() as group:
                group.start_soon(feed, process.stdin, text.encode(errors="replace"))
                group.start_soon(collect, process.stdout, output, cut)
                group.start_soon(keep_tail, process.stderr, errors)
                await process.wait()
                await family.end()  # whom it has left behind would hold the pipes open
    finally:
        with anyio.CancelScope(shield=True):
            await family.end()
            if process:
                await process.aclose()
            family.close()
    exit_code = None if limit.cancelled_caught else process.returncode
    return Done(exit_code, bytes(output), bytes(errors), bool(cut))


async def feed(pipe: ByteSendStream, data: bytes) -> None:
    """Writes it all; a command that does not read its input says itself why."""
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await pipe.send(data)
    await pipe.aclose()


async def collect(pipe: ByteReceiveStream, into: bytearray, cut: list[bool]) -> None:
    async for data in pipe:
        into += data[: LARGEST_OUTPUT - len(into)]
        if len(into) == LARGEST_OUTPUT:
            cut.append(True)


async def keep_tail(pipe: ByteReceiveStream, into: bytearray) -> None:
    async for data in pipe:
        into += data
        del into[:-LARGEST_ERRORS]
