"""Use what came of a result that is larger than the limit: the tool has run, and a refusal would have it run again.

The beginning of the message is closed to valid JSON. What was cut in it is a text that ends early, or half a picture,
which is only named; a note says how large the result was. Only what a model or a person reads is shortened like this:
half a list of tools or half a handshake is refused. Pure.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it; in every release since 2.7
from typing import Any

from .framing import CutText, parse_values
from .limits import MAX_DISCARDED_BYTES, MB

CUT_KEY = "rkllm-chat/cut"
"""Member of `_meta` of a result that was cut: its size in bytes."""
_CONTENT = {"tools/call": "content", "tasks/result": "content", "resources/read": "contents"}
"""The list in the result of a method that can be shortened."""
_MARK = re.compile(r'["\[\]{}]')
_MAX_MARKS = 2_000_000
"""Brackets and texts that are read, about a second; what follows is cut as well."""
_MAX_ESCAPE_CHARS = 6
_IS_ERROR = re.compile(r'(?<!\\)"isError"\s*:\s*true')


def describe_size(size: int) -> str:
    """Return the size of a message that was cut, in bytes, as words."""
    if size > MAX_DISCARDED_BYTES:  # nobody has read to its end
        return f"more than {MAX_DISCARDED_BYTES // MB} MB"
    return f"{size / MB:.0f} MB"


def explain_size(size: int, limit: int) -> str:
    """Return why a message of this size is refused; both in bytes."""
    return f"result too large ({describe_size(size)}), limit {limit // MB} MB"


def describe_cut_result(server: str, tool: str, size: int) -> str:
    """Return the notice about a result that was cut."""
    return f'A result of the tool "{tool}" of server "{server}" was cut: it has {describe_size(size)}.'


def read_cut_size(result: dict[str, Any]) -> int:
    """Return the size in bytes of a result that was cut; 0 if it was not."""
    meta = result.get("_meta")
    size = meta.get(CUT_KEY) if isinstance(meta, dict) else None
    return size if isinstance(size, int) else 0


def read_cut_response(cut: CutText) -> dict[str, Any] | None:
    """Return the response of which this is the beginning; None if it is something else."""
    text = cut.head.strip().removeprefix("\ufeff").lstrip()
    if not text.startswith("{"):
        return None
    try:
        (value,) = parse_values(close_json(text))
    except ValueError:
        return None
    is_response = "method" not in value and isinstance(value.get("result", value.get("error")), dict)
    return value if is_response else None


def shorten_result(method: str, result: dict[str, Any], cut: CutText, limit: int) -> dict[str, Any] | None:
    """Return what came of a result, with a note about its size; None if it can only be used as a whole.

    Args:
        method: The method of its request.
        result: What `read_cut_response` has read; the member that was cut is the last one.
        cut: The message.
        limit: The limit of a message in bytes.
    """
    key = _CONTENT.get(method)
    if key is None:
        return None
    shortened = dict(result)
    entries = list(found) if isinstance(found := result.get(key), list) else []
    last = next(reversed(result), "")
    if last == "structuredContent":  # the rest of it would not match its schema
        structured = shortened.pop(last)
        entries = entries or [{"type": "text", "text": json.dumps(structured, ensure_ascii=False)}]
    elif last == key and entries:
        entries[-1:] = _shorten_entry(entries[-1])
    note = f"[The result was cut: it has {describe_size(cut.size)}, the limit is {limit // MB} MB.]"
    if key == "content":
        entries.append({"type": "text", "text": note})
        if _IS_ERROR.search(cut.tail):
            shortened["isError"] = True
    elif not entries:
        return None
    else:
        entries[-1] = {**entries[-1], "text": f"{entries[-1].get('text', '')}\n{note}"}
    meta = result.get("_meta")
    return {**shortened, key: entries, "_meta": {**(meta if isinstance(meta, dict) else {}), CUT_KEY: cut.size}}


def _shorten_entry(entry: Any) -> list[dict[str, Any]]:
    """Return the entry that was cut, or a text in place of half a picture; nothing if nothing of it can be used."""
    if not isinstance(entry, dict):
        return []
    part = entry["resource"] if isinstance(entry.get("resource"), dict) else entry
    if "data" in part or "blob" in part:
        shown = next((str(part[key]) for key in ("uri", "mimeType", "type") if key in part), "binary data")
        text = f"[{shown}: cut, not shown]"
        return [
            {"uri": part["uri"], "text": text} if entry is part and "uri" in part else {"type": "text", "text": text}
        ]
    if "text" not in part:
        return []
    return [entry if "uri" in part else {"type": "text", "text": part["text"]}]


def close_json(text: str) -> str:
    """Return the beginning of a JSON text with what is open in it closed; a member without its value is left out.

    Raises:
        ValueError: It is not the beginning of a JSON text.

    >>> close_json('{"a": [1, {"b": "so')
    '{"a": [1, {"b": "so"}]}'
    >>> close_json('{"a": 12, "b": [3, 4')
    '{"a": 12, "b": [3]}'
    >>> close_json('{"a": "c", "b": tr')
    '{"a": "c"}'
    """
    closing: list[str] = []
    end, key_start = 0, -1
    for number in range(_MAX_MARKS + 1):
        mark = _MARK.search(text, end)
        if number == _MAX_MARKS:
            text = text[:end]
        if mark is None or number == _MAX_MARKS:
            break
        start = mark.start()
        if mark[0] == '"':
            is_key = closing[-1:] == ["}"] and not text[end:start].rstrip().endswith(":")
            try:
                end = scanstring(text, start + 1, False)[1]
            except ValueError:
                begun = _cut_member(text, start) if is_key else _close_string(text, start)
                return begun + "".join(reversed(closing))
            key_start = start if is_key else -1
            continue
        end, key_start = mark.end(), -1
        if mark[0] in "[{":
            closing.append("]" if mark[0] == "[" else "}")
        elif not closing or closing.pop() != mark[0]:
            raise ValueError("it is not JSON")
    rest = text[end:]
    if "," in rest:
        begun = text[: end + rest.rindex(",")]
    else:
        begun = _cut_member(text, key_start) if key_start >= 0 else text[:end]
    return begun + "".join(reversed(closing))


def _cut_member(text: str, key_start: int) -> str:
    """Return the text before a member, whose key starts there, and before its comma."""
    return text[:key_start].rstrip().removesuffix(",")


def _close_string(text: str, start: int) -> str:
    """Return the text with its last string closed, which starts there; without half an escape at its end."""
    for dropped in range(_MAX_ESCAPE_CHARS + 1):
        closed = f'{text[: len(text) - dropped]}"'
        try:
            scanstring(closed, start + 1, False)
        except ValueError:
            continue
        return closed
    raise ValueError("it is not JSON")
