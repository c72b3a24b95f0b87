"""Show a server's form on the terminal of a one-shot command, whose standard output is for its document alone.

Nothing of the chat is imported before a server asks: most tools never do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from io import FileIO

    from ...mcp_client.protocol.dialog import AskForm

_TERMINAL = "/dev/tty"
_MAX_LINE_BYTES = 1 << 16


def find_form_terminal(server: str) -> AskForm | None:
    """Return what answers the forms of a server; None without a user: input and error must be a terminal."""
    return partial(_ask_form, server) if os.isatty(0) and os.isatty(2) else None


def _ask_form(server: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the user for the answers to `elicitation/create`, and return them in the form of the protocol."""
    import asyncio

    from mcp_types import ElicitRequestParams
    from pydantic import TypeAdapter, ValidationError

    from ...chat.elicitation import Elicitation
    from ...core import i18n

    try:
        asked: Any = TypeAdapter(ElicitRequestParams).validate_python(params, by_name=False)
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except (ValidationError, OSError):
        return {"action": "decline"}
    with open(terminal, "rb+", buffering=0) as file:
        result = asyncio.run(Elicitation(_TerminalUser(file), i18n.load())(server, asked))
    return result.model_dump(by_alias=True, exclude_none=True, mode="json")


class _TerminalUser:
    """The user at the terminal, as `Elicitation` asks. A page is shown for the user to open: this command waits."""

    can_open_browser = False

    def __init__(self, terminal: FileIO) -> None:
        self._terminal = terminal

    async def confirm(self, question: str) -> bool:
        return (await self.ask_line(question, "") or "").lower() in ("y", "yes")

    async def ask_line(self, question: str, default: str, _choices: Sequence[str] = ()) -> str | None:
        """Ask for a line; `default` for an empty one, None for Ctrl+D."""
        self._write(f"{question}[{default}] " if default else question)
        line = self._terminal.readline(_MAX_LINE_BYTES).decode("utf-8", errors="replace")
        return (line.strip() or default) if line else None

    def show_message(self, text: str) -> None:
        self._write(f"{text}\n")

    show_untruncated = show_message

    async def open_page(self, url: str) -> None:
        """Do nothing; no browser is offered."""

    def _write(self, text: str) -> None:
        from ...core.sanitize import sanitize_for_terminal

        self._terminal.write(sanitize_for_terminal(text).encode())
