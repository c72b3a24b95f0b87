"""llama.cpp that evaluates a draft of the next tokens together with the last one, and keeps what it would have written.

Each token is sampled from its own logits, one after the other, as without a draft: a grammar, penalties and a seed work
as ever, and a draft decides only how many tokens are evaluated at once. Where two tokens are as good as equal, rounding
may choose the other one: of several tokens llama.cpp gives the very logits that it gives of a prompt, of one alone some
that differ by up to 1 % of their range (measured). `Llama.generate` of llama-cpp-python 0.3.36 does the comparing; its
own drafts want the logits of the whole context, which for a large vocabulary are gigabytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import llama_cpp
import numpy

from .llama_lookup import Lookup, Pace

NEVER = llama_cpp.ggml_abort_callback()
LONGEST_UNASKED = 16
"""Tokens: so few are evaluated without asking whether to go on."""


class DraftingLlama(llama_cpp.Llama):  # type: ignore[misc]  # the package's types are not read
    """`llama_cpp.Llama` that generates with drafts once `draft_with` was called."""

    n_tokens: int
    _callback: Any = NEVER
    _drafted = 0
    _seconds = 0.0

    def draft_with(self, lookup: Lookup | None, pace: Pace, end: int) -> None:
        """What is generated next is drafted so; `end` is how many tokens there may be at most, prompt included."""
        known = self._drafted = 0

        def draft(tokens: Any) -> Any:
            nonlocal known
            assert lookup is not None
            if known:
                pace.note(self._drafted > 0, len(tokens) - known, self._seconds)
            known = len(tokens)
            found = lookup.draft(tokens, end - known - 1 if pace.is_worth_a_draft else 0)
            self._drafted = len(found)
            return numpy.array(found, dtype=numpy.intc)

        self.draft_model = draft if lookup and self._can_take_back() else None

    def heed(self, callback: Any) -> None:
        """Asks whether to go on while a prompt is evaluated; `callback` must live as long as the engine.

        llama.cpp asks before each step of its graph, hundreds of times a token, and each time takes Python's lock.
        """
        self._callback = callback

    def eval(self, tokens: Sequence[int]) -> None:
        """Evaluates a prompt, a token, or a token and its draft."""
        begun = time.perf_counter()
        asks = self._callback if len(tokens) > LONGEST_UNASKED else NEVER
        llama_cpp.llama_set_abort_callback(self.ctx, asks, None)
        try:
            if self._drafted:
                self.eval_draft(tokens)
            else:
                super().eval(tokens)
        except RuntimeError:  # of a batch that was stopped, part is in the memory
            if not self._can_take_back():
                self.forget()
            raise
        self._seconds = time.perf_counter() - begun

    def read(self, tokens: Sequence[int], is_ended: Callable[[], bool] = lambda: False) -> None:
        """Evaluates a prompt from where it parts from what is held; between two batches it may be ended."""
        self._drafted = 0
        same = self.count_same(tokens)
        if same < self.n_tokens:
            self.n_tokens = same
            if not self._ctx.kv_cache_seq_rm(-1, same, -1):
                self.forget()
        while self.n_tokens < len(tokens) and not is_ended():
            self.eval(tokens[self.n_tokens : self.n_tokens + self.n_batch])

    def count_same(self, tokens: Sequence[int]) -> int:
        """How many of the tokens are held."""
        held = self.input_ids[: self.n_tokens].tolist()
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(tokens, held, strict=False)))

    def hold(self, tokens: Sequence[int]) -> None:
        """Notes what came into the engine's memory without being evaluated here."""
        self.input_ids[: len(tokens)] = tokens
        self.n_tokens = len(tokens)
        self._requires_eval = True

    def forget(self) -> None:
        """Holds nothing any more."""
        self.reset()
        self._ctx.kv_cache_seq_rm(-1, 0, -1)

    def keep(self, number: int) -> None:
        """Forgets what is evaluated behind so many tokens: a draft that was not written."""
        if self.n_tokens > number:
            self._ctx.kv_cache_seq_rm(-1, number, -1)
            self.n_tokens = number
            self._requires_eval = True  # the last logits are not those of the last token

    def eval_draft(self, tokens: Sequence[int]) -> None:
        """Evaluates all at once, for the logits of each."""
        self._ctx.kv_cache_seq_rm(-1, self.n_tokens, -1)
        self._batch.set_batch(batch=tokens, n_past=self.n_tokens, logits_all=True)
        # llama.cpp gives a batch more threads than a token, and they spin: on a busy machine a draft took 0.1 s
        self._ctx.set_n_threads(self.n_threads, self.n_threads)
        try:
            self._ctx.decode(self._batch)
        finally:
            self._ctx.set_n_threads(self.n_threads, self.n_threads_batch)
        self.input_ids[self.n_tokens : self.n_tokens + len(tokens)] = tokens
        self.n_tokens += len(tokens)
        self._requires_eval = False

    def _can_take_back(self) -> bool:
        """A state that only runs forward cannot."""
        model = self.model
        return not (llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model))
