"""The calls of one reply: settled by name, schema, policy and question, run side by side, answered in order.

It knows no model and no server. Whatever happens, every call gets a message for the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .arguments import check
from .config import Settings
from .errors import ChatError
from .events import CallFound, CallGarbled, Event, ToolFinished, ToolProgress, ToolStarted
from .formats import FORMATS
from .language import Words
from .messages import Message, Status, Tool, ToolCall, ToolResult
from .names import find_tools, nearest_names

if TYPE_CHECKING:
    from .chat import Toolbox

Verdict = Literal["run", "refused", "declined", "stopped"]
Permit = Callable[[Tool, Mapping[str, Any]], Awaitable[Verdict]]
OnProgress = Callable[[float, "float | None", str], None]


@dataclass(frozen=True)
class Run:
    """One call that may run, and where it stands in the reply."""

    index: int
    tool: Tool
    call: ToolCall


def first_remarks(calls: Sequence[CallFound | CallGarbled], settings: Settings, words: Words) -> list[Message]:
    """What the model is told of each call as long as none has been run: stopped, or why it could not be read."""
    return [
        stopped(found.call, words) if isinstance(found, CallFound) else garbled(found, settings, words)
        for found in calls
    ]


async def run_calls(
    calls: Sequence[CallFound | CallGarbled],
    toolbox: Toolbox,
    words: Words,
    permit: Permit,
    remarks: list[Message],
) -> AsyncGenerator[Event, None]:
    """Runs the calls and yields what happens; each result takes the place of its first remark.

    When the reader walks away, the tools are cancelled and the remarks of their calls stay as they were. A call that
    is "stopped" ends it too: none of the reply's calls is run then.
    """
    runs: list[Run] = []
    for index, found in enumerate(calls):
        if isinstance(found, CallGarbled):
            continue
        settled = await settle(found.call, toolbox.tools, words, permit)
        if isinstance(settled, ToolResult):
            remarks[index] = Message("tool", settled.text, settled)
            yield ToolFinished(settled)
            if settled.status == "stopped":
                return
        else:
            tool, call = settled
            runs.append(Run(index, tool, call))
    for run in runs:
        yield ToolStarted(run.tool.server, run.tool.name, run.call)
    async with aclosing(run_side_by_side(runs, toolbox, remarks)) as happened:
        async for event in happened:
            yield event


async def run_side_by_side(
    runs: Sequence[Run], toolbox: Toolbox, remarks: list[Message]
) -> AsyncGenerator[Event, None]:
    """Runs tools at the same time, and yields what they report and how they end, as it happens."""
    happened: asyncio.Queue[Event | None] = asyncio.Queue()
    tasks = [asyncio.create_task(run_one(run, toolbox, happened, remarks)) for run in runs]
    try:
        open_runs = len(tasks)
        while open_runs:
            event = await happened.get()
            if event is None:
                open_runs -= 1
            else:
                yield event
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_one(run: Run, toolbox: Toolbox, happened: asyncio.Queue[Event | None], remarks: list[Message]) -> None:
    """Runs one call; None in the queue says that it is over."""
    tool = run.tool

    def on_progress(progress: float, total: float | None, message: str) -> None:
        happened.put_nowait(ToolProgress(tool.server, tool.name, progress, total, message))

    try:
        result = await toolbox.call(tool, run.call.arguments, on_progress)
        remarks[run.index] = Message("tool", result.text, result)
        happened.put_nowait(ToolFinished(result))
    finally:
        happened.put_nowait(None)


async def settle(
    call: ToolCall, tools: Sequence[Tool], words: Words, permit: Permit
) -> ToolResult | tuple[Tool, ToolCall]:
    """The tool and the checked call if it may run, else the result that says why not."""
    meant = find_tools(call.name, tools)
    if len(meant) != 1:
        return unanswered(call, "", call.name, "failed", describe_unknown(call.name, meant, tools, words))
    tool = meant[0]
    try:
        arguments = check(call.arguments, tool.schema)
    except ChatError as error:
        return unanswered(call, tool.server, tool.name, "failed", error.message)
    verdict = await permit(tool, arguments)
    if verdict == "run":
        return tool, ToolCall(call.name, arguments, call.repairs)
    status: Status = "stopped" if verdict == "stopped" else "declined"
    return unanswered(call, tool.server, tool.name, status, words(f"prompt.{verdict}"))


def unanswered(call: ToolCall, server: str, tool: str, status: Status, text: str) -> ToolResult:
    return ToolResult(server, tool, call.arguments, status, text)


def stopped(call: ToolCall, words: Words) -> Message:
    text = words("prompt.stopped")
    return Message("tool", text, unanswered(call, "", call.name, "stopped", text))


def garbled(fault: CallGarbled, settings: Settings, words: Words) -> Message:
    example = FORMATS[settings.tool_format].example
    return Message("tool", words("prompt.garbled", detail=fault.detail, example=example))


def describe_unknown(name: str, meant: Sequence[Tool], tools: Sequence[Tool], words: Words) -> str:
    if meant:
        return words("prompt.ambiguous", name=name, names=", ".join(tool.full_name for tool in meant))
    near = nearest_names(name, tools)
    unknown = words("prompt.unknown_tool", name=name)
    return f"{unknown} {words('prompt.nearest', names=', '.join(near))}" if near else unknown
