"""Serves an MCP server of the SDK over any transport."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter


def serve(server: MCPServer, transport: str) -> None:
    """Serve until the process ends; over a network the URL is printed first."""
    if transport == "stdio":
        server.run("stdio")
        return
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    if transport == "websocket":
        print(f"ws://127.0.0.1:{port}/", flush=True)
        asyncio.run(serve_websocket(server, listener))
        return
    app = server.streamable_http_app() if transport == "http" else server.sse_app()
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    print(f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else 'sse'}", flush=True)
    asyncio.run(uvicorn.Server(config).serve([listener]))


async def serve_websocket(server: MCPServer, listener: socket.socket) -> None:
    """One JSON-RPC message per text frame, subprotocol "mcp", as the SDK had it before 2.0."""
    from websockets.asyncio.server import serve as serve_frames
    from websockets.typing import Subprotocol

    lowlevel = server._lowlevel_server  # noqa: SLF001 - the SDK has no public way to it (2.3.0)

    async def talk(connection: Any) -> None:
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

    async with serve_frames(talk, sock=listener, subprotocols=[Subprotocol("mcp")], max_size=None):
        await asyncio.Event().wait()
