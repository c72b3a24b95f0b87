"""Where things stand in the text of a configuration file: comments and members of JSON, tables of TOML.

All functions keep positions: what is blanked is replaced by blanks. Edits and line numbers of errors rely on that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from .foreign_roots import ROOTS
from .value_checks import VALUE_OR_COMMENT

_JSON_STRING = r'"(?:\\.|[^"\\])*"?'
_COMMENT = re.compile(rf"{_JSON_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_JSON_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_JSON5 = re.compile(
    rf"{_JSON_STRING}|(?P<text>'(?:\\.|[^'\\\n])*')|(?P<comment>//[^\r\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<name>[A-Za-z_$][\w$]*)(?=\s*:)",
    re.DOTALL,
)
_BLANK = re.compile(r"[^\n]")
_SPACE = re.compile(r"\s*")
_TOML_VALUE = re.compile(VALUE_OR_COMMENT, re.DOTALL | re.VERBOSE)
_TOML_HEADER = re.compile(r"^[ \t]*(\[\[?)[ \t]*([^\]\n]*?)[ \t]*\]\]?[ \t]*\r?$", re.MULTILINE)


class Member(NamedTuple):
    """A member of a JSON object.

    Attributes:
        key: Its key.
        start: Offset of the key's opening quote.
        value_start: Offset of the value.
        end: Offset behind the value.
    """

    key: str
    start: int
    value_start: int
    end: int


def blank_comments(text: str, keeps_commas: bool = False) -> str:
    """Return JSON with comments (JSONC, as editors write it) as plain JSON.

    Args:
        text: The text.
        keeps_commas: Blank only comments, and no trailing commas.
    """
    plain = _COMMENT.sub(_blank_unless_text, text.replace("\ufeff", " ", 1) if text[:1] == "\ufeff" else text)
    return plain if keeps_commas else _TRAILING_COMMA.sub(_blank_unless_text, plain)


def write_as_json(text: str) -> str:
    """Return JSON5 as JSON: comments and trailing commas removed, names and texts in double quotes.

    What else JSON5 has, such as hexadecimal numbers, stays as it is. Positions change.
    """
    return _TRAILING_COMMA.sub(_blank_unless_text, _JSON5.sub(_quote, text.removeprefix("\ufeff")))


def _quote(match: re.Match[str]) -> str:
    if match["name"]:
        return f'"{match[0]}"'
    if match["comment"]:
        return " "
    if match["text"]:
        body = re.sub(r"\\.|\"", lambda escape: {"\\'": "'", '"': '\\"'}.get(escape[0], escape[0]), match[0][1:-1])
        return f'"{body}"'
    return match[0]


def list_comments(text: str) -> list[str]:
    """Return the comments of a JSON text in order."""
    return [match[0] for match in _COMMENT.finditer(text) if match[0][0] != '"']


def _blank_unless_text(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == '"' else _BLANK.sub(" ", match[0])


def find_members(text: str, start: int = 0) -> Iterator[Member]:
    """Yield the members of the object that begins at or after `start`.

    Args:
        text: Valid JSON, from `blank_comments`.
        start: An offset with at most blanks before the object.
    """
    decoder = json.JSONDecoder()
    position = _skip(text, _skip(text, start) + 1)
    while text[position] == '"':
        key, end = decoder.raw_decode(text, position)
        value_start = _skip(text, _skip(text, end) + 1)
        value_end = decoder.raw_decode(text, value_start)[1]
        yield Member(key, position, value_start, value_end)
        position = _skip(text, value_end)
        if text[position] != ",":
            return
        position = _skip(text, position + 1)


def find_member(text: str, keys: tuple[str, ...]) -> Member | None:
    """Return the member that a path of keys leads to; the last one of a repeated key."""
    start, found = 0, None
    for key in keys:
        if text[_skip(text, start)] != "{":
            return None
        found = next((member for member in reversed([*find_members(text, start)]) if member.key == key), None)
        if found is None:
            return None
        start = found.value_start
    return found


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


class Table(NamedTuple):
    """A table of a TOML file: from its header to the next one.

    Attributes:
        name: Its name, as written.
        is_array: Whether it is an entry of an array of tables, `[[name]]`.
        start: Offset of the header's line.
        body: Offset behind the header.
        end: Offset behind the table.
    """

    name: str
    is_array: bool
    start: int
    body: int
    end: int


def find_tables(text: str) -> list[Table]:
    """Return the tables of a TOML file with the names of their headers."""
    masked = mask_values(text)
    headers = [*_TOML_HEADER.finditer(masked)]
    ends = [*(header.start() for header in headers), len(text)][1:]
    return [
        Table(text[header.start(2) : header.end(2)], header[1] == "[[", header.start(), header.end(), end)
        for header, end in zip(headers, ends, strict=True)
    ]


def mask_values(text: str) -> str:
    """Return TOML with the characters of its strings and comments replaced, at the same offsets."""
    return _TOML_VALUE.sub(_mask, text)


def _mask(match: re.Match[str]) -> str:
    return _BLANK.sub(" " if match[0][0] == "#" else "x", match[0])


def find_line(text: str, place: str) -> int:
    """Return the line of an entry or a value, of the nearest thing around it that is found, or 0.

    Args:
        text: The file.
        place: Such as "servers[0]", "servers[0].env", "chat.model" or "mcpServers.name.command".
    """
    return (_find_toml_line(text, place) or _find_json_line(text, place)) if place else 0


def _find_toml_line(text: str, place: str) -> int:
    tables = find_tables(text)
    match = re.match(r"servers\[(\d+)\]", place)
    if match:
        tables = [table for table in tables if table.is_array and table.name == "servers"][int(match[1]) :][:1]
        keys = place[match.end() + 1 :].split(".")
    else:
        name, *keys = place.split(".")
        tables = [table for table in tables if table.name == name and not table.is_array]
    masked = mask_values(text)
    for table in tables:
        key = re.compile(rf"^[ \t]*{re.escape(keys[0])}[ \t]*[.=]", re.MULTILINE) if keys and keys[0] else None
        found = key.search(masked, table.body, table.end) if key else None
        return _line_at(text, found.start() if found else table.start)
    return 0


def _find_json_line(text: str, place: str) -> int:
    plain = blank_comments(text)
    for root in ROOTS:
        prefix = ".".join(root) + "."
        if place.startswith(prefix):
            with suppress(json.JSONDecodeError):  # JSON5
                if line := _find_member_line(plain, root, place.removeprefix(prefix).split(".")):
                    return line
    return 0


def _find_member_line(plain: str, root: tuple[str, ...], words: Sequence[str]) -> int:
    """Return the line of an entry, or of a value of it; a name may have dots."""
    for end in range(len(words), 0, -1):
        names = (*root, ".".join(words[:end]))
        if member := find_member(plain, names):
            keys = words[end : end + 1]
            inner = find_member(plain, (*names, *keys)) if keys and plain[member.value_start] == "{" else None
            return _line_at(plain, (inner or member).start)
    return 0


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
