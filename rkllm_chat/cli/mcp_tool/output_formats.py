"""Format a tool's result as text or as one JSON document, `{"ok": true, "result": ...}`, as the JSON commands do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def _blocks_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the content blocks of a result; none if the server sent invalid content."""
    content = result.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def has_binary_data(result: Mapping[str, Any]) -> bool:
    """Return whether a result contains binary data."""
    holders = [block.get("resource") if block.get("type") == "resource" else block for block in _blocks_of(result)]
    return any(isinstance(holder, dict) and ("data" in holder or "blob" in holder) for holder in holders)


def _as_json(result: Mapping[str, Any]) -> str:
    """Format a result as a JSON document."""
    from ..json_commands.envelope import escape_control_characters

    return escape_control_characters(json.dumps({"ok": True, "result": result}, ensure_ascii=False))


def _as_text(result: Mapping[str, Any]) -> str:
    """Format a result for people: texts and file names, or the structured content if there are no blocks."""
    parts = [_block_text(block) for block in _blocks_of(result)]
    if not parts and "structuredContent" in result:
        return json.dumps(result["structuredContent"], ensure_ascii=False, indent=2)
    return "\n".join(parts)


def _block_text(block: Mapping[str, Any]) -> str:
    """Format one content block as text."""
    block_type = block.get("type")
    inner = block.get("resource") if block_type == "resource" else block
    inner = inner if isinstance(inner, dict) else {}
    if isinstance(inner.get("text"), str):
        return str(inner["text"])
    if "path" in inner:
        return f"[{inner.get('mimeType') or block_type}, {inner['bytes']} bytes: {inner['path']}]"
    what = "not valid base64" if "data" in inner or "blob" in inner else "not shown"
    return f"[{inner.get('mimeType') or block_type}: {inner.get('uri', what)}]"


FORMATTERS = {"text": _as_text, "json": _as_json}
