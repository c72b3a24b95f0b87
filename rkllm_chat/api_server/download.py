"""Run a download in a process of its own, which ends with the client that wants it.

A thread that waits for a slow or stalled server could not be ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from subprocess import PIPE

from ..core.sanitize import sanitize_line
from ..core.thread_end import wait_for_end
from .errors import ApiError

_REFUSED = 2
_QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}


async def run_download(command: Sequence[str], tell: Callable[[str], None]) -> None:
    """Run a command that downloads something; end it where this is cancelled.

    Args:
        command: Writes lines for people to standard output, an error as the last line of standard error, and exits with
            2 where the request is the cause. It ends with its standard input.
        tell: Called with each line.

    Raises:
        ApiError: The command failed.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={**os.environ, **_QUIET}
    )
    assert process.stdout and process.stderr
    errors = asyncio.ensure_future(process.stderr.read())
    try:
        async for line in process.stdout:
            tell(line.decode("utf-8", errors="replace").strip())
        lines = (await errors).decode("utf-8", errors="replace").splitlines()
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        # also where this is cancelled again: the next download must not begin beside the end of this one
        await wait_for_end(asyncio.ensure_future(process.wait()))
        errors.cancel()
    if code:
        text = sanitize_line(lines[-1]) if lines else "The download ended without a reason."
        raise ApiError(400 if code == _REFUSED else 500, text)
