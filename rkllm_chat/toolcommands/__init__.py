"""`mcp-tool`: every tool of every configured server is a command, `mcp-tool SERVER__TOOL --flag VALUE`.

Only the server in question is started, and the schema of its tool is asked for at each call: nothing that was kept from
before decides what is sent. Results go to standard output; every error is one line on standard error, and with
`--output json` or `yaml` also the one document on standard output. The exit code says what kind of error it was.

Our options come before the tool's name, its flags behind it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Runs one command to the end of this process, whose interpreter is not wound up: that takes longer than a call."""
    import os
    import sys

    from .course import run

    os._exit(run(sys.argv[1:] if words is None else words))
