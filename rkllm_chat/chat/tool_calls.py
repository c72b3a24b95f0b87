"""Execute the tool calls of one reply: validate, authorize, run concurrently, answer in order.

Every call gets a message for the model, whatever happens. A call may start while the model is still generating if it
would run regardless of the rest of the reply: it only reads, according to a trusted server, and needs no approval. Of a
reply truncated at its token limit only such calls run, so nothing starts early that would not have run in the end. An
allow pattern is no exception: a call with side effects waits for the complete reply. Once one call waits, all later
calls of the reply do, so that a read that follows a change is executed after it.

No call is run twice with equal arguments in one turn, unless the user is asked again, or it only reads and another call
was made in between: a new one, or one that may change something. What a call is made of decides too: see `value_rules`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal

from ..calls.arguments import validate_arguments
from ..calls.described_calls import list_places
from ..calls.feedback import CallError, fingerprint_call, to_call_error, write_correction, write_error
from ..calls.formats import FORMATS
from ..calls.tool_names import find_by_arguments, find_by_parameters, find_tools, shown_name, similar_names
from ..config.policy import Decision, decide_call
from ..core.errors import ValidationError
from ..core.events import (
    CallFound,
    CallsDetected,
    CallUnreadable,
    ReplyDiscarded,
    ToolFinished,
    ToolStarted,
    Usage,
)
from ..core.i18n import Words
from ..core.messages import DeclineReason, Message, Status, Tool, ToolCall, ToolResult
from ..core.protocols import CallPosition, Consent, Decline, RunEdited
from ..prompt.budget import find_last_turn
from .argument_values import drop_placeholders
from .builtin_tools import BUILTIN_TOOLS, find_last_handle_number
from .call_choice import can_compare
from .context import compute_result_budget, make_call_toolbox
from .conversation import Conversation
from .event_stream import Emit
from .result_budget import ResultBudget
from .running_calls import PreparedCall, RunningCalls
from .tool_traits import may_write
from .value_rules import ValueRules

_Absent = Literal["absent"]
_Verdict = Literal["run", "refused", "spent", "declined", "unpermitted", "repeated", "stopped", "absent"]
_REASONS: dict[str, DeclineReason] = {
    "declined": "user",
    "declined_because": "because",
    "stopped": "user",
    "refused": "rule",
    "spent": "limit",
    "repeated": "repeated",
    "held": "withheld",
    "missing": "missing",
    "unpermitted": "permission",
    "unsupported": "unsupported",
    "absent": "absent",
}
"""Key of the sentence that tells the model of a call that was not run -> why it was declined."""

_MAX_TRIED_CHANGES = 2
"""How often a turn may make the same change."""
_MAX_CORRECTIONS = 2
"""Maximum number of replies per turn that are answered with corrections."""


@dataclass
class TurnState:
    """What has happened in a turn that decides about its further calls.

    Attributes:
        corrections: Replies answered with correction messages.
        reported_errors: Fingerprints of errors already reported.
        decided_calls: Calls that the policy or the user decided about.
        rounds: The calls of each reply that were decided about, the current reply last: their fingerprints, and whether
            results may differ since. A call that only reads makes no difference when it is made again.
        writes: Those of them that may change something.
        failed: Those of them whose last run failed.
        gave_up: Every call of the last reply was invalid and no correction is left.
    """

    corrections: int = 0
    reported_errors: set[str] = field(default_factory=set[str])
    decided_calls: int = 0
    rounds: list[dict[str, bool]] = field(default_factory=list[dict[str, bool]])
    writes: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])
    gave_up: bool = False

    @classmethod
    def resume(cls, history: Sequence[Message]) -> TurnState:
        """Return the state of the last turn of a history, which another program may have begun."""
        state = cls()
        for message in history[find_last_turn(history) :]:
            if message.role == "assistant":
                state.rounds.append({})
            elif state.rounds and (result := message.result):
                name = Tool(result.tool, server=result.server).full_name
                state.record_call(fingerprint_call(name, result.arguments))
        return state

    def may_correct(self, call_error: CallError) -> bool:
        """Return whether a correction may be sent: it may help, and the limit is not reached."""
        if call_error.is_final:  # that is how a model says that no tool fits
            return False
        return self.corrections < _MAX_CORRECTIONS and call_error.fingerprint not in self.reported_errors

    def record_errors(self, call_errors: Sequence[CallError], calls: int) -> None:
        """Record the errors of one reply with `calls` calls; the turn continues if any of them was valid."""
        is_corrected = any(map(self.may_correct, call_errors))
        self.corrections += is_corrected
        self.reported_errors |= {call_error.fingerprint for call_error in call_errors}
        self.gave_up = len(call_errors) == calls and not is_corrected

    def record_call(self, fingerprint: str, only_reads: bool = False, writes: bool = True) -> None:
        """Record a call of the current reply that was decided about."""
        self.writes |= {fingerprint} if writes else set()
        self.rounds[-1][fingerprint] = not (only_reads and self.was_made(fingerprint))

    def is_repeat(self, fingerprints: set[str]) -> bool:
        """Return whether a reply has calls that were all made before, and no other call since makes a difference."""
        earlier = self.rounds[:-1]
        latest = [self._find_round(fingerprint, earlier) for fingerprint in fingerprints]
        if not latest or min(latest) < 0:
            return False
        is_tried_enough = all(self._is_tried_enough(fingerprint, earlier) for fingerprint in fingerprints)
        return is_tried_enough or self._find_changes(min(latest)) <= fingerprints

    def was_made(self, fingerprint: str) -> bool:
        """Return whether a call was made before."""
        return self._find_round(fingerprint, self.rounds) >= 0

    def is_unchanged(self, fingerprint: str) -> bool:
        """Return whether a call was made before, and no other call of a later reply makes a difference."""
        latest = self._find_round(fingerprint, self.rounds)
        is_same = self._find_changes(latest) <= {fingerprint} or self._is_tried_enough(fingerprint, self.rounds)
        return latest >= 0 and is_same

    def find_writes_since(self, fingerprint: str) -> set[str]:
        """Return the calls since the last run of a call that may have changed something."""
        return self._find_changes(self._find_round(fingerprint, self.rounds)) & self.writes

    def may_retry(self, fingerprint: str) -> bool:
        """Return whether a call that failed may be made once more, since another one may have changed why."""
        is_helped = fingerprint in self.failed and bool(self.find_writes_since(fingerprint))
        return is_helped and not self._is_tried_enough(fingerprint, self.rounds)

    def _is_tried_enough(self, fingerprint: str, rounds: Sequence[Mapping[str, bool]]) -> bool:
        """Return whether a change was tried often enough: two that fail in turn, each after the other, never end."""
        return fingerprint in self.writes and sum(fingerprint in made for made in rounds) >= _MAX_TRIED_CHANGES

    def _find_changes(self, index: int) -> set[str]:
        """Return the calls behind a round that may make a difference to results."""
        return {made for later in self.rounds[index + 1 :] for made, is_change in later.items() if is_change}

    @staticmethod
    def _find_round(fingerprint: str, rounds: Sequence[Mapping[str, bool]]) -> int:
        """Return the index of the last round with a call; -1 if there is none."""
        return max((index for index, made in enumerate(rounds) if fingerprint in made), default=-1)


class ReplyCalls:
    """The calls of one reply, from those that start early to their results in the history.

    In order of time: `add` for each call while the reply is generated; then `run`, unless `find_void` finds why not; in
    any case `close`, which cancels what still runs and appends the result of each call to the history.

    Attributes:
        found: The calls.
        is_stopped: The user ended the turn when asked about a call.
        was_declined: The user has not accepted a call that the reply does not make: no other one is offered.
        missing: Required arguments whose values stand nowhere, and which the user is asked for in the answer.
        was_denied: A call needs a permission and no user can be asked, or the user refused it without a reason. The
            program says so, since a model makes a reason up.
    """

    def __init__(self, chat: Conversation, state: TurnState, starts_early: bool) -> None:
        self.found: list[CallFound | CallUnreadable] = []
        self.is_stopped = self.was_declined = False
        self.missing: list[str] = []
        self.was_denied = False
        self._chat, self._state, self._starts_early = chat, state, starts_early
        self._rules = ValueRules(chat)
        self._running = RunningCalls()
        self._unexecuted: dict[int, Message] = {}
        self._accepted: set[str] = set()
        self._is_asking = False  # stays set where the turn is cancelled at a question
        self._budget: ResultBudget | None = None
        state.rounds.append({})

    def add(self, found: CallFound | CallUnreadable) -> None:
        """Add a call of an unfinished reply, and start it if it may run regardless of the rest."""
        self.found.append(found)
        if not self._starts_early:
            return
        toolbox = make_call_toolbox(self._chat)
        run = self._prepare_early(found, toolbox.tools)
        # behind a call that must wait, all wait: a call that reads must not overtake one that may change something
        self._starts_early = run is not None
        if run:
            self._state.decided_calls += 1
            self._state.record_call(run.fingerprint, only_reads=True, writes=False)
            self._running.start(replace(run, index=len(self.found) - 1, number=len(self.found)), toolbox)

    def find_void(self) -> ReplyDiscarded | None:
        """Return why the reply is discarded; None if it is not.

        Its calls were all made before in this turn, with equal arguments, and no other since can change their results;
        or value rules forbid them, beside such calls; or none of them names anything like a tool, which is how a model
        says that no tool fits. A forbidden call beside others is not run.
        """
        tools = make_call_toolbox(self._chat).tools
        outcomes = [self._prepare(found, tools, was_truncated=False) for found in self.found]
        runs = [outcome for outcome in outcomes if isinstance(outcome, PreparedCall)]
        if len(runs) == len(outcomes) and (
            self._state.is_repeat({run.fingerprint for run in runs})
            or (runs and all(self._is_settled(run) for run in runs))
        ):
            return ReplyDiscarded()
        forbidden = [reason for run in runs if (reason := self._find_forbidden(run))]
        if forbidden and len(forbidden) + sum(self._state.was_made(run.fingerprint) for run in runs) == len(outcomes):
            return forbidden[0]
        # where the model tells which tools a message is likely for, these are called sooner than a name like one
        compares = can_compare(self._chat) and not any(self._state.rounds)
        unknown = [
            outcome.tool_name
            for outcome in outcomes
            if isinstance(outcome, CallError) and (outcome.is_final or (compares and outcome.code == "unknown_tool"))
        ]
        has_tools = tools or not self._chat.is_served  # a client without tools gets the text of the reply
        if not (unknown and len(unknown) == len(outcomes) and has_tools):
            return None
        # what the model writes about is no tool that the user could miss
        named = [name for name in unknown if not self._rules.is_known(name)]
        return ReplyDiscarded(", ".join(named), reason="" if named else "nameless")

    def list_valid(self) -> list[PreparedCall]:
        """Return the calls that are valid and that the value rules apply to."""
        tools = make_call_toolbox(self._chat).tools
        runs = (self._prepare(found, tools, was_truncated=False) for found in self.found)
        return [run for run in runs if isinstance(run, PreparedCall) and self._rules.apply_to(run.tool)]

    def _is_settled(self, run: PreparedCall) -> bool:
        """Return whether a call was made before and is neither run again nor asked about.

        Nobody is there to be asked, or it only reads, by its server or its name, and no call since may have changed
        anything: asked about each, a user saw two tools that tell the tables eight times.
        """
        fingerprint, state = run.fingerprint, self._state
        is_open = not state.was_made(fingerprint) or state.may_retry(fingerprint)
        if is_open or _only_reads(run.tool) or not self._rules.apply_to(run.tool):
            return False
        is_told = not self._chat.can_ask if may_write(run.tool) else not state.find_writes_since(fingerprint)
        return is_told or state.is_unchanged(fingerprint)

    async def offer(
        self,
        calls: Sequence[ToolCall],
        must_ask: bool,
        by_question: bool = False,
        names: Sequence[str] = (),
        is_described: bool = False,
    ) -> PreparedCall | None:
        """Accept a call that the reply does not make but describes or announces: the first one that is valid.

        Args:
            calls: The calls.
            must_ask: Ask the user in any case; else only such a call is accepted whose values all stand somewhere, and
                the policy decides whether the user is asked.
            by_question: They all stand in the question, because the reply does not name the tool.
            names: One of which the call must use, and no value rule forbid it; empty for any call.
            is_described: The reply describes the call.

        Returns:
            The call, which is added to `found`; None if there is none, or it is not accepted.
        """
        tools, words = self._chat.toolbox.tools, self._chat.prompt_words
        runs = (self._resolve(call, tools) for call in calls)
        run = next((run for run in runs if isinstance(run, PreparedCall)), None)
        if run and by_question and not must_ask:
            arguments = self._rules.drop_unsaid(run.tool, run.call.arguments)
            run = replace(run, call=replace(run.call, arguments=arguments))
        if run is None or self.was_declined:
            return None
        if self._state.was_made(run.fingerprint) and not self._state.may_retry(run.fingerprint):
            return None
        if not (must_ask or self._rules.may_offer(run.tool, run.call.arguments, by_question, names)):
            if not (names or may_write(run.tool)):
                self.missing += self._rules.list_missing(run.tool, run.call.arguments)
            return None
        is_free = not must_ask and self._chat.is_run_by_client(run.tool)
        made_up = self._rules.list_made_up(run.tool, run.call.arguments)
        position = CallPosition(is_described=is_described, made_up=made_up)
        verdict = "run" if is_free else await self._ask(run, position, must_ask)
        self.is_stopped, self.was_declined = False, verdict in ("declined", "stopped") or isinstance(verdict, Decline)
        arguments = verdict.arguments if isinstance(verdict, RunEdited) else run.call.arguments
        accepted = resolve_call(ToolCall(shown_name(run.tool, tools), arguments), tools, words)
        if not isinstance(accepted, PreparedCall):
            return None
        if verdict == "unpermitted" and any(map(list_places, names)):
            # no answer is possible without the file or page, so the refusal is reported like that of any other call
            self.found.append(CallFound(accepted.call))
            return accepted
        if not (verdict == "run" or isinstance(verdict, RunEdited)):
            return None
        self.missing.clear()
        self._accepted.add(accepted.fingerprint)
        self.found.append(CallFound(accepted.call))
        return accepted

    async def run(self, usage: Usage, emit: Emit) -> None:
        """Run the calls of the finished reply and emit their events.

        If the user ends the turn, no further call runs, and only finished results are reported.
        """
        self._budget = compute_result_budget(self._chat, usage)
        toolbox = make_call_toolbox(self._chat, self._budget.make_page_check(len(self.found)))
        count = sum(isinstance(found, CallFound) for found in self.found)
        if count:
            await emit(CallsDetected(count))
        waiting: list[PreparedCall] = []
        call_errors: list[CallError] = []
        # those that started early are the first ones of the reply
        for index in range(len(self._running.started), len(self.found)):
            number = sum(isinstance(found, CallFound) for found in self.found[: index + 1])
            position = CallPosition(number, count)
            was_truncated = usage.is_cut and not self._accepted  # what was accepted was written behind that reply
            outcome = await self._authorize(self.found[index], toolbox.tools, position, was_truncated)
            if isinstance(outcome, PreparedCall):
                fallback = self._rules.find_fallback(outcome.tool, outcome.call.arguments)
                waiting.append(replace(outcome, index=index, number=number, fallback=fallback))
                continue
            if isinstance(outcome, CallError):
                call_errors.append(outcome)
            await self._report_unexecuted(index, outcome, number, emit)
            if self.is_stopped:
                # calls that started early and still run end here; what the others brought is shown
                await self._running.aclose()
                early, waiting = [run for run in self._running.started if run.index in self._running.results], []
                break
        else:
            results = [message.result for message in self._unexecuted.values() if message.result]
            unsupported = sum(result.decline_reason == "unsupported" for result in results)
            self._state.record_errors(call_errors, len(self.found) - unsupported)
            early = list(self._running.started)
        for run in (*early, *waiting):  # before they start: a front end compares a file as it is with what is written
            await emit(ToolStarted(run.tool.server, run.tool.name, run.call, run.number))
        for run in waiting:
            self._running.start(run, toolbox)
        async with aclosing(self._running.stream_events()) as events:
            async for event in events:
                await emit(event)
        if not self.is_stopped:
            await self._offer_access()

    async def close(self, usage: Usage) -> None:
        """Cancel what still runs and append the result of each call to the history."""
        try:
            await self._running.aclose()
        finally:  # also where the turn is cancelled meanwhile: each call in the history has its result
            chat, results = self._chat, self._running.results
            for run in self._running.started:
                result = results[run.index].result if run.index in results else None
                self._state.failed.discard(run.fingerprint)
                if result and result.status == "failed":
                    self._state.failed.add(run.fingerprint)
            words, running, was_refused = chat.prompt_words, self._running, self.is_stopped or self._is_asking
            messages = [
                results.get(index)
                or running.describe_stopped(index, self._unexecuted.get(index, placeholder), words, was_refused)
                for index, placeholder in enumerate(initial_messages(self.found, words))
            ]
            budget = self._budget or (compute_result_budget(chat, usage) if results else None)
            truncated = budget.truncate_results(messages, chat.last_handle_number) if budget else messages
            chat.last_handle_number = max(chat.last_handle_number, find_last_handle_number(truncated))
            chat.history += truncated

    def _prepare_early(self, found: CallFound | CallUnreadable, tools: Sequence[Tool]) -> PreparedCall | None:
        """Return the run of a call that may start at once; None leaves the decision to `_authorize`.

        Built-in tools wait: the space for their results is not known yet.
        """
        run = self._resolve(found.call, tools) if isinstance(found, CallFound) else None
        if not isinstance(run, PreparedCall) or not _only_reads(run.tool) or run.tool in BUILTIN_TOOLS:
            return None
        if self._state.was_made(run.fingerprint) or self._decide(run.tool) != "run":
            return None
        is_lacking = self._find_forbidden(run) or self._rules.list_missing(run.tool, run.call.arguments)
        return None if is_lacking else run

    def _resolve(self, call: ToolCall, tools: Sequence[Tool]) -> PreparedCall | CallError:
        """Resolve a call of the model, with arguments that the value rules amend."""
        run = resolve_call(call, tools, self._chat.prompt_words)
        if not isinstance(run, PreparedCall):
            return run
        arguments = self._rules.amend(run.tool, run.call.arguments)
        return replace(run, call=replace(run.call, arguments=arguments))

    def _find_forbidden(self, run: PreparedCall) -> ReplyDiscarded | None:
        """Return why a value rule forbids a call; one made before in this turn may write what is there by now."""
        was_made = self._state.was_made(run.fingerprint)
        if was_made and not self._rules.overwrites(run.tool, run.call.arguments):
            return None
        return self._rules.find_forbidden(run.tool, run.call.arguments)

    async def _authorize(
        self, found: CallFound | CallUnreadable, tools: Sequence[Tool], position: CallPosition, was_truncated: bool
    ) -> PreparedCall | CallError | ToolResult:
        """Validate and authorize a call; arguments that the user edited are validated again.

        Returns:
            A PreparedCall if it may run, a CallError if it is invalid, a ToolResult if it is refused.
        """
        words, state = self._chat.prompt_words, self._state
        run = self._prepare(found, tools, was_truncated)
        if not isinstance(run, PreparedCall):
            return run
        is_again, call = state.was_made(run.fingerprint), run.call
        if (is_again and _only_reads(run.tool) and state.is_unchanged(run.fingerprint)) or self._is_settled(run):
            return self._refuse(call, run.tool, "repeated")
        if run.fingerprint not in self._accepted and self._find_forbidden(run):
            return self._refuse(call, run.tool, "unsupported")
        missing = [] if run.fingerprint in self._accepted else self._rules.list_missing(run.tool, call.arguments)
        # a person may write what a change lacks into the question about it; of a call that reads nothing is asked
        is_asked_back = not (self._chat.can_ask and may_write(run.tool))
        if missing and is_asked_back and self._decide(run.tool) in ("run", "ask"):
            self.missing += missing
            return self._refuse(call, run.tool, "missing", names=", ".join(missing))
        must_ask = bool(missing) or (is_again and not run.tool.read_only)
        made_up = self._rules.list_made_up(run.tool, call.arguments)
        verdict = await self._ask(run, replace(position, made_up=made_up), must_ask)
        is_unexplained = verdict in ("unpermitted", "declined") and self._rules.apply_to(run.tool)
        self.was_denied = self.was_denied or is_unexplained
        if verdict != "stopped":
            state.record_call(run.fingerprint, _only_reads(run.tool), may_write(run.tool))
        match verdict:
            case "run":
                return run
            case RunEdited(edited_arguments):
                edited = resolve_call(ToolCall(run.tool.full_name, edited_arguments, call.repairs), tools, words)
                if isinstance(edited, CallError):
                    return edited
                # both count as made, since the model may repeat its own call or the one that the user made of it
                state.record_call(edited.fingerprint, _only_reads(edited.tool), may_write(edited.tool))
                arguments = json.dumps(edited.call.arguments, ensure_ascii=False)
                return replace(edited, remark=words("prompt.edited", arguments=arguments))
            case Decline(reason):
                return self._refuse(call, run.tool, "declined_because", reason=reason)
            case _:
                return self._refuse(call, run.tool, verdict, uri=call.arguments.get("uri"))

    def _prepare(
        self, found: CallFound | CallUnreadable, tools: Sequence[Tool], was_truncated: bool
    ) -> PreparedCall | CallError | ToolResult:
        """Return the run of a call, or why there is none: it is invalid, or its tool cannot be called now."""
        words = self._chat.prompt_words
        if isinstance(found, CallUnreadable):
            return to_call_error(found, tools, words)
        call = found.call
        quarantined = self._chat.get_quarantined()
        named = find_tools(call.name, [*tools, *quarantined])
        if named and all(tool in quarantined for tool in named):
            return self._refuse(call, named[0], "held", name=call.name)
        run = self._resolve(call, tools)
        if isinstance(run, CallError) or not was_truncated or _only_reads(run.tool):
            return run
        fingerprint, name = fingerprint_call(call.name, call.arguments), shown_name(run.tool, tools)
        return CallError("truncated", words("prompt.cut_off"), fingerprint, run.tool, name, run.call.arguments)

    async def _ask(self, run: PreparedCall, position: CallPosition, must_ask: bool) -> _Verdict | Decline | RunEdited:
        """Decide whether a call runs: by the policy, or by the user if the policy leaves it open or `must_ask`."""
        tool = run.tool
        if tool in BUILTIN_TOOLS or run.fingerprint in self._accepted:  # the former only read what the chat already has
            return "run"
        decision = self._decide(tool)
        self._state.decided_calls += 1
        if decision == "refuse":
            return "refused"
        if decision != "ask" and not (decision == "run" and must_ask):
            return decision
        if not self._chat.can_ask:
            return "unpermitted" if decision == "ask" else "repeated"
        answer = await self._ask_user(run, position)
        match answer:
            case "session":
                self._chat.allow_in_session(tool)
            case "always":
                self._chat.allow_always(tool)
            case Decline() | RunEdited() | "absent":
                return answer
            case "stop":
                self.is_stopped = True
                return "stopped"
            case "no":
                return "declined"
        return "run"

    async def _ask_user(self, run: PreparedCall, position: CallPosition) -> Consent | Decline | RunEdited | _Absent:
        """Ask the user about a call, unless it reads a resource that no server has."""
        tool, server = run.tool, await self._find_resource_server(run)
        if server == "":
            return "absent"
        self._is_asking = True
        shown = replace(tool, server=server) if server else tool
        answer = await self._chat.approve(shown, run.call.arguments, position)
        self._is_asking = False
        return answer

    async def _find_resource_server(self, run: PreparedCall) -> str | None:
        """Return the server whose resource a call reads; "" if none has it, None for another call.

        A resource that a result has named need not be listed.
        """
        uri = str(run.call.arguments.get("uri"))
        if run.tool.server or run.tool.name != "read_resource":
            return None
        server = await self._chat.find_resource_server(uri)
        is_named = ":" in uri and any(uri in message.text for message in self._chat.history if message.role == "tool")
        return server or (None if is_named else server)

    def _decide(self, tool: Tool) -> Decision:
        """Return what the policy and the mode of the session say about a call."""
        chat, decided = self._chat, self._state.decided_calls
        return decide_call(tool, chat.effective_policy, decided, chat.approval_mode, chat.toolbox.tools)

    def _refuse(self, call: ToolCall, tool: Tool, key: str, **values: object) -> ToolResult:
        """Return the result of a call that is not run, with the sentence of this key for the model."""
        is_stopped = key == "stopped"
        text = self._chat.prompt_words("prompt.declined" if is_stopped else f"prompt.{key}", **values)
        result = make_unexecuted_result(call, tool, "stopped" if is_stopped else "declined", text)
        return replace(result, decline_reason=_REASONS.get(key, ""))

    async def _report_unexecuted(self, index: int, outcome: CallError | ToolResult, number: int, emit: Emit) -> None:
        """Keep the message of a call that did not run, and emit its result unless it is unreadable."""
        words, found = self._chat.prompt_words, self.found[index]
        if isinstance(outcome, CallError):
            call_format, may_correct = FORMATS[self._chat.call_format], self._state.may_correct(outcome)
            text = write_correction(outcome, call_format, words) if may_correct else write_error(outcome, words)
        else:
            text = outcome.text
        is_new = isinstance(outcome, ToolResult) and outcome.decline_reason != "repeated"
        result = outcome if isinstance(outcome, ToolResult) and is_new else None
        if isinstance(outcome, CallError) and isinstance(found, CallFound):
            result = make_unexecuted_result(found.call, outcome.tool, "failed", outcome.message)
            result = replace(result, decline_reason="cut" if outcome.code == "truncated" else "")
        self._unexecuted[index] = Message("tool", text, result)
        if result:
            await emit(ToolFinished(result, number))

    async def _offer_access(self) -> None:
        """Offer the user what sandboxes have denied; the model learns that it may repeat the call."""
        results = self._running.results
        allowed = await self._chat.offer_access()
        last = {message.result.server: index for index, message in sorted(results.items()) if message.result}
        for index in (last[server] for server in allowed if server in last):
            text = f"{results[index].text}\n{self._chat.prompt_words('prompt.allowed')}"
            results[index] = replace(results[index], text=text)
            for run in self._running.started:
                if run.index == index:
                    # so that the same call is no repeat now
                    self._state.rounds[-1].pop(run.fingerprint, None)


def initial_messages(calls: Sequence[CallFound | CallUnreadable], words: Words) -> list[Message]:
    """Return a message per call for the case that it does not run: stopped, or why it is unreadable."""
    text = words("prompt.stopped")
    return [
        Message("tool", text, make_unexecuted_result(call.call, None, "stopped", text))
        if isinstance(call, CallFound)
        else Message("tool", write_error(to_call_error(call, (), words), words))
        for call in calls
    ]


def resolve_call(call: ToolCall, tools: Sequence[Tool], words: Words) -> PreparedCall | CallError:
    """Resolve the tool's name and validate the arguments."""
    fingerprint = fingerprint_call(call.name, call.arguments)
    candidates = find_tools(call.name, tools)
    meant = [] if candidates else find_by_arguments(call.name, call.arguments, tools)
    if len(meant) == 1 and meant[0].read_only:
        candidates = meant
    if len(candidates) != 1:
        near = [shown_name(tool, tools) for tool in meant] or similar_names(call.name, tools)
        fitting = find_by_parameters(call.arguments, tools)
        if near and len(fitting) == 1:
            near = [shown_name(fitting[0], tools)]
        text = _describe_unknown(call.name, candidates, near, words)
        return CallError("unknown_tool", text, fingerprint, tool_name=call.name, is_final=not (candidates or near))
    tool = candidates[0]
    try:
        checked = validate_arguments(call.arguments, tool.schema)
    except ValidationError as error:
        code = error.details["code"]
        return CallError(code, error.message, fingerprint, tool, shown_name(tool, tools), call.arguments)
    remarks = [words("prompt.misspelled", name=name, near=near) for name, near in checked.misspelled.items()]
    arguments = drop_placeholders(tool, checked.arguments)
    valid = ToolCall(call.name, arguments, (*call.repairs, *checked.coercions))
    return PreparedCall(0, tool, valid, remark="\n".join(remarks))


def make_unexecuted_result(call: ToolCall, tool: Tool | None, status: Status, text: str) -> ToolResult:
    """Build the result of a call that did not run."""
    return ToolResult(tool.server if tool else "", tool.name if tool else call.name, call.arguments, status, text)


def _only_reads(tool: Tool) -> bool:
    return tool.read_only and tool.trusted


def _describe_unknown(name: str, candidates: Sequence[Tool], near: Sequence[str], words: Words) -> str:
    if candidates:
        return words("prompt.ambiguous", name=name, names=", ".join(tool.full_name for tool in candidates))
    unknown = words("prompt.unknown_tool", name=name)
    return f"{unknown} {words('prompt.nearest', names=', '.join(near))}" if near else unknown
