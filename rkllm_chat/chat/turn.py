"""One chat turn as a stream of events: prompt, reply, tool calls, results, and again until the model has answered.

Closing the stream or cancelling its task stops engine and tools and keeps what was generated; afterwards the history is
consistent: every call has a result.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from ..calls.formats import FORMATS
from ..config.policy import Decision, decide_call
from ..core.errors import ChatError, ContextOverflowError, GenerationError
from ..core.events import CallFound, CallsDetected, CallUnreadable, Event, Notice, Sentence, Text, TurnEnded, Usage
from ..core.messages import Message, Tool
from ..core.protocols import CallPosition, Decline, RunEdited
from ..prompt.budget import MAX_TOKEN_LENGTH
from ..storage.session_records import End, TurnFinished
from .builtin_tools import BUILTIN_TOOLS, find_last_handle_number
from .context import (
    add_tool_signatures,
    build_grammar,
    build_prompt,
    choose_dropped_turns,
    compute_result_budget,
    describe_prompt,
    estimate_question_tokens,
    make_call_toolbox,
    make_reply_scanner,
    native_tools_of,
)
from .conversation import Conversation
from .prefix_changes import PromptSent
from .reply_stream import ReplyStream
from .result_budget import ResultBudget
from .tool_calls import (
    CallPolicyContext,
    CallVerdict,
    ModelReply,
    TurnRetryState,
    initial_messages,
    run_calls,
    start_early_calls,
)


class Turn:
    """One turn of a conversation; an instance runs once."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self._retry_state = TurnRetryState()

    async def run(self, user_input: str | Sequence[Message]) -> AsyncGenerator[Event, None]:
        """Append what the user says, generate replies and run their calls until the model has answered.

        The last event is TurnEnded. Messages that cannot fit are rejected and not appended.

        Args:
            user_input: A line of the user, or messages that belong to one turn.

        Raises:
            GenerationError: The engine failed or the messages are too long. What was generated before stays in the
                history.
        """
        messages = [Message("user", user_input)] if isinstance(user_input, str) else user_input
        self.check_length(messages)
        end: End = "stopped"
        error = ""
        try:
            async with aclosing(self._run_rounds(messages)) as events:
                async for event in events:
                    end = event.reason if isinstance(event, TurnEnded) else end
                    yield event
        except ChatError as failure:
            end, error = "failed", str(failure)
            raise
        finally:
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

    async def _run_rounds(self, messages: Sequence[Message]) -> AsyncGenerator[Event, None]:
        self._chat.history += add_tool_signatures(self._chat, messages)
        usage: list[Usage] = []
        reply, rounds_left, may_call, retry_state = ModelReply(), self._chat.settings.max_steps, True, self._retry_state
        while reply.end_reason is None:
            reply = ModelReply()
            async with aclosing(self._run_round(reply, may_call)) as events:
                async for event in events:
                    yield event
            usage.append(reply.usage)
            self._chat.usages.append(reply.usage)
            rounds_left -= 1
            if reply.end_reason is None and retry_state.is_repeating:
                rounds_left, may_call = 1, False
            elif reply.end_reason is None and not rounds_left:
                rounds_left, may_call = await self._ask_to_continue(len(usage))
                reply.end_reason = None if rounds_left else "steps"
        if retry_state.gave_up:
            for call in reply.calls:
                if isinstance(call, CallUnreadable):
                    yield Text(call.raw)
            yield Notice(self._chat.words("chat.gave_up"))
        elif reply.end_reason == "steps":
            yield Notice(self._chat.words("chat.steps", steps=len(usage)))
        for notice in self._trim_history(estimate_question_tokens(self._chat)):
            yield notice
        yield TurnEnded(reply.end_reason, tuple(usage))

    def _trim_history(self, next_tokens: int = 0) -> Iterator[Notice]:
        """Drop turns if the prompt, or one longer by `estimate_question_tokens`, would overflow."""
        choose = self._chat.choose_trim or choose_dropped_turns
        if dropped := choose(self._chat, next_tokens):
            self._chat.drop_turns(dropped)
            yield Notice(self._chat.words("chat.forgot", turns=dropped.turns))

    async def _run_round(self, reply: ModelReply, may_call: bool) -> AsyncGenerator[Event, None]:
        """Generate one reply and, if permitted, run its calls."""
        chat = self._chat
        call_format, authorize = FORMATS[chat.call_format], partial(self._authorize_call, reply)
        context = CallPolicyContext(
            chat.prompt_words,
            call_format,
            authorize,
            self._may_start,
            self._retry_state,
            quarantined_tools=chat.find_quarantined(),
        )
        early_context = context if may_call and chat.starts_calls_early else None
        async with aclosing(reply.running_calls):
            async with aclosing(self._generate_reply(reply, early_context)) as events:
                async for event in events:
                    yield event
            if not reply.calls:
                reply.end_reason = "length" if reply.usage.hit_limit else "answered"
            elif not may_call:
                self._chat.history += initial_messages(reply.calls, self._chat.prompt_words)
                reply.end_reason = "steps"
            else:
                async with aclosing(
                    self._run_calls(reply, replace(context, was_truncated=reply.usage.hit_limit))
                ) as events:
                    async for event in events:
                        yield event
                # scripts read "steps" as "no answer", unless the token limit was the reason
                if self._retry_state.gave_up:
                    reply.end_reason = "length" if reply.usage.hit_limit else "steps"

    async def _ask_to_continue(self, rounds: int) -> tuple[int, bool]:
        """Return how many more rounds there are, and whether they may call tools."""
        continuation = await self._chat.ask_to_continue(rounds)
        if continuation == "answer":
            self._chat.history.append(Message("tool", self._chat.prompt_words("prompt.wrap_up")))
            return 1, False
        return (0, False) if continuation == "stop" else (continuation, True)

    async def _generate_reply(
        self, reply: ModelReply, context: CallPolicyContext | None
    ) -> AsyncGenerator[Event, None]:
        """Generate and parse one reply; it is in the history when this ends, however it ends.

        With `context`, its calls may start before the reply ends.
        """
        for notice in self._trim_history():
            yield notice
        reply_stream = ReplyStream(make_reply_scanner(self._chat), reply, lambda: self._start_calls(reply, context))
        is_complete = False
        prompt = build_prompt(self._chat)
        divergence = self._chat.prompt_log.add_prompt(describe_prompt(self._chat, prompt))
        context_tokens = self._chat.backend.context_tokens
        try:
            try:
                async with aclosing(self._read_reply(reply_stream, prompt)) as events:
                    async for event in events:
                        yield event
            except ContextOverflowError as overflow:
                learned_tokens = self._chat.backend.context_tokens
                if not reply_stream.is_empty or not (overflow.prompt_tokens or learned_tokens < context_tokens):
                    raise
                if learned_tokens < context_tokens:
                    key = "chat.context_learned" if overflow.context_tokens else "chat.context_halved"
                    yield Notice(self._chat.words(key, tokens=learned_tokens))
                for notice in self._trim_history():
                    yield notice
                async with aclosing(self._read_reply(reply_stream, build_prompt(self._chat))) as events:
                    async for event in events:
                        yield event
            is_complete = True
        finally:
            self._chat.history.append(Message("assistant", reply_stream.text))
            self._chat.prompt_log.sent.append(PromptSent(reply.usage, divergence))
            self._chat.on_record(reply.usage)
            if not is_complete:
                await self._append_results(reply, initial_messages(reply.calls, self._chat.prompt_words))

    async def _read_reply(self, reply_stream: ReplyStream, prompt: Sequence[Message]) -> AsyncGenerator[Event, None]:
        """Send the prompt and yield the events of the reply."""
        chat = self._chat
        stream = chat.backend.stream(prompt, chat.settings.generation, native_tools_of(chat), build_grammar(chat))
        async with aclosing(reply_stream.read_events(stream)) as events:
            async for event in events:
                yield chat.translate(event) if isinstance(event, Sentence) else event

    def _start_calls(self, reply: ModelReply, context: CallPolicyContext | None) -> None:
        if context:
            start_early_calls(reply, make_call_toolbox(self._chat), context)

    async def _run_calls(self, reply: ModelReply, context: CallPolicyContext) -> AsyncGenerator[Event, None]:
        """Run the calls of one reply; their results are in the history when this ends, however it ends."""
        placeholders = initial_messages(reply.calls, self._chat.prompt_words)
        budget = compute_result_budget(self._chat, reply.usage)
        toolbox = make_call_toolbox(self._chat, budget.make_page_check(len(placeholders)))
        running = run_calls(reply, toolbox, context, placeholders)
        try:
            if call_count := sum(isinstance(call, CallFound) for call in reply.calls):
                yield CallsDetected(call_count)
            async with aclosing(running) as events:
                async for event in events:
                    yield event
            if reply.end_reason != "stopped":
                await self._offer_access(reply)
        finally:
            await self._append_results(reply, placeholders, budget)

    async def _offer_access(self, reply: ModelReply) -> None:
        """Offer the user what sandboxes have denied; the model learns that it may repeat the call."""
        results = reply.running_calls.results
        allowed = await self._chat.offer_access()
        last = {message.result.server: index for index, message in sorted(results.items()) if message.result}
        for index in (last[server] for server in allowed if server in last):
            text = f"{results[index].text}\n{self._chat.prompt_words('prompt.allowed')}"
            results[index] = replace(results[index], text=text)

    async def _append_results(
        self, reply: ModelReply, placeholders: Sequence[Message], budget: ResultBudget | None = None
    ) -> None:
        """Cancel what still runs and append the result of each call to the history."""
        try:
            await reply.running_calls.aclose()
        finally:
            messages = [
                reply.running_calls.results.get(index) or reply.running_calls.add_time(index, placeholder)
                for index, placeholder in enumerate(placeholders)
            ]
            if reply.running_calls.results and not budget:
                budget = compute_result_budget(self._chat, reply.usage)
            truncated = budget.truncate_results(messages, self._chat.last_handle_number) if budget else messages
            self._chat.last_handle_number = max(self._chat.last_handle_number, find_last_handle_number(truncated))
            self._chat.history += truncated

    async def _authorize_call(
        self, reply: ModelReply, tool: Tool, arguments: Mapping[str, Any], position: CallPosition
    ) -> CallVerdict | Decline | RunEdited:
        """Decide whether a call runs: by the policy, or by the user if the policy leaves it open."""
        if tool in BUILTIN_TOOLS:  # these only read what the conversation already has
            return "run"
        decision = self._decide(tool)
        self._retry_state.decided_calls += 1
        if decision != "ask":
            return "refused" if decision == "refuse" else decision
        match await self._chat.approve(tool, arguments, position):
            case "session":
                self._chat.allow_in_session(tool)
            case "always":
                self._chat.allow_always(tool)
            case Decline() | RunEdited() as answer:
                return answer
            case "stop":
                reply.end_reason = "stopped"
                return "stopped"
            case "no":
                return "declined"
        return "run"

    def _may_start(self, tool: Tool) -> bool:
        """Return whether a call may start while the reply is generated.

        Built-in tools wait: the space for their results is not known yet.
        """
        is_builtin = tool in BUILTIN_TOOLS
        return not is_builtin and self._decide(tool) == "run"

    def _decide(self, tool: Tool) -> Decision:
        """Return what the policy and the mode of the session say about a call."""
        chat = self._chat
        decided = self._retry_state.decided_calls
        return decide_call(tool, chat.effective_policy, decided, chat.approval_mode, chat.toolbox.tools)
