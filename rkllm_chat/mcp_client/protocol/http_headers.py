"""The headers of an HTTP request that carries a JSON-RPC message. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .dialog import META_PREFIX, STATELESS_VERSION
from .faults import NAME_PARAMS
from .framing import replace_unrepresentable

SESSION_HEADER = "mcp-session-id"
ARGUMENT_KEY = "x-mcp-header"
"""Member of an argument's schema that names the header in which it is sent, too (MCP 2026-07-28, transports)."""
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_ARGUMENT_TYPES = ("string", "integer", "boolean")
_LISTS = ("items", "contains", "unevaluatedItems", "prefixItems", "allOf", "anyOf", "oneOf")
_PARTS = ("additionalProperties", "propertyNames", "unevaluatedProperties", "contentSchema")
_CONDITIONS = ("not", "if", "then", "else")
_TABLES = ("patternProperties", "dependentSchemas", "$defs", "definitions")
"""Members of a schema that are schemas, lists of them, or tables of them (JSON Schema 2020-12)."""

ArgumentHeaders = Mapping[tuple[str, ...], str]
"""The header of an argument, by its path in the arguments."""
_NONE: Mapping[str, ArgumentHeaders] = {}


def make_message_headers(
    message: Mapping[str, Any], version: str, session_id: str, named: Mapping[str, ArgumentHeaders] = _NONE
) -> dict[str, str]:
    """Return the headers with which a message is posted.

    Args:
        message: The message; without a handshake it names its version, and its headers repeat what it is.
        version: The version that a handshake has agreed on, "" before.
        session_id: The session of the server, "" if there is none.
        named: Arguments that are also sent as headers, by tool.
    """
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if session_id:
        headers[SESSION_HEADER] = session_id
    params, method = message.get("params") or {}, message.get("method", "")
    stated = params.get("_meta", {}).get(f"{META_PREFIX}protocolVersion")
    if stated or version:
        headers["mcp-protocol-version"] = stated or version
    if stated == STATELESS_VERSION:
        headers["mcp-method"] = method
        if name := str(params.get(NAME_PARAMS.get(method, ""), "")):
            headers["mcp-name"] = _encode_value(name)
        if method == "tools/call" and name in named:
            headers |= _make_argument_headers(named[name], params.get("arguments") or {})
    return headers


def make_stream_headers(version: str = "", session_id: str = "", last_id: bytes = b"") -> dict[str, Any]:
    """Return the headers with which a stream of events is requested, or the rest of one after an event."""
    headers: dict[str, Any] = {"accept": "text/event-stream", "cache-control": "no-store"}
    if session_id:
        headers[SESSION_HEADER] = session_id
    if version:
        headers["mcp-protocol-version"] = version
    return headers | ({"last-event-id": last_id} if last_id else {})


def find_argument_headers(schema: Mapping[str, Any]) -> ArgumentHeaders | None:
    """Return the headers that a tool's input schema wants for its arguments; None if it wants impossible ones.

    A header must be named by a token, only once, and belong to a text, an integer or a boolean that every call has at
    the same place.
    """
    found: dict[tuple[str, ...], str] = {}
    for path, part in _walk_schemas(schema, ()):
        if ARGUMENT_KEY not in part:
            continue
        name = part[ARGUMENT_KEY]
        is_valid = isinstance(name, str) and re.fullmatch(_TOKEN, name) and part.get("type") in _ARGUMENT_TYPES
        if not path or not is_valid or name.lower() in map(str.lower, found.values()):
            return None
        found[path] = name
    return found


def _walk_schemas(schema: Any, path: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Yield each schema within a schema, and the path of properties that leads to it; None if it is no such path."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            for name, part in value.items():
                yield from _walk_schemas(part, None if path is None else (*path, name))
        elif key in (*_LISTS, *_PARTS, *_CONDITIONS, *_TABLES):
            parts = value.values() if key in _TABLES and isinstance(value, dict) else value
            for part in parts if isinstance(parts, Iterable) and not isinstance(parts, dict) else [parts]:
                yield from _walk_schemas(part, None)


def _make_argument_headers(named: ArgumentHeaders, arguments: Any) -> dict[str, str]:
    headers = {}
    for path, name in named.items():
        value = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            value = str(value).lower()
        if isinstance(value, str | int | float):
            headers[f"mcp-param-{name}"] = _encode_value(str(value))
    return headers


def _encode_value(value: str) -> str:
    """Encode a header value; base64 if it is not plain ASCII (MCP 2026-07-28, transports)."""
    is_plain = value.isascii() and value.isprintable() and value == value.strip()
    if is_plain and not value.startswith("=?base64?"):
        return value
    from base64 import b64encode

    return f"=?base64?{b64encode(replace_unrepresentable(value).encode()).decode()}?="
