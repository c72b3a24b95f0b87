"""Execute the tool calls of one reply: validate, authorize, run concurrently, answer in order.

Independent of models and servers. Every call gets a message for the model, whatever happens.

A call may start while the model is still generating if it would run regardless of the rest of the reply: it only reads,
according to a trusted server, and needs no approval. Of a reply truncated at its token limit only such calls run, so
nothing starts early that would not have run in the end. An allow pattern is no exception: a call with side effects
waits for the complete reply. Once one call waits, all later calls of the reply do, so that a read that follows a change
is executed after it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..calls.arguments import validate_arguments
from ..calls.feedback import CallError, fingerprint_call, to_call_error, write_correction, write_error
from ..calls.formats import Format
from ..calls.scanner import InventedResult, ScannerEvent
from ..calls.tool_names import find_tools, shown_name, similar_names
from ..core.errors import ValidationError
from ..core.events import (
    CallFound,
    CallUnreadable,
    Event,
    Reason,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Usage,
)
from ..core.i18n import Words
from ..core.messages import Message, Status, Tool, ToolCall, ToolResult
from ..core.protocols import CallPosition, Decline, RunEdited, Toolbox

CallVerdict = Literal["run", "refused", "spent", "declined", "stopped"]
AuthorizeCall = Callable[[Tool, Mapping[str, Any], CallPosition], Awaitable[CallVerdict | Decline | RunEdited]]

_MAX_CORRECTIONS = 2
_MAX_RUNS = 3
"""Per turn: maximum replies answered with corrections, and executions of one identical call."""


@dataclass(frozen=True)
class PreparedCall:
    """One call to execute.

    Attributes:
        index: Index among all calls of the reply, unreadable ones included.
        tool: The tool.
        call: The call with its validated arguments.
        number: Position among the readable calls of the reply, from 1; 0 for a call that no reply made.
        remark: What the model is told before the result, if anything.
    """

    index: int
    tool: Tool
    call: ToolCall
    number: int = 0
    remark: str = ""


@dataclass
class RunningCalls:
    """The started calls of one reply, each in its own task. The owner must call `aclose`.

    Attributes:
        started: Calls in the order of their start.
        results: Result messages by index in the reply.
        must_wait: No further call starts before the reply ends.
        stopped_after_s: Seconds that each stopped call ran, by index in the reply.
    """

    started: list[PreparedCall] = field(default_factory=list[PreparedCall])
    results: dict[int, Message] = field(default_factory=dict[int, Message])
    must_wait: bool = False
    stopped_after_s: dict[int, float] = field(default_factory=dict[int, float])
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    _happened: asyncio.Queue[Event | None] = field(default_factory=asyncio.Queue)

    def start(self, run: PreparedCall, toolbox: Toolbox) -> None:
        """Start a call."""
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
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    def add_time(self, index: int, placeholder: Message) -> Message:
        """Return the message of a call that has no result, with the time that it ran before it was stopped."""
        if placeholder.result and (seconds := self.stopped_after_s.get(index)):
            return replace(placeholder, result=replace(placeholder.result, seconds=seconds))
        return placeholder

    async def aclose(self) -> None:
        """Cancel running calls and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, run: PreparedCall, toolbox: Toolbox) -> None:
        tool = run.tool

        def on_progress(progress: float, total: float | None, message: str) -> None:
            self._happened.put_nowait(ToolProgress(tool.server, tool.name, progress, total, message, run.number))

        started_at = time.monotonic()
        try:
            result = await toolbox.call(tool, run.call.arguments, on_progress)
        except asyncio.CancelledError:
            self.stopped_after_s[run.index] = time.monotonic() - started_at
            raise
        if run.remark:
            moved = len(run.remark) + 1
            media = tuple(replace(one, position=one.position + moved) for one in result.media)
            result = replace(result, text=f"{run.remark}\n{result.text}", media=media)
        shown = tuple(media for media in result.media if media.kind != "file" and not media.user_only)
        self.results[run.index] = Message("tool", result.text, result, media=shown)
        self._happened.put_nowait(ToolFinished(result, run.number))


