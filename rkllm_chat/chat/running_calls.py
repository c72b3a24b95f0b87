"""Run tool calls side by side, each in a task of its own, and report what happens in the order in which it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..calls.feedback import fingerprint_call
from ..core.events import Event, ToolFinished, ToolProgress
from ..core.i18n import Words
from ..core.messages import Message, Tool, ToolCall
from ..core.protocols import CallableTools
from .evidence import found_nothing


@dataclass(frozen=True)
class PreparedCall:
    """One call to execute.

    Attributes:
        index: Index among all calls of the reply, unreadable ones included.
        tool: The tool.
        call: The call with its validated arguments.
        number: Position among the readable calls of the reply, from 1; 0 for a call that no reply made.
        remark: What the model is told before the result, if anything.
        fallback: Arguments with which a call that only reads runs once more if it fails or finds nothing, or None.
    """

    index: int
    tool: Tool
    call: ToolCall
    number: int = 0
    remark: str = ""
    fallback: Mapping[str, Any] | None = None

    @property
    def fingerprint(self) -> str:
        """What equal calls of a tool have in common."""
        return fingerprint_call(self.tool.full_name, self.call.arguments)


@dataclass
class RunningCalls:
    """The started calls of one reply, each in its own task. The owner must call `aclose`.

    Attributes:
        started: Calls in the order of their start.
        results: Result messages by index in the reply.
        stopped_after_s: Seconds that each stopped call ran, by index in the reply.
    """

    started: list[PreparedCall] = field(default_factory=list[PreparedCall])
    results: dict[int, Message] = field(default_factory=dict[int, Message])
    stopped_after_s: dict[int, float] = field(default_factory=dict[int, float])
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    _happened: asyncio.Queue[Event | None] = field(default_factory=asyncio.Queue)

    def start(self, run: PreparedCall, toolbox: CallableTools) -> None:
        task = asyncio.create_task(self._run(run, toolbox), name=f"call of {run.tool.full_name}")
        # runs also for a task that is cancelled before it starts
        task.add_done_callback(lambda _: self._happened.put_nowait(None))
        self.started.append(run)
        self._tasks.append(task)

    async def stream_events(self) -> AsyncGenerator[Event, None]:
        """Yield progress and results of the started calls until the last one has ended."""
        open_runs = len(self._tasks)
        while open_runs:
            event = await self._happened.get()
            if event is None:
                open_runs -= 1
            else:
                yield event
        # a tool that fails is a result, so an exception is a fault of ours
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    def describe_stopped(self, index: int, placeholder: Message, words: Words, was_refused: bool) -> Message:
        """Return the message of a call that has no result: the time that it ran, or that it did not run.

        Args:
            index: Its index in the reply.
            placeholder: The message of a call that was stopped.
            words: The sentences for the model.
            was_refused: Whether the user ended the turn at a question about a call.
        """
        result = placeholder.result
        if result is None or result.status != "stopped":
            return placeholder
        if seconds := self.stopped_after_s.get(index):
            return replace(placeholder, result=replace(result, seconds=seconds))
        if not was_refused or any(run.index == index for run in self.started):
            return placeholder
        text = words("prompt.declined")
        return replace(placeholder, text=text, result=replace(result, text=text, decline_reason="user"))

    async def aclose(self) -> None:
        """Cancel running calls and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, run: PreparedCall, toolbox: CallableTools) -> None:
        tool = run.tool

        def on_progress(progress: float, total: float | None, message: str) -> None:
            self._happened.put_nowait(ToolProgress(tool.server, tool.name, progress, total, message, run.number))

        started_at = time.monotonic()
        try:
            result = await toolbox.call(tool, run.call.arguments, on_progress)
            if run.fallback is not None and (result.status == "failed" or found_nothing(result)):
                result = await toolbox.call(tool, run.fallback, on_progress)
        except asyncio.CancelledError:
            self.stopped_after_s[run.index] = time.monotonic() - started_at
            raise
        if run.remark:
            moved = len(run.remark) + 1
            media = tuple(replace(medium, position=medium.position + moved) for medium in result.media)
            result = replace(result, text=f"{run.remark}\n{result.text}", media=media)
        shown = tuple(media for media in result.media if media.kind != "file" and not media.user_only)
        self.results[run.index] = Message("tool", result.text, result, media=shown)
        self._happened.put_nowait(ToolFinished(result, run.number))
