"""Embeddings of texts in the shapes of OpenAI and Ollama: read requests, compute and write answers."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Literal

from pydantic import BaseModel, Field

from ..backends import Backend
from ..backends.base import TextEmbedder, TextEmbedding
from ..core.errors import GenerationError, NotSupportedError
from ..prompt.budget import MAX_TOKEN_LENGTH
from .errors import ApiError

_MAX_TEXTS = 2048  # of OpenAI's API
_TOKENS_HINT = (
    "Token lists are not supported, because the client's tokens are not those of the model; send texts "
    "(LangChain: check_embedding_ctx_length=False)."
)


class TextsBody(BaseModel):
    """What the bodies of both endpoints have in common; unknown fields are ignored."""

    model: str | None = None
    input: Any
    dimensions: int | None = Field(default=None, ge=1)

    @property
    def texts(self) -> Sequence[str]:
        """The texts of a request that was checked."""
        return [self.input] if isinstance(self.input, str) else self.input

    def check_texts(self) -> None:
        """Raise ApiError unless the input is a text or a list of texts."""
        if not isinstance(self.input, str | list):
            raise ApiError(400, "input: neither a text nor a list of texts.", param="input")
        if not 0 < len(self.texts) <= _MAX_TEXTS:
            message = f"input: {len(self.texts)} texts; 1 to {_MAX_TEXTS} are possible."
            raise ApiError(400, message, param="input")
        for index, text in enumerate(self.texts):
            if not isinstance(text, str):
                message = _TOKENS_HINT if isinstance(text, int | list) else "This is no text."
                raise ApiError(400, f"input.{index}: {message}", param=f"input.{index}")
            if not text:
                raise ApiError(400, f"input.{index}: the text is empty.", param=f"input.{index}")

    def describe(self, model: str, embeddings: Sequence[TextEmbedding]) -> dict[str, Any]:
        """Return the answer.

        Args:
            model: Name of the model for the client.
            embeddings: One for each text, normalized.
        """
        raise NotImplementedError


class EmbeddingBody(TextsBody):
    """Body of `POST /v1/embeddings`."""

    encoding_format: Literal["float", "base64"] | None = None

    def describe(self, model: str, embeddings: Sequence[TextEmbedding]) -> dict[str, Any]:
        """Return the answer in OpenAI's shape."""
        tokens = sum(embedding.tokens for embedding in embeddings)
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": self._encode(embedding.vector)}
                for index, embedding in enumerate(embeddings)
            ],
            "model": model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def _encode(self, vector: Sequence[float]) -> Sequence[float] | str:
        """Return the numbers, or the base64 of them as little-endian float32."""
        if self.encoding_format != "base64":
            return vector
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


class OllamaEmbedBody(TextsBody):
    """Body of `POST /api/embed`; `truncate` is ignored: no text is cut."""

    def describe(self, model: str, embeddings: Sequence[TextEmbedding]) -> dict[str, Any]:
        """Return the answer in Ollama's shape."""
        return {
            "model": model,
            "embeddings": [embedding.vector for embedding in embeddings],
            "prompt_eval_count": sum(embedding.tokens for embedding in embeddings),
        }


class OllamaPromptBody(TextsBody):
    """Body of `POST /api/embeddings`, which Ollama had before `/api/embed`: one text."""

    input: str = Field(alias="prompt")

    def describe(self, _model: str, embeddings: Sequence[TextEmbedding]) -> dict[str, Any]:
        """Return the answer in Ollama's older shape."""
        return {"embedding": embeddings[0].vector}


async def embed_texts(backend: Backend, body: TextsBody) -> list[TextEmbedding]:
    """Return the embedding of each text, of length 1; cancellation stops the engine.

    Raises:
        NotSupportedError: The engine or the model has no embeddings.
        ApiError: The model has other dimensions than those that are requested.
        GenerationError: A text does not fit, or the engine failed.
    """
    if not isinstance(backend, TextEmbedder):
        raise NotSupportedError("This engine has no embeddings.", "Serve an embedding model with llama.cpp.")
    room = backend.context_tokens
    for index, text in enumerate(body.texts):
        if len(text) > room * MAX_TOKEN_LENGTH:  # counting its tokens is pointless
            message = f"Text {index} has {len(text)} characters, the context holds {room} tokens."
            raise GenerationError(message, index=index, available=room)
    embeddings: list[TextEmbedding] = []
    async with aclosing(backend.embed(body.texts)) as items:
        async for item in items:
            if body.dimensions not in (None, len(item.vector)):
                message = f"The embeddings of this model have {len(item.vector)} dimensions and are not shortened."
                raise ApiError(400, message, param="dimensions")
            embeddings.append(TextEmbedding(_normalize(item.vector), item.tokens))
    return embeddings


def _normalize(vector: Sequence[float]) -> list[float]:
    """Return a vector of length 1; one of zeros stays as it is."""
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]
