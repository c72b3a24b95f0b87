"""Edits of the text of a configuration file: add an entry, remove it, set one of its keys; all other bytes stay.

These functions only compute the new text. `editor` reads and writes the files, and checks that a new text says what was
meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..core.errors import ConfigError
from .source_text import Member, Table, blank_comments, find_member, find_members, find_tables, mask_values

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def render_toml_entry(entry: Mapping[str, Any]) -> str:
    """Render an entry of [[servers]]."""
    return "".join(["[[servers]]\n", *(f"{key} = {render_toml_value(value)}\n" for key, value in entry.items())])


def render_toml_value(value: Any) -> str:
    """Render a TOML value on one line."""
    if isinstance(value, Mapping):
        pairs = [f"{_render_key(key)} = {render_toml_value(item)}" for key, item in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(render_toml_value, value))}]"
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # like JSON, but DEL is escaped too


def _render_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else render_toml_value(key)


def remove_toml_entry(text: str, index: int) -> str:
    """Remove an entry of [[servers]] with its subtables; a comment above the next table stays."""
    entry, tables = _find_entry(text, index), find_tables(text)
    end = next((table.start for table in tables if table.start > entry.start and not _is_part(table)), len(text))
    lines = text[entry.start : end].splitlines(keepends=True)
    while end < len(text) and lines and lines[-1].lstrip().startswith("#"):
        end -= len(lines.pop())
    return text[: entry.start] + text[end:]


def set_toml_key(text: str, index: int, key: str, value: Any) -> str:
    """Set a key of an entry of [[servers]]; a new one is written below the name."""
    entry, masked, rendered = _find_entry(text, index), mask_values(text), render_toml_value(value)
    if found := re.compile(rf"^[ \t]*{key}[ \t]*=[ \t]*", re.MULTILINE).search(masked, entry.body, entry.end):
        line = masked[found.end() :].partition("\n")[0].rstrip()
        return text[: found.end()] + rendered + text[found.end() + len(line) :]
    name = re.compile(r"^([ \t]*)name[ \t]*=[^\r\n]*", re.MULTILINE).search(masked, entry.body, entry.end)
    at, indent = (name.end(), name[1]) if name else (entry.body, "")
    return f"{text[:at]}{_line_break(text)}{indent}{key} = {rendered}{text[at:]}"


def _find_entry(text: str, index: int) -> Table:
    entries = [table for table in find_tables(text) if table.is_array and table.name == "servers"]
    if index >= len(entries):
        raise ConfigError("the entry has no table [[servers]] of its own.")
    return entries[index]


def _is_part(table: Table) -> bool:
    return table.name.startswith("servers.")


def add_json_member(text: str, keys: tuple[str, ...], name: str, value: Any) -> str:
    """Add a member at the end of an object, in the style of its neighbours.

    Args:
        text: The file; may have comments and trailing commas.
        keys: The keys that lead to the object.
        name: Key of the member.
        value: Its value.
    """
    plain, start = _find_object(text, keys)
    members = [*find_members(plain, start)]
    key = json.dumps(name, ensure_ascii=False)
    if not members:
        return _fill_object(text, plain, start, key, value)
    first, last = members[0], members[-1]
    indent = _indent_of(text, first.start)
    if indent is None:
        return f"{text[: last.end]}, {key}: {json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
    line_end = _find_line_end(plain, last.end)
    has_comma = "," in blank_comments(text, keeps_commas=True)[last.end : line_end]
    entry = _render_member(key, value, indent, _unit_of(indent, len(keys) + 1), _line_break(text))
    head = text[: last.end] + ("" if has_comma else ",") + text[last.end : line_end]
    return head + entry + ("," if has_comma else "") + text[line_end:]


def _fill_object(text: str, plain: str, start: int, key: str, value: Any) -> str:
    """Add the first member of an empty object."""
    end = plain.index("}", start)
    break_, line_start = _line_break(text), text.rfind("\n", 0, start) + 1
    outer = re.match(r"[ \t]*", text[line_start:start])
    indent = outer[0] if outer else ""
    unit = indent or "  "
    entry = _render_member(key, value, indent + unit, unit, break_)
    return text[:end].rstrip() + entry + break_ + indent + text[end:]


def _render_member(key: str, value: Any, indent: str, unit: str, break_: str) -> str:
    return f"{break_}{indent}{key}: {_render_value(value, indent, unit, break_)}"


def _render_value(value: Any, indent: str, unit: str, break_: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", f"{break_}{indent}")


def remove_json_member(text: str, keys: tuple[str, ...]) -> str:
    """Remove the member that the keys lead to; a whole line goes with its line break and comment."""
    plain, start = _find_object(text, keys[:-1])
    members = [*find_members(plain, start)]
    index = next(i for i in reversed(range(len(members))) if members[i].key == keys[-1])
    member = members[index]
    commas = blank_comments(text, keeps_commas=True)
    after = commas[member.end : _find_line_end(plain, member.end)].strip()
    if _indent_of(text, member.start) is None or after not in ("", ","):
        return _remove_inline(text, members, index)
    line_start = text.rfind("\n", 0, member.start) + 1
    head, tail = text[:line_start], text[_find_line_end(plain, member.end) :].removeprefix("\r").removeprefix("\n")
    if not after and index > 0:  # the member before it becomes the last
        comma = commas.index(",", members[index - 1].end)
        head = head[:comma] + head[comma + 1 :]
    return head + tail


def _remove_inline(text: str, members: list[Member], index: int) -> str:
    member = members[index]
    if index > 0:
        return text[: members[index - 1].end] + text[member.end :]
    end = members[1].start if len(members) > 1 else member.end
    return text[: member.start] + text[end:]


def set_json_member(text: str, keys: tuple[str, ...], value: Any) -> str:
    """Set the member that the keys lead to; its object must exist."""
    plain, start = _find_object(text, keys[:-1])
    for member in find_members(plain, start):
        if member.key == keys[-1]:
            indent = _indent_of(text, member.start) or ""
            rendered = _render_value(value, indent, _unit_of(indent, len(keys)), _line_break(text))
            return text[: member.value_start] + rendered + text[member.end :]
    return add_json_member(text, keys[:-1], keys[-1], value)


def _find_object(text: str, keys: tuple[str, ...]) -> tuple[str, int]:
    """Return the text as plain JSON, and the offset of the object that the keys lead to."""
    plain = blank_comments(text)
    member = find_member(plain, keys) if keys else None
    start = member.value_start if member else plain.find("{")
    if (keys and member is None) or plain[start : start + 1] != "{":
        raise ConfigError(f"there is no object {'.'.join(keys)}.")
    return plain, start


def _indent_of(text: str, offset: int) -> str | None:
    """Return what precedes an offset on its line; None if that is not blank."""
    before = text[text.rfind("\n", 0, offset) + 1 : offset]
    return before if not before.strip() and "\n" in text[:offset] else None


def _unit_of(indent: str, depth: int) -> str:
    return indent[: max(1, len(indent) // depth)] if indent else "  "


def _find_line_end(text: str, offset: int) -> int:
    """Return the offset of the line break after an offset, or of the end."""
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    return end - 1 if text[end - 1 : end] == "\r" else end


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
