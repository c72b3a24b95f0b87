"""Stored credentials: refresh, permissions, damage, secrets, and two programs that use them at once."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rkllm_chat.config.oauth import OAuth
from rkllm_chat.core.errors import AuthError, ChatError, ConfigError
from rkllm_chat.mcp_client.toolbox import Toolbox

from .gate import MACHINE, Gate, open_gate
from .logins import Person, act, find_file, make_server, make_stale, refusal, sit

MACHINE_LOGIN = OAuth("client_credentials", *MACHINE)

# Opens the server of another program's login, and says what a call gave.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.toolbox import Toolbox

async def main():
    async with Toolbox([ServerConfig("gate", url=sys.argv[1], transport="http")], Path(sys.argv[2])) as box:
        print(box.failures.get("gate") or (await box.execute_tool("gate", "act")).content[0].text)

asyncio.run(main())
"""


def log_in(gate: Gate, folder: Path) -> None:
    assert sit(make_server(gate), folder, act, Person("paste")) == "fine"


def test_a_token_that_expired_or_was_revoked_early_is_refreshed_and_kept(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    make_stale(tmp_path)
    gate.visits.clear()
    assert [sit(make_server(gate), tmp_path, act, None) for _ in range(2)] == ["fine", "fine"]
    assert (gate.grants(), gate.paths()[0]) == (["refresh_token"], "/token")
    gate.access.clear()
    assert sit(make_server(gate), tmp_path, act, None) == "fine"
    assert gate.grants() == ["refresh_token", "refresh_token"]


@pytest.mark.slow
def test_two_programs_refresh_at_once_and_use_the_refresh_token_once(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    make_stale(tmp_path)
    gate.together = threading.Barrier(2)
    command = [sys.executable, "-c", PROGRAM, gate.url, str(tmp_path / "logs")]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") for _ in range(2)]
    assert [program.communicate(timeout=30)[0] for program in programs] == ["fine\n", "fine\n"]
    assert gate.grants() == ["authorization_code", "refresh_token"]


def test_a_revoked_login_is_asked_for_again_with_the_same_registration(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    gate.revoke()
    person = Person("browser")
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["again"]
    assert gate.grants() == ["authorization_code", "refresh_token", "authorization_code"]
    assert gate.paths().count("/register") == 1


def test_an_authorization_server_that_is_down_loses_no_login(gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    make_stale(tmp_path)
    gate.refuses_refresh = 503
    person = Person("paste")
    error = refusal(make_server(gate), tmp_path, person)
    assert isinstance(error, AuthError)
    assert f"{gate.issuer}/token answered HTTP 503" in error.message
    gate.refuses_refresh = 0
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == []


def test_a_machine_logs_in_with_its_secret_and_without_a_user(gate: Gate, tmp_path: Path) -> None:
    server = make_server(gate, oauth=MACHINE_LOGIN)
    assert sit(server, tmp_path, act, None) == "fine"
    assert sit(server, tmp_path, act, None) == "fine"
    gate.revoke()
    assert sit(server, tmp_path, act, None) == "fine"
    assert gate.grants() == ["client_credentials", "client_credentials"]
    assert MACHINE[1] not in find_file(tmp_path).read_text(encoding="utf-8")
    log_in(gate, tmp_path)
    assert len([*(tmp_path / "logins").glob("*.json")]) == 2, "logins of two clients of a server are kept apart"


def test_a_machine_asks_for_the_scope_of_its_configuration(gate: Gate, tmp_path: Path) -> None:
    oauth = OAuth("client_credentials", *MACHINE, scope="deep")
    assert sit(make_server(gate, oauth=oauth), tmp_path, lambda toolbox: act(toolbox, "deep"), None) == "fine"
    assert [visit.values["scope"] for visit in gate.visits if visit.path == "/token"] == ["deep"]


@pytest.mark.parametrize(
    ("secret", "key", "kind", "cause"),
    [
        ("wrong-secret", None, AuthError, "Token exchange failed (400)"),
        ("", "", ConfigError, "/key.pem cannot be read"),
        ("", "no key", ConfigError, "/key.pem is not a key for RS256"),
    ],
    ids=["wrong secret", "no key file", "unusable key"],
)
def test_unusable_credentials_of_a_machine_are_an_error_that_does_not_show_them(
    secret: str, key: str | None, kind: type[ChatError], cause: str, gate: Gate, tmp_path: Path
) -> None:
    path = tmp_path / "key.pem"
    if key:
        path.write_text(key, encoding="ascii")
    given = {"private_key_file": str(path)} if key is not None else {"client_secret": secret}
    server = make_server(gate, oauth=OAuth("client_credentials", "machine", **given))
    error = refusal(server, tmp_path, None)
    assert isinstance(error, kind)
    assert cause in error.message
    assert "wrong-secret" not in f"{error!r} {error.details} {server!r}"


@pytest.mark.parametrize("is_machine", [True, False])
def test_a_login_goes_to_no_other_issuer_than_the_configured_one(is_machine: bool, gate: Gate, tmp_path: Path) -> None:
    person = None if is_machine else Person("paste")
    gate.clients["known"] = []
    client = OAuth("client_credentials", *MACHINE) if is_machine else OAuth(client_id="known")
    error = refusal(make_server(gate, oauth=replace(client, issuer="https://auth.example.org")), tmp_path, person)
    assert gate.issuer in error.message and "https://auth.example.org" in error.message
    assert "/token" not in gate.paths() and not (person and person.asked)


def test_a_client_of_the_configuration_is_used_with_its_address(gate: Gate, tmp_path: Path) -> None:
    with open_gate() as other:  # a port that was free just now
        uri = f"{other.issuer}/back"
    gate.clients["known"] = [uri]
    person = Person("browser")
    assert sit(make_server(gate, oauth=OAuth(client_id="known", redirect_uri=uri)), tmp_path, act, person) == "fine"
    assert person.urls[0].startswith(f"{gate.issuer}/authorize?response_type=code&client_id=known&")
    assert "/register" not in gate.paths()
    in_use = f"{gate.issuer}/back"
    oauth = OAuth(client_id="known", redirect_uri=in_use)
    assert in_use in refusal(make_server(gate, oauth=oauth), tmp_path / "other", person).message


def test_stored_credentials_are_private_whatever_the_umask_and_their_mode_before(gate: Gate, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        log_in(gate, tmp_path)
        name = find_file(tmp_path).name
        assert read_modes(tmp_path / "logins") == {"logins": 0o700, name: 0o600}
        find_file(tmp_path).chmod(0o644)
        (tmp_path / "logins").chmod(0o755)
        make_stale(tmp_path)
        assert sit(make_server(gate), tmp_path, act, None) == "fine"
    finally:
        os.umask(old)
    assert read_modes(tmp_path / "logins") == {"logins": 0o700, name: 0o600, f"{name}.lock": 0o600}


def read_modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


def test_a_link_instead_of_the_folder_or_the_file_is_not_followed(gate: Gate, tmp_path: Path) -> None:
    elsewhere, linked, file = tmp_path / "elsewhere", tmp_path / "linked", tmp_path / "elsewhere.json"
    for folder in (elsewhere, linked):
        folder.mkdir()
    (linked / "logins").symlink_to(elsewhere)
    log_in(gate, linked)
    assert [*elsewhere.iterdir()] == []
    log_in(gate, tmp_path)
    (path := find_file(tmp_path)).rename(file)
    path.symlink_to(file)
    error = refusal(make_server(gate), tmp_path, Person("paste"))
    assert isinstance(error, AuthError)
    assert "cannot be read" in error.message and str(path) in error.message


@pytest.mark.parametrize("damage", ["{", "[]", '{"tokens": 3}'], ids=["cut short", "a list", "a number"])
def test_a_damaged_file_is_set_aside_and_reported(damage: str, gate: Gate, tmp_path: Path) -> None:
    log_in(gate, tmp_path)
    path = find_file(tmp_path)
    path.write_text(damage, encoding="utf-8")
    error = refusal(make_server(gate), tmp_path, None)
    aside = path.with_suffix(".damaged")
    assert f"(the stored login is damaged: {aside})" in error.message
    assert aside.read_text(encoding="utf-8") == damage
    aside.rename(path)
    person = Person("paste")
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["damaged"]


def test_a_login_that_cannot_be_stored_lasts_for_the_session(
    gate: Gate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logins").write_text("a file", encoding="utf-8")
    person = Person("paste")
    gate.lasts_s = 0
    assert sit(make_server(gate), tmp_path, act, person) == "fine"
    assert person.asked == ["first"]
    assert "kept in memory only" in caplog.text


def test_a_login_is_forgotten_on_demand(gate: Gate, tmp_path: Path) -> None:
    async def forget(toolbox: Toolbox) -> tuple[bool, bool, str]:
        was_one, again = await toolbox.forget_login("gate"), await toolbox.forget_login("gate")
        return was_one, again, toolbox.connections["gate"].lifecycle.state

    log_in(gate, tmp_path)
    assert sit(make_server(gate), tmp_path, forget, None) == (True, False, "closed")
    assert [*(tmp_path / "logins").iterdir()] == []


def test_no_secret_is_in_a_log_an_error_or_a_repr(gate: Gate, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    async def look_around(toolbox: Toolbox) -> None:
        await act(toolbox)
        gate.revoke()
        seen.append(await act(toolbox))
        connection = toolbox.connections["gate"]
        seen.append(repr([connection, connection.lifecycle.login, vars(connection.lifecycle.login), connection.config]))

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
        assert "Invalid token response" in error.message
        assert "/token" in caplog.text
        assert [secret for secret in gate.secrets if secret in caplog.text] == []
