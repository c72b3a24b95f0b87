"""Write the report that the owner of a board can send to the developers: the findings as a table in Markdown.

Names of users and machines are replaced; serial numbers are never read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...core.sanitize import sanitize_line
from ...core.version import __version__
from .board import Board, Finding

_HOMES = re.compile(r"/(?:home|Users)/[^/\s,:]+|/root(?![\w-])")
# Default names in board images, which identify nobody and are kept.
_DEFAULT_NAMES = {"", "root", "localhost", "user", "rock", "radxa", "orangepi", "ubuntu", "debian", "armbian", "pi"}

_HEAD = """\
# Board report of rkllm-chat {version}

Home folders are replaced by `~`, the names of the user and of the machine by `<user>` and `<host>`. Read the report
before you send it. Rows with the state `warn` or `wrong` say what to do.

| state | what | found | what to do |
|---|---|---|---|
"""


def write_report(board: Board, lines: Sequence[Finding]) -> str:
    """Return the report as Markdown."""
    rows = [
        f"| {line.state} | {_cell(line.name)} | {_cell(_value_of(line))} | {_cell(line.advice)} |" for line in lines
    ]
    return _anonymize(_HEAD.format(version=__version__) + "\n".join(rows) + "\n", board)


def _value_of(line: Finding) -> str:
    """Return a line's value, except for configuration errors, which may quote a secret from the file."""
    is_private = (line.name, line.state) == ("configuration", "wrong")
    return "invalid; run rkllm-chat doctor for the reason" if is_private else line.value


def _cell(text: str) -> str:
    """Escape a text for a Markdown table cell."""
    return sanitize_line(text).replace("|", "\\|")


def _anonymize(text: str, board: Board) -> str:
    """Replace home folders and the names of the user and the machine."""
    if home := board.environment.get("HOME", "").rstrip("/"):
        text = re.sub(re.escape(home) + r"(?![\w-])", "~", text)
    text = _HOMES.sub("~", text)
    users = {board.environment.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")} | {home.rpartition("/")[2]}
    for names, placeholder in ((users, "<user>"), ({_read_host(board)}, "<host>")):
        for name in sorted(names - _DEFAULT_NAMES):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", placeholder, text)
    return text


def _read_host(board: Board) -> str:
    """Return the machine's host name, or ""."""
    try:
        return board.read("proc/sys/kernel/hostname", "etc/hostname")
    except OSError:
        return ""
