"""Bring what servers send into the form of the specification, before anything judges it. Pure functions on JSON values.

`JsonRpcSession` applies this to every response, so that all clients of this program take the same servers. It knows:

- PHP writes an empty object as `[]`, and an array with gaps as an object with numbers for keys.
- Some servers write null for what is absent.
- Some number requests as 101.0.
- Some leave out `"type": "object"` of an input schema: JSON Schema does not require it.

An answer that could mean two things is left as it is.
"""

from __future__ import annotations

from typing import Any

_LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
    "resources/read": "contents",
    "prompts/get": "messages",
    "tools/call": "content",
    "tasks/result": "content",
}
"""The list in the result of a method."""
_ALWAYS_LISTS = frozenset(_LISTS.values())
"""Lists whose absence is a fault that is told: null stays null."""
_OBJECTS = frozenset({"_meta", "annotations", "serverInfo", "capabilities", "execution", "resource"})
"""Members of results and of their entries that are objects."""
_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords of JSON Schema whose value is an object with schemas."""
_SUBSCHEMAS = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "anyOf", "oneOf", "allOf"})


def normalize_id(value: object) -> object:
    """Return an id as it was sent, where a server turned a whole number into one with a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def normalize_result(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request in the form of the specification.

    Args:
        method: Such as "tools/list".
        result: The result, as parsed JSON; it is not changed.
    """
    result = {**_normalize_entry(result)}
    if method in ("initialize", "server/discover"):
        return _normalize_capabilities(result, has_info=method == "initialize")
    key = _LISTS.get(method)
    if key is None:
        return result
    entries = _as_list(result.get(key))
    if isinstance(entries, list):
        entries = [_normalize_entry(entry) if isinstance(entry, dict) else entry for entry in entries]
        if key == "tools":
            entries = [_normalize_tool(entry) if isinstance(entry, dict) else entry for entry in entries]
    if key in result:
        result[key] = entries
    if result.get("structuredContent") == []:
        result["structuredContent"] = {}
    return result


def _normalize_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an object of the protocol without members that are null, and with objects where objects are meant.

    What needs no change is not copied: a list may have 50,000 entries.
    """
    if all(value is not None and value != [] for value in entry.values()):
        return entry
    return {
        key: {} if key in _OBJECTS and value == [] else value
        for key, value in entry.items()
        if value is not None or key in _ALWAYS_LISTS
    }


def _normalize_capabilities(result: dict[str, Any], has_info: bool) -> dict[str, Any]:
    if isinstance(capabilities := result.get("capabilities", {}), dict):
        declared = {key: {} if value in ([], True) else value for key, value in capabilities.items()}
        result["capabilities"] = {
            key: _normalize_entry(value) if isinstance(value, dict) else value
            for key, value in declared.items()
            if value is not None and value is not False
        }
    if has_info and isinstance(info := result.get("serverInfo", {}), dict):
        result["serverInfo"] = {"name": "", "version": "", **_normalize_entry(info)}
    return result


def _normalize_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool with an input schema, if one can be meant: without any, every argument is allowed."""
    schema = tool.get("inputSchema", {})
    normalized = normalize_input_schema({} if schema == [] else schema)
    return tool if normalized == schema and "inputSchema" in tool else {**tool, "inputSchema": normalized}


def normalize_input_schema(schema: Any) -> Any:
    """Return the schema of a tool's arguments, which are always an object.

    >>> normalize_input_schema({"anyOf": [{"required": ["city"]}], "properties": []})
    {'type': 'object', 'anyOf': [{'required': ['city']}], 'properties': {}}
    """
    if not isinstance(schema, dict):
        return schema
    normalized = _normalize_schema(schema)
    kind = normalized.get("type")
    if kind is None or (isinstance(kind, list) and "object" in kind):
        normalized = {"type": "object", **{key: value for key, value in normalized.items() if key != "type"}}
    return normalized


def _normalize_schema(schema: Any) -> Any:
    """Return a schema in which what is to be an object is no empty list, at any depth, and no keyword is null."""
    if not isinstance(schema, dict):
        return schema
    normalized: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _OF_SCHEMAS and value == []:
            value = {}
        if key in _OF_SCHEMAS and isinstance(value, dict):
            value = {name: _normalize_schema({} if part == [] else part) for name, part in value.items()}
        elif key in _SUBSCHEMAS:
            value = [_normalize_schema(part) for part in value] if isinstance(value, list) else _normalize_schema(value)
        if value is not None or key in ("const", "default"):
            normalized[key] = value
    return normalized


def _as_list(value: Any) -> Any:
    """Return the entries of an object with the keys 0, 1 ..., some of which may be missing; else the value."""
    if isinstance(value, dict) and all(key.isdecimal() for key in value):
        return list(value.values())
    return value
