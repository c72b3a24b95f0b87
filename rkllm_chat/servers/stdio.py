"""A server that is a process of ours and speaks over its standard input and output, one JSON-RPC message a line.

Whatever it writes or does not read, this side neither blocks nor grows: lines have a limit, standard error goes to a
small log, and a server that does not read its input for as long as a call may take is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import termios
from collections.abc import Callable
from pathlib import Path

from mcp.shared.message import SessionMessage

from ..config import ServerConfig
from ..errors import ConnectError
from .lines import MB, MOST_DISCARDED, Lines
from .processes import Process
from .programs import describe_exit, find_command, find_folder, plan_start
from .transport import Transport

READ_SIZE = 1 << 18
MOST_UNWRITTEN = 32 * MB
MOST_DRAINED = 4 * MB
PLAN_S = 20.0
EXIT_S = 0.1
FLUSH_S = 0.3
GRACE_S = 1.0
POLL_S = 0.02


class Stdio(Transport):
    """Starts the server's command. Raises ConnectError, with the reason in words, if it cannot be started."""

    _process: Process

    def __init__(self, server: ServerConfig, log: Path) -> None:
        super().__init__(server, log)
        self.kind = "stdio"
        find_command(server), find_folder(server)
        self._unwritten = bytearray()
        self._is_started = False
        self._written = self._heard = 0
        self._watch: asyncio.TimerHandle | None = None
        self._fading: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()
        self._exited = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines = Lines(self._exchange.take_line, self._exchange.refuse_line)
        try:
            start = await asyncio.wait_for(asyncio.to_thread(plan_start, self.server, self.roots), PLAN_S)
            self.sandbox = start.sandbox
            self._process = Process(start)
        except OSError as error:
            reason = f'Server "{self.server.name}": {self.server.command} cannot be started: {error.strerror}.'
            raise ConnectError(reason, server=self.server.name) from error
        self._is_started = True
        self._loop.add_reader(self._process.stdout, self._read_output)
        self._loop.add_reader(self._process.stderr, self._read_errors)
        self._loop.add_reader(self._process.death, self._note_exit)

    def explain_denial(self, text: str) -> str:
        if self.sandbox is None or not self._is_started or self._over.is_set():
            return ""
        outermost = self._process.pid  # bubblewrap's first process has our network
        inner = [pid for pid in self._process.living() if pid != outermost]
        return self.sandbox.explain_denial(inner, text)

    def _read_output(self) -> int:
        data = self._read(self._process.stdout, self._fade)
        has_begun = self._heard == 0
        self._heard += len(data)
        if not self._over.is_set():
            if has_begun and self._watch:
                self._watch_reading()
            self._lines.feed(data)
            if self._lines.discarded > MOST_DISCARDED:
                self._exchange.refuse_line(self._lines.head, self._lines.discarded)
                self._stop(f"sent more than {MOST_DISCARDED // MB} MB on one line", is_patient=False)
        return len(data)

    def _read_errors(self) -> int:
        data = self._read(self._process.stderr)
        self._log.hear(data)
        return len(data)

    def _read(self, pipe: int, at_end: Callable[[str], None] | None = None) -> bytes:
        try:
            data = os.read(pipe, READ_SIZE)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(pipe)
            if at_end:
                at_end("closed its standard output")
        return data

    def _note_exit(self) -> None:
        """It has ended: what it wrote until then still counts, and its children end with it."""
        self._loop.remove_reader(self._process.death)
        self._exited.set()
        self.exit_code = self._process.exit_code
        self._drain(self._read_errors)
        self._drain(self._read_output)
        self._stop(describe_exit(self.exit_code or 0))

    def _drain(self, read: Callable[[], int]) -> None:
        """What is left in a pipe; a child that still writes does not make it endless."""
        left = MOST_DRAINED
        while left > 0 and (size := read()):
            left -= size

    def _fade(self, reason: str) -> None:
        """One of its pipes is closed: it is over, with its exit code as the reason if it has one soon."""
        if self._fading is None:
            self._fading = self._loop.call_later(EXIT_S, self._stop, reason)

    def _put(self, message: SessionMessage, text: str) -> None:  # noqa: ARG002 - the text is all there is
        if self._over.is_set():
            return
        line = f"{text}\n".encode()
        self._unwritten += line
        self._written += len(line)
        self._write()
        if len(self._unwritten) > MOST_UNWRITTEN:
            self._stop("does not read its input")
        elif self._watch is None:
            self._watch_reading()

    def _write(self) -> None:
        """Writes what the pipe takes; the loop calls again for the rest."""
        pipe = self._process.stdin
        try:
            while self._unwritten:
                del self._unwritten[: os.write(pipe, self._unwritten)]
            self._loop.remove_writer(pipe)
        except BlockingIOError:
            self._loop.add_writer(pipe, self._write)
        except OSError:
            self._unwritten.clear()
            self._loop.remove_writer(pipe)
            self._fade("closed its standard input")

    def _watch_reading(self) -> None:
        """A server that neither reads nor writes for as long as a call may take is stuck, and ended."""
        if self._watch:
            self._watch.cancel()
        # until it has said something it may still be starting
        limit_s = self.server.timeout_s if self._heard else max(self.server.timeout_s, self.server.connect_s)
        before = self._read_by_server(), self._heard

        def check() -> None:
            self._watch = None
            if self._read_by_server() == self._written:
                return
            if (self._read_by_server(), self._heard) == before:
                self._stop(f"did not read its input for {limit_s:g} s")
            else:
                self._watch_reading()

        self._watch = self._loop.call_later(limit_s, check)

    def _read_by_server(self) -> int:
        """How many of the bytes that were for it the server has taken out of the pipe."""
        waiting = fcntl.ioctl(self._process.stdin, termios.FIONREAD, b"\0" * 4)
        return self._written - len(self._unwritten) - int.from_bytes(waiting, sys.byteorder)

    def _stop(self, reason: str, is_patient: bool = True) -> None:
        """The connection is over, and the process with its children is ended."""
        if not self._over.is_set():
            self._over.set()
            self._end(reason)
            self._ending = self._loop.create_task(self._end_process(is_patient))

    async def _close(self) -> None:
        if self._is_started:
            await self._flush()
            self._stop("was ended")
        if self._ending:
            await self._ending

    async def _flush(self) -> None:
        """What is written but not yet taken has FLUSH_S."""
        end = self._loop.time() + FLUSH_S
        while self._unwritten and self._loop.time() < end and not self._over.is_set():  # noqa: ASYNC110 - it is short
            await asyncio.sleep(POLL_S)

    async def _end_process(self, is_patient: bool) -> None:
        """Its input ends, then it is asked to end, then it is made to; each step has GRACE_S, and children the same."""
        process = self._process
        try:
            for timer in (self._watch, self._fading):
                if timer:
                    timer.cancel()
            self._loop.remove_writer(process.stdin)
            process.close_stdin()
            if is_patient:
                await self._wait_exit(GRACE_S)
                if process.send(signal.SIGTERM):
                    process.send(signal.SIGCONT)  # one that is stopped hears nothing else
                    await self._wait_for_all(GRACE_S)
        finally:
            process.send(signal.SIGKILL)
            for pipe in (process.stdout, process.stderr, process.death):
                self._loop.remove_reader(pipe)
            process.close()

    async def _wait_exit(self, limit_s: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._exited.wait(), limit_s)

    async def _wait_for_all(self, limit_s: float) -> None:
        end = self._loop.time() + limit_s
        while self._process.living() and self._loop.time() < end:  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(POLL_S)