@dataclass
class ModelReply:
    """One reply of the model, apart from its text.

    Attributes:
        calls: Calls in order, including unreadable ones.
        usage: Token counts and times.
        end_reason: Why the turn ends with this reply; None if it continues.
        running_calls: The calls that were started.
        has_invented_result: The model began to invent a tool result; the rest is discarded.
    """

    calls: list[CallFound | CallUnreadable] = field(default_factory=list[CallFound | CallUnreadable])
    usage: Usage = field(default_factory=Usage)
    end_reason: Reason | None = None
    running_calls: RunningCalls = field(default_factory=RunningCalls)
    has_invented_result: bool = False

    def record_events(self, seen: Sequence[ScannerEvent]) -> list[Text | Thought | CallFound | CallUnreadable]:
        """Record the calls among parser events and return the events to show."""
        self.calls += [event for event in seen if isinstance(event, CallFound | CallUnreadable)]
        visible = [event for event in seen if not isinstance(event, InventedResult)]
        self.has_invented_result = self.has_invented_result or len(visible) < len(seen)
        return visible


@dataclass
class TurnRetryState:
    """Retry state of one turn.

    Attributes:
        corrections: Replies answered with correction messages (at most 2).
        reported_errors: Fingerprints of errors already reported.
        executions: Executions per call fingerprint (at most 3).
        decided_calls: Calls that the policy or the user decided about.
        gave_up: Every call of the last reply was invalid and no correction is left.
        is_repeating: An identical call exceeded its limit.
    """

    corrections: int = 0
    reported_errors: set[str] = field(default_factory=set[str])
    executions: Counter[str] = field(default_factory=Counter[str])
    decided_calls: int = 0
    gave_up: bool = False
    is_repeating: bool = False

    def may_correct(self, call_error: CallError) -> bool:
        """Return whether a correction may be sent: the limit is not reached and this error was not reported before."""
        return self.corrections < _MAX_CORRECTIONS and call_error.fingerprint not in self.reported_errors

    def record_errors(self, call_errors: Sequence[CallError], calls: int) -> None:
        """Record the errors of one reply.

        Args:
            call_errors: Errors of its calls.
            calls: Number of its calls; the turn continues if any of them was valid.
        """
        is_corrected = any(map(self.may_correct, call_errors))
        self.corrections += is_corrected
        self.reported_errors |= {call_error.fingerprint for call_error in call_errors}
        self.gave_up = len(call_errors) == calls and not is_corrected


@dataclass(frozen=True)
class CallPolicyContext:
    """Context for the execution of a reply's calls.

    Attributes:
        words: Model-facing sentences.
        call_format: Format in which calls are requested.
        authorize: Authorizes a call; may ask the user.
        may_start: Returns whether a tool may run without approval.
        retry_state: Retry state of the turn.
        was_truncated: The reply reached its token limit, so the calls it would have made next are unknown.
        quarantined_tools: Quarantined tools, which cannot be called.
    """

    words: Words
    call_format: Format
    authorize: AuthorizeCall
    may_start: Callable[[Tool], bool]
    retry_state: TurnRetryState
    was_truncated: bool = False
    quarantined_tools: Sequence[Tool] = ()


def initial_messages(calls: Sequence[CallFound | CallUnreadable], words: Words) -> list[Message]:
    """Return a message per call for the case that it does not run: stopped, or why it is unreadable."""
    return [
        _stopped_message(call.call, words)
        if isinstance(call, CallFound)
        else Message("tool", write_error(to_call_error(call, (), words), words))
        for call in calls
    ]


