"""Serves a server of standard input and output on a Unix socket: a process for each connection."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def acting_as(user: int | None) -> Iterator[None]:
    before = os.geteuid()
    try:
        if user is not None:
            os.seteuid(user)
        yield
    finally:
        os.seteuid(before)


@contextmanager
def open_unix_site(
    command: Sequence[str], environment: Mapping[str, str] | None = None, user: int | None = None
) -> Iterator[str]:
    """Gives the URL; the processes are ended with the block. Its folder has a short name: a path may have 107 bytes.

    Another `user` listens, for root alone; the processes are this one's.
    """
    variables, started = {**os.environ, **(environment or {})}, list[subprocess.Popen[bytes]]()
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder, "server socket")
        listener.bind(str(path))
        with acting_as(user):
            listener.listen()

        def accept() -> None:
            with suppress(OSError):  # the listener is shut down
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        pipe = connection.fileno()
                        started.append(subprocess.Popen[bytes](command, stdin=pipe, stdout=pipe, env=variables))

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield path.as_uri().replace("file://", "unix://")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for process in started:
                process.kill()
                process.wait()
