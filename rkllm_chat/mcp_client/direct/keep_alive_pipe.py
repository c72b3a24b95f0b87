"""The connection to a kept server, with the members of a `PosixProcess` that the stdio channel uses."""

from __future__ import annotations

import os
import socket


class SocketPipes:
    """Both ends of a connection to the daemon, in place of a process's pipes."""

    exit_code: int | None = None
    """The daemon reports the exit code."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.stdout = connection.detach()
        self.stdin = os.dup(self.stdout)
        self.stderr = self.exited = -1
        self._is_open = True

    def sandbox_hint(self) -> str:
        """Return ""; the sandbox belongs to the daemon."""
        return ""

    def explain_denial(self, text: str) -> str:  # noqa: ARG002 - its processes are the daemon's
        """Return ""; the server's processes belong to the daemon."""
        return ""

    def stop(self, is_patient: bool = True) -> None:  # noqa: ARG002 - the server is not ended
        """Close the connection; the server keeps running."""
        if self._is_open:
            os.close(self.stdin)
            os.close(self.stdout)
        self._is_open = False
