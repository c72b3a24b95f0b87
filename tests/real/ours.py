"""An MCP server of ours with the tools of server-everything that the conversation uses, over any transport.

`python ours.py stdio`, or `http`, `sse`, `websocket` with a port. It speaks both eras of the protocol, where
server-everything speaks the older one alone; and over WebSocket nobody else is left to talk to.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp_types import (
    CallToolRequestParams,
    Completion,
    CreateMessageResult,
    EmptyResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListRootsResult,
    ListToolsResult,
    LoggingLevel,
    PaginatedRequestParams,
    PromptReference,
    RequestParams,
    SamplingMessage,
    SubscribeRequestParams,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel

TEAMS = {"Engineering": ["Alice", "Bob"], "Sales": ["David", "Eve", "Frank"], "Support": ["John", "Kim"]}


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class Tasks(Extension):
    """Makes a task of each call of `research`: it asks for a name, and waits for the answer or the cancellation."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.states: dict[str, dict[str, Any]] = {}

    def methods(self) -> list[MethodBinding]:
        handlers = {"tasks/get": self.get, "tasks/update": self.update, "tasks/cancel": self.cancel}
        return [MethodBinding(method, TaskParams, handler) for method, handler in handlers.items()]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: Any
    ) -> Any:
        if params.name != "research" or ctx.protocol_version < "2026":
            return await call_next(ctx)
        task = f"task-{len(self.states)}"
        times = {"createdAt": "2026-11-20T10:00:00Z", "lastUpdatedAt": "2026-11-20T10:00:00Z"}
        self.states[task] = {"taskId": task, "status": "working", **times, "ttlMs": None, "pollIntervalMs": 50}
        return {"resultType": "task", **self.states[task]}

    async def get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        headers = getattr(ctx.request, "headers", None)
        assert headers is None or headers["mcp-name"] == params.task_id
        state = self.states[params.task_id]
        if state["status"] == "working":
            schema = Person.model_json_schema()
            question = {"mode": "form", "message": "Who wants to know?", "requestedSchema": schema}
            state["inputRequests"] = {"who": {"method": "elicitation/create", "params": question}}
            state["status"] = "input_required"
        return state

    async def update(self, _ctx: Any, params: TaskParams) -> dict[str, Any]:
        assert params.input_responses
        text = f"Known to {params.input_responses['who']['content']['name']}."
        result = {"content": [{"type": "text", "text": text}]}
        self.states[params.task_id] |= {"status": "completed", "inputRequests": {}, "result": result}
        return {}

    async def cancel(self, _ctx: Any, params: TaskParams) -> dict[str, Any]:
        self.states[params.task_id]["status"] = "cancelled"
        cancelled.set()
        return {}


server = MCPServer("ours", version="1.0.0", extensions=[Tasks()])
low = server._lowlevel_server  # noqa: SLF001 - the public one has no doors for pages, subscriptions and own transports
followed: set[str] = set()
cancelled = asyncio.Event()
READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


class Weather(BaseModel):
    temperature: float
    conditions: str
    humidity: float


class Person(BaseModel):
    name: str


def ask_name() -> Elicit[Person]:
    return Elicit("Please provide inputs for the following fields:", Person)


def ask_roots() -> ListRoots:
    return ListRoots()


def ask_model(prompt: str) -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return Sample([message], max_tokens=100, system_prompt="You are a helpful test server.", temperature=0.7)


@server.tool("echo", "Echo Tool", "Echoes back the input", READS, structured_output=False)
def echo(message: str) -> str:
    return f"Echo: {message}"


@server.tool("get-structured-content", "Get Structured Content Tool", "Weather of a city", READS)
def get_structured_content(location: str) -> Weather:
    assert location == "Chicago"
    return Weather(temperature=36, conditions="Light rain / drizzle", humidity=82)


@server.tool("trigger-long-running-operation", annotations=READS, structured_output=False)
async def run_long(duration: float, steps: int, ctx: Context) -> str:
    """Reports its progress."""
    try:
        for step in range(1, steps + 1):
            await asyncio.sleep(duration / steps)
            await ctx.report_progress(step, steps)
    except asyncio.CancelledError:
        cancelled.set()
        raise
    return f"Long running operation completed. Duration: {duration:g} seconds, Steps: {steps}."


@server.tool("trigger-elicitation-request", structured_output=False)
def elicit(person: Annotated[Person, Resolve(ask_name)]) -> str:
    """Asks the user."""
    return f"- Name: {person.name}"


