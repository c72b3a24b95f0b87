"""How faults are tried: a chaos server beside a healthy one in a toolbox, and what must hold whatever happened.

`python -m servers.faults MODE FOLDER` (in tests/) is a client as a process of its own: it calls `act` once and says
what came of it and how its memory grew; with `--stay` it then waits, to be killed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import ChatError
from rkllm_chat.messages import Tool, ToolResult
from rkllm_chat.servers.toolbox import Toolbox

TESTS = Path(__file__).parents[1]
SLACK = 3
"""How many times longer than on an idle machine a thing may take where tests run side by side."""
EVENT_S = 5.0

T = TypeVar("T")


def rows(*cases: tuple[Any, ...]) -> list[Any]:
    """Parameters of a test: (row of the fault matrix, mode, what is expected ...); the id is row and mode."""
    return [pytest.param(*case[1:], id=f"{case[0]} {case[1]}") for case in cases]


def fault(row: str, *modes: str) -> pytest.MarkDecorator:
    """A test of one row, once for each mode."""
    return pytest.mark.parametrize("mode", rows(*((row, mode) for mode in modes)))


def chaos(folder: Path, mode: str, name: str = "chaos", delay_s: float = 0.1, **options: Any) -> ServerConfig:
    """A misbehaving server; what happens to it is in `folder`. Options are those of a ServerConfig, and `eras`."""
    eras = ("--eras", options.pop("eras")) if "eras" in options else ()
    files = ("--log", str(folder / f"{name}.jsonl"), "--state", str(folder / f"{name}.lives"))
    args = ("-m", "servers.chaos", mode, "--delay", str(delay_s), *files, *eras)
    environment = {"PYTHONPATH": str(TESTS), **options.pop("env", {})}
    limits = {"timeout_s": 5.0, "connect_s": 20.0, **options}
    return ServerConfig(name, command=sys.executable, args=args, env=environment, **limits)


@dataclass
class Trial:
    """A toolbox that is open, with the server `chaos` in it and the healthy `fine`. `opened_s` is what opening took."""

    toolbox: Toolbox
    folder: Path
    opened_s: float = 0.0

    @property
    def failure(self) -> ChatError:
        return self.toolbox.failures["chaos"]

    @property
    def logs(self) -> str:
        """All that our client wrote about the servers."""
        files = sorted((self.folder / "logs").rglob("*"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())

    def names(self, server: str = "chaos") -> list[str]:
        return [tool.name for tool in self.toolbox.tools if tool.server == server]

    def tool(self, name: str, server: str = "chaos") -> Tool:
        found = [tool for tool in self.toolbox.tools if (tool.server, tool.name) == (server, name)]
        assert found, f"{server} has no {name}: {self.toolbox.failures}"
        return found[0]

    async def call(self, name: str, server: str = "chaos", **arguments: Any) -> ToolResult:
        return await self.toolbox.call(self.tool(name, server), arguments, lambda *_: None)

    async def act(self, **arguments: Any) -> ToolResult:
        """Has chaos do what its mode says."""
        return await self.call("act", **arguments)

    async def echo(self, text: str = "still here", server: str = "chaos") -> str:
        """What a server echoes, or why it does not."""
        return (await self.call("echo", server, text=text)).text

    def events(self, event: str, server: str = "chaos") -> list[dict[str, Any]]:
        """What the server noted of a kind: start, in, ran, signal, child, eof ..."""
        return [entry for entry in read_events(self.folder, server) if entry["event"] == event]

    def heard(self, method: str, server: str = "chaos") -> list[dict[str, Any]]:
        """The messages of a method that the server got."""
        messages = [entry["message"] for entry in self.events("in", server)]
        return [message for message in messages if message.get("method") == method]

    def lives(self) -> int:
        return len(self.events("start"))


def read_events(folder: Path, server: str) -> list[dict[str, Any]]:
    """What it has noted so far; a line that it is still writing is left out."""
    log = folder / f"{server}.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def try_mode(folder: Path, mode: str, then: Callable[[Trial], Awaitable[T]], **options: Any) -> T:
    """Does `then` beside a chaos server, and checks what must hold whatever happened."""
    return try_servers(folder, chaos(folder, mode, **options), then=then)


def try_servers(folder: Path, *configs: ServerConfig, then: Callable[[Trial], Awaitable[T]]) -> T:
    """The same with any servers. The healthy one still answers, no process and no open file is left behind, logs are
    private (C3, C4, C8), and no trouble of a task went unseen (C2)."""
    troubles: list[dict[str, Any]] = []
    descriptors = count_descriptors()

    async def go() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        fine = chaos(folder, "ok", "fine")
        trial = Trial(Toolbox([*configs, fine], folder / "logs"), folder)
        begun = time.monotonic()
        try:
            await trial.toolbox.open()
            trial.opened_s = time.monotonic() - begun
            done = await then(trial)
            assert await trial.echo("and I am fine", "fine") == "and I am fine"
            return done
        finally:
            await trial.toolbox.aclose()
            gc.collect(1)

    try:
        done = asyncio.run(go())
    finally:
        left = [pid for config in configs for pid in left_behind(folder, config.name)]
    assert not left
    assert not troubles, troubles
    if all(config.command for config in configs):  # a server in this very process has descriptors of its own
        assert count_descriptors() == descriptors
    assert [oct(mode) for mode in file_modes(folder / "logs") if mode & 0o077] == []
    return done


def count_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def file_modes(folder: Path) -> list[int]:
    return [file.stat().st_mode & 0o777 for file in folder.rglob("*") if file.is_file()]


def left_behind(folder: Path, server: str, limit_s: float = 1.0) -> list[int]:
    """The processes of a server that are there after a second, zombies too; they are killed then."""
    pids = [entry["pid"] for entry in read_events(folder, server) if entry["event"] in ("start", "child")]
    left = wait_until_gone(pids, limit_s)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


def wait_until_gone(pids: Iterable[int], limit_s: float) -> list[int]:
    """Those of the processes that are still there when the limit has passed."""
    end = time.monotonic() + limit_s
    left = list(pids)
    while (left := [pid for pid in left if is_there(pid)]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def is_there(pid: int) -> bool:
    """Whether a process runs, or is a zombie that its client should have reaped; init reaps when it likes."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return False
    return state != "Z" or parent != "1"


