"""Generate the reply to a chat request as a stream of events, through a turn of the chat.

A turn repairs, validates and corrects calls. Calls of the client's tools end it: the client runs them and sends their
results with its next request.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from ..backends import Backend
from ..backends.base import ThinkingSwitch, TokenScore
from ..calls.described_calls import may_become_apology
from ..calls.formats import FORMATS
from ..calls.grammar import (
    CallGrammar,
    NoCalls,
    build_call_grammar,
    build_reply_grammar,
    forbid_calls,
    require_call,
)
from ..chat.context import make_call_toolbox
from ..chat.conversation import Conversation, select_call_format
from ..chat.instructions_budget import may_have_instructions
from ..chat.json_answer import find_problem, remove_fence, request_json
from ..chat.running_calls import PreparedCall
from ..chat.tool_calls import resolve_call
from ..chat.tool_selection import select_tools
from ..chat.turn import Turn
from ..config.settings import Settings
from ..config.trust_rules import Origin
from ..core import i18n
from ..core.errors import GenerationError
from ..core.events import (
    CallFound,
    CallsDetected,
    CallUnreadable,
    Event,
    Reading,
    ReplyDiscarded,
    Text,
    TextWasThought,
    Thought,
    ToolFinished,
    TurnEnded,
    Usage,
)
from ..core.messages import Message, Tool, ToolCall
from ..core.protocols import stop_at_limit
from ..mcp_client.toolbox import Toolbox
from ..prompt.budget import MAX_TOKEN_LENGTH
from .chat_request import ChatRequest, ClientCall, ClientMessage, build_history
from .client_media import check_media
from .errors import ApiError
from .mcp_tools import RequestToolbox
from .reply_histories import ReplyHistories
from .request_backend import LimitReachedError, RequestBackend

Finish = Literal["stop", "length", "tool_calls"]
_Grammars = tuple[CallGrammar | NoCalls | None, CallGrammar | None]
_NONE: _Grammars = (None, None)
_MAX_HELD_CHARACTERS = 120
"""Longest text before a repeated call that is discarded with it; of a longer one the client has the beginning."""


@dataclass(frozen=True)
class ReplyCall:
    """A valid call of one of the client's tools."""

    call: ClientCall


@dataclass(frozen=True)
class ReplyText:
    """A part of the text, and how probable its tokens were, if the client wants to know."""

    text: str
    scores: tuple[TokenScore, ...] = ()


@dataclass(frozen=True)
class ReplyEnded:
    """The last event of a reply; those of the next one may follow.

    Attributes:
        reason: Why it ended.
        usage: Sum of the cost of all replies of the model.
    """

    reason: Finish
    usage: Usage


ReplyEvent = ReplyText | Thought | Reading | ReplyCall | ReplyEnded


@dataclass
class Reply:
    """A whole reply.

    Attributes:
        text: Its text.
        thought: Its thoughts.
        calls: Its calls.
        scores: How probable the tokens of the text were.
        end: Its end.
    """

    text: str = ""
    thought: str = ""
    calls: list[ClientCall] = field(default_factory=list[ClientCall])
    scores: list[TokenScore] = field(default_factory=list[TokenScore])
    end: ReplyEnded = ReplyEnded("stop", Usage())


async def collect_replies(events: AsyncIterable[ReplyEvent]) -> list[Reply]:
    """Return the whole replies."""
    replies = [Reply()]
    async for event in events:
        reply = replies[-1]
        match event:
            case ReplyText(part, scores):
                reply.text += part
                reply.scores += scores
            case Thought(part):
                reply.thought += part
            case ReplyCall(call):
                reply.calls.append(call)
            case ReplyEnded():
                reply.end = event
                replies.append(Reply())
    return replies[:-1]


