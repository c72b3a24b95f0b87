"""Prefill the prompt while idle: the engine evaluates the current prompt while the user reads or types.

It is best effort: any other request to the engine takes precedence (see `Backend.prefill`), and nothing runs once the
engine has the prompt cached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..core.errors import ChatError
from ..core.messages import Message
from ..core.protocols import Notify
from .context import build_prompt, compute_prompt_budget, native_tools_of
from .conversation import Conversation

_log = logging.getLogger(__name__)


class Prefiller:
    """Idle-time prefill of a chat. Call `start` whenever the prompt may have changed and `close` at the end.

    An error of the engine is shown to the user; the next turn works without the prefill.
    """

    def __init__(self, chat: Conversation, is_wanted: bool, notify: Notify) -> None:
        self._chat, self._is_wanted, self._notify = chat, is_wanted, notify
        self._pauses = 0
        self._prompt: list[Message] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a prefill is running."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Prefill the current prompt, replacing an earlier request; do nothing while paused."""
        if self._pauses or not self._is_wanted:
            return
        prompt = build_prompt(self._chat)
        if self.is_running and prompt == self._prompt:
            return
        self._prompt = prompt
        self._task = asyncio.ensure_future(self._prefill(prompt, self._task))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause: start nothing before the context ends.

        A running prefill continues until the engine gets another request.
        """
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self.start()

    async def stop(self) -> None:
        """Cancel the running prefill and wait for its end."""
        await _cancel(self._task)

    async def close(self) -> None:
        """Cancel the running prefill and start no more."""
        self._is_wanted = False
        await self.stop()

    async def _prefill(self, prompt: Sequence[Message], previous: asyncio.Task[None] | None) -> None:
        await _cancel(previous)
        chat = self._chat
        try:
            if chat.backend.count_tokens(prompt) > compute_prompt_budget(chat):  # turns will be dropped first
                return
            tokens = await chat.backend.prefill(prompt, native_tools_of(chat))
        except ChatError as error:
            self._notify(chat.words("chat.prefill_failed", error=error), "warning")
            return
        except Exception:  # the turn that needs the prompt will meet the same error and report it
            _log.warning("The idle-time prefill failed.", exc_info=True)
            return
        chat.prefilled_tokens += tokens
        _log.debug("Prefilled %d tokens while idle.", tokens)


async def _cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end."""
    if task:
        task.cancel()
        await asyncio.wait([task])
