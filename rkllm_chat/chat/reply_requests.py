"""Send the prompts of a turn and read its replies, inside the context window of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from ..backends.base import FirstTokenScorer, MessageScorer, TokenScore
from ..calls.tool_names import find_tools
from ..core.errors import ContextOverflowError
from ..core.events import CallFound, Event, Notice, Reading, Usage, WritingCall
from ..core.messages import Message, ReplyKind, Tool, ToolCall
from .asked_calls import AskedCall
from .call_choice import SCORED_TOKENS
from .context import (
    PromptKind,
    build_grammar,
    build_prompt,
    choose_dropped_turns,
    make_reply_scanner,
    native_tools_of,
)
from .conversation import Conversation
from .event_stream import Emit
from .reply_stream import ReplyStream

_MAX_LEAD_LENGTHS: Mapping[PromptKind, int] = {"call": 200, "alone": 40}
"""Text before a call that the model is asked for; one that writes more answers in words, where no grammar keeps it."""


class ReplyRequests:
    """The requests of one turn to the engine.

    Attributes:
        usages: Cost of each, in order.
        call_text: The reply to the last request for a call: kept as it is, the engine need not evaluate it again.
    """

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self.usages: list[Usage] = []
        self.call_text = ""

    async def send(
        self,
        reply: ReplyStream,
        kind: PromptKind,
        emit: Emit,
        forced_tools: Sequence[Tool] = (),
        request: str = "",
    ) -> None:
        """Send the prompt and read the reply; once more, with fewer turns, if the context turns out to be smaller."""
        chat = self._chat
        await self.trim_history(emit)
        context_tokens = chat.backend.context_tokens
        try:
            await self._read(reply, kind, emit, forced_tools, request)
        except ContextOverflowError as overflow:
            learned_tokens = chat.backend.context_tokens
            # a reply that has begun was shown, and would be there twice
            if not reply.is_empty or not (overflow.prompt_tokens or learned_tokens < context_tokens):
                raise
            if learned_tokens < context_tokens:
                key = "chat.context_learned" if overflow.context_tokens else "chat.context_halved"
                await emit(Notice(chat.words(key, tokens=learned_tokens)))
            await self.trim_history(emit)
            await self._read(reply, kind, emit, forced_tools, request)

    def keep(self, reply: ReplyStream, kind: ReplyKind) -> None:
        """Append a reply to the history, unless it was stopped before its first word; record its cost."""
        if reply.has_ended or not reply.is_empty:
            self._chat.history.append(Message("assistant", reply.text, reply_kind=kind))
        self._record_usage(reply.usage)

    async def trim_history(self, emit: Emit, next_tokens: int = 0) -> None:
        """Drop turns if the prompt, or one longer by `estimate_question_tokens`, would overflow."""
        chat = self._chat
        if not chat.is_served and (dropped := choose_dropped_turns(chat, next_tokens)):
            chat.drop_turns(dropped)
            await emit(Notice(chat.words("chat.forgot", turns=dropped.turns)))

    async def ask_for_call(self, asked: AskedCall, emit: Emit) -> ToolCall | None:
        """Return the call that the model writes in the place of its last reply; None without one.

        A request that is asked alone leaves it to the model what it makes of it.
        """
        kind: PromptKind = "alone" if asked.request else "call"
        reply = ReplyStream(make_reply_scanner(self._chat), max_lead_length=_MAX_LEAD_LENGTHS[kind])
        await self.send(reply, kind, partial(_emit_progress, emit), asked.tools, asked.request)
        self._record_usage(reply.usage)
        self.call_text = reply.text
        call = next((found.call for found in reply.calls if isinstance(found, CallFound)), None)
        named = find_tools(call.name, asked.tools) if call else []
        # of two servers' tools of one name, only one may have been asked for
        is_ambiguous = call and len(find_tools(call.name, self._chat.toolbox.tools)) > len(named) == 1
        return replace(call, name=named[0].full_name) if call and is_ambiguous else call

    async def score_first_token(self, prompt: Sequence[Message], emit: Emit) -> TokenScore | None:
        """Return the score of the first token of a reply to a prompt; None where the reply has none.

        The engine is a FirstTokenScorer.
        """
        backend, score = self._chat.backend, None
        assert isinstance(backend, FirstTokenScorer)
        async with aclosing(backend.score_first_token(prompt, SCORED_TOKENS)) as items:
            async for item in items:
                if isinstance(item, TokenScore):
                    score = item
                elif isinstance(item, Reading):
                    await emit(item)
                elif isinstance(item, Usage):
                    self._record_usage(replace(item, hit_limit=False))  # one token is all of it
        return score

    async def score_messages(self, prompts: Sequence[Sequence[Message]], emit: Emit) -> list[float]:
        """Return how probable the last message of each prompt is. The engine is a MessageScorer."""
        backend, scores = self._chat.backend, list[float]()
        assert isinstance(backend, MessageScorer)
        if not prompts:
            return []
        tokens = max(1, self._chat.count_text(prompts[-1][-1].text))  # of the same message each
        await emit(Reading(0, tokens * len(prompts)))
        async with aclosing(backend.score_messages(prompts)) as items:
            async for item in items:
                scores.append(item.logprob)
                await emit(Reading(tokens * len(scores), tokens * len(prompts)))
        return scores

    async def _read(
        self, reply: ReplyStream, kind: PromptKind, emit: Emit, forced_tools: Sequence[Tool], request: str
    ) -> None:
        chat = self._chat
        prompt = build_prompt(chat, None, kind, forced_tools, request)
        tools = native_tools_of(chat) if kind not in ("flat", "words") else ()
        if (cached := chat.backend.count_cached_tokens(prompt)) is not None:  # the engine may still be busy
            await emit(Reading(0, max(1, chat.backend.count_tokens(prompt) - cached)))
        stream = chat.backend.stream(prompt, chat.generation, tools, build_grammar(chat, kind, forced_tools))
        await reply.read(stream, emit, chat.translate)

    def _record_usage(self, usage: Usage) -> None:
        self._chat.on_record(usage)
        self._chat.usages.append(usage)
        self.usages.append(usage)


async def _emit_progress(emit: Emit, event: Event) -> None:
    """Emit how far the engine is, of a reply that is not shown."""
    if isinstance(event, Reading | Notice | WritingCall):
        await emit(event)
