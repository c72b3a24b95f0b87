"""Estimate the prompt cost of the input line while the user types.

All counting runs on the event loop, because a thread could still be counting while the model is closed. The tokens of
earlier messages are cached: a prompt of 18,000 tokens is counted in 3 ms, a new text of 32,000 characters in 20 to 50
ms (measured, x86-64).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..backends.unloaded import UnloadedBackend
from ..chat.app import App
from ..chat.attachments import expand_message
from ..chat.cost_estimate import CostEstimate, estimate_cost
from ..core.errors import ChatError
from ..core.sanitize import sanitize_line
from .input_line import has_visible_text, replace_surrogates
from .slash_commands.registry import is_command

_FIRST_COUNT_S = 0.05
"""Delay before the first count, so that the key is drawn first."""
_PAUSE_S = 0.25
_MAX_TEXT_LENGTH = 32_000
"""Maximum length of a text that is counted, in characters; a longer one would delay the keys."""

log = logging.getLogger(__name__)


class CostPreview:
    """Cost preview of the input line; `refresh` is called after each new estimate."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh
        self._text = ""
        self._cost: CostEstimate | None = None
        self._counting: asyncio.Task[None] | None = None

    def update(self, app: App | None, text: str) -> CostEstimate | None:
        """Return the latest estimate for sending `text`; None if it is not a message.

        A new text is counted in the background; meanwhile the previous estimate is returned.
        """
        if app is None or not text:
            self._text, self._cost = "", None
        elif text != self._text:
            self._text = text
            if self._counting is None:
                self._counting = asyncio.get_running_loop().create_task(self._count_loop(app))
        return self._cost

    def close(self) -> None:
        """Stop counting."""
        if self._counting:
            self._counting.cancel()

    async def _count_loop(self, app: App) -> None:
        """Count the input line until neither it nor the cache changes any more."""
        counted, was_prefilling = "", False
        try:
            await asyncio.sleep(_FIRST_COUNT_S)
            while text := self._text:
                is_prefilling = app.prefiller.is_running
                if text != counted or is_prefilling or was_prefilling:
                    self._cost, counted = _estimate(app, text), text
                    self._refresh()
                was_prefilling = is_prefilling
                await asyncio.sleep(_PAUSE_S)
                if text == self._text and (self._cost is None or not is_prefilling):
                    break
        finally:
            self._counting = None


def _estimate(app: App, line: str) -> CostEstimate | None:
    """Return the estimate; None for commands, for text that cannot be counted quickly, and without a loaded model."""
    if (
        isinstance(app.backend, UnloadedBackend)
        or len(line) > _MAX_TEXT_LENGTH
        or line.startswith("!")
        or is_command(line)
        or not has_visible_text(line)
    ):
        return None
    try:
        text = expand_message(app, replace_surrogates(line).strip().removeprefix("/"))
        if text is None or len(text) > _MAX_TEXT_LENGTH:
            return None
        return estimate_cost(app.chat, text, app.prefill_speed)
    except ChatError as error:
        log.debug("no cost estimate: %s", sanitize_line(str(error)))
        return None
