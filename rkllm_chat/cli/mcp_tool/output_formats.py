"""Format a tool's result as text, JSON, YAML or a table; OUTPUTS is the registry of formats.

JSON and YAML are one document each, `{"ok": true, "result": ...}`, as for the JSON commands. YAML is in block style; a
string is unquoted only if YAML 1.1 and 1.2 both read it as a string.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_PLAIN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9_]*([ ./-][A-Za-z0-9_]+)*")


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


def _as_yaml(result: Mapping[str, Any]) -> str:
    """Format a result as a YAML document."""
    return to_yaml({"ok": True, "result": result})


def to_yaml(value: Any) -> str:
    """Convert a JSON value to a YAML document in block style, without a final newline."""
    import yaml

    from ...core.sanitize import compile_invisible

    def represent_text(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if _PLAIN_TEXT.fullmatch(text) else '"')

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_representer(str, represent_text)
    text: str = yaml.dump(value, Dumper=dumper, allow_unicode=True, sort_keys=False, width=math.inf)
    return compile_invisible().sub(_escape_match, text.removesuffix("\n").removesuffix("\n..."))


def _escape_match(match: re.Match[str]) -> str:
    """Return the YAML escape of a matched character, which only a quoted text can contain."""
    return "".join(f"\\U{ord(char):08x}" for char in match[0])


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


def _as_table(result: Mapping[str, Any]) -> str:
    """Format a result as a table, or as text if it has no rows."""
    rows = _find_rows(_find_data(result))
    if rows is None:
        return _as_text(result)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(str(name)) for name in columns], *([_cell(row.get(name, "")) for name in columns] for row in rows)]
    widths = [max(_width(row_cells[index]) for row_cells in cells) for index in range(len(columns))]
    padded = (
        [text + " " * (column_width - _width(text)) for text, column_width in zip(row_cells, widths, strict=True)]
        for row_cells in cells
    )
    return "\n".join("  ".join(row_cells).rstrip() for row_cells in padded)


def _find_data(result: Mapping[str, Any]) -> Any:
    """Return the structured content of a result, or the JSON of its only text.

    The wrapper `{"result": ...}`, which the SDK adds to values that are not objects, is removed.
    """
    data = result.get("structuredContent")
    if data is None:
        texts = [block.get("text") for block in _blocks_of(result)]
        try:
            data = json.loads(texts[0]) if len(texts) == 1 and isinstance(texts[0], str) else None
        except (ValueError, RecursionError):
            return None
    return data["result"] if isinstance(data, dict) and list(data) == ["result"] else data


def _find_rows(data: Any) -> list[Mapping[str, Any]] | None:
    """Return rows for a table, or None.

    A list of objects gives a row each, an object a row per property, and any other list one column.
    """
    if isinstance(data, dict):
        values = list(data.values())
        if len(values) == 1 and isinstance(values[0], list) and values[0]:
            return _find_rows(values[0])
        return [{"name": name, "value": value} for name, value in data.items()] or None
    if not isinstance(data, list) or not data:
        return None
    return data if all(isinstance(row, dict) for row in data) else [{"value": value} for value in data]


def _cell(value: Any) -> str:
    """Format one table cell."""
    from ...core.sanitize import sanitize_line

    return sanitize_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


FORMATTERS = {"text": _as_text, "json": _as_json, "yaml": _as_yaml, "table": _as_table}
