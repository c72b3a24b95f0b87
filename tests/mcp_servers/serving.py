"""Bundled servers as forked processes over HTTP, and a client that is connected to them."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from cpu_time import SLACK, allow_s
from fork_server import start
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.messages import ToolResult
from rkllm_chat.mcp_client.toolbox import Toolbox
from stage import PROGRAM

LIMIT_S = 40.0  # on a busy machine; each wait inside has its own, shorter limit
END_S = 5.0


@dataclass
class Served:
    """A server that runs. `lines` is what it wrote to standard error until it listened, `log` what it wrote later."""

    process: subprocess.Popen[str]
    lines: list[str]
    log: str = ""

    @property
    def line(self) -> str:
        return self.lines[-1]

    @property
    def headers(self) -> dict[str, str]:
        """What requests must send: the token that is stored where the server says."""
        stored = re.search(r"Bearer TOKEN \(stored in (.+)\)", "".join(self.lines))
        return {"Authorization": f"Bearer {Path(stored[1]).read_text(encoding='ascii')}"} if stored else {}

    def entry(self, name: str) -> ServerConfig:
        """The server in a client's configuration."""
        return ServerConfig(name, url=self.url, headers=self.headers, transport="http")

    @property
    def url(self) -> str:
        return self.line.split()[-1]

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and what was written since the server listened."""
        self.process.send_signal(number)
        _, self.log = self.process.communicate(timeout=allow_s(END_S / SLACK))
        return self.process.returncode, self.log


@contextmanager
def serve(
    name: str,
    *options: str,
    env: Mapping[str, str],
    cwd: Path | None = None,
    program: Sequence[str] = PROGRAM,
    port_option: str = "--http",
) -> Iterator[Served]:
    """Run `rkllm-chat serve NAME` over HTTP on a free port."""
    process = start(
        [*program, "serve", name, port_option, "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=dict(env),
        cwd=cwd,
    )
    assert process.stderr
    lines = [""]
    while "http://" not in lines[-1] and (line := process.stderr.readline()):  # warnings may come first
        lines.append(line)
    served = Served(process, lines)
    try:
        assert "http://" in served.line, "".join(lines)
        yield served
        if process.poll() is None:
            served.end()
    finally:
        process.kill()
        process.communicate()


class Caller:
    """A connected client. `progress` has the progress texts of all calls."""

    def __init__(self, toolbox: Toolbox, server: ServerConfig) -> None:
        self.toolbox, self.server = toolbox, server
        self.progress: asyncio.Queue[str] = asyncio.Queue()

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        tool = next(tool for tool in self.toolbox.tools if tool.name == name)
        return await self.toolbox.call(tool, arguments, lambda _done, _total, text: self.progress.put_nowait(text))

    async def wait_for_progress(self, text: str) -> None:
        async def wait() -> None:
            while text not in await self.progress.get():
                pass

        await asyncio.wait_for(wait(), END_S)


Kind = TypeVar("Kind", bound=Caller)


def connect(server: ServerConfig, logs: Path, play: Callable[[Kind], Awaitable[None]], kind: type[Kind]) -> None:
    """Play with a client of that kind, connected to the server."""

    async def go() -> None:
        async with Toolbox([server], logs) as toolbox:
            assert not toolbox.failures
            await play(kind(toolbox, server))

    asyncio.run(asyncio.wait_for(go(), LIMIT_S))
