"""Progress in a prompt that says nothing of what other clients have in the cache.

The cache is shared. What it has of a prompt shows in how many tokens are evaluated, in how many batches, and by how
much each of them advances; with a padding of the right length one token more changes any of these numbers, also rounded
ones. So a client gets the same steps whatever the cache has: only their times differ, as that of the answer does.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from ..backends.base import StreamItem
from ..core.events import Reading, Sentence

STEP_TOKENS = 64


class PromptProgress:
    """Yields the steps of one prompt."""

    def __init__(self, new_tokens: int) -> None:
        """Start with a prompt.

        Args:
            new_tokens: Its length without the part that the same conversation had before.
        """
        self._total = max(0, new_tokens)
        self._reported = 0
        self._started_at = time.monotonic()

    async def replace_readings(self, items: AsyncGenerator[StreamItem, None]) -> AsyncGenerator[StreamItem, None]:
        """Yield the items of a reply with these steps in place of the engine's."""
        first: list[str] = []  # held for one item: it may open a thought, before the prompt is evaluated
        is_evaluated = False
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Reading):
                    for step in self._advance(item.done / item.total):
                        yield step
                elif is_evaluated or isinstance(item, Sentence):
                    yield item
                elif isinstance(item, str) and not first:
                    first.append(item)
                else:
                    is_evaluated = True
                    for shown in (*self._advance(1.0), *first, item):
                        yield shown
        if not is_evaluated:
            for text in first:
                yield text

    def _advance(self, fraction: float) -> Iterator[Reading]:
        while (done := self._reported + STEP_TOKENS) <= fraction * self._total:
            self._reported = done
            seconds = time.monotonic() - self._started_at
            yield Reading(done, self._total, done / seconds if seconds else 0.0)
