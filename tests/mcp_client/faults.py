"""How faults are tried: a chaos server beside a healthy one in a toolbox, and what must hold whatever happened.

`python -m mcp_client.faults FOLDER MODE ...` (in tests/) is a client as a process of its own: it calls `act` once in
each mode and says what came of it and how its memory grew; with `--stay` it opens the servers and waits to be killed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from cpu_time import allow_s
from macos import PROC
from processes import is_there
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.config.transports import TRANSPORTS
from rkllm_chat.core.errors import ChatError
from rkllm_chat.core.messages import Tool, ToolResult
from rkllm_chat.mcp_client.toolbox import Toolbox

from . import chaos as _all_modes  # noqa: F401 - it fills MODES
from .chaos_server import MODES, notice
from .chaos_sizes import FLOOD_VARIABLE

TESTS = Path(__file__).parents[1]
EVENT_S = 20.0

T = TypeVar("T")


def chaos(folder: Path, mode: str, name: str = "chaos", delay_s: float = 0.1, **options: Any) -> ServerConfig:
    """A misbehaving server; what happens to it is in `folder`. Options are those of a ServerConfig, and `eras`."""
    eras = ("--eras", options.pop("eras")) if "eras" in options else ()
    files = ("--log", str(folder / f"{name}.jsonl"), "--state", str(folder / f"{name}.lives"))
    args = ("-S", "-m", "mcp_client.chaos", mode, "--delay", str(delay_s), *files, *eras)
    given = {FLOOD_VARIABLE: os.environ[FLOOD_VARIABLE]} if FLOOD_VARIABLE in os.environ else {}
    environment = {"PYTHONPATH": str(TESTS), **given, **options.pop("env", {})}
    limits = {"timeout_s": 20.0, "connect_s": 20.0, **options}
    return ServerConfig(name, command=sys.executable, args=args, env=environment, **limits)


@dataclass
class Trial:
    """A toolbox that is open: the server `server` misbehaves, `fine` is healthy. `opened_s`: what opening took."""

    toolbox: Toolbox
    folder: Path
    server: str = "chaos"
    opened_s: float = 0.0

    @property
    def failure(self) -> ChatError:
        return self.toolbox.failures[self.server]

    @property
    def is_connected(self) -> bool:
        return self.toolbox.is_connected(self.server)

    @property
    def logs(self) -> str:
        """All that our client wrote about the servers."""
        files = sorted((self.folder / "logs").rglob("*"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())

    def names(self, server: str = "") -> list[str]:
        return [tool.name for tool in self.toolbox.tools if tool.server == (server or self.server)]

    def tool(self, name: str, server: str = "") -> Tool:
        wanted = server or self.server
        found = [tool for tool in self.toolbox.tools if (tool.server, tool.name) == (wanted, name)]
        assert found, f"{wanted} has no {name}: {self.toolbox.failures}"
        return found[0]

    async def call(self, name: str, server: str = "", **arguments: Any) -> ToolResult:
        return await self.toolbox.call(self.tool(name, server), arguments, lambda *_: None)

    async def act(self, **arguments: Any) -> ToolResult:
        """Call the tool that does what the mode says."""
        return await self.call("act", **arguments)

    async def echo(self, text: str = "still here", server: str = "") -> str:
        """What a server echoes, or why it does not."""
        return (await self.call("echo", server, text=text)).text

    def events(self, event: str, server: str = "") -> list[dict[str, Any]]:
        """What the server noted of a kind: start, in, ran, signal, child, eof ..."""
        return [entry for entry in read_events(self.folder, server or self.server) if entry["event"] == event]

    def heard(self, method: str, server: str = "") -> list[dict[str, Any]]:
        """The messages of a method that the server got."""
        messages = [entry["message"] for entry in self.events("in", server)]
        return [message for message in messages if message.get("method") == method]

    def lives(self) -> int:
        return len(self.events("start"))

    async def see_all_end(self, limit_s: float = 5) -> None:
        pids = [entry["pid"] for entry in self.events("start")]
        assert await asyncio.to_thread(wait_until_gone, pids, limit_s) == []


async def act_and_echo(trial: Trial) -> tuple[ToolResult, str]:
    return await trial.act(), await trial.echo()


async def tell_failure(trial: Trial) -> tuple[str, float]:
    return trial.failure.message, trial.opened_s


def read_events(folder: Path, server: str) -> list[dict[str, Any]]:
    """What it has noted so far; a line that it is still writing is left out."""
    log = folder / f"{server}.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def try_mode(folder: Path, mode: str, then: Callable[[Trial], Awaitable[T]], **options: Any) -> T:
    """Do `then` beside a chaos server, and check what must hold whatever happened."""
    return try_servers(folder, chaos(folder, mode, **options), then=then)


def try_modes(
    folder: Path, modes: Iterable[str], then: Callable[[Trial], Awaitable[T]], **options: Any
) -> dict[str, T]:
    """Do `then` with a server of each mode in one toolbox, at the same time.

    Without the option `eras` they speak the modern protocol and the older one in turn, where their modes allow it.
    """

    def choose_eras(place: int, mode: str) -> str:
        return ("modern", "handshake")[place % 2] if MODES[mode].eras == "both" else MODES[mode].eras

    configs = [
        chaos(folder, mode, mode, **{"eras": choose_eras(place, mode), **options}) for place, mode in enumerate(modes)
    ]
    return try_each(folder, configs, then)


def try_each(folder: Path, configs: Sequence[ServerConfig], then: Callable[[Trial], Awaitable[T]]) -> dict[str, T]:
    """Do `then` with each of the servers in one toolbox, at the same time; gives what came of it by name."""

    async def go(trial: Trial) -> dict[str, T]:
        trials = {config.name: replace(trial, server=config.name) for config in configs}
        return dict(zip(trials, await asyncio.gather(*map(then, trials.values())), strict=True))

    return try_servers(folder, *configs, then=go)


def try_servers(folder: Path, *configs: ServerConfig, then: Callable[[Trial], Awaitable[T]]) -> T:
    """Do `then` beside any servers. The healthy one still answers, no process and no open file is left behind, logs
    are private, and no exception of a task went unseen."""
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
    return sum(1 for _ in Path("/dev/fd").iterdir())


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


async def wait_for(happened: Callable[[], object], limit_s: float = EVENT_S) -> float:
    """Waits until something holds; gives the seconds that took."""
    begun = time.monotonic()
    while not happened():
        assert time.monotonic() - begun < limit_s, "it did not happen"
        await asyncio.sleep(0.005)
    return time.monotonic() - begun


def assert_failed(result: ToolResult, within_s: float) -> None:
    """A call failed in time, and one line says so and names the server."""
    assert result.status == "failed", result.text[:300]
    assert result.seconds <= allow_s(within_s), result.text
    assert_one_line(result.text, result.server)


def assert_one_line(text: str, server: str = "chaos") -> None:
    assert f'"{server}"' in text
    assert len(text) <= 1500 and text.isprintable(), repr(text[:500])


def measure(mode: str, folder: Path) -> dict[str, Any]:
    return measure_each(folder, mode)[mode]


def measure_each(folder: Path, *modes: str, **urls: str) -> dict[str, dict[str, Any]]:
    """What calling `act` of each mode, or of the server at each URL, costs a client which is a process of its own.

    Returns:
        By mode or name of the URL: the result, `after` (what this and a healthy server echoed later), `growth_mb`,
        `unloaded_s` (the call's time without what other processes took from the client and from that server), and
        `parsing_s` (what reading 10,000 notifications as JSON takes here).
    """
    words = [str(folder), *modes, *(f"{name}={url}" for name, url in urls.items())]
    command = [sys.executable, "-m", "mcp_client.faults", *words]
    done = subprocess.run(
        command, capture_output=True, env=client_environment(), timeout=50, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    measured: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return measured


def client_environment() -> dict[str, str]:
    """The environment in which `python -m mcp_client.faults` finds the tests and the product."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path[1:]])}


async def stay_open(modes: Sequence[str], folder: Path) -> None:
    async with Toolbox([chaos(folder, mode, mode) for mode in modes], folder / "logs"):
        print("open", flush=True)
        await asyncio.Event().wait()


async def measure_all(modes: Sequence[str], folder: Path) -> None:
    for row in TRANSPORTS.values():
        import_module(row.opener.partition(":")[0])
    fine = chaos(folder, "ok", "fine")
    async with Toolbox([fine], folder / "logs") as toolbox:  # all is imported and warm when the measuring begins
        await Trial(toolbox, folder, "fine").echo()
    print(json.dumps({mode.partition("=")[0]: await act_and_measure(mode, folder) for mode in modes}))


async def act_and_measure(mode: str, folder: Path) -> dict[str, Any]:
    name, _, url = mode.partition("=")
    server = ServerConfig(name, url=url, timeout_s=20) if url else chaos(folder, name, name, timeout_s=20)
    gc.collect()
    before = reset_peak()
    async with Toolbox([server, chaos(folder, "ok", "fine")], folder / "logs") as toolbox:
        trial = Trial(toolbox, folder, name)
        pids = [os.getpid(), *(entry["pid"] for entry in trial.events("start"))]
        worked_s, queued_s = time.process_time(), read_queued_s(pids)
        result = await trial.act()
        unloaded_s = max(time.process_time() - worked_s, result.seconds - (read_queued_s(pids) - queued_s))
        growth_mb = (read_status("VmHWM") - before) / 1024
        after = [await trial.echo(), await trial.echo(server="fine")]
    text = result.text if len(result.text) < 2000 else f"{result.text[:500]} ... {result.text[-100:]}"
    return {
        **asdict(result),
        "text": text,
        "structured": None,
        "after": after,
        "growth_mb": growth_mb,
        "unloaded_s": unloaded_s,
        "parsing_s": min(measure_parsing() for _ in range(5)),
    }


def measure_parsing() -> float:
    line = json.dumps(notice("notifications/message", level="info", data="again"))
    begun = time.process_time()
    for _ in range(10_000):
        json.loads(line)
    return time.process_time() - begun


def read_queued_s(pids: Iterable[int]) -> float:
    """How long the processes were ready to run while others had the processors; 0 if the kernel does not say."""
    files = [file for pid in pids if (file := Path(f"{PROC}/{pid}/schedstat")).exists()]
    return sum(int(file.read_text(encoding="ascii").split()[1]) for file in files) / 1e9


def reset_peak() -> int:
    """Has the kernel count the peak of memory anew; gives what is in use now, in KiB."""
    Path(f"{PROC}/self/clear_refs").write_text("5", encoding="ascii")
    return read_status("VmRSS")


def read_status(key: str) -> int:
    lines = Path(f"{PROC}/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("modes", nargs="+", help="of servers that are started, or NAME=URL")
    parser.add_argument("--stay", action="store_true", help="open all at once, and wait to be killed")
    chosen = parser.parse_args()
    asyncio.run((stay_open if chosen.stay else measure_all)(chosen.modes, chosen.folder))


if __name__ == "__main__":
    main()
