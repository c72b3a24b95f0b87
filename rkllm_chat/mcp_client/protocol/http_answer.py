"""What the answer to a POST says beyond its JSON-RPC: lost sessions, errors without an id, bodies of errors. No I/O."""

from __future__ import annotations

import json
import re
from typing import Any

_SESSION_STATUSES = (400, 404, 410)
_SESSION_CODES = (-32001, -32600, -32000)
"""Codes with which servers report an unknown session: their own, "Invalid Request", or a server error."""
_LOST_SESSION = re.compile(
    r"session.*\b(?:not (?:found|exist|valid)|unknown|invalid|expired|terminated|closed|no longer|gone|missing)\b"
    r"|\b(?:no|unknown|invalid|expired|missing|no valid)\b.{0,30}\bsession",
    re.IGNORECASE | re.DOTALL,
)
_MAX_ERROR_CHARS, _MAX_READ_BYTES = 200, 20_000
_TEXT_KEYS = ("error_description", "message", "detail", "error", "title", "reason")
"""Members of a JSON body that say what went wrong, the most telling first."""
_TAG = re.compile(r"<(?:script|style|head)\b.*?</(?:script|style|head)>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def parse_small(content: bytes | bytearray) -> Any:
    """Return the JSON value of a small body; None for a large one, or for anything else."""
    if len(content) > _MAX_READ_BYTES:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def adopt_error(value: Any, request_id: int | str | None) -> Any:
    """Return an error without an id as the answer to the request of its POST: there is no other that it can answer."""
    if request_id is None or not isinstance(value, dict) or "method" in value or value.get("id") is not None:
        return value
    error = value.get("error")
    if not isinstance(error, dict) or "result" in value:
        return value
    code = error.get("code")
    named = {"code": code if isinstance(code, int) else -32603, "message": str(error.get("message", "an error"))}
    return {"jsonrpc": "2.0", "id": request_id, "error": {**error, **named}}


def reports_lost_session(status: int, value: Any) -> bool:
    """Tell whether the answer to a POST within a session says that the server does not know the session (any more).

    The specification wants 404 (MCP 2025-11-25, transports); servers also answer 410, or an error that names it.
    """
    if status in (404, 410):
        return True
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        message = str(error.get("message", ""))
        return (status in _SESSION_STATUSES or error.get("code") in _SESSION_CODES) and bool(
            _LOST_SESSION.search(message)
        )
    said = error if isinstance(error, str) else str(value.get("message", "")) if isinstance(value, dict) else ""
    return status in _SESSION_STATUSES and bool(_LOST_SESSION.search(said))


def quote_error_body(content: bytes | bytearray) -> str:
    """Return what the body of an HTTP error says, as a line of at most 200 characters; "" if nothing readable."""
    from ...core.redact import truncate_at_word
    from ...core.sanitize import sanitize_line

    value = parse_small(content)
    text = _find_text(value) if isinstance(value, dict | list) else ""
    if not text and value is None:
        text = _TAG.sub(" ", bytes(content[:_MAX_READ_BYTES]).decode("utf-8", errors="replace"))
    line = " ".join(text.split())
    return truncate_at_word(sanitize_line(line), _MAX_ERROR_CHARS) if "\ufffd" not in line else ""


def _find_text(value: Any) -> str:
    """Return the text of an error in JSON: of the usual members, the first that is a text, at two levels."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return value if isinstance(value, str) else ""
    for key in _TEXT_KEYS:
        found = value.get(key)
        if isinstance(found, str) and found.strip():
            return found
        if isinstance(found, dict | list) and (text := _find_text(found)):
            return text
    return ""
