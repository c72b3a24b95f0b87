"""The body of FunctionGemma and Gemma 4: `call:f{k:<escape>text<escape>,n:42}`, with a quote of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from ..incremental_reader import Parsing, Reader
from ..json_repair import parse_lenient_json
from .common import Body, ParsedCalls, ReadContext, build_call, read_end_marker, unreadable_call
from .json_calls import INSIDE, skip_string

_EDGE = re.compile(r"[{}\[\]()<\"]")
_END_OF_NAME = re.compile(r"[({<\s]")
_KEY = re.compile(r"(?P<before>^|,)\s*(?P<key>[^\s,:\"][^,:\"]*?)\s*:")
"""The name of a member outside of texts: whatever stands before a colon."""
_MEMBER = r'"(?P<key>[^"]+)":\s*(?P<value>[^\s,:{}\[\]"<>](?:[^,:{}\[\]"<>\n]*[^\s,:{}\[\]"<>])?)\s*'
_BARE_MEMBER = re.compile(_MEMBER)
_BARE_MEMBERS = re.compile(rf"\{{\s*{_MEMBER}(?:,\s*{_MEMBER.replace('?P<key>', '').replace('?P<value>', '')})*\}}")
"""Members that are texts without quotes and marks."""


def gemma_body(quote: str) -> Body:
    """Return the body of calls whose strings are enclosed in `quote`."""

    def read(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        yield from reader.skip_space()
        is_marked = yield from reader.skip("call:")
        yield from reader.skip_space()
        name = (yield from reader.read_up_to(_END_OF_NAME)).rstrip(":")
        yield from reader.skip_space()
        if not name or not (is_marked or context.is_known(name)):
            return None
        if not (yield from reader.peek_literal(("{", "(") if is_marked else ("{",))):
            return None
        reader.commit()
        text, is_open = yield from _read_dict(reader, quote, closers)
        end = () if is_open else (yield from read_end_marker(reader, context, closers))
        try:
            arguments, repairs = parse_lenient_json(text, may_close=is_open)
        except ValueError as error:
            if bare := _read_bare_texts(text, context.parameters_of(name)):
                return [build_call(name, bare, ("missing quotes", *end))]
            return unreadable_call("bad_json", f"The arguments cannot be read: {error}.")
        return [build_call(name, arguments, (*(repair for repair in repairs if repair == "missing brace"), *end))]

    return read


def _read_dict(reader: Reader, quote: str, closers: tuple[str, ...]) -> Parsing[tuple[str, bool]]:
    """Read the dictionary that begins here as JSON, and an end marker that comes too early; tell whether one did."""
    parts: list[str] = []
    brackets = ""
    while True:
        bare = yield from reader.read_up_to(_EDGE)
        is_member = brackets.endswith(("{", "("))
        parts.append(_KEY.sub(_quote_key, bare) if is_member else bare)
        if (yield from reader.skip(quote)):
            parts.append(json.dumps((yield from reader.read_through(quote))))
            continue
        closer = yield from reader.peek_literal(closers)
        mark = reader.take(len(closer) or 1)
        if closer:
            return "".join(parts), True
        if mark in "{[(":
            brackets += mark
        elif mark in "}])":
            brackets, opened = brackets[:-1], brackets[-1:]
            mark = "}" if mark == ")" and opened == "(" else mark
        parts.append("{" if mark == "(" else mark)
        if mark == '"':
            size = reader.size
            yield from skip_string(reader, mark, INSIDE[mark])
            parts.append(reader.recorded(size))
        if not brackets:
            return "".join(parts), False


def _read_bare_texts(text: str, parameters: Collection[str]) -> dict[str, Any]:
    """Return declared parameters whose texts have no quotes, if no text can be read in another way; else none."""
    if not _BARE_MEMBERS.fullmatch(text):
        return {}
    found = {match["key"]: _read_word(match["value"]) for match in _BARE_MEMBER.finditer(text)}
    return found if found.keys() <= {*parameters} else {}


def _read_word(word: str) -> Any:
    try:
        return parse_lenient_json(word)[0]
    except ValueError:
        return word


def _quote_key(match: re.Match[str]) -> str:
    return f"{match['before']}{json.dumps(match['key'])}:"
