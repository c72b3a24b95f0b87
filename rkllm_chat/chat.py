"""One turn of talk as a stream of events: prompt, reply, calls, results, and round again. It prints nothing.

The shapes it needs of others are said here: a Backend writes text, a Toolbox runs tools. The history only grows and
belongs to the chat. Walking away (closing the stream, or cancelling its task) stops the engine and the tools and
keeps what was said; the history is whole afterwards, every call has a result.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

from . import language
from .budget import ANSWER_SHARE, RESULT_SHARE, cut_middle, next_turn
from .config import Generation, Settings
from .errors import ChatError
from .events import CallFound, CallGarbled, CallsDetected, Event, Notice, Reading, Reason, Sentence, TurnEnded, Usage
from .history import History
from .language import Words
from .messages import NOTHING_SAID, Message, Tool, ToolResult
from .policy import Consent, decide
from .prompt import compose
from .records import End, Forgot, Keep, TurnDone, keep_nothing
from .rounds import OnProgress, Verdict, first_remarks, run_calls
from .scanner import Scanner, Seen

Approve = Callable[[Tool, Mapping[str, Any]], Awaitable[Consent]]
Onward = int | Literal["answer", "stop"]
"""After the last round: so many more, one more reply without tools, or the end."""


class Backend(Protocol):
    """An engine that continues a conversation. `context_tokens` bounds prompt and answer together.

    `native_tools`: it has its own way to tell the model of tools, and is given them beside the prompt.
    `template` names how it writes a conversation: two of the same name write it alike. `prompt_language` is the one
    language that the model was taught our words in, "" where any will do.
    """

    name: str
    template: str
    prompt_language: str
    context_tokens: int
    native_tools: bool

    def stream(
        self, prompt: Sequence[Message], generation: Generation, tools: Sequence[Tool] = ()
    ) -> AsyncGenerator[str | Usage | Sentence | Reading, None]:
        """Pieces of the reply, then one Usage; a Sentence or Readings where something takes its time.

        Closing it stops the engine. Raises GenerationError.
        """
        ...

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """The size of a prompt, template included."""
        ...

    async def aclose(self) -> None: ...


class Toolbox(Protocol):
    """Tools that can be called."""

    @property
    def tools(self) -> Sequence[Tool]: ...

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        """Runs a tool. Failure is a result; only cancellation is raised."""
        ...


async def decline_all(_tool: Tool, _arguments: Mapping[str, Any]) -> Consent:
    """The answer where there is nobody to ask."""
    return "no"


async def stop_at_limit(_rounds: int) -> Onward:
    """The answer where there is nobody to ask."""
    return "stop"


def words_for(backend: Backend, settings: Settings, words: Words) -> Words:
    """The words that a model reads: in the language of the settings, or its own, or that of the person."""
    chosen = backend.prompt_language if settings.prompt_language == "auto" else settings.prompt_language
    return language.load(chosen) if chosen else words


@dataclass
class Reply:
    """What one call of the model brought, besides its text. `reason`: why the turn ends with it, None if it goes on."""

    calls: list[CallFound | CallGarbled] = field(default_factory=list[CallFound | CallGarbled])
    usage: Usage = field(default_factory=Usage)
    reason: Reason | None = None

    def note(self, seen: list[Seen]) -> list[Seen]:
        """Remembers the calls among the events, and gives the events back."""
        self.calls += [event for event in seen if isinstance(event, CallFound | CallGarbled)]
        return seen


@dataclass
class Chat:
    """A conversation. `approve` is asked about the calls that the policy leaves open, `at_limit` after `max_steps`
    rounds of calls in one turn how to go on. `spent` is what each reply has cost. `keep` is told what is worth keeping,
    as it happens: every change of the history, what each reply cost, and how a turn ended. The history is changed in
    place, and replaced by `restore` alone.
    """

    backend: Backend
    toolbox: Toolbox
    settings: Settings
    words: Words
    approve: Approve = decline_all
    history: list[Message] = field(default_factory=list[Message])
    first_shown: int = 0
    at_limit: Callable[[int], Awaitable[Onward]] = stop_at_limit
    spent: list[Usage] = field(default_factory=list[Usage])
    keep: Keep = keep_nothing

    def __post_init__(self) -> None:
        self.restore(self.history)

    def send(self, line: str) -> AsyncGenerator[Event, None]:
        """One turn with what a user says; see `answer`."""
        return self.answer([Message("user", line)])

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Event, None]:
        """One turn: the messages go into the history, the model answers, its calls are run, until it has answered.

        Ends with TurnEnded. Raises GenerationError when the engine fails; what was said until then is kept.
        """
        end: End = "stopped"
        error = ""
        try:
            async with aclosing(self._answer(messages)) as happened:
                async for event in happened:
                    end = event.reason if isinstance(event, TurnEnded) else end
                    yield event
        except ChatError as failure:
            end, error = "failed", str(failure)
            raise
        finally:
            self.keep(TurnDone(end, error))

    def restore(self, history: Sequence[Message], first_shown: int = 0) -> None:
        """Goes on from another history, shown to the model from `first_shown` on; `keep` is not told."""
        self.history = History(history, lambda record: self.keep(record))
        self.first_shown = first_shown

    async def _answer(self, messages: Sequence[Message]) -> AsyncGenerator[Event, None]:
        self.history += messages
        usage: list[Usage] = []
        reply, left, may_call = Reply(), self.settings.max_steps, True
        while reply.reason is None:
            reply = Reply()
            async with aclosing(self._round(reply, may_call)) as happened:
                async for event in happened:
                    yield event
            usage.append(reply.usage)
            self.spent.append(reply.usage)
            left -= 1
            if reply.reason is None and not left:
                left, may_call = await self._ask_onward(len(usage))
                reply.reason = None if left else "steps"
        if reply.reason == "steps":
            yield Notice(self.words("chat.steps", steps=len(usage)))
        yield TurnEnded(reply.reason, tuple(usage))

    async def _round(self, reply: Reply, may_call: bool) -> AsyncGenerator[Event, None]:
        """One reply and, if it may have any, its calls."""
        async with aclosing(self._listen(reply)) as heard:
            async for event in heard:
                yield event
        if not reply.calls:
            reply.reason = "length" if reply.usage.hit_limit else "answered"
        elif not may_call:
            self.history += first_remarks(reply.calls, self.settings, self.prompt_words)
            reply.reason = "steps"
        else:
            async with aclosing(self._run(reply)) as happened:
                async for event in happened:
                    yield event

    async def _ask_onward(self, rounds: int) -> tuple[int, bool]:
        """How many more rounds there are, and whether they may call tools."""
        onward = await self.at_limit(rounds)
        if onward == "answer":
            self.history.append(Message("tool", self.prompt_words("prompt.wrap_up")))
            return 1, False
        return (0, False) if onward == "stop" else (onward, True)

    async def _listen(self, reply: Reply) -> AsyncGenerator[Event, None]:
        """One reply of the model, scanned while it comes; it is in the history when this ends, however it ends."""
        forgotten = self._forget_what_does_not_fit()
        if forgotten:
            self.keep(Forgot(self.first_shown, forgotten))
            yield Notice(self.words("chat.forgot", turns=forgotten))
        scanner = Scanner()
        said: list[str] = []
        whole = False
        try:
            tools = self.toolbox.tools if self.backend.native_tools else ()
            async with aclosing(self.backend.stream(self._prompt(), self.settings.generation, tools)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Usage):
                        reply.usage = piece
                        continue
                    if isinstance(piece, Sentence | Reading):
                        yield self.tell(piece)
                        continue
                    said.append(piece)
                    for event in reply.note(scanner.feed(piece)):
                        yield event
            for event in reply.note(scanner.close()):
                yield event
            whole = True
        finally:
            self.history.append(Message("assistant", "".join(said) or NOTHING_SAID))
            self.keep(reply.usage)
            if not whole:
                self.history += first_remarks(reply.calls, self.settings, self.prompt_words)

    async def _run(self, reply: Reply) -> AsyncGenerator[Event, None]:
        """The calls of one reply; their results are in the history when this ends, however it ends."""
        remarks = first_remarks(reply.calls, self.settings, self.prompt_words)
        permit = partial(self._permit, reply)
        running = run_calls(reply.calls, self.toolbox, self.prompt_words, permit, remarks)
        try:
            if found := sum(isinstance(call, CallFound) for call in reply.calls):
                yield CallsDetected(found)
            async with aclosing(running) as happened:
                async for event in happened:
                    yield event
        finally:
            self.history += [replace(remark, text=self.cut(remark.text)) for remark in remarks]

    async def _permit(self, reply: Reply, tool: Tool, arguments: Mapping[str, Any]) -> Verdict:
        """Whether a call is run: the policy's word, and a person's where it leaves that open."""
        decision = decide(tool, self.settings.policy)
        if decision != "ask":
            return "run" if decision == "run" else "refused"
        match await self.approve(tool, arguments):
            case "always":
                policy = self.settings.policy
                policy = replace(policy, allow=(*policy.allow, tool.full_name))
                self.settings = replace(self.settings, policy=policy)
            case "stop":
                reply.reason = "stopped"
                return "stopped"
            case "no":
                return "declined"
        return "run"

    def tell(self, piece: Sentence | Reading) -> Notice | Reading:
        """What an engine says of itself, in the language that is spoken."""
        return Notice(self.words(piece.key, **piece.values)) if isinstance(piece, Sentence) else piece

    @property
    def prompt_words(self) -> Words:
        """The words that the model reads."""
        return words_for(self.backend, self.settings, self.words)

    def cut(self, text: str) -> str:
        """A text that somebody else wrote, no longer than one may be in this context."""
        return cut_middle(text, self.backend.context_tokens // RESULT_SHARE, self._count_text)

    def count_tokens(self) -> int:
        """The size of the prompt as it would be sent now."""
        return self.backend.count_tokens(self._prompt())

    def _count_text(self, text: str) -> int:
        return self.backend.count_tokens([Message("user", text)])

    def _prompt(self) -> list[Message]:
        shown = self.history[self.first_shown :]
        if self.backend.native_tools:
            return [Message("system", self.settings.system or self.prompt_words("prompt.system")), *shown]
        system, form = self.settings.system, self.settings.tool_format
        return compose(shown, self.toolbox.tools, self.prompt_words, system, form)

    def _forget_what_does_not_fit(self) -> int:
        """Leaves whole turns out, oldest first, until prompt and answer fit; gives how many. The last turn stays.

        Goes down to half the room at once, so that the next turns can use the engine's cache again.
        """
        room = self.backend.context_tokens
        room -= min(self.settings.generation.max_tokens, room // ANSWER_SHARE)
        forgotten = 0
        if self.count_tokens() <= room:
            return 0
        while self.count_tokens() > room // 2:
            following = next_turn(self.history, self.first_shown)
            if following == self.first_shown:
                break
            self.first_shown = following
            forgotten += 1
        return forgotten