@server.tool("trigger-sampling-request", structured_output=False)
def sample(prompt: str, answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Asks the client's model."""
    return f"LLM sampling result: {prompt} {answer.model_dump_json()}"


@server.tool("get-roots-list", annotations=READS, structured_output=False)
def get_roots(found: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Tells the client's roots."""
    return "\n".join(f"URI: {root.uri}" for root in found.roots)


@server.tool("research", structured_output=False)
def research() -> str:
    """Becomes a task where the protocol has them."""
    return "Known to all."


@server.tool("wait-for-cancel", structured_output=False)
async def wait_for_cancel() -> str:
    """Answers once another call was cancelled."""
    await cancelled.wait()
    cancelled.clear()
    return "a call was cancelled"


@server.tool("say", structured_output=False)
async def say(level: LoggingLevel, text: str, ctx: Context) -> str:
    """Writes a line into the client's log."""
    await ctx.log(level, text)
    return "said"


@server.tool("ping-client", structured_output=False)
async def ping_client(ctx: Context) -> str:
    """Asks the client whether it is there, as only the older protocol can."""
    await ctx.session.send_ping()
    return "pong"


@server.tool("add-tool", structured_output=False)
async def add_tool(name: str, ctx: Context) -> str:
    """Adds a tool and tells those who listen, in either era."""
    server.add_tool(lambda: "I am new.", name=name, description="New.", structured_output=False)
    await ctx.notify_tools_changed()
    if is_old(ctx):
        await ctx.session.send_tool_list_changed()
    return f"added {name}"


@server.tool("touch-resource", structured_output=False)
async def touch_resource(uri: str, ctx: Context) -> str:
    """Tells those who are subscribed that a resource has changed."""
    await ctx.notify_resource_updated(uri)
    if is_old(ctx) and uri in followed:
        await ctx.session.send_resource_updated(uri)
    return f"touched {uri}"


def is_old(ctx: Context) -> bool:
    """Whether the client has to be told of changes one by one."""
    return (ctx.protocol_version or "") < "2026"


@server.resource("demo://resource/dynamic/text/{resourceId}", name="Dynamic Text Resource", mime_type="text/plain")
def read_text(resourceId: str) -> str:  # noqa: N803 - the argument's name is the template's
    return f"Resource {resourceId}: This is a plaintext resource created at some time"


@server.resource("demo://resource/dynamic/blob/{resourceId}", name="Dynamic Blob Resource", mime_type="text/plain")
def read_blob(resourceId: str) -> bytes:  # noqa: N803
    return f"Resource {resourceId}: This is a base64 blob created at some time".encode()


@server.resource("demo://resource/static/document/features.md", name="features.md", mime_type="text/markdown")
def read_document() -> str:
    return "# Features"


@server.resource("demo://resource/static/document/structure.md", name="structure.md", mime_type="text/markdown")
def read_other() -> str:
    return "# Structure"


@server.prompt("args-prompt", "Arguments Prompt")
def ask_weather(city: str, state: str = "") -> str:
    return f"What's weather in {city}, {state}?"


@server.prompt("completable-prompt", "Team Management")
def promote(department: str, name: str) -> str:
    return f"Please promote {name} to the head of the {department} team."


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(reference: Any, argument: Any, context: Any) -> Completion | None:
    """Teams by their beginning, people by their team; a resource's number is its own completion."""
    if not isinstance(reference, PromptReference):
        return Completion(values=[argument.value], total=1, has_more=False)
    known = context.arguments if context and context.arguments else {}
    words = list(TEAMS) if argument.name == "department" else TEAMS.get(known.get("department", ""), [])
    values = [word for word in words if word.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


def page(kind: type[Any], key: str, method: str, list_all: Callable[[], Awaitable[list[Any]]]) -> None:
    """Gives a list one entry at a time."""

    async def give(_ctx: Any, params: PaginatedRequestParams | None) -> Any:
        entries = await list_all()
        at = int(params.cursor) if params and params.cursor else 0
        return kind(**{key: entries[at : at + 1]}, next_cursor=str(at + 1) if at + 1 < len(entries) else None)

    low.add_request_handler(method, PaginatedRequestParams, give)


page(ListToolsResult, "tools", "tools/list", server.list_tools)
page(ListResourcesResult, "resources", "resources/list", server.list_resources)
page(ListResourceTemplatesResult, "resource_templates", "resources/templates/list", server.list_resource_templates)
page(ListPromptsResult, "prompts", "prompts/list", server.list_prompts)


async def follow(_ctx: Any, params: SubscribeRequestParams) -> EmptyResult:
    followed.add(params.uri)
    return EmptyResult()


low.add_request_handler("resources/subscribe", SubscribeRequestParams, follow)


def main(transport: str, port: int = 0) -> None:
    if transport == "stdio":
        server.run("stdio")
    elif transport == "http":
        server.run("streamable-http", host="127.0.0.1", port=port)
    elif transport == "sse":
        server.run("sse", host="127.0.0.1", port=port)
    else:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from mcp_client.serve_sdk import serve_websocket

        listener = socket.create_server(("127.0.0.1", port))
        print(f"listening on port {port}", file=sys.stderr, flush=True)
        asyncio.run(serve_websocket(server, listener))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
