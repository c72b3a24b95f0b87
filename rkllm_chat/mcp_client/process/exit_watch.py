"""Watch a child process for its exit: by pidfd_open(2), or by a thread where the system has none.

macOS and Linux before 5.3 have none. The thread waits for the process, so there its number is free once it has exited;
a number is not given to another process while a process group has it (fork(2) of POSIX).
"""

from __future__ import annotations

import os
from contextlib import suppress

_JOIN_S = 1.0


class ExitWatch:
    """Watches one child until `close`.

    Attributes:
        descriptor: Becomes readable when the process has exited.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None
        self._has_pidfd = False
        with suppress(AttributeError, OSError):  # no macOS, no Linux before 5.3
            self.descriptor = os.pidfd_open(pid)
            self._has_pidfd = True
        if not self._has_pidfd:
            self._start_thread()

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        if not self._has_pidfd:
            return self._code
        status = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    def close(self) -> None:
        """Stop watching. The process must have been killed; the caller waits for it."""
        if not self._has_pidfd:
            self._thread.join(_JOIN_S)
        os.close(self.descriptor)

    def _start_thread(self) -> None:
        import threading  # one-shot commands do without it on Linux

        self.descriptor, self._end = os.pipe()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        with suppress(ChildProcessError):
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        os.close(self._end)
