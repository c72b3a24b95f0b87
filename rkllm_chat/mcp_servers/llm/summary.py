"""Summarize texts of any length: split them, summarize the parts, then the summaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from ...backends.base import Backend
from ...core.errors import GenerationError
from ...core.messages import Message
from ..job_queue import ReportActivity
from .model import LocalModel

_INSTRUCTION = (
    "Sum up the text you are given in a few sentences, in its own language. Keep names, numbers and decisions."
)
_PART_DIVISOR = 2
_SUMMARY_DIVISOR = 8
_MAX_PARTS = 64


@dataclass(frozen=True)
class TextSummary:
    """A summary.

    Attributes:
        parts: Number of parts the text was split into.
        complete: False if a summary was truncated at its token limit.
    """

    text: str
    parts: int
    complete: bool


async def summarize_text(model: LocalModel, backend: Backend, text: str, say: ReportActivity) -> TextSummary:
    """Summarize a text.

    Args:
        model: Generates the summaries.
        backend: The backend from `model.acquire_backend`.
        text: The text, which may exceed the context.
        say: Receives the progress.

    Raises:
        GenerationError: The text has more than _MAX_PARTS parts, or the summaries do not get shorter.
    """

    def count(piece: str) -> int:
        anyio.from_thread.check_cancelled()
        return backend.count_tokens([Message("user", piece)])

    limit, most = backend.context_tokens // _PART_DIVISOR, backend.context_tokens // _SUMMARY_DIVISOR
    # a cancelled call waits for the end of the thread: an engine must not be closed while it counts
    parts = await anyio.to_thread.run_sync(split_text, text, limit, count)
    part_count, complete = len(parts), True
    while True:
        summaries: list[str] = []
        for number, part in enumerate(parts, 1):
            report = _name_part(say, f"part {number} of {len(parts)}") if len(parts) > 1 else say
            reply = await model.generate(backend, model.make_prompt(backend, part, _INSTRUCTION), report, most)
            summaries.append(reply.text)
            complete = complete and not reply.usage.is_cut
        if len(summaries) == 1:
            return TextSummary(summaries[0], part_count, complete)
        shorter = await anyio.to_thread.run_sync(split_text, "\n".join(summaries), limit, count)
        if len(shorter) >= len(parts):
            raise GenerationError("The summaries of the parts are no shorter than the parts.")
        parts = shorter


def _name_part(say: ReportActivity, name: str) -> ReportActivity:
    """Return a progress callback that prefixes messages with the part's name."""
    return lambda text: say(f"{name}: {text}")


def split_text(text: str, limit_tokens: int, count: Callable[[str], int]) -> list[str]:
    """Split a text into parts of at most `limit_tokens`, at white space if possible.

    Raises:
        GenerationError: There would be more than _MAX_PARTS parts.
    """
    tokens = max(1, count(text))
    if tokens > _MAX_PARTS * limit_tokens:
        most = _MAX_PARTS * limit_tokens
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
