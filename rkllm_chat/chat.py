"""One turn of talk as a stream of events: prompt, reply, calls, results, and round again. It prints nothing.

The shapes it needs of others are said here: a Backend writes text, a Toolbox runs tools. The history only grows and
belongs to the chat. Walking away (closing the stream, or cancelling its task) stops the engine and the tools and
keeps what was said; the history is whole afterwards, every call has a result.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

from .budget import LONGEST_TOKEN
from .choosing import Choice
from .config import Generation, Settings
from .describing import TOOL as DESCRIBE
from .errors import ChatError, GenerationError
from .events import (
    CallFound,
    CallGarbled,
    CallsDetected,
    Event,
    Notice,
    Reading,
    Sentence,
    Text,
    TurnEnded,
    Usage,
)
from .families import Family, make_scanner
from .formats import FORMATS
from .grammar import CallGrammar
from .hearing import Hearing
from .history import History
from .language import Words
from .messages import SEPARATOR, Message, Tool, ToolResult
from .more import TOOL as MORE
from .more import Share, last_number
from .policy import Consent, decide
from .prefix import Prefix, Read
from .records import End, Forgot, Keep, Record, TurnDone, keep_nothing
from .rounds import OnProgress, Reply, Tally, Terms, Verdict, first_remarks, run_calls, start_early
from .scanner import Scanner
from .served import Served
from .window import (
    callable_tools,
    form_of,
    grammar_of,
    make_room,
    next_tokens,
    outline,
    prompt_of,
    share_of,
    tools_beside,
    with_tools,
    words_for,
)

Approve = Callable[[Tool, Mapping[str, Any]], Awaitable[Consent]]
Onward = int | Literal["answer", "stop"]
"""After the last round: so many more, one more reply without tools, or the end."""


class Backend(Protocol):
    """An engine that continues a conversation. `context_tokens` bounds prompt and answer together.

    `native_tools`: it has its own way to tell the model of tools, and is given them beside the prompt.
    `constrains`: it can be held to a grammar while it writes a call.
    `template` names how it writes a conversation: two of the same name write it alike. `family` is what the model is
    known to be by its names and its template. `prompt_language` is the one language that the model was taught our words
    in, "" where any will do; `tools_share` and `few_tools` what its file says of these settings, None where nothing.
    """

    name: str
    template: str
    family: Family
    prompt_language: str
    tools_share: float | None
    few_tools: bool | None
    context_tokens: int
    native_tools: bool
    constrains: bool

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        grammar: CallGrammar | None = None,
    ) -> AsyncGenerator[str | Usage | Sentence | Reading, Any]:
        """Pieces of the reply, then one Usage; a Sentence or Readings where something takes its time.

        A thought that the prompt has opened is the first piece: "<think>" and what stands behind it. Closing it
        stops the engine; so does sending it True, and then the Usage still comes. Raises GenerationError.
        """
        ...

    async def prefill(self, prompt: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        """Reads of a prompt what stays whatever a user says next, so that a stream goes on from there; says nothing.

        Gives how many tokens were evaluated: 0 where it is of no use, or costs money. A stream may be begun meanwhile
        and comes first. It may be cancelled at any moment. Raises GenerationError.
        """
        ...

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """The size of a prompt, template included."""
        ...

    def count_held(self, prompt: Sequence[Message]) -> int | None:
        """How much of a prompt needs not be read again, as things stand; None where that is not known."""
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


@dataclass
class Chat:
    """A conversation. `approve` is asked about the calls that the policy leaves open, `at_limit` after `max_steps`
    rounds of calls in one turn how to go on. `spent` is what each reply has cost. `keep` is told what is worth keeping,
    as it happens: every change of the history, what each reply cost, and how a turn ended. The history is changed in
    place, and replaced by `restore` alone; the model is shown its first `kept` messages and those from `first_shown`
    on. `make_room` says what leaves before a prompt would overflow. `held` are tools that wait for the user to accept
    them; `called` are the calls of this turn; `newest_cut` is the number of the newest result that was cut. `prefix`
    knows of each prompt how much of it extends the one before, `choice` which tools the model is told of, `served`
    which have served. `starts_early`: calls that need no question may start while the reply is written.
    """

    backend: Backend
    toolbox: Toolbox
    settings: Settings
    words: Words
    approve: Approve = decline_all
    history: list[Message] = field(default_factory=list[Message])
    first_shown: int = 0
    kept: int = 0
    at_limit: Callable[[int], Awaitable[Onward]] = stop_at_limit
    spent: list[Usage] = field(default_factory=list[Usage])
    keep: Keep = keep_nothing
    held: Callable[[], Sequence[Tool]] = tuple
    called: int = 0
    newest_cut: int = 0
    make_room: Callable[[Chat, int], Forgot | None] = make_room
    prefix: Prefix = field(default_factory=Prefix)
    starts_early: bool = True
    choice: Choice = field(default_factory=Choice)
    served: Served = field(default_factory=Served)

    def __post_init__(self) -> None:
        self.restore(self.history)

    def send(self, line: str) -> AsyncGenerator[Event, None]:
        """One turn with what a user says; see `answer`."""
        return self.answer([Message("user", line)])

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Event, None]:
        """One turn: the messages go into the history, the model answers, its calls are run, until it has answered.

        Ends with TurnEnded. Raises GenerationError when the engine fails; what was said until then is kept. Messages
        that cannot fit are refused by their length, and not kept.
        """
        self._check_length(messages)
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

    def _check_length(self, messages: Sequence[Message]) -> None:
        """Raises GenerationError for texts that are not worth counting."""
        length, room = sum(len(message.text) for message in messages), self.backend.context_tokens
        if length > room * LONGEST_TOKEN:
            text = f"The message is {length} characters long, the context holds {room} tokens."
            raise GenerationError(text, "Send less of it, or have a tool read it.")

    def restore(self, history: Sequence[Message], first_shown: int = 0, kept: int = 0) -> None:
        """Goes on from another history, of which the model is shown so much; `keep` is not told."""
        self.history = History(history, self._tell)
        self.first_shown, self.kept = first_shown, kept
        self.newest_cut = last_number(history)
        self.prefix.restored()

    def _tell(self, record: Record) -> None:
        self.prefix.note(record)
        self.keep(record)
        result = record.result if isinstance(record, Message) else None
        if result and result.status == "completed" and result.server:
            self.served.note(f"{result.server}{SEPARATOR}{result.tool}")

    async def _answer(self, messages: Sequence[Message]) -> AsyncGenerator[Event, None]:
        self.history += with_tools(self, messages)
        self.called = 0
        usage: list[Usage] = []
        reply, left, may_call, tally = Reply(), self.settings.max_steps, True, Tally()
        while reply.reason is None:
            reply = Reply()
            async with aclosing(self._round(reply, may_call, tally)) as happened:
                async for event in happened:
                    yield event
            usage.append(reply.usage)
            self.spent.append(reply.usage)
            left -= 1
            if reply.reason is None and tally.is_circling:
                left, may_call = 1, False
            elif reply.reason is None and not left:
                left, may_call = await self._ask_onward(len(usage))
                reply.reason = None if left else "steps"
        if tally.gave_up:
            for call in reply.calls:
                if isinstance(call, CallGarbled):
                    yield Text(call.raw)
            yield Notice(self.words("chat.gave_up"))
        elif reply.reason == "steps":
            yield Notice(self.words("chat.steps", steps=len(usage)))
        for notice in self._forget(next_tokens(self)):
            yield notice
        yield TurnEnded(reply.reason, tuple(usage))

    def _forget(self, next_tokens: int = 0) -> Iterator[Notice]:
        """Leaves turns out where the prompt, or one that is longer by so many tokens, would overflow."""
        if forgot := self.make_room(self, next_tokens):
            self.first_shown, self.kept = forgot.first_shown, forgot.kept
            self._tell(forgot)
            yield Notice(self.words("chat.forgot", turns=forgot.turns))

    async def _round(self, reply: Reply, may_call: bool, tally: Tally) -> AsyncGenerator[Event, None]:
        """One reply and, if it may have any, its calls."""
        form, permit = FORMATS[self.form], partial(self._permit, reply)
        terms = Terms(self.prompt_words, form, permit, self._may_start, tally, held=self.held())
        async with aclosing(reply.runs):
            async with aclosing(self._listen(reply, terms if may_call and self.starts_early else None)) as heard:
                async for event in heard:
                    yield event
            if not reply.calls:
                reply.reason = "length" if reply.usage.hit_limit else "answered"
            elif not may_call:
                self.history += first_remarks(reply.calls, self.prompt_words)
                reply.reason = "steps"
            else:
                async with aclosing(self._run(reply, replace(terms, was_cut=reply.usage.hit_limit))) as happened:
                    async for event in happened:
                        yield event
                if tally.gave_up:  # no answer was reached, which "steps" says to scripts, unless the limit is to blame
                    reply.reason = "length" if reply.usage.hit_limit else "steps"

    async def _ask_onward(self, rounds: int) -> tuple[int, bool]:
        """How many more rounds there are, and whether they may call tools."""
        onward = await self.at_limit(rounds)
        if onward == "answer":
            self.history.append(Message("tool", self.prompt_words("prompt.wrap_up")))
            return 1, False
        return (0, False) if onward == "stop" else (onward, True)

    async def _listen(self, reply: Reply, terms: Terms | None) -> AsyncGenerator[Event, None]:
        """One reply of the model, scanned while it comes; it is in the history when this ends, however it ends.

        On `terms` its calls may start meanwhile.
        """
        for notice in self._forget():
            yield notice
        hearing = Hearing(self.make_scanner(), reply, lambda: self._start_calls(reply, terms))
        whole = False
        prompt = prompt_of(self)
        parting = self.prefix.send(outline(self, prompt))
        try:
            stream = self.backend.stream(prompt, self.settings.generation, tools_beside(self), grammar_of(self))
            async with aclosing(hearing.listen(stream)) as heard:
                async for event in heard:
                    yield self.tell(event) if isinstance(event, Sentence) else event
            whole = True
        finally:
            self.history.append(Message("assistant", hearing.said))
            self.prefix.reads.append(Read(reply.usage, parting))
            self.keep(reply.usage)
            if not whole:
                await self._remember(reply, first_remarks(reply.calls, self.prompt_words))

    def _start_calls(self, reply: Reply, terms: Terms | None) -> None:
        if terms:
            start_early(reply, callable_tools(self), terms)

    async def _run(self, reply: Reply, terms: Terms) -> AsyncGenerator[Event, None]:
        """The calls of one reply; their results are in the history when this ends, however it ends."""
        remarks = first_remarks(reply.calls, self.prompt_words)
        share = share_of(self, reply.usage)
        running = run_calls(reply, callable_tools(self, share.fits(len(remarks))), terms, remarks)
        try:
            if found := sum(isinstance(call, CallFound) for call in reply.calls):
                yield CallsDetected(found)
            async with aclosing(running) as happened:
                async for event in happened:
                    yield event
        finally:
            await self._remember(reply, remarks, share)

    async def _remember(self, reply: Reply, remarks: Sequence[Message], share: Share | None = None) -> None:
        """Ends what still runs, and puts what came of each call into the history."""
        try:
            await reply.runs.aclose()
        finally:
            told = [reply.runs.done.get(index, remark) for index, remark in enumerate(remarks)]
            share = share_of(self, reply.usage) if reply.runs.done and not share else share
            shown = share.fit(told, self.newest_cut) if share else told
            self.newest_cut = max(self.newest_cut, last_number(shown))
            self.history += shown

    async def _permit(self, reply: Reply, tool: Tool, arguments: Mapping[str, Any]) -> Verdict:
        """Whether a call is run: the policy's word, and a person's where it leaves that open."""
        if tool in (MORE, DESCRIBE):  # it reads what was given already
            return "run"
        decision = decide(tool, self.settings.policy, self.called)
        self.called += 1
        if decision != "ask":
            return "refused" if decision == "refuse" else decision
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

    def _may_start(self, tool: Tool) -> bool:
        """Whether a call may start while the reply is written. Our own wait: the room is not known yet."""
        if tool in (MORE, DESCRIBE) or decide(tool, self.settings.policy, self.called) != "run":
            return False
        self.called += 1
        return True

    def tell(self, piece: Sentence | Reading) -> Notice | Reading:
        """What an engine says of itself, in the language that is spoken."""
        return Notice(self.words(piece.key, **piece.values)) if isinstance(piece, Sentence) else piece

    @property
    def prompt_words(self) -> Words:
        """The words that the model reads."""
        return words_for(self.backend, self.settings, self.words)

    @property
    def shown(self) -> list[Message]:
        """The part of the history that the model is shown."""
        return [*self.history[: self.kept], *self.history[self.first_shown :]]

    @property
    def form(self) -> str:
        """The row of FORMATS that calls are asked for in."""
        return form_of(self.backend, self.settings)

    def make_scanner(self) -> Scanner:
        """For a reply of this model, or one that it has given."""
        return make_scanner(self.form, self.backend.family.accepts, callable_tools(self).tools, self.prompt_words)

    def count_tokens(self) -> int:
        """The size of the prompt as it would be sent now."""
        return self.backend.count_tokens(prompt_of(self))

    def count_text(self, text: str) -> int:
        """The size of a text, as a message of the user."""
        return self.backend.count_tokens([Message("user", text)])
