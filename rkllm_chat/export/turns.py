"""A session's records as turns to be read: what was asked, said, called, and what it cost. It knows no form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from ..clean import clean_line
from ..events import CallFound, CallGarbled, Text, Thought, Usage
from ..families import make_scanner
from ..messages import Message, ToolResult
from ..records import Edit, End, Entry, Forgot, Setup, TurnDone, find_undone
from ..scanner import Invented

LONGEST_TITLE = 80


@dataclass(frozen=True)
class Said:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True)
class Called:
    """A call and what came of it, None if that was never known."""

    name: str
    arguments: Mapping[str, Any]
    result: ToolResult | None = None


@dataclass(frozen=True)
class Unreadable:
    """A call that could not be read, as it was written."""

    raw: str
    detail: str


@dataclass(frozen=True)
class Forgotten:
    """From here on the model was not shown so many turns."""

    turns: int


@dataclass(frozen=True)
class Shortened:
    """The talk before was replaced for the model by this text."""

    text: str


Part = Said | Thinking | Called | Unreadable | Forgotten | Shortened


@dataclass
class Turn:
    """What the user said and all until the next time; `at` in seconds since 1970, `seconds` as long as it took.

    `costs`: what each reply of the model cost, in order. `tools_s`: how long its tools took; those of one reply ran
    side by side, so the longest of them counts. `told`: lines on tools that the model was shown with what was asked.
    """

    asked: str = ""
    at: float = 0.0
    seconds: float = 0.0
    parts: list[Part] = field(default_factory=list[Part])
    costs: list[Usage] = field(default_factory=list[Usage])
    tools_s: float = 0.0
    reason: End | None = None
    error: str = ""
    told: tuple[str, ...] = ()

    @property
    def results(self) -> list[ToolResult]:
        return [part.result for part in self.parts if isinstance(part, Called) and part.result]

    @property
    def prefill_s(self) -> float:
        return sum(cost.prefill_s for cost in self.costs)

    @property
    def generate_s(self) -> float:
        return sum(cost.generate_s for cost in self.costs)


@dataclass(frozen=True)
class Told:
    """A talk to be read. `setup` is what it went on from at last."""

    name: str
    setup: Setup
    turns: Sequence[Turn]
    zone: tzinfo | None = None

    @property
    def title(self) -> str:
        line = next((clean_line(turn.asked) for turn in self.turns if turn.asked.strip()), self.name)
        return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1] + "…"

    def moment(self, at: float) -> datetime:
        return datetime.fromtimestamp(at).astimezone(self.zone)


def tell(name: str, entries: Iterable[Entry], zone: tzinfo | None = None) -> Told:
    """What was told in the end: what was undone is left out; what was shortened for the model stays."""
    entries = list(entries)
    undone = find_undone([entry.record for entry in entries])
    teller = Teller()
    for index, entry in enumerate(entries):
        if index not in undone:
            teller.take(entry)
    return Told(name, teller.setup, teller.turns, zone)


class Teller:
    """Takes records one by one and puts them into turns."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.setup = Setup()
        self._waiting: list[int] = []
        self._slowest = 0.0

    def take(self, entry: Entry) -> None:
        match entry.record:
            case Setup() as setup:
                self.setup = setup
            case Message("user", text, tools=told):
                self.turns.append(Turn(text, entry.at, told=told))
                self._waiting = []
            case Message("assistant", text):
                self._take_reply(text)
            case Message() as message:
                self._take_result(message)
            case Usage() as usage:
                self._turn.costs.append(usage)
            case TurnDone(reason, error):
                self._turn.reason, self._turn.error = reason, error
                self._turn.seconds = max(0.0, entry.at - self._turn.at)
            case Forgot(turns=turns):
                self._turn.parts.append(Forgotten(turns))
            case Edit(_, _, messages) if messages:
                self._turn.parts.append(Shortened("\n\n".join(message.text for message in messages)))
            case _:
                pass

    @property
    def _turn(self) -> Turn:
        if not self.turns:
            self.turns.append(Turn())
        return self.turns[-1]

    def _take_reply(self, text: str) -> None:
        parts = self._turn.parts
        scanner = make_scanner(self.setup.asks or "json", self.setup.accepts, self.setup.tools)
        self._waiting, self._slowest = [], 0.0
        for event in (*scanner.feed(text), *scanner.close()):
            last = parts[-1] if parts else None
            event = Text(event.text) if isinstance(event, Invented) else event  # an old session may hold some
            match event:
                case Text(piece) if isinstance(last, Said):
                    parts[-1] = Said(last.text + piece)
                case Thought(piece) if isinstance(last, Thinking):
                    parts[-1] = Thinking(last.text + piece)
                case Text(piece):
                    parts.append(Said(piece))
                case Thought(piece):
                    parts.append(Thinking(piece))
                case CallFound(call):
                    self._waiting.append(len(parts))
                    parts.append(Called(call.name, call.arguments))
                case CallGarbled(_, detail, raw):
                    self._waiting.append(len(parts))
                    parts.append(Unreadable(raw, detail))

    def _take_result(self, message: Message) -> None:
        """Results come in the order of the calls; a remark without a call was for the model alone."""
        turn = self._turn
        place = self._waiting.pop(0) if self._waiting else None
        if message.result is None:
            return
        called = Called(message.result.tool, message.result.arguments, message.result)
        turn.tools_s += max(0.0, message.result.seconds - self._slowest)
        self._slowest = max(self._slowest, message.result.seconds)
        if place is None:
            turn.parts.append(called)
        else:
            turn.parts[place] = called
