"""OUTPUTS: a tool's result as text, JSON, YAML or a table. It writes nothing, and knows no terminal.

JSON and YAML are one document each, `{"ok": true, "result": ...}` as the envelope of the other commands has it.
YAML is written in blocks; a text is plain only where no reader of YAML 1.1 or 1.2 takes it for something else.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

PLAIN = r"[A-Za-z][A-Za-z0-9_]*([ ./-][A-Za-z0-9_]+)*"
WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
UNPRINTABLE = "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
LONGEST_KEY = 1000  # a longer one must be written behind a ?
DEEPEST = 32
EXPONENT = r"^(-?\d+)e"


def blocks_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a result's content; none where a broken server has something else there."""
    content = result.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def has_bytes(result: Mapping[str, Any]) -> bool:
    """Whether there are images, sound or other data among the blocks."""
    holders = [block.get("resource") if block.get("type") == "resource" else block for block in blocks_of(result)]
    return any(isinstance(holder, dict) and ("data" in holder or "blob" in holder) for holder in holders)


def as_json(result: Mapping[str, Any]) -> str:
    from ..oneshot.envelope import printable

    return printable(json.dumps({"ok": True, "result": result}, ensure_ascii=False))


def as_yaml(result: Mapping[str, Any]) -> str:
    return to_yaml({"ok": True, "result": result})


def to_yaml(value: Any) -> str:
    """A JSON value as a YAML document, without a newline at its end."""
    return "\n".join(yaml_lines(value))


def yaml_lines(value: Any, depth: int = 0) -> Iterator[str]:
    """Block style as far as it goes: what is empty is written as JSON, and so is what lies too deep to be read."""
    if not value or not isinstance(value, dict | list) or depth > DEEPEST:
        yield yaml_scalar(value)
        return
    pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for key, item in pairs:
        head = "-" if key is None else f"{yaml_scalar(str(key))}:"
        if len(head) > LONGEST_KEY:
            yield f"? {head[:-1]}"
            head = ":"
        lines = list(yaml_lines(item, depth + 1))
        is_block = bool(item) and isinstance(item, dict | list) and depth < DEEPEST
        if not is_block:
            yield f"{head} {lines[0]}"
        elif key is None:
            yield f"- {lines[0]}"
            yield from (f"  {line}" for line in lines[1:])
        else:
            yield head
            yield from (f"  {line}" for line in lines)


def yaml_scalar(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(PLAIN, value) and value.lower() not in WORDS and len(value) < 100:
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):  # YAML 1.1 takes 1e-07 for a text
        return re.sub(EXPONENT, r"\1.0e", text)
    if text.isascii() and "\x7f" not in text:
        return text
    from ..clean import UNSEEN

    return re.sub(UNPRINTABLE, write_escape, UNSEEN.sub(write_escape, text))


def write_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def as_text(result: Mapping[str, Any]) -> str:
    """What a person reads: the texts, the files by name; the structured content where there is nothing else."""
    parts = [block_text(block) for block in blocks_of(result)]
    if not parts and "structuredContent" in result:
        return json.dumps(result["structuredContent"], ensure_ascii=False, indent=2)
    return "\n".join(parts)


def block_text(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    inner = block.get("resource") if kind == "resource" else block
    inner = inner if isinstance(inner, dict) else {}
    if isinstance(inner.get("text"), str):
        return str(inner["text"])
    if "path" in inner:
        return f"[{inner.get('mimeType') or kind}, {inner['bytes']} bytes: {inner['path']}]"
    return f"[{inner.get('mimeType') or kind}: {inner.get('uri', 'not shown')}]"


def as_table(result: Mapping[str, Any]) -> str:
    """Rows and columns where the result has them, else as text."""
    rows = find_rows(find_data(result))
    if rows is None:
        return as_text(result)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [
        [cell(str(name)) for name in columns],
        *([cell(row.get(name, "")) for name in columns] for row in rows),
    ]
    widths = [max(width(line[index]) for line in cells) for index in range(len(columns))]
    padded = ([text + " " * (wide - width(text)) for text, wide in zip(line, widths, strict=True)] for line in cells)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def find_data(result: Mapping[str, Any]) -> Any:
    """The value in a result: its structured content, or its one text if that is JSON. `{"result": ...}` alone is how
    the SDK wraps what is no object."""
    data = result.get("structuredContent")
    if data is None:
        texts = [block.get("text") for block in blocks_of(result)]
        try:
            data = json.loads(texts[0]) if len(texts) == 1 and isinstance(texts[0], str) else None
        except (ValueError, RecursionError):
            return None
    return data["result"] if isinstance(data, dict) and list(data) == ["result"] else data


def find_rows(data: Any) -> list[Mapping[str, Any]] | None:
    """A list of objects as rows, an object as rows of name and value, a list of other things as one column."""
    if isinstance(data, dict):
        inner = list(data.values())
        if len(inner) == 1 and isinstance(inner[0], list) and inner[0]:
            return find_rows(inner[0])
        return [{"name": name, "value": value} for name, value in data.items()] or None
    if not isinstance(data, list) or not data:
        return None
    return data if all(isinstance(row, dict) for row in data) else [{"value": value} for value in data]


def cell(value: Any) -> str:
    from ..clean import clean_line

    return clean_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


OUTPUTS = {"text": as_text, "json": as_json, "yaml": as_yaml, "table": as_table}
