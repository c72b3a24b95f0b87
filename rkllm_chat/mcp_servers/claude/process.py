"""Run a command with input, output limits and a timeout, and end all its processes.

They end even if this program is killed. Where there is /proc, children are found even after they left the process group
(`mcp_client/process/process_tree.py`).
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from ...mcp_client.process.process_tree import Guard, ProcessTree
from ...mcp_client.process.start import MARK_VARIABLE

MAX_OUTPUT_BYTES = 16 << 20
_MAX_STDERR_BYTES = 64 << 10
_GRACE_S = 1.5
_POLL_S = 0.02


@dataclass(frozen=True)
class CompletedCommand:
    """The result of a command.

    Attributes:
        exit_code: None after a timeout, negative for a signal.
        output: The first MAX_OUTPUT_BYTES bytes.
        errors: The last _MAX_STDERR_BYTES bytes of standard error.
        is_truncated: Whether the output was truncated.
    """

    exit_code: int | None
    output: bytes
    errors: bytes
    is_truncated: bool


class _GuardedProcesses:
    """The processes of one command, which end even if this program is killed."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(8)
        self._marker = f"{MARK_VARIABLE}={self.mark}"
        self._guard = Guard(self._marker)
        self._tree: ProcessTree | None = None

    def attach(self, process: Process) -> None:
        """Register the started process with the guard."""
        self._tree = ProcessTree(process.pid, self._marker)
        self._guard.watch(process.pid)

    async def stop(self) -> None:
        """Terminate all processes; kill them after _GRACE_S seconds."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._tree or not self._tree.send_signal(number):
                return
            with anyio.move_on_after(_GRACE_S):
                while self._tree.list_running():  # noqa: ASYNC110 - the kernel reports no such event
                    await anyio.sleep(_POLL_S)

    def close(self) -> None:
        """Stop the guard process."""
        self._guard.end()


async def run_command(
    command: Sequence[str], text: str, limit_s: float, environment: Mapping[str, str], cwd: Path
) -> CompletedCommand:
    """Run a command with `text` on standard input for at most `limit_s` seconds.

    Children that it leaves running are ended, also on a timeout and on cancellation.

    Raises:
        OSError: The command cannot be started.
    """
    processes = _GuardedProcesses()
    output, errors = bytearray(), bytearray()
    truncated: list[bool] = []
    process: Process | None = None
    try:
        process = await anyio.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**environment, MARK_VARIABLE: processes.mark},
            start_new_session=True,
        )
        processes.attach(process)
        assert process.stdin and process.stdout and process.stderr
        with anyio.move_on_after(limit_s) as limit:
            async with anyio.create_task_group() as group:
                group.start_soon(write_input, process.stdin, text.encode(errors="replace"))
                group.start_soon(read_output, process.stdout, output, truncated)
                group.start_soon(_keep_tail, process.stderr, errors)
                await process.wait()
                await processes.stop()  # remaining children would hold the pipes open
    finally:
        with anyio.CancelScope(shield=True):
            await processes.stop()
            if process:
                await process.aclose()
            processes.close()
    exit_code = None if limit.cancelled_caught else process.returncode
    return CompletedCommand(exit_code, bytes(output), bytes(errors), bool(truncated))


async def write_input(pipe: ByteSendStream, data: bytes) -> None:
    """Write all data; a command that closes its input early is not an error here."""
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await pipe.send(data)
    await pipe.aclose()


async def read_output(pipe: ByteReceiveStream, into: bytearray, truncated: list[bool]) -> None:
    """Read up to MAX_OUTPUT_BYTES bytes; append to `truncated` when the limit is reached."""
    async for data in pipe:
        into += data[: MAX_OUTPUT_BYTES - len(into)]
        if len(into) == MAX_OUTPUT_BYTES:
            truncated.append(True)


async def _keep_tail(pipe: ByteReceiveStream, into: bytearray) -> None:
    """Read everything and keep the last _MAX_STDERR_BYTES bytes."""
    async for data in pipe:
        into += data
        del into[:-_MAX_STDERR_BYTES]
