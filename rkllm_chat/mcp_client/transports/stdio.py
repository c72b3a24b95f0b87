"""Transport to a server process: one JSON-RPC message per line over standard input and output.

Neither blocks nor grows, whatever the server writes or does not read: lines have a limit, standard error goes to a
small log, and a server that does not read its input for the duration of a call's limit is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from ...config.servers import ServerConfig
from ...core.errors import ConnectError
from ...core.programs import describe_exit
from ..process.denials import Denial, find_denial, find_fatal_denial, find_unopened
from ..process.launch import find_command, find_server_folder, plan_start
from ..process.process_tree import GRACE_S, ServerProcess
from ..process.start import StartPlan
from ..process.system_calls import join_new_keyring
from ..protocol.limits import MAX_DISCARDED_BYTES, MB
from .base import Transport

_READ_SIZE = 1 << 18
_MAX_UNWRITTEN_BYTES = 32 * MB
_MAX_DRAINED_BYTES = 4 * MB
_PLAN_S = 20.0
_EXIT_S = 0.1
_FLUSH_S = 0.3
_POLL_S = 0.02


class StdioTransport(Transport):
    """Starts the server's command. Raises ConnectError if it cannot be started."""

    _process: ProcessGroup

    def __init__(self, server: ServerConfig, log: Path) -> None:
        super().__init__(server, log)
        self.kind = "stdio"
        find_command(server), find_server_folder(server)
        self._unwritten = bytearray()
        self._is_started = False
        self._written = self._received = 0
        self._read_check: asyncio.TimerHandle | None = None
        self._stop_timer: asyncio.TimerHandle | None = None
        self._stopped = asyncio.Event()
        self._exited = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            # on a thread, because bubblewrap may have to be probed first
            start = await asyncio.wait_for(asyncio.to_thread(plan_start, self.server, self.roots), _PLAN_S)
            self.sandbox = start.sandbox
            self._process = ProcessGroup(start)
        except OSError as error:
            reason = f'Server "{self.server.name}": {self.server.command} cannot be started: {error.strerror}.'
            raise ConnectError(reason, server=self.server.name) from error
        self._is_started = True
        self._loop.add_reader(self._process.stdout, self._read_output)
        self._loop.add_reader(self._process.stderr, self._read_errors)
        self._loop.add_reader(self._process.exited, self._handle_exit)

    def find_denial(self, text: str, arguments: Mapping[str, object], is_error: bool) -> Denial | None:
        """Return what the sandbox denied the server in a call with this result; None if it was not that."""
        if self.sandbox is None or not self._is_started or self._stopped.is_set():
            return None
        if is_error:
            return find_denial(self.sandbox, self._process.list_enclosed(), text, arguments)
        # many tools report a failed connection as a result that found nothing
        return find_unopened(self.sandbox, text, arguments) or find_denial(
            self.sandbox, self._process.list_enclosed(), ""
        )

    def find_fatal_denial(self) -> Denial | None:
        """Return what the sandbox denied the server so that it ended; None if it was not that."""
        if self.sandbox is None or self.exit_code is None:
            return None
        return find_fatal_denial(self.sandbox, self.stderr_tail)

    def mark_ready(self) -> None:
        """Limit the time of writes as that of calls from now on."""
        super().mark_ready()
        if self._read_check and not self._stopped.is_set():
            self._schedule_read_check()

    def _read_output(self) -> int:
        data = self._read(self._process.stdout, self._stop_soon)
        self._received += len(data)
        if not self._stopped.is_set():
            self._driver.deliver(self._driver.session.receive_bytes(data))
            if self._driver.session.discarded > MAX_DISCARDED_BYTES:
                self._driver.deliver(self._driver.session.receive_unfinished())
                self._stop(f"sent more than {MAX_DISCARDED_BYTES // MB} MB on one line", is_patient=False)
        return len(data)

    def _read_errors(self) -> int:
        data = self._read(self._process.stderr)
        self._log.write_stderr(data)
        return len(data)

    def _read(self, pipe: int, at_end: Callable[[str], None] | None = None) -> bytes:
        try:
            data = os.read(pipe, _READ_SIZE)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(pipe)
            if at_end:
                at_end("closed its standard output")
        return data

    def _handle_exit(self) -> None:
        """Handle the process's exit: read what it wrote until then, and stop its children."""
        self._loop.remove_reader(self._process.exited)
        self._exited.set()
        self.exit_code = self._process.exit_code
        # before `_stop`, which ends the connection: an answer and last words that were written before the exit count
        self._drain(self._read_errors)
        self._drain(self._read_output)
        self._stop(describe_exit(self.exit_code or 0))

    def _drain(self, read: Callable[[], int]) -> None:
        """Read the rest of a pipe; limited, because a child may still be writing."""
        left = _MAX_DRAINED_BYTES
        while left > 0 and (size := read()):
            left -= size

    def _stop_soon(self, reason: str) -> None:
        """Stop shortly after a pipe was closed; if the process exits meanwhile, its exit code is the reason."""
        if self._stop_timer is None:
            self._stop_timer = self._loop.call_later(_EXIT_S, self._stop, reason)

    def _put(self, message: dict[str, Any], text: bytes) -> None:  # noqa: ARG002 - only the text is sent
        if self._stopped.is_set():
            return
        line = text + b"\n"
        self._unwritten += line
        self._written += len(line)
        self._write()
        if len(self._unwritten) > _MAX_UNWRITTEN_BYTES:
            self._stop("does not read its input")
        elif self._read_check is None:
            self._schedule_read_check()

    def _write(self) -> None:
        """Write what the pipe accepts; the event loop calls again for the rest."""
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
            self._stop_soon("closed its standard input")

    def _schedule_read_check(self) -> None:
        """Stop a server that neither reads nor writes for the duration of a call's limit."""
        if self._read_check:
            self._read_check.cancel()
        limit_s = self.server.timeout_s if self.is_ready else max(self.server.timeout_s, self.server.connect_s)
        before = self._read_by_server(), self._received

        def check() -> None:
            self._read_check = None
            if self._read_by_server() == self._written:
                return
            if (self._read_by_server(), self._received) == before:
                self._stop(f"did not read its input for {limit_s:g} s")
            else:
                self._schedule_read_check()

        self._read_check = self._loop.call_later(limit_s, check)

    def _read_by_server(self) -> int:
        """Return how many bytes the server has read from its input pipe."""
        waiting = fcntl.ioctl(self._process.stdin, termios.FIONREAD, b"\0" * 4)
        return self._written - len(self._unwritten) - int.from_bytes(waiting, sys.byteorder)

    def _stop(self, reason: str, is_patient: bool = True) -> None:
        """End the connection, the process and its children."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._end(reason)
            self._stopping = self._loop.create_task(self._end_process(is_patient))

    async def _close(self) -> None:
        if self._is_started:
            await self._flush()
            self._stop("was ended")
        if self._stopping:
            await self._stopping

    async def _flush(self) -> None:
        """Give the server 0.3 s to read what has not been written yet."""
        end = self._loop.time() + _FLUSH_S
        while self._unwritten and self._loop.time() < end and not self._stopped.is_set():  # noqa: ASYNC110 - short
            await asyncio.sleep(_POLL_S)

    async def _end_process(self, is_patient: bool) -> None:
        """Close the input, then send SIGTERM, then SIGKILL; the first two steps get 1 s each."""
        process = self._process
        try:
            for timer in (self._read_check, self._stop_timer):
                if timer:
                    timer.cancel()
            self._loop.remove_writer(process.stdin)
            for is_for_all in process.stop_steps(is_patient):
                await (self._wait_for_all() if is_for_all else self._wait_exit())
        finally:
            process.send_signal(signal.SIGKILL)
            # before they are closed: the loop would go on to watch the files that get their numbers next
            for pipe in (process.stdout, process.stderr, process.exited):
                self._loop.remove_reader(pipe)
            process.close()

    async def _wait_exit(self) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._exited.wait(), GRACE_S)

    async def _wait_for_all(self) -> None:
        end = self._loop.time() + GRACE_S
        while self._process.list_running() and self._loop.time() < end:  # noqa: ASYNC110 - the kernel sends no event
            await asyncio.sleep(_POLL_S)


class ProcessGroup(ServerProcess):
    """A running command, started without changing the folder or the umask of this program."""

    def _spawn(self, start: StartPlan, pipes: Sequence[int]) -> int:
        """Start a server; one that needs a keyring by a thread that leaves this program's.

        The thread never ends, because a sandbox ends with the thread that started it (PR_SET_PDEATHSIG, prctl(2)).
        """

        def run() -> int:
            if start.needs_keyring:
                join_new_keyring()
            options: dict[str, Any] = {"cwd": start.folder, "env": start.environment, "start_new_session": True}
            options.update(zip(("stdin", "stdout", "stderr"), pipes, strict=True))
            with start.opened() as (command, files):
                child = subprocess.Popen[bytes](command, umask=0o077, pass_fds=files, **options)
            child.returncode = 0  # `close` waits for it
            return child.pid

        return _keyring_thread().submit(run).result() if start.needs_keyring else run()


@cache
def _keyring_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="servers")
