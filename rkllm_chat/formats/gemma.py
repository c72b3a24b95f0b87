"""FunctionGemma and Gemma 4: `call:f{k:<escape>text<escape>,n:42}`, with a quote of their own. It knows no tool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from ..reader import Reader, Reading
from .damaged import read_json
from .found import Found, call_with, garbled, read_end

Read = Callable[[Reader], Reading[Found]]

_EDGE = re.compile(r"[{}\[\]<\"]")
_INSIDE = re.compile(r"[\"\\]")
_END_OF_NAME = re.compile(r"[{<\s]")


def gemma_call(quote: str, closers: tuple[str, ...]) -> Read:
    """The reader of the form whose texts stand between two of `quote`."""

    def read(reader: Reader) -> Reading[Found]:
        yield from reader.skip_space()
        if not (yield from reader.skip("call:")):
            return None
        name = yield from reader.up_to(_END_OF_NAME)
        yield from reader.skip_space()
        if not name or not (yield from reader.next_is("{")):
            return None
        reader.commit()
        text, closer = yield from read_dict(reader, quote, closers)
        if closer:
            return garbled("bad_json", "The arguments are not closed before the end marker.")
        end = yield from read_end(reader, closers)
        try:
            arguments, _ = read_json(text)
        except ValueError as error:
            return garbled("bad_json", f"The arguments cannot be read: {error}.")
        return [call_with(name, arguments, end)]

    return read


def read_dict(reader: Reader, quote: str, closers: tuple[str, ...]) -> Reading[tuple[str, str]]:
    """The dictionary that begins here as JSON with bare keys, and the end marker that came too early, consumed."""
    parts: list[str] = []
    depth = 0
    while True:
        parts.append((yield from reader.up_to(_EDGE)))
        if (yield from reader.skip(quote)):
            parts.append(json.dumps((yield from reader.until(quote))))
            continue
        closer = yield from reader.next_of(closers)
        mark = reader.take(len(closer) or 1)
        if closer:
            return "".join(parts), closer
        parts.append(mark)
        depth += (mark in "{[") - (mark in "}]")
        if mark == '"':
            parts.append((yield from read_string(reader)))
        if depth <= 0:
            return "".join(parts), ""


def read_string(reader: Reader) -> Reading[str]:
    """The rest of a JSON string, its closing quote included."""
    parts: list[str] = []
    while True:
        parts.append((yield from reader.up_to(_INSIDE)))
        parts.append(reader.take(1))
        if parts[-1] == '"':
            return "".join(parts)
        yield from reader.peek()
        parts.append(reader.take(1))
