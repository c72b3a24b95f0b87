"""What a sandbox denied is said however the server reports it: as a JSON-RPC error, or as a failed tool's result."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat import MCPClient, MCPException
from stage import Run, call_text

SERVER = """
import json, socket, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"result": {}}
    if message["method"] == "initialize":
        about = {"name": "look", "version": "1"}
        reply["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    elif message["method"] == "tools/list":
        reply["result"] = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        try:
            socket.create_connection(("127.0.0.1", 9), 1)
        except OSError:
            text = "connect ENETUNREACH"
            if sys.argv[1] == "error":
                reply = {"error": {"code": -32603, "message": text}}
            else:
                reply["result"] = {"isError": True, "content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"""
DENIED = 'The sandbox of "web" has no network. To allow it, set network = true'


@pytest.mark.sandbox
@pytest.mark.parametrize("way", ["error", "result"])
def test_every_way_in_which_a_server_reports_a_failure_is_explained_alike(
    way: str, program: Run, script: Callable[..., str], folder: Path, environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By one-shot commands, a script and the library; the model reads nothing of it."""
    environment["RKLLM_CHAT_SANDBOX"] = "on"
    monkeypatch.setenv("RKLLM_CHAT_SANDBOX", "on")
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    entry = {"command": sys.executable, "args": [str(folder / "server.py"), way]}
    (folder / "own.json").write_text(json.dumps({"mcpServers": {"web": entry}}), encoding="utf-8")
    options = ("--config", "own.json")
    error = json.loads(program("call-tool", "web.look", *options, code=1).stdout)["error"]
    assert "ENETUNREACH" in error["message"] and DENIED in error["details"]["hint"]
    turn = ("-p", "go", "--model", script(call_text("look"), "So."), *options, "--allow", "web__*")
    result = json.loads(program(*turn, "--output-format", "json").stdout)["result"]
    assert (result["calls"][0]["status"], "sandbox" in result["calls"][0]["text"]) == ("failed", False)
    assert any("no network" in notice for notice in result["notices"])

    async def call() -> MCPException:
        async with MCPClient(folder / "own.json") as client:
            with pytest.raises(MCPException) as caught:
                await client.execute_tool("web", "look")
            return caught.value

    assert DENIED in asyncio.run(call()).hint
