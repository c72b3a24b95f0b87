"""The direct client of one-shot commands: whatever a server does, it gives a result or a ChatError, in time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpu_time import allow_s
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import AuthError, ChatError, ConnectError, ProtocolError, TimeLimitError
from rkllm_chat.mcp_client.direct.client import DirectClient
from rkllm_chat.mcp_client.direct.open_server import OpenServer, open_as_chat, open_server
from shell import Shell

from .chaos_http import open_site
from .faults import chaos, count_descriptors, left_behind, read_events

Outcome = str | tuple[type[ChatError], str]

# Mode -> what the call of `act` gives, or the error and a part of its text. For messages see test_odd_messages.py; more
# ways to fail are tried through a command, in tests/cli/test_json_commands.py.
PROCESSES: dict[str, Outcome] = {
    "init-bad-capabilities": (ProtocolError, 'its "capabilities" is not an object'),
    "server-request": "unanswered: 0",
    "stderr-flood": "act is done",
    "fork-child-setsid": "act is done",
    "init-error": "act is done",  # the newer protocol is tried then
    "list-endless": "act is done",
    "list-crowd": "act is done",
    "list-heavy": "act is done",
    "partial-then-die": (ConnectError, "exited with 7"),
    "segv-mid-call": (ConnectError, "SIGSEGV"),
    "close-stdout-but-live": (ConnectError, "closed its standard output"),
    "message-flood": (TimeLimitError, "within 0.5 s"),
    "sigstop-self": (TimeLimitError, "within 0.5 s"),
    "endless-line": (ProtocolError, "(more than 128 MB), limit 64 MB"),
}
SITES: dict[str, Outcome] = {
    "ok": "act is done",
    "call-events": "act is done",
    "call-packed": "act is done",
    "call-question": "act is done",
    "call-bomb": (ProtocolError, "limit 64 MB"),
    "call-cr": "act is done",
    "session-gone": "act is done",
    "call-other-event": "act is done",
    "call-primed": "act is done",
    "call-resumed": "act is done",
    "call-resumed-bare": "act is done",
    "call-resumed-twice": "act is done",
    "call-unresumed": (ConnectError, "closed the connection"),
    "call-other-event-only": (ConnectError, "closed the connection"),
    "call-other-id-events": (ProtocolError, "4711"),
    "start-401": (AuthError, "HTTP 401"),
    "call-403": (AuthError, "HTTP 403"),
    "call-404": (ConnectError, "HTTP 404"),
    "call-302": (ConnectError, "HTTP 302"),
    "call-silent": (TimeLimitError, "within 0.5 s"),
    "call-open-event": (TimeLimitError, "within 0.5 s"),
    "start-no-http": (ConnectError, "cannot be reached: 220 mail.example"),
    "call-cut": (ConnectError, "closed the connection"),
    **{f"call-trickle-{name}": (TimeLimitError, "within 0.5 s") for name in ("continue", "chunks", "comments")},
    "call-cut-chunk": (ConnectError, "before the response was complete"),
    "call-short": (ConnectError, "before the response was complete"),
    "call-no-event": (ConnectError, "closed the connection"),
    "call-no-json": (ProtocolError, "not JSON"),
    "call-other-id": (ProtocolError, "4711"),
    "call-huge": (ProtocolError, "limit 64 MB"),
    "call-endless-event": (ProtocolError, "limit 64 MB"),
}


def act(server: ServerConfig) -> dict[str, Any]:
    """List the tools and call `act`, through the direct client alone."""
    with open_server(server) as opened:
        assert isinstance(opened.client, DirectClient)
        opened.list_tools()
        return opened.call_tool("act", {})


def assert_outcome(server: ServerConfig, outcome: Outcome) -> None:
    if isinstance(outcome, str):
        assert "".join(block["text"] for block in act(server)["content"]) == outcome
        return
    with pytest.raises(ChatError) as caught:
        act(server)
    assert type(caught.value) is outcome[0] and outcome[1] in caught.value.message
    assert caught.value.message.isprintable()


def limits_for(outcome: Outcome) -> dict[str, Any]:
    limit_s = 0.5 if outcome[0] is TimeLimitError else 20.0
    return {"timeout_s": limit_s, "connect_s": limit_s}


MARKS = {"fork-child-setsid": pytest.mark.proc, "endless-line": pytest.mark.slow}


@pytest.mark.parametrize("mode", [pytest.param(mode, marks=MARKS.get(mode, ())) for mode in PROCESSES])
def test_a_process_gives_a_result_or_an_error_and_leaves_nothing(mode: str, tmp_path: Path) -> None:
    descriptors = count_descriptors()
    limits = {**limits_for(PROCESSES[mode]), "connect_s": 20.0}
    assert_outcome(chaos(tmp_path, mode, **limits), PROCESSES[mode])
    assert left_behind(tmp_path, "chaos") == []
    assert count_descriptors() == descriptors


@pytest.mark.parametrize("mode", SITES)
def test_a_site_gives_a_result_or_an_error_in_time(mode: str) -> None:
    limits = limits_for(SITES[mode])
    with open_site(mode) as site:
        started_at = time.monotonic()
        assert_outcome(ServerConfig("site", url=site.url, **limits), SITES[mode])
        assert time.monotonic() - started_at < limits["timeout_s"] + allow_s(2 / 3)
        assert site.called("act") <= 1 + (mode in ("session-gone", "call-404"))


@pytest.mark.parametrize(("eras", "version"), [("handshake", "2025-11-25"), ("modern", "2026-07-28")])
def test_both_eras_are_spoken_over_pipes(eras: str, version: str, tmp_path: Path) -> None:
    with open_server(chaos(tmp_path, "ok", eras=eras)) as opened:
        assert opened.call_tool("echo", {"text": "hé"}) == {"content": [{"type": "text", "text": "hé"}]}
        assert opened.client.version == version
    heard = [entry["message"]["method"] for entry in read_events(tmp_path, "chaos") if entry["event"] == "in"]
    assert heard == ["initialize", *(["notifications/initialized"] if eras == "handshake" else []), "tools/call"]


STRICT = """
import json, sys
era, is_open = open("era").read(), False
for line in sys.stdin:
    message = json.loads(line)
    with open("heard", "a") as heard:
        heard.write(message["method"] + " ")
    reply = {"jsonrpc": "2.0", "id": message.get("id")}
    if message["method"] == "initialize" and era == "handshake":
        is_open = True
        named = {"serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}}}
        reply["result"] = {"protocolVersion": "2025-11-25", **named}
    elif message["method"] == "tools/call" and (is_open or era == "modern"):
        reply["result"] = {"content": []}
    else:
        reply["error"] = {"code": -32602 if era == "handshake" else -32022, "message": "no"}
    if "id" in message:
        print(json.dumps(reply), flush=True)
"""
"""Speaks only what the file `era` says."""


def test_a_server_without_a_handshake_is_asked_at_once_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until there is another server in its place."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    server = ServerConfig("s", command=sys.executable, args=("-c", STRICT), cwd=str(tmp_path), sandbox="off")

    def use(era: str) -> str:
        (tmp_path / "era").write_text(era, encoding="utf-8")
        (tmp_path / "heard").write_text("", encoding="utf-8")
        with open_server(server) as opened:
            assert opened.call_tool("act", {}) == {"content": []}
        return (tmp_path / "heard").read_text(encoding="utf-8").strip()

    handshake = "initialize notifications/initialized tools/call"
    assert [use("modern"), use("modern"), use("handshake"), use("handshake"), use("modern"), use("modern")] == [
        "initialize tools/call",
        "tools/call",
        f"tools/call {handshake}",
        handshake,
        "initialize tools/call",
        "tools/call",
    ]


MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}
OLDER = {"mcp-protocol-version": "2025-11-25", "mcp-method": None, "mcp-name": None}


@pytest.mark.parametrize(("eras", "expected"), [("handshake", OLDER), ("modern", MODERN)])
def test_both_eras_are_spoken_over_http_with_their_headers(eras: str, expected: dict[str, Any]) -> None:
    with open_site("ok", eras=eras) as site:
        with open_server(ServerConfig("site", url=site.url)) as opened:
            assert opened.call_tool("echo", {"text": "x"})["content"] == [{"type": "text", "text": "x"}]
            last = {name.lower(): value for name, value in site.requests[-1].headers.items()}
        assert {name: last.get(name) for name in expected} == expected
        assert site.requests[-1].verb == "DELETE", "the session is ended"


@pytest.mark.slow
def test_progress_extends_a_call_over_a_connection_that_the_site_closes_after_it() -> None:
    with open_site("call-question") as site, open_server(ServerConfig("site", url=site.url)) as opened:
        site.delay_s = 0.4
        assert opened.call_tool("act", {}, limit_s=1)["content"] == [{"type": "text", "text": "act is done"}]


@pytest.mark.slow
@pytest.mark.parametrize("open_it", [open_server, open_as_chat])
def test_progress_extends_a_call_only_to_its_longest_time(
    open_it: Callable[[ServerConfig], OpenServer], tmp_path: Path
) -> None:
    """Also through the client of the chat, which commands use where the small one is not enough."""
    with open_it(chaos(tmp_path, "progress-ten-times")) as opened:
        assert opened.call_tool("act", {}, limit_s=0.5)["content"] == [{"type": "text", "text": "act is done"}]
        assert opened.client.phase_seconds["call"] > 1
    with open_it(chaos(tmp_path, "progress-forever", delay_s=0.01)) as opened:
        opened.list_tools()
        with pytest.raises(TimeLimitError, match=r"did not answer (the call )?within 0\.05 s"):
            opened.call_tool("act", {}, limit_s=0.05)
        assert opened.client.phase_seconds["call"] >= 20 * 0.05


@pytest.mark.slow
def test_a_tool_may_have_a_limit_of_its_own(shell: Shell) -> None:
    shell.add_chaos("hang-call", timeout_s=60.0)
    shell.servers["chaos"]["tool_timeouts"] = {"act": 0.3}
    shell.add("chaos", **shell.servers["chaos"])
    error = shell.error("call-tool", "chaos.act", "--no-check")
    assert (error["type"], error["details"]["limit_s"]) == ("TimeoutError", 0.3)
    assert shell.error("call-tool", "chaos.act", "--no-check", "--timeout", "0.5")["details"]["limit_s"] == 0.5
    shell.servers["chaos"]["tool_timeouts"] = {"act": "soon"}
    shell.add("chaos", **shell.servers["chaos"])
    assert "must be a table of numbers" in shell.error("call-tool", "chaos.act")["message"]


@pytest.mark.slow
def test_a_busy_site_is_asked_once_more_after_the_time_that_it_names() -> None:
    with open_site("call-429") as site, pytest.raises(ConnectError, match="429"):
        act(ServerConfig("site", url=site.url))
    assert site.called("act") == 2


def test_headers_reach_the_site_and_no_error() -> None:
    with open_site("start-401") as site, pytest.raises(AuthError) as caught:
        act(ServerConfig("site", url=site.url, headers={"Authorization": "Bearer abc-secret"}))
    sent = {name.lower(): value for name, value in site.requests[0].headers.items()}
    assert sent["authorization"] == "Bearer abc-secret"
    assert "token" in caught.value.message
    assert "abc-secret" not in f"{caught.value}{caught.value.details}"


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "東京"])
def test_headers_that_http_cannot_carry_are_refused_without_being_shown(value: str) -> None:
    with open_site("ok") as site, pytest.raises(ChatError, match="headers contain") as caught:
        act(ServerConfig("site", url=site.url, headers={"X-Name": value}))
    assert value not in str(caught.value) and not site.requests


def test_a_site_that_is_not_there_is_named() -> None:
    with open_site("ok") as site:
        pass
    with pytest.raises(ConnectError, match="Connection refused") as caught:
        act(ServerConfig("site", url=site.url))
    assert caught.value.details == {"server": "site", "url": site.url, "phase": "start"}


def test_only_the_tools_that_the_configuration_offers_are_listed(tmp_path: Path) -> None:
    with open_server(chaos(tmp_path, "ok", tools_allow=("e*o", "act"), tools_deny=("a?t",))) as opened:
        assert [tool["name"] for tool in opened.list_all_tools()] == ["echo", "add", "act"]
        assert [tool["name"] for tool in opened.list_tools()] == ["echo"]


def test_a_large_argument_reaches_a_server_that_writes_meanwhile(tmp_path: Path) -> None:
    text = "x" * 3_000_000
    with open_server(chaos(tmp_path, "garbage-stdout")) as opened:
        assert opened.call_tool("echo", {"text": text})["content"][0]["text"] == text


def test_a_command_that_cannot_be_started_is_reported_with_its_cause(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(b"\0no program")
    script.chmod(0o700)
    for command, cwd, cause in (
        ("no-such-command", "", '"no-such-command" cannot be found'),
        ("/", "", "is a folder"),
        ("/etc/passwd", "", "is not executable"),
        ("true", "/no/such/folder", "/no/such/folder"),
        (str(script), "", "Exec format error"),
    ):
        with pytest.raises(ConnectError) as caught:
            open_server(ServerConfig("some", command=command, cwd=cwd))
        assert cause in caught.value.message
        assert ("PATH" in caught.value.hint) == (cause.startswith(("is ", '"no-')))
    with pytest.raises(ConnectError) as caught:
        open_server(ServerConfig("some", command="uvx", env={"PATH": str(tmp_path)}))
    assert "pip install uv" in caught.value.hint
    with pytest.raises(ConnectError) as caught:
        open_server(ServerConfig("some", command="cmd", args=("/c", "npx", "-y", "x")))
    assert 'Here: command = "npx", args = ["-y", "x"]' in caught.value.hint
    with pytest.raises(ConnectError) as caught:
        open_server(ServerConfig("some", command="C:\\tools\\server.exe"))
    assert "for Windows" in caught.value.hint


def test_a_program_finds_what_lies_beside_it(tmp_path: Path) -> None:
    """As `npx` of an own installation of Node.js does, which begins with `#!/usr/bin/env node`."""
    for name, text in (("runner", "#!/usr/bin/env beside\n"), ("beside", "#!/bin/sh\nexit 7\n")):
        (tmp_path / name).write_text(text, encoding="ascii")
        (tmp_path / name).chmod(0o700)
    with pytest.raises(ConnectError) as caught, open_server(ServerConfig("s", command=f"{tmp_path}/runner")) as opened:
        opened.list_tools()
    assert caught.value.details["exit_code"] == 7


def test_a_server_runs_in_its_folder_with_a_private_umask_and_can_be_closed_twice(tmp_path: Path) -> None:
    here, spare = Path.cwd(), os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(spare, True)  # as in a program that was given more than the first three
    opened = open_server(chaos(tmp_path, "ok", cwd=str(tmp_path), env={"EXTRA": "1"}))
    opened.list_tools()
    assert Path.cwd() == here
    opened.close()
    opened.close()
    os.close(spare)
    assert left_behind(tmp_path, "chaos") == []
    started = read_events(tmp_path, "chaos")[0]
    assert (started["umask"], started["is_leader"], started["descriptors"]) == (0o077, True, [0, 1, 2])
    assert set(started["environment"]) & {"EXTRA", "PYTEST_CURRENT_TEST"} == {"EXTRA"}
