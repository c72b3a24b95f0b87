"""A well-behaved MCP server over any transport: `python plain_server.py TRANSPORT`; it says its URL if it has one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

server = MCPServer("plain")


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, "so far")
    return f"counted to {to}"


@server.tool(structured_output=False)
def repeat(text: str, times: int) -> str:
    """Gives a text many times over."""
    return text * times


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no reason")


@server.tool()
async def wait(file: str, ctx: Context) -> str:
    """Waits for ever; makes the file when it is stopped."""
    await ctx.report_progress(0, 1, "waiting")
    try:
        await asyncio.Event().wait()
    finally:
        Path(file).touch()  # noqa: ASYNC240
    return ""


@server.tool()
def see_environment() -> dict[str, str]:
    """Its environment."""
    return dict(os.environ)


@server.tool()
def die() -> str:
    """Ends the process in the middle of the call."""
    print("I am dying", file=sys.stderr, flush=True)
    os._exit(7)


def serve(transport: str) -> None:
    if transport == "stdio":
        server.run("stdio")
        return
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    if transport == "websocket":
        asyncio.run(serve_websocket(listener, port))
        return
    app = server.streamable_http_app() if transport == "http" else server.sse_app()
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    print(f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else 'sse'}", flush=True)
    asyncio.run(uvicorn.Server(config).serve([listener]))


async def serve_websocket(listener: socket.socket, port: int) -> None:
    from websockets.asyncio.server import serve as serve_frames
    from websockets.typing import Subprotocol

    async with serve_frames(talk, sock=listener, subprotocols=[Subprotocol("mcp")], max_size=None):
        print(f"ws://127.0.0.1:{port}/", flush=True)
        await asyncio.Event().wait()


async def talk(connection: Any) -> None:
    """One connection: the SDK's low-level server over frames."""
    lowlevel = server._lowlevel_server  # noqa: SLF001 - the SDK has no public way to it (2.3.0)
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with to_server:
            async for frame in connection:
                await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_json(frame, by_name=False)))

    async def write() -> None:
        async with from_server:
            async for item in from_server:
                await connection.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))

    with contextlib.suppress(Exception):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(write)
            await lowlevel.run(incoming, outgoing, lowlevel.create_initialization_options())
            group.cancel_scope.cancel()


if __name__ == "__main__":
    serve(sys.argv[1])