class _BlankTrimmer:
    """Removes blanks at the beginning and the end of a streamed text; at the beginning of a continued one they stay."""

    def __init__(self, is_continued: bool = False) -> None:
        self._held = ""
        self._has_text = is_continued

    def feed(self, text: str) -> str:
        """Return the text that can be shown."""
        text = self._held + text
        text = text if self._has_text else text.lstrip()
        shown = text.rstrip()
        self._held = text[len(shown) :]
        self._has_text = self._has_text or bool(shown)
        return shown


@dataclass
class _HeldReply:
    """What a client does not get yet of a reply, since one that only repeats its call, or refuses, is discarded.

    Calls are held until their reply has ended, and so is the beginning of a text behind a result or of an apology.

    Attributes:
        may_be_discarded: A call of the reply may be one that was already answered.
        may_refuse: The reply is discarded if it is an apology.
        report: The program's line on the calls of the turn, before the text.
        text: Text that is held.
        calls: Calls that are held.
    """

    may_be_discarded: bool
    may_refuse: bool = False
    report: str = ""
    text: str = ""
    calls: list[ClientCall] = field(default_factory=list[ClientCall])

    def take_certain_text(self) -> str:
        """Return the text that the client gets now."""
        is_open = self.may_be_discarded or (self.may_refuse and may_become_apology(self.text))
        if is_open and len(self.text) <= _MAX_HELD_CHARACTERS:
            return ""
        self.may_be_discarded = self.may_be_discarded and not self.text
        self.may_refuse = self.may_refuse and not self.text
        return self.take_text()

    def take_text(self) -> str:
        """Return all text that the client does not have yet."""
        if not self.text:  # the report is sent with the first words of the answer
            return ""
        text, self.report, self.text = self.report + self.text, "", ""
        return text

    def discard(self) -> None:
        """Forget the reply; an answer without calls follows."""
        self.report, self.text, self.may_be_discarded, self.may_refuse = "", "", False, False
        self.calls.clear()


