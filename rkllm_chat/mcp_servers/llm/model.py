"""The local model of the llm server: loaded on first use, one reply at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from ...backends import choose_backend, open_backend
from ...backends.base import Backend
from ...calls.scanner import Scanner, ScannerEvent, settle_thoughts
from ...chat.conversation import find_profile
from ...config.settings import Generation, Settings
from ...core import i18n as language
from ...core.errors import GenerationError
from ...core.events import CallFound, CallUnreadable, Notice, Reading, Text, Usage
from ...core.messages import Message
from ..job_queue import Activity, JobQueue, ReportActivity

_SHOWN_CHARS = 60


@dataclass(frozen=True)
class GeneratedReply:
    """A reply without its thoughts, and its token usage."""

    text: str
    usage: Usage


class LocalModel:
    """A backend, loaded on demand, with a queue of callers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.queue = JobQueue()
        self.backend_name = choose_backend(settings)
        self._opening: asyncio.Future[Backend] | None = None

    async def open(self, activity: Activity) -> Backend:
        """Return the backend; loading continues if the caller is cancelled.

        Raises:
            ModelError: The model cannot be loaded; the next call tries again.
        """
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            self._opening = asyncio.ensure_future(asyncio.to_thread(open_backend, self.settings))
            self._opening.add_done_callback(lambda done: done.cancelled() or done.exception())  # mark as retrieved
        if not self._opening.done():
            activity.report("loads the model")
        return await asyncio.shield(self._opening)

    @asynccontextmanager
    async def acquire_backend(self, activity: Activity) -> AsyncIterator[Backend]:
        """Wait in the queue and provide the backend exclusively.

        Raises:
            BusyError: The queue is full.
            ModelError: The model cannot be loaded.
        """
        async with self.queue.wait_turn(activity):
            yield await self.open(activity)

    async def aclose(self) -> None:
        """Close the backend; no call may be running."""
        if self._opening and self._opening.done() and not self._opening.exception():
            await self._opening.result().aclose()

    def make_prompt(self, backend: Backend, text: str, system: str = "") -> list[Message]:
        """Return the messages of a single question with the system prompt of a chat."""
        words = find_profile(backend, self.settings).load_words(language.load(self.settings.language).code)
        return [Message("system", system or self.settings.system or words("prompt.system")), Message("user", text)]

    async def generate(
        self, backend: Backend, prompt: Sequence[Message], report: ReportActivity, max_tokens: int | None = None
    ) -> GeneratedReply:
        """Generate one reply; the caller must hold the turn.

        Cancelling stops the engine and waits for it.

        Args:
            backend: The backend from `acquire_backend`.
            prompt: The messages.
            report: Receives the progress.
            max_tokens: Limits the reply further than the settings do.

        Raises:
            GenerationError: The prompt exceeds the context, or the backend fails.
        """
        generation = self.settings.generation
        generation = replace(generation, max_tokens=min(max_tokens or generation.max_tokens, generation.max_tokens))
        tokens = await anyio.to_thread.run_sync(backend.count_tokens, prompt)
        if tokens >= backend.context_tokens:
            raise GenerationError(f"The prompt is {tokens} tokens long, the context holds {backend.context_tokens}.")
        report(f"reads {tokens} tokens")
        generating = asyncio.create_task(read_stream(backend, prompt, generation, report))
        try:
            return await asyncio.shield(generating)
        except asyncio.CancelledError:
            # anyio cancels repeatedly and would interrupt the stream while it stops the engine
            generating.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([generating])
            raise


async def read_stream(
    backend: Backend, prompt: Sequence[Message], generation: Generation, report: ReportActivity
) -> GeneratedReply:
    """Read the stream of one reply and report its progress."""
    scanner, usage = Scanner(), Usage()
    raw: list[str] = []
    seen: list[ScannerEvent] = []
    async with aclosing(backend.stream(prompt, generation)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, str):
                raw.append(chunk)
                seen += scanner.feed(chunk)
                report(f"writes, {len(raw)} pieces: {''.join(raw[-_SHOWN_CHARS:])[-_SHOWN_CHARS:]}")
            elif isinstance(chunk, Usage):
                usage = chunk
            elif isinstance(chunk, Reading):
                report(f"reads, {chunk.done} of {chunk.total} tokens")
            elif isinstance(chunk, Notice):
                report(chunk.text)
    return GeneratedReply(_read_reply([*seen, *scanner.close()], "".join(raw)), usage)


def _read_reply(seen: Sequence[ScannerEvent], raw: str) -> str:
    """Return the reply without thoughts; the raw text if it contains calls, which are not run here."""
    if any(isinstance(event, CallFound | CallUnreadable) for event in seen):
        return raw.strip()
    return "".join(event.text for event in settle_thoughts(seen) if isinstance(event, Text)).strip()
