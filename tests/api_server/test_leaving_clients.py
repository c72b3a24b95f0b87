"""Clients leave at every moment of a request, and others switch, unload and ask the model: nothing is freed in use.

Each moment is one of the client's patience. What the server then prepares runs in native code, whose death would end
the process.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from api_server.conftest import StartApi
from mcp_servers.serving import END_S, LIMIT_S, Served

pytestmark = [pytest.mark.slow, pytest.mark.model]
MOMENTS = 20
HELLO: Any = [{"role": "user", "content": "Hello"}]
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{i}",
            "description": f"Does thing number {i} with alpha{i} beta{i * 7} gamma{i * 13}",  # counted anew each time
            "parameters": {"properties": {f"a{j}": {"description": f"argument {j} of {i}"} for j in range(6)}},
        },
    }
    for i in range(200)
]
CHAT = ("/v1/chat/completions", {"messages": HELLO, "tools": TOOLS, "max_tokens": 1})
TOKENIZE = ("/tokenize", {"content": "".join(f"{i} " for i in range(19_000))})
SHORT = {"content": "one two"}
FIRST, SECOND = ({"model": name, "messages": HELLO, "max_tokens": 1} for name in ("first", "second"))
UNLOAD = {"model": "first", "messages": [], "keep_alive": 0, "stream": False}


def leave_after(served: Served, path: str, body: Any, patience_s: float) -> None:
    """Send a request, wait for the answer as long as the patience lasts, and leave."""
    data = json.dumps(body).encode()
    token = served.headers["Authorization"]
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", served.port), END_S) as client:
        client.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        client.settimeout(max(patience_s, 0.001))
        try:
            client.recv(1)
        except TimeoutError:
            return


@pytest.mark.parametrize(("path", "body"), [CHAT, TOKENIZE], ids=["chat", "tokenize"])
def test_the_model_is_switched_and_unloaded_after_clients_that_left(
    start_api: StartApi, shipped_model: Path, tmp_path: Path, path: str, body: Any
) -> None:
    for name in ("first.gguf", "second.gguf"):
        shutil.copyfile(shipped_model, tmp_path / name)
    served = start_api("--model", str(tmp_path / "first.gguf"))
    base = served.url.removesuffix("/v1")
    others = [("/api/chat", UNLOAD), ("/v1/chat/completions", SECOND), ("/api/chat", UNLOAD), ("/tokenize", SHORT)]
    with httpx.Client(base_url=base, headers=served.headers, timeout=LIMIT_S) as client:
        assert client.post("/v1/chat/completions", json=FIRST).status_code == 200
        started_at = time.monotonic()
        client.post(path, json=body)
        whole_s = time.monotonic() - started_at
        for moment in range(MOMENTS):
            client.post("/v1/chat/completions", json=FIRST)
            leave_after(served, path, body, whole_s * moment / MOMENTS)
            other, asked = others[moment % len(others)]
            assert client.post(other, json=asked).status_code == 200, (moment, other)
    assert served.end() == (143, "")
