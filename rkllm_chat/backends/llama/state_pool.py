"""Keep the states of several conversations in memory, so that each continues from its own when they alternate.

The engine has one sequence. Before a prompt replaces most of it, its state is copied out; the copy that shares most
with a prompt is copied in. The least recently used copies are dropped beyond a limit; of a state that is larger than
the limit, the beginning is kept that fits.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from ..shared.prompt_tokens import common_prefix

_MIN_TOKENS = 32
"""Fewer tokens are evaluated faster than they are copied."""


@dataclass(frozen=True, eq=False)
class _State:
    """A copied state. `tokens`: what was evaluated."""

    tokens: list[int]
    data: Any
    size: int


class StatePool:
    """The copied states of one engine.

    Attributes:
        fits_current: Whether the whole state that was in the engine behind the last reply may be copied.
    """

    def __init__(self, engine: Any, limit_bytes: int) -> None:
        """Create an empty pool.

        Args:
            engine: The engine.
            limit_bytes: Maximum size of all copies together.
        """
        self._engine, self._limit_bytes = engine, limit_bytes
        self._states: list[_State] = []  # the least recently used first
        self.fits_current = True

    def measure_current(self) -> None:
        """Find out whether the current state fits, on the engine's thread."""
        self.fits_current = self._measure_size() <= self._limit_bytes

    def switch_to(self, tokens: list[int]) -> None:
        """Copy in the state that shares most with a prompt, and copy out the current one if it would be lost."""
        cached: int = self._engine.count_cached_prefix(tokens)
        best = max(self._states, key=lambda state: len(common_prefix(state.tokens, tokens)), default=None)
        is_better = best is not None and len(common_prefix(best.tokens, tokens)) >= cached + _MIN_TOKENS
        if self._engine.n_tokens >= cached + _MIN_TOKENS:
            self._copy_out(cached)
        if best and is_better:
            self._copy_in(best)

    def _copy_out(self, cached: int) -> None:
        """Copy the current state, or as much of its beginning as the pool may hold.

        Args:
            cached: Number of tokens that the next prompt reuses, which stay in the engine.
        """
        import llama_cpp

        size = self._measure_size()
        if size > self._limit_bytes:
            # the rest is lost anyway: a prompt follows that does not have it; a picture cannot be cut in two
            fitting = self._engine.n_tokens * self._limit_bytes // size - _MIN_TOKENS
            is_worth = fitting >= cached + _MIN_TOKENS and not self._engine.projector
            if not (is_worth and self._engine.truncate(fitting)):
                return
            size = self._measure_size()
        tokens: list[int] = self._engine.input_ids[: self._engine.n_tokens].tolist()
        # the new copy has all that a copy of its beginning has
        self._states = [state for state in self._states if tokens[: len(state.tokens)] != state.tokens]
        while self._states and sum(state.size for state in self._states) + size > self._limit_bytes:
            self._states.pop(0)
        if size > self._limit_bytes:
            return
        data = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data(self._engine.ctx, data, size, 0) == size:
            self._states.append(_State(tokens, data, size))

    def _measure_size(self) -> int:
        """Return the size of the current state in bytes."""
        import llama_cpp

        return int(llama_cpp.llama_state_seq_get_size(self._engine.ctx, 0))

    def _copy_in(self, state: _State) -> None:
        """Replace the current state by a copy; if that fails, the KV cache is empty."""
        import llama_cpp

        self._states = [*(other for other in self._states if other is not state), state]
        self._engine.clear_kv_cache()
        if llama_cpp.llama_state_seq_set_data(self._engine.ctx, state.data, state.size, 0):
            self._engine.set_cached_tokens(state.tokens)
        else:
            self._engine.clear_kv_cache()
