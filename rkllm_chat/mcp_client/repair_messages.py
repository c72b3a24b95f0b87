"""Repair results of servers so that one malformed entry does not invalidate the rest.

The SDK rejects a whole page because of one invalid tool or one unknown content block (mcp 2.3.0). Pure functions on
JSON values.
"""

from __future__ import annotations

import logging
from functools import cache
from itertools import groupby
from typing import Any

from mcp_types import methods
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    KNOWN_PROTOCOL_VERSIONS,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from ..config.tool_pins import truncate_description
from .protocol.faults import find_tool_fault
from .protocol.limits import MAX_ENTRIES, MAX_TOOLS

log = logging.getLogger(__name__)

_LISTS = {
    "tools/list": ("tools", "Tool"),
    "resources/list": ("resources", "Resource"),
    "resources/templates/list": ("resourceTemplates", "ResourceTemplate"),
    "prompts/list": ("prompts", "Prompt"),
}
RESULT_TYPES = ("complete", "input_required", "task")
_MAX_NAME_CHARS = 256
_MAX_BLOCKS = 1000
_REQUIRED_DEFAULTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Required members of a list result in MCP 2026-07-28 that some servers omit."""


def repair_result(method: str, result: Any, version: str = "") -> Any:
    """Return a result without the parts that would invalidate all of it.

    Args:
        method: The method of the request, such as "tools/list".
        result: The result as parsed JSON.
        version: The negotiated protocol version; "" skips validation against it.
    """
    if not isinstance(result, dict):
        return result
    if method in _LISTS:
        return _repair_list(result, method, version)
    if method in ("tools/call", "tasks/result") and result.get("resultType", "complete") == "complete":
        return repair_content(result)
    return result


def explain_unusable_result(method: str, result: Any) -> str:
    """Return why a result must be rejected, "" if it is usable.

    Rejected are an unknown `resultType` (MCP 2026-07-28) and a protocol version that the SDK does not support.
    """
    if not isinstance(result, dict):
        return ""
    kind = result.get("resultType", "complete")
    if kind not in RESULT_TYPES:
        return f"The result is of an unknown type: {str(kind)[:40]!r}"
    version = result.get("protocolVersion") if method == "initialize" else None
    if isinstance(version, str) and version not in HANDSHAKE_PROTOCOL_VERSIONS:
        known = ", ".join(KNOWN_PROTOCOL_VERSIONS)
        return f"Unsupported protocol version: {version[:40]!r} (supported: {known})"
    return ""


def find_left_out(entries: list[Any], repaired: list[Any]) -> dict[str, str]:
    """Return the named tools that a repaired list lacks, with the reason, a key of TOOL_FAULTS."""
    kept = {entry["name"] for entry in repaired}
    named = [entry for entry in entries[:MAX_TOOLS] if isinstance(entry, dict) and isinstance(entry.get("name"), str)]
    return {
        entry["name"]: find_tool_fault(entry) or "malformed"
        for entry in named
        if entry["name"] not in kept and _is_printable_name(entry["name"])
    }


def _is_printable_name(name: str) -> bool:
    return 0 < len(name) <= _MAX_NAME_CHARS and name.isprintable()


@cache
def _model(name: str) -> type[BaseModel]:
    import mcp_types

    model: type[BaseModel] = getattr(mcp_types, name)
    return model


def _repair_list(result: dict[str, Any], method: str, version: str) -> dict[str, Any]:
    """Drop invalid entries from a list result; a missing or null list becomes empty."""
    key, kind = _LISTS[method]
    entries = result.get(key)
    # of tools, no more are used; of others, one more lets `ListPages` see that there are more
    most = MAX_TOOLS if key == "tools" else MAX_ENTRIES + 1
    entries = entries[:most] if isinstance(entries, list) else []
    repaired = {**(_REQUIRED_DEFAULTS if version in MODERN_PROTOCOL_VERSIONS else {}), **result, key: []}
    if not isinstance(result.get("nextCursor", ""), str):
        del repaired["nextCursor"]
    version = version if version and _fits([], repaired, method, version) else ""
    restricted = [restrict_entry(entry) if isinstance(entry, dict) else entry for entry in entries]
    good = [
        entry for entry in restricted if _is_valid(entry, _model(kind)) and _fits([entry], repaired, method, version)
    ]
    if len(good) < len(entries):
        log.warning("%d of %d %s are malformed and ignored", len(entries) - len(good), len(entries), key)
    return {**repaired, key: good}


def _is_valid(entry: Any, kind: type[BaseModel]) -> bool:
    name = entry.get("name", "") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not _is_printable_name(name):
        return False
    try:
        kind.model_validate(entry, by_name=False)
    except (ValidationError, RecursionError):
        return False
    return True


def _fits(entries: list[Any], page: dict[str, Any], method: str, version: str) -> bool:
    """Tell whether the SDK accepts the entries: it validates a whole page against the negotiated version."""
    if not version:
        return True
    try:
        methods.validate_server_result(method, version, {**page, _LISTS[method][0]: entries})
    except KeyError:  # this version has no such list
        return True
    except (ValidationError, RecursionError):
        return False
    return True


def restrict_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Truncate the description of an entry and remove its output schema, which `protocol.output_check` uses instead."""
    restricted = {key: value for key, value in entry.items() if key != "outputSchema"}
    if isinstance(description := entry.get("description"), str):
        restricted["description"] = truncate_description(description)
    return restricted


def repair_content(result: dict[str, Any]) -> dict[str, Any]:
    """Return a tool result whose content is a list of known blocks; text names the others."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    if len(blocks) > _MAX_BLOCKS:
        blocks = _join_texts(blocks)
    return {**result, "content": [_repair_block(block) for block in blocks]}


def _join_texts(blocks: list[Any]) -> list[Any]:
    """Join adjacent text blocks: each block costs half a kilobyte of memory, whatever its content."""
    joined: list[Any] = []
    for is_text, group in groupby(blocks, key=_is_plain_text):
        run = list(group)
        joined += [{"type": "text", "text": "\n".join(block["text"] for block in run)}] if is_text else run
    return joined


def _is_plain_text(block: Any) -> bool:
    return isinstance(block, dict) and block.keys() == {"type", "text"} and isinstance(block["text"], str)


def _repair_block(block: Any) -> Any:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    try:
        _content_block_adapter().validate_python(block, by_name=False)
    except (ValidationError, RecursionError):
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        log.warning("content of an unknown kind: %r", kind)
        return {"type": "text", "text": f"[content of an unknown kind: {str(kind)[:40]}]"}
    return block


@cache
def _content_block_adapter() -> TypeAdapter[Any]:
    import mcp_types

    return TypeAdapter(mcp_types.ContentBlock)
