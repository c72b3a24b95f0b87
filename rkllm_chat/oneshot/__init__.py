"""One command, one JSON document on standard output: `list-tools`, `call-tool`, `init` and their sisters.

    {"ok": true, "result": ...}   or   {"ok": false, "error": {"type": ..., "message": ..., "details": {...}}}

Nothing is written to standard error, also for a wrong command line; the exit code is 0 or 1. It is quick: what is not
needed is not imported, the document is out before the server is waited for, and the interpreter's own end (up to 0.4 s
with the SDK, measured) is skipped.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

NAMES = (
    "list-tools",
    "call-tool",
    "list-servers",
    "list-resources",
    "read-resource",
    "list-prompts",
    "get-prompt",
    "init",
)
EARLY = b'{"ok": false, "error": {"type": "Interrupted", "message": "Stopped by SIGINT.", "details": {}}}\n'


def main(arguments: Sequence[str]) -> NoReturn:
    """Runs the command that the arguments begin with, to its document and to the end of this process."""
    import os

    try:
        from .sitting import run

        os._exit(run(arguments))
    except KeyboardInterrupt:  # before it could listen for signals
        os.write(1, EARLY)
        os._exit(1)
