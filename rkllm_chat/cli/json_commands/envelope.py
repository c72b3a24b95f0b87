"""Build the JSON document of a command and write it to standard output, complete and in UTF-8."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...core.errors import ChatError

HELP_KEY = "help"
_STANDARD_OUTPUT = 1
_SLICE_CHARS = 1 << 20
_SEARCHED_VALUES = 10_000


def make_error_document(error: ChatError, redact: Callable[[Any], Any]) -> dict[str, Any]:
    """Build the document of an error; `redact` hides the secrets in a JSON value."""
    from ...core.sanitize import sanitize_for_terminal

    details = {key: value for key, value in error.details.items() if value is not None}
    if error.hint:
        details["hint"] = error.hint
    message = sanitize_for_terminal(error.message)
    return {"ok": False, "error": redact({"type": error.type_name, "message": message, "details": details})}


def escape_control_characters(text: str) -> str:
    """Replace control characters of a JSON text by JSON escapes, so that it cannot control a terminal."""
    if text.isascii() and "\x7f" not in text:
        return text
    from ...core.sanitize import sanitize_json

    return sanitize_json(text)


def write_document(document: dict[str, Any]) -> OSError | None:
    """Write a document, or the help text in it, to standard output.

    Returns:
        None if all of it was written, else the error: the reader has closed the pipe, or the disk is full.
    """
    try:
        os.set_blocking(_STANDARD_OUTPUT, True)
        for text in _encode(document):
            for start in range(0, len(text), _SLICE_CHARS):
                piece = text[start : start + _SLICE_CHARS]
                _write(piece if HELP_KEY in document else escape_control_characters(piece))
    except OSError as error:
        return error
    return None


def _encode(document: dict[str, Any]) -> Iterable[str]:
    """Return the text of a document, in pieces if it is large: a whole copy of it would be one too many."""
    if HELP_KEY in document:
        return [f"{document[HELP_KEY]}\n"]
    encoder = json.JSONEncoder(ensure_ascii=False, default=str)
    if not _has_long_text(document):
        return [f"{encoder.encode(document)}\n"]
    from itertools import chain

    return chain(encoder.iterencode(document), ["\n"])


def _has_long_text(document: dict[str, Any]) -> bool:
    """Tell whether a text of many MB is among the first values of a document, where results have theirs."""
    pending: list[Any] = [document]
    for _ in range(_SEARCHED_VALUES):
        if not pending:
            return False
        value = pending.pop()
        if isinstance(value, str) and len(value) > _SLICE_CHARS:
            return True
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return False


def _write(text: str) -> None:
    data = memoryview(text.encode("utf-8", errors="replace"))
    while data:
        data = data[os.write(_STANDARD_OUTPUT, data) :]
