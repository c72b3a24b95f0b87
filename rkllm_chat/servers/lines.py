"""Bytes into lines, with a limit, and text into JSON values, with limits. It knows no protocol and no process.

What is not for JSON is made harmless: half a character (a lone surrogate) becomes U+FFFD, NaN and infinities null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MB = 1 << 20
LONGEST = 4 * MB
MOST_DISCARDED = 128 * MB
DEEPEST = 100
TAIL = 256

SURROGATE = re.compile("[\ud800-\udfff]")
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class CutShortError(ValueError):
    """The text ends inside a JSON value."""


class Lines:
    """Takes bytes as they come; gives each line to `on_line`, and of one that is too long its ends and its size.

    It holds at most LONGEST bytes and what is fed at once. `discarded` counts the bytes of a line beyond the limit
    that has not ended yet.
    """

    def __init__(self, on_line: Callable[[bytes], None], on_long: Callable[[bytes, int], None]) -> None:
        self.discarded = 0
        self._on_line, self._on_long = on_line, on_long
        self._buffer = bytearray()
        self._tail = b""

    def feed(self, data: bytes) -> None:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            self._finish()
            start = end + 1
        self._keep(data[start:])

    def _keep(self, data: bytes) -> None:
        room = LONGEST - len(self._buffer)
        self._buffer += data[:room] if len(data) > room else data
        if len(data) > room:
            self.discarded += len(data) - room
            self._tail = (self._tail + data[room:])[-TAIL:]

    def _finish(self) -> None:
        line, self._buffer = bytes(self._buffer), bytearray()
        discarded, self.discarded = self.discarded, 0
        if discarded:
            self._on_long(line[: 16 * TAIL] + self._tail, len(line) + discarded)
            self._tail = b""
        else:
            self._on_line(line)

    @property
    def head(self) -> bytes:
        """How the unfinished line begins."""
        return bytes(self._buffer[: 16 * TAIL])


def read_values(text: str) -> list[Any]:
    """The JSON values that stand on one line: one, as a rule. Raises ValueError that says what is wrong with it."""
    values: list[Any] = []
    end = 0
    try:
        while end < len(text):
            value, end = DECODER.raw_decode(text, end)
            values.append(value)
            end = len(text) - len(text[end:].lstrip())
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
            raise CutShortError("it is cut short") from None
        raise ValueError("it is no JSON") from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError:  # Python reads no number of more than 4300 digits
        raise ValueError("it holds a number that is too long") from None
    if text.count("[") + text.count("{") > DEEPEST:
        check_depth(values)
    return [mend(value) for value in values] if SURROGATE_ESCAPE.search(text) else values


def check_depth(values: Any) -> None:
    """Raises ValueError if one of the values is nested deeper than DEEPEST."""
    level = [values]
    for _ in range(DEEPEST + 2):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise ValueError("it is nested too deep")


def mend(value: Any) -> Any:
    """The value without half characters, NaN and infinities. It has passed `check_depth`."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {mend(key): mend(item) for key, item in value.items()}
    return [mend(item) for item in value] if isinstance(value, list) else value


def find_half_key(value: Any) -> str | None:
    """A key, however deep, that holds half a character: in it, unlike in a value, nothing can be replaced."""
    level = [value]
    for _ in range(DEEPEST + 2):
        keys = (key for value in level if isinstance(value, Mapping) for key in value)
        if half := next((key for key in keys if isinstance(key, str) and SURROGATE.search(key)), None):
            return half
        level = [item for value in level for item in items_of(value)]
    return None


def items_of(value: Any) -> Iterable[Any]:
    """What is in an object or a list, as far as that may hold something itself."""
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, Mapping | list))


def read_float(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


DECODER = json.JSONDecoder(parse_float=read_float, parse_constant=lambda _: None)
