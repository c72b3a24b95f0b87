"""`rkllm-chat mcp auth`: a login from the shell, which later commands use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_client.gate import Gate, open_gate
from mcp_client.logins import fetch
from stage import Run, Screen


@pytest.fixture
def gate(folder: Path) -> Iterator[Gate]:
    """A server that requires a login, in the configuration of the folder."""
    with open_gate() as gate:
        servers = {"gate": {"url": gate.url, "type": "http"}, "box": {"command": "true"}}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        yield gate


@pytest.fixture
def screen(gate: Gate, environment: dict[str, str], folder: Path) -> Iterator[Screen]:
    """The command, which shows its address on one line."""
    assert gate.url
    screen = Screen(["mcp", "auth", "gate"], environment, folder, size=(900, 20))
    yield screen
    screen.close()


def read_url(screen: Screen, gate: Gate) -> str:
    screen.wait_for("[MCP: Server 'gate' requires a login. Open this URL in any browser:]")
    screen.wait_for("Login to gate:")
    (url,) = re.findall(re.escape(gate.issuer) + r"/authorize\?\S+", "\n".join(screen.lines()))
    return str(url)


@pytest.mark.parametrize("is_pasted", [False, True], ids=["by the browser", "pasted"])
def test_a_login_from_the_shell_is_used_by_the_next_commands_until_it_is_deleted(
    is_pasted: bool, screen: Screen, gate: Gate, program: Run
) -> None:
    redirect = fetch(read_url(screen, gate))[2]
    if is_pasted:
        screen.type(f"{redirect}\r")
    else:
        assert fetch(redirect)[0] == 200
    screen.wait_for("Server 'gate' is connected.")
    assert screen.wait_for_end() == 0
    call = ("call-tool", "gate.act")
    assert json.loads(program(*call).stdout)["ok"]
    assert gate.grants() == ["authorization_code"]

    assert "was deleted" in program("mcp", "auth", "gate", "--forget").stdout
    error = json.loads(program(*call, code=1).stdout)["error"]
    assert error["type"] == "AuthError" and "rkllm-chat mcp auth gate" in error["details"]["hint"]
    assert "There was no saved login" in program("mcp", "auth", "gate", "--forget").stdout


def test_a_login_that_is_given_up_ends_the_command(screen: Screen, gate: Gate) -> None:
    read_url(screen, gate)
    screen.type("\r")
    screen.wait_for("requires a login, which was cancelled.")
    assert screen.wait_for_end() == 4
    assert gate.grants() == []


def test_an_interrupted_login_ends_the_command(screen: Screen, gate: Gate) -> None:
    read_url(screen, gate)
    screen.type("\x03")
    assert screen.wait_for_end() == 130


def test_what_needs_no_user_or_no_login_is_said(gate: Gate, in_process: Run) -> None:
    assert "needs a terminal" in in_process("mcp", "auth", "gate", code=2).stderr
    assert "is started by a command" in in_process("mcp", "auth", "box", code=2).stderr
    assert gate.paths() == []
