"""Keep what the NPU runtime has evaluated in files: beginnings of prompts, and conversations beside their sessions.

Only for the history "client" and prompts that are rendered here: elsewhere the runtime's KV cache is not known to the
token. A file is worth it where loading it is faster than evaluating, by what both took last.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from ...config.loader import state_folder
from ...core.errors import GenerationError
from ...core.messages import Message
from ..shared.prompt_cache_files import MAX_FILES, PromptCacheFiles
from .prompt_planners import RenderedPromptPlanner
from .runtime import Runtime

_MIN_LOADED_TOKENS = 64
"""Minimum number of tokens to load from a file: a board loaded one in 190 ms, and evaluated 338 tokens a second."""
_REMEMBERED_BEGINNINGS = 8
"""How many beginnings are remembered; one that returns among them is worth a file."""

log = logging.getLogger(__name__)


class KeptPrompts:
    """The files of one model. What uses the runtime is called on the thread that communicates with the worker."""

    def __init__(
        self, runtime: Runtime, planner: RenderedPromptPlanner, model: Path, engine: str, uses_lora: bool, is_on: bool
    ) -> None:
        """Describe the files of a model.

        Args:
            runtime: The runtime with the model.
            planner: Knows what is in its KV cache.
            model: The model file.
            engine: Differs for everything whose files cannot be read here.
            uses_lora: Whether runs use an adapter.
            is_on: Whether beginnings and conversations are kept; else only what `keep_beginnings` asks for.
        """
        self._runtime, self._planner, self._model, self._engine = runtime, planner, model, engine
        self._uses_lora, self._keeps_conversations = uses_lora, is_on
        self._files = self._open_files() if is_on else None
        self._beginnings: deque[str | list[int]] | None = None
        self._loaded_prefix: str | list[int] = ""
        self._resumed: Path | None = None
        self._load_s = 0.0

    def _open_files(self, folder: Path | None = None, max_files: int = MAX_FILES) -> PromptCacheFiles:
        """Return the files of evaluated prompt beginnings in a folder."""
        return PromptCacheFiles(folder or state_folder() / "prompt-caches", self._model, self._engine, max_files)

    def forget_loaded(self) -> None:
        """Record that the KV cache has nothing of a file any more."""
        self._loaded_prefix = ""

    def resume_conversation(self, folder: Path) -> None:
        """Use the prompt cache in a folder for the next prompt that begins with it."""
        self._resumed = folder if self._keeps_conversations else None

    def keep_beginnings(self) -> None:
        """Keep system text and tools of several conversations, as soon as they return.

        A client whose system text has the time, so that it never returns, costs no file. `PromptCacheFiles` limits
        their number and size.
        """
        if not self._files:
            self._files, self._beginnings = self._open_files(), deque(maxlen=_REMEMBERED_BEGINNINGS)

    def keep_conversation(self, folder: Path, prompt: Sequence[Message], stop: Event, tokens_per_s: float) -> None:
        """Write the prompt cache of a conversation into a folder, where that saves time.

        The size of the file is known only when it is written, so one that took longer than the evaluation is removed.

        Args:
            folder: The folder.
            prompt: A prompt that goes on with a user message.
            stop: Ends the run.
            tokens_per_s: Measured speed of prefill; 0.0 if unknown.

        Raises:
            GenerationError: The runtime failed.
        """
        if not (self._keeps_conversations and self._runtime.is_ready):
            return
        planner, files = self._planner, self._open_files(folder, 1)
        prefix = planner.stable_prefix(prompt, is_new=True)
        missing = planner.count_new_tokens(prefix)
        known = planner.count(planner.system_prefix(prompt))
        evaluated = planner.count(prefix) - missing - known
        evaluation_s = evaluated / tokens_per_s if tokens_per_s else 0.0
        if missing > _MIN_LOADED_TOKENS or evaluation_s < self._load_s or evaluated < _MIN_LOADED_TOKENS:
            return
        started_at = time.monotonic()
        files.save(prefix, lambda path: self.evaluate(prefix, stop, missing, str(path)) is not None)
        path = files.find(prefix)
        if path and time.monotonic() - started_at + self._load_s > evaluation_s:
            files.remove(path)

    def evaluate(self, prefix: str | list[int], stop: Event, new_tokens: int, save_cache: str = "") -> int | None:
        """Evaluate the beginning of a prompt, of which `new_tokens` tokens are assumed to be new.

        Returns the number of evaluated tokens; None if it was stopped.
        """
        # the library has no call that only evaluates: one token is generated and dropped
        summary = self._runtime.run(
            len(prefix),
            lambda *_: True,
            stop,
            prompt=prefix,
            lora=self._uses_lora,
            max_new_tokens=1,
            save_cache=save_cache,
        )
        is_stopped = summary is None or stop.is_set()
        return None if is_stopped or summary is None else int(summary.figures.get("prefill_tokens", new_tokens))

    def load_prefix(self, prompt: Sequence[Message], stop: Event, tokens_per_s: float) -> int:
        """Load the evaluated beginning of the prompt from a file, or evaluate it and write the file, where that pays.

        Returns the number of evaluated tokens. Arguments as for `keep_conversation`.
        """
        if self._files is None:
            return 0
        planner = self._planner
        prefix, evaluated = planner.system_prefix(prompt), 0
        if self._resumed and self._load_conversation(self._resumed, prompt):
            self._resumed, self._loaded_prefix = None, prefix
        if prefix == self._loaded_prefix:
            return 0
        self._loaded_prefix = prefix  # also without a file the cache begins with it, after this run
        least = max(_MIN_LOADED_TOKENS, self._load_s * tokens_per_s)
        if planner.count_new_tokens(prefix) < least or self._is_new(prefix):
            return 0
        started_at = time.monotonic()

        def write(path: Path) -> bool:
            nonlocal evaluated
            tokens = self.evaluate(prefix, stop, planner.count_new_tokens(prefix), str(path))
            evaluated = tokens or 0
            return tokens is not None

        path = self._files.find(prefix)
        try:
            if path:
                self._runtime.execute_command("load_cache", path=str(path))
                self._load_s = time.monotonic() - started_at
            else:
                self._files.save(prefix, write)
            self._loaded_prefix = "" if stop.is_set() else prefix
            planner.record_prefill(self._loaded_prefix)
        except GenerationError as error:  # the cache only saves time; the conversation continues without it
            log.warning("prompt cache %s: %s", path, error)
            if path:
                self._files.remove(path)
            self._files = None
        return evaluated

    def _load_conversation(self, folder: Path, prompt: Sequence[Message]) -> bool:
        """Load what a folder has of a prompt; return whether it has anything that was loaded."""
        files = self._open_files(folder, 1)
        full = self._planner.write_prompt(prompt)
        path, length = files.find_longest(full)
        if path is None:
            return False
        started_at = time.monotonic()
        try:
            self._runtime.execute_command("load_cache", path=str(path))
        except GenerationError as error:  # it only saves time
            log.warning("prompt cache %s: %s", path, error)
            files.remove(path)
            return False
        self._load_s = time.monotonic() - started_at
        self._planner.record_prefill(full[:length])
        return True

    def _is_new(self, prefix: str | list[int]) -> bool:
        """Return whether a beginning comes for the first time, where one that does not return is worth no file."""
        if self._beginnings is None or prefix in self._beginnings:
            return False
        self._beginnings.append(prefix)
        return True
