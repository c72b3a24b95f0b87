"""Embeddings of texts, in a context of their own beside the chat's, so that its KV cache stays as it is.

The GGUF says how the states of a text's tokens become one vector (pooling). Without pooling it is no embedding model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import GenerationError, NotSupportedError
from ..base import TextEmbedding
from ..shared.thread_stream import Emit

_BATCH_TOKENS = 512
"""Tokens that are evaluated at once where a text can be split: llama.cpp computes the logits of each of them."""


class LlamaEmbedder:
    """A context that computes embeddings with the weights of an engine."""

    def __init__(self, engine: Any, abort_callback: Any) -> None:
        """Create the context.

        Args:
            engine: The engine; it must be closed after this.
            abort_callback: Asked by llama.cpp whether to abort; must live as long as this.

        Raises:
            NotSupportedError: The model has no pooling that makes embeddings.
            GenerationError: llama.cpp cannot create the context.
        """
        import llama_cpp
        from llama_cpp import _internals

        self._engine = engine
        # a context is rounded up, and a model with learned positions has none beyond its own
        self._context_tokens = min(engine.n_ctx(), llama_cpp.llama_model_n_ctx_train(engine.model) or engine.n_ctx())
        pooling = engine.header.get_number("pooling_type")
        known = ("MEAN", "CLS", "LAST", "RANK")
        if pooling not in [getattr(llama_cpp, f"LLAMA_POOLING_TYPE_{name}") for name in known]:
            hint = "Serve an embedding model: a GGUF whose metadata name its pooling_type."
            raise NotSupportedError("The model has no embeddings: its file names no pooling.", hint)
        if pooling == llama_cpp.LLAMA_POOLING_TYPE_RANK:
            raise NotSupportedError("The model is a reranker, which has no embeddings.", "Serve an embedding model.")
        is_causal = engine.header.get_own_flag("attention.causal") is not False
        can_split = is_causal and pooling == llama_cpp.LLAMA_POOLING_TYPE_LAST
        # where tokens attend to later ones, or all of them are pooled, a text is evaluated in one batch
        self._batch_tokens = min(_BATCH_TOKENS, self._context_tokens) if can_split else self._context_tokens
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = self._context_tokens
        params.n_batch = params.n_ubatch = self._batch_tokens
        params.n_threads, params.n_threads_batch = engine.n_threads, engine.n_threads_batch
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO
        params.embeddings = True
        self._context: Any = llama_cpp.llama_init_from_model(engine.model, params)
        if not self._context:
            hint = "A smaller context_tokens needs less memory."
            raise GenerationError("llama.cpp cannot create a context for embeddings.", hint)
        self._batch: Any = _internals.LlamaBatch(n_tokens=self._batch_tokens, embd=0, n_seq_max=1, verbose=False)
        self._width: int = llama_cpp.llama_model_n_embd_out(engine.model)
        llama_cpp.llama_set_abort_callback(self._context, abort_callback, None)

    def embed(self, texts: Sequence[str], emit: Emit[TextEmbedding], is_stopped: Callable[[], bool]) -> None:
        """Emit the embedding of each text.

        Args:
            texts: The texts.
            emit: Receives the embeddings.
            is_stopped: Whether to end, asked before each text.

        Raises:
            GenerationError: A text is too long or has no tokens.
            RuntimeError: The engine failed or was aborted.
        """
        # all are encoded first, so that a text that is too long is an error before anything is computed; 500 texts of
        # 700 tokens took a second to encode, so a client that leaves is noticed here, too
        encoded: list[list[int]] = []
        for index, text in enumerate(texts):
            if is_stopped():
                return
            encoded.append(self._encode(text, index))
        for tokens in encoded:
            if is_stopped():
                return
            emit(TextEmbedding(self._compute(tokens), len(tokens)))

    def close(self) -> None:
        """Free the context."""
        import llama_cpp

        self._batch.close()
        llama_cpp.llama_free(self._context)

    def _encode(self, text: str, index: int) -> list[int]:
        """Return the tokens of a text, with those that the model expects around it."""
        tokens: list[int] = self._engine.tokenize(text.encode("utf-8", errors="replace"), add_bos=True, special=False)
        if not 0 < len(tokens) <= self._context_tokens:
            message = f"Text {index} is {len(tokens)} tokens long, the context holds 1 to {self._context_tokens}."
            raise GenerationError(message, index=index, needed=len(tokens), available=self._context_tokens)
        return tokens

    def _compute(self, tokens: Sequence[int]) -> list[float]:
        import llama_cpp

        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)
        for start in range(0, len(tokens), self._batch_tokens):
            part = tokens[start : start + self._batch_tokens]
            self._batch.set_batch(batch=part, n_past=start, logits_all=True)
            if status := llama_cpp.llama_decode(self._context, self._batch.batch):
                raise RuntimeError(f"llama_decode returned {status}")
        vector: list[float] = llama_cpp.llama_get_embeddings_seq(self._context, 0)[: self._width]
        return vector
