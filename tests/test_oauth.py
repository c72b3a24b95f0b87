"""The table `oauth` of a server, in both kinds of file: what is read, and what is turned down with which words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rkllm_chat.config import read_json, read_toml
from rkllm_chat.errors import ConfigError
from rkllm_chat.oauth import OAuth

MACHINE = {"grant": "client_credentials", "client_id": "m", "client_secret": "hush"}
VOUCHED = {
    "grant": "identity_assertion",
    "client_id": "m",
    "client_secret": "hush",
    "assertion": "a.b.c",
    "issuer": "https://login.example.org",
}


def write_toml(oauth: dict[str, Any], **server: Any) -> str:
    table = {"name": "sea", "url": "https://sea.example.org/mcp", **server}
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None]
    return "\n".join(["[[servers]]", *lines, "[servers.oauth]", *(f"{k} = {json.dumps(v)}" for k, v in oauth.items())])


@pytest.mark.parametrize(
    "oauth",
    [
        {},
        {"scope": "read write"},
        {"client_id": "known", "redirect_uri": "http://localhost:8765/back"},
        MACHINE,
        {"grant": "client_credentials", "client_id": "m", "private_key_file": "key.pem", "algorithm": "ES256"},
        VOUCHED,
    ],
)
def test_both_kinds_of_file_give_the_same(oauth: dict[str, str]) -> None:
    (one,) = read_toml(write_toml(oauth), "here.toml", {}).servers
    entry = {"url": one.url, "oauth": oauth}
    (other,) = read_json(json.dumps({"mcpServers": {"sea": entry}}), "here.json", {}).servers
    assert one.oauth == other.oauth == OAuth(**oauth)


def test_a_secret_comes_from_a_variable_and_is_not_shown() -> None:
    text = write_toml({**MACHINE, "client_secret": "${SECRET}"})
    (server,) = read_toml(text, "here.toml", {"SECRET": "hush"}).servers
    assert server.oauth.client_secret == "hush"
    assert "hush" not in repr(server)


def test_the_keys_of_other_programs_are_understood_and_the_rest_is_theirs() -> None:
    oauth = {"clientId": "known", "scopes": ["read", "write"], "enabled": True, "callbackPort": 3118}
    text = json.dumps({"mcpServers": {"sea": {"url": "https://sea.example.org/mcp", "oauth": oauth}}})
    (server,) = read_json(text, "here.json", {}).servers
    assert server.oauth == OAuth(client_id="known", scope="read write")


@pytest.mark.parametrize(
    ("oauth", "server", "said"),
    [
        (
            {"grant": "password"},
            {},
            '.grant is "password". Known are authorization_code, client_credentials, identity_',
        ),
        ({"client": "m"}, {}, 'unknown key "servers[0].oauth.client". Did you mean "client_id"?'),
        ({"grant": "client_credentials"}, {}, '.client_id is needed for the grant "client_credentials".'),
        ({**MACHINE, "client_secret": ""}, {}, " needs a client_secret or a private_key_file. Write one of the two."),
        ({**MACHINE, "private_key_file": "k"}, {}, " needs a client_secret or a private_key_file."),
        ({**MACHINE, "redirect_uri": "http://127.0.0.1:1/"}, {}, ".redirect_uri is not for the grant"),
        ({**MACHINE, "issuer": "http://login.example.org"}, {}, ".issuer must be an https URL."),
        ({**MACHINE, "issuer": "https://[::1"}, {}, " holds what is no URL: "),
        ({**VOUCHED, "assertion": ""}, {}, '.assertion is needed for the grant "identity_assertion".'),
        ({"private_key_file": "k"}, {}, ".private_key_file is not for the grant"),
        ({"client_secret": "hush"}, {}, ".client_secret needs a client_id."),
        ({"redirect_uri": "http://127.0.0.1/callback"}, {}, ".redirect_uri must be on this machine, with a port."),
        ({"redirect_uri": "https://example.org:1/callback"}, {}, ".redirect_uri must be on this machine"),
        (
            {"grant": "client_credentials", "client_id": "m", "private_key_file": "k", "algorithm": "none"},
            {},
            '.algorithm is "none". Known are RS256',
        ),
        ({**MACHINE, "client_secret": 5}, {}, ".client_secret must be a text."),
        (MACHINE, {"url": None, "command": "tides"}, " is for servers with an http or https url."),
        (MACHINE, {"url": "wss://sea.example.org"}, " is for servers with an http or https url."),
        (MACHINE, {"headers": {"authorization": "x"}}, " and an Authorization header cannot both be. Keep one"),
        ({}, {"headers": {"Authorization": "hush", "n": 3}}, "servers[0].headers must be a table of texts."),
    ],
)
def test_a_mistake_is_named_with_its_place(oauth: dict[str, Any], server: dict[str, Any], said: str) -> None:
    text = write_toml(oauth, **server)
    if isinstance(headers := server.get("headers"), dict):
        text = text.replace(
            json.dumps(headers), "{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in headers.items()) + " }"
        )
    with pytest.raises(ConfigError) as caught:
        read_toml(text, "here.toml", {})
    place = "" if "servers[0]" in said else "servers[0].oauth"
    assert f"here.toml: {place}{said}" in str(caught.value)
    assert "hush" not in str(caught.value)
