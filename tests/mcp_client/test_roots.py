"""Which folders a server learns of as roots: in the chat's client and in a one-shot command alike."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config.files import read_servers
from rkllm_chat.config.trust_rules import Origin
from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox
from shell import Shell

SERVER = """
import json, sys
def put(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
roots, waiting = "not announced", None
for line in sys.stdin:
    one = json.loads(line)
    method, number = one.get("method"), one.get("id")
    if method == "initialize":
        has_roots = "roots" in one["params"]["capabilities"]
        put(id=number, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "r", "version": "1"}})
    elif method == "notifications/initialized" and has_roots:
        put(id="roots", method="roots/list")
        roots = None
    elif number == "roots":
        roots = json.dumps([root["uri"] for root in one["result"]["roots"]])
        if waiting is not None:
            put(id=waiting, result={"content": [{"type": "text", "text": roots}]})
    elif method == "tools/list":
        put(id=number, result={"tools": [{"name": "roots", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call" and roots is None:
        waiting = number
    elif method == "tools/call":
        put(id=number, result={"content": [{"type": "text", "text": roots}]})
    elif method == "server/discover" or (method and number is not None and method != "initialize"):
        put(id=number, error={"code": -32601, "message": "unknown"})
"""
CASES: dict[str, tuple[dict[str, Any], list[str] | None]] = {
    "those that it names, relative to the file": ({"roots": ["inner", "{outside}"]}, ["{file}/inner", "{outside}"]),
    "none": ({"roots": False}, None),
    "those of the arguments": ({"args": ["{outside}"]}, ["{outside}"]),
    "the start folder": ({}, ["{start}"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_server_learns_of_the_same_roots_in_the_chat_and_in_one_shot_commands(
    case: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, expected = CASES[case]
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    for name in ("file/inner", "out side"):
        (tmp_path / name).mkdir(parents=True)
    places = {"file": tmp_path / "file", "outside": tmp_path / "out side", "start": shell.folder}
    entry = json.loads(json.dumps(entry).replace("{outside}", str(places["outside"])))
    entry = {"command": sys.executable, **entry, "args": [str(tmp_path / "server.py"), *entry.get("args", [])]}
    config = tmp_path / "file/servers.json"
    config.write_text(json.dumps({"mcpServers": {"r": entry}}), encoding="utf-8")
    told = "not announced"
    if expected is not None:
        told = json.dumps([Path(pattern.format(**places)).as_uri() for pattern in expected])

    async def ask_as_the_chat() -> str:
        handlers = ClientHandlers(default_root=shell.folder)
        async with Toolbox(read_servers(str(config), Origin.USER), tmp_path / "logs", handlers) as toolbox:
            assert not toolbox.failures
            return (await toolbox.call(toolbox.tools[0], {}, lambda *_: None)).text

    monkeypatch.chdir(shell.folder)
    assert asyncio.run(ask_as_the_chat()) == told
    result = shell.result("call-tool", "r.roots", "--config", str(config))
    assert result["content"][0]["text"] == told
    (listed,) = shell.result("list-servers", "--config", str(config))
    if "roots" in entry:
        assert listed["roots"] == [pattern.format(**places) for pattern in expected or ()]
    else:
        assert "roots" not in listed


def test_a_home_folder_is_not_announced_and_a_missing_root_is_named(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    shell.environment |= {"HOME": str(shell.folder), "RKLLM_CHAT_TRUST_PROJECT": "1"}
    shell.add("r", command=sys.executable, args=[str(tmp_path / "server.py")])
    assert shell.result("call-tool", "r.roots")["content"][0]["text"] == "not announced"
    shell.add("r", command=sys.executable, args=[str(tmp_path / "server.py")], roots=["nowhere"])
    error = shell.error("call-tool", "r.roots")
    assert str(shell.folder / "nowhere") in error["message"] and "roots" in error["details"]["hint"]
