"""OAuth logins against real HTTP servers, with a simulated user who visits their pages or does not."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpcore2
import httpx2
import mcp.client.session
import pytest

from rkllm_chat.config.oauth import OAuth
from rkllm_chat.config.trust_rules import Origin
from rkllm_chat.core.errors import AuthError, ChatError
from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox

from .faults import wait_for
from .gate import Gate, open_gate
from .logins import Person, act, make_server, refusal, sit
from .talks import LIMIT_S
from .test_addresses import resolve_name


def test_a_login_by_the_browser_is_kept(gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person, contexts, make_context = Person("browser"), list[ssl.SSLContext](), httpcore2.default_ssl_context

    def count_contexts(**options: bool) -> ssl.SSLContext:
        contexts.append(make_context(**options))
        return contexts[-1]

    monkeypatch.setattr(httpcore2, "default_ssl_context", count_contexts)
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert len(contexts) <= 1, "a context takes longer than a request"
    assert person.asked == ["first"]
    assert person.pages[0][0] == 200
    asked = httpx2.URL(person.urls[0]).params
    assert (asked["code_challenge_method"], asked["resource"], asked["scope"]) == ("S256", gate.url, "shallow")
    assert sit(make_server(gate), tmp_path, act, None) == "fine"
    assert gate.grants() == ["authorization_code"]


@pytest.mark.parametrize(
    ("ways", "asked", "statuses"),
    [
        (["what?", "http://127.0.0.1/callback?code=c&state=guessed", "paste"], ["first", "unusable", "unusable"], []),
        (["stranger"], ["first"], [400, 200]),
    ],
    ids=["pasted", "requested"],
)
def test_an_address_with_another_state_is_rejected_and_the_login_goes_on(
    ways: list[str], asked: list[str], statuses: list[int], gate: Gate, tmp_path: Path
) -> None:
    person = Person(*ways)
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert (person.asked, [status for status, _ in person.pages]) == (asked, statuses)
    assert len({*person.urls}) == 1


LOGINS_PAGE = Path(__file__).parents[2] / "docs/logins.md"
CLIENT_ID = "https://people.example/anna/rkllm-chat.json"


def test_a_client_is_known_by_the_document_of_the_documentation(tmp_path: Path) -> None:
    document = json.loads(LOGINS_PAGE.read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0])
    assert document["client_id"] == "https://example.org/rkllm-chat.json"
    with open_gate(documents={CLIENT_ID: {**document, "client_id": CLIENT_ID}}) as gate:
        server = make_server(gate, oauth=OAuth(client_id=CLIENT_ID))
        assert sit(server, tmp_path, act, Person("browser")) == "fine"
        assert "/register" not in gate.paths()
        assert [visit.values["client_id"] for visit in gate.visits if visit.path == "/token"] == [CLIENT_ID]


METADATA = "/.well-known/oauth-authorization-server"
LINK_LOCAL = "http://169.254.169.254/latest/meta-data"


@pytest.mark.parametrize(
    ("options", "way", "cause"),
    [
        ({"denies": True}, "browser", "access_denied Not today"),
        ({"denies": True}, "paste", "access_denied Not today"),
        ({"has_oauth": False}, "paste", "Registration failed: 404"),
        ({"leads_to": LINK_LOCAL}, "paste", "169.254.169.254 is a link-local address"),
        ({"endless": "/token"}, "paste", "/token"),
        ({"endless": METADATA}, "paste", METADATA),
    ],
)
def test_a_login_that_the_server_makes_impossible_is_an_error_with_its_reason(
    options: dict[str, Any], way: str, cause: str, tmp_path: Path
) -> None:
    with open_gate(**options) as gate:
        error = refusal(make_server(gate), tmp_path, person := Person(way))
    assert error.exit_code == (5 if options.get("leads_to") else 4)
    assert cause in error.message
    assert ("limit 4 MB" in error.message) == ("endless" in options)
    assert bool(person.asked) == ("denies" in options or cause == "/token")


@pytest.mark.parametrize(
    ("metadata", "cause"),
    [
        ({"code_challenge_methods_supported": ["plain"]}, "offers no PKCE with S256"),
        ({"authorization_endpoint": "http://auth.example/authorize"}, "is not an https address: http://auth.example"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "is not an https address: file:///etc/passwd"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "is not an https address: javascript:"),
        ({"authorization_endpoint": "a:$(touch x)"}, "is not an https address: a:$(touch x)"),
    ],
)
def test_metadata_with_which_a_login_is_not_safe_are_an_error(
    metadata: dict[str, Any], cause: str, gate: Gate, tmp_path: Path
) -> None:
    gate.endpoints.update(metadata)
    error = refusal(make_server(gate), tmp_path, person := Person("paste"))
    assert cause in error.message and error.exit_code == 4
    assert person.urls == [] and person.agreed_to == []


@pytest.mark.parametrize("methods", [["S256"], ["plain", "S256"]])
def test_metadata_with_s256_are_accepted(methods: list[str], gate: Gate, tmp_path: Path) -> None:
    endpoints = cast("dict[str, Any]", gate.endpoints)
    endpoints.update(code_challenge_methods_supported=methods)
    assert sit(make_server(gate), tmp_path, act, Person("paste")) == "fine"


def test_nothing_is_posted_before_the_user_agrees_to_log_in(gate: Gate, tmp_path: Path) -> None:
    person = Person("browser")
    person.agrees = False

    async def look(toolbox: Toolbox) -> tuple[ChatError, list[str]]:
        error, posted = toolbox.failures["gate"], [visit.path for visit in gate.visits if visit.method == "POST"]
        await toolbox.log_in("gate")  # at the user's own request, which needs no other question
        return error, posted

    error, posted = sit(make_server(gate), tmp_path, look, person)
    assert "cancelled" in error.message and {*posted} == {"/mcp"}
    assert (person.agreed_to, person.asked) == ([f"{gate.issuer}/register"], ["first"])
    assert gate.grants() == ["authorization_code"]


FAR, NEAR, REBOUND = "far.example", "near.example", "rebound.example"


@pytest.fixture
def far_gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate at a name that is not one of this machine."""
    resolve_name(monkeypatch, FAR, "127.0.0.1")
    resolve_name(monkeypatch, NEAR, "10.0.0.1")
    resolve_name(monkeypatch, REBOUND, "93.184.215.14", "127.0.0.1")
    with open_gate() as gate:
        gate.url, gate.issuer = (url.replace("127.0.0.1", FAR) for url in (gate.url, gate.issuer))
        yield gate


