"""The reference of all settings and the JSON Schemas of configuration files, made from the settings' own classes."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin

from rkllm_chat.config.oauth import OAuth
from rkllm_chat.config.servers import SERVER_KEYS, ServerConfig
from rkllm_chat.config.settings import CHAT_KEYS, EXPERT_KEYS, SETTINGS_TABLES, Settings
from rkllm_chat.config.value_checks import describe_values, read_types

_COMMON = ("generation", "policy")
TABLES: dict[str, tuple[type, tuple[str, ...]]] = {
    "[chat]": (Settings, CHAT_KEYS),
    **{
        f"[{name}]": (SETTINGS_TABLES[name], tuple(read_types(SETTINGS_TABLES[name])))
        for name in ("generation", "policy")
    },
    "[[servers]]": (ServerConfig, SERVER_KEYS),
    "[servers.oauth]": (OAuth, tuple(read_types(OAuth))),
    "[expert]": (Settings, EXPERT_KEYS),
    **{f"[{name}]": (kind, tuple(read_types(kind))) for name, kind in SETTINGS_TABLES.items() if name not in _COMMON},
}
INTRODUCTIONS = {
    "[expert]": "What follows is for engines and rare cases; the program finds out what it needs by itself.",
    "[rkllm]": "Only for models on the NPU of a Rockchip board.",
    "[openai]": "Only for models behind a URL.",
}
NAMES = {str: "text", bool: "true or false", int: "integer", float: "number"}
TYPES: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
}
VARIABLE = {"type": "string", "pattern": r"\$\{"}


def make_page() -> str:
    """Return the reference as Markdown."""
    lines = [
        "# All settings",
        "",
        "[Configuration](configuration.md) shows an example; `/set` in the chat changes most of them. What is left out",
        "has its default.",
        "Editors that know JSON Schema (for TOML: Taplo, Even Better TOML) complete and check `mcp_config.toml` by",
        "`rkllm_chat/config/mcp_config.schema.json`, which is installed with the program: a first line",
        "`#:schema /PATH/rkllm_chat/config/mcp_config.schema.json` names it. It does not check what depends on the",
        "machine or on several keys.",
        "`mcp_servers.schema.json` beside it is for JSON files with `mcpServers`, such as `.mcp.json`: a member",
        '`"$schema"` names it. Keys of other programs are valid there, as they are for the program.',
    ]
    for title, (kind, keys) in TABLES.items():
        lines += ["", f"## {title}", *(("", INTRODUCTIONS[title]) if title in INTRODUCTIONS else ())]
        lines += ["", "| Key | Values | Default | Meaning |", "| --- | --- | --- | --- |"]
        about = read_attributes(kind)
        defaults = {entry.name: format_default(entry) for entry in fields(kind) if entry.name in keys}
        for key in keys:
            cells = (f"`{key}`", describe_type(kind, key), defaults[key], about[key])
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def read_attributes(kind: type) -> dict[str, str]:
    """Return the texts in the section Attributes of a docstring, by name."""
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def describe_type(kind: type, key: str) -> str:
    """Return the type and the accepted values of a key in words."""
    hint = read_types(kind)[key]
    if get_origin(hint) is Literal:
        return ", ".join(f'`"{choice}"`' for choice in get_args(hint))
    if get_origin(hint) is tuple:
        return "list of texts"
    if is_dataclass(hint):
        return "table, below"
    if get_origin(hint) in (Mapping, dict):
        return f"table: {NAMES[get_args(hint)[1]]} by name"
    limits = "" if hint is bool else re.sub(r"(?<=\d)-", " to ", describe_values(kind, key))
    return f"{NAMES[hint]}, {limits}" if limits else NAMES[hint]


def format_default(entry: Field[Any]) -> str:
    """Return the default of a field as it is written in TOML; "" if it has none."""
    default = entry.default_factory() if entry.default_factory is not MISSING else entry.default
    if default is MISSING:
        return "required"
    if default is None or is_dataclass(default):
        return ""
    return f"`{json.dumps(default)}`"


def make_schema() -> str:
    """Return the JSON Schema of a configuration in TOML."""
    properties = {
        title.strip("[]"): make_object(kind, keys) for title, (kind, keys) in TABLES.items() if "oauth" not in title
    }
    properties["chat"]["properties"]["model"]["type"] = ["string", "array"]
    properties["chat"]["properties"]["model"]["items"] = {"type": "string"}
    server = properties.pop("servers")
    server["required"] = ["name"]
    server["oneOf"] = [{"required": ["command"]}, {"required": ["url"]}]
    server["properties"]["roots"]["anyOf"] = [{"type": "array"}, {"const": False}]
    server["properties"]["roots"].pop("type")
    properties["servers"] = {"type": "array", "items": server}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of rkllm_chat",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


def make_json_schema() -> str:
    """Return the JSON Schema of JSON files with `mcpServers`: our keys as they are, others as programs write them."""
    server = make_object(ServerConfig, tuple(key for key in SERVER_KEYS if key != "name"))
    server["additionalProperties"] = True
    server["anyOf"] = [{"required": [key]} for key in ("command", "url", "serverUrl", "httpUrl", "baseUrl")]
    keys = server["properties"]
    keys["command"]["type"] = ["string", "array", "object"]  # opencode, Zed
    keys["trust"] = {"anyOf": [keys["trust"], {"type": "boolean"}]}  # Gemini CLI
    keys["roots"] |= {"type": ["array", "boolean"]}
    scalar = {"type": ["string", "number", "boolean"]}
    keys["args"]["items"] = scalar
    for key in ("env", "headers"):
        keys[key]["additionalProperties"] = {"type": [*scalar["type"], "null"]}
    keys["headers"] = {"anyOf": [keys["headers"], {"type": "array", "items": {"type": "string"}}]}  # mcphost
    for key in ("sandbox", "network"):  # of other programs, where it is a table
        keys[key] = {"anyOf": [keys[key], {"type": "object"}]}
    keys["transport"] = {"type": "string", "description": keys["transport"]["description"]}
    keys["oauth"] = {"type": ["object", "boolean"], "description": keys["oauth"].get("description", "")}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP servers of rkllm_chat and other programs",
        "type": "object",
        "properties": {
            "mcpServers": {
                "type": ["object", "array", "null"],
                "additionalProperties": {"$ref": "#/$defs/server"},
                "items": {"$ref": "#/$defs/server"},
            }
        },
        "$defs": {"server": server},
        "required": ["mcpServers"],
    }
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


def make_object(kind: type, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of a table."""
    about = read_attributes(kind)
    properties = {key: dict(make_value(kind, key), description=about[key]) for key in keys}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def make_value(kind: type, key: str) -> dict[str, Any]:
    """Return the schema of the value of a key."""
    hint = read_types(kind)[key]
    if get_origin(hint) is Literal:
        return {"anyOf": [{"enum": list(get_args(hint))}, VARIABLE]}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": {"type": "string"}}
    if is_dataclass(hint) and isinstance(hint, type):
        return make_object(hint, tuple(read_types(hint)))
    limits = dict(find_limits(kind, key))
    if get_origin(hint) in (Mapping, dict):
        return {"type": "object", "additionalProperties": {**TYPES[get_args(hint)[1]], **limits}}
    return {**TYPES[hint], **limits}


def find_limits(kind: type, key: str) -> Iterator[tuple[str, float]]:
    """Yield the limits of a number."""
    found = re.fullmatch(r"([\d.]+)-([\d.]+)", describe_values(kind, key))
    if found:
        yield "minimum", json.loads(found[1])
        yield "maximum", json.loads(found[2])
