"""Servers at a URL, over each transport: what they may do works; what they may not ends its call soon, in words.

They redirect, refuse, break off or flood, and the next call works.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cpu_time import allow_s
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ChatError
from rkllm_chat.core.messages import ToolResult
from rkllm_chat.mcp_client.direct.open_server import open_server
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.mcp_client.transports.http import MAX_STREAMS

from .chaos_http import FLOODS, open_site
from .chaos_sse import open_event_site
from .chaos_websocket import open_exchange
from .faults import (
    TESTS,
    Trial,
    act_and_echo,
    assert_failed,
    assert_one_line,
    measure_each,
    tell_failure,
    try_each,
    wait_for,
)

DONE = "act is done"
SECRET = {"X-Api-Key": "secret", "Authorization": "Bearer secret"}
ERAS = ("modern", "handshake")

T = TypeVar("T")


@contextmanager
def open_all(sites: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Serve all sites while the block runs."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(site) for name, site in sites.items()}


def try_urls(
    folder: Path, sites: dict[str, Any], then: Callable[[Trial], Awaitable[T]], **options: Any
) -> dict[str, T]:
    limits = {"timeout_s": 3.0, "connect_s": 3.0, **options}
    return try_each(folder, [ServerConfig(name, url=site.url, **limits) for name, site in sites.items()], then)


def try_url(folder: Path, site: Any, then: Callable[[Trial], Awaitable[T]], **options: Any) -> T:
    return try_urls(folder, {"chaos": site}, then, **options)["chaos"]


def open_sites(modes: Sequence[str] | dict[str, str], **options: Any) -> Any:
    """A site of each mode; they speak the modern protocol and the older one in turn."""
    return open_all({mode: open_site(mode, eras=ERAS[place % 2], **options) for place, mode in enumerate(modes)})


def test_headers_do_not_follow_a_redirect_to_another_server(tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        if trial.server in trial.toolbox.failures:
            return trial.failure.message
        result = await trial.act()
        assert_failed(result, 1)
        return result.text

    with (
        open_site("ok") as elsewhere,
        open_sites(["start-302", "call-302", "call-307"], elsewhere=elsewhere.url) as sites,
    ):
        told = try_urls(tmp_path, sites, go, headers=SECRET, transport="http")
        assert all("secret" in str(site.requests[0].headers) for site in sites.values())
        assert elsewhere.requests == []
    for mode, text in told.items():
        assert_one_line(text, mode)
        assert "HTTP 30" in text


# Mode -> a part of what the user is told.
NO_SERVER = {
    "start-401": "login",
    "start-404": "(HTTP 404 ",
    "start-405": "(HTTP 405 ",
    "start-429": "(HTTP 429 ",
    "start-503": "(HTTP 503 ",
    **dict.fromkeys(("start-html", "start-no-http", "start-silent"), ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["http", ""])
def test_a_url_that_is_no_server_fails_with_its_status(transport: str, tmp_path: Path) -> None:
    with open_sites(NO_SERVER) as sites:
        found = try_urls(tmp_path, sites, tell_failure, transport=transport, connect_s=1)
        assert all(len(site.requests) <= 12 for site in sites.values())
    for mode, (told, seconds) in found.items():
        assert_one_line(told, mode)
        assert NO_SERVER[mode] in told
        assert seconds <= allow_s(1)
    tried_with_sse = {mode for mode, site in sites.items() if any(request.verb == "GET" for request in site.requests)}
    assert tried_with_sse == (set() if transport else {"start-404", "start-405"})


# Mode -> a part of why the call fails.
NO_ANSWER = {
    "call-401": "login",
    "call-403": "(HTTP 403 ",
    "call-500": "(HTTP 500 ",
    "call-404": "",
    "call-202": "202 Accepted",
    "call-302-here": "(HTTP 302 ",
    "call-html": "text/html",
    "call-no-json": "JSON",
    "call-no-gzip": "not valid gzip",
    "call-br": "encoding br",
    "call-deep": "too deep",
    "call-large-error": "(HTTP 503 ",
    "call-event-bomb": "before the response was complete",
    **dict.fromkeys(("call-no-http", "call-empty", "call-short"), ""),
    **dict.fromkeys(("call-bad-chunk", "call-cut", "call-no-event"), ""),
}


@pytest.mark.slow
def test_an_invalid_answer_fails_its_call_alone_and_is_not_asked_for_again(tmp_path: Path) -> None:
    with open_sites(NO_ANSWER) as sites:
        found = try_urls(tmp_path, sites, act_and_echo, transport="http")
        calls = {mode: site.called("act") for mode, site in sites.items()}
    assert calls == {**dict.fromkeys(NO_ANSWER, 1), "call-404": 2}, (
        "404 means that the session is lost: it is begun anew"
    )
    for mode, (result, echo) in found.items():
        assert_failed(result, 1)
        assert NO_ANSWER[mode] in result.text
        assert echo == "still here"


HINTS = {"start-404": "path of the URL", "start-429": "rate of requests", "start-503": "problem of its own"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", HINTS)
def test_the_hint_fits_the_status_through_both_clients(mode: str, tmp_path: Path) -> None:
    async def look(trial: Trial) -> str:
        return trial.failure.hint

    with open_site(mode) as site:
        assert HINTS[mode] in try_url(tmp_path, site, look, transport="http", connect_s=3)
        with (
            pytest.raises(ChatError) as caught,
            open_server(ServerConfig("chaos", url=site.url, transport="http")) as it,
        ):
            it.open()
    assert HINTS[mode] in caught.value.hint


def test_a_failure_is_not_explained_by_the_status_of_another_request(tmp_path: Path) -> None:
    with open_site("call-bomb", eras="handshake") as site:
        result, _ = try_url(tmp_path, site, act_and_echo, transport="http")
        assert any(request.verb == "GET" for request in site.requests), "it has no stream of its own, and says 405"
    assert "limit 4 MB" in result.text and "405" not in result.text


def test_what_http_allows_works(tmp_path: Path) -> None:
    modes = ["call-events", "call-packed", "ok", "call-deflate", "call-packed-events", "start-within"]
    with open_sites(modes) as sites:
        found = try_urls(tmp_path, sites, act_and_echo, headers=SECRET, transport="http")
        paths = {(request.path, request.headers.get("X-Api-Key")) for request in sites["start-within"].requests}
    assert {(result.status, result.text, echo) for result, echo in found.values()} == {
        ("completed", DONE, "still here")
    }
    assert paths == {("/mcp", "secret"), ("/mcp/", "secret")}


@pytest.mark.parametrize(("host", "is_asked"), [("localhost", False), ("server.example", True)])
def test_a_proxy_is_asked_for_other_machines_only(
    host: str, is_asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_site("ok") as proxy, open_site("ok") as site:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/mcp"))
        site.url = site.url.replace("127.0.0.1", host)
        assert try_url(tmp_path, site, act_and_echo, transport="http")[1] == "still here"
        assert (bool(proxy.requests), bool(site.requests)) == (is_asked, not is_asked)


@pytest.mark.slow
def test_leaving_waits_neither_for_an_answer_nor_for_the_end_of_a_session(tmp_path: Path) -> None:
    async def go(trial: Trial) -> float:
        waiting = asyncio.create_task(trial.act())
        await wait_for(lambda: site.called("act"))
        waiting.cancel()
        return time.monotonic()

    with open_site("call-silent-and-all", eras="handshake") as site:
        begun = try_url(tmp_path, site, go, transport="http")
        assert time.monotonic() - begun < allow_s(0.6)  # a second for the end of the session; of a server three
        assert "DELETE" in [request.verb for request in site.requests]


def test_a_stream_that_the_server_always_ends_is_opened_a_limited_number_of_times(tmp_path: Path) -> None:
    async def go(trial: Trial) -> int:
        await wait_for(lambda: [request.verb for request in site.requests].count("GET") == MAX_STREAMS)
        for _ in range(20):
            await trial.echo()
        return [request.verb for request in site.requests].count("GET")

    with open_site("ended-GET", eras="handshake") as site:
        assert try_url(tmp_path, site, go, transport="http") == MAX_STREAMS


def test_a_server_that_rejects_the_newer_protocol_or_every_post_is_spoken_to_in_an_older_way(tmp_path: Path) -> None:
    sites = {"http": open_site("start-refuses-discover", eras="handshake"), "sse": open_event_site("start-405")}

    async def go(trial: Trial) -> tuple[str, str]:
        transport = trial.toolbox.connections[trial.server].lifecycle.transport
        return transport.kind if transport else "", await trial.echo()

    with open_all(sites) as opened:
        assert try_urls(tmp_path, opened, go) == {name: (name, "still here") for name in sites}


def test_a_call_without_an_answer_times_out(tmp_path: Path) -> None:
    with open_sites(["call-silent", "call-open-event", "call-other-id"]) as sites:
        found = try_urls(tmp_path, sites, act_and_echo, transport="http", timeout_s=0.3)
    for result, echo in found.values():
        if result.status == "failed":
            assert_failed(result, 0.3)
        assert echo == "still here"


@pytest.mark.slow
def test_a_server_that_limits_its_rate_is_waited_for_and_not_too_long(tmp_path: Path) -> None:
    with open_sites(["call-429", "call-429-long", "call-busy"]) as sites:
        found = try_urls(tmp_path, sites, act_and_echo, transport="http")
    assert {echo for _, echo in found.values()} == {"still here"}
    (limited, _), (refused, _), (busy, _) = found.values()
    assert "429" in limited.text and limited.seconds <= 10
    assert "429" in refused.text and "did not answer" not in refused.text and sites["call-429-long"].called("act") == 1
    assert busy.text == DONE and 1 <= busy.seconds < 1 + allow_s(2 / 3)


def test_a_session_that_the_server_forgot_is_begun_anew_once(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, ToolResult, str]:
        return await trial.act(), await trial.act(), await trial.echo()

    with open_site("session-gone", eras="handshake") as site:
        first, second, echo = try_url(tmp_path, site, go, transport="http")
        begun = sum(request.message.get("method") == "initialize" for request in site.requests)
    assert (first.status, second.status, echo, begun) == ("completed", "completed", "still here", 2)


@pytest.mark.slow
def test_a_body_or_a_message_beyond_the_limit_is_refused_and_not_held(tmp_path: Path) -> None:
    sites = {
        "huge": open_site("call-huge"),
        "bomb": open_site("call-bomb"),
        "endless": open_site("call-endless-event"),
        "socket-huge": open_exchange("call-huge"),
        "socket-bomb": open_exchange("call-bomb"),
        "socket-endless": open_exchange("call-endless-fragments"),
    }
    with open_all(sites) as opened:
        found = measure_each(tmp_path, **{name: site.url for name, site in opened.items()})
    for name, measured in found.items():
        assert measured["status"] == "failed"
        assert_one_line(measured["text"], name)
        assert measured["seconds"] <= allow_s(2)
        assert measured["growth_mb"] <= 32
        assert measured["after"] == ["still here", "still here"]
    assert all("limit 4 MB" in found[name]["text"] for name in ("huge", "bomb", "endless"))


@pytest.mark.parametrize("eras", ERAS)
def test_a_server_that_was_down_is_used_again_when_it_is_back(eras: str, tmp_path: Path) -> None:
    with open_site("ok", eras=eras) as site:

        async def go(trial: Trial) -> tuple[ToolResult, str, int]:
            site.hang_up()
            failed = await trial.act()
            with open_site("ok", eras=eras, port=site.port) as again:
                return failed, await trial.echo(), again.called("act")

        failed, echo, calls = try_url(tmp_path, site, go, transport="http")
    assert_failed(failed, 1)
    assert (echo, calls) == ("still here", 0)


def test_an_event_stream_that_names_another_server_or_none_is_not_followed(tmp_path: Path) -> None:
    with open_site("ok") as elsewhere:
        places = {"port": elsewhere.url, "host": "//example.org/post", "scheme": "https://127.0.0.1/post"}
        sites = {name: open_event_site("start-elsewhere", elsewhere=url) for name, url in places.items()}
        sites |= {mode: open_event_site(mode) for mode in NO_EVENTS}
        with open_all(sites) as opened:
            found = try_urls(tmp_path, opened, tell_failure, transport="sse", headers=SECRET, connect_s=0.7)
        assert elsewhere.requests == []
    for name, (told, seconds) in found.items():
        assert_one_line(told, name)
        assert NO_EVENTS.get(name, "another server") in told and "secret" not in told
        assert seconds <= allow_s(2)


# Mode -> a part of what the user is told.
NO_EVENTS = {"start-nowhere": "", "start-404": "HTTP 404", "start-html": "text/html"}


@pytest.mark.slow
def test_an_event_stream_that_breaks_fails_its_call_alone_and_is_opened_again(tmp_path: Path) -> None:
    limits_s = {"call-500": 0.5, "call-cut": 0.5, "call-no-json": 1, "call-silent": 1, "call-huge": 2}
    with open_all({mode: open_event_site(mode) for mode in limits_s}) as sites:
        found = try_urls(tmp_path, sites, act_and_echo, transport="sse", timeout_s=0.5)
        assert {site.called("act") for site in sites.values()} == {1}
    for mode, (result, echo) in found.items():
        assert_failed(result, limits_s[mode])
        assert echo == "still here"


# Mode -> a part of what the user is told.
NO_WEBSOCKET = {
    "start-403": "HTTP 403",
    "start-302": "HTTP 302",
    "start-401": "HTTP 401",
    "start-no-subprotocol": 'subprotocol "mcp"',
    "start-200": "HTTP 200",
    **dict.fromkeys(("start-no-http", "start-silent"), ""),
}


def test_a_url_that_is_no_websocket_fails_with_its_status_and_no_redirect_is_followed(tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[str, float, str]:
        transport = trial.toolbox.connections[trial.server].lifecycle.transport
        return *await tell_failure(trial), transport.challenge if transport else ""

    with (
        open_exchange("ok") as elsewhere,
        open_all({mode: open_exchange(mode, elsewhere=elsewhere.url) for mode in NO_WEBSOCKET}) as sites,
    ):
        found = try_urls(tmp_path, sites, look, headers=SECRET, connect_s=0.7)
        assert elsewhere.keys == [] and sites["start-302"].keys == ["secret"]
    for mode, (told, seconds, challenge) in found.items():
        assert challenge == ("Bearer" if mode == "start-401" else "")
        assert_one_line(told, mode)
        assert NO_WEBSOCKET[mode] in told and "secret" not in told
        assert seconds <= allow_s(2)


def test_a_websocket_that_breaks_fails_its_call_alone_and_is_opened_again(tmp_path: Path) -> None:
    ended = {"call-cut": "without a closing frame", "call-1011": "with 1011 out of order", "call-1000": "with 1000"}
    modes = (*ended, "call-cut-message", "call-bad-frame", "call-bad-utf8", "call-silent")
    with open_all({mode: open_exchange(mode) for mode in modes}) as sites:
        found = try_urls(tmp_path, sites, act_and_echo, timeout_s=1.5)
        assert {site.called("act") for site in sites.values()} == {1}
        heard = [message.get("method") for message in sites["call-silent"].messages]
    for mode, (result, echo) in found.items():
        if mode != "call-bad-utf8":
            assert_failed(result, 1.5)
        assert ended.get(mode, "") in result.text
        assert echo == "still here"
    assert "notifications/cancelled" in heard


def test_an_answer_over_a_websocket_is_read_in_every_form(tmp_path: Path) -> None:
    with open_all({mode: open_exchange(mode) for mode in ("call-strays", "call-bytes", "call-fragments")}) as sites:
        found = try_urls(tmp_path, sites, act_and_echo)
    assert {(result.text, echo) for result, echo in found.values()} == {(DONE, "still here")}
    log = (tmp_path / "logs/call-strays.log").read_text(encoding="utf-8")
    assert log == "[rkllm-chat] Ignored: it is not a JSON object or array: b'stray one'\n"


@pytest.mark.slow
def test_leaving_does_not_wait_for_a_websocket_that_is_not_closed(tmp_path: Path) -> None:
    async def go(trial: Trial) -> float:
        assert await trial.echo() == "still here"
        return time.monotonic()

    with open_exchange("close-silent") as exchange:
        assert time.monotonic() - try_url(tmp_path, exchange, go) < allow_s(1.5)


def test_a_websocket_that_is_closed_while_idle_is_noticed_at_once(tmp_path: Path) -> None:
    with open_exchange("ok") as exchange:

        async def go(trial: Trial) -> float:
            exchange.hang_up()
            return await wait_for(lambda: not trial.is_connected)

        assert try_url(tmp_path, exchange, go) <= allow_s(1)


CALLS, MOST_CPU_S = 20, 4.0


@pytest.mark.slow
@pytest.mark.parametrize("mode", FLOODS)
def test_calls_are_answered_beside_a_flood_at_a_bounded_cost(mode: str, tmp_path: Path) -> None:
    """Each request of the server was answered by a POST, before the next call: the third call waited a minute."""

    async def call(config: ServerConfig) -> list[str]:
        async with Toolbox([config], tmp_path / "logs") as toolbox:
            trial = Trial(toolbox, tmp_path, "flood")
            return [(await trial.act()).text for _ in range(CALLS)]

    # in a process of its own, since the processor time of the client is measured
    command = [sys.executable, "-m", "mcp_client.chaos_http", mode]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            config = ServerConfig("flood", url=server.stdout.readline().strip(), transport="http")
            begun_s = time.process_time()
            assert asyncio.run(asyncio.wait_for(call(config), 40)) == [DONE] * CALLS
            assert time.process_time() - begun_s < MOST_CPU_S
        finally:
            server.kill()
