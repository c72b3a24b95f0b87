"""Settings from TOML and JSON: what is read, what is turned down with which words, and which file wins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from rkllm_chat.config import Generation, ServerConfig, Settings, merge, read_json, read_toml
from rkllm_chat.entries import MOST_SERVERS, SERVER_DEFAULTS, SERVER_TYPES
from rkllm_chat.errors import ConfigError
from rkllm_chat.policy import Policy

SERVER = '[[servers]]\nname = "sea"\ncommand = "tides"\n'


def from_toml(text: str, environment: Mapping[str, str] | None = None) -> Settings:
    return read_toml(text, "here.toml", environment or {})


def from_json(servers: Any, environment: Mapping[str, str] | None = None) -> Settings:
    return read_json(json.dumps({"mcpServers": servers}), "here.json", environment or {})


def refusal_of_toml(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        from_toml(text)
    assert caught.value.message.startswith("here.toml: ")
    assert caught.value.exit_code == 3
    return str(caught.value)


def refusal_of_json(text: str) -> str:
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


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "\ufeff", "[chat]\n", "servers = []"], ids=repr)
def test_a_file_that_says_nothing_gives_the_defaults(text: str) -> None:
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
        ({}, {"sandbox": {"filesystem": {}}, "network": {"allowed": []}}),
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
    "name with a dot": ({"name": "a.b"}, ("servers[0].name", '"a.b"')),
    "name that climbs": ({"name": "../x"}, ("servers[0].name", '"../x"')),
    "empty name": ({"name": ""}, ("servers[0].name",)),
    "no name": ({"name": None}, ("servers[0].name",)),
    "long name": ({"name": "x" * 200}, ("servers[0].name",)),
    "name with an escape": ({"name": "a\x1bb"}, ("servers[0].name",)),
    "name that ends in a newline": ({"name": "a\n"}, ("servers[0].name",)),
    "command and url": ({"url": "http://h"}, ('"sea"', "command", "url")),
    "neither command nor url": ({"command": None}, ('"sea"', "command", "url")),
    "empty command": ({"command": ""}, ('"sea"', "command")),
    "unknown key": ({"comand": "x"}, ("servers[0].comand", 'Did you mean "command"?')),
    "unknown key like no other": ({"zzz": 1}, ("servers[0].zzz", "Known are name, command")),
    "args as a text": ({"args": "x"}, ("servers[0].args", "a list of texts", "'x'")),
    "args with a number": ({"args": ["x", 1]}, ("servers[0].args", "a list of texts")),
    "args with a list": ({"args": [["x"]]}, ("servers[0].args", "a list of texts")),
    "command as a list": ({"command": ["npx"]}, ("servers[0].command", "a text")),
    "words in the command": ({"command": "npx -y x"}, ('"sea"', "holds blanks", "args")),
    "trust of its own": ({"trust": "always"}, ("servers[0].trust", '"always"', "off, ask, trusted")),
    "a sandbox of its own": ({"sandbox": "yes"}, ("servers[0].sandbox", '"yes"', "auto, on, off")),
    "a sandbox as true": ({"sandbox": True}, ("servers[0].sandbox", "a text")),
    "write as a text": ({"write": "notes"}, ("servers[0].write", "a list of texts", "'notes'")),
    "network as a text": ({"network": "no"}, ("servers[0].network", "true or false", "'no'")),
    "a sandbox for a URL": (
        {"command": None, "url": "https://a.example/", "network": False},
        ("servers[0].network", "behind a URL", "started by a command"),
    ),
    "timeout 0": ({"timeout_s": 0}, ("servers[0].timeout_s", "86400")),
    "timeout -1": ({"timeout_s": -1}, ("servers[0].timeout_s", "86400")),
    "timeout 1e99": ({"timeout_s": 1e99}, ("servers[0].timeout_s", "86400")),
    "timeout as a text": ({"timeout_s": "5"}, ("servers[0].timeout_s", "a number", "'5'")),
    "timeout true": ({"timeout_s": True}, ("servers[0].timeout_s", "a number")),
    "connect 0": ({"connect_s": 0}, ("servers[0].connect_s", "86400")),
    "ping -1": ({"ping_s": -1}, ("servers[0].ping_s", "86400")),
    "idle text": ({"idle_s": "long"}, ("servers[0].idle_s", "a number")),
    "log level": ({"log_level": "loud"}, ("servers[0].log_level", "warning")),
    "enabled as a text": ({"enabled": "no"}, ("servers[0].enabled", "true or false")),
    "unset variable": ({"cwd": "${UNSET}/x"}, ("servers[0].cwd", "UNSET", "${UNSET:-default}")),
    "unset variable in a list": ({"args": ["a", "${UNSET}"]}, ("servers[0].args[1]", "UNSET")),
}


@pytest.mark.parametrize(("values", "words"), BAD_SERVERS.values(), ids=BAD_SERVERS)
def test_a_bad_server_is_turned_down_with_its_file_and_key(values: dict[str, Any], words: tuple[str, ...]) -> None:
    told = refusal_of_toml(one_server(**values))
    assert [word for word in words if word not in told] == []


BAD_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "invalid TOML": (f'{SERVER}args = ["x"\nenv', ("not valid TOML", "line 5, column")),
    "a name twice": (SERVER + SERVER, ('two servers are called "sea"',)),
    "an unknown table": ("[chatt]", ('"chatt"', 'Did you mean "chat"?')),
    "an unknown chat key": ('[chat]\nmodell = "x"', ('"chat.modell"', 'Did you mean "model"?')),
    "a wrong type": ("[generation]\ntop_k = 1.5", ("generation.top_k", "a whole number", "1.5")),
    "a table as a value": ("chat = 3", ("[chat] must be a table",)),
    "an unknown mode": ('[policy]\napprove = "yes"', ("policy.approve", '"yes"', "ask, read-only, all, none")),
    "one servers table": ('[servers]\nname = "x"', ("[[servers]]",)),
    "a server that is no table": ('servers = ["x"]', ("servers[0] must be a table",)),
    "env with a number": (SERVER + "env = { A = 1 }", ("servers[0].env", "a table of texts")),
    "an unset variable in env": (SERVER + 'env = { A = "${UNSET}" }', ("servers[0].env.A", "UNSET")),
    "timeout nan": (SERVER + "timeout_s = nan", ("servers[0].timeout_s", "86400")),
    "a key of 20,000 parts": ("a" + ".a" * 20_000 + " = 1", ("more than 16 dots",)),
    "5,000 nested arrays": ("x = " + "[" * 5_000 + "]" * 5_000, ("not valid TOML",)),
    "a number of 6,000 digits": ("[chat]\nmax_steps = " + "1" * 6_000, ("not valid TOML", "digits")),
    "a file too large": ("#" * (256 * 1024 + 1), ("larger than 256 KiB",)),
    "too many servers": (
        "".join(f'[[servers]]\nname = "s{i}"\ncommand = "x"\n' for i in range(MOST_SERVERS + 1)),
        ("65 servers", "64"),
    ),
}


@pytest.mark.parametrize(("text", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_toml_file_is_turned_down_with_its_name_and_the_place(text: str, words: tuple[str, ...]) -> None:
    told = refusal_of_toml(text)
    assert [word for word in words if word not in told] == []


BAD_JSON: dict[str, tuple[str, tuple[str, ...]]] = {
    "empty": ("", ("not valid JSON", "line 1 column 1")),
    "a comment": ('// mine\n{"mcpServers": {}}', ("not valid JSON", "line 1 column 1")),
    "a trailing comma": ('{"mcpServers": {"a": {"command": "x",}}}', ("not valid JSON", "line 1 column")),
    "no root key": ('{"servers": {}}', ('"mcpServers"',)),
    "a list": ("[]", ('"mcpServers"',)),
    "a server that is no object": ('{"mcpServers": {"a": 3}}', ("mcpServers.a must be an object",)),
    "no command": ('{"mcpServers": {"a": {"comand": "x"}}}', ('"a"', "needs a command or a url")),
    "an unset variable": (
        '{"mcpServers": {"a": {"command": "x", "env": {"K": "${UNSET}"}}}}',
        ("mcpServers.a.env.K", "UNSET"),
    ),
    "100,000 nested arrays": ('{"mcpServers": ' + "[" * 100_000 + "]" * 100_000 + "}", ("not valid JSON",)),
    "a number of 6,000 digits": ('{"mcpServers": ' + "1" * 6_000 + "}", ("not valid JSON", "digits")),
}


@pytest.mark.parametrize(("text", "words"), BAD_JSON.values(), ids=BAD_JSON)
def test_a_bad_json_file_is_turned_down_with_its_name_and_the_place(text: str, words: tuple[str, ...]) -> None:
    told = refusal_of_json(text)
    assert [word for word in words if word not in told] == []


def test_a_key_that_stands_twice_in_json_is_turned_down() -> None:
    assert '"a"' in refusal_of_json('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')


def test_json_names_at_most_so_many_servers_too() -> None:
    servers = {f"s{i}": {"command": "x"} for i in range(MOST_SERVERS)}
    assert len(from_json(servers).servers) == MOST_SERVERS
    assert "64" in refusal_of_json(json.dumps({"mcpServers": {**servers, "more": {"command": "x"}}}))


def test_disabled_must_be_true_or_false() -> None:
    assert from_json({"a": {"command": "x", "disabled": False}}).servers[0].enabled
    assert "disabled" in refusal_of_json('{"mcpServers": {"a": {"command": "x", "disabled": "false"}}}')


def test_a_command_of_blanks_is_turned_down() -> None:
    assert '"sea"' in refusal_of_toml(one_server(command=" "))


@pytest.mark.parametrize(
    "line", ['command = "a\\u0000b"', 'command = "a"\nargs = ["\\u0000"]', 'command = "a"\nenv = { A = "\\u0000" }']
)
def test_a_nul_that_no_program_can_be_given_is_turned_down(line: str) -> None:
    assert "servers[0]" in refusal_of_toml(f'[[servers]]\nname = "sea"\n{line}\n')


def test_a_whole_number_too_large_for_a_time_is_turned_down() -> None:
    assert "servers[0].timeout_s" in refusal_of_toml(SERVER + "timeout_s = " + "1" * 400)


@pytest.mark.parametrize("levels", [900, 5_000])
def test_deep_nesting_is_called_by_its_name(levels: int) -> None:
    deep = "[" * levels + "]" * levels
    assert "nested" in refusal_of_toml(f"x = {deep}")
    assert "nested" in refusal_of_json(f'{{"mcpServers": {{"a": {{"command": "x", "args": {deep}}}}}}}')


@pytest.mark.parametrize(
    "text",
    [
        SERVER + "# " + "." * 40 + "\n",
        SERVER + 'args = [\n  "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18",\n]\n',
    ],
    ids=["a comment", "a value on its own line"],
)
def test_dots_that_are_no_key_are_not_counted(text: str) -> None:
    assert from_toml(text).servers[0].name == "sea"


def test_dots_in_json_are_not_counted() -> None:
    versions = tuple(f"package{i}@1.2.3" for i in range(10))
    assert from_json({"a": {"command": "x", "args": versions}}).servers[0].args == versions


def test_a_dotted_key_cannot_hide_behind_an_equals_sign() -> None:
    assert "more than 16 dots" in refusal_of_toml('"="' + ".a" * 2_000 + " = 1")


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
def test_variables_are_filled_in_once(text: str, wanted: str) -> None:
    environment = {"HOME": "/home/me", "EMPTY": "", "NESTED": "${HOME}"}
    assert from_toml(one_server(cwd=text), environment).servers[0].cwd == wanted


def test_the_nearer_value_wins_and_what_it_leaves_out_stays() -> None:
    far = from_toml('[chat]\nmodel = "far"\nsystem = "far"\n[generation]\nseed = 1\ntop_k = 1\n[policy]\nallow = ["a"]')
    near = from_toml('[chat]\nmodel = "near"\n[generation]\nseed = 2\n[policy]\ndeny = ["b"]')
    assert merge(near, far) == Settings(
        model="near", system="far", generation=Generation(seed=2, top_k=1), policy=Policy(allow=("a",), deny=("b",))
    )


def test_the_nearer_server_replaces_the_other_but_env_and_headers_are_joined_by_key() -> None:
    far = from_json({"sea": {"command": "far", "args": ["-v"], "env": {"A": "far", "B": "far"}}, "x": {"command": "x"}})
    near = from_toml(one_server(command="near") + 'env = { B = "near", C = "near" }')
    assert merge(near, far).servers == (
        ServerConfig("x", command="x", source="here.json"),
        ServerConfig("sea", command="near", env={"A": "far", "B": "near", "C": "near"}, headers={}, source="here.toml"),
    )
    far = from_json({"sea": {"url": "http://far", "headers": {"A": "far", "B": "far"}}})
    near = from_json({"sea": {"url": "http://near", "headers": {"B": "near"}}})
    assert merge(near, far).servers[0].headers == {"A": "far", "B": "near"}


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ('[policy]\napprove = "ask"', '[policy]\napprove = "all"'),
        ("[policy]\nallow = []", '[policy]\nallow = ["*"]'),
        ("[chat]\nmax_steps = 8", "[chat]\nmax_steps = 2"),
    ],
)
def test_the_nearer_value_wins_also_where_it_is_the_default(near: str, far: str) -> None:
    assert merge(from_toml(near), from_toml(far)) == from_toml(near)


def test_what_one_file_forbids_no_nearer_file_allows_again() -> None:
    far, near = (from_toml(f'[policy]\ndeny = ["{name}"]') for name in ("far", "near"))
    assert merge(near, far).policy.deny == ("far", "near")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[chat]\nmax_steps = 0", "chat.max_steps"),
        ("[chat]\ncontext_tokens = -1", "chat.context_tokens"),
        ("[generation]\nmax_tokens = 0", "generation.max_tokens"),
        ("[generation]\ntemperature = -0.1", "generation.temperature"),
        ("[generation]\ntemperature = nan", "generation.temperature"),
        ("[generation]\ntop_p = 1.5", "generation.top_p"),
    ],
)
def test_a_number_out_of_its_range_is_turned_down(text: str, key: str) -> None:
    assert f"{key} must be from" in refusal_of_toml(text)
    assert from_toml("[chat]\nmax_steps = 1\n[generation]\ntop_p = 1.0\ntemperature = 0").max_steps == 1


def test_keys_of_other_programs_in_a_shared_json_file_are_left_alone() -> None:
    servers = from_json({"a": {"command": "x", "alwaysAllow": ["y"], "icon": {"src": 1}}}).servers
    assert [server.command for server in servers] == ["x"]


def test_a_command_with_a_blank_in_its_path_can_be_written_with_empty_args() -> None:
    text = '[[servers]]\nname = "a"\ncommand = "/opt/my server"\nargs = []'
    assert from_toml(text).servers[0].command == "/opt/my server"


def test_the_tables_of_an_entry_agree_with_the_server_they_become() -> None:
    types = {
        entry.name: str(entry.type) for entry in fields(ServerConfig) if entry.name not in ("source", "is_project")
    }
    assert types == SERVER_TYPES
    assert {**vars(ServerConfig("")), "oauth": {}} == SERVER_DEFAULTS


@pytest.mark.parametrize("value", ['"secret"', '["secret"]', '{ KEY = ["secret"] }'])
def test_a_wrong_value_where_secrets_are_is_not_shown(value: str) -> None:
    refusal = refusal_of_toml(f'[[servers]]\nname = "a"\ncommand = "x"\nenv = {value}')
    assert "env must be a table of texts" in refusal and "secret" not in refusal
