"""Tests of transports: servers of a few lines, and what the client receives from them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.client import Client
from rkllm_chat.mcp_client.handlers import ClientHandlers, ignore
from rkllm_chat.mcp_client.server_requests import ServerRequests
from rkllm_chat.mcp_client.transports.base import Transport
from rkllm_chat.mcp_client.transports.driver import AnswerError, ConnectionEndedError, Driver
from rkllm_chat.mcp_client.transports.registry import make_transport

ENDED = "the connection has ended"
LIMIT_S = 5.0

T = TypeVar("T")

# A server of the 2026 protocol without a handshake: what it does with a call is the test's.
PRELUDE = """
import json, os, signal, subprocess, sys, time

def read():
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None

def write(*lines):
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()

def body(text="fine", **more):
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], **more}

def dump(message, **kind):
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], **kind}).encode()

def answer(message, text="fine", **more):
    return dump(message, result=body(text, **more))

def reply(message, text="fine", **more):
    write(answer(message, text, **more) + b"\\n")

def tell():
    # answers a call with the number of this process
    return lambda message: reply(message, str(os.getpid()))

def notify(method, **params):
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/" + method, "params": params}).encode() + b"\\n"

def listen(act):
    calls = 0
    while (message := read()) is not None:
        if message.get("method") == "tools/call":
            calls += 1
            if calls > 1 and message["params"]["name"] == "echo":
                write(answer(message, "echo") + b"\\n")
            else:
                act(message)
        elif message.get("method") == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("act", "echo")]
            listed = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
            write(dump(message, result=listed) + b"\\n")
        elif message.get("method") == "server/discover":
            found = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            write(dump(message, result=found) + b"\\n")

"""


@dataclass
class Heard:
    """What came of a call: its text, or an error with its code; how long it took."""

    text: str
    code: int | None
    seconds: float


def make_server(folder: Path, script: str, **options: Any) -> ServerConfig:
    """A stdio server of a few lines, behind PRELUDE."""
    path = folder / "server.py"
    path.write_text(PRELUDE + script, encoding="utf-8")
    return ServerConfig("small", command=sys.executable, args=("-S", str(path)), **{"timeout_s": LIMIT_S, **options})


def make_client(driver: Driver) -> Client:
    requests = ServerRequests(ServerConfig("small"), ClientHandlers(), ignore, {}, ignore)
    return Client("small", driver, requests, "info")


def talk(server: ServerConfig, folder: Path, then: Callable[[Client, Transport], Awaitable[T]]) -> T:
    """Enters a client over the server's transport, does `then`, and leaves; the whole within a limit."""

    async def go() -> T:
        transport = make_transport(server, folder / "logs/server.log")
        async with transport as driver:
            client = make_client(driver)
            await client.open(is_legacy=False)
            transport.mark_ready()
            return await then(client, transport)

    return asyncio.run(asyncio.wait_for(go(), 4 * LIMIT_S))


async def call(client: Client, tool: str = "act", **arguments: Any) -> Heard:
    begun = time.monotonic()
    try:
        result = await client.request("tools/call", {"name": tool, "arguments": arguments}, LIMIT_S)
    except AnswerError as error:
        return Heard(error.message, error.code, time.monotonic() - begun)
    except ConnectionEndedError:
        return Heard(ENDED, None, time.monotonic() - begun)
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    return Heard("".join(texts), None, time.monotonic() - begun)


def read_log(folder: Path) -> str:
    return (folder / "logs/server.log").read_text(encoding="utf-8", errors="replace")
