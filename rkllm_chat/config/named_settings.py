"""Settings by their names: the keys of `[chat]`, `[generation]` and `[policy]`, each of which is unique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from .policy import Policy
from .settings import CHAT_KEYS, Generation, Settings
from .trust_rules import Origin
from .value_checks import check_keys, decode_table

TABLES: dict[str, type] = {"chat": Settings, "generation": Generation, "policy": Policy}
"""The dataclass of each table."""
KEYS: dict[str, tuple[str, ...]] = {
    "chat": CHAT_KEYS,
    "generation": tuple(entry.name for entry in fields(Generation)),
    "policy": tuple(entry.name for entry in fields(Policy)),
}
"""The keys of each table."""
TABLE_OF = {key: table for table, keys in KEYS.items() for key in keys}
"""The table of each key."""


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
    if table == "chat":
        settings, written = replace(settings, **{key: value}), key
    else:
        part, written = replace(getattr(settings, table), **{key: value}), f"{table}.{key}"
        settings = replace(settings, **{table: part})
    return replace(settings, origins={**settings.origins, written: Origin.COMMAND_LINE})
