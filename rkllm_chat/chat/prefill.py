"""What it costs to read a prompt: its estimate, the speed that was measured, and the prefill while idle.

The time is learned: the tokens per second of the last prompts of similar length, per model on this machine. The prefill
is best effort: any other request to the engine takes precedence (see `Backend.prefill`), and nothing runs once the
engine has the prompt cached.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import nsmallest
from statistics import median
from typing import NamedTuple

from ..core.errors import ChatError
from ..core.events import Usage
from ..core.messages import Message
from ..core.protocols import Notify
from ..storage.local_statistics import Measurements
from .context import add_tool_signatures, build_prompt, compute_prompt_budget, native_tools_of
from .conversation import Conversation
from .tool_likelihood import prepare_tools

MAX_SAMPLES = 50
"""Samples of short prefills that are kept, and of long ones."""
_LONG_TOKENS = 100
"""A shorter prefill takes longer for each token, so it says nothing of a long one."""
_SIMILAR_SAMPLES = 3
"""An estimate is the median of so many samples, so one prefill on a busy machine does not change it."""
_SHORT_CONTEXT_TOKENS = 512
"""Up to so many tokens before it, the speed of a prefill does not depend on them."""
_MIN_SECONDS, _MAX_FIGURE = 1e-6, 1e9
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CostEstimate:
    """Estimate for a prompt.

    Attributes:
        total_tokens: Tokens of the prompt.
        budget_tokens: Token budget of the prompt; if it is exceeded, older turns are dropped first and `cached_tokens`
            is unknown.
        cached_tokens: Tokens in the KV cache; None if unknown.
        prefill_s: Time to the first token; 0.0 if unknown.
    """

    total_tokens: int
    budget_tokens: int
    cached_tokens: int | None = None
    prefill_s: float = 0.0

    @property
    def new_tokens(self) -> int | None:
        """Tokens to prefill; None if unknown."""
        return None if self.cached_tokens is None else self.total_tokens - self.cached_tokens

    @property
    def is_within_budget(self) -> bool:
        return self.total_tokens <= self.budget_tokens


def estimate_cost(chat: Conversation, text: str, speed: PrefillSpeed) -> CostEstimate:
    """Estimate the prompt with a new message, built as the turn builds it; an empty text adds no tool signatures.

    Raises:
        ChatError: The chat template accepts no user message now.
    """
    question = [Message("user", text)]
    added = add_tool_signatures(chat, question) if text else question
    prompt = build_prompt(chat, [*chat.visible_messages, *added])
    total, budget = chat.backend.count_tokens(prompt), compute_prompt_budget(chat)
    cached = chat.backend.count_cached_tokens(prompt) if total <= budget else None
    if cached is None:
        return CostEstimate(total, budget)
    cached = min(cached, total - 1)  # the last token is always evaluated
    return CostEstimate(total, budget, cached, speed.estimate_s(total - cached, cached))


class _Sample(NamedTuple):
    """A measured prefill: new tokens, cached tokens before them, and seconds."""

    new_tokens: int
    cached_tokens: int
    seconds: float


class PrefillSpeed:
    """Prefill speed of a model, stored among the measurements of this machine."""

    _KIND = "read"

    def __init__(self, model: str = "", measurements: Measurements | None = None) -> None:
        """Read the samples of earlier sessions; without `measurements` nothing is read or stored."""
        self._model, self._measurements = model, measurements
        rows = measurements.read_value(self._KIND, model) if measurements else None
        self._samples = _keep_newest(filter(None, map(_parse_sample, rows if isinstance(rows, list) else ())))

    @property
    def sample_count(self) -> int:
        """Number of samples."""
        return len(self._samples)

    def record(self, usage: Usage) -> None:
        """Record the prefill of a reply; one without tokens or without a time is ignored."""
        if not (sample := _parse_sample([usage.prefilled_tokens, usage.reused_tokens, round(usage.prefill_s, 4)])):
            return
        self._samples = _keep_newest([*self._samples, sample])
        if self._measurements:
            self._measurements.write_value(self._KIND, self._model, self._samples)

    def tokens_per_s(self, cached: int, new: int = 1024) -> float:
        """Return the prefill speed of `new` tokens after `cached` tokens in the cache; 0.0 without fitting samples."""
        samples = [sample for sample in self._samples if new < _LONG_TOKENS or sample.new_tokens >= _LONG_TOKENS]
        if not samples:
            return 0.0
        length, depth = _size_of(new, cached)

        def distance(sample: _Sample) -> int:
            sample_length, sample_depth = _size_of(sample.new_tokens, sample.cached_tokens)
            return abs(sample_length - length) + abs(sample_depth - depth)

        similar = nsmallest(_SIMILAR_SAMPLES, reversed(samples), distance)  # of equal ones the newest
        return median(sample.new_tokens / sample.seconds for sample in similar)

    def estimate_s(self, new: int, cached: int = 0) -> float:
        """Estimate the seconds to prefill `new` tokens after `cached` tokens in the cache; 0.0 without samples."""
        speed = self.tokens_per_s(cached, new)
        return max(0, new) / speed if speed else 0.0


def _keep_newest(samples: Iterable[_Sample]) -> list[_Sample]:
    """Return the newest samples of short prefills, and those of long ones."""
    kept = list(samples)
    short = [sample for sample in kept if sample.new_tokens < _LONG_TOKENS]
    return short[-MAX_SAMPLES:] + [sample for sample in kept if sample.new_tokens >= _LONG_TOKENS][-MAX_SAMPLES:]


def _size_of(new: int, cached: int) -> tuple[int, int]:
    """Return the size of a prefill and its position in the context, in powers of two."""
    return new.bit_length(), max(_SHORT_CONTEXT_TOKENS, cached + new // 2).bit_length()


def _parse_sample(row: object) -> _Sample | None:
    """Return a sample of a stored row; None for an invalid one."""
    match row:
        case [int(new), int(cached), int(seconds) | float(seconds)]:
            is_valid = 0 < new < _MAX_FIGURE and 0 <= cached < _MAX_FIGURE and _MIN_SECONDS < seconds < _MAX_FIGURE
            return _Sample(new, cached, seconds) if is_valid else None
    return None


class Prefiller:
    """Idle-time prefill of a chat. Call `start` whenever the prompt may have changed and `close` at the end.

    An error of the engine is shown to the user; the next turn works without the prefill. What it costs is recorded, so
    that the time of the first message is known.
    """

    def __init__(
        self, chat: Conversation, is_wanted: bool, notify: Notify, record: Callable[[Sequence[Usage]], None]
    ) -> None:
        self._chat, self._is_wanted, self._notify, self._record = chat, is_wanted, notify, record
        self._pauses = 0
        self._prompt: list[Message] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
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
        # here, because `start` cannot wait
        await _cancel(previous)
        chat = self._chat
        try:
            if chat.backend.count_tokens(prompt) > compute_prompt_budget(chat):  # turns will be dropped first
                return
            cached, started_at = chat.backend.count_cached_tokens(prompt) or 0, time.monotonic()
            tokens = await chat.backend.prefill(prompt, native_tools_of(chat))
            if not self._pauses:
                await prepare_tools(chat)
        except ChatError as error:
            self._notify(chat.words("chat.prefill_failed", error=error), "warning")
            return
        except Exception:  # the turn that needs the prompt will meet the same error and report it
            _log.warning("The idle-time prefill failed.", exc_info=True)
            return
        chat.prefilled_tokens += tokens
        if tokens >= _LONG_TOKENS:
            self._record([Usage(0, cached, tokens, prefill_s=time.monotonic() - started_at)])
        _log.debug("Prefilled %d tokens while idle.", tokens)


async def _cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end."""
    if task:
        # not `await task`, which would raise its cancellation here
        task.cancel()
        await asyncio.wait([task])
