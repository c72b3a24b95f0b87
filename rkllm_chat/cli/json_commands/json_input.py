"""Read JSON arguments from the command line, a file or standard input, and select parts of a tool's result."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import UsageError
from ...core.strict_json import parse_strict_json

_MAX_INPUT_BYTES = 16 << 20
_EXCERPT_CHARS = 20
STDIN_FD = 0


def read_arguments(written: str | None, option: str) -> dict[str, Any]:
    """Parse the JSON object of an option.

    Args:
        written: The JSON text, `@FILE`, or `-` for standard input; None for no arguments.
        option: The option's name, for error messages.

    Raises:
        UsageError: The source cannot be read or is not a JSON object.
    """
    if written is None:
        return {}
    source = option
    if written == "-":
        source, data = "standard input", read_descriptor(STDIN_FD, "standard input")
        written = decode_utf8(data, source)
    elif written.startswith("@"):
        source = written[1:]
        written = decode_utf8(read_file(source), source)
    return parse_arguments(written, source)


def parse_arguments(text: str, source: str) -> dict[str, Any]:
    """Parse a JSON object; `source` names it in errors. Raises UsageError."""
    value = _parse(text, source)
    if not isinstance(value, dict):
        got = _describe_type(value)
        raise UsageError(f"{source} is {got}, not a JSON object.", 'Write {"name": value}.', expected="object", got=got)
    return value


def read_pairs(pairs: Sequence[str], arguments: dict[str, Any]) -> dict[str, str]:
    """Add the arguments that are written as KEY=VALUE or KEY:=JSON to those of `--args`.

    Returns:
        The texts of the first form, which `convert_texts` may convert to the type that the tool expects.

    Raises:
        UsageError: A pair is invalid, or its key is given twice.
    """
    texts: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        key = name.removesuffix(":")
        if not key:
            raise UsageError(f'"{pair}" has no name before the =.', "Write KEY=VALUE, or KEY:=JSON.", got=pair)
        if key in arguments:
            raise UsageError(f'The argument "{key}" is given more than once.', got=key)
        if name == key:
            texts[key] = arguments[key] = value
        else:
            arguments[key] = _parse(value, key)
    return texts


def convert_texts(texts: Mapping[str, str], arguments: dict[str, Any], schema: Any) -> None:
    """Convert arguments that were written as texts to the types of the tool's schema, where nothing is lost."""
    if not texts or not isinstance(schema, dict):
        return
    from ...calls.schema.coerce import coerce
    from ...calls.schema.resolve import Node

    converted, _ = coerce(dict(texts), Node(schema))
    arguments.update(converted if isinstance(converted, dict) else {})


def read_file(path: str) -> bytes:
    """Read a file of at most 16 MB. Raises UsageError."""
    try:
        file = os.open(os.path.expanduser(path), os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", path=path) from None
    try:
        return read_descriptor(file, path)
    finally:
        os.close(file)


def read_descriptor(file: int, source: str) -> bytes:
    """Read a file descriptor to its end, at most 16 MB. `source` names it in errors. Raises UsageError."""
    data = bytearray()
    try:
        while chunk := os.read(file, 1 << 16):
            data += chunk
            if len(data) > _MAX_INPUT_BYTES:
                raise UsageError(f"{source} is larger than {_MAX_INPUT_BYTES >> 20} MB.", path=source)
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.", path=source) from None
    return bytes(data)


def decode_utf8(data: bytes, source: str) -> str:
    """Decode UTF-8 with an optional byte order mark. Raises UsageError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 (byte {error.start}).", path=source) from None


def _parse(text: str, source: str) -> Any:
    """Parse a JSON text. Raises UsageError with line and column."""
    try:
        return parse_strict_json(text)
    except ValueError as error:
        if not isinstance(error.__cause__, json.JSONDecodeError):
            raise UsageError(f"{source} is not valid JSON: {error}.") from None
        raise _explain(error.__cause__, text, source) from None


def _explain(error: json.JSONDecodeError, text: str, source: str) -> UsageError:
    """Build the error of invalid JSON with its position and the text near it."""
    position = f"line {error.lineno}, column {error.colno}"
    excerpt = text[max(0, error.pos - _EXCERPT_CHARS) : error.pos + _EXCERPT_CHARS]
    return UsageError(
        f"{source} is not valid JSON: {error.msg} at {position}, near {excerpt!r}."
        if excerpt
        else f"{source} is empty.",
        'Quote it for the shell: \'{"name": "value"}\'.',
        line=error.lineno,
        column=error.colno,
        near=excerpt,
    )


def _describe_type(value: Any) -> str:
    descriptions = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return descriptions.get(type(value), "a number")


def select_part(result: dict[str, Any], part: str | None) -> Any:
    """Return the selected part of a tool's result; None for structured content that is absent."""
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
    """Join all texts of a result with newlines, including those of embedded resources."""
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    inner = [block["resource"] if isinstance(block.get("resource"), dict) else block for block in blocks]
    return "\n".join(block["text"] for block in inner if isinstance(block.get("text"), str))
