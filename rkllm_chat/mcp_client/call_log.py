"""Log starts, stops, faults and calls of servers to the program's log.

The fields of a line are documented in `storage/log_file.py`. Arguments and results are passed separately, as `bodies`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any

from ..core.errors import ChatError
from ..core.messages import ToolResult
from ..core.redact import Redactor

log = logging.getLogger(__name__)


def log_start(server: str, seconds: float, protocol: str, tools: int) -> None:
    """Log that a server was opened, `seconds` after its start, with `tools` tools."""
    log_event("start", server, "open", seconds=round(seconds, 3), protocol=protocol, tools=tools)


def log_stop(server: str, seconds: float, is_idle: bool) -> None:
    """Log that a server ended after `seconds`."""
    log_event("stop", server, "idle" if is_idle else "closed", seconds=round(seconds, 3))


def log_fault(error: ChatError, secrets: Redactor) -> ChatError:
    """Log an error and return it with secrets masked."""
    error = secrets.redact_error(error)
    fields = {"event": "fault", "server": error.details.get("server", ""), "kind": error.type_name}
    log.warning("%s", error.message, extra={"fields": fields})
    return error


def log_call(result: ToolResult) -> None:
    """Log a call: outcome, sizes and duration; nothing if the level is above INFO."""
    if not log.isEnabledFor(logging.INFO):
        return
    sent = serialize_arguments(result.arguments)
    fields = {
        "event": "call",
        "server": result.server,
        "tool": result.tool,
        "outcome": result.status,
        "seconds": result.seconds,
        "sent_bytes": len(sent),
        "received_bytes": len(result.text.encode("utf-8", "replace")),
        "arguments_sha256": hashlib.sha256(sent).hexdigest(),
    }
    log.info("call", extra={"fields": fields, "bodies": {"arguments": result.arguments, "text": result.text}})


def serialize_arguments(arguments: Mapping[str, Any]) -> bytes:
    """Serialize arguments as JSON with sorted names; empty if JSON cannot represent them.

    Such arguments are not sent either.
    """
    try:
        return json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str).encode("utf-8", "replace")
    except (RecursionError, TypeError, ValueError):
        return b""


def log_event(event: str, server: str, message: str, **fields: Any) -> None:
    """Log an event of a server with its fields."""
    log.info(message, extra={"fields": {"event": event, "server": server, **fields}})
