"""Settings from TOML and JSON: valid files, the errors of invalid ones, and how files are merged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from rkllm_chat.config.policy import Policy
from rkllm_chat.config.servers import MAX_SERVERS
from rkllm_chat.config.settings import Generation, ServerConfig, Settings, merge_settings, read_json, read_toml
from rkllm_chat.core.errors import ConfigError

SERVER = '[[servers]]\nname = "sea"\ncommand = "tides"\n'


def from_toml(text: str, environment: Mapping[str, str] | None = None) -> Settings:
    return read_toml(text, "here.toml", environment or {})


def from_json(servers: Any, environment: Mapping[str, str] | None = None) -> Settings:
    return read_json(json.dumps({"mcpServers": servers}), "here.json", environment or {})


def error_of_toml(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        from_toml(text)
    assert re.match(r"here\.toml(:\d+)?: ", caught.value.message)
    assert caught.value.exit_code == 3
    return str(caught.value)


def error_of_json(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_json(text, "here.json", {})
    assert caught.value.message.startswith("here.json: ")
    return str(caught.value)


def one_server(**values: Any) -> str:
    """A TOML file with one server, good but for these values; None leaves a key out."""
    lines = {"name": "sea", "command": "tides", **values}
    return "[[servers]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in lines.items() if v is not None)


def test_a_whole_toml_file_is_read() -> None:
    text = """
        [chat]
        model = "m.gguf"
        max_steps = 3
        constrained = false
        [generation]
        temperature = 0
        max_tokens = 50
        [policy]
        approve = "read-only"
        deny = ["disk__*"]
        [[servers]]
        name = "sea"
        command = "tides"
        args = ["--zone", "Europe/Berlin"]
        env = { KEY = "1" }
        cwd = "/srv"
        timeout_s = 5
        enabled = false
        trust = "trusted"
        sandbox = "on"
        write = ["notes"]
        network = true
        tools_allow = ["get_*"]
        [[servers]]
        name = "far"
        url = "https://example.org/mcp"
        headers = { Authorization = "Bearer x" }
        transport = "streamable-http"
    """
    sea = ServerConfig(
        "sea",
        command="tides",
        args=("--zone", "Europe/Berlin"),
        env={"KEY": "1"},
        cwd="/srv",
        timeout_s=5.0,
        enabled=False,
        trust="trusted",
        sandbox="on",
        write=("notes",),
        network=True,
        tools_allow=("get_*",),
        source="here.toml",
    )
    url, headers = "https://example.org/mcp", {"Authorization": "Bearer x"}
    assert from_toml(text) == Settings(
        model="m.gguf",
        max_steps=3,
        constrained=False,
        generation=Generation(temperature=0.0, max_tokens=50),
        policy=Policy("read-only", deny=("disk__*",)),
        servers=(sea, ServerConfig("far", url=url, headers=headers, transport="http", source="here.toml")),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "\ufeff", "[chat]\n", "servers = []"], ids=repr)
def test_an_empty_file_gives_the_defaults(text: str) -> None:
    assert from_toml(text) == Settings()


@pytest.mark.parametrize(
    ("toml", "table"),
    [
        ({}, {}),
        ({"args": ["-v"], "env": {"A": "b"}, "cwd": "/srv"}, {"args": ["-v"], "env": {"A": "b"}, "cwd": "/srv"}),
        ({"command": None, "url": "http://h/mcp"}, {"command": None, "url": "http://h/mcp"}),
        ({"command": None, "url": "http://h/mcp"}, {"command": None, "serverUrl": "http://h/mcp"}),
        ({"command": None, "url": "http://h/mcp"}, {"command": None, "httpUrl": "http://h/mcp"}),
        ({"transport": "stdio"}, {"type": "stdio"}),
        ({"transport": "streamable-http"}, {"transport": "http"}),
        ({"enabled": False}, {"disabled": True}),
        ({"sandbox": "on", "write": [], "network": False}, {"sandbox": "on", "write": [], "network": False}),
        ({"headers": {"A": "${KEY}"}, "args": ["${NO:-x}"]}, {"headers": {"A": "secret"}, "args": ["x"]}),
    ],
)
def test_toml_and_json_give_the_same_server(toml: dict[str, Any], table: dict[str, Any]) -> None:
    environment = {"KEY": "secret"}
    entry = {key: value for key, value in {"command": "tides", **table}.items() if value is not None}
    env = toml.pop("env", None)
    headers = toml.pop("headers", None)
    text = one_server(**toml)
    text += "".join(f'env.{key} = "{value}"\n' for key, value in (env or {}).items())
    text += "".join(f'headers.{key} = "{value}"\n' for key, value in (headers or {}).items())
    written = read_toml(text, "one file", environment)
    assert written == read_json(json.dumps({"mcpServers": {"sea": entry}}), "one file", environment)
    assert written.servers[0].source == "one file"


BAD_SERVERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "name with two underscores": ({"name": "a__b"}, ("servers[0].name", '"a__b"', "32")),
    "long name": ({"name": "x" * 200}, ("servers[0].name",)),
    "name that ends in a newline": ({"name": "a\n"}, ("servers[0].name",)),
    "a command of blanks": ({"command": " "}, ('"sea"', "command")),
    "enabled as a text": ({"enabled": "no"}, ("servers[0].enabled", "true or false", "'no'")),
    "command and url": ({"url": "http://h"}, ('"sea"', "command", "url")),
    "neither command nor url": ({"command": None}, ('"sea"', "command", "url")),
    "unknown key": ({"comand": "x"}, ("servers[0].comand", 'Did you mean "command"?')),
    "unknown key like no other": ({"zzz": 1}, ("servers[0].zzz", "Known keys: name, command")),
    "args with a number": ({"args": ["x", 1]}, ("servers[0].args", "a list of texts")),
    "a timeout of 400 digits": ({"timeout_s": 10**400}, ("servers[0].timeout_s",)),
    "a NUL in the command": ({"command": "a\0b"}, ("servers[0].command",)),
    "words in the command": ({"command": "npx -y x"}, ('"sea"', "contains spaces", "args")),
    "trust of its own": ({"trust": "always"}, ("servers[0].trust", '"always"', "off, ask, trusted")),
    "a sandbox for a URL": (
        {"command": None, "url": "https://a.example/", "network": False},
        ("servers[0].network", "with a URL", "with a command"),
    ),
    "timeout 1e99": ({"timeout_s": 1e99}, ("servers[0].timeout_s", "86400")),
    "timeout as a text": ({"timeout_s": "5"}, ("servers[0].timeout_s", "a number", "'5'")),
    "log level": ({"log_level": "loud"}, ("servers[0].log_level", "warning")),
    "unset variable": ({"cwd": "${UNSET}/x"}, ("servers[0].cwd", "UNSET", "${UNSET:-default}")),
}


@pytest.mark.parametrize(("values", "words"), BAD_SERVERS.values(), ids=BAD_SERVERS)
def test_an_invalid_server_is_an_error_with_file_and_key(values: dict[str, Any], words: tuple[str, ...]) -> None:
    error = error_of_toml(one_server(**values))
    assert [word for word in words if word not in error] == []
    assert "secret" not in error


BAD_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "invalid TOML": (f'{SERVER}args = ["x"\nenv', ("not valid TOML", "line 5, column")),
    "a name twice": (SERVER + SERVER, ('two servers have the name "sea"',)),
    "an unknown table": ("[chatt]", ('"chatt"', 'Did you mean "chat"?')),
    "a wrong type": ("[generation]\ntop_k = 1.5", ("generation.top_k", "a whole number", "1.5")),
    "a table as a value": ("chat = 3", ("[chat] must be a table",)),
    "one servers table": ('[servers]\nname = "x"', ("[[servers]]",)),
    "a server that is no table": ('servers = ["x"]', ("servers[0] must be a table",)),
    "a number out of range": ("[chat]\nmax_steps = 0", ("chat.max_steps", "from 1")),
    "a secret that is no text": (SERVER + 'env = { KEY = ["secret"] }', ("servers[0].env", "a table of texts")),
    "a variable with =": (
        SERVER + 'env = { "A=B" = "secret" }',
        ('servers[0].env contains "A=B"', "name of a variable"),
    ),
    "a nameless variable": (SERVER + 'env = { "" = "secret" }', ('servers[0].env contains ""',)),
    "an array of 5,000 levels": ("x = " + "[" * 5_000 + "]" * 5_000, ("nested",)),
    "timeout nan": (SERVER + "timeout_s = nan", ("servers[0].timeout_s", "86400")),
    "too many servers": (
        "".join(f'[[servers]]\nname = "s{i}"\ncommand = "x"\n' for i in range(MAX_SERVERS + 1)),
        ("65 servers", "64"),
    ),
}


@pytest.mark.parametrize(("text", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_an_invalid_toml_file_is_an_error_with_its_place(text: str, words: tuple[str, ...]) -> None:
    error = error_of_toml(text)
    assert [word for word in words if word not in error] == []
    assert "secret" not in error


MANY = json.dumps({"mcpServers": {f"s{i}": {"command": "x"} for i in range(MAX_SERVERS + 1)}})
BAD_JSON: dict[str, tuple[str, tuple[str, ...]]] = {
    "half of a pair": ('{"mcpServers": {"a": {"command": "x", "cwd": "\\ud800"}}}', ("mcpServers.a.cwd", "surrogate")),
    "half of a pair as a name": (
        '{"mcpServers": {"a": {"command": "x", "env": {"\\ud800": ""}}}}',
        ("mcpServers.a.env",),
    ),
    "empty": ("", ("not valid JSON", "line 1 column 1")),
    "a server that is no object": ('{"mcpServers": {"a": 3}}', ("mcpServers.a must be an object",)),
    "no command": ('{"mcpServers": {"a": {"comand": "x"}}}', ('"a"', "needs a command or a url")),
    "a key twice": ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', ('"a"', "twice")),
    "a list": ("[]", ('"mcpServers"',)),
    "disabled as a text": ('{"mcpServers": {"a": {"command": "x", "disabled": "maybe"}}}', ("disabled",)),
    "too many servers": (MANY, ("65 servers", "64")),
    "an unset variable": (
        '{"mcpServers": {"a": {"command": "x", "env": {"K": "${UNSET}"}}}}',
        ("mcpServers.a.env.K", "UNSET"),
    ),
    "100,000 nested arrays": ('{"mcpServers": ' + "[" * 100_000 + "]" * 100_000 + "}", ("not valid JSON",)),
    "a number of 6,000 digits": ('{"mcpServers": ' + "1" * 6_000 + "}", ("not valid JSON", "digits")),
}


@pytest.mark.parametrize(("text", "words"), BAD_JSON.values(), ids=BAD_JSON)
def test_an_invalid_json_file_is_an_error_with_its_place(text: str, words: tuple[str, ...]) -> None:
    error = error_of_json(text)
    assert [word for word in words if word not in error] == []


def test_as_many_servers_as_allowed_are_read() -> None:
    assert len(from_json({f"s{i}": {"command": "x"} for i in range(MAX_SERVERS)}).servers) == MAX_SERVERS
    assert from_json({"a": {"command": "x", "disabled": False}}).servers[0].enabled


@pytest.mark.parametrize(
    "text",
    [
        SERVER + "# " + "." * 40 + "\n",
        SERVER + 'args = [\n  "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18",\n]\n',
    ],
    ids=["a comment", "a value on its own line"],
)
def test_dots_that_are_not_in_a_key_are_not_counted(text: str) -> None:
    assert from_toml(text).servers[0].name == "sea"
    versions = tuple(f"package{i}@1.2.3" for i in range(10))
    assert from_json({"a": {"command": "x", "args": versions}}).servers[0].args == versions


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("${HOME}/bin", "/home/me/bin"),
        ("${HOME}${HOME}", "/home/me/home/me"),
        ("${HOME:-/x}", "/home/me"),
        ("${NO:-/x}", "/x"),
        ("${NO:-}", ""),
        ("${EMPTY:-/x}", "/x"),
        ("$HOME", "$HOME"),
        ("${NESTED}", "${HOME}"),
        ("${NO:-http://h:1/-}", "http://h:1/-"),
    ],
)
def test_variables_are_expanded_once(text: str, wanted: str) -> None:
    environment = {"HOME": "/home/me", "EMPTY": "", "NESTED": "${HOME}"}
    assert from_toml(one_server(cwd=text), environment).servers[0].cwd == wanted


def test_the_nearer_file_wins_key_by_key() -> None:
    far = from_toml('[chat]\nmodel = "far"\nsystem = "far"\n[generation]\nseed = 1\ntop_k = 1\n[policy]\nallow = ["a"]')
    near = from_toml('[chat]\nmodel = "near"\n[generation]\nseed = 2\n[policy]\ndeny = ["b"]')
    assert merge_settings(near, far) == Settings(
        model="near", system="far", generation=Generation(seed=2, top_k=1), policy=Policy(allow=("a",), deny=("b",))
    )


def test_the_nearer_server_replaces_the_other_and_env_and_headers_are_merged() -> None:
    far = from_json({"sea": {"command": "far", "args": ["-v"], "env": {"A": "far", "B": "far"}}, "x": {"command": "x"}})
    near = from_toml(one_server(command="near") + 'env = { B = "near", C = "near" }')
    assert merge_settings(near, far).servers == (
        ServerConfig("x", command="x", source="here.json"),
        ServerConfig("sea", command="near", env={"A": "far", "B": "near", "C": "near"}, headers={}, source="here.toml"),
    )
    far = from_json({"sea": {"url": "http://far", "headers": {"A": "far", "B": "far"}}})
    near = from_json({"sea": {"url": "http://near", "headers": {"B": "near"}}})
    assert merge_settings(near, far).servers[0].headers == {"A": "far", "B": "near"}


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ('[policy]\napprove = "ask"', '[policy]\napprove = "all"'),
        ("[policy]\nallow = []", '[policy]\nallow = ["*"]'),
        ("[chat]\nmax_steps = 8", "[chat]\nmax_steps = 2"),
    ],
)
def test_the_nearer_value_wins_also_where_it_is_the_default(near: str, far: str) -> None:
    assert merge_settings(from_toml(near), from_toml(far)) == from_toml(near)


def test_deny_rules_of_all_files_are_kept() -> None:
    far, near = (from_toml(f'[policy]\ndeny = ["{name}"]') for name in ("far", "near"))
    assert merge_settings(near, far).policy.deny == ("far", "near")


def test_numbers_at_the_ends_of_their_ranges_are_read() -> None:
    settings = from_toml("[chat]\nmax_steps = 1\n[generation]\ntop_p = 1.0\ntemperature = 0")
    assert (settings.max_steps, settings.generation.top_p, settings.generation.temperature) == (1, 1, 0)


def test_a_path_with_a_blank_is_a_command_with_empty_args() -> None:
    text = '[[servers]]\nname = "a"\ncommand = "/opt/my server"\nargs = []'
    assert from_toml(text).servers[0].command == "/opt/my server"


def test_a_package_runner_has_longer_to_start_unless_the_file_says_how_long() -> None:
    entries = {"a": {"command": "npx"}, "b": {"command": "/usr/bin/uvx"}, "c": {"command": "npx", "connect_s": 9}}
    servers = from_json({**entries, "d": {"command": "node"}}).servers
    assert [server.connect_s for server in servers] == [120, 120, 9, 30]


def test_rare_keys_stand_in_a_table_of_their_own_and_may_still_stand_in_chat() -> None:
    text = "[{}]\ngpu_layers = -1\nkeep_prefix = false\n"
    expert, former = (read_toml(text.format(table), "c.toml", {}) for table in ("expert", "chat"))
    assert (expert.gpu_layers, expert.keep_prefix, expert.origins) == (-1, False, former.origins)
    assert expert == former
    with pytest.raises(ConfigError, match=r'unknown key "expert\.model"'):
        read_toml('[expert]\nmodel = "a.gguf"\n', "c.toml", {})
    with pytest.raises(ConfigError, match=r"expert\.gpu_layers must be from -1 to 1000"):
        read_toml("[expert]\ngpu_layers = -2\n", "c.toml", {})
