"""Which origin of a configuration may set which key: RULES, the files that are read by them, and docs/trust-keys.md.

`pytest -n0 tests/config/test_trust_rules.py --record` writes the table of docs/trust-keys.md anew.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config.files import TRUST_VARIABLE
from rkllm_chat.config.loader import load_settings
from rkllm_chat.config.project_trust import needs_acceptance
from rkllm_chat.config.servers import SERVER_KEYS
from rkllm_chat.config.settings import CHAT_KEYS, EXPERT_KEYS, SETTINGS_TABLES, ServerConfig, Settings
from rkllm_chat.config.trust_rules import RULES, Decision, Origin, decide
from rkllm_chat.mcp_client.acceptance import review_start

PAGE = Path(__file__).parents[2] / "docs/trust-keys.md"
BEGIN, END = "<!-- the table is written by tests/config/test_trust_rules.py -->\n", "<!-- end of the table -->\n"

# Values that a project's file may set, and values that it may not.
VALUES: dict[str, dict[str, tuple[list[Any], list[Any]]]] = {
    "chat": {
        "model": (
            ["models/x.gguf", "x-rk3588.rkllm"],
            ["http://x/v1", "HTTPS://x/x.gguf", "http:/x.gguf", "replies.json", "talk.jsonl", "${HOME}/x.gguf"],
        ),
        "family": (["qwen2.5"], []),
        "models_folder": ([], ["~/Downloads"]),
        "backend": ([], ["openai", "scripted"]),
        "language": (["ja"], ["${HOME}"]),
        "system": (["Be brief."], ["The key is ${HOME}.", "${HOME:-none}"]),
        "tool_format": (["json"], ["${HOME}"]),
        "constrained": ([False], []),
        "max_steps": ([3, 20], []),
        "context_tokens": ([2048, 8192, 0], [8193, 1_000_000]),
        "prompt_profile": (["tiny-tools"], []),
        "thinking": (["off"], []),
        "keep_secrets": ([False], [True]),
        "prefill_ahead": ([False, True], []),
        "keep_prefix": ([False, True], []),
        "llama_library": ([], ["./libllama.so"]),
        "gpu_layers": ([-1, 20], []),
        "mmproj": (["mmproj-x.gguf", "none"], ["http://x/x.gguf", "projector.so", "${HOME}/x.gguf"]),
        "key_bindings": ([], ["vi"]),
        "theme": ([], ["none", "light"]),
        "pictures": ([], ["none", "kitty"]),
        "bell": ([False, True], []),
    },
    "generation": {
        "temperature": ([0.0], []),
        "top_k": ([1], []),
        "top_p": ([0.5], []),
        "min_p": ([0.1], []),
        "max_tokens": ([64], []),
        "repeat_penalty": ([1.1], []),
        "seed": ([7], []),
    },
    "rkllm": {
        "library": ([], ["./evil.so"]),
        "template": ([], ["~/.ssh/id", "qwen3"]),
        "layout": ([], ["1.3.1"]),
        "history": (["runtime"], []),
        "native_tools": ([True], []),
        "prompt_cache": ([False], [True]),
        "base_domain_id": ([1], []),
        "cpus": (["4-7"], ["${HOME}"]),
        "embed_flash": ([False], []),
        "encoder": ([], ["./x.rknn", "none"]),
        "lora": ([], ["./x.rkllm"]),
        "lora_scale": ([], [0.5]),
        "timeout_s": ([9.0], []),
    },
    "openai": {
        "model": ([], ["expensive"]),
        "key_env": ([], ["HOME"]),
        "api": ([], ["completions"]),
        "template": ([], ["~/.ssh/id"]),
        "native_tools": ([], [True]),
        "images": ([], [True]),
        "first_s": ([], [9.0]),
        "timeout_s": ([], [9.0]),
    },
    "policy": {
        "approve": (["ask", "none"], ["all", "read-only"]),
        "allow": ([[]], [["*"]]),
        "deny": ([["x"]], []),
        "max_calls": ([5], [101]),
    },
}
ENTRY = {"command": "/bin/cat", "args": ["x"]}
URL_ENTRY = {"url": "https://example.org/mcp"}
# A change of each key of a server.
SERVER_VALUES: dict[str, tuple[dict[str, Any], Any]] = {
    "name": (ENTRY, "other"),
    "command": (ENTRY, "/bin/ls"),
    "args": (ENTRY, ["y"]),
    "env": (ENTRY, {"A": "1"}),
    "cwd": (ENTRY, ".."),
    "url": (URL_ENTRY, "https://example.net/mcp"),
    "headers": (URL_ENTRY, {"A": "1"}),
    "allow_insecure": (URL_ENTRY, True),
    "oauth": (URL_ENTRY, {"client_id": "x"}),
    "transport": (URL_ENTRY, "sse"),
    "timeout_s": (ENTRY, 9.0),
    "tool_timeouts": (ENTRY, {"a": 9.0}),
    "connect_s": (ENTRY, 9.0),
    "ping_s": (ENTRY, 9.0),
    "idle_s": (ENTRY, 9.0),
    "log_level": (ENTRY, "error"),
    "enabled": (ENTRY, False),
    "trust": (ENTRY, "off"),
    "sandbox": (ENTRY, "off"),
    "write": (ENTRY, ["."]),
    "network": (ENTRY, True),
    "roots": (ENTRY, ["notes"]),
    "instructions": (ENTRY, False),
    "tools_allow": (ENTRY, ["a"]),
    "tools_deny": (ENTRY, ["a"]),
    "ignored_keys": (ENTRY, ["a"]),
}
ROWS = [(table, key) for table, keys in VALUES.items() for key in keys]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Origin, Path]:
    """The file of each origin, in a home and a current folder without files."""
    (tmp_path / "home/.config/rkllm-chat").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return {
        Origin.USER: tmp_path / "home/.config/rkllm-chat/config.toml",
        Origin.COMMAND_LINE: tmp_path / "named.toml",
        Origin.OTHER_PROGRAM: tmp_path / "home/.mcp.json",
        Origin.PROJECT: tmp_path / "work/mcp_config.toml",
    }


def read(places: dict[Origin, Path], origin: Origin, table: str, key: str, value: Any) -> Settings:
    """Write a value into the file of an origin, and read the configuration."""
    if origin is Origin.OTHER_PROGRAM:
        text = json.dumps({table: {key: value}, "mcpServers": {}})
    else:
        text = f"[{table}]\n{key} = {json.dumps(value)}\n"
    places[origin].write_text(text, encoding="utf-8")
    named = str(places[origin]) if origin is Origin.COMMAND_LINE else ""
    return load_settings(named, {"HOME": str(places[Origin.USER].parents[2])})


def get(settings: Settings, table: str, key: str) -> Any:
    return getattr(settings if table == "chat" else getattr(settings, table), key)


KEYS = {
    "chat": (*CHAT_KEYS, *EXPERT_KEYS),
    **{name: tuple(entry.name for entry in fields(kind)) for name, kind in SETTINGS_TABLES.items()},
    "servers": SERVER_KEYS,
}


def test_every_key_has_a_rule() -> None:
    assert {table: set(keys) for table, keys in RULES.items()} == {table: set(keys) for table, keys in KEYS.items()}
    assert {table: set(keys) for table, keys in VALUES.items()} | {"servers": set(SERVER_VALUES)} == {
        table: set(keys) for table, keys in RULES.items()
    }


@pytest.mark.parametrize(("table", "key"), ROWS, ids=[f"{table}.{key}" for table, key in ROWS])
def test_a_key_is_set_by_whom_the_table_says(table: str, key: str, places: dict[Origin, Path]) -> None:
    name = key if table == "chat" else f"{table}.{key}"
    allowed, refused = VALUES[table][key]
    for value in (*allowed, *refused):
        expected = tuple(value) if isinstance(value, list) else value
        for origin, place in places.items():
            settings = read(places, origin, table, key, value)
            is_refused = origin is Origin.OTHER_PROGRAM or (origin is Origin.PROJECT and value in refused)
            ignored = ((place.name, name),) if origin is Origin.PROJECT and is_refused else ()
            assert (origin, settings.ignored) == (origin, ignored)
            assert settings.origins.get(name) == (None if is_refused else origin)
            if is_refused:
                assert get(settings, table, key) == get(Settings(), table, key)
            elif "${" not in str(value):
                assert get(settings, table, key) == expected
            place.unlink()
            decision = decide(origin, table, key, expected, get(Settings(), table, key))
            permitted = RULES[table][key].decision if origin is Origin.PROJECT else Decision.ALLOWED
            assert decision is (Decision.REFUSED if is_refused else permitted)


@pytest.mark.parametrize(
    ("table", "key", "own", "theirs"),
    [
        *(("chat", key, False, True) for key in ("keep_secrets", "prefill_ahead", "keep_prefix")),
        ("policy", "approve", "none", "ask"),
        ("policy", "max_calls", 3, 4),
        ("chat", "context_tokens", 2048, 4096),
        ("chat", "context_tokens", 2048, 0),
    ],
)
def test_what_the_user_has_restricted_stays_so(
    table: str, key: str, own: Any, theirs: Any, places: dict[Origin, Path]
) -> None:
    read(places, Origin.USER, table, key, own)
    settings = read(places, Origin.PROJECT, table, key, theirs)
    name = key if table == "chat" else f"{table}.{key}"
    assert (get(settings, table, key), settings.ignored) == (own, (("mcp_config.toml", name),))


def make_server(key: str, value: Any = None) -> ServerConfig:
    """Read a server of a project, with one key changed."""
    entry = {**SERVER_VALUES[key][0], **({} if value is None else {key: value})}
    Path("mcp.json").write_text(json.dumps({"mcpServers": {entry.pop("name", "x"): entry}}), encoding="utf-8")
    server, *_ = load_settings(environment={"HOME": "/nonexistent"}).servers
    return server


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("key", SERVER_VALUES)
def test_a_key_of_a_projects_server_is_asked_about_or_free_as_the_table_says(key: str) -> None:
    rule = RULES["servers"][key]
    before, after = make_server(key), make_server(key, SERVER_VALUES[key][1])
    assert needs_acceptance(before) and needs_acceptance(after)
    is_same = review_start(before).values == review_start(after).values and before.name == after.name
    assert is_same == (rule.decision is Decision.ALLOWED)
    if is_same:
        expected = SERVER_VALUES[key][1]
        assert getattr(after, key) == (tuple(expected) if isinstance(expected, list) else expected)


@pytest.mark.parametrize("origin", [origin for origin in Origin if origin is not Origin.BUILT_IN])
def test_only_a_projects_server_is_asked_about_and_cannot_call_itself_trusted(
    origin: Origin, places: dict[Origin, Path]
) -> None:
    entry = {**ENTRY, "trust": "trusted"}
    toml = "".join(f"{key} = {json.dumps(value)}\n" for key, value in {"name": "x", **entry}.items())
    text = json.dumps({"mcpServers": {"x": entry}}) if origin is Origin.OTHER_PROGRAM else f"[[servers]]\n{toml}"
    places[origin].write_text(text, encoding="utf-8")
    named = str(places[origin]) if origin is Origin.COMMAND_LINE else ""
    environment = {"HOME": str(places[Origin.USER].parents[2])}
    server, *_ = load_settings(named, environment).servers
    is_project = origin is Origin.PROJECT
    assert (server.origin, server.trust) == (origin, "ask" if is_project else "trusted")
    assert needs_acceptance(server) == is_project
    trusting, *_ = load_settings(named, {**environment, TRUST_VARIABLE: "1"}).servers
    assert (trusting.trust, needs_acceptance(trusting)) == ("trusted", False)


def describe(origin: Origin, table: str, key: str) -> str:
    """Return the cell of the table."""
    if origin is not Origin.PROJECT:
        return decide(origin, table, key, None, None).value
    rule = RULES[table][key]
    return f"{rule.decision.value}: {rule.words}" if rule.words else rule.decision.value


def render_table() -> str:
    rows = [["key", *(origin.value for origin in Origin)], ["---"] * (1 + len(Origin))]
    for table, keys in KEYS.items():
        name = "[[servers]]" if table == "servers" else f"[{table}]"
        names = {key: "[expert]" if key in EXPERT_KEYS else name for key in keys}
        rows += [[f"`{names[key]} {key}`", *(describe(origin, table, key) for origin in Origin)] for key in keys]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_page_about_trust_shows_the_table(pytestconfig: pytest.Config) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    written, _, after = rest.partition(END)
    if pytestconfig.getoption("--record"):
        written = render_table()
        PAGE.write_text(f"{before}{BEGIN}{written}{END}{after}", encoding="utf-8")
    assert written == render_table()
