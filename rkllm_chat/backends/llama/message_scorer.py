"""How probable a message of the user is behind each of several prompts, in a context of its own beside the chat's.

The beginnings of the prompts stay evaluated: the next message costs only its own tokens behind each of them. Those of
the first messages are written into a file, for the next start of the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import GenerationError
from ..base import MessageScore
from ..shared.prompt_cache_files import MIN_TOKENS, PromptCacheFiles
from ..shared.thread_stream import Emit
from .state_cache import describe_engine, mark_complete, read_complete

_CONTEXT_TOKENS = 4096
"""Tokens that are kept at once, of all prompts together: 115 MB with Qwen2.5 1.5B."""
_MAX_PROMPTS = 64
"""How many prompts are kept."""
_BATCH_TOKENS = 64
"""Tokens that are evaluated at once. llama.cpp keeps the logits of each: 39 MB with a vocabulary of 152,000."""


@dataclass(frozen=True)
class ScoredPrompt:
    """A prompt whose end is scored.

    Attributes:
        beginning: Its tokens before the message; at least one.
        message: The tokens of the message.
    """

    beginning: tuple[int, ...]
    message: tuple[int, ...]


class LlamaMessageScorer:
    """A context that scores messages with the weights of an engine."""

    def __init__(self, engine: Any, abort_callback: Any, model: Path, folder: Path | None) -> None:
        """Create the context.

        Args:
            engine: The engine; it must be closed after this.
            abort_callback: Asked by llama.cpp whether to abort; must live as long as this.
            model: The file of its model.
            folder: Folder for evaluated beginnings; None if no files are written.

        Raises:
            GenerationError: llama.cpp cannot create the context.
        """
        import llama_cpp
        from llama_cpp import _internals

        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = _CONTEXT_TOKENS, _BATCH_TOKENS, _BATCH_TOKENS
        params.n_seq_max, params.kv_unified = _MAX_PROMPTS, True
        params.n_threads, params.n_threads_batch = engine.n_threads, engine.n_threads_batch
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO
        self._context: Any = llama_cpp.llama_init_from_model(engine.model, params)
        if not self._context:
            hint = "A smaller context_tokens needs less memory."
            raise GenerationError("llama.cpp cannot create a context to compare tools.", hint)
        self._batch: Any = _internals.LlamaBatch(n_tokens=_BATCH_TOKENS, embd=0, n_seq_max=1, verbose=False)
        self._vocabulary_size: int = engine.n_vocab()
        self._kept: dict[tuple[int, ...], int] = {}  # sequence of each beginning
        self._new_tokens = 0  # evaluated since the last file
        shape = f"{describe_engine(engine)} {_CONTEXT_TOKENS} {_MAX_PROMPTS}"
        self._files = PromptCacheFiles(folder, model, shape) if folder else None
        llama_cpp.llama_set_abort_callback(self._context, abort_callback, None)

    def use_threads(self, number: int) -> None:
        """Evaluate with so many threads from now on."""
        import llama_cpp

        llama_cpp.llama_set_n_threads(self._context, number, number)

    def score(self, prompts: Sequence[ScoredPrompt], emit: Emit[MessageScore], is_stopped: Callable[[], bool]) -> None:
        """Emit a score of the message of each prompt.

        Args:
            prompts: The prompts.
            emit: Receives the scores.
            is_stopped: Whether to end, asked before each prompt.

        Raises:
            GenerationError: A prompt is too long.
            RuntimeError: The engine failed or was aborted.
        """
        beginnings = [*dict.fromkeys(prompt.beginning for prompt in prompts)]
        self._load(beginnings)
        try:
            for prompt in prompts:
                if is_stopped():
                    return
                emit(MessageScore(self._score(prompt)))
        finally:  # what a limit of time has left over need not be evaluated again by the next start
            self._save(beginnings)

    def close(self) -> None:
        """Free the context."""
        import llama_cpp

        self._batch.close()
        llama_cpp.llama_free(self._context)

    def _score(self, prompt: ScoredPrompt) -> float:
        needed = len(prompt.beginning) + len(prompt.message)
        if needed > _CONTEXT_TOKENS:
            message = f"A tool and the message are {needed} tokens long, the context holds {_CONTEXT_TOKENS}."
            raise GenerationError(message, needed=needed, available=_CONTEXT_TOKENS)
        try:
            sequence = self._keep_beginning(prompt)
            # the last token of the beginning again: its logits are those of the first one of the message
            start = len(prompt.beginning) - 1
            tokens = (*prompt.beginning[start:], *prompt.message) if prompt.message else ()
            return self._evaluate(tokens, sequence, start, is_scored=True)
        finally:  # also of a batch that was aborted
            self._cut_off(prompt.beginning)

    def _cut_off(self, beginning: tuple[int, ...]) -> None:
        """Remove what is evaluated behind a beginning, or of one that is not kept."""
        import llama_cpp

        sequence, length = self._kept.get(beginning, len(self._kept)), len(beginning) - 1
        kept = length if beginning in self._kept else 0
        llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self._context), sequence, kept, -1)

    def _keep_beginning(self, prompt: ScoredPrompt) -> int:
        """Return the sequence that holds the beginning of a prompt, up to its last token."""
        if (known := self._kept.get(prompt.beginning)) is not None:
            return known
        used = sum(map(len, self._kept)) + len(prompt.beginning) + len(prompt.message)
        if used > _CONTEXT_TOKENS or len(self._kept) == _MAX_PROMPTS:
            self._forget()
        sequence = len(self._kept)
        self._evaluate(prompt.beginning[:-1], sequence, 0, is_scored=False)
        self._new_tokens += len(prompt.beginning)
        self._kept[prompt.beginning] = sequence
        return sequence

    def _load(self, beginnings: Sequence[tuple[int, ...]]) -> None:
        """Load the file of the most of these beginnings, from the first on, if nothing is kept yet."""
        import llama_cpp

        if self._kept or not self._files or sum(map(len, beginnings)) < MIN_TOKENS:
            return
        path, length = self._files.find_longest(_join(beginnings))
        known = next((number for number in range(len(beginnings) + 1) if len(_join(beginnings[:number])) == length), 0)
        if not (path and known):
            return
        data = read_complete(path)
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        if data and llama_cpp.llama_state_set_data(self._context, buffer, len(data)) == len(data):
            self._kept = {beginning: sequence for sequence, beginning in enumerate(beginnings[:known])}
        else:
            self._forget()
            self._files.remove(path)

    def _save(self, beginnings: Sequence[tuple[int, ...]]) -> None:
        """Write a file of what is kept, if it is these beginnings, from the first on, and has many new tokens."""
        import llama_cpp

        kept = [*self._kept]
        if not self._files or self._new_tokens < MIN_TOKENS or kept != [*beginnings[: len(kept)]]:
            return
        self._new_tokens = 0
        size: int = llama_cpp.llama_state_get_size(self._context)

        def write(path: Path) -> bool:
            buffer = (ctypes.c_uint8 * size)()
            written = llama_cpp.llama_state_get_data(self._context, buffer, size)
            mark_complete(path, bytes(memoryview(buffer)[:written]))
            return bool(written)

        self._files.save(_join(kept), write, size)

    def _forget(self) -> None:
        import llama_cpp

        self._kept.clear()
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)

    def _evaluate(self, tokens: Sequence[int], sequence: int, start: int, *, is_scored: bool) -> float:
        """Evaluate tokens at a position of a sequence; return how probable all but the first one are."""
        import llama_cpp

        score = 0.0
        for first in range(0, len(tokens), _BATCH_TOKENS):
            part = tokens[first : first + _BATCH_TOKENS]
            self._fill_batch(part, sequence, start + first, is_scored)
            if status := llama_cpp.llama_decode(self._context, self._batch.batch):
                raise RuntimeError(f"llama_decode returned {status}")
            if is_scored:
                followed_by = tokens[first + 1 : first + 1 + len(part)]
                score += sum(self._read_logprob(index, token) for index, token in enumerate(followed_by))
        return score

    def _fill_batch(self, tokens: Sequence[int], sequence: int, start: int, is_scored: bool) -> None:
        batch = self._batch.batch
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index], batch.pos[index] = token, start + index
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
            batch.logits[index] = is_scored

    def _read_logprob(self, index: int, token: int) -> float:
        """Return how probable a token is behind one of the batch."""
        import llama_cpp
        import numpy

        found = llama_cpp.llama_get_logits_ith(self._context, index)
        logits = numpy.ctypeslib.as_array(found, (self._vocabulary_size,))
        greatest = logits.max()
        return float(logits[token] - greatest - numpy.log(numpy.exp(logits - greatest).sum()))


def _join(beginnings: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the tokens of several beginnings, each behind a number that no token has."""
    return [token for beginning in beginnings for token in (-1, *beginning)]
