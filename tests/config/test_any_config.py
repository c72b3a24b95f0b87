"""Any bytes and any structure of a configuration file give settings or a ConfigError, in bounded time."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.config.loader import read_settings
from rkllm_chat.config.settings import CHAT_KEYS, SETTINGS_TABLES, ServerConfig, Settings, read_json, read_toml
from rkllm_chat.core.errors import ConfigError

MOST_CPU_S = 1.0
KEYS = (
    "chat",
    "servers",
    "mcpServers",
    "type",
    "disabled",
    "autoApprove",
    "headers",
    "Authorization",
    "",
    *SETTINGS_TABLES,
    *CHAT_KEYS,
    *(field.name for field in fields(ServerConfig)),
    *(field.name for table in SETTINGS_TABLES.values() for field in fields(table)),
)
WORDS = ("all", "ask", "auto", "trusted", "http://127.0.0.1:1/x", "${HOME}", "${A:-b}", "${", "$", "a__b", "../x", "\0")
keys = st.sampled_from(KEYS) | st.text(max_size=5)
leaves = st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=10,
)
servers = st.lists(st.dictionaries(keys, values, max_size=5), max_size=3)
files = st.dictionaries(keys, values, max_size=4) | st.fixed_dictionaries(
    {},
    optional={
        "chat": st.dictionaries(st.sampled_from(CHAT_KEYS), values, max_size=3),
        "servers": servers,
        "mcpServers": st.dictionaries(keys, st.dictionaries(keys, values, max_size=4), max_size=3),
        **{
            name: st.dictionaries(st.sampled_from([field.name for field in fields(table)]), values, max_size=3)
            for name, table in SETTINGS_TABLES.items()
        },
    },
)
SCRAPS = (
    "[",
    "]",
    "[[servers]]",
    "\n",
    " = ",
    '"',
    '"""',
    "'",
    "{",
    "}",
    ".",
    ",",
    "#",
    "\\u0000",
    "1e999",
    "inf",
    "nan",
    "name",
    "command",
    "a",
    "chat",
    "null",
    "1979-05-27T07:32:00Z",
    "\x00",
    "\ufeff",
    "\ud800",
    "\r",
    "9" * 5000,
    "[" * 5000,
    '{"a":' * 5000,
    "a." * 15,
    "${A:-" * 2000,
)
scraps = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=4), max_size=25).map("".join)


def toml_of(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_of(key)} = {toml_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    if isinstance(value, float):
        return repr(value) if "e" not in repr(value) else f"{value:.6e}"
    return json.dumps(value).replace("\x7f", "\\u007f")


def write_toml(table: dict[str, Any]) -> str:
    return "".join(f"{toml_of(key)} = {toml_of(value)}\n" for key, value in table.items())


def judge(read: Callable[[], Settings]) -> Settings | None:
    """The settings, or None for a ConfigError; either in bounded time."""
    begun = time.process_time()
    try:
        return read()
    except ConfigError as error:
        assert error.message.isprintable() and error.message
        return None
    finally:
        assert time.process_time() - begun < MOST_CPU_S


FORMS: dict[str, tuple[Callable[..., Settings], Callable[[Any], str]]] = {
    "toml": (read_toml, write_toml),
    "json": (read_json, json.dumps),
}


@pytest.mark.slow
@pytest.mark.parametrize("file_format", FORMS)
@settings(max_examples=examples(100))
@given(table=files)
@example(table={"servers": [{"name": "a", "command": "b"}]})
@example(table={"\n": []})
@example(table={"mcpServers": {"a": {"command": "b"}}})
@example(table={"mcpServers": {"\n": {}}})
@example(table={"mcpServers": {"\x1b[2J": {"type": []}}})
def test_any_structure_is_settings_or_an_error(file_format: str, table: dict[str, Any]) -> None:
    read, write = FORMS[file_format]
    judge(lambda: read(write(table), "here", {}))


@pytest.mark.slow
@pytest.mark.parametrize("read", [read_toml, read_json])
@settings(max_examples=examples(100))
@given(text=scraps)
@example(text="[[servers]]\nname = 'a'\ncommand = 'b'\n")
def test_any_text_is_settings_or_an_error(read: Callable[..., Settings], text: str) -> None:
    judge(lambda: read(text, "here", {}))


@pytest.mark.parametrize("name", ["c.toml", "c.json"])
@settings(max_examples=examples(50))
@given(data=st.binary(max_size=80) | scraps.map(lambda text: text.encode("utf-16", "surrogatepass")))
@example(data=b"\xef\xbb\xbf{}")
@example(data=b"\xff\xfe[\0]\0")
def test_any_bytes_of_a_file_are_settings_or_an_error(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        judge(partial(read_settings, path, {}))
