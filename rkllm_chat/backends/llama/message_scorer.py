"""How probable a message of the user is behind each of several prompts, in a context of its own beside the chat's.

The beginnings of the prompts stay evaluated: the next message costs only its own tokens behind each of them. Those of
the first messages are written into a file, for the next start of the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
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

_MAX_GROUP = 8
"""How many prompts are evaluated before it is asked whether to end."""


@dataclass(frozen=True)
class ScoredPrompt:
    """A prompt whose end is scored.

    Attributes:
        beginning: Its tokens before the message; at least one.
        message: The tokens of the message.
    """

    beginning: tuple[int, ...]
    message: tuple[int, ...]


@dataclass(frozen=True)
class _Row:
    """A token that is evaluated at a position of a sequence, the one behind it, and the number of its prompt."""

    token: int
    position: int
    sequence: int
    following: int | None = None
    number: int = 0


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
            is_stopped: Whether to end, asked before each batch.

        Raises:
            GenerationError: A prompt is too long.
            RuntimeError: The engine failed or was aborted.
        """
        beginnings = [*dict.fromkeys(prompt.beginning for prompt in prompts)]
        self._load(beginnings)
        try:
            for group in _group(prompts):
                if is_stopped():
                    return
                for score in self._score(group):
                    emit(MessageScore(score))
        finally:  # what a limit of time has left over need not be evaluated again by the next start
            self._save(beginnings)

    def close(self) -> None:
        """Free the context."""
        import llama_cpp

        self._batch.close()
        llama_cpp.llama_free(self._context)

    def _score(self, group: Sequence[ScoredPrompt]) -> list[float]:
        """Return the scores of prompts that fit into the context together and have different beginnings."""
        try:
            self._keep_beginnings(group)
            scores = [0.0] * len(group)
            rows = [row for number, prompt in enumerate(group) for row in self._list_rows(prompt, number)]
            for logprob, row in zip(self._evaluate(rows), rows, strict=True):
                scores[row.number] += logprob
            return scores
        finally:  # also of a batch that was aborted
            for prompt in group:
                self._cut_off(prompt.beginning)

    def _list_rows(self, prompt: ScoredPrompt, number: int) -> Iterator[_Row]:
        """Yield what is evaluated of a prompt whose beginning is kept.

        The last token of the beginning is evaluated again, because its logits predict the first token of the message.
        The last token of the message is not: its logits would predict what comes after the message.
        """
        sequence, start = self._kept[prompt.beginning], len(prompt.beginning) - 1
        tokens = (*prompt.beginning[start:], *prompt.message)
        for position, (token, following) in enumerate(pairwise(tokens), start):
            yield _Row(token, position, sequence, following, number)

    def _keep_beginnings(self, group: Sequence[ScoredPrompt]) -> None:
        """Evaluate the beginnings of prompts, up to their last tokens."""
        new = [prompt.beginning for prompt in group if prompt.beginning not in self._kept]
        used = sum(map(len, (*self._kept, *new))) + sum(len(prompt.message) for prompt in group)
        if used > _CONTEXT_TOKENS or len(self._kept) + len(new) > _MAX_PROMPTS:
            self._forget()
            new = [prompt.beginning for prompt in group]
        for beginning in new:
            sequence = len(self._kept)
            rows = [_Row(token, position, sequence) for position, token in enumerate(beginning[:-1])]
            for _ in self._evaluate(rows):
                pass
            self._new_tokens += len(beginning)
            self._kept[beginning] = sequence

    def _cut_off(self, beginning: tuple[int, ...]) -> None:
        """Remove what is evaluated behind a beginning, or of one that is not kept."""
        import llama_cpp

        sequence, length = self._kept.get(beginning, len(self._kept)), len(beginning) - 1
        kept = length if beginning in self._kept else 0
        llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self._context), sequence, kept, -1)

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
            mark_complete(path, memoryview(buffer)[:written])
            return bool(written)

        self._files.save(_join(kept), write, size)

    def _forget(self) -> None:
        import llama_cpp

        self._kept.clear()
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)

    def _evaluate(self, rows: Sequence[_Row]) -> Iterator[float]:
        """Evaluate tokens; yield the log-probability of the token that follows each one, 0 where there is none."""
        import llama_cpp

        batch = self._batch.batch
        for first in range(0, len(rows), _BATCH_TOKENS):
            part = rows[first : first + _BATCH_TOKENS]
            batch.n_tokens = len(part)
            for index, row in enumerate(part):
                batch.token[index], batch.pos[index] = row.token, row.position
                batch.n_seq_id[index], batch.seq_id[index][0] = 1, row.sequence
                batch.logits[index] = row.following is not None
            if status := llama_cpp.llama_decode(self._context, batch):
                raise RuntimeError(f"llama_decode returned {status}")
            for index, row in enumerate(part):
                yield 0.0 if row.following is None else self._read_logprob(index, row.following)

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


def _group(prompts: Iterable[ScoredPrompt]) -> Iterator[list[ScoredPrompt]]:
    """Yield the prompts in groups that fill a batch, of different beginnings; a message of 8 tokens takes half as long.

    Raises:
        GenerationError: A prompt is too long.
    """
    group: list[ScoredPrompt] = []
    for prompt in prompts:
        needed = len(prompt.beginning) + len(prompt.message)
        if needed > _CONTEXT_TOKENS:
            message = f"A tool and the message are {needed} tokens long, the context holds {_CONTEXT_TOKENS}."
            raise GenerationError(message, needed=needed, available=_CONTEXT_TOKENS)
        together = [*group, prompt]
        tokens = sum(len(each.beginning) + len(each.message) for each in together)
        # a beginning alone is prepared while the engine is idle: a message of the user waits for one at most
        most = _MAX_GROUP if prompt.message else 1
        is_full = sum(len(each.message) for each in together) > _BATCH_TOKENS or len(together) > most
        if group and (is_full or tokens > _CONTEXT_TOKENS or prompt.beginning in [each.beginning for each in group]):
            yield group
            together = [prompt]
        group = together
    if group:
        yield group
