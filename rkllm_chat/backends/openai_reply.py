"""One reply of an OpenAI-compatible service while it comes: what may be shown of it, and what it cost. It is pure."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ..events import Usage
from .openai_answers import Chunk, number_at
from .openai_requests import Request, show_call
from .stops import Stops

AFTER_S = 2.0
"""How long the figures behind the end of a reply are waited for."""


@dataclass
class Reply:
    """One reply while it comes. Times are of the monotonic clock; `pieces` counts the chunks that said something."""

    request: Request
    prompt_tokens: int
    room: int
    stops: Stops
    calls: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    text: list[str] = field(default_factory=list[str])
    pieces: int = 0
    is_thinking: bool = False
    ended: str = ""
    told: dict[str, Any] = field(default_factory=dict[str, Any])
    begun: float = field(default_factory=time.monotonic)
    first: float = 0.0
    last: float = 0.0
    over: float = 0.0

    def take(self, chunk: Chunk) -> str:
        """Notes a chunk; gives what of it may be shown. Thoughts are written as models write them."""
        now = time.monotonic()
        if chunk.says:
            self.first, self.last = self.first or now, now
            self.pieces += 1
        for part in chunk.calls:
            call = self.calls.setdefault(part.index, ["", ""])
            call[0] = call[0] or part.name
            call[1] += part.arguments
        for name, figures in (("usage", chunk.usage), ("timings", chunk.timings)):
            self.told |= {name: figures} if figures else {}
        if chunk.ended and not self.ended:
            self.ended, self.over = chunk.ended, now
        return self._say(self._mark_thought(chunk) + self.stops.feed(chunk.text))

    def find_limit(self, first_s: float, between_s: float) -> float:
        """How long the next chunk may take. What comes behind the end is waited for a little while only."""
        if self.ended:
            return max(0.0, self.over + AFTER_S - time.monotonic())
        return between_s if self.pieces else first_s

    @property
    def is_over(self) -> bool:
        """It would go on, but nobody wants more of it: it ended, goes round in circles, or is full."""
        return bool(self.stops.ending) or self.pieces > self.room

    def close(self) -> str:
        """What was held back, and the native calls as text."""
        rest = ("</think>\n\n" if self.is_thinking else "") + self.stops.close()
        names = self.request.tools
        calls = (show_call(names.get(name, name), arguments) for _, (name, arguments) in sorted(self.calls.items()))
        return self._say(rest + "".join(calls))

    def _mark_thought(self, chunk: Chunk) -> str:
        before = ""
        if chunk.thought and not self.is_thinking:
            before, self.is_thinking = "<think>", True
        elif self.is_thinking and (chunk.text or chunk.calls):
            before, self.is_thinking = "</think>\n\n", False
        return before + chunk.thought

    def _say(self, text: str) -> str:
        """The text, and before the first one what the prompt's end has written of the reply."""
        if not text:
            return ""
        lead = "" if self.text else self.request.thought
        self.text.append(text)
        return lead + text

    def usage(self) -> Usage:
        """The service's own figures where it gives them, else what was counted and timed here."""
        prompt, cached = self.prompt_told, self.cached_told or 0
        prompt = self.prompt_tokens if prompt is None else prompt
        first, last = self.first or time.monotonic(), self.last or time.monotonic()
        prefill_ms, generate_ms = (number_at(self.told, "timings", f"{what}_ms") for what in ("prompt", "predicted"))
        return Usage(
            prompt_tokens=prompt,
            reused_tokens=min(prompt, cached),
            prefilled_tokens=prompt - min(prompt, cached),
            generated_tokens=self.generated,
            prefill_s=first - self.begun if prefill_ms is None else prefill_ms / 1000,
            generate_s=last - first if generate_ms is None else generate_ms / 1000,
            first_token_s=first - self.begun,
            hit_limit=self.ended == "length" or self.stops.ending == "circle" or self.pieces > self.room,
        )

    @property
    def prompt_told(self) -> int | None:
        told = number_at(self.told, "usage", "prompt_tokens")
        new = number_at(self.told, "timings", "prompt_n")
        return (self.cached_told or 0) + new if told is None and new is not None else told

    @property
    def generated(self) -> int:
        told = number_at(self.told, "usage", "completion_tokens")
        told = number_at(self.told, "timings", "predicted_n") if told is None else told
        return self.pieces if told is None else told

    @property
    def cached_told(self) -> int | None:
        cached = number_at(self.told, "usage", "prompt_tokens_details", "cached_tokens")
        return number_at(self.told, "timings", "cache_n") if cached is None else cached
