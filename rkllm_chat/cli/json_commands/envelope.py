"""Build the JSON document of a command and write it to standard output, complete and in UTF-8."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...core.errors import ChatError

HELP_KEY = "help"
_STANDARD_OUTPUT = 1


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
    text = (
        document[HELP_KEY]
        if HELP_KEY in document
        else escape_control_characters(json.dumps(document, ensure_ascii=False, default=str))
    )
    data = memoryview(f"{text}\n".encode("utf-8", errors="replace"))
    try:
        os.set_blocking(_STANDARD_OUTPUT, True)
        while data:
            data = data[os.write(_STANDARD_OUTPUT, data) :]
    except OSError as error:
        return error
    return None
