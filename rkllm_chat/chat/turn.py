"""One chat turn as a stream of events: prompt, reply, tool calls, results, and again until the model has answered.

A turn ends with something a person can use. While calls are possible the model may call tools; once it only repeats
calls, calls what is no tool, has used up its rounds or fails to write a call, it answers in a mode in which calls are
impossible; if it still writes nothing, the last result is the answer.

Closing the stream or cancelling its task stops engine and tools and keeps what was generated; afterwards the history is
consistent: every call has a result.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Literal

from ..calls.tool_names import shown_name
from ..core.errors import ChatError, GenerationError
from ..core.events import (
    AnsweredBy,
    CallDescribed,
    CallFound,
    CallUnreadable,
    Event,
    Notice,
    Reason,
    ReplyDiscarded,
    Text,
    TurnEnded,
    Usage,
)
from ..core.messages import EMPTY_REPLY, Message, ReplyKind, ToolCall, ToolResult
from ..prompt.budget import MAX_TOKEN_LENGTH
from ..storage.session_records import End, TurnFinished
from .asked_calls import AskedCall, find_corrected_call, has_called, list_asked_calls
from .builtin_tools import BUILTIN_TOOLS
from .chosen_calls import ChosenCalls
from .context import (
    PromptKind,
    add_tool_signatures,
    build_prompt,
    count_tokens,
    estimate_question_tokens,
    list_answer_prompts,
    make_reply_scanner,
    may_begin_in_thought,
    thinking_off,
    write_call,
)
from .conversation import Conversation
from .event_stream import Emit, stream_events
from .likely_calls import LikelyCalls
from .open_requests import OpenRequests
from .program_answers import (
    ask_for_values,
    choose_last_result,
    confirm_fact,
    describe_changes,
    describe_last_result,
    describe_rest,
    describe_unmade,
    has_result,
    list_said,
    tell_unknown,
)
from .reply_requests import ReplyRequests
from .reply_rules import ReplyRules
from .reply_stream import ReplyStream
from .tool_calls import ReplyCalls, TurnState
from .tool_likelihood import LikelyTools

_MIN_ECHO_LENGTH = 12
"""Characters from which on an answer that stands in the request repeats it."""
_Outcome = Literal["continue", "answer"] | Reason
"""How a turn continues after a round: with another one, with an answer without calls, or not."""


class Turn:
    """One turn of a conversation; an instance runs once."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self._reply_rules, self._open_requests = ReplyRules(chat), OpenRequests(chat)
        self._state = TurnState()
        self._requests = ReplyRequests(chat)
        likely_tools = LikelyTools(chat, self._requests)
        self._chosen_calls = ChosenCalls(chat, self._requests, likely_tools)
        self._likely_calls = LikelyCalls(chat, likely_tools)
        self._is_guess = False  # the last call was made for a part of the question that names nothing
        self._unrun = ""  # the calls of the last reply that did not run
        self._has_made_up = False  # a call was discarded whose values the model made up
        self._answered_by: AnsweredBy = "model"

    @property
    def _is_unsure(self) -> bool:
        """Whether the model hardly preferred the only call of the turn to words, and it found nothing."""
        return self._chosen_calls.is_unsure and self._open_requests.has_found_nothing()

    async def run(self, user_input: str | Sequence[Message]) -> AsyncGenerator[Event, None]:
        """Append what the user says, generate replies and run their calls until the model has answered.

        The last event is TurnEnded. Messages that cannot fit are rejected and not appended.

        Args:
            user_input: A line of the user, or messages that belong to one turn. Results at the beginning continue the
                last turn of the history.

        Raises:
            GenerationError: The engine failed or the messages are too long. What was generated before stays in the
                history.
        """
        messages = [Message("user", user_input)] if isinstance(user_input, str) else user_input
        self.check_length(messages)
        end: End = "stopped"
        chat, error, start = self._chat, "", len(self._chat.history)
        try:
            async with aclosing(stream_events(partial(self._run, messages))) as events:
                async for event in events:
                    end = event.reason if isinstance(event, TurnEnded) else end
                    yield event
        except ChatError as failure:
            end, error = "failed", str(failure)
            is_first = len(self._requests.usages) <= 1
            if is_first and not chat.is_served and count_tokens(chat) > chat.backend.context_tokens:
                del chat.history[start:]  # they are too long for any reply
            raise
        finally:
            # in any case: a turn that nobody reads to its end is recorded as stopped
            self._chat.on_record(TurnFinished(end, error))

    def check_length(self, messages: Sequence[Message]) -> None:
        """Check what `run` rejects at once: texts so long that counting their tokens is pointless.

        Raises:
            GenerationError: The texts are too long.
        """
        length = sum(len(message.text) for message in messages)
        context_tokens = self._chat.backend.context_tokens
        if length > context_tokens * MAX_TOKEN_LENGTH:
            text = f"The message has {length} characters; the context window has {context_tokens} tokens."
            raise GenerationError(
                text, "Shorten the message, or let a tool read the text.", length=length, available=context_tokens
            )

    async def _run(self, messages: Sequence[Message], emit: Emit) -> None:
        chat = self._chat
        chat.history += add_tool_signatures(chat, messages)
        if messages and messages[0].role == "tool":
            self._state = TurnState.resume(chat.history)
        outcome: _Outcome = "continue"
        rounds_left = chat.settings.max_steps
        while outcome == "continue":
            outcome = await self._run_round(emit)
            rounds_left -= 1
            if outcome == "continue" and not rounds_left:
                continuation = await chat.ask_to_continue(len(self._requests.usages))
                if isinstance(continuation, int):
                    rounds_left = continuation
                else:
                    outcome = "answer" if continuation == "answer" else "steps"
        if outcome == "answer":
            outcome = await self._answer(emit)
        elif outcome == "steps":
            await emit(Notice(chat.words("chat.steps", steps=len(self._requests.usages))))
        if outcome == "answered" and self._answered_by != "result":
            answer = chat.history[-1].text
            left_out, unsettled = self._reply_rules.find_left_out(answer), self._open_requests.list_unsettled()
            if rest := describe_rest(chat, left_out, unsettled, self._reply_rules.is_change_open(answer)):
                await emit(Text(f"\n\n{rest}"))
        await self._requests.trim_history(emit, estimate_question_tokens(chat))
        await emit(TurnEnded(outcome, tuple(self._requests.usages), self._answered_by))

    async def _run_round(self, emit: Emit) -> _Outcome:
        """Generate one reply and run its calls; the reply is in the history when this ends, however it ends."""
        if (likely := await self._likely_calls.find(emit)) and (outcome := await self._call_likely(likely, emit)):
            return outcome
        chat = self._chat
        starts_early = chat.starts_calls_early and not self._chosen_calls.are_asked_first
        calls = ReplyCalls(chat, self._state, starts_early)
        reply = ReplyStream(make_reply_scanner(chat), calls.add, may_begin_in_thought(chat))
        kind: ReplyKind = ""
        announced: CallFound | None = None
        rejected: list[ToolCall] | None = None
        self._is_guess, before = False, len(chat.history)
        try:
            try:
                await self._requests.send(reply, "chat", self._report_changes(emit))
                if await self._is_void(reply, calls, emit):
                    # in the place of its calls, of which none has started: they are neither run nor answered
                    rejected = [found.call for found in calls.found if isinstance(found, CallFound)]
                    kind, calls = "discarded", ReplyCalls(chat, self._state, starts_early=False)
                is_open = not kind or rejected or not has_called(chat) or self._has_more()
                is_open = is_open or self._reply_rules.is_change_open(reply.shown_text)
                if not calls.found and is_open:
                    announced = await self._call_announced(reply, calls, rejected, emit)
                if not (calls.found or kind) and (calls.missing or await self._refuses(reply, emit)):
                    kind = "discarded"
            finally:  # kept only now: a call replaces it only if the user accepts that call
                is_last = not (calls.found or calls.missing or kind or announced)
                kept = "refusal" if is_last and self._reply_rules.apologizes(reply.shown_text) else kind
                self._requests.keep(reply, "discarded" if announced else kept)
            replied = _mark(chat.history[before:], kept)
            without_call: _Outcome = "answer" if kind else reply.usage.end_reason
            if announced:
                await self._replace(reply if not kind else None, announced, emit)
            if not (calls.found or calls.missing):
                return without_call
            await calls.run(reply.usage, emit)
        finally:
            await calls.close(reply.usage)
        if calls.is_stopped:
            return "stopped"
        if self._is_guess and _have_failed(chat.history[before:]):
            chat.history[before:] = replied
            if not kind:  # the answer is the text behind the last call, so it is shown once more
                await self._report_changes(emit)(Text(reply.shown_text))
            return without_call
        return await self._continue_behind(calls, emit)

    async def _call_likely(self, asked: AskedCall, emit: Emit) -> _Outcome | None:
        """Run the call that the model is made to write before it replies; None if none is made."""
        chat, calls = self._chat, ReplyCalls(self._chat, self._state, starts_early=False)
        usage = Usage()
        try:
            call = await self._requests.ask_for_call(asked, emit)
            accepted = await calls.offer([call], must_ask=False, by_question=True) if call else None
            usage = self._requests.usages[-1]
            if accepted:
                is_own = call and not asked.request and accepted.call.arguments == call.arguments
                name = shown_name(accepted.tool, chat.toolbox.tools)
                raw = self._requests.call_text if is_own else write_call(chat, name, accepted.call.arguments)
                await self._replace(None, CallFound(accepted.call, raw), emit)
                await calls.run(usage, emit)
        finally:
            await calls.close(usage)
        if calls.is_stopped:
            return "stopped"
        if calls.was_declined:
            return "answer"
        return await self._continue_behind(calls, emit) if accepted else None

    async def _continue_behind(self, calls: ReplyCalls, emit: Emit) -> _Outcome:
        """Return how the turn continues behind the calls of a reply, which have been answered."""
        chat = self._chat
        if calls.missing:
            return await self._say(ask_for_values(chat, calls.missing), self._report_changes(emit))
        if calls.was_denied:
            return "answer" if has_result(chat) else await self._say(describe_changes(chat), emit)
        self._unrun = "".join(call.raw for call in calls.found if isinstance(call, CallUnreadable))
        if self._state.gave_up or self._is_unsure:
            return "answer" if chat.toolbox.tools or not chat.is_served else "steps"
        return "continue"

    async def _is_void(self, reply: ReplyStream, calls: ReplyCalls, emit: Emit) -> bool:
        """Return whether a reply is discarded, and say why: its calls are void, or it is no answer."""
        if discarded := calls.find_void():
            self._unrun = "".join(call.raw for call in calls.found)
        elif not (reply.has_text or reply.calls):
            return self._must_answer(reply)
        elif reply.calls:
            valid = calls.list_valid()
            discarded = await self._chosen_calls.find_unchosen(valid, emit)
            discarded = discarded or await self._likely_calls.find_misplaced(valid, emit)
        elif not reply.described:
            rules, text = self._reply_rules, reply.shown_text
            discarded = self._find_unfit(reply, "chat") or rules.find_unrelated(text) or rules.find_repeated(text)
        if discarded:
            self._has_made_up = self._has_made_up or discarded.reason == "invented"
            await emit(discarded)
        return bool(discarded)

    def _find_unfit(self, reply: ReplyStream, kind: PromptKind) -> ReplyDiscarded | None:
        """Return why a reply to a prompt is no answer, whatever it tells of results."""
        # a first reply may be what the user asks the model to say
        if kind != "chat" or (has_called(self._chat) and self._chat.profile.forces_calls):
            asked = build_prompt(self._chat, None, kind)[-1].text
            if _repeats_request(reply.shown_text.strip(), asked, list_said(self._chat)):
                return ReplyDiscarded(reason="echo")
        return self._reply_rules.find_unfit(reply.shown_text)

    async def _call_announced(
        self, reply: ReplyStream, calls: ReplyCalls, rejected: Sequence[ToolCall] | None, emit: Emit
    ) -> CallFound | None:
        """Return the call that a reply describes or announces, or should have in the place of its void ones.

        Later turns see the call and not the sentence: a model goes on as its conversation shows. Where no call has all
        of its values from the conversation, the user is asked, or told.

        Args:
            reply: The reply.
            calls: Takes the call.
            rejected: The calls of the reply, which were void; empty if its text was discarded, None if it stands.
            emit: Emits events.
        """
        chat = self._chat
        described = await self._chosen_calls.list_meant([event.call for event in reply.described], emit)
        # behind what was only read for it, a change may be described, too
        is_open = not has_called(self._chat) or self._reply_rules.is_change_pending()
        likelier = self._chosen_calls.list_likelier()
        offered = likelier or (described if is_open else [])
        accepted = await calls.offer(offered, must_ask=False, is_described=not likelier)
        is_settled = accepted or self._likely_calls.is_for_none
        asked_calls = iter(()) if is_settled else list_asked_calls(chat, reply.shown_text, rejected, described)
        for asked in asked_calls:
            if calls.was_declined:
                break
            call, accepted = await self._chosen_calls.make(asked, calls, emit)
            if accepted:
                self._is_guess = asked.is_chosen and not asked.names and has_called(chat)
                break
            if call and asked.is_described and not described:
                await emit(CallDescribed(call))
        if calls.missing:
            await emit(ReplyDiscarded(reason="missing"))
        accepted = accepted or (None if calls.missing else await calls.offer(described, True, is_described=True))
        if not accepted:
            return None
        name = shown_name(accepted.tool, chat.toolbox.tools)
        return CallFound(accepted.call, write_call(chat, name, accepted.call.arguments))

    async def _replace(self, reply: ReplyStream | None, announced: CallFound, emit: Emit) -> None:
        """Put a call into the history in the place of a reply; its text, if it is not discarded yet, is no answer.

        Behind a result it may be the answer to a part of the question.
        """
        if reply and reply.has_text and not has_called(self._chat):
            await emit(ReplyDiscarded(reason="announced"))
        self._chat.history.append(Message("assistant", announced.raw))
        await emit(announced)

    def _has_more(self) -> bool:
        """Return whether more is to be called behind a result or a refusal with a reason, whatever the reply was."""
        if not has_called(self._chat):
            return False
        is_corrected = find_corrected_call(self._chat) is not None
        requests = self._open_requests
        is_open = requests.find_helping_tools() or requests.find_left_over() or requests.find_open_request()
        is_open = is_open or requests.find_joined_tools()
        return is_corrected or bool(is_open or requests.list_parts() or requests.find_other_tools())

    async def _refuses(self, reply: ReplyStream, emit: Emit) -> bool:
        """Return whether a reply refuses what the model may do without the tools, or points to them, and say so."""
        # a call of the program's own tools, such as a list of resources, is none that a user asks for
        own = {tool.name for tool in (*self._chat.toolbox.tools, *BUILTIN_TOOLS) if not tool.server}
        is_described = any(event.call.name not in own for event in reply.described)
        is_first = not (is_described or has_result(self._chat))
        rules, text = self._reply_rules, reply.shown_text
        if refused := (rules.find_refused(text) or rules.find_pointing(text)) if is_first else None:
            await emit(refused)
        return refused is not None

    def _must_answer(self, reply: ReplyStream) -> bool:
        """Return whether an empty reply is no end: after calls, and in a chat also before, unless it has no token left.

        One that thought until its limit goes on without thinking, where that can be switched off.
        """
        return any(self._state.rounds) or not (self._chat.is_served or (reply.usage.is_cut and not reply.has_thought))

    def _report_changes(self, emit: Emit, shown: ToolResult | None = None) -> Emit:
        """Return an `emit` that puts the program's line on what calls changed before the first words of an answer."""
        report = describe_changes(self._chat, shown)

        async def emit_behind_report(event: Event) -> None:
            nonlocal report
            if report and isinstance(event, Text):
                line, report = report, ""
                await emit(Text(f"{line}\n\n", is_report=True))
            await emit(event)

        return emit_behind_report if report else emit

    async def _say(self, text: str, emit: Emit) -> Reason:
        """Answer with a text of the program."""
        self._answered_by = "result"
        await emit(Text(text))
        self._chat.history.append(Message("assistant", text, reply_kind="forced"))
        return "answered"

    async def _answer(self, emit: Emit) -> Reason:
        """Generate an answer in a mode in which calls are impossible; without one, the last result is the answer."""
        self._answered_by = "forced"
        chat, rules, thought_only, unfit = self._chat, self._reply_rules, False, None
        kinds = list_answer_prompts(chat, self._is_unsure)
        for kind in kinds:
            reply = ReplyStream(make_reply_scanner(chat), may_be_thought=may_begin_in_thought(chat))
            unfit = None
            with thinking_off(chat, self._requests.usages[-1].is_cut):
                try:
                    await self._requests.send(reply, kind, partial(_emit_unless_call, self._report_changes(emit)))
                    unfit = self._find_unfit(reply, kind) or rules.find_refused_fact(reply.shown_text)
                    if kind == "words" or self._is_about_unknown():
                        unfit = unfit or rules.find_guessed(reply.shown_text)
                    if kind != kinds[-1] or has_result(chat):
                        unfit = unfit or rules.find_repeated(reply.shown_text)
                finally:
                    kept: ReplyKind = "refusal" if rules.apologizes(reply.shown_text) else "forced"
                    self._requests.keep(reply, kept if reply.has_text and not unfit else "discarded")
            if unfit:
                await emit(unfit)
            elif reply.has_text:
                return reply.usage.end_reason
            thought_only = thought_only or reply.has_thought
        if unfit and unfit.reason in ("unmade", "refused"):
            text = describe_unmade(chat) if unfit.reason == "unmade" else confirm_fact(chat)
            return await self._say(text, self._report_changes(emit))
        return await self._answer_with_result(emit, thought_only)

    def _is_about_unknown(self) -> bool:
        """Return whether nothing was found of what a user asks about themselves: a look-up was of a made-up value.

        "When does my flight leave?" read a file that is not there, and was answered with any time.
        """
        return self._has_made_up and not has_result(self._chat) and self._reply_rules.is_about_user()

    async def _answer_with_result(self, emit: Emit, thought_only: bool) -> Reason:
        """Show the last completed result of the turn as its answer, or else what there is, as no answer."""
        chat, self._answered_by = self._chat, "result"
        if shown := choose_last_result(chat):
            heading = describe_last_result(chat, shown)
            await self._report_changes(emit, shown)(Text(f"{heading}\n{shown.text}"))
            chat.history.append(Message("assistant", heading, reply_kind="forced"))
            return "answered" if has_result(chat) else "steps"
        if self._is_about_unknown():
            return await self._say(tell_unknown(chat), emit)
        if thought_only and not self._unrun:
            await emit(Text(chat.words("chat.thought_only")))
        else:
            await emit(Text(self._unrun or EMPTY_REPLY))
            await emit(Notice(chat.words("chat.gave_up")))
        return self._requests.usages[-1].end_reason if self._requests.usages[-1].is_cut else "steps"


def _mark(messages: Sequence[Message], kind: ReplyKind) -> list[Message]:
    return [replace(message, reply_kind=kind) for message in messages]


def _have_failed(messages: Sequence[Message]) -> bool:
    """Return whether messages have results, and all of calls that failed."""
    results = [message.result for message in messages if message.result]
    return bool(results) and all(result.status == "failed" for result in results)


def _repeats_request(answer: str, asked: str, said: Sequence[str]) -> bool:
    """Return whether an answer only repeats the end of what was asked, or what the program asks for in it.

    "yes or no" may end in the answer, and a sentence of a result or of the question may be one.
    """
    own = asked
    for text in said:
        own = own.replace(text, "")
    return len(answer) >= _MIN_ECHO_LENGTH and (asked.endswith(answer) or answer in own)


async def _emit_unless_call(emit: Emit, event: Event) -> None:
    """Emit an event of a reply in which calls are void."""
    if not isinstance(event, CallFound | CallUnreadable | CallDescribed):
        await emit(event)
