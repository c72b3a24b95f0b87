"""What programs of users get from the library where something is not there: an error that says what, no empty list."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcp_client.faults import chaos
from rkllm_chat import MCPClient, MCPConnectionError, MCPException

DEAD = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}


def write(folder: Path, **entries: object) -> Path:
    """Write a file with a server that works, named good, and others."""
    server = chaos(folder, "ok", "good")
    good = {"command": server.command, "args": [*server.args], "env": dict(server.env)}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"good": good, **entries}}), encoding="utf-8")
    return path


def test_a_program_that_lists_and_calls_learns_which_servers_are_not_there(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        dead=DEAD,
        unset={"command": "x", "env": {"A": "${NOWHERE_SET}"}},
        typo={"comand": "x"},
        limited={**DEAD, "rateLimit": 3},
    )
    reasons = {
        "dead": "exited with 3",
        "unset": "variable NOWHERE_SET, which is not set",
        "typo": 'unknown key "comand". Did you mean "command"?',
        "limited": "rateLimit is not understood",
    }
    with MCPClient.sync(path) as client:
        assert not client.is_connected() and client.is_connected("good")
        assert {name: one.is_connected for name, one in client.health.items()} == {
            "good": True, **dict.fromkeys(reasons, False)
        }  # fmt: skip
        assert [*client.list_tools()] == ["good"] and client.failures.keys() == reasons.keys()
        for name, reason in reasons.items():
            assert not client.is_connected(name) and reason in str(client.health[name].error)
            for ask in (lambda name=name: client.list_tools(name), lambda name=name: client.execute_tool(name, "echo")):
                with pytest.raises(MCPException) as caught:
                    ask()
                assert reason in str(caught.value)
        with pytest.raises(MCPException, match='no server "nobody"'):
            client.list_tools("nobody")
        client.reload(write(tmp_path))
        assert client.is_connected() and client.health.keys() == {"good"}


def test_a_program_that_adds_servers_learns_why_one_did_not_start(tmp_path: Path) -> None:
    with MCPClient.sync(write(tmp_path)) as client:
        for entry, kind, reason in (
            (DEAD, MCPConnectionError, "exited with 3"),
            ({"command": "/nonexistent/x"}, MCPConnectionError, "/nonexistent/x"),
            ({"comand": "x"}, MCPException, 'Did you mean "command"?'),
            ({**DEAD, "readOnly": True}, MCPException, "readOnly is not understood"),
        ):
            with pytest.raises(kind) as caught:
                client.add_server("more", entry)
            assert reason in str(caught.value) and client.servers == ["good"]
        client.add_server("more", chaos(tmp_path, "ok", "more"))
        assert client.is_connected()


def test_a_program_that_reads_and_completes_learns_what_was_wrong_with_its_call() -> None:
    from mcp.server import MCPServer

    servers = [MCPServer("one"), MCPServer("two")]
    for server in servers:
        server.resource("demo://here", name="here")(lambda: "text")
    with MCPClient.sync({"one": servers[0], "two": servers[1]}) as client:
        assert client.read_resource("demo://here")
        with pytest.raises(MCPException) as caught:
            client.read_resource("demo://nope")
        assert str(caught.value) == 'No open server has the resource "demo://nope". Asked: one, two.'
        with pytest.raises(MCPException, match="two"):
            client.read_resource("demo://nope", "two")
        with pytest.raises(MCPException, match="PromptReference"):
            client.complete("one", "prompt", "city", "O")  # type: ignore[arg-type]