PLACES: dict[str, Callable[[Gate, str], object]] = {
    "its metadata": lambda gate, url: setattr(gate, "metadata_url", url),
    "its authorization server": lambda gate, url: setattr(gate, "leads_to", url),
    "registration": lambda gate, url: gate.endpoints.update(registration_endpoint=url),
    "token": lambda gate, url: gate.endpoints.update(token_endpoint=url),
}


HOSTS = ("127.0.0.1", "localhost", "[::1]", "10.0.0.1", NEAR, REBOUND, "[::ffff:127.0.0.1]")


@pytest.mark.parametrize(
    ("place", "host"), [*((place, HOSTS[0]) for place in PLACES), *(("token", host) for host in HOSTS[1:])]
)
def test_a_login_at_a_far_server_sends_nothing_into_this_machine_or_network(
    place: str, host: str, far_gate: Gate, tmp_path: Path
) -> None:
    with open_gate() as victim:
        url = f"{victim.issuer.replace('127.0.0.1', host)}/admin/delete"
        PLACES[place](far_gate, url)
        error = refusal(make_server(far_gate), tmp_path, Person("paste"))
        assert victim.visits == []
    assert "may not send requests into this machine" in error.message or "now resolves to 127.0.0.1" in error.message


def test_a_redirect_into_this_machine_is_not_followed(far_gate: Gate, tmp_path: Path) -> None:
    with open_gate() as victim:
        paths = (METADATA, "/.well-known/oauth-protected-resource/mcp", "/register", "/token")
        far_gate.moved = dict.fromkeys(paths, f"{victim.issuer}/admin/delete")
        assert "login" in refusal(make_server(far_gate), tmp_path, Person("paste")).message
        assert victim.visits == []


def test_a_login_at_a_far_server_reaches_its_own_host(far_gate: Gate, tmp_path: Path) -> None:
    assert sit(make_server(far_gate), tmp_path, act, Person("browser")) == "fine"


def test_an_issuer_of_the_configuration_may_be_in_the_local_network(far_gate: Gate, tmp_path: Path) -> None:
    far_gate.leads_to = far_gate.issuer.replace(FAR, NEAR)
    oauth = OAuth(issuer=far_gate.leads_to)
    allowed = refusal(make_server(far_gate, oauth=oauth, connect_s=1), tmp_path, Person("paste"))
    assert "may not send" not in allowed.message, "it is not there, and was tried"
    of_project = make_server(far_gate, oauth=oauth, origin=Origin.PROJECT)
    assert "may not send" in refusal(of_project, tmp_path / "other", Person("paste")).message


def test_a_login_that_is_given_up_is_asked_for_once_until_the_server_is_started_again(
    gate: Gate, tmp_path: Path
) -> None:
    person = Person("", "paste")

    async def start_again(toolbox: Toolbox) -> tuple[ChatError | None, list[str], str]:
        first, asked = toolbox.failures.get("gate"), [*person.asked]
        await toolbox.log_in("gate")
        return first, asked, await act(toolbox)

    error, asked, text = sit(make_server(gate), tmp_path, start_again, person)
    assert isinstance(error, AuthError)
    assert "cancelled" in error.message and "/mcp auth gate" in error.hint
    assert (asked, text) == (["first"], "fine")


def test_a_login_has_a_limit_of_its_own(gate: Gate, tmp_path: Path) -> None:
    error = refusal(make_server(gate), tmp_path, Person("never"), login_s=0.2)
    assert isinstance(error, AuthError) and "within 0.2 s" in error.message


