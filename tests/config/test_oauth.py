"""The table `oauth` of a server in TOML and JSON: valid tables, and the errors of invalid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rkllm_chat.config.oauth import OAuth
from rkllm_chat.config.settings import read_json, read_toml
from rkllm_chat.core.errors import ConfigError

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
def test_toml_and_json_give_the_same(oauth: dict[str, str]) -> None:
    (one,) = read_toml(write_toml(oauth), "here.toml", {}).servers
    entry = {"url": one.url, "oauth": oauth}
    (other,) = read_json(json.dumps({"mcpServers": {"sea": entry}}), "here.json", {}).servers
    assert one.oauth == other.oauth == OAuth(**oauth)


def test_a_secret_comes_from_a_variable_and_is_not_shown() -> None:
    text = write_toml({**MACHINE, "client_secret": "${SECRET}"})
    (server,) = read_toml(text, "here.toml", {"SECRET": "hush"}).servers
    assert server.oauth.client_secret == "hush"
    assert "hush" not in repr(server)


@pytest.mark.parametrize(
    ("oauth", "server", "place", "named"),
    [
        ({"grant": "password"}, {}, ".grant", '"password"'),
        ({"grant": "client_credentials"}, {}, ".client_id", "required"),
        ({**MACHINE, "client_secret": ""}, {}, "", "client_secret or a private_key_file"),
        ({**MACHINE, "redirect_uri": "http://127.0.0.1:1/"}, {}, ".redirect_uri", "not valid for the grant"),
        ({**MACHINE, "issuer": "http://login.example.org"}, {}, ".issuer", "https"),
        ({**MACHINE, "issuer": "https://[::1"}, {}, "", "invalid URL"),
        ({"private_key_file": "k"}, {}, ".private_key_file", "not valid for the grant"),
        ({"client_secret": "hush"}, {}, ".client_secret", "client_id"),
        ({"redirect_uri": "http://127.0.0.1/callback"}, {}, ".redirect_uri", "a port"),
        ({"redirect_uri": "https://example.org:1/callback"}, {}, ".redirect_uri", "loopback"),
        ({**MACHINE, "algorithm": "none"}, {}, ".algorithm", '"none"'),
        ({**MACHINE, "client_secret": 5}, {}, ".client_secret", "a text"),
        (MACHINE, {"url": None, "command": "tides"}, "", "http or https url"),
        (MACHINE, {"headers": {"authorization": "x"}}, "", "Authorization header"),
    ],
)
def test_an_invalid_value_is_an_error_with_its_place(
    oauth: dict[str, Any], server: dict[str, Any], place: str, named: str
) -> None:
    entry = {"url": "https://sea.example.org/mcp", **server, "oauth": oauth}
    entry = {key: value for key, value in entry.items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        read_json(json.dumps({"mcpServers": {"sea": entry}}), "here.json", {})
    error = str(caught.value)
    assert error.startswith("here.json: ") and f"mcpServers.sea.oauth{place}" in error and named in error
    assert "hush" not in error


def test_an_invalid_value_in_toml_is_an_error_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"^here.toml: servers\[0\].oauth.grant"):
        read_toml(write_toml({"grant": "password"}), "here.toml", {})
    with pytest.raises(ConfigError, match=r"servers\[0\].oauth.client.*client_id"):
        read_toml(write_toml({"client": "m"}), "here.toml", {})
    with pytest.raises(ConfigError, match=r"headers must be a table of texts") as caught:
        read_toml(write_toml({}) + '\n[servers.headers]\nAuthorization = "hush"\nn = 3\n', "here.toml", {})
    assert "hush" not in str(caught.value)