def start_early_calls(reply: ModelReply, toolbox: Toolbox, context: CallPolicyContext) -> None:
    """Start calls of an unfinished reply that may run regardless of the rest."""
    runs = reply.running_calls
    while not runs.must_wait and len(runs.started) < len(reply.calls):
        index = len(runs.started)
        run = _authorize_early(reply.calls[index], toolbox.tools, context)
        if run:
            runs.start(replace(run, index=index, number=index + 1), toolbox)
        else:
            runs.must_wait = True


def _authorize_early(
    found: CallFound | CallUnreadable, tools: Sequence[Tool], context: CallPolicyContext
) -> PreparedCall | None:
    """Return the run of a call that may start at once; None leaves the decision to `_authorize`."""
    run = resolve_call(found.call, tools, context.words) if isinstance(found, CallFound) else None
    if not isinstance(run, PreparedCall) or not (run.tool.read_only and run.tool.trusted):
        return None
    fingerprint = fingerprint_call(run.tool.full_name, run.call.arguments)
    if context.retry_state.executions[fingerprint] >= _MAX_RUNS or not context.may_start(run.tool):
        return None
    context.retry_state.decided_calls += 1
    context.retry_state.executions[fingerprint] += 1
    return run


async def run_calls(
    reply: ModelReply, toolbox: Toolbox, context: CallPolicyContext, placeholders: list[Message]
) -> AsyncGenerator[Event, None]:
    """Run the calls of a finished reply and yield their events.

    Messages for calls that do not run replace those in `placeholders`. If the consumer stops, the owner of the reply
    closes its runs. A "stopped" verdict ends the reply: no further call runs, and only finished results are reported.

    Args:
        reply: The reply; calls may have been started early.
        toolbox: Tools.
        context: Context of the execution.
        placeholders: One message per call, from `initial_messages`; modified in place.
    """
    waiting: list[PreparedCall] = []
    call_errors: list[CallError] = []
    for index, call in enumerate(reply.calls[len(reply.running_calls.started) :], len(reply.running_calls.started)):
        number = sum(isinstance(one, CallFound) for one in reply.calls[: index + 1])
        count = sum(isinstance(one, CallFound) for one in reply.calls)
        outcome = await _authorize(call, toolbox.tools, context, CallPosition(number, count))
        if isinstance(outcome, PreparedCall):
            waiting.append(replace(outcome, index=index, number=number))
            continue
        if isinstance(outcome, CallError):
            call_errors.append(outcome)
        result = _result_of(call, outcome)
        placeholders[index] = Message("tool", _text_of(outcome, context), result)
        if result:
            yield ToolFinished(result, number)
        if result and result.status == "stopped":
            await reply.running_calls.aclose()
            runs = [run for run in reply.running_calls.started if run.index in reply.running_calls.results]
            break
    else:
        context.retry_state.record_errors(call_errors, len(reply.calls))
        for run in waiting:
            reply.running_calls.start(run, toolbox)
        runs = reply.running_calls.started
    for run in runs:
        yield ToolStarted(run.tool.server, run.tool.name, run.call, run.number)
    async with aclosing(reply.running_calls.stream_events()) as events:
        async for event in events:
            yield event