@pytest.mark.parametrize("transport", ["http", "sse", ""])
def test_without_a_user_the_error_says_what_to_do(transport: str, gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "mcp.toml").touch()
    error = refusal(make_server(gate, transport=transport, source=str(tmp_path / "mcp.toml")), tmp_path, None)
    assert isinstance(error, AuthError)
    assert "/mcp auth gate" in error.hint and f"its entry in {tmp_path / 'mcp.toml'}" in error.hint
    assert (error.exit_code, error.type_name) == (4, "AuthError")
    assert {*gate.paths()} == {"/mcp"}


@pytest.mark.slow
def test_the_limits_of_a_start_are_paused_during_a_login(gate: Gate, tmp_path: Path) -> None:
    slow_s = mcp.client.session.DISCOVER_TIMEOUT_SECONDS + 0.5
    person = Person("slow", slow_s=slow_s)
    assert sit(make_server(gate, connect_s=slow_s - 0.2), tmp_path, act, person) == "fine"


@pytest.mark.slow
def test_the_limit_of_a_call_is_paused_during_a_login(gate: Gate, tmp_path: Path) -> None:
    async def revoke(toolbox: Toolbox) -> str:
        gate.revoke()
        return await act(toolbox)

    person = Person("paste", "slow", slow_s=1.6)
    assert sit(make_server(gate, timeout_s=1.5), tmp_path, revoke, person) == "fine"
    assert person.asked == ["first", "again"]


@pytest.mark.slow
def test_a_server_that_is_silent_after_the_login_still_has_its_limit(tmp_path: Path) -> None:
    with open_gate(is_silent=True) as gate:
        error = refusal(make_server(gate, connect_s=2.5), tmp_path, person := Person("paste"))
        gate.can_end.set()
    assert person.asked == ["first"]
    assert "did not start within 2.5 s" in error.message


def test_concurrent_calls_ask_for_one_login(gate: Gate, tmp_path: Path) -> None:
    async def call_twice(toolbox: Toolbox) -> list[str]:
        gate.revoke()
        return [*await asyncio.gather(act(toolbox), act(toolbox), act(toolbox))]

    person = Person("browser")
    assert sit(make_server(gate), tmp_path, call_twice, person) == ["fine", "fine", "fine"]
    assert person.asked == ["first", "again"]


def test_a_tool_that_needs_a_wider_scope_asks_once_and_the_scope_is_kept(gate: Gate, tmp_path: Path) -> None:
    async def go_deeper(toolbox: Toolbox) -> tuple[str, str, str]:
        return await act(toolbox), await act(toolbox, "deep"), await act(toolbox)

    person = Person("browser")
    assert sit(make_server(gate), tmp_path, go_deeper, person) == ("fine", "fine", "fine")
    assert person.asked == ["first", "more"]
    assert httpx2.URL(person.urls[1]).params["scope"] == "shallow deep"
    assert gate.paths().count("/register") == 1


def test_permission_that_is_not_given_fails_its_call_alone(gate: Gate, tmp_path: Path) -> None:
    async def go_deeper(toolbox: Toolbox) -> tuple[str, str]:
        return await act(toolbox, "deep"), await act(toolbox)

    person = Person("paste", "")
    deep, other = sit(make_server(gate), tmp_path, go_deeper, person)
    assert "cancelled" in deep and other == "fine"


def test_the_headers_of_the_configuration_stay_at_their_server(gate: Gate, tmp_path: Path) -> None:
    server = make_server(gate, headers={"X-Api-Key": "key"})
    assert sit(server, tmp_path, act, Person("browser")) == "fine"
    with_key = {visit.path for visit in gate.visits if visit.headers.get("x-api-key")}
    assert with_key == {"/mcp"}
    assert "/token" in gate.paths()


def test_an_authorization_header_of_the_configuration_replaces_a_login(gate: Gate, tmp_path: Path) -> None:
    person = Person("paste")
    error = refusal(make_server(gate, headers={"Authorization": "Bearer old"}), tmp_path, person)
    assert isinstance(error, AuthError) and "Authorization header" in error.message and "401" in error.message
    gate.access["good"] = "shallow"
    assert sit(make_server(gate, headers={"authorization": "Bearer good"}), tmp_path, act, person) == "fine"
    assert (person.asked, {*gate.paths()}) == ([], {"/mcp"})


def test_a_login_that_is_cancelled_leaves_no_port_behind(gate: Gate, tmp_path: Path) -> None:
    person = Person("never")

    async def go() -> None:
        handlers = ClientHandlers(log_in=person, agree_to_login=person.agree)
        toolbox = Toolbox([make_server(gate)], tmp_path / "logs", handlers)
        opening = asyncio.ensure_future(toolbox.log_in("gate"))
        await wait_for(lambda: person.urls)
        port = httpx2.URL(httpx2.URL(person.urls[0]).params["redirect_uri"]).port
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/other")).status_code == 400
            opening.cancel()
            await asyncio.wait([opening])
            await toolbox.aclose()
            with pytest.raises(httpx2.ConnectError):
                await client.get(f"http://127.0.0.1:{port}/callback")

    asyncio.run(asyncio.wait_for(go(), 4 * LIMIT_S))
