"""A stage for the claude server: a user with a pretend `claude` on the PATH, and our client that talks to it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from rkllm_chat.config import ServerConfig
from rkllm_chat.messages import ToolResult
from rkllm_chat.servers.toolbox import Toolbox

LIMIT_S = 40.0  # a busy machine; each wait inside has its own, shorter one
PRETEND = Path(__file__).with_name("bundled") / "pretend_claude.py"
STATE = ".local/state/rkllm-chat/claude/history.json"

Shape = dict[str, Any]


class Stage:
    """A user's home with a pretend `claude`, a folder to work in, and a server there while `talk` runs."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home, self.work, self.bin = place / "home", place / "work", place / "bin"
        for folder in (self.home, self.work, self.bin):
            folder.mkdir()
        self.install(self.bin)
        self.options: tuple[str, ...] = ()
        # nothing else is on the PATH, lest a real claude be run
        self.environment = {"PATH": str(self.bin), "HOME": str(self.home)}

    def install(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "claude"
        program.write_text(f"#!{sys.executable}\n{PRETEND.read_text(encoding='utf-8')}", encoding="utf-8")
        program.chmod(0o755)
        return program

    @property
    def calls(self) -> list[Shape]:
        lines = (self.home / "calls.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    @property
    def state(self) -> Path:
        return self.home / STATE

    def talk(self, play: Callable[[Talk], Awaitable[None]]) -> None:
        """Starts the server, plays, and ends it."""

        async def go() -> None:
            args = ("serve", "claude", "--folder", str(self.work), *self.options)
            server = ServerConfig("claude", command="rkllm-chat", args=args, env=self.environment, cwd=str(self.work))
            async with Toolbox([server], self.place / "logs") as box:
                assert not box.failures
                await play(Talk(box))

        asyncio.run(asyncio.wait_for(go(), LIMIT_S))

    @property
    def log(self) -> str:
        return (self.place / "logs/claude.log").read_text(encoding="utf-8")


class Talk:
    """A client that is connected. `told` has the progress of all calls: what they do, in words."""

    def __init__(self, box: Toolbox) -> None:
        self.box = box
        self.told: asyncio.Queue[str] = asyncio.Queue()

    async def result(self, name: str, **arguments: Any) -> ToolResult:
        tool = next(tool for tool in self.box.tools if tool.name == name)
        return await self.box.call(tool, arguments, lambda _done, _total, text: self.told.put_nowait(text))

    async def __call__(self, name: str, **arguments: Any) -> Shape:
        """The tool's answer: what programs read, which is also what a model reads, and whether it failed."""
        result = await self.result(name, **arguments)
        shape: Shape = result.structured
        assert shape is not None, result.text
        assert json.loads(result.text) == shape
        assert result.status == ("completed" if shape["success"] else "failed")
        return shape

    async def wait_for(self, text: str) -> None:
        async def wait() -> None:
            while await self.told.get() != text:
                pass

        await asyncio.wait_for(wait(), 5)


def timeless(shape: Shape) -> Shape:
    """A run without its moment, which has been looked at."""
    assert isinstance(shape["execution_time"], float) and 0 <= shape["execution_time"] < LIMIT_S
    assert datetime.fromisoformat(shape["timestamp"]).utcoffset() is not None
    return {name: value for name, value in shape.items() if name not in ("execution_time", "timestamp")}


def run_shape(prompt: str, response: str | None, error: str | None = None, **more: Any) -> Shape:
    return {"success": error is None, "prompt": prompt, "response": response, "error": error, **more}
