"""Keep what llama.cpp has evaluated of prompts: in memory, and in files for the next start of the program.

In order of time: before a prompt is evaluated, `restore` brings back what is kept of it. If its system text and tools
should have a file and have none, `save_beginning` evaluates them first and writes it. Behind the reply
`measure_current` finds out whether its conversation would be kept if another one came now. At the end of a session
`keep_conversation` writes a file beside it, which `resume` names to the next program.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..shared.prompt_cache_files import MIN_TOKENS
from .state_cache import LlamaStateCache
from .state_pool import StatePool

MIN_PREFILL_TOKENS = 16
"""Minimum number of tokens to prefill; fewer are not worth waking the cores."""


class KeptPrompts:
    """The states of one engine. What uses the engine is called on its thread."""

    def __init__(self, engine: Any, model: Path, folder: Path | None) -> None:
        """Keep nothing in memory yet.

        Args:
            engine: The engine.
            model: The file of its model.
            folder: Folder for beginnings of prompts; None if no files are written.
        """
        self._engine = engine
        self._files = LlamaStateCache(folder, model, engine) if folder else None
        self._pool: StatePool | None = None
        self._resumed: Path | None = None
        self._evaluated_tokens, self._evaluation_s = 0, 0.0

    @property
    def loses_current(self) -> bool:
        """Whether the state of the last prompt is not kept when another one replaces it, or not all of it."""
        return not (self._pool and self._pool.fits_current)

    def limit_memory(self, limit_bytes: int) -> None:
        """Keep the states of several conversations in memory, up to a size; 0 keeps none."""
        self._pool = StatePool(self._engine, limit_bytes) if limit_bytes else None

    def measure_current(self) -> None:
        """Find out whether the current state would be kept.

        Now, because `loses_current` is read on another thread, where the engine must not be used.
        """
        if self._pool:
            self._pool.measure_current()

    def resume(self, folder: Path) -> None:
        """Use the state in a folder for the next prompt that begins with it."""
        self._resumed = folder

    def record_speed(self, tokens: int, seconds: float) -> None:
        """Record how fast a prompt was evaluated; a few tokens say little of many."""
        if tokens >= MIN_PREFILL_TOKENS and seconds > 0:
            self._evaluated_tokens += tokens
            self._evaluation_s += seconds

    def count_cached(self, tokens: list[int]) -> int:
        """Return how many tokens of the prompt are in the KV cache; the last one is always evaluated again."""
        # a KV cache has no logits, and the first token of the reply is sampled from those of the prompt's last one
        same: int = self._engine.count_cached_prefix(tokens[:-1])
        return same

    def restore(self, tokens: list[int], render_beginning: Callable[[], list[int]] | None = None) -> list[int]:
        """Bring back what is kept of a prompt: from memory, and from a file where that saves many tokens.

        Args:
            tokens: The prompt.
            render_beginning: Returns the tokens of its system text and tools; None uses no files.

        Returns:
            The tokens of system text and tools if there is no file of them and there should be one.
        """
        if self._pool:
            self._pool.switch_to(tokens)
        return self._load(self._files, tokens, render_beginning) if self._files and render_beginning else []

    def _load(self, files: LlamaStateCache, tokens: list[int], render_beginning: Callable[[], list[int]]) -> list[int]:
        cached = self.count_cached(tokens)
        if self._resumed:
            if files.load_conversation(self._resumed, tokens, cached + MIN_PREFILL_TOKENS):
                self._resumed = None
            cached = self.count_cached(tokens)
        if len(tokens) - cached < MIN_TOKENS:
            return []
        beginning = render_beginning()
        if len(beginning) - cached < MIN_TOKENS or tokens[: len(beginning)] != beginning:
            return []
        return [] if files.load(beginning) else beginning

    def save_beginning(self, beginning: list[int], should_stop: Callable[[], bool] = lambda: False) -> None:
        """Evaluate a beginning and write it to a file. Raises RuntimeError when the engine is stopped."""
        if self._files and beginning:
            self._engine.evaluate_prompt(beginning, should_stop)
            if self._engine.n_tokens == len(beginning):
                self._files.save(beginning)

    def keep_conversation(self, folder: Path, render: Callable[[], tuple[list[int], list[int]]]) -> bool:
        """Write the state of a prompt into a folder, where it is loaded faster than evaluated.

        Args:
            folder: The folder.
            render: Returns the tokens of a prompt that goes on with a user message, and those of its beginning, which
                the next program has anyway.

        Returns:
            Whether the folder has it now.
        """
        if not (self._files and self._evaluated_tokens):
            return False
        tokens, beginning = render()
        if self._pool:  # an answer in a prompt of its own may have replaced the conversation
            self._pool.switch_to(tokens)
        cached: int = self._engine.count_cached_prefix(tokens)
        evaluated = cached - len(beginning)
        if evaluated <= 0 or not self._engine.truncate(cached):
            return False
        seconds = evaluated * self._evaluation_s / self._evaluated_tokens
        return self._files.save_conversation(folder, tokens[:cached], seconds)
