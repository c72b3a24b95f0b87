"""Split bytes into lines and parse lines into JSON values, both within limits. Pure.

Values that JSON cannot represent are replaced: lone surrogates by U+FFFD, NaN and infinities by null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .limits import MAX_DEPTH, MAX_MESSAGE_BYTES

TOO_DEEP = "[nested too deeply]"
"""Takes the place of a value that is nested too deeply."""
_MAX_VALUES = 1000
"""JSON values on one line; a line with more is not a message."""
_MAX_LINES = 100_000
_MAX_CLOSING_BRACKETS = 3
TAIL_BYTES = 256

_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_SPACE = re.compile(r"\s*")
_LIST_KEYS = ("tools", "resources", "resourceTemplates", "prompts")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class IncompleteJsonError(ValueError):
    """Raised when the text ends inside a JSON value."""


class CutText(NamedTuple):
    """A text over the limit: its beginning, the last bytes of the rest, and the size of all in bytes."""

    head: str
    tail: str
    size: int


class BoundedBytes:
    """Bytes of which the first are kept, up to a limit, and the last 256 of the others.

    Attributes:
        content: The first bytes.
        discarded: How many were not kept there.
    """

    def __init__(self, max_bytes: int) -> None:
        self.content, self.discarded = bytearray(), 0
        self._max_bytes, self._tail = max_bytes, b""

    @property
    def size(self) -> int:
        """How many bytes there were."""
        return len(self.content) + self.discarded

    def add(self, data: bytes | bytearray) -> None:
        """Add bytes at the end."""
        room = self._max_bytes - len(self.content)
        self.content += data[:room] if len(data) > room else data
        if len(data) > room:
            self.discarded += len(data) - room
            self._tail = (self._tail + data[room:])[-TAIL_BYTES:]

    def join(self, other: BoundedBytes) -> None:
        """Add the bytes of another, which is not used any more."""
        if not self.size:
            self.content, self.discarded, self._tail = other.content, other.discarded, other._tail
            return
        self.add(other.content)
        if other.discarded:
            self.discarded += other.discarded
            self._tail = other._tail

    def take_text(self) -> str | CutText:
        """Return the bytes as text, and free them."""
        text, size = self.content.decode("utf-8", errors="replace"), self.size
        self.content.clear()
        if not self.discarded:
            return text
        return CutText(text.rstrip("\ufffd"), self._tail.decode("utf-8", errors="replace"), size)


class LineSplitter:
    """Split a byte stream into lines of limited size.

    Memory use is bounded by the limit and the size of one `feed`.

    Args:
        on_line: Called with each complete line, without its newline; it may clear the line to free its memory.
        on_long: Called for a longer line.
        max_bytes: The limit of a line.
    """

    def __init__(
        self,
        on_line: Callable[[bytearray], None],
        on_long: Callable[[CutText], None],
        max_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._max_bytes = max_bytes
        self._on_line, self._on_long = on_line, on_long
        self._line = BoundedBytes(max_bytes)

    @property
    def discarded(self) -> int:
        """Bytes dropped so far from the current unfinished line."""
        return self._line.discarded

    def feed(self, data: bytes) -> None:
        """Process the next bytes of the stream."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._line.add(data[start:end])
            self.end_line()
            start = end + 1
        self._line.add(data[start:])

    def end_line(self) -> None:
        """Process the line that was read so far as if it had ended here."""
        line, self._line = self._line, BoundedBytes(self._max_bytes)
        if not line.discarded:
            self._on_line(line.content)
        elif isinstance(cut := line.take_text(), CutText):
            self._on_long(cut)


def parse_values(text: str) -> list[Any]:
    """Parse the JSON values on one line, normally one; the first must be an object or array.

    Raises:
        IncompleteJsonError: The text ends inside a value.
        ValueError: The text is not JSON, is nested too deeply, has a number that is too long, or too many values.
    """
    if not text.startswith(("{", "[")):  # no message; a JSON error for each of 100,000 lines would take a second
        raise ValueError("it is not a JSON object or array")
    values: list[Any] = []
    end = 0
    try:
        while end < len(text):
            value, end = _DECODER.raw_decode(text, end)
            values.append(value)
            end = _skip_space(text, end)
            if len(values) > _MAX_VALUES:
                raise ValueError
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or _is_unterminated_string(text, error.pos):
            raise IncompleteJsonError("it is incomplete") from None
        raise ValueError("it is not JSON") from None
    except RecursionError:
        values = _parse_deep(text)
    except ValueError:  # Python parses no number of more than 4300 digits
        reason = "it has too many values" if len(values) > _MAX_VALUES else "it contains a number that is too long"
        raise ValueError(reason) from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        try:
            check_depth(values)
        except ValueError:
            values = _parse_deep(text)
    return [replace_unrepresentable(value) for value in values] if _SURROGATE_ESCAPE.search(text) else values