class ReplyGenerator:
    """Generates one reply; an instance runs once."""

    def __init__(
        self,
        backend: Backend,
        settings: Settings,
        request: ChatRequest,
        histories: ReplyHistories,
        servers: Toolbox | None = None,
        is_left: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare a reply; blocks while grammars and the list of tools are built.

        Args:
            backend: The loaded backend, held exclusively.
            settings: Settings of the server.
            request: The request.
            histories: Histories of earlier replies; the new one is added.
            servers: MCP servers whose tools are called here; None for none.
            is_left: Whether the client has left, so that the reply is not needed.

        Raises:
            GenerationError: The conversation is far longer than the context, or the client has left.
            ApiError: The model does not understand a picture, or the engine cannot continue a reply.
        """
        check_length(request.count_characters(), backend)
        check_media(request.messages, backend.media_kinds)
        # for each request: the one before may have switched it
        if isinstance(backend, ThinkingSwitch):
            backend.set_thinking(request.thinking or settings.thinking)
        self._request, self._histories = request, histories
        has_tools = request.tool_choice != "none"
        self._tools = request.tools if has_tools else ()
        toolbox = RequestToolbox(self._tools, servers if has_tools else None)
        self._has_tools = bool(toolbox.tools)
        grammars = self._choose_grammars(backend, settings, toolbox.tools)
        self._is_constrained = isinstance(grammars[0], CallGrammar)
        self._backend = RequestBackend(
            backend, request.stop_sequences, *grammars, request.prefix, request.scores, is_left
        )
        self._chat = Conversation(self._backend, toolbox, self._adapt_settings(settings), i18n.load(settings.language))
        self._chat.get_quarantined = toolbox.get_quarantined
        self._chat.get_instructions = partial(toolbox.select_instructions, may_have_instructions(backend))
        self._chat.get_folders = toolbox.find_folders
        self._chat.is_served = True
        self._chat.answers_json = request.reply_schema is not None
        self._chat.is_run_by_client = toolbox.client_tools.__contains__
        if not self._has_tools:
            self._chat.ask_to_continue = stop_at_limit
        self._new, self._known_tokens = self._restore_history()
        if request.returns_progress:
            self._backend.report_progress(self._known_tokens)
        self._text: list[str] = []
        self._calls: list[ClientCall] = []
        self._has_left_out_call = False
        self._trimmer = _BlankTrimmer(bool(request.prefix))
        select_tools(self._chat)  # what takes seconds with hundreds of tools; the turn finds it done

    def _adapt_settings(self, settings: Settings) -> Settings:
        """Return the settings of the server with what the request replaces."""
        requested = self._request.generation
        return replace(
            settings,
            system=self._request.system or settings.system,
            generation=replace(settings.generation, **requested),
            origins={**settings.origins, **{f"generation.{name}": Origin.COMMAND_LINE for name in requested}},
            max_steps=settings.max_steps if self._has_tools else 1,
        )

    def _restore_history(self) -> tuple[Sequence[Message], int]:
        """Restore the conversation up to its last reply; return the messages after it and the tokens known before."""
        request = self._request
        known, history, tokens = self._histories.find(request.system, request.messages)
        history = (*history, *build_history(request.messages, self._chat.call_format)[known:])
        last_reply = max((i for i, message in enumerate(history) if message.role == "assistant"), default=-1)
        self._chat.restore(history[: last_reply + 1])
        return history[last_reply + 1 :], tokens

    def _choose_grammars(self, backend: Backend, settings: Settings, tools: Sequence[Tool]) -> _Grammars:
        """Return what replaces the grammar of calls, if the request requires a call or a JSON value.

        Returns:
            The grammar of a reply, and of one in which calls are impossible; None where they stay.
        """
        request, call_format = self._request, select_call_format(backend, settings)
        if not (settings.constrained and backend.supports_grammar):
            return _NONE
        if request.tool_choice == "required":
            calls = build_call_grammar(self._required_tools, call_format)
            return (require_call(calls), None) if calls else _NONE
        if request.tool_choice == "none" and request.tools and request.reply_schema is None:
            return forbid_calls(call_format, backend.family.accepted_formats), None
        value = None if request.reply_schema is None else build_reply_grammar(request.reply_schema)
        if value is None or not tools:
            return value, value
        calls = build_call_grammar(tools, call_format)
        return (_allow_calls(value, calls), value) if calls else _NONE

    @property
    def _required_tools(self) -> tuple[Tool, ...]:
        name = self._request.required_tool
        return tuple(tool for tool in self._tools if name in ("", tool.name))

    async def stream(self) -> AsyncGenerator[ReplyEvent, None]:
        """Yield the events of the reply; closing the stream stops the engine.

        Raises:
            GenerationError: The prompt does not fit, or the engine failed.
        """
        schema, must_call = self._request.reply_schema, self._request.tool_choice == "required"
        # a reply that may be rejected is held, so that nothing of it stands before the next one
        is_buffered = (schema is not None or must_call) and not self._is_constrained
        messages: Sequence[Message] = self._new
        for is_last in (bool(self._request.prefix), True):
            async with aclosing(self._run_turn(messages)) as events:
                async for event in events:
                    if not (is_buffered and isinstance(event, ReplyText | ReplyCall)):
                        yield event
            if is_last or not (correction := self._find_correction()):
                break
            if is_buffered:
                self._text.clear()
                self._trimmer = _BlankTrimmer()
            messages = [Message("user", correction)]
        if problem := self._find_problem():
            raise ApiError(422, f"The reply does not match the schema: {problem}.", code="invalid_reply")
        for held in self._list_held() if is_buffered else ():
            yield held
        self._remember()
        yield ReplyEnded(self._find_reason(), add_usages(self._hide_foreign_reuse()))

    def _list_held(self) -> Iterator[ReplyText | ReplyCall]:
        """Yield a whole reply that was held."""
        text = "".join(self._text)
        if text := text if self._request.reply_schema is None else remove_fence(text):
            self._text = [text]
            yield ReplyText(text)
        yield from map(ReplyCall, self._calls)

    async def _run_turn(
        self, messages: Sequence[Message]
    ) -> AsyncGenerator[ReplyText | Thought | Reading | ReplyCall, None]:
        """Run one turn up to a call of the client's tools."""
        may_refuse = self._chat.profile.forces_calls and bool(self._chat.toolbox.tools)
        held = _HeldReply(bool(messages) and messages[0].role == "tool", may_refuse)
        try:
            async with aclosing(Turn(self._chat).run(messages)) as events:
                async for event in events:
                    if isinstance(event, Thought) or (isinstance(event, Reading) and self._request.returns_progress):
                        yield event
                    self._hold(event, held)
                    for shown in self._show(held.take_certain_text()):
                        yield shown
                    if isinstance(event, TurnEnded) or (isinstance(event, CallsDetected) and self._calls):
                        break
        # what there is goes to the client, with the reason "length"
        except LimitReachedError:
            pass
        for shown in self._show(held.take_text()):
            yield shown
        for call in held.calls:
            yield ReplyCall(call)

    def _hold(self, event: Event, held: _HeldReply) -> None:
        """Hold what an event has for the client."""
        if isinstance(event, CallFound | CallUnreadable) and not self._has_tools:
            if self._request.tools:  # the client has forbidden calls, and none of its tools is text
                self._has_left_out_call = True
                return
            event = Text(event.raw)  # without tools, a call is only text
        match event:
            case Text(text, is_report=True):
                held.report = text if self._request.reply_schema is None else ""
            case Text(text):
                held.text += self._trimmer.feed(text)
            case CallFound(call):
                held.calls += filter(None, [self._accept(call)])
            case TextWasThought():
                held.text = ""
            case ReplyDiscarded():
                held.discard()
                self._calls.clear()
                self._trimmer = _BlankTrimmer()
            case ToolFinished():
                held.may_be_discarded = True

    def _show(self, text: str) -> list[ReplyText]:
        """Add text to the reply and return it for the client, with the scores of its tokens."""
        if not text:
            return []
        self._text.append(text)
        return [ReplyText(text, self._backend.take_scores())]

    def _accept(self, found: ToolCall) -> ClientCall | None:
        """Return a call for the client; None if it is invalid, not of its tools, or one too many."""
        if self._calls and not self._request.allows_parallel:
            return None
        resolved = resolve_call(found, make_call_toolbox(self._chat).tools, self._chat.prompt_words)
        if not isinstance(resolved, PreparedCall) or not any(resolved.tool is tool for tool in self._tools):
            return None
        call = ClientCall(f"call_{secrets.token_hex(12)}", resolved.tool.name, resolved.call.arguments)
        self._calls.append(call)
        if not self._request.allows_parallel:
            # the model would write on, and nobody would get it
            self._backend.stop()
        return call

    def _find_correction(self) -> str:
        """Return what the model is told about a reply that is not what the request requires; "" if it is."""
        request, call_format = self._request, FORMATS[self._chat.call_format]
        words, schema = self._chat.prompt_words, request.reply_schema
        if request.tool_choice == "required" and not (self._calls or self._backend.was_cut):
            return f"{words('prompt.call')}\n{call_format.example}"
        if self._has_left_out_call and not (self._text or self._backend.has_reached_limit):
            return words("prompt.no_calls")
        if schema is None or not (problem := self._find_problem()):
            return ""
        return request_json(self._chat, words("prompt.json_correction", problem=problem), schema)

    def _find_problem(self) -> str:
        """Return why a reply that ended by itself is no value of the schema; "" if it is one, or a grammar held it."""
        schema = self._request.reply_schema
        if schema is None or self._is_constrained or self._calls or self._backend.was_cut:
            return ""
        return find_problem(remove_fence(self._request.prefix + "".join(self._text)), schema)

    def _find_reason(self) -> Finish:
        if self._backend.has_reached_limit:
            return "length"
        return "tool_calls" if self._calls else "stop"

    def _hide_foreign_reuse(self) -> list[Usage]:
        """Return the cost of the replies, with no more reuse for the first than what this conversation had evaluated.

        The cache is shared by all clients: how much of a new text it has would say what others wrote, token by token.
        """
        usages = list(self._backend.usages)
        if usages:
            usages[0] = replace(usages[0], reused_tokens=min(usages[0].reused_tokens, self._known_tokens))
        return usages

    def _remember(self) -> None:
        """Remember the history up to the last reply of the model, as the continuation of what the client sees."""
        if self._request.prefix:  # the history has only the rest of the reply
            return
        history = list(self._chat.history)
        # of calls that the client runs; it sends their results with its next request
        while history and history[-1].role == "tool":
            history.pop()
        reply = ClientMessage("assistant", "".join(self._text), tuple(self._calls))
        last = self._backend.usages[-1] if self._backend.usages else Usage()
        tokens = last.prompt_tokens + last.generated_tokens
        self._histories.remember(self._request.system, [*self._request.messages, reply], history, tokens)


async def generate_replies(
    request: ChatRequest, seed: int | None, start: Callable[[ChatRequest], Awaitable[ReplyGenerator]]
) -> AsyncGenerator[ReplyEvent, None]:
    """Yield the events of as many replies as a request wants, one after another; the prompt is counted once.

    Args:
        request: The request.
        seed: Seed of the server's settings; None for a new one for each reply.
        start: Prepares one reply.
    """
    seed = request.generation.get("seed", seed)
    for number in range(request.replies):
        generation = {**request.generation, **vary_reply(seed, number)}
        # the prompt of a further reply is in the cache
        varied = replace(request, generation=generation, returns_progress=request.returns_progress and not number)
        generator = await start(varied)
        async with aclosing(generator.stream()) as events:
            async for event in events:
                if number and isinstance(event, ReplyEnded):
                    event = replace(event, usage=replace(event.usage, prompt_tokens=0, reused_tokens=0))
                yield event


def vary_reply(seed: int | None, number: int) -> Mapping[str, int]:
    """Return the parameters by which one of several replies to a prompt differs from the others."""
    return {} if seed is None else {"seed": (seed + number) % 2**32}


def _allow_calls(value: CallGrammar, calls: CallGrammar) -> CallGrammar:
    """Return the grammar of a reply that is a value, or calls instead."""
    opening = f"(({require_call(calls).opening})+ | {value.opening})"
    return replace(calls, rules=f"{calls.rules}\n{value.rules}", opening=opening, is_whole_reply=True)


def check_length(length: int, backend: Backend) -> None:
    """Raise GenerationError for a prompt of so many characters that counting its tokens is pointless."""
    if length > backend.context_tokens * MAX_TOKEN_LENGTH:
        text = f"The prompt has {length} characters; the context window has {backend.context_tokens} tokens."
        raise GenerationError(text, length=length, available=backend.context_tokens)


def add_usages(usages: Sequence[Usage]) -> Usage:
    """Return the sum of token counts; the last reply decides whether the limit was reached."""
    return Usage(
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        reused_tokens=sum(usage.reused_tokens for usage in usages),
        prefilled_tokens=sum(usage.prefilled_tokens for usage in usages),
        generated_tokens=sum(usage.generated_tokens for usage in usages),
        prefill_s=sum(usage.prefill_s for usage in usages),
        generate_s=sum(usage.generate_s for usage in usages),
        first_token_s=usages[0].first_token_s if usages else 0.0,
        hit_limit=bool(usages) and usages[-1].hit_limit,
        was_repeating=bool(usages) and usages[-1].was_repeating,
    )
