"""The one document of a command, and how it gets out: whole, in UTF-8, and without complaint if nobody reads it."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..errors import ChatError
    from ..redact import Redactor

HELP = "help"
STANDARD_OUTPUT = 1


def failure(error: ChatError, secrets: Redactor) -> dict[str, Any]:
    """The document of an error, in which no secret stands."""
    from ..clean import clean

    details = {key: value for key, value in error.details.items() if value is not None}
    if error.hint:
        details["hint"] = error.hint
    message = clean(error.message)
    return {"ok": False, "error": secrets.hide_all({"type": error.type_word, "message": message, "details": details})}


def printable(text: str) -> str:
    """A JSON document that steers no terminal; what does stands in it as `\\uXXXX`, which means the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    from ..clean import clean_json

    return clean_json(text)


def write(document: dict[str, Any]) -> bool:
    """Writes it to standard output; whether it got there. A help text is written as it is."""
    text = document[HELP] if HELP in document else printable(json.dumps(document, ensure_ascii=False, default=str))
    data = memoryview(f"{text}\n".encode("utf-8", errors="replace"))
    try:
        os.set_blocking(STANDARD_OUTPUT, True)
        while data:
            data = data[os.write(STANDARD_OUTPUT, data) :]
    except OSError:  # the reader has enough of it, or the disk is full
        return False
    return True
