"""`mcp-tool`: call the tools of all configured MCP servers as commands, `mcp-tool SERVER__TOOL --flag VALUE`.

Only the selected server is started, and the tool's schema is requested for each call: cached schemas never decide what
is sent. Results go to standard output. Every error is one line on standard error and, with `--output json`,
also the one document on standard output. The exit code tells the kind of error.

Options of `mcp-tool` come before the tool's name, the flags of the tool after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end this process without the interpreter's shutdown, which takes longer than a call."""
    import os
    import sys

    if sys.platform == "win32":
        from ...core.windows import WINDOWS_NOTICE

        sys.exit(WINDOWS_NOTICE)
    from .run import run

    os._exit(run(sys.argv[1:] if words is None else words))
