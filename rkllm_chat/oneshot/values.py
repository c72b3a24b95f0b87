"""Arguments as they are written on a command line, and the part of a result that is wanted. It talks to no server."""

from __future__ import annotations

import json
import os

from ..errors import UsageError
from ..exact import exact_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_BYTES = 16 << 20
NEAR = 20
STANDARD_INPUT = 0


def read_arguments(written: str | None, option: str) -> dict[str, Any]:
    """The JSON object that is written, or that stands in @FILE or on standard input (-). Raises UsageError."""
    if written is None:
        return {}
    source = option
    if written == "-":
        source, data = "standard input", read_all(STANDARD_INPUT, "standard input")
        written = decode(data, source)
    elif written.startswith("@"):
        source = written[1:]
        written = decode(read_file(source), source)
    value = parse(written, source)
    if not isinstance(value, dict):
        got = name_kind(value)
        raise UsageError(f"{source} is {got}, not a JSON object.", 'Write {"name": value}.', expected="object", got=got)
    return value


def read_file(path: str) -> bytes:
    try:
        file = os.open(os.path.expanduser(path), os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", path=path) from None
    try:
        return read_all(file, path)
    finally:
        os.close(file)


def read_all(file: int, source: str) -> bytes:
    data = bytearray()
    try:
        while piece := os.read(file, 1 << 16):
            data += piece
            if len(data) > MOST_BYTES:
                raise UsageError(f"{source} is larger than {MOST_BYTES >> 20} MB.", path=source)
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.", path=source) from None
    return bytes(data)


def decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 (byte {error.start}).", path=source) from None


def parse(text: str, source: str) -> Any:
    """The JSON value of a text. Raises UsageError with the place."""
    try:
        return exact_json(text)
    except ValueError as error:
        if not isinstance(error.__cause__, json.JSONDecodeError):
            raise UsageError(f"{source} is not JSON: {error}.") from None
        raise explain(error.__cause__, text, source) from None


def explain(error: json.JSONDecodeError, text: str, source: str) -> UsageError:
    place, near = f"line {error.lineno}, column {error.colno}", text[max(0, error.pos - NEAR) : error.pos + NEAR]
    return UsageError(
        f"{source} is not JSON: {error.msg} at {place}, near {near!r}." if near else f"{source} is empty.",
        'Quote it for the shell: --args \'{"name": "value"}\'.',
        line=error.lineno,
        column=error.colno,
        near=near,
    )


def name_kind(value: Any) -> str:
    kinds = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def select(result: dict[str, Any], part: str | None) -> Any:
    """The part of a tool's result that is wanted; null for structured content where there is none."""
    match part:
        case "structured":
            return result.get("structuredContent")
        case "content":
            return result.get("content", [])
        case "text":
            return read_texts(result)
        case _:
            return result


def read_texts(result: dict[str, Any]) -> str:
    """All texts of a result, also those of resources in it, a line end between two."""
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    inner = [block["resource"] if isinstance(block.get("resource"), dict) else block for block in blocks]
    return "\n".join(block["text"] for block in inner if isinstance(block.get("text"), str))
