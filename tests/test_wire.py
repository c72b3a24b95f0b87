"""The small client: whatever a server does, it gives a result or one of our errors, in time, and leaves nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import AuthError, ChatError, ConnectError, ProtocolError, TimeLimitError
from rkllm_chat.reach import Opened, open_server
from rkllm_chat.wire.client import Client
from servers import chaos as _all_modes  # noqa: F401 - it fills MODES
from servers.chaos_framing import MANY_BYTES
from servers.chaos_http import open_site
from servers.chaos_server import MODES
from servers.faults import SLACK, chaos, count_descriptors, left_behind, read_events

SILENT: dict[str, Any] = {"timeout_s": 0.5, "connect_s": 5.0}
PATIENT: dict[str, Any] = {"timeout_s": 20.0, "connect_s": 20.0}
LONGEST_S = 5.5 + 2.0
"""A start, a list and a call that run into their limits, and a server that does not want to end."""

# mode: what the call of `act` gives, or the error and some of its words
STDIO_OUTCOMES: dict[str, str | tuple[type[ChatError], str]] = {
    "ok": "act is done",
    "stdout-banner": "act is done",
    "garbage-stdout": "act is done",
    "not-jsonrpc": "act is done",
    "bom": "act is done",
    "crlf": "whole",
    "invalid-utf8": "caf\ufffd",
    "lone-surrogate": "half: \ufffd",
    "partial-line": "whole",
    "byte-dribble": MANY_BYTES,
    "packed": "packed",
    "pretty-json": "whole",
    "two-on-a-line": "whole",
    "batch": "whole",
    "duplicate-ids": "FIRST",
    "wrong-id-type": "whole",
    "unknown-id": "act is done",
    "null-id-error": "act is done",
    "speaks-first": "act is done",
    "server-request": "unanswered: 0",
    "stderr-flood": "act is done",
    "notifications-flood": "act is done",
    "list-loop": "act is done",
    "list-endless": (ProtocolError, "lists more than 10000 tools, or for too long"),
    "list-crowd": (ProtocolError, "lists more than 10000 tools"),
    "partial-then-die": (ConnectError, "it exited with 7"),
    "exit-at-start": (ConnectError, "ended before it answered (it exited with 3). It said: last word 5"),
    "crash-mid-call": (ConnectError, "ended in the middle (it exited with 7). It said: I am dying"),
    "segv-mid-call": (ConnectError, "it was ended by SIGSEGV"),
    "exit-zero-on-call": (ConnectError, "it exited with 0"),
    "close-stdout-but-live": (ConnectError, "it closed its standard output"),
    "hang-call": (TimeLimitError, "did not answer the call within 0.5 s"),
    "deaf": (TimeLimitError, "did not answer the call within 0.5 s"),
    "progress-forever": (TimeLimitError, "did not answer the call within 0.5 s"),
    "list-hang": (TimeLimitError, "did not list what it has within 0.5 s"),
    "init-bad-version": (ProtocolError, "speaks protocol version '1999-12-31'"),
    "deep-json": (ProtocolError, "nested too deep"),
    "big-int": (ProtocolError, "a number that is too long"),
    "huge-result": (ProtocolError, "too large (95 MB), limit 4 MB"),
    "endless-line": (ProtocolError, "too large (128 MB), limit 4 MB"),
    "null-id-only": (ProtocolError, "answered with error -32700: Parse error"),
    "rpc-error": (ProtocolError, "answered with error -32002: no such file \\x1b]0;owned"),
    "rpc-error-weird": (ProtocolError, "answered with an error: it went wrong"),
    "result-null": (ProtocolError, "its result is no object"),
    "neither": (ProtocolError, "its result is no object"),
    "unknown-type": (ProtocolError, "of an unknown type, 'prophecy'"),
}

HTTP_OUTCOMES: dict[str, str | tuple[type[ChatError], str]] = {
    "ok": "act is done",
    "call-events": "act is done",
    "start-401": (AuthError, "wants to know who asks (HTTP 401 Unauthorized)"),
    "call-403": (AuthError, "refuses this (HTTP 403 Forbidden)"),
    "call-404": (ConnectError, "answered HTTP 404 Not Found"),
    "start-500": (ConnectError, "answered HTTP 500"),
    "call-302": (ConnectError, "answered HTTP 302"),
    "call-silent": (TimeLimitError, "did not answer the call within 0.5 s"),
    "start-no-http": (ConnectError, "cannot be reached: 220 mail.example"),
    "call-empty": (ConnectError, "broke off in the middle"),
    "call-cut": (ConnectError, "broke off in the middle"),
    "call-no-event": (ConnectError, "broke off in the middle"),
    "call-open-event": (TimeLimitError, "did not answer the call"),
    "call-no-json": (ProtocolError, "cannot be used: it is no JSON"),
    "call-other-id": (ProtocolError, "it answers 4711"),
    "call-huge": (ProtocolError, "too large, limit 4 MB"),
    "call-bomb": (ProtocolError, "too large, limit 4 MB"),
    "call-endless-event": (ProtocolError, "too large, limit 4 MB"),
    "call-bad-chunk": (ConnectError, "cannot be reached"),
}


def act(server: ServerConfig) -> dict[str, Any]:
    """Lists the tools and calls `act`, by the small client alone."""
    with open_server(server) as opened:
        assert isinstance(opened.way, Client)
        opened.list_tools()
        return opened.call_tool("act", {})


def limits_for(outcome: str | tuple[type[ChatError], str]) -> dict[str, Any]:
    """Short limits where one is to be run into."""
    return SILENT if outcome[0] is TimeLimitError else PATIENT


def assert_outcome(server: ServerConfig, outcome: str | tuple[type[ChatError], str]) -> None:
    if isinstance(outcome, str):
        assert "".join(block["text"] for block in act(server)["content"]) == outcome
        return
    with pytest.raises(ChatError) as caught:
        act(server)
    assert (type(caught.value), outcome[1] in caught.value.message) == (outcome[0], True), caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("mode", STDIO_OUTCOMES)
def test_what_a_process_does_comes_out_as_a_result_or_one_of_our_errors(mode: str, tmp_path: Path) -> None:
    descriptors = count_descriptors()
    assert_outcome(chaos(tmp_path, mode, **limits_for(STDIO_OUTCOMES[mode])), STDIO_OUTCOMES[mode])
    assert left_behind(tmp_path, "chaos") == []
    assert count_descriptors() == descriptors


@pytest.mark.parametrize("mode", sorted(set(MODES) - set(STDIO_OUTCOMES)))
def test_no_process_hangs_the_small_client_or_stays_behind(mode: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    try:
        assert isinstance(act(chaos(tmp_path, mode, **SILENT)), dict)
    except ChatError as error:
        assert '"chaos"' in error.message
    assert time.monotonic() - begun < LONGEST_S * SLACK
    assert left_behind(tmp_path, "chaos") == []


@pytest.mark.parametrize("mode", HTTP_OUTCOMES)
def test_what_a_site_does_comes_out_as_a_result_or_one_of_our_errors(mode: str) -> None:
    with open_site(mode) as site:
        assert_outcome(ServerConfig("site", url=site.url, **limits_for(HTTP_OUTCOMES[mode])), HTTP_OUTCOMES[mode])
        assert site.called("act") <= 1


@pytest.mark.parametrize("eras", ["handshake", "modern"])
def test_both_eras_are_spoken_over_pipes(eras: str, tmp_path: Path) -> None:
    with open_server(chaos(tmp_path, "ok", eras=eras)) as opened:
        assert opened.call_tool("echo", {"text": "hé"}) == {"content": [{"type": "text", "text": "hé"}]}
        assert opened.way.version == {"handshake": "2025-11-25", "modern": "2026-07-28"}[eras]


def test_a_call_is_three_messages_and_no_more(tmp_path: Path) -> None:
    with open_server(chaos(tmp_path, "ok")) as opened:
        opened.call_tool("echo", {})
    heard = [entry["message"]["method"] for entry in read_events(tmp_path, "chaos") if entry["event"] == "in"]
    assert heard == ["initialize", "notifications/initialized", "tools/call"]


@pytest.mark.parametrize("eras", ["handshake", "modern"])
def test_both_eras_are_spoken_over_http_with_their_headers(eras: str) -> None:
    with open_site("ok", eras=eras) as site, open_server(ServerConfig("site", url=site.url)) as opened:
        assert opened.call_tool("echo", {"text": "x"})["content"] == [{"type": "text", "text": "x"}]
        last = {name.lower(): value for name, value in site.requests[-1].headers.items()}
    told = {name: last.get(name) for name in ("mcp-protocol-version", "mcp-method", "mcp-name")}
    modern = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}
    older = {"mcp-protocol-version": "2025-11-25", "mcp-method": None, "mcp-name": None}
    assert told == (modern if eras == "modern" else older)


def test_a_session_over_http_is_said_goodbye() -> None:
    with open_site("ok") as site:
        with open_server(ServerConfig("site", url=site.url)) as opened:
            opened.call_tool("echo", {})
        assert site.requests[-1].verb == "DELETE"


def test_a_busy_site_is_asked_once_more_after_the_time_that_it_names() -> None:
    with open_site("call-429") as site, pytest.raises(ConnectError, match="429"):
        act(ServerConfig("site", url=site.url))
    assert site.called("act") == 2


def test_headers_reach_the_site_and_no_error() -> None:
    with open_site("start-401") as site, pytest.raises(AuthError) as caught:
        act(ServerConfig("site", url=site.url, headers={"Authorization": "Bearer abc-secret"}))
    assert {name.lower(): value for name, value in site.requests[0].headers.items()}[
        "authorization"
    ] == "Bearer abc-secret"
    assert "does not take the token" in caught.value.message
    assert "abc-secret" not in f"{caught.value}{caught.value.details}"


@pytest.mark.parametrize("headers", [{"X-Name": "a\r\nX-Other: b"}, {"X-Name": "東京"}])
def test_headers_that_http_cannot_carry_are_refused_without_being_shown(headers: dict[str, str]) -> None:
    with open_site("ok") as site, pytest.raises(ChatError, match="cannot carry") as caught:
        act(ServerConfig("site", url=site.url, headers=headers))
    assert headers["X-Name"] not in str(caught.value) and not site.requests


def test_nothing_listens_there() -> None:
    with open_site("ok") as site:
        pass
    with pytest.raises(ConnectError, match="Connection refused") as caught:
        act(ServerConfig("site", url=site.url))
    assert caught.value.details == {"server": "site", "url": site.url, "phase": "start"}


def test_an_address_where_clouds_keep_secrets_is_never_called() -> None:
    with pytest.raises(ConnectError, match="link-local"):
        open_server(ServerConfig("cloud", url="http://169.254.169.254/mcp"))


def test_only_the_tools_that_the_configuration_offers_are_listed(tmp_path: Path) -> None:
    def names(**options: Any) -> list[str]:
        with open_server(chaos(tmp_path, "ok", **options)) as opened:
            return [tool["name"] for tool in opened.list_tools()]

    assert names() == ["echo", "add", "act"]
    assert names(tools_allow=("echo", "act"), tools_deny=("act",)) == ["echo"]


def test_a_large_argument_reaches_a_server_that_writes_meanwhile(tmp_path: Path) -> None:
    text = "x" * 3_000_000
    with open_server(chaos(tmp_path, "garbage-stdout")) as opened:
        assert opened.call_tool("echo", {"text": text})["content"][0]["text"] == text


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"command": "no-such-command"}, 'the command "no-such-command" cannot be found'),
        ({"command": "/"}, "is a folder"),
        ({"command": "/etc/passwd"}, "is not executable"),
        ({"cwd": "/no/such/folder"}, "there is no folder /no/such/folder"),
    ],
)
def test_a_command_that_cannot_be_started_is_told_with_its_reason(changes: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConnectError) as caught:
        open_server(ServerConfig("some", **{"command": "true", **changes}))
    assert cause in caught.value.message


def test_a_file_that_is_no_program_is_told_as_one(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(b"\0no program")
    script.chmod(0o700)
    with pytest.raises(ConnectError, match="cannot be started: Exec format error"):
        open_server(ServerConfig("some", command=str(script)))


def test_a_server_stands_in_its_folder_alone_with_a_private_umask(tmp_path: Path) -> None:
    here, spare = Path.cwd(), os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(spare, True)  # as of a program that was handed more than the first three
    with open_server(chaos(tmp_path, "ok", cwd=str(tmp_path), env={"EXTRA": "1"})) as opened:
        opened.list_tools()
        assert Path.cwd() == here
    os.close(spare)
    started = read_events(tmp_path, "chaos")[0]
    assert (started["umask"], started["is_leader"], started["descriptors"]) == (0o077, True, [0, 1, 2])
    assert {"EXTRA", "PATH", "HOME"} >= set(started["environment"]) & {"EXTRA", "PYTEST_CURRENT_TEST"} == {"EXTRA"}


def test_leaving_twice_does_no_harm(tmp_path: Path) -> None:
    opened: Opened = open_server(chaos(tmp_path, "ok"))
    opened.list_tools()
    opened.close()
    opened.close()
    assert left_behind(tmp_path, "chaos") == []
