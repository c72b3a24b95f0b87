"""Refuse a request on its size, before it costs memory and time: bytes, JSON values, texts, messages, calls, schemas.

A body of 24 MB can hold pictures. The same bytes as small values would take gigabytes once they are parsed, and hours
once they are a prompt or a grammar. Whatever these limits admit costs less than a second and 200 MB (measured).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..prompt.budget import MAX_TOKEN_LENGTH
from .errors import ApiError

MAX_BODY_BYTES = 24 * 1024 * 1024
MAX_RECEIVED_BYTES = 4 * MAX_BODY_BYTES
"""Limit of all bodies together that are being received and parsed."""
_MAX_SEPARATORS = 400_000
"""Characters that separate JSON values in a body, those in texts included."""
_MAX_ARGUMENT_SEPARATORS = 20_000
_SEPARATORS = b"[{,:"
_MAX_CHARACTERS = 4_000_000
"""Characters of all texts where the context window is not known yet."""
_MAX_VALUES = {"messages": 50_000, "input": 50_000, "tools": 50_000}
_MAX_OTHER_VALUES = 10_000
"""JSON values in a field of the request, such as the schema of the reply."""
_TOOL_FIELDS, _MAX_TOOL_CHARACTERS = ("tools", "format", "response_format"), 1_000_000
_MAX_ITEMS = {"messages": 4096, "input": 4096, "content": 4096, "tool_calls": 2048}
"""Items of all lists of one name together."""
_MEDIA_FIELDS, _MEDIA_KEYS = ("messages", "input"), ("image_url", "input_audio")


def check_bytes(data: bytearray) -> None:
    """Raise ApiError for a body with more values than any conversation has; nothing is parsed."""
    if sum(data.count(separator) for separator in _SEPARATORS) > _MAX_SEPARATORS:
        raise ApiError(413, "The body has too many JSON values.", code="body_too_large")


def check_arguments(text: str, param: str) -> None:
    """Raise ApiError for arguments of a call with too many values. `text` is JSON, `param` its field."""
    if sum(text.count(chr(separator)) for separator in _SEPARATORS) > _MAX_ARGUMENT_SEPARATORS:
        raise ApiError(400, f"{param}: the arguments have too many values.", param=param)


def find_max_characters(context_tokens: int) -> int:
    """Return how many characters a text of a request may have; `context_tokens` is 0 while it is not known."""
    return context_tokens * MAX_TOKEN_LENGTH or _MAX_CHARACTERS


def check_values(body: Mapping[str, Any], max_characters: int) -> None:
    """Check the size of a parsed body before it is validated.

    Args:
        body: The body.
        max_characters: Limit of the texts in a field.

    Raises:
        ApiError: A field has too many values or items, or its texts cannot fit.
    """
    items = dict.fromkeys(_MAX_ITEMS, 0)
    for name, value in body.items():
        limit = _MAX_VALUES.get(name, _MAX_OTHER_VALUES)
        length = _measure(name, value, limit, items)
        if name in _TOOL_FIELDS and length > _MAX_TOOL_CHARACTERS:
            message = f"{name}: {length} characters; at most {_MAX_TOOL_CHARACTERS} are possible."
            raise ApiError(400, message, param=name)
        if name not in (*_TOOL_FIELDS, "images") and length > max_characters:
            message = f"{name}: {length} characters of text; at most {max_characters} can fit."
            raise ApiError(400, message, param=name, code="context_length_exceeded")


def _measure(field: str, body: Any, max_values: int, items: dict[str, int]) -> int:
    """Return the characters of all texts in a field, without pictures and sounds; count the items of lists.

    Raises:
        ApiError: There are too many values or items.
    """
    characters, values = 0, 0
    waiting: list[tuple[str, Any]] = [(field, body)]
    while waiting:
        name, value = waiting.pop()
        values += 1
        if values > max_values:
            raise ApiError(400, f"{field}: more than {max_values} JSON values.", param=field)
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, list):
            _count_items(name, value, items)
            waiting += [("", item) for item in value[: max_values + 1]]
        elif isinstance(value, dict):
            characters += sum(map(len, value)) if field in _TOOL_FIELDS else 0
            waiting += list((_without_media(value) if field in _MEDIA_FIELDS else value).items())
    return characters


def _count_items(name: str, value: list[Any], items: dict[str, int]) -> None:
    """Add the items of a list to those of the same name. Raises ApiError."""
    if name in items:
        items[name] += len(value)
        if items[name] > _MAX_ITEMS[name]:
            message = f"{name}: {items[name]} items in all; at most {_MAX_ITEMS[name]} are possible."
            raise ApiError(400, message, param=name)


def _without_media(value: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an object without the data of pictures and sounds: of a part, or of a message of Ollama."""
    omitted: Iterable[str] = ()
    if isinstance(value.get("type"), str):
        omitted = _MEDIA_KEYS
    elif isinstance(value.get("role"), str):
        omitted = ("images",)
    return {key: member for key, member in value.items() if key not in omitted}
