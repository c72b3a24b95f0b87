"""A text of any length becomes a summary: in parts that fit the context, and then the summaries are summed up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ...chat import Backend
from ...errors import GenerationError
from ...messages import Message
from ..turns import Say
from .model import Model

ASK = "Sum up the text you are given in a few sentences, in its own language. Keep names, numbers and decisions."
READ_SHARE = 2
SUMMARY_SHARE = 8
MOST_PARTS = 64


@dataclass(frozen=True)
class Summary:
    """`parts`: in how many pieces the text was read. `complete`: no summary was cut off."""

    text: str
    parts: int
    complete: bool


async def sum_up(model: Model, backend: Backend, text: str, say: Say) -> Summary:
    """Raises GenerationError, also where the text has more than MOST_PARTS parts."""

    def count(piece: str) -> int:
        return backend.count_tokens([Message("user", piece)])

    limit, most = backend.context_tokens // READ_SHARE, backend.context_tokens // SUMMARY_SHARE
    parts = await asyncio.to_thread(split, text, limit, count)
    read, complete = len(parts), True
    while True:
        summaries: list[str] = []
        for number, part in enumerate(parts, 1):
            told = name_part(say, f"part {number} of {len(parts)}") if len(parts) > 1 else say
            reply = await model.write(backend, model.make_prompt(backend, part, ASK), told, most)
            summaries.append(reply.text)
            complete = complete and not reply.usage.hit_limit
        if len(summaries) == 1:
            return Summary(summaries[0], read, complete)
        shorter = await asyncio.to_thread(split, "\n".join(summaries), limit, count)
        if len(shorter) >= len(parts):
            raise GenerationError("The summaries of the parts are no shorter than the parts.")
        parts = shorter


def name_part(say: Say, name: str) -> Say:
    """What is said of one part, said of the whole."""
    return lambda text: say(f"{name}: {text}")


def split(text: str, limit_tokens: int, count: Callable[[str], int]) -> list[str]:
    """The text in pieces of at most `limit_tokens`, cut at white space where there is any. Raises GenerationError."""
    tokens = max(1, count(text))
    if tokens > MOST_PARTS * limit_tokens:
        most = MOST_PARTS * limit_tokens
        raise GenerationError(f"The text is {tokens} tokens long; at most {most} can be summed up with this context.")
    usual = max(1, len(text) * limit_tokens // tokens)
    pieces: list[str] = []
    while text:
        size = min(usual, len(text))
        while size > 1 and (tokens := count(text[:size])) > limit_tokens:
            size = max(1, min(size - 1, size * limit_tokens // tokens))
        if size < len(text):
            space = max(text.rfind(mark, size // 2, size) for mark in (" ", "\n"))
            size = space + 1 if space >= 0 else size
        pieces.append(text[:size])
        text = text[size:]
    return pieces