async def wait_for(happened: Callable[[], object], limit_s: float = EVENT_S) -> float:
    """Waits until something holds; gives the seconds that took."""
    begun = time.monotonic()
    while not happened():
        assert time.monotonic() - begun < limit_s, "it did not happen"
        await asyncio.sleep(0.005)
    return time.monotonic() - begun


def assert_told(result: ToolResult, within_s: float, server: str = "chaos") -> None:
    """A call failed in time, and one line says so and names the server (C7)."""
    assert result.status == "failed", result.text[:300]
    assert result.seconds <= within_s * SLACK, result.text
    assert_one_line(result.text, server)


def assert_one_line(text: str, server: str = "chaos") -> None:
    assert f'"{server}"' in text
    assert len(text) <= 1500 and text.isprintable(), repr(text[:500])


def measure(mode: str, folder: Path, *options: str) -> dict[str, Any]:
    """What a client of its own makes of a mode: the result of `act`, what `echo` gave after it, `growth_mb`."""
    import subprocess

    command = [sys.executable, "-m", "servers.faults", mode, str(folder), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path[1:]])}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=40, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


async def act_and_measure(mode: str, folder: Path, url: str, stay: bool) -> None:
    server = ServerConfig("chaos", url=url, timeout_s=10) if url else chaos(folder, mode, timeout_s=10)
    fine = chaos(folder, "ok", "fine")
    async with Toolbox([fine], folder / "logs") as toolbox:  # all is imported and warm when the measuring begins
        await Trial(toolbox, folder).echo(server="fine")
    gc.collect()
    before = reset_peak()
    async with Toolbox([server, fine], folder / "logs") as toolbox:
        trial = Trial(toolbox, folder)
        if stay:
            print("open", flush=True)
            await asyncio.Event().wait()
        result = await trial.act()
        growth_mb = (read_status("VmHWM") - before) / 1024
        after = [await trial.echo(), await trial.echo(server="fine")]
    text = result.text if len(result.text) < 2000 else f"{result.text[:500]} ... {len(result.text)} characters"
    print(json.dumps({**asdict(result), "text": text, "structured": None, "after": after, "growth_mb": growth_mb}))


def reset_peak() -> int:
    """Has the kernel count the peak of memory anew; gives what is in use now, in KiB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return read_status("VmRSS")


def read_status(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="", help="of a server, in place of a mode")
    parser.add_argument("--stay", action="store_true")
    chosen = parser.parse_args()
    asyncio.run(act_and_measure(chosen.mode, chosen.folder, chosen.url, chosen.stay))


if __name__ == "__main__":
    main()