def looks_like_response(text: str) -> bool:
    """Tell whether text that is not valid JSON was probably meant as a response, as opposed to log output."""
    text = text.replace("\0", "").lstrip()
    return text[:1] in ("{", "[") and '"jsonrpc"' in text


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


class PartialJson:
    """JSON that does not end with its first line; the rest may be on the next lines.

    The work is bounded: it is parsed at most three times, at a closing bracket in the first column.
    """

    def __init__(self, line: bytes, max_bytes: int) -> None:
        self._lines, self._max_bytes = [line], max_bytes
        self._size, self._closing_brackets = len(line), 0

    @property
    def text(self) -> bytes:
        """What there is of it so far."""
        return b"\n".join(self._lines)

    def add(self, line: bytes) -> list[Any] | None:
        """Add a line.

        Returns:
            The values, if the JSON is complete; None if more lines may follow.

        Raises:
            ValueError: It will not become JSON, or is too large.
        """
        self._lines.append(line)
        self._size += len(line)
        if line[:1] in (b"}", b"]"):
            self._closing_brackets += 1
            try:
                return parse_values(self.text.decode("utf-8", errors="replace"))
            except IncompleteJsonError:
                if self._closing_brackets >= _MAX_CLOSING_BRACKETS:
                    raise
        elif self._size > self._max_bytes or len(self._lines) > _MAX_LINES:
            raise IncompleteJsonError("it is incomplete")
        return None


def begins_message(line: bytes | bytearray) -> bool:
    """Tell whether a line is the beginning of a JSON-RPC message; it is no part of an earlier one then."""
    return line.startswith(b"{") and b'"jsonrpc"' in line


def _parse_deep(text: str) -> list[Any]:
    """Parse a response whose list has entries that are nested too deeply: their deep members become TOO_DEEP.

    Raises:
        ValueError: It is another message, or nested too deeply elsewhere.
    """
    value = json.loads(_cut_deep(text))
    result = value.get("result") if isinstance(value, dict) else None
    if not isinstance(result, dict):
        raise ValueError("it is nested too deeply")
    lists = {key for key in _LIST_KEYS if isinstance(result.get(key), list)}
    if TOO_DEEP in json.dumps({**value, "result": {**result, **dict.fromkeys(lists)}}):
        raise ValueError("it is nested too deeply")
    for key in lists:
        result[key] = [_mark_deep_members(entry) for entry in result[key]]
    return [value]


def _mark_deep_members(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: TOO_DEEP if TOO_DEEP in json.dumps(value) else value for key, value in entry.items()}


def _cut_deep(text: str) -> str:
    """Return JSON in which every value deeper than 100 levels is replaced by the string TOO_DEEP."""
    pieces: list[str] = []
    depth = start = 0
    for match in _BRACKET_OR_STRING.finditer(text):
        if match[0] in ("[", "{"):
            depth += 1
            if depth == MAX_DEPTH + 1:
                pieces.append(text[start : match.start()] + json.dumps(TOO_DEEP))
        elif match[0] in ("]", "}"):
            if depth == MAX_DEPTH + 1:
                start = match.end()
            depth -= 1
    return "".join([*pieces, text[start:]])


def _is_unterminated_string(text: str, start: int) -> bool:
    """Tell whether a JSON string starts here and does not end."""
    return text.startswith('"', start) and not _STRING.match(text, start)


def check_depth(values: Any) -> None:
    """Raise ValueError if a value is nested deeper than 100 levels."""
    level = [values]
    for _ in range(MAX_DEPTH + 2):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def replace_unrepresentable(value: Any) -> Any:
    """Replace lone surrogates, NaN and infinities; the value must have passed `check_depth`."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {replace_unrepresentable(key): replace_unrepresentable(item) for key, item in value.items()}
    return [replace_unrepresentable(item) for item in value] if isinstance(value, list) else value


def find_surrogate_key(value: Any) -> str | None:
    """Return a key at any depth that contains a lone surrogate; unlike a value, a key cannot be repaired."""
    level = [value]
    for _ in range(MAX_DEPTH + 2):
        keys = (key for value in level if isinstance(value, Mapping) for key in value)
        if half := next((key for key in keys if isinstance(key, str) and _SURROGATE.search(key)), None):
            return half
        level = [item for value in level for item in _nested_containers(value)]
    return None


def _nested_containers(value: Any) -> Iterable[Any]:
    """Yield the nested containers of an object or array."""
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, Mapping | list))


def _read_float(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(parse_float=_read_float, parse_constant=lambda _: None)
