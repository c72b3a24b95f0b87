"""What is kept of a login: for how long it is good, who may read it, and what two programs do with it at once."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rkllm_chat.errors import AuthError, ConfigError
from rkllm_chat.oauth import OAuth
from rkllm_chat.servers.toolbox import Toolbox

from .gate import MACHINE, Gate, open_gate
from .logins import Person, act, find_file, make_server, make_stale, refusal, sit

MACHINE_LOGIN = OAuth("client_credentials", *MACHINE)

# Opens the server of another program's login, and says what a call gave.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from rkllm_chat.config import ServerConfig
from rkllm_chat.servers.toolbox import Toolbox

async def main():
    async with Toolbox([ServerConfig("gate", url=sys.argv[1], transport="http")], Path(sys.argv[2])) as box:
        print(box.failures.get("gate") or (await box.execute_tool("gate", "act")).content[0].text)

asyncio.run(main())
"""


@pytest.fixture
def gate() -> Iterator[Gate]:
    with open_gate() as gate:
        yield gate


def log_in(gate: Gate, folder: Path) -> None:
    assert sit(make_server(gate), folder, act, Person("paste")) == "fine"


def test_a_token_that_has_expired_is_refreshed_and_the_new_one_kept(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    make_stale(tmp_path)
    gate.visits.clear()
    assert sit(make_server(gate), tmp_path, act, None) == "fine"
    assert sit(make_server(gate), tmp_path, act, None) == "fine"
    assert gate.grants() == ["refresh_token"]
    assert gate.paths()[0] == "/token"


def test_a_token_that_the_server_gave_up_early_is_refreshed_too(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    gate.access.clear()
    assert sit(make_server(gate), tmp_path, act, None) == "fine"
    assert gate.grants() == ["authorization_code", "refresh_token"]


def test_two_programs_refresh_at_once_and_use_the_refresh_token_once(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    make_stale(tmp_path)
    gate.together = threading.Barrier(2)
    command = [sys.executable, "-c", PROGRAM, gate.url, str(tmp_path / "logs")]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") for _ in range(2)]
    assert [program.communicate(timeout=30)[0] for program in programs] == ["fine\n", "fine\n"]
    assert gate.grants() == ["authorization_code", "refresh_token"]


def test_a_revoked_login_is_asked_for_again(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    gate.revoke()
    person = Person("browser")
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["again"]
    assert gate.grants() == ["authorization_code", "refresh_token", "authorization_code"]


def test_a_registration_is_used_again_with_its_port(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    gate.revoke()
    log_in(gate, tmp_path)
    assert gate.paths().count("/register") == 1


def test_an_authorization_server_that_is_down_takes_no_login_away(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    make_stale(tmp_path)
    gate.refuses_refresh = 503
    person = Person("paste")
    error = refusal(make_server(gate), tmp_path, person)
    assert isinstance(error, AuthError)
    assert error.message == f'Server "gate" wants a login: {gate.issuer}/token answered HTTP 503.'
    gate.refuses_refresh = 0
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == []


def test_a_machine_logs_in_with_its_secret_and_without_a_person(gate: Gate, tmp_path: Path) -> None:
    server = make_server(gate, oauth=MACHINE_LOGIN)
    assert sit(server, tmp_path, act, None) == "fine"
    assert sit(server, tmp_path, act, None) == "fine"
    gate.revoke()
    assert sit(server, tmp_path, act, None) == "fine"
    assert gate.grants() == ["client_credentials", "client_credentials"]
    assert MACHINE[1] not in find_file(tmp_path).read_text(encoding="utf-8")


def test_a_machine_asks_for_the_scope_of_its_configuration(gate: Gate, tmp_path: Path) -> None:
    async def go_deeper(box: Toolbox) -> str:
        return await act(box, "deep")

    oauth = OAuth("client_credentials", *MACHINE, scope="deep")
    assert sit(make_server(gate, oauth=oauth), tmp_path, go_deeper, None) == "fine"
    assert [visit.values["scope"] for visit in gate.visits if visit.path == "/token"] == ["deep"]


def test_a_wrong_secret_is_an_error_that_does_not_show_it(gate: Gate, tmp_path: Path) -> None:
    oauth = OAuth("client_credentials", "machine", "wrong-secret")
    error = refusal(make_server(gate, oauth=oauth), tmp_path, None)
    assert isinstance(error, AuthError)
    assert error.message.startswith('Server "gate" wants a login: Token exchange failed (400): ')
    assert "wrong-secret" not in f"{error!r} {error.details} {make_server(gate, oauth=oauth)!r}"


def test_a_secret_goes_to_no_other_issuer_than_its_own(gate: Gate, tmp_path: Path) -> None:
    oauth = OAuth("client_credentials", *MACHINE, issuer="https://auth.example.org")
    error = refusal(make_server(gate, oauth=oauth), tmp_path, None)
    assert "https://auth.example.org" in error.message
    assert "/token" not in gate.paths()


def test_a_person_is_sent_to_no_other_issuer_than_the_one_that_is_configured(gate: Gate, tmp_path: Path) -> None:
    person = Person("paste")
    gate.clients["known"] = []
    oauth = OAuth(client_id="known", issuer="https://auth.example.org")
    error = refusal(make_server(gate, oauth=oauth), tmp_path, person)
    assert error.message == (
        f'Server "gate" wants a login: the authorization server is {gate.issuer}, '
        "and the configuration says https://auth.example.org."
    )
    assert person.asked == []


def test_a_client_of_the_configuration_is_used_with_its_address(gate: Gate, tmp_path: Path) -> None:
    with open_gate() as other:  # a port that was free just now
        uri = f"{other.issuer}/back"
    gate.clients["known"] = [uri]
    person = Person("browser")
    assert sit(make_server(gate, oauth=OAuth(client_id="known", redirect_uri=uri)), tmp_path, act, person) == "fine"
    assert person.urls[0].startswith(f"{gate.issuer}/authorize?response_type=code&client_id=known&")
    assert "/register" not in gate.paths()


def test_an_address_whose_port_is_in_use_is_said(gate: Gate, tmp_path: Path) -> None:
    uri = f"{gate.issuer}/back"
    error = refusal(make_server(gate, oauth=OAuth(client_id="known", redirect_uri=uri)), tmp_path, Person("browser"))
    assert error.message.startswith(f"The address {uri}, where a login ends, cannot be used: ")


@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read"), ("no key", "is no key for RS256")])
def test_a_key_that_cannot_be_used_is_said(content: str | None, said: str, gate: Gate, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    if content:
        key.write_text(content, encoding="ascii")
    oauth = OAuth("client_credentials", "machine", private_key_file=str(key))
    error = refusal(make_server(gate, oauth=oauth), tmp_path, None)
    assert isinstance(error, ConfigError)
    assert f'Server "gate": oauth.private_key_file {key} {said}' in error.message


def test_what_is_kept_is_for_its_user_alone(gate: Gate, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        log_in(gate, tmp_path)
        make_stale(tmp_path)
        assert sit(make_server(gate), tmp_path, act, None) == "fine"
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "logins").iterdir()}
    assert stat.S_IMODE((tmp_path / "logins").stat().st_mode) == 0o700
    name = find_file(tmp_path).name
    assert modes == {name: 0o600, f"{name}.lock": 0o600}


def test_a_file_that_others_may_read_is_closed_to_them(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    find_file(tmp_path).chmod(0o644)
    (tmp_path / "logins").chmod(0o755)
    assert sit(make_server(gate), tmp_path, act, None) == "fine"
    assert stat.S_IMODE(find_file(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "logins").stat().st_mode) == 0o700


def test_a_link_in_the_place_of_the_file_is_not_followed(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    path, elsewhere = find_file(tmp_path), tmp_path / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    error = refusal(make_server(gate), tmp_path, Person("paste"))
    assert isinstance(error, AuthError)
    assert error.message.startswith(f"What is kept of a login cannot be read: {path}: ")


def test_a_link_in_the_place_of_the_folder_is_not_followed(gate: Gate, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "logins").symlink_to(elsewhere)
    log_in(gate, tmp_path)
    assert [*elsewhere.iterdir()] == []


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"tokens": 3}', "\x00" * 100])
def test_a_damaged_file_is_put_aside_and_said(damage: str, gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    path = find_file(tmp_path)
    path.write_text(damage, encoding="utf-8")
    error = refusal(make_server(gate), tmp_path, None)
    aside = path.with_suffix(".damaged")
    assert f"(what was kept of one is damaged: {aside})" in error.message
    assert aside.read_text(encoding="utf-8") == damage
    aside.rename(path)
    person = Person("paste")
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["damaged"]


def test_where_nothing_can_be_kept_a_login_lasts_for_the_sitting(
    gate: Gate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logins").write_text("a file", encoding="utf-8")
    person = Person("paste")
    gate.lasts_s = 0
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["first"]
    assert "A login is kept for this sitting only" in caplog.text


def test_a_login_is_forgotten_on_demand(gate: Gate, tmp_path: Path) -> None:
    async def forget(box: Toolbox) -> tuple[bool, bool, str]:
        was_one, again = await box.forget_login("gate"), await box.forget_login("gate")
        return was_one, again, box.connections["gate"].state

    log_in(gate, tmp_path)
    assert sit(make_server(gate), tmp_path, forget, None) == (True, False, "closed")
    assert [*(tmp_path / "logins").iterdir()] == []


def test_two_clients_of_one_server_keep_their_logins_apart(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    assert sit(make_server(gate, oauth=MACHINE_LOGIN), tmp_path, act, None) == "fine"
    assert len([*(tmp_path / "logins").glob("*.json")]) == 2


def test_no_secret_stands_in_a_log_an_error_or_a_repr(
    gate: Gate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    async def look_around(box: Toolbox) -> None:
        await act(box)
        gate.revoke()
        seen.append(await act(box))
        connection = box.connections["gate"]
        seen.append(repr([connection, connection.login, vars(connection.login), connection.config]))

    server = make_server(gate, headers={"X-Api-Key": "key-of-ours"})
    sit(server, tmp_path, look_around, Person("paste", "browser", ""))
    sit(make_server(gate, oauth=MACHINE_LOGIN), tmp_path, act, None)
    logs = [path.read_text(encoding="utf-8") for path in (tmp_path / "logs").iterdir()]
    text = "\n".join([caplog.text, *seen, *logs])
    assert "/token" in caplog.text
    assert len(gate.secrets) > 4
    assert [secret for secret in (*gate.secrets, MACHINE[1], "key-of-ours") if secret in text] == []


def test_tokens_that_cannot_be_read_are_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with open_gate(garbles=True) as gate:
        error = refusal(make_server(gate), tmp_path, Person("paste"))
        assert error.message == 'Server "gate" wants a login: Invalid token response.'
        assert "/token" in caplog.text
        assert [secret for secret in gate.secrets if secret in caplog.text] == []
