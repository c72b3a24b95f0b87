"""An MCP server over plain HTTP for one process of tests; who has no login is turned away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

LOGIN = "Bearer my-login"
INFO = {"name": "web", "version": "1"}
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}


class Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != LOGIN:
            self.answer(401, b"")
        elif "id" not in message:
            self.answer(202, b"")
        else:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message)}
            self.answer(200, json.dumps(reply).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer(405, b"")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests have nobody who reads it."""


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
        case "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": SCHEMA}]}
        case _:
            return {"content": [{"type": "text", "text": params["arguments"]["x"]}]}


@contextmanager
def web_server() -> Iterator[str]:
    """Its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join(timeout=5)
