"""Servers at a URL that send away, refuse, break off or flood: the call ends soon, in words, and the next one works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rkllm_chat.config import ServerConfig
from rkllm_chat.messages import ToolResult

from .chaos_http import open_site
from .chaos_sse import open_event_site
from .chaos_websocket import open_exchange
from .faults import SLACK, Trial, assert_one_line, assert_told, fault, measure, rows, try_servers, wait_for

DONE = "act is done"
SECRET = {"X-Api-Key": "secret", "Authorization": "Bearer secret"}

T = TypeVar("T")


def try_url(folder: Path, url: str, then: Callable[[Trial], Awaitable[T]], **options: Any) -> T:
    config = ServerConfig("chaos", url=url, **{"timeout_s": 3.0, "connect_s": 3.0, **options})
    return try_servers(folder, config, then=then)


async def act_and_echo(trial: Trial) -> tuple[ToolResult, str]:
    return await trial.act(), await trial.echo()


async def tell_failure(trial: Trial) -> tuple[str, float]:
    return trial.failure.message, trial.opened_s


@pytest.mark.parametrize("mode", rows(("F84", "start-302"), ("F84", "call-302"), ("F84", "call-307")))
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_headers_do_not_follow_a_redirect_to_another_server(mode: str, eras: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        if "chaos" in trial.toolbox.failures:
            return trial.failure.message
        result = await trial.act()
        assert_told(result, 1)
        return result.text

    with open_site("ok") as elsewhere, open_site(mode, eras=eras, elsewhere=elsewhere.url) as site:
        told = try_url(tmp_path, site.url, go, headers=SECRET, transport="http")
        seen = elsewhere.requests
        assert "secret" in str(site.requests[0].headers)
    assert_one_line(told)
    assert "30" in told or "edirect" in told
    assert seen == []


@pytest.mark.parametrize(
    ("mode", "cause"),
    rows(
        ("F85", "start-401", "wants a login"),
        ("F85", "start-403", "403"),
        ("F85", "start-404", "404"),
        ("F85", "start-405", "405"),
        ("F85", "start-429", "429"),
        ("F85", "start-500", "500"),
        ("F85", "start-503", "503"),
        ("F85", "start-html", ""),
        ("F85", "start-no-http", ""),
        ("F85", "start-silent", ""),
    ),
)
@pytest.mark.parametrize("transport", ["http", ""])
def test_a_url_that_is_no_server_says_what_it_is(mode: str, cause: str, transport: str, tmp_path: Path) -> None:
    with open_site(mode) as site:
        told, seconds = try_url(tmp_path, site.url, tell_failure, transport=transport, connect_s=2)
        tries = len(site.requests)
    assert_one_line(told)
    assert cause in told
    assert seconds <= 2 * SLACK
    assert tries <= 12
    assert "secret" not in told


@pytest.mark.parametrize(
    ("mode", "cause"),
    rows(
        ("F85", "call-401", "wants a login"),
        ("F85", "call-403", "403"),
        ("F85", "call-404", ""),
        ("F85", "call-405", "405"),
        ("F85", "call-500", "500"),
        ("F85", "call-503", "503"),
        ("F85", "call-html", ""),
        ("F85", "call-no-http", ""),
        ("F85", "call-empty", ""),
        ("F85", "call-202", ""),
        ("F85", "call-no-json", ""),
        ("F86", "call-lying-encoding", ""),
        ("F86", "call-short", ""),
        ("F86", "call-bad-chunk", ""),
        ("F87", "call-cut", ""),
        ("F87", "call-no-event", ""),
    ),
)
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_an_answer_that_is_none_fails_its_call_alone_and_once(mode: str, cause: str, eras: str, tmp_path: Path) -> None:
    with open_site(mode, eras=eras) as site:
        result, echo = try_url(tmp_path, site.url, act_and_echo, transport="http")
        calls = site.called("act")
    assert_told(result, 1)
    assert cause in result.text
    assert echo == "still here"
    assert calls == 1


@pytest.mark.parametrize("mode", rows(("F86", "call-events"), ("F86", "call-packed"), ("F85", "ok")))
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_what_a_server_may_do_works(mode: str, eras: str, tmp_path: Path) -> None:
    with open_site(mode, eras=eras) as site:
        result, echo = try_url(tmp_path, site.url, act_and_echo)
    assert (result.status, result.text, echo) == ("completed", DONE, "still here")


@pytest.mark.parametrize("mode", rows(("F85", "call-silent"), ("F86", "call-open-event"), ("F85", "call-other-id")))
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_an_answer_that_does_not_come_costs_its_call_its_time(mode: str, eras: str, tmp_path: Path) -> None:
    with open_site(mode, eras=eras) as site:
        result, echo = try_url(tmp_path, site.url, act_and_echo, transport="http", timeout_s=0.7)
    if result.status == "failed":
        assert_told(result, 0.7)
    assert echo == "still here"


@fault("F85", "call-429")
def test_a_server_that_asks_for_patience_gets_some_and_not_too_much(mode: str, tmp_path: Path) -> None:
    with open_site(mode) as site:
        result, echo = try_url(tmp_path, site.url, act_and_echo, transport="http")
    assert "429" in result.text
    assert result.seconds <= 10
    assert echo == "still here"


@fault("F85", "session-gone")
def test_a_session_that_the_server_forgot_is_begun_anew_once(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, ToolResult, str]:
        return await trial.act(), await trial.act(), await trial.echo()

    with open_site(mode, eras="handshake") as site:
        first, second, echo = try_url(tmp_path, site.url, go, transport="http")
        begun = sum(request.message.get("method") == "initialize" for request in site.requests)
    assert first.status == "completed" or "forgotten" in first.text or "404" in first.text
    assert (second.status, echo, begun) == ("completed", "still here", 2)


@pytest.mark.parametrize(
    ("mode", "cause"),
    rows(("F86", "call-huge", "too large"), ("F86", "call-bomb", "too large"), ("F86", "call-endless-event", "")),
)
def test_a_body_beyond_the_limit_is_refused_and_not_held(mode: str, cause: str, tmp_path: Path) -> None:
    with open_site(mode) as site:
        measured = measure("ok", tmp_path, "--url", site.url)
    assert measured["status"] == "failed" and cause in measured["text"]
    assert_one_line(measured["text"])
    assert measured["seconds"] <= 2 * SLACK
    assert measured["growth_mb"] <= 32
    assert measured["after"] == ["still here", "still here"]


@pytest.mark.parametrize("eras", ["modern", "handshake"])
@fault("F87", "ok")
def test_a_server_that_was_down_is_used_again_when_it_is_back(mode: str, eras: str, tmp_path: Path) -> None:
    with open_site(mode, eras=eras) as site:

        async def go(trial: Trial) -> tuple[ToolResult, str, int]:
            site.hang_up()
            failed = await trial.act()
            with open_site(mode, eras=eras, port=site.port) as again:
                return failed, await trial.echo(), again.called("act")

        failed, echo, calls = try_url(tmp_path, site.url, go, transport="http")
    assert_told(failed, 1)
    assert (echo, calls) == ("still here", 0)


@pytest.mark.parametrize(
    ("mode", "cause"),
    rows(("F84", "start-elsewhere", "another server"), ("F87", "start-nowhere", "")),
)
def test_a_stream_of_events_that_leads_elsewhere_or_nowhere_is_not_followed(
    mode: str, cause: str, tmp_path: Path
) -> None:
    with open_site("ok") as elsewhere, open_event_site(mode, elsewhere=elsewhere.url) as site:
        told, seconds = try_url(tmp_path, site.url, tell_failure, transport="sse", headers=SECRET, connect_s=2)
        assert elsewhere.requests == []
    assert_one_line(told)
    assert cause in told and "secret" not in told
    assert seconds <= 2 * SLACK


@pytest.mark.parametrize(
    ("mode", "within_s"),
    rows(
        ("F85", "call-500", 0.5),
        ("F86", "call-huge", 2),
        ("F87", "call-cut", 0.5),
        ("F22", "call-no-json", 2),
        ("F37", "call-silent", 2),
    ),
)
def test_a_stream_of_events_that_breaks_fails_its_call_alone_and_is_opened_again(
    mode: str, within_s: float, tmp_path: Path
) -> None:
    with open_event_site(mode) as site:
        result, echo = try_url(tmp_path, site.url, act_and_echo, transport="sse", timeout_s=2)
        calls = site.called("act")
    assert_told(result, within_s)
    assert (echo, calls) == ("still here", 1)


@pytest.mark.parametrize(
    ("mode", "cause"),
    rows(
        ("F88", "start-403", "403"),
        ("F88", "start-200", ""),
        ("F88", "start-302", ""),
        ("F88", "start-no-http", ""),
        ("F88", "start-no-subprotocol", "subprotocol"),
        ("F88", "start-silent", ""),
    ),
)
def test_a_websocket_that_is_none_says_what_it_is(mode: str, cause: str, tmp_path: Path) -> None:
    with open_exchange(mode) as exchange:
        told, seconds = try_url(tmp_path, exchange.url, tell_failure, headers=SECRET, connect_s=2)
    assert_one_line(told)
    assert cause in told and "secret" not in told
    assert seconds <= 2 * SLACK


@pytest.mark.parametrize(
    "mode",
    rows(
        ("F88", "call-1011"),
        ("F88", "call-cut"),
        ("F88", "call-bad-frame"),
        ("F88", "call-bad-utf8"),
        ("F88", "call-binary"),
        ("F88", "call-fragments"),
    ),
)
def test_a_websocket_that_breaks_fails_its_call_alone_and_is_opened_again(mode: str, tmp_path: Path) -> None:
    with open_exchange(mode) as exchange:
        result, echo = try_url(tmp_path, exchange.url, act_and_echo)
        calls = exchange.called("act")
    if result.status == "failed":
        assert_told(result, 0.5)
    assert mode != "call-fragments" or result.text == DONE
    assert (echo, calls) == ("still here", 1)


@fault("F88", "call-1011")
def test_why_a_websocket_was_closed_is_told(mode: str, tmp_path: Path) -> None:
    with open_exchange(mode) as exchange:
        result, _ = try_url(tmp_path, exchange.url, act_and_echo)
    assert "1011" in result.text and "something broke" in result.text


@fault("F88", "call-silent")
def test_a_websocket_that_is_silent_costs_the_call_its_time(mode: str, tmp_path: Path) -> None:
    with open_exchange(mode) as exchange:
        result, echo = try_url(tmp_path, exchange.url, act_and_echo, timeout_s=0.5)
        cancelled = [one for one in exchange.messages if one.get("method") == "notifications/cancelled"]
    assert_told(result, 0.5)
    assert echo == "still here"
    assert len(cancelled) >= 1


@pytest.mark.parametrize("mode", rows(("F88", "call-huge"), ("F88", "call-bomb"), ("F88", "call-endless-fragments")))
def test_a_message_beyond_the_limit_is_refused_and_not_held(mode: str, tmp_path: Path) -> None:
    with open_exchange(mode) as exchange:
        measured = measure("ok", tmp_path, "--url", exchange.url)
    assert measured["status"] == "failed"
    assert_one_line(measured["text"])
    assert measured["seconds"] <= 2 * SLACK
    assert measured["growth_mb"] <= 32
    assert measured["after"] == ["still here", "still here"]


@fault("F88", "ok")
def test_a_websocket_server_that_goes_away_while_idle_is_missed_at_once(mode: str, tmp_path: Path) -> None:
    with open_exchange(mode) as exchange:

        async def go(trial: Trial) -> float:
            exchange.hang_up()
            return await wait_for(lambda: not trial.toolbox.is_connected("chaos"))

        assert try_url(tmp_path, exchange.url, go) <= 1 * SLACK
