"""A server that sends without end over its event stream: calls are answered, and the processor is left to others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.toolbox import Toolbox

SERVER = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
sent = json.loads(sys.argv[1])
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "flood", "version": "1"}},
    "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        number = 0
        try:
            while True:
                number += 1
                message = {"jsonrpc": "2.0", **sent, **({"id": number} if sent["method"] == "ping" else {})}
                self.wfile.write(b"event: message\\ndata: " + json.dumps(message).encode() + b"\\n\\n")
        except OSError:
            self.close_connection = True
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in asked or "method" not in asked:
            return self.answer(202, b"")
        result = RESULTS.get(asked["method"])
        outcome = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
        self.answer(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **outcome}).encode())
    def do_DELETE(self):
        self.answer(200, b"")
    def answer(self, status, data):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("mcp-session-id", "one")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""
"""In a process of its own, since the processor time of the client is measured."""
CALLS, MOST_CPU_S, LIMIT_S = 20, 4.0, 40.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    ['{"method": "ping"}', '{"method": "notifications/message", "params": {"level": "info", "data": "again"}}'],
    ids=["requests", "notifications"],
)
def test_calls_are_answered_beside_a_flood_at_a_bounded_cost(sent: str, tmp_path: Path) -> None:
    """Each request of the server was answered by a POST, before the next call: the third call waited a minute."""

    async def call(port: str) -> list[str]:
        entry = ServerConfig("flood", url=f"http://127.0.0.1:{port}/mcp", transport="http")
        toolbox = Toolbox((entry,), tmp_path)
        await toolbox.open(LIMIT_S / 2)
        try:
            return [(await toolbox.call(toolbox.tools[0], {}, lambda *_: None)).text for _ in range(CALLS)]
        finally:
            await toolbox.aclose()

    command = [sys.executable, "-c", SERVER, sent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            begun_s = time.process_time()
            texts = asyncio.run(asyncio.wait_for(call(server.stdout.readline().strip()), LIMIT_S))
            assert texts == ["done"] * CALLS and time.process_time() - begun_s < MOST_CPU_S
        finally:
            server.kill()
