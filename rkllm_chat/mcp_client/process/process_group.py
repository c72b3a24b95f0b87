"""Start server processes in their own session from a program with threads."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from .process_tree import ServerProcess
from .start import StartPlan
from .system_calls import join_new_keyring


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
