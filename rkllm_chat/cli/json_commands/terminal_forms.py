"""Show a server's form on the terminal of a one-shot command, whose standard output is for its document alone.

Nothing of the chat is imported before a server asks: most tools never do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...mcp_client.protocol.dialog import AskForm

_MAX_LINE_BYTES = 1 << 16


def find_form_terminal(server: str) -> AskForm | None:
    """Return what answers the forms of a server; None without a user: input and error must be a terminal."""
    return partial(_ask_form, server) if has_terminal() else None


def has_terminal() -> bool:
    """Tell whether a user is present: input and error are a terminal."""
    return os.isatty(0) and os.isatty(2)


def _ask_form(server: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the user for the answers to `elicitation/create`, and return them in the form of the protocol."""
    import asyncio

    from mcp_types import ElicitRequestParams
    from pydantic import TypeAdapter, ValidationError

    from ...chat.elicitation import Elicitation
    from ...core import i18n

    try:
        asked: Any = TypeAdapter(ElicitRequestParams).validate_python(params, by_name=False)
    except ValidationError:
        return {"action": "decline"}
    result = asyncio.run(Elicitation(TerminalUser(), i18n.load())(server, asked))
    return result.model_dump(by_alias=True, exclude_none=True, mode="json")


class TerminalUser:
    """The user at the terminal, as `UserPrompts`; standard error shows the questions."""

    @property
    def can_open_browser(self) -> bool:
        """False: a page is shown for the user to open."""
        return False

    async def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question."""
        return (await self.ask_line(question, "") or "").lower() in ("y", "yes")

    async def ask_line(self, question: str, default: str, _choices: Sequence[str] = ()) -> str | None:
        """Ask for a line; `default` for an empty one, None for Ctrl+D."""
        import asyncio

        self._write(f"{question}[{default}] " if default else question)
        loop, is_ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(0, is_ready.set)  # the caller may stop to wait, as when the browser completes a login
        try:
            await is_ready.wait()
        finally:
            loop.remove_reader(0)
        line = os.read(0, _MAX_LINE_BYTES).decode("utf-8", errors="replace")
        return (line.strip() or default) if line else None

    def notify(self, text: str, _level: str = "info") -> None:
        """Show a message."""
        self._write(f"{text}\n")

    show_untruncated = notify

    async def open_page(self, url: str) -> None:
        """Do nothing; no browser is offered."""

    def _write(self, text: str) -> None:
        from ...core.sanitize import sanitize_for_terminal

        sys.stderr.write(sanitize_for_terminal(text))
        sys.stderr.flush()
