"""The claude server of a user who has a stand-in for the Claude CLI on the PATH, and a client of that server."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp_servers.serving import LIMIT_S, Caller, connect, serve
from rkllm_chat.config.settings import ServerConfig

STAND_IN = Path(__file__).with_name("fake_claude.py")
STATE = ".local/state/rkllm-chat/claude/history.json"

Shape = dict[str, Any]


class Stage:
    """A user's home, a working folder, and a server that runs there while `talk` does."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home, self.work, self.bin = place / "home", place / "work", place / "bin"
        for folder in (self.home, self.work, self.bin):
            folder.mkdir()
        self.install(self.bin)
        # nothing else is on the PATH, so that no real claude runs
        self.environment = {"PATH": str(self.bin), "HOME": str(self.home)}

    def install(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "claude"
        program.write_text(f"#!{sys.executable}\n{STAND_IN.read_text(encoding='utf-8')}", encoding="utf-8")
        program.chmod(0o755)
        return program

    @property
    def calls(self) -> list[Shape]:
        """How the stand-in was called."""
        path = self.home / "calls.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []

    @property
    def state(self) -> Path:
        return self.home / STATE

    def talk(self, play: Callable[[Talk], Awaitable[None]], *options: str, over_stdio: bool = False) -> None:
        """Start the server, play, and end it."""
        options = ("--folder", str(self.work), *options)
        if over_stdio:
            args = ("serve", "claude", *options)
            server = ServerConfig("claude", command="rkllm-chat", args=args, env=self.environment, cwd=str(self.work))
            connect(server, self.place / "logs", play, Talk)
            return
        with serve("claude", *options, env=self.environment, cwd=self.work) as served:
            connect(served.entry("claude"), self.place / "logs", play, Talk)


class Talk(Caller):
    async def __call__(self, name: str, **arguments: Any) -> Shape:
        """Call a tool; its text is its structured result as JSON, and its status says whether it succeeded."""
        result = await self.call(name, **arguments)
        shape: Shape = result.structured
        assert shape is not None, result.text
        assert json.loads(result.text) == shape
        assert result.status == ("completed" if shape["success"] else "failed")
        return shape


def without_time(shape: Shape) -> Shape:
    """A run without its time, which is validated."""
    assert isinstance(shape["execution_time"], float) and 0 <= shape["execution_time"] < LIMIT_S
    assert datetime.fromisoformat(shape["timestamp"]).utcoffset() is not None
    return {name: value for name, value in shape.items() if name not in ("execution_time", "timestamp")}


def run_shape(prompt: str, response: str | None, error: str | None = None, **more: Any) -> Shape:
    return {"success": error is None, "prompt": prompt, "response": response, "error": error, **more}


def assert_failed(shape: Shape, prompt: str, *words: str, **more: Any) -> None:
    """The run of a prompt failed, and its error has these words."""
    assert without_time(shape) == run_shape(prompt, None, shape["error"], **more)
    assert all(word in shape["error"] for word in words), shape["error"]
