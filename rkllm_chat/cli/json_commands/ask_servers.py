"""Start several servers, and ask them for their tools side by side; one that fails hides no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from ...config.servers import ServerConfig
from ...core.errors import ChatError
from ...mcp_client.direct.open_server import OpenServer
from .invocation import make_internal_error


class ServerAnswer:
    """What a server answers.

    Attributes:
        name: The server's name.
        tools: Its tools.
        left_out: Tools that cannot be used, with the reason.
        protocol: Version of the protocol.
        start_s: Time from the start of the process or connection until it answers.
        latency_s: Time of one list of tools.
        error: Why it failed, or None.
    """

    def __init__(self, name: str) -> None:
        self.name, self.protocol = name, ""
        self.tools: list[dict[str, Any]] = []
        self.left_out: dict[str, str] = {}
        self.start_s = self.latency_s = 0.0
        self.error: ChatError | None = None

    @contextmanager
    def keep_error(self) -> Iterator[None]:
        """Store an error of the context; the other servers are asked even after an internal one."""
        try:
            yield
        except ChatError as error:
            self.error = error
        except Exception as error:
            self.error = make_internal_error(error)


def ask_servers(
    names: Iterable[str], prepare: Callable[[str], ServerConfig], open_server: Callable[[ServerConfig], OpenServer]
) -> list[ServerAnswer]:
    """Ask servers for their tools.

    All processes are started before the first thread: starting one briefly changes the folder of this process.

    Args:
        names: Names of the servers.
        prepare: Returns a server that may be started. Raises ChatError.
        open_server: Opens it; the caller closes it. Raises ChatError.
    """
    answers = [ServerAnswer(name) for name in names]
    threads: list[Thread] = []
    for answer in answers:
        with answer.keep_error():
            server, begun = prepare(answer.name), time.monotonic()
            opened = open_server(server) if server.command else None
            threads.append(Thread(target=_ask, args=(answer, opened, server, open_server, begun), daemon=True))
    _run_all(threads)
    return answers


def _ask(
    answer: ServerAnswer,
    opened: OpenServer | None,
    server: ServerConfig,
    open_server: Callable[[ServerConfig], OpenServer],
    begun: float,
) -> None:
    with answer.keep_error():
        opened = opened or open_server(server)
        opened.open()
        asked = time.monotonic()
        answer.tools, answer.left_out = opened.list_tools(), opened.left_out
        answer.start_s, answer.latency_s = asked - begun, time.monotonic() - asked
        answer.protocol = opened.client.version


def close_servers(all_opened: Iterable[OpenServer]) -> None:
    """Close servers side by side; errors are ignored, as the output is written already."""

    def close(opened: OpenServer) -> None:
        with suppress(Exception):
            opened.close()

    _run_all([Thread(target=close, args=(opened,), daemon=True) for opened in all_opened])


def _run_all(threads: list[Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
