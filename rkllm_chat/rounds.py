"""The calls of one reply: settled by name, schema, policy and question, run side by side, answered in order.

It knows no model and no server. Whatever happens, every call gets a message for the model.

A call may start as soon as its end has been read, while the model writes on, if it would run whatever else the reply
says: it only reads, by the word of a server that is trusted, and nobody need be asked. Of a reply that is cut off at
its limit such calls alone are run, so that nothing begins early that would not have run in the end; an allow pattern
makes no exception, for what changes something waits for the whole of what was meant. Once a call of a reply waits, all
later ones do: what is read behind a change is read after it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from .arguments import check
from .corrections import Misstep, correct, explain, mark_call, read_misstep
from .errors import ValidationError
from .events import (
    CallFound,
    CallGarbled,
    Event,
    Reason,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Usage,
)
from .formats import Format
from .language import Words
from .messages import Message, Status, Tool, ToolCall, ToolResult
from .names import find_tools, nearest_names, shown_name
from .scanner import Invented, Seen

if TYPE_CHECKING:
    from .chat import Toolbox

Verdict = Literal["run", "refused", "spent", "declined", "stopped"]
Permit = Callable[[Tool, Mapping[str, Any]], Awaitable[Verdict]]
OnProgress = Callable[[float, "float | None", str], None]

MOST_CORRECTIONS = 2
MOST_RUNS = 3
"""In one turn: replies whose calls are told back to be mended, and runs of the same call."""


@dataclass(frozen=True)
class Run:
    """One call that may run, and where it stands in the reply."""

    index: int
    tool: Tool
    call: ToolCall


@dataclass
class Runs:
    """The calls of one reply that were started, each on a task of its own; `done` are their results by their places.

    Whoever starts any closes it. `must_wait`: no more calls are started before the reply has ended.
    """

    started: list[Run] = field(default_factory=list[Run])
    done: dict[int, Message] = field(default_factory=dict[int, Message])
    must_wait: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    _happened: asyncio.Queue[Event | None] = field(default_factory=asyncio.Queue)

    def start(self, run: Run, toolbox: Toolbox) -> None:
        task = asyncio.create_task(self._run(run, toolbox), name=f"call of {run.tool.full_name}")
        task.add_done_callback(lambda _: self._happened.put_nowait(None))  # also of one that was cancelled at once
        self.started.append(run)
        self._tasks.append(task)

    async def watch(self) -> AsyncGenerator[Event, None]:
        """What the tools have reported and how they end, as it happens, until the last one has ended."""
        open_runs = len(self._tasks)
        while open_runs:
            event = await self._happened.get()
            if event is None:
                open_runs -= 1
            else:
                yield event
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    async def aclose(self) -> None:
        """Cancels what still runs, and waits for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, run: Run, toolbox: Toolbox) -> None:
        tool = run.tool

        def on_progress(progress: float, total: float | None, message: str) -> None:
            self._happened.put_nowait(ToolProgress(tool.server, tool.name, progress, total, message))

        result = await toolbox.call(tool, run.call.arguments, on_progress)
        self.done[run.index] = Message("tool", result.text, result)
        self._happened.put_nowait(ToolFinished(result))


@dataclass
class Reply:
    """What one call of the model brought, besides its text. `reason`: why the turn ends with it, None if it goes on.
    `is_over`: the model has begun to invent what comes next."""

    calls: list[CallFound | CallGarbled] = field(default_factory=list[CallFound | CallGarbled])
    usage: Usage = field(default_factory=Usage)
    reason: Reason | None = None
    runs: Runs = field(default_factory=Runs)
    is_over: bool = False

    def note(self, seen: Sequence[Seen]) -> list[Text | Thought | CallFound | CallGarbled]:
        """Remembers the calls among what was seen, and gives back what there is to tell of."""
        self.calls += [event for event in seen if isinstance(event, CallFound | CallGarbled)]
        told = [event for event in seen if not isinstance(event, Invented)]
        self.is_over = self.is_over or len(told) < len(seen)
        return told


