"""What the line that is typed would cost, counted beside the typing: a few times a second, and in short steps.

The talk is counted once for each of its states and the typed text alone. All of it happens between two keys on the
loop, because another thread could still count while the model is closed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable

from .attach import as_sent
from .budget import LONGEST_TOKEN
from .clean import clean_line
from .commands import is_command
from .desk import Desk
from .errors import ChatError, GenerationError
from .forecast import Forecast, Ground, count_tools, state_of, survey
from .typed import is_written, mend

SOON_S = 0.05
"""The key is drawn before its price is counted."""
PAUSE_S = 0.25
AGAIN_S, LATEST_S = 1.0, 60.0
"""The engine may be reading ahead: until it holds all, that is looked at after a second, then two, then four."""
STEP = 2000
"""Characters that are counted at once: about a millisecond."""
MOST_COUNTED = 500
"""Steps whose tokens are remembered, so that a long text is counted once and then where it changes."""

log = logging.getLogger(__name__)


class Price:
    """`look` gives what is known of a text, and has it counted if it is new; `refresh` is called when that is done."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh
        self._text = ""
        self._forecast: Forecast | None = None
        self._counting: asyncio.Task[None] | None = None
        self._state: Hashable = None
        self._ground: Ground | None = None
        self._due: float | None = None
        self._wait_s = AGAIN_S
        self._counted: dict[str, int] = {}

    def look(self, desk: Desk | None, text: str) -> Forecast | None:
        """What is known of sending this now; that of the text before while it is counted, None for no message."""
        if desk is None or desk.replay or not text:
            self._text, self._forecast = "", None
        elif text != self._text:
            self._text = text
            if self._counting is None:
                self._counting = asyncio.get_running_loop().create_task(self._count_on(desk))
        return self._forecast

    def close(self) -> None:
        if self._counting:
            self._counting.cancel()

    async def _count_on(self, desk: Desk) -> None:
        """Counts what is typed until nothing changes any more."""
        counted = ""
        try:
            await asyncio.sleep(SOON_S)
            while text := self._text:
                if text != counted or self._is_due:
                    forecast = await self._foresee(desk, text)
                    self._forecast, counted = forecast if self._text else None, text
                    self._refresh()
                await asyncio.sleep(PAUSE_S)
                if text == self._text and (self._forecast is None or self._due is None):
                    break
        finally:
            self._counting = None

    @property
    def _is_due(self) -> bool:
        return self._due is not None and time.monotonic() >= self._due

    async def _foresee(self, desk: Desk, line: str) -> Forecast | None:
        """None for what is no message, or cannot be counted cheaply."""
        if (
            is_switching(desk)
            or len(line) > desk.backend.context_tokens * LONGEST_TOKEN
            or line.startswith("!")
            or is_command(line)
        ):
            return None
        try:
            text = as_sent(desk, mend(line).strip().removeprefix("/")) if is_written(line) else None
            if text is None:
                return None
            ground = self._survey(desk)
            tokens = await self._count(desk, ground, text)
            tokens += count_tools(desk.chat, ground, text, tokens)
        except ChatError as error:
            log.debug("no price: %s", clean_line(str(error)))
            return None
        return ground.foresee(tokens, desk.speed)

    def _survey(self, desk: Desk) -> Ground:
        """The talk as it stands, counted anew where something has changed or may have."""
        state, ground = state_of(desk.chat), self._ground
        is_same = state == self._state
        if ground is None or not is_same or self._is_due:
            ground = self._ground = survey(desk.chat)
            self._wait_s = min(LATEST_S, 2 * self._wait_s) if is_same else AGAIN_S
            self._due = None if ground.is_held else time.monotonic() + self._wait_s
            self._counted = self._counted if is_same else {}
            self._state = state
        return ground

    async def _count(self, desk: Desk, ground: Ground, text: str) -> int:
        """The tokens of a message. A long one is counted in steps, which may be some tokens more than it has."""
        if len(text) <= STEP:
            return desk.chat.count_text(text)
        tokens = ground.frame
        for start in range(0, len(text), STEP):
            step = text[start : start + STEP]
            if step not in self._counted:
                await asyncio.sleep(0)
                if is_switching(desk):
                    raise GenerationError("The model is being closed.")
                if len(self._counted) >= MOST_COUNTED:
                    self._counted.clear()
                self._counted[step] = desk.chat.count_text(step) - ground.frame
            tokens += self._counted[step]
        return tokens


def is_switching(desk: Desk) -> bool:
    """Whether the model is being closed; one that is must not be asked anything."""
    return desk.switching is not None and not desk.switching.done()
