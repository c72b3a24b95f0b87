"""What the program's log is told of servers: starts, stops, faults, sizes and times of calls. It writes no file.

The members of a line are said in `logfile.py`. What is sent and received stands apart.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any

from ..errors import ChatError
from ..messages import ToolResult
from ..redact import Redactor

log = logging.getLogger(__name__)


def log_start(server: str, seconds: float, protocol: str, tools: int) -> None:
    tell("start", server, "open", seconds=round(seconds, 3), protocol=protocol, tools=tools)


def log_stop(server: str, seconds: float, is_idle: bool) -> None:
    """`seconds` is how long it ran."""
    tell("stop", server, "idle" if is_idle else "closed", seconds=round(seconds, 3))


def log_fault(error: ChatError, secrets: Redactor) -> ChatError:
    """The error as it may be told."""
    error = secrets.mend(error)
    fields = {"event": "fault", "server": error.details.get("server", ""), "kind": error.type_word}
    log.warning("%s", error.message, extra={"fields": fields})
    return error


def log_call(result: ToolResult) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    sent = write(result.arguments)
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


def write(arguments: Mapping[str, Any]) -> bytes:
    """Arguments as JSON with sorted names; nothing of those that JSON cannot hold, which are not sent either."""
    try:
        return json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str).encode("utf-8", "replace")
    except (RecursionError, TypeError, ValueError):
        return b""


def tell(event: str, server: str, message: str, **fields: Any) -> None:
    log.info(message, extra={"fields": {"event": event, "server": server, **fields}})