async def _authorize(
    found: CallFound | CallUnreadable, tools: Sequence[Tool], context: CallPolicyContext, position: CallPosition
) -> PreparedCall | CallError | ToolResult:
    """Validate and authorize a call; arguments that the user edited are validated again.

    Returns:
        A PreparedCall if it may run, a CallError if it is invalid, a ToolResult if it is refused.
    """
    words, retry_state = context.words, context.retry_state
    if isinstance(found, CallUnreadable):
        return to_call_error(found, tools, words)
    if not find_tools(found.call.name, tools) and (
        quarantined := find_tools(found.call.name, context.quarantined_tools)
    ):
        return make_unexecuted_result(
            found.call, quarantined[0], "declined", words("prompt.held", name=found.call.name)
        )
    run = resolve_call(found.call, tools, words)
    if isinstance(run, CallError):
        return run
    tool, call = run.tool, run.call
    if context.was_truncated and not (tool.read_only and tool.trusted):
        fingerprint = fingerprint_call(found.call.name, found.call.arguments)
        return CallError(
            "truncated", words("prompt.cut_off"), fingerprint, tool, shown_name(tool, tools), call.arguments
        )
    fingerprint = fingerprint_call(tool.full_name, call.arguments)
    if retry_state.executions[fingerprint] >= _MAX_RUNS:
        retry_state.is_repeating = True
        return make_unexecuted_result(call, tool, "failed", words("prompt.repeated", count=_MAX_RUNS))
    verdict = await context.authorize(tool, call.arguments, position)
    if isinstance(verdict, RunEdited):
        edited = resolve_call(replace(call, name=found.call.name, arguments=verdict.arguments), tools, words)
        if isinstance(edited, CallError):
            return edited
        arguments = json.dumps(edited.call.arguments, ensure_ascii=False)
        run, verdict = replace(edited, remark=words("prompt.edited", arguments=arguments)), "run"
    if verdict == "run":
        retry_state.executions[fingerprint] += 1
        return run
    if isinstance(verdict, Decline):
        text = verdict.recorded_text or words("prompt.declined_because", reason=verdict.reason)
        return make_unexecuted_result(call, tool, "declined", text)
    return make_unexecuted_result(
        call, tool, "stopped" if verdict == "stopped" else "declined", words(f"prompt.{verdict}")
    )


def resolve_call(call: ToolCall, tools: Sequence[Tool], words: Words) -> PreparedCall | CallError:
    """Resolve the tool's name and validate the arguments."""
    fingerprint = fingerprint_call(call.name, call.arguments)
    candidates = find_tools(call.name, tools)
    if len(candidates) != 1:
        return CallError("unknown_tool", _describe_unknown(call.name, candidates, tools, words), fingerprint)
    tool = candidates[0]
    try:
        checked = validate_arguments(call.arguments, tool.schema)
    except ValidationError as error:
        code = error.details["code"]
        return CallError(code, error.message, fingerprint, tool, shown_name(tool, tools), call.arguments)
    return PreparedCall(0, tool, ToolCall(call.name, checked.arguments, (*call.repairs, *checked.coercions)))


def _result_of(found: CallFound | CallUnreadable, outcome: CallError | ToolResult) -> ToolResult | None:
    """Return the result of a call that did not run; None for an unreadable one."""
    if isinstance(outcome, ToolResult) or isinstance(found, CallUnreadable):
        return outcome if isinstance(outcome, ToolResult) else None
    return make_unexecuted_result(found.call, outcome.tool, "failed", outcome.message)


def _text_of(outcome: CallError | ToolResult, context: CallPolicyContext) -> str:
    """Return the message to the model about a call that did not run."""
    if isinstance(outcome, ToolResult):
        return outcome.text
    if context.retry_state.may_correct(outcome):
        return write_correction(outcome, context.call_format, context.words)
    return write_error(outcome, context.words)


def make_unexecuted_result(call: ToolCall, tool: Tool | None, status: Status, text: str) -> ToolResult:
    """Build the result of a call that did not run."""
    return ToolResult(tool.server if tool else "", tool.name if tool else call.name, call.arguments, status, text)


def _stopped_message(call: ToolCall, words: Words) -> Message:
    text = words("prompt.stopped")
    return Message("tool", text, make_unexecuted_result(call, None, "stopped", text))


def _describe_unknown(name: str, candidates: Sequence[Tool], tools: Sequence[Tool], words: Words) -> str:
    if candidates:
        return words("prompt.ambiguous", name=name, names=", ".join(tool.full_name for tool in candidates))
    near = similar_names(name, tools)
    unknown = words("prompt.unknown_tool", name=name)
    return f"{unknown} {words('prompt.nearest', names=', '.join(near))}" if near else unknown
