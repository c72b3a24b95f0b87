"""What servers offer besides tools, and what they ask: through the toolbox, on servers in memory and as processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import pytest
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp_types import (
    Completion,
    CompletionArgument,
    ElicitResult,
    PromptReference,
    ResourceTemplateReference,
    TextResourceContents,
)
from pydantic import BaseModel

from rkllm_chat.errors import ChatError, ServerNotFoundError, ToolNotFoundError
from rkllm_chat.messages import ToolResult
from rkllm_chat.servers.asks import Asks
from rkllm_chat.servers.toolbox import Toolbox

from .faults import wait_for

T = TypeVar("T")


class Berth(BaseModel):
    metres: int


async def ask_berth() -> Elicit[Berth]:
    return Elicit("How long is the boat?", Berth)


def make_harbour() -> MCPServer:
    server = MCPServer("harbour")

    @server.tool()
    async def get_tide(harbour: str) -> str:
        """Tide height at a harbour."""
        return f"2.4 metres at {harbour}"

    @server.tool()
    async def book(boat: str, berth: Annotated[Berth, Resolve(ask_berth)]) -> str:
        """Books a berth."""
        return f"{boat} has {berth.metres} metres"

    @server.tool()
    async def open_lock(ctx: Context) -> str:
        """Makes another tool appear."""
        server.add_tool(close_lock)
        await ctx.notify_tools_changed()
        return "open"

    async def close_lock() -> str:
        """Closes it."""
        return "closed"

    @server.resource("harbour://log")
    def read_log() -> str:
        return "all quiet"

    @server.resource("harbour://berth/{number}")
    def read_berth(number: str) -> str:
        return f"berth {number} is free"

    @server.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}."

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def suggest(_ref: object, argument: CompletionArgument, _context: object) -> Completion:
        return Completion(values=[name for name in ("Husum", "Hull") if name.startswith(argument.value)])

    return server


def with_harbour(then: Callable[[Toolbox], Awaitable[T]], asks: Asks | None = None, trust: str = "ask") -> T:
    async def go() -> T:
        async with Toolbox.of({"harbour": make_harbour()}, asks, trust) as box:
            return await then(box)

    return asyncio.run(go())


async def call(box: Toolbox, name: str, **arguments: object) -> ToolResult:
    tool = next(tool for tool in box.tools if tool.name == name)
    return await box.call(tool, arguments, lambda *_: None)


def test_a_server_in_memory_is_a_server_like_others() -> None:
    async def look(box: Toolbox) -> tuple[bool, str, str]:
        return (
            box.is_connected("harbour"),
            (await call(box, "get_tide", harbour="Husum")).text,
            (box.connections["harbour"].protocol_version),
        )

    assert with_harbour(look) == (True, "2.4 metres at Husum", "2026-07-28")


def test_the_model_can_list_and_read_resources_by_two_tools_of_ours() -> None:
    async def look(box: Toolbox) -> tuple[str, str, str]:
        return (
            (await call(box, "list_resources")).text,
            (await call(box, "read_resource", uri="harbour://berth/7")).text,
            (await call(box, "read_resource", uri="harbour://nothing")).status,
        )

    listed, read, missing = with_harbour(look)
    assert listed == "harbour://log: read_log\nharbour://berth/{number}: read_berth"
    assert (read, missing) == ("berth 7 is free", "failed")


@pytest.mark.parametrize(("trust", "trusted"), [("ask", False), ("trusted", True)])
def test_our_tools_for_resources_are_trusted_as_far_as_their_servers(trust: str, trusted: bool) -> None:
    async def look(box: Toolbox) -> list[tuple[bool, bool]]:
        return [(tool.read_only, tool.trusted) for tool in box.tools if not tool.server]

    assert with_harbour(look, trust=trust) == [(True, trusted)] * 2


def test_resources_prompts_and_completions_are_there_for_programs() -> None:
    async def look(box: Toolbox) -> None:
        assert [(server, one.uri) for server, one in await box.list_resources()] == [("harbour", "harbour://log")]
        assert [one.uri_template for _, one in await box.list_templates("harbour")] == ["harbour://berth/{number}"]
        assert [one.name for _, one in await box.list_prompts()] == ["greet"]
        (content,) = (await box.read_resource("harbour://log")).contents
        assert isinstance(content, TextResourceContents) and content.text == "all quiet"
        prompt = await box.get_prompt("harbour", "greet", {"name": "Ken"})
        assert getattr(prompt.messages[0].content, "text", "") == "Greet Ken."
        for ref in (PromptReference(name="greet"), ResourceTemplateReference(uri="harbour://berth/{number}")):
            assert (await box.complete("harbour", ref, "name", "Hus")).completion.values == ["Husum"]

    with_harbour(look)


def test_what_is_unknown_is_named_with_what_there_is() -> None:
    async def look(box: Toolbox) -> tuple[ChatError, ChatError]:
        with pytest.raises(ServerNotFoundError) as no_server:
            await box.execute_tool("port", "get_tide")
        with pytest.raises(ToolNotFoundError) as no_tool:
            await box.execute_tool("harbour", "get_tides")
        return no_server.value, no_tool.value

    no_server, no_tool = with_harbour(look)
    assert str(no_server) == 'There is no server "port". There are harbour.'
    assert str(no_tool) == 'Server "harbour" has no tool "get_tides". It has get_tide, book, open_lock.'


def test_a_question_of_a_server_is_answered_by_whoever_sits_there() -> None:
    asked: list[tuple[str, str]] = []

    async def answer(server: str, params: object) -> ElicitResult:
        asked.append((server, getattr(params, "message", "")))
        return ElicitResult(action="accept", content={"metres": 12})

    async def look(box: Toolbox) -> str:
        return (await call(box, "book", boat="Anna")).text

    assert with_harbour(look, Asks(elicit=answer)) == "Anna has 12 metres"
    assert asked == [("harbour", "How long is the boat?")]


def test_who_is_asked_may_think_longer_than_a_call_may_take() -> None:
    async def answer(_server: str, _params: object) -> ElicitResult:
        end = time.monotonic() + 1.2
        await wait_for(lambda: time.monotonic() >= end)
        return ElicitResult(action="accept", content={"metres": 12})

    async def go() -> str:
        async with Toolbox.of({"harbour": make_harbour()}, Asks(elicit=answer), timeout_s=0.6) as box:
            return (await call(box, "book", boat="Anna")).text

    assert asyncio.run(go()) == "Anna has 12 metres"


def test_without_anybody_to_ask_the_call_fails_and_the_server_lives() -> None:
    async def look(box: Toolbox) -> tuple[str, str]:
        return (await call(box, "book", boat="Anna")).status, (await call(box, "get_tide", harbour="Hull")).status

    assert with_harbour(look) == ("failed", "completed")


def test_new_tools_appear_while_the_server_runs() -> None:
    async def go() -> list[str]:
        changed = asyncio.Event()
        asks = Asks(on_change=lambda _server, what: changed.set() if what == "tools" else None)
        async with Toolbox.of({"harbour": make_harbour()}, asks) as box:
            await call(box, "open_lock")
            await asyncio.wait_for(changed.wait(), 5)
            return [tool.name for tool in await box.list_tools("harbour")]

    assert asyncio.run(go()) == ["get_tide", "book", "open_lock", "close_lock"]


def test_importing_the_servers_costs_no_sdk() -> None:
    code = "import rkllm_chat.servers, sys; print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "False"