@dataclass
class Tally:
    """What has come of a turn so far: how often the model was corrected, and what for; how often each call was run.

    `gave_up`: its last calls were wrong again, and it is not corrected once more. `is_circling`: it wants the same
    call again and again.
    """

    corrections: int = 0
    told: set[str] = field(default_factory=set[str])
    runs: Counter[str] = field(default_factory=Counter[str])
    gave_up: bool = False
    is_circling: bool = False

    def may_correct(self, misstep: Misstep) -> bool:
        """Whether it helps to tell the model: not for ever, and not when it did the very same before."""
        return self.corrections < MOST_CORRECTIONS and misstep.mark not in self.told

    def count(self, missteps: Sequence[Misstep], calls: int) -> None:
        """Counts the missteps of one reply of so many calls; a reply with a call that was understood goes on."""
        is_corrected = any(map(self.may_correct, missteps))
        self.corrections += is_corrected
        self.told |= {misstep.mark for misstep in missteps}
        self.gave_up = len(missteps) == calls and not is_corrected


@dataclass(frozen=True)
class Terms:
    """On what terms the calls of a reply are run. `form` is how calls are asked for; `was_cut`: the reply reached its
    limit of tokens, so what else it meant to do is not known. `held` are tools that nobody may call for now.
    `may_start` says whether a tool may run without a question, and counts the call if so."""

    words: Words
    form: Format
    permit: Permit
    may_start: Callable[[Tool], bool]
    tally: Tally
    was_cut: bool = False
    held: Sequence[Tool] = ()


def first_remarks(calls: Sequence[CallFound | CallGarbled], words: Words) -> list[Message]:
    """What the model is told of each call as long as none has been run: stopped, or why it could not be read."""
    return [
        stopped(found.call, words)
        if isinstance(found, CallFound)
        else Message("tool", explain(read_misstep(found, (), words), words))
        for found in calls
    ]


def start_early(reply: Reply, toolbox: Toolbox, terms: Terms) -> None:
    """Starts those calls of a reply that is still written which may run whatever else it says."""
    runs = reply.runs
    while not runs.must_wait and len(runs.started) < len(reply.calls):
        index = len(runs.started)
        run = settle_early(reply.calls[index], toolbox.tools, terms)
        if run:
            runs.start(replace(run, index=index), toolbox)
        else:
            runs.must_wait = True


def settle_early(found: CallFound | CallGarbled, tools: Sequence[Tool], terms: Terms) -> Run | None:
    """The run of a call if it may start at once; None leaves everything about it to `settle`."""
    read = read_call(found.call, tools, terms.words) if isinstance(found, CallFound) else None
    if not isinstance(read, Run) or not (read.tool.read_only and read.tool.trusted):
        return None
    mark = mark_call(read.tool.full_name, read.call.arguments)
    if terms.tally.runs[mark] >= MOST_RUNS or not terms.may_start(read.tool):
        return None
    terms.tally.runs[mark] += 1
    return read


async def run_calls(
    reply: Reply, toolbox: Toolbox, terms: Terms, remarks: list[Message]
) -> AsyncGenerator[Event, None]:
    """Runs the calls of a reply that has ended and yields what happens; what is told of those that are not run takes
    the place of their first remarks.

    When the reader walks away, whoever has the reply closes its runs. A call that is "stopped" ends it too: of the
    reply's calls none is run then but those that have their results already.
    """
    waiting: list[Run] = []
    missteps: list[Misstep] = []
    for index, found in enumerate(reply.calls[len(reply.runs.started) :], len(reply.runs.started)):
        settled = await settle(found, toolbox.tools, terms)
        if isinstance(settled, Run):
            waiting.append(replace(settled, index=index))
            continue
        if isinstance(settled, Misstep):
            missteps.append(settled)
        result = result_of(found, settled)
        remarks[index] = Message("tool", text_of(settled, terms), result)
        if result:
            yield ToolFinished(result)
        if result and result.status == "stopped":
            await reply.runs.aclose()
            runs = [run for run in reply.runs.started if run.index in reply.runs.done]
            break
    else:
        terms.tally.count(missteps, len(reply.calls))
        for run in waiting:
            reply.runs.start(run, toolbox)
        runs = reply.runs.started
    for run in runs:
        yield ToolStarted(run.tool.server, run.tool.name, run.call)
    async with aclosing(reply.runs.watch()) as happened:
        async for event in happened:
            yield event


