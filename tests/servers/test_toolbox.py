"""Servers as real processes: several at once, failing alone, dying in the middle, never left behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from rkllm_chat.config import ServerConfig
from rkllm_chat.discover import BOARD
from rkllm_chat.messages import Tool, ToolResult
from rkllm_chat.servers.toolbox import Toolbox

from .faults import Trial, try_mode

T = TypeVar("T")

SERVER = '''
import asyncio, os, sys
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ImageContent, ToolAnnotations

server = MCPServer("odd")

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def count(to: int, ctx: Context) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, "so far")
    return f"counted to {to}"

@server.tool()
async def wait(ctx: Context) -> str:
    """Waits for ever."""
    await ctx.report_progress(0, 1, "waiting")
    try:
        await asyncio.Event().wait()
    finally:
        open(os.path.join(os.path.dirname(__file__), "cancelled"), "w").close()
    return ""

@server.tool()
def die() -> str:
    """Ends the process in the middle of the call."""
    print("I am dying", file=sys.stderr, flush=True)
    os._exit(7)

@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no reason")

@server.tool()
def picture() -> ImageContent:
    """Gives a picture."""
    return ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")

@server.tool()
def process() -> int:
    """Gives its process number."""
    return os.getpid()

server.run("stdio")
'''


@pytest.fixture
def odd(tmp_path: Path) -> ServerConfig:
    path = tmp_path / "odd.py"
    path.write_text(SERVER, encoding="utf-8")
    return ServerConfig("odd", command=sys.executable, args=(str(path),), timeout_s=10)


def with_servers(tmp_path: Path, *configs: ServerConfig, then: Callable[[Toolbox], Awaitable[T]]) -> T:
    async def go() -> T:
        servers = Toolbox(configs, tmp_path / "logs")
        try:
            await servers.open()
            return await then(servers)
        finally:
            await servers.aclose()

    return asyncio.run(go())


def find(servers: Toolbox, name: str) -> Tool:
    return next(tool for tool in servers.tools if tool.name == name)


async def call(servers: Toolbox, name: str, **arguments: object) -> ToolResult:
    return await servers.call(find(servers, name), arguments, lambda *_: None)


def test_several_servers_are_one_box_of_tools(odd: ServerConfig, tmp_path: Path) -> None:
    async def look(servers: Toolbox) -> tuple[set[str], ToolResult]:
        return {tool.full_name for tool in servers.tools}, await call(servers, "calculate", expression="6 * 7")

    names, result = with_servers(tmp_path, BOARD, odd, then=look)
    assert {"board__get_time", "board__calculate", "odd__count", "odd__wait"} <= names
    assert (result.status, result.text, result.server) == ("completed", "6 * 7 = 42", "board")
    assert result.structured == {"expression": "6 * 7", "value": "42"}


def test_hints_count_as_trusted_only_where_the_user_says_so(odd: ServerConfig, tmp_path: Path) -> None:
    async def look(servers: Toolbox) -> dict[str, tuple[bool, bool]]:
        return {
            name: (find(servers, name).read_only, find(servers, name).trusted) for name in ("get_time", "count", "die")
        }

    hints = with_servers(tmp_path, BOARD, odd, then=look)
    assert hints == {"get_time": (True, True), "count": (True, False), "die": (False, False)}


def test_a_tool_is_kept_as_its_server_describes_it(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"value": {"type": "number"}}}
    server = MCPServer("sea")

    def look() -> None: ...

    destroy = ToolAnnotations(title="Sink it", destructive_hint=True, open_world_hint=False, read_only_hint=False)
    add_only = ToolAnnotations(destructive_hint=False)
    reading = ToolAnnotations(read_only_hint=True, destructive_hint=True)
    server.add_tool(look, "plain", structured_output=False)
    server.add_tool(look, "titled", "Look out", annotations=destroy, structured_output=False)
    server.add_tool(look, "destroy", annotations=destroy, structured_output=False)
    server.add_tool(look, "add", annotations=add_only, structured_output=False)
    server.add_tool(look, "read", annotations=reading, structured_output=False)

    async def go() -> dict[str, tuple[str, bool, bool]]:
        async with Toolbox.of({"sea": server}) as box:
            return {tool.name: (tool.title, tool.destructive, tool.open_world) for tool in box.tools}

    assert asyncio.run(go()) == {
        "plain": ("", True, True),  # the protocol's defaults
        "titled": ("Look out", True, False),
        "destroy": ("Sink it", True, False),
        "add": ("", False, True),
        "read": ("", True, True),  # of two claims the worse
    }

    async def schemas(trial: Trial) -> dict[str, Any]:
        return {tool.name: tool.output_schema for tool in trial.toolbox.tools if tool.server == "chaos"}

    promised = {**schema, "required": ["value"]}
    assert try_mode(tmp_path, "structured-mismatch", schemas) == {"echo": None, "add": None, "act": promised}


def test_a_tool_reports_its_progress_and_at_last_where_it_ended(odd: ServerConfig, tmp_path: Path) -> None:
    reports: list[tuple[float, float | None, str]] = []

    async def count(servers: Toolbox) -> ToolResult:
        return await servers.call(find(servers, "count"), {"to": 3}, lambda *report: reports.append(report))

    assert with_servers(tmp_path, odd, then=count).text == "counted to 3"
    assert (reports[0], reports[-1]) == ((1, 3, "so far"), (3, 3, "so far"))


def test_a_tool_that_fails_is_a_failed_result(odd: ServerConfig, tmp_path: Path) -> None:
    async def both(servers: Toolbox) -> list[ToolResult]:
        return [await call(servers, "fail"), await call(servers, "count", to=1)]

    failed, after = with_servers(tmp_path, odd, then=both)
    assert failed.status == "failed" and "fail" in failed.text
    assert after.status == "completed"


def test_a_picture_is_named_and_not_pasted(odd: ServerConfig, tmp_path: Path) -> None:
    result = with_servers(tmp_path, odd, then=lambda servers: call(servers, "picture"))
    assert result.text == "[image/png, 5 bytes, not shown]"


def test_a_call_that_takes_too_long_fails_and_the_server_lives(odd: ServerConfig, tmp_path: Path) -> None:
    hasty = ServerConfig(**{**vars(odd), "timeout_s": 0.5})

    async def both(servers: Toolbox) -> list[ToolResult]:
        return [await call(servers, "wait"), await call(servers, "count", to=1)]

    late, after = with_servers(tmp_path, hasty, then=both)
    assert (late.status, late.text) == ("failed", 'Server "odd" did not answer within 0.5 s.')
    assert after.status == "completed"


def test_a_call_that_is_stopped_is_cancelled_at_the_server_and_the_server_lives(
    odd: ServerConfig, tmp_path: Path
) -> None:
    async def stop_and_count(servers: Toolbox) -> ToolResult:
        began = asyncio.Event()
        waiting = asyncio.create_task(servers.call(find(servers, "wait"), {}, lambda *_: began.set()))
        await asyncio.wait_for(began.wait(), 5)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        return await call(servers, "count", to=1)

    assert with_servers(tmp_path, odd, then=stop_and_count).status == "completed"
    assert (tmp_path / "cancelled").exists()


def test_a_server_that_dies_in_a_call_fails_that_call_and_no_other_server(odd: ServerConfig, tmp_path: Path) -> None:
    async def both(servers: Toolbox) -> list[ToolResult]:
        return [await call(servers, "die"), await call(servers, "calculate", expression="1 + 1")]

    dead, other = with_servers(tmp_path, odd, BOARD, then=both)
    assert dead.status == "failed"
    assert 'Server "odd" has gone away' in dead.text and "I am dying" in dead.text
    assert other.text == "1 + 1 = 2"


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        (ServerConfig("bad", command="no-such-command-anywhere"), "cannot be found"),
        (
            ServerConfig("bad", command=sys.executable, args=("-c", "import sys; sys.exit('my last words')")),
            "my last words",
        ),
        (ServerConfig("bad", command="sleep", args=("60",), connect_s=0.5), "did not start within 0.5 s"),
        (ServerConfig("bad", command=sys.executable, cwd="/no/such/folder"), "there is no folder"),
        (ServerConfig("bad", url="http://127.0.0.1:1/mcp"), "cannot be reached"),
        (ServerConfig("bad", url="http://127.0.0.1:1/", transport="pigeon"), "Known are stdio, http, sse, websocket"),
    ],
    ids=["no command", "ends at once", "silent", "no folder", "refused", "no transport"],
)
def test_a_server_that_cannot_be_opened_says_why_and_fails_alone(
    config: ServerConfig, cause: str, odd: ServerConfig, tmp_path: Path
) -> None:
    async def look(servers: Toolbox) -> tuple[str, ToolResult]:
        return str(servers.failures["bad"]), await call(servers, "count", to=1)

    error, result = with_servers(tmp_path, config, odd, then=look)
    assert cause in error and '"bad"' in error
    assert result.status == "completed"


def test_no_process_is_left_when_the_box_is_closed(odd: ServerConfig, tmp_path: Path) -> None:
    async def look(servers: Toolbox) -> Path:
        process = Path("/proc") / (await call(servers, "process")).text
        assert process.exists()
        return process

    assert not with_servers(tmp_path, odd, then=look).exists()


def test_disabled_and_distrusted_servers_are_not_started(odd: ServerConfig, tmp_path: Path) -> None:
    off = ServerConfig(**{**vars(odd), "name": "off", "trust": "off"})
    disabled = ServerConfig(**{**vars(odd), "name": "disabled", "enabled": False})
    chosen = ServerConfig(**{**vars(odd), "tools_allow": ("count", "wait"), "tools_deny": ("wait",)})

    async def look(servers: Toolbox) -> list[str]:
        return [tool.full_name for tool in servers.tools]

    assert with_servers(tmp_path, off, disabled, chosen, then=look) == ["odd__count"]


def test_closing_does_not_wait_for_a_server_that_is_still_starting(tmp_path: Path) -> None:
    silent = ServerConfig("silent", command="sleep", args=("60",), connect_s=50)

    async def go() -> bool:
        servers = Toolbox([silent], tmp_path / "logs")
        opening = asyncio.create_task(servers.open())
        while not (tmp_path / "logs/silent.log").exists():  # noqa: ASYNC110 - the server's start says so
            await asyncio.sleep(0)
        await asyncio.wait_for(servers.aclose(), 10)
        await asyncio.wait_for(opening, 10)
        return servers.tools == []

    assert asyncio.run(go())


@pytest.mark.parametrize("steps", range(6))
def test_closing_at_once_does_not_wait_for_a_start_that_never_began(steps: int, tmp_path: Path) -> None:
    async def go() -> None:
        servers = Toolbox([ServerConfig("silent", command="sleep", args=("60",), connect_s=50)], tmp_path / "logs")
        opening = asyncio.create_task(servers.open())
        for _ in range(steps):
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(servers.aclose(), opening), 10)

    asyncio.run(go())
