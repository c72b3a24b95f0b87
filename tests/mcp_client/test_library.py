"""The library, by its public names only: several servers behind one client, with and without an event loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, Completion, ElicitResult, PromptReference, TextContent, TextResourceContents

from rkllm_chat import MCPClient, MCPConnectionError, MCPException, MCPTimeoutError, MCPToolError, ServerConfig

from .faults import chaos, left_behind, read_events, wait_for

BOARD = {"command": "rkllm-chat", "args": ["serve", "board"]}


def make_weather() -> MCPServer:
    server = MCPServer("Weather")

    @server.tool()
    def get_forecast(city: str) -> str:
        """The forecast of a city."""
        if city == "Atlantis":
            raise ToolError("It sank.")
        return f"{city}: sunny"

    @server.resource("icons://sunny")
    def sunny() -> str:
        """The icon of the sun."""
        return "☀"

    return server


def make_assistant() -> MCPServer:
    server = MCPServer("Assistant")

    @server.tool()
    def answer(question: str) -> str:
        """Answers a question."""
        return f"Answer: {question}"

    return server


def use(servers: Any, work: Callable[[MCPClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with MCPClient(servers) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(run(), 30))


def in_process() -> dict[str, Any]:
    return {"weather": make_weather(), "assistant": make_assistant()}


def test_tools_are_listed_by_server_and_called_by_server_and_name_or_by_one_name() -> None:
    async def work(client: MCPClient) -> None:
        tools = await client.list_tools()
        assert {name: [tool.name for tool in found] for name, found in tools.items()} == {
            "weather": ["get_forecast"],
            "assistant": ["answer"],
        }
        assert [tool.name for tool in await client.list_tools("weather")] == ["get_forecast"]
        assert (await client.execute_tool("weather", "get_forecast", {"city": "Tokyo"})).text == "Tokyo: sunny"
        for name in ("weather_get_forecast", "weather__get_forecast", "get_forecast"):
            assert (await client.call_tool(name, {"city": "Oslo"})).text == "Oslo: sunny"
        assert client.is_connected() and client.is_connected("weather") and client.servers == ["weather", "assistant"]

    use({"mcpServers": in_process()}, work)
    use(in_process(), work)


def test_a_client_is_connected_from_its_beginning_to_its_end() -> None:
    async def run() -> None:
        client = MCPClient.from_fastmcp_config({"mcpServers": in_process()})
        assert not client.is_connected()
        async with client:
            assert client.is_connected()
            await client.close()
            assert not client.is_connected() and not client.is_connected("weather")
        with pytest.raises(MCPException):
            await client.execute_tool("weather", "get_forecast", {"city": "Oslo"})

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.slow
def test_servers_may_be_objects() -> None:
    board = ServerConfig("board", "rkllm-chat", ("serve", "board"))

    async def work(client: MCPClient) -> None:
        (name,) = client.servers
        tools = await client.list_tools(name)
        assert name in ("board", "desk") and "get_time" in [tool.name for tool in tools]

    use([board], work)
    use({"desk": board}, work)


@pytest.mark.slow
def test_a_tool_that_takes_too_long_is_a_timeout_and_the_next_call_works(tmp_path: Path) -> None:
    program = tmp_path / "slow.py"
    program.write_text(
        "import anyio\nfrom mcp.server import MCPServer\nserver = MCPServer('slow')\n"
        "@server.tool()\nasync def wait(seconds: float) -> str:\n"
        "    await anyio.sleep(seconds)\n    return 'done'\nserver.run()\n",
        encoding="utf-8",
    )
    slow = ServerConfig("slow", sys.executable, (str(program),), tool_timeouts={"wait": 0.5}, sandbox="off")

    async def work(client: MCPClient) -> None:
        with pytest.raises(MCPTimeoutError):
            await client.execute_tool("slow", "wait", {"seconds": 60})
        assert (await client.execute_tool("slow", "wait", {"seconds": 0})).text == "done"

    use([slow], work)


@pytest.mark.parametrize(("mode", "last"), [("hang-on-init", "initialize"), ("hang-call", "tools/call")])
def test_a_client_in_a_cancelled_scope_leaves_no_server(mode: str, last: str, tmp_path: Path) -> None:
    async def call() -> None:
        async with MCPClient([chaos(tmp_path, mode)]) as client:
            await client.execute_tool("chaos", "act")

    async def go() -> list[int]:
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await wait_for(lambda: last in str(read_events(tmp_path, "chaos")))
            group.cancel_scope.cancel()
        return left_behind(tmp_path, "chaos")

    assert asyncio.run(go()) == []


def test_resources_are_listed_by_server_and_read_by_their_own_or_a_prefixed_uri() -> None:
    async def work(client: MCPClient) -> None:
        resources = await client.list_resources()
        assert [str(resource.uri) for resource in resources["weather"]] == ["icons://sunny"] and resources[
            "assistant"
        ] == []
        assert [str(resource.uri) for resource in await client.list_resources("weather")] == ["icons://sunny"]
        for uri, server in (("icons://sunny", None), ("icons://sunny", "weather"), ("icons://weather/sunny", None)):
            (part,) = await client.read_resource(uri, server)
            assert isinstance(part, TextResourceContents) and part.text == "☀"
        with pytest.raises(MCPException):
            await client.read_resource("icons://rain")

    use(in_process(), work)


def test_every_failure_is_an_exception_of_one_tree() -> None:
    async def work(client: MCPClient) -> None:
        with pytest.raises(MCPToolError, match="It sank") as failed:
            await client.execute_tool("weather", "get_forecast", {"city": "Atlantis"})
        assert "It sank" in failed.value.details["content"][0].text
        with pytest.raises(MCPConnectionError, match="nowhere"):
            await client.execute_tool("nowhere", "x")
        assert not client.is_connected() and set(client.failures) == {"nowhere"}
        for name in ("no_tool", "weather_no_tool"):
            with pytest.raises(MCPException, match="weather__get_forecast"):
                await client.call_tool(name)
        with pytest.raises(MCPException, match="configured servers are nowhere, weather"):
            await client.execute_tool("paris", "x")

    use({"weather": make_weather(), "nowhere": {"command": "/nowhere/server"}}, work)
    for kind in (MCPConnectionError, MCPTimeoutError, MCPToolError):
        assert issubclass(kind, MCPException)


@pytest.mark.parametrize(
    "servers",
    [{"mcpServers": []}, {"mcpServers": {"a": {"command": 3}}}, {"a": {"args": [{1, 2}]}}, "/nowhere/mcp.json"],
)
def test_an_invalid_configuration_is_refused_before_anything_starts(servers: Any) -> None:
    with pytest.raises(MCPException):
        MCPClient(servers)


@pytest.mark.slow
def test_a_script_without_an_event_loop_uses_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"board": BOARD}}), encoding="utf-8")
    with MCPClient.sync(path, tmp_path / "logs") as client:
        assert client.is_connected("board")
        assert "get_time" in [tool.name for tool in client.list_tools("board")]
        assert "34" in client.execute_tool("board", "calculate", {"expression": "17 * 2"}).text
    with pytest.raises(MCPException, match="not open"):
        client.list_tools()


@pytest.mark.slow
def test_the_example_reports_tools_a_prompt_and_a_call(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"board": BOARD, "gone": {"command": "nope"}}}), encoding="utf-8")
    program = Path(__file__).parents[2] / "examples/tool_report.py"
    for argument, code in ((path, 0), (tmp_path / "none.json", 3)):
        command = [sys.executable, str(program), str(argument)]
        done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=30, check=False)
        assert done.returncode == code, done.stderr
        if not code:
            assert "gone" in done.stderr and done.stdout.startswith("board: get_time, calculate, ")
            assert "<|im_start|>user\nWhat time is it in Oslo?" in done.stdout and "<tool_call>" in done.stdout
            assert "CallFound" in done.stdout.splitlines()[-1]


def test_importing_the_package_is_cheap_and_prints_nothing() -> None:
    """In a process of its own: this one has imported everything."""
    code = "import sys, rkllm_chat; print(len([name for name in sys.modules if name.startswith('rkllm_chat')]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=20)
    assert (done.stdout, done.stderr) == (b"3\n", b"")  # and its version


@pytest.mark.slow
def test_the_library_prints_nothing_and_logs_what_it_skips(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"odd": {"command": 5}}}), encoding="utf-8")
    program = (
        "import logging, sys\nfrom rkllm_chat import MCPClient\n"
        "if sys.argv[2:]: logging.basicConfig(format='%(name)s: %(message)s')\n"
        "MCPClient(sys.argv[1])\n"
    )
    for logs in ([], ["log"]):
        command = [sys.executable, "-c", program, str(path), *logs]
        done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=30, check=True)
        assert done.stdout == "" and done.stderr.startswith("rkllm_chat." if logs else "")
        assert bool(done.stderr) == bool(logs)


def make_harbour() -> MCPServer:
    server = MCPServer("Harbour")

    @server.tool()
    async def moor(context: Context[Any, Any]) -> dict[str, Any]:
        """Moors a ship."""
        await context.report_progress(1, 2, "half")
        return {"ship": "Tide"}

    @server.tool()
    async def wait() -> str:
        """Waits for a ship."""
        await asyncio.sleep(30)
        return "no ship"

    @server.tool()
    def sink() -> CallToolResult:
        """Says something beside its content."""
        return CallToolResult(content=[], structured_content={"depth": 7}, _meta={"shade": "blue"})

    @server.prompt()
    def greet(name: str) -> str:
        """Greets."""
        return f"Hello {name}"

    async def complete(_ref: Any, argument: Any, _context: Any) -> Completion:
        return Completion(values=[f"{argument.value}sa"])

    server.completion()(complete)  # type: ignore[no-untyped-call]  # the SDK's decorator has no types (mcp 2.3.0)
    return server


def test_a_result_has_its_structured_part_and_a_call_its_limit_and_progress() -> None:
    reports: list[tuple[float, float | None, str]] = []

    async def work(client: MCPClient) -> None:
        moored = await client.call_tool("moor", on_progress=lambda *report: reports.append(report))
        assert moored.structured_content == {"ship": "Tide"} and "Tide" in moored.text
        sunk = await client.execute_tool("harbour", "sink")
        assert (list(sunk), sunk.structured_content, sunk.meta) == ([], {"depth": 7}, {"shade": "blue"})
        with pytest.raises(MCPTimeoutError, match=r"within 0\.2 s"):
            await client.execute_tool("harbour", "wait", timeout_s=0.2)
        assert [prompt.name for prompt in await client.list_prompts("harbour")] == ["greet"]
        message = (await client.get_prompt("harbour", "greet", {"name": "Bo"})).messages[0]
        assert isinstance(message.content, TextContent) and message.content.text == "Hello Bo"
        reference = PromptReference(type="ref/prompt", name="greet")
        assert await client.complete("harbour", reference, "name", "Å") == ["Åsa"]

    use({"harbour": make_harbour()}, work)
    assert reports == [(1, 2, "half")]


def test_the_forms_of_servers_reach_the_program(tmp_path: Path) -> None:
    async def fill(server: str, params: Any) -> ElicitResult:
        assert (server, params.message) == ("chaos", "Who?")
        return ElicitResult(action="accept", content={"name": "Åsa"})

    async def run() -> str:
        async with MCPClient([chaos(tmp_path, "old-task-asks")], elicit=fill) as client:
            return (await client.call_tool("act")).text

    assert asyncio.run(asyncio.wait_for(run(), 30)) == "hello, Åsa"


def test_servers_are_added_and_removed_while_it_runs(tmp_path: Path) -> None:
    added = chaos(tmp_path, "ok", "added")

    async def work(client: MCPClient) -> None:
        await client.add_server("added", added)
        await client.add_server("weather", make_weather())
        assert client.servers == ["assistant", "added", "weather"]
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        with pytest.raises(MCPConnectionError, match='"dead" ended before it answered'):
            await client.add_server("dead", {"command": sys.executable, "args": ["-c", ""]})
        health = client.health
        assert [server.is_connected for server in health.values()] == [True, True, True] and health["added"].tools == 3
        await client.remove_server("added")
        assert client.servers == ["assistant", "weather"] and client.is_connected()
        with pytest.raises(MCPException, match="already"):
            await client.add_server("weather", make_weather())

    use({"assistant": make_assistant()}, work)
    assert left_behind(tmp_path, "added") == []


def test_a_client_that_is_not_entered_starts_nothing(tmp_path: Path) -> None:
    client = MCPClient([chaos(tmp_path, "ok")])
    for call in (client.call_tool("echo"), client.execute_tool("chaos", "echo"), client.list_resources("chaos")):
        with pytest.raises(MCPException, match="not open"):
            asyncio.run(call)
    assert read_events(tmp_path, "chaos") == []


def test_errors_are_shown_with_the_names_that_programs_import() -> None:
    for kind in (MCPException, MCPConnectionError, MCPTimeoutError, MCPToolError):
        shown = traceback.format_exception_only(kind("It broke."))[0]
        assert shown.startswith(f"rkllm_chat.{kind.__qualname__}: ")
    assert MCPToolError.__qualname__ == "MCPToolError"


def test_a_configuration_that_was_edited_is_loaded_and_what_is_as_before_keeps_running(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"

    def write(*names: str) -> None:
        configs = [chaos(tmp_path, "ok", name) for name in names]
        entries = {
            config.name: {"command": config.command, "args": config.args, "env": {**config.env}} for config in configs
        }
        file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")

    async def run() -> None:
        write("kept", "old")
        async with MCPClient(file) as client:
            write("kept", "new")
            assert await client.reload(file) == ["new", "old"]
            assert (client.servers, client.is_connected()) == (["kept", "new"], True)
            file.write_text("{", encoding="utf-8")
            with pytest.raises(MCPException):
                await client.reload(file)
            assert (await client.call_tool("new_echo", {"text": "x"})).text == "x"
            assert await client.reload({"weather": make_weather()}) == ["kept", "new", "weather"]
            assert client.servers == ["weather"] and client.is_connected()

    asyncio.run(asyncio.wait_for(run(), 30))
    starts = [event for event in read_events(tmp_path, "kept") if event["event"] == "start"]
    assert len(starts) == 1
    assert left_behind(tmp_path, "kept") == []


def test_tools_are_found_by_a_question() -> None:
    async def work(client: MCPClient) -> list[str]:
        return [tool.full_name for tool in await client.find_tools("What is the forecast for the city of Oslo?")]

    assert use({"weather": make_weather(), "assistant": make_assistant()}, work)[0] == "weather__get_forecast"