async def settle(found: CallFound | CallGarbled, tools: Sequence[Tool], terms: Terms) -> Run | Misstep | ToolResult:
    """The run of a call if it may run, else what is wrong with it, or the result that says why not."""
    words, tally = terms.words, terms.tally
    if isinstance(found, CallGarbled):
        return read_misstep(found, tools, words)
    if not find_tools(found.call.name, tools) and (waiting := find_tools(found.call.name, terms.held)):
        return unanswered(found.call, waiting[0], "declined", words("prompt.held", name=found.call.name))
    read = read_call(found.call, tools, words)
    if isinstance(read, Misstep):
        return read
    tool, call = read.tool, read.call
    if terms.was_cut and not (tool.read_only and tool.trusted):
        mark = mark_call(found.call.name, found.call.arguments)
        return Misstep("truncated", words("prompt.cut_off"), mark, tool, shown_name(tool, tools), call.arguments)
    mark = mark_call(tool.full_name, call.arguments)
    if tally.runs[mark] >= MOST_RUNS:
        tally.is_circling = True
        return unanswered(call, tool, "failed", words("prompt.repeated", count=MOST_RUNS))
    verdict = await terms.permit(tool, call.arguments)
    if verdict == "run":
        tally.runs[mark] += 1
        return read
    return unanswered(call, tool, "stopped" if verdict == "stopped" else "declined", words(f"prompt.{verdict}"))


def read_call(call: ToolCall, tools: Sequence[Tool], words: Words) -> Run | Misstep:
    """The one tool that is meant and the checked call, else what is wrong with it."""
    mark = mark_call(call.name, call.arguments)
    meant = find_tools(call.name, tools)
    if len(meant) != 1:
        return Misstep("unknown_tool", describe_unknown(call.name, meant, tools, words), mark)
    tool = meant[0]
    try:
        checked = check(call.arguments, tool.schema)
    except ValidationError as error:
        code = error.details["code"]
        return Misstep(code, error.message, mark, tool, shown_name(tool, tools), call.arguments)
    return Run(0, tool, ToolCall(call.name, checked.arguments, (*call.repairs, *checked.coercions)))


def result_of(found: CallFound | CallGarbled, settled: Misstep | ToolResult) -> ToolResult | None:
    """The result of a call that was not run; None for one that could not even be read."""
    if isinstance(settled, ToolResult) or isinstance(found, CallGarbled):
        return settled if isinstance(settled, ToolResult) else None
    return unanswered(found.call, settled.tool, "failed", settled.fault)


def text_of(settled: Misstep | ToolResult, terms: Terms) -> str:
    """What the model is told of a call that was not run."""
    if isinstance(settled, ToolResult):
        return settled.text
    if terms.tally.may_correct(settled):
        return correct(settled, terms.form, terms.words)
    return explain(settled, terms.words)


def unanswered(call: ToolCall, tool: Tool | None, status: Status, text: str) -> ToolResult:
    return ToolResult(tool.server if tool else "", tool.name if tool else call.name, call.arguments, status, text)


def stopped(call: ToolCall, words: Words) -> Message:
    text = words("prompt.stopped")
    return Message("tool", text, unanswered(call, None, "stopped", text))


def describe_unknown(name: str, meant: Sequence[Tool], tools: Sequence[Tool], words: Words) -> str:
    if meant:
        return words("prompt.ambiguous", name=name, names=", ".join(tool.full_name for tool in meant))
    near = nearest_names(name, tools)
    unknown = words("prompt.unknown_tool", name=name)
    return f"{unknown} {words('prompt.nearest', names=', '.join(near))}" if near else unknown
