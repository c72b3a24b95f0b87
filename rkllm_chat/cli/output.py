"""Write to standard output in UTF-8, whatever the locale is; unencodable characters become "?"."""

from __future__ import annotations

import json
import sys
from typing import Any

from ..core.errors import ChatError
from ..core.sanitize import sanitize_json
from .json_commands.envelope import make_error_document


def write_output(text: str) -> None:
    """Write text."""
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
    sys.stdout.buffer.flush()


def write_json(value: Any) -> None:
    """Write one JSON document as a line."""
    write_output(sanitize_json(json.dumps(value, ensure_ascii=False, default=str)) + "\n")


def write_result(result: Any) -> None:
    """Write the document of a result."""
    write_json({"ok": True, "result": result})


def write_error(error: ChatError) -> int:
    """Write the document of an error, whose secrets are redacted, and return its exit code."""
    write_json(make_error_document(error, lambda value: value))
    return error.exit_code
