"""Settings by their names, each of which is unique: the tables but those of engines, and `key_env` of a service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from .policy import Policy
from .settings import CHAT_KEYS, EXPERT_KEYS, Generation, Openai, Settings
from .trust_rules import Origin
from .value_checks import check_keys, decode_table, read_type

TABLES: dict[str, type] = {
    "chat": Settings,
    "expert": Settings,
    "generation": Generation,
    "policy": Policy,
    "openai": Openai,
}
"""The dataclass of each table."""
KEYS: dict[str, tuple[str, ...]] = {
    "chat": CHAT_KEYS,
    "expert": EXPERT_KEYS,
    "openai": ("key_env",),
    **{table: tuple(entry.name for entry in fields(TABLES[table])) for table in ("generation", "policy")},
}
"""The keys of each table."""
TABLE_OF = {key: table for table, keys in KEYS.items() for key in keys}
"""The table of each key."""
DEFAULT = "default"
"""The value that stands for the built-in one."""
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


def make_settings(values: Mapping[str, Any], source: str) -> Settings:
    """Return the default settings with other values.

    Args:
        values: Values by key, as a configuration file has them.
        source: Where they come from, for error messages.

    Raises:
        ConfigError: A key is unknown, or a value has the wrong type or is out of range.
    """
    check_keys(values, tuple(TABLE_OF), source, "")
    settings = Settings()
    for table, kind in TABLES.items():
        own = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
        own = {key: value for key, value in own.items() if TABLE_OF[key] == table}
        for key, value in decode_table(kind, own, source, table, KEYS[table]).items():
            settings = replace_setting(settings, key, value)
    return settings


def replace_setting(settings: Settings, key: str, value: Any) -> Settings:
    """Return settings with one checked value, which counts as written by the user."""
    table = TABLE_OF[key]
    if TABLES[table] is Settings:
        settings, written = replace(settings, **{key: value}), key
    else:
        part, written = replace(getattr(settings, table), **{key: value}), f"{table}.{key}"
        settings = replace(settings, **{table: part})
    return replace(settings, origins={**settings.origins, written: Origin.COMMAND_LINE})


def find_key(name: str, source: str) -> str:
    """Return the key of a name such as "temperature" or "generation.temperature". Raises ConfigError."""
    full = [f"{table}.{key}" for key, table in TABLE_OF.items()] if "." in name else []
    check_keys({name: None}, (*TABLE_OF, *full), source, "")
    return name.rpartition(".")[2]


def parse_value(key: str, text: str, source: str) -> Any:
    """Return the checked value of a text. Raises ConfigError."""
    table = TABLE_OF[key]
    kind = TABLES[table]
    if text == DEFAULT:
        return next(entry.default for entry in fields(kind) if entry.name == key)
    return decode_table(kind, {key: _read_value(read_type(kind, key), text)}, source, table, KEYS[table])[key]


def _read_value(kind: Any, text: str) -> Any:
    """Convert a text to the type of its setting as far as possible; `decode_table` reports what is left."""
    if kind is bool:
        return _SWITCH.get(text.lower(), text)
    if kind == tuple[str, ...]:
        return [] if text == "[]" else text.strip("[]").replace(",", " ").replace('"', " ").split()
    if kind in (int, float):
        for convert in (int, float):
            try:
                return convert(text)
            except ValueError:
                pass
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text
