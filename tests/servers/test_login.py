"""Logging in to servers: real servers that want it, and a person who visits their pages, or does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import mcp.client.session
import pytest

from rkllm_chat.errors import AuthError, ChatError
from rkllm_chat.servers.asks import Asks
from rkllm_chat.servers.toolbox import Toolbox

from .gate import Gate, open_gate
from .logins import SLOW_S, Person, act, make_server, refusal, sit
from .talks import LIMIT_S, wait_until

HINT = "Log in once in the chat with /mcp auth gate, or give it headers or an oauth table in its configuration."


@pytest.fixture
def gate() -> Iterator[Gate]:
    with open_gate() as gate:
        yield gate


def test_a_login_ends_where_the_browser_is_sent_and_lasts(gate: Gate, tmp_path: Path) -> None:
    person = Person("browser")
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["first"]
    assert person.pages == [(200, "The login was received. You can close this page and go back to the chat.")]
    asked = httpx2.URL(person.urls[0]).params
    assert (asked["code_challenge_method"], asked["resource"], asked["scope"]) == ("S256", gate.url, "shallow")
    assert sit(make_server(gate), tmp_path, act, None) == "fine"
    assert gate.grants() == ["authorization_code"]


def test_a_login_ends_with_an_address_that_is_pasted(gate: Gate, tmp_path: Path) -> None:
    person = Person("paste")
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["first"]


def test_what_is_no_end_of_this_login_is_asked_for_again(gate: Gate, tmp_path: Path) -> None:
    person = Person("what?", "http://127.0.0.1/callback?code=c&state=guessed", "paste")
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["first", "unusable", "unusable"]
    assert len({*person.urls}) == 1


def test_a_stranger_with_another_state_is_turned_away_and_the_login_goes_on(gate: Gate, tmp_path: Path) -> None:
    person = Person("stranger")
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert [status for status, _ in person.pages] == [400, 200]
    assert person.pages[0][1] == "This is not the end of the login that the chat waits for."


@pytest.mark.parametrize("way", ["browser", "paste"])
def test_a_login_that_the_server_denies_is_an_error_with_its_words(way: str, tmp_path: Path) -> None:
    with open_gate(denies=True) as gate:
        error = refusal(make_server(gate), tmp_path, Person(way))
    assert isinstance(error, AuthError)
    assert error.message == 'Server "gate" wants a login, which was refused: access_denied Not today.'
    assert error.exit_code == 4


def test_a_login_that_is_given_up_is_asked_for_once_until_the_server_is_started_again(
    gate: Gate, tmp_path: Path
) -> None:
    person = Person("", "paste")

    async def start_again(box: Toolbox) -> tuple[ChatError | None, list[str], str]:
        first, asked = box.failures.get("gate"), [*person.asked]
        await box.log_in("gate")
        return first, asked, await act(box)

    error, asked, text = sit(make_server(gate), tmp_path, start_again, person)
    assert isinstance(error, AuthError)
    assert str(error) == 'Server "gate" wants a login, which was given up. /mcp auth gate begins it again.'
    assert (asked, text) == (["first"], "fine")


def test_a_login_has_a_limit_of_its_own(gate: Gate, tmp_path: Path) -> None:
    error = refusal(make_server(gate), tmp_path, Person("never"), login_s=0.2)
    assert error.message == 'Server "gate" wants a login, which did not end within 0.2 s.'


@pytest.mark.parametrize("transport", ["http", "sse", ""])
def test_without_a_person_it_is_an_error_that_says_what_to_do(transport: str, gate: Gate, tmp_path: Path) -> None:
    error = refusal(make_server(gate, transport=transport), tmp_path, None)
    assert isinstance(error, AuthError)
    assert str(error) == f'Server "gate" wants a login, and nobody is here to log in. {HINT}'
    assert (error.exit_code, error.type_word) == (4, "AuthError")
    assert {*gate.paths()} == {"/mcp"}


def test_the_limits_of_the_start_stand_still_during_a_login(gate: Gate, tmp_path: Path) -> None:
    assert mcp.client.session.DISCOVER_TIMEOUT_SECONDS < SLOW_S
    assert sit(make_server(gate, connect_s=SLOW_S / 2), tmp_path, act, Person("slow")) == "fine"


def test_the_limit_of_a_call_stands_still_during_a_login(gate: Gate, tmp_path: Path) -> None:
    async def revoke(box: Toolbox) -> str:
        gate.revoke()
        return await act(box)

    person = Person("paste", "slow")
    assert sit(make_server(gate, timeout_s=SLOW_S - 0.5), tmp_path, revoke, person) == "fine"
    assert person.asked == ["first", "again"]


def test_a_server_that_is_silent_after_the_login_still_has_its_limit(tmp_path: Path) -> None:
    with open_gate(is_silent=True) as gate:
        error = refusal(make_server(gate, connect_s=3), tmp_path, person := Person("paste"))
        gate.can_end.set()
    assert person.asked == ["first"]
    assert error.message == 'Server "gate" did not start within 3 s.'


def test_calls_side_by_side_ask_for_one_login(gate: Gate, tmp_path: Path) -> None:
    async def call_twice(box: Toolbox) -> list[str]:
        gate.revoke()
        return [*await asyncio.gather(act(box), act(box), act(box))]

    person = Person("browser")
    assert sit(make_server(gate), tmp_path, call_twice, person) == ["fine", "fine", "fine"]
    assert person.asked == ["first", "again"]


def test_a_tool_that_needs_more_asks_for_leave_and_keeps_what_was_given(gate: Gate, tmp_path: Path) -> None:
    async def go_deeper(box: Toolbox) -> tuple[str, str, str]:
        return await act(box), await act(box, "deep"), await act(box)

    person = Person("browser")
    assert sit(make_server(gate), tmp_path, go_deeper, person) == ("fine", "fine", "fine")
    assert person.asked == ["first", "more"]
    assert httpx2.URL(person.urls[1]).params["scope"] == "shallow deep"
    assert gate.paths().count("/register") == 1


def test_leave_that_is_not_given_fails_its_call_alone(gate: Gate, tmp_path: Path) -> None:
    async def go_deeper(box: Toolbox) -> tuple[str, str]:
        return await act(box, "deep"), await act(box)

    person = Person("paste", "")
    given_up = 'Server "gate" wants a login, which was given up.'
    assert sit(make_server(gate), tmp_path, go_deeper, person) == (given_up, "fine")


def test_a_server_without_oauth_is_an_error_that_names_what_it_lacks(tmp_path: Path) -> None:
    person = Person("paste")
    with open_gate(has_oauth=False) as gate:
        error = refusal(make_server(gate), tmp_path, person)
    assert isinstance(error, AuthError)
    assert error.message == 'Server "gate" wants a login: Registration failed: 404.'
    assert person.asked == []


def test_the_headers_of_the_configuration_stay_at_their_server(gate: Gate, tmp_path: Path) -> None:
    server = make_server(gate, headers={"X-Api-Key": "key"})
    assert sit(server, tmp_path, act, Person("browser")) == "fine"
    with_key = {visit.path for visit in gate.visits if visit.headers.get("x-api-key")}
    assert with_key == {"/mcp"}
    assert "/token" in gate.paths()


def test_an_authorization_header_that_is_refused_is_said_and_no_login_begins(gate: Gate, tmp_path: Path) -> None:
    person = Person("paste")
    error = refusal(make_server(gate, headers={"Authorization": "Bearer old"}), tmp_path, person)
    said = 'Server "gate" refuses the Authorization header of its configuration (HTTP 401). Is it still valid?'
    assert (type(error), str(error)) == (AuthError, said)
    assert (person.asked, {*gate.paths()}) == ([], {"/mcp"})


def test_an_authorization_header_that_is_good_goes_on_as_it_is(gate: Gate, tmp_path: Path) -> None:
    gate.access["good"] = "shallow"
    assert sit(make_server(gate, headers={"authorization": "Bearer good"}), tmp_path, act, None) == "fine"


@pytest.mark.parametrize("spoiled", ["/token", "/.well-known/oauth-authorization-server"])
def test_an_endless_answer_of_the_authorization_server_is_not_read_to_its_end(spoiled: str, tmp_path: Path) -> None:
    with open_gate(endless=spoiled) as gate:
        error = refusal(make_server(gate), tmp_path, Person("paste"))
        assert error.message == (
            f'Server "gate" wants a login, and {gate.issuer}{spoiled} cannot be used: result too large, limit 4 MB.'
        )


def test_a_server_cannot_lead_a_login_to_a_link_local_address(tmp_path: Path) -> None:
    with open_gate(leads_to="http://169.254.169.254/latest/meta-data") as gate:
        error = refusal(make_server(gate), tmp_path, Person("paste"))
    assert "169.254.169.254 is a link-local address" in error.message


def test_a_login_that_is_cancelled_leaves_no_port_behind(gate: Gate, tmp_path: Path) -> None:
    person = Person("never")

    async def go() -> None:
        box = Toolbox([make_server(gate)], tmp_path / "logs", Asks(log_in=person))
        opening = asyncio.ensure_future(box.log_in("gate"))
        await wait_until(lambda: person.urls, "the question")
        port = httpx2.URL(httpx2.URL(person.urls[0]).params["redirect_uri"]).port
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/other")).status_code == 400
            opening.cancel()
            await asyncio.wait([opening])
            await box.aclose()
            with pytest.raises(httpx2.ConnectError):
                await client.get(f"http://127.0.0.1:{port}/callback")

    asyncio.run(asyncio.wait_for(go(), 4 * LIMIT_S))
