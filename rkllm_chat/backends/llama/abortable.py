"""llama.cpp that can be stopped while it evaluates a prompt, and whose prompts may contain pictures and sounds.

A reply that is expected is evaluated in one batch: speculative decoding with the expected tokens as the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import llama_cpp
import numpy

if TYPE_CHECKING:
    from .media_projector import MediaProjector

_NEVER = llama_cpp.ggml_abort_callback()
_MAX_DRAFT_TOKENS = 64
"""Tokens of a draft in one batch, at most; the logits of each are kept."""
_MAX_UNINTERRUPTED_TOKENS = 16
"""Up to this many tokens are evaluated without asking whether to abort."""


class _Draft:
    """What a reply is expected to be; `Llama.generate` asks for the rest of it, and gets it while the reply agrees."""

    def __init__(self, start: int, tokens: Sequence[int]) -> None:
        """Expect tokens behind a prompt that ends at `start`."""
        self.start, self._tokens = start, list(tokens)

    def __call__(self, input_ids: Any) -> Any:
        written: list[int] = input_ids[self.start :].tolist()
        rest = self._tokens[len(written) :] if written == self._tokens[: len(written)] else []
        return numpy.asarray(rest[:_MAX_DRAFT_TOKENS], dtype=numpy.intc)


class AbortableLlama(llama_cpp.Llama):  # type: ignore[misc]  # the package's types are not read
    """`llama_cpp.Llama` whose evaluation can be aborted.

    Attributes:
        n_tokens: Number of tokens in the KV cache.
        extra_buffers: Whether weights may be rearranged for the processor.
        projector: Evaluates pictures and sounds, which are negative token ids; None if the model understands none.
    """

    n_tokens: int
    projector: MediaProjector | None = None
    _callback: Any = _NEVER

    def __init__(self, extra_buffers: bool, path: str, **options: Any) -> None:
        """Load a model; options as for `llama_cpp.Llama`.

        Args:
            extra_buffers: Whether llama.cpp may rearrange weights for the processor.
            path: The GGUF.
            options: As for `llama_cpp.Llama`.
        """
        self.extra_buffers = extra_buffers
        super().__init__(path, **options)

    @property
    def model_params(self) -> Any:
        """Parameters of the model; the constructor of llama-cpp-python 0.3.36 has no argument for extra buffers."""
        self._model_params.use_extra_bufts = self.extra_buffers
        return self._model_params

    @model_params.setter
    def model_params(self, params: Any) -> None:
        self._model_params = params

    @property
    def context_params(self) -> Any:
        """Parameters of the context, with flash attention wherever the engine supports it (its `auto`).

        The constructor of llama-cpp-python 0.3.36 can only force it or turn it off; it reads this to create the
        context.
        """
        self._context_params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO
        return self._context_params

    @context_params.setter
    def context_params(self, params: Any) -> None:
        self._context_params = params

    def set_abort_callback(self, callback: Any) -> None:
        """Set the abort callback for evaluating prompts; it must live as long as the engine.

        llama.cpp calls it before each step of its graph, hundreds of times a token, and each call takes Python's lock.
        """
        self._callback = callback

    def use_threads(self, number: int) -> None:
        """Evaluate with so many threads from now on, or fewer where a batch is set to fewer."""
        self._ctx.set_n_threads(min(number, self.n_threads), min(number, self.n_threads_batch))

    def eval(self, tokens: Sequence[int]) -> None:
        """Evaluate a prompt or a token.

        Raises:
            RuntimeError: The engine failed or was aborted.
        """
        callback = self._callback if len(tokens) > _MAX_UNINTERRUPTED_TOKENS else _NEVER
        llama_cpp.llama_set_abort_callback(self.ctx, callback, None)
        try:
            start = 0
            while start < len(tokens):
                end = self._find_batch_end(tokens, start)
                self._eval_batch(tokens[start:end])
                start = end
        except RuntimeError:  # part of an aborted batch is in the KV cache
            if not self._can_truncate():
                self.clear_kv_cache()
            raise

    def evaluate_prompt(self, tokens: Sequence[int], is_ended: Callable[[], bool] = lambda: False) -> None:
        """Evaluate a prompt from where it differs from the KV cache; `is_ended` can end it between two batches."""
        self._truncate_to(self.count_cached_prefix(tokens))
        while self.n_tokens < len(tokens) and not is_ended():
            self.eval(tokens[self.n_tokens : self._find_batch_end(tokens, self.n_tokens)])

    def generate(
        self, tokens: Sequence[int], draft: Sequence[int] = (), **options: Any
    ) -> Generator[int, Sequence[int] | None, None]:
        """Generate tokens after a prompt.

        Args:
            tokens: The prompt.
            draft: What the reply may be. Once its first token has been sampled, the others are evaluated in one batch;
                each is sampled as ever, and where one differs, the rest of the batch is discarded.
            options: As for `Llama.generate`, which knows nothing of positions.
        """
        self.draft_model = _Draft(len(tokens), draft) if len(draft) > 1 and self._can_discard() else None
        common_length = self.count_cached_prefix(tokens)
        # a state that was loaded has no logits to sample from, although it has all tokens
        is_ready = common_length == len(tokens) == self.n_tokens and not self._requires_eval
        self._truncate_to(common_length if is_ready else min(common_length, len(tokens) - 1))
        yield from super().generate(tokens, **options)

    def count_cached_prefix(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens are in the KV cache."""
        cached = self.input_ids[: self.n_tokens].tolist()
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(tokens, cached, strict=False)))

    def set_cached_tokens(self, tokens: Sequence[int]) -> None:
        """Record tokens that came into the KV cache without being evaluated here."""
        self.input_ids[: len(tokens)] = tokens
        self.n_tokens = len(tokens)
        self._requires_eval = True

    def truncate(self, number: int) -> bool:
        """Truncate the KV cache to its first tokens; return whether it has these alone now, else it is as it was."""
        if number < self.n_tokens and self._can_truncate():
            self._truncate_to(number)
        return self.n_tokens == number

    def clear_kv_cache(self) -> None:
        self.reset()
        # `reset` of llama-cpp-python 0.3.36 forgets how many tokens there are and leaves their cells
        self._ctx.kv_cache_seq_rm(-1, 0, -1)

    def _eval_batch(self, tokens: Sequence[int]) -> None:
        """Evaluate up to `n_batch` tokens, or one chunk of a picture or sound."""
        position = self._find_position(self.n_tokens)
        # behind an aborted batch and a discarded draft are cells that `n_tokens` does not count
        self._ctx.kv_cache_seq_rm(-1, position, -1)
        if tokens[0] < 0 and self.projector:
            self.projector.evaluate(tokens[0], position)
        else:
            is_draft = self.draft_model is not None and self.n_tokens >= self.draft_model.start
            # each token of a draft is compared with what is sampled there; of a prompt only the last logits are used
            self._batch.set_batch(batch=tokens, n_past=position, logits_all=is_draft)
            self._ctx.decode(self._batch)
        self.input_ids[self.n_tokens : self.n_tokens + len(tokens)] = tokens
        self.n_tokens += len(tokens)
        self._requires_eval = False

    def _find_batch_end(self, tokens: Sequence[int], start: int) -> int:
        """Return the index behind the tokens that are evaluated together with the one at `start`."""
        if tokens[start] < 0 and self.projector:
            return start + self.projector.count_tokens(tokens[start])
        size = self.n_batch if start or len(tokens) <= self.n_batch else 32  # small, to know the speed soon
        limit = min(len(tokens), start + size)
        return next((index for index in range(start, limit) if tokens[index] < 0), limit)

    def _find_position(self, index: int) -> int:
        """Return the position in the sequence of the token at an index."""
        return index - (self.projector.count_saved_positions(self.input_ids[:index]) if self.projector else 0)

    def _truncate_to(self, number: int) -> None:
        """Truncate the KV cache before a prompt is evaluated; clear it where it cannot be truncated."""
        if number < self.n_tokens:
            is_truncated = self._ctx.kv_cache_seq_rm(-1, self._find_position(number), -1)
            self.n_tokens = number
            self._requires_eval = True
            if not is_truncated:
                self.clear_kv_cache()

    def _can_discard(self) -> bool:
        """Return whether the last tokens can be discarded, whose number `Llama.generate` takes for their position."""
        return self._can_truncate() and not self.projector

    def _can_truncate(self) -> bool:
        """Return whether the KV cache can be truncated; recurrent states cannot."""
        return not (llama_cpp.llama_model_is_recurrent(self.model) or llama_cpp.llama_model_is_hybrid(self.model))
