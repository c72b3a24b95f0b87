"""The log of a server on standard error: one line per event, without control characters, at most ten a second.

What clients send is part of many messages, also of those that libraries write.
"""

from __future__ import annotations

import logging
import sys

from ..core.sanitize import sanitize_for_terminal, shorten_line
from ..mcp_client.protocol.limits import RateLimit

MAX_LINES_PER_SECOND = 10
_MAX_LINE_LENGTH, _MAX_TRACEBACK_LENGTH = 500, 8000


class ServerLogFormatter(logging.Formatter):
    """Formats an event as one short line, and the traceback of a fault of this program below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of an event."""
        line = f"rkllm-chat: {shorten_line(record.getMessage(), _MAX_LINE_LENGTH)}"
        if not record.exc_info:
            return line
        return f"{line}\n{sanitize_for_terminal(self.formatException(record.exc_info)[-_MAX_TRACEBACK_LENGTH:])}"


def start_server_log() -> None:
    """Write the warnings of all loggers to standard error, those of libraries included; replaces earlier handlers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ServerLogFormatter())
    rate = RateLimit(MAX_LINES_PER_SECOND, 1.0)  # a client must not be able to fill the log
    handler.addFilter(lambda _: rate.try_acquire())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
