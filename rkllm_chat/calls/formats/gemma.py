"""Reader of FunctionGemma and Gemma 4: `call:f{k:<escape>text<escape>,n:42}`, with a quote of their own."""

from __future__ import annotations

import json
import re

from ..incremental_reader import Parsing, Reader
from ..json_repair import parse_lenient_json
from .common import BodyReader, ParsedCalls, ReadContext, build_call, read_end_marker, unreadable_call
from .json_calls import INSIDE, skip_string

_EDGE = re.compile(r"[{}\[\]<\"]")
_END_OF_NAME = re.compile(r"[{<\s]")


def gemma_reader(quote: str, closers: tuple[str, ...]) -> BodyReader:
    """Return a reader of calls whose strings are enclosed in `quote`."""

    def read(reader: Reader, _context: ReadContext) -> Parsing[ParsedCalls]:
        yield from reader.skip_space()
        if not (yield from reader.skip("call:")):
            return None
        name = yield from reader.read_up_to(_END_OF_NAME)
        yield from reader.skip_space()
        if not name or not (yield from reader.is_next("{")):
            return None
        reader.commit()
        text, closer = yield from _read_dict(reader, quote, closers)
        if closer:
            return unreadable_call("bad_json", "The arguments are not closed before the end marker.")
        end = yield from read_end_marker(reader, closers)
        try:
            arguments, _ = parse_lenient_json(text)
        except ValueError as error:
            return unreadable_call("bad_json", f"The arguments cannot be read: {error}.")
        return [build_call(name, arguments, end)]

    return read


def _read_dict(reader: Reader, quote: str, closers: tuple[str, ...]) -> Parsing[tuple[str, str]]:
    """Read the dictionary that begins here as JSON with unquoted keys, and the end marker if one came too early."""
    parts: list[str] = []
    depth = 0
    while True:
        parts.append((yield from reader.read_up_to(_EDGE)))
        if (yield from reader.skip(quote)):
            parts.append(json.dumps((yield from reader.read_through(quote))))
            continue
        closer = yield from reader.peek_literal(closers)
        mark = reader.take(len(closer) or 1)
        if closer:
            return "".join(parts), closer
        parts.append(mark)
        depth += (mark in "{[") - (mark in "}]")
        if mark == '"':
            size = reader.size
            yield from skip_string(reader, mark, INSIDE[mark])
            parts.append(reader.recorded(size))
        if depth <= 0:
            return "".join(parts), ""
