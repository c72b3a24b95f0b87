"""What a message will cost before it is sent: the tokens of its prompt, how many of them the engine holds, and how long
it reads the rest. It sends nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .events import Usage
from .measured import Measured
from .messages import Message
from .speed import Speed, read_samples, write_samples
from .window import prompt_of, room_of, told_before

if TYPE_CHECKING:
    from .chat import Chat

PROBE = "a"
"""What stands for the text of the user while the prompt around it is counted."""
NEARLY = 32
"""Tokens; a template writes no more between two messages, so whoever lacks no more holds all that was said before."""


@dataclass(frozen=True)
class Forecast:
    """A prompt that may be sent. `cached` is None where nobody knows; `seconds` is the time until the answer begins,
    0.0 where it is not known. Of more than `room` tokens older turns leave first, so what is cached then is not known.
    """

    total: int
    room: int
    cached: int | None = None
    seconds: float = 0.0

    @property
    def new(self) -> int | None:
        return None if self.cached is None else self.total - self.cached

    @property
    def fits(self) -> bool:
        return self.total <= self.room


@dataclass(frozen=True)
class Ground:
    """A talk as it stands, counted once: the tokens of the prompt around a message of the user, how many of them the
    engine holds, and how many a message has beside its text.
    """

    around: int
    cached: int | None
    room: int
    frame: int

    @property
    def is_held(self) -> bool:
        """Whether the engine holds all that was said before, so that nothing more can become known."""
        return self.cached is None or self.cached + NEARLY >= self.around

    def foresee(self, tokens: int, speed: Speed) -> Forecast:
        """With a message of so many tokens, its frame included."""
        total = self.around + tokens
        cached = self.cached
        if cached is None or total > self.room:
            return Forecast(total, self.room)
        cached = min(cached, total - 1)
        return Forecast(total, self.room, cached, speed.expect(total - cached, cached))


def survey(chat: Chat) -> Ground:
    """Counts the talk as it stands. Raises ChatError where its template takes no message of a user now."""
    probe = Message("user", PROBE)
    prompt = prompt_of(chat, [*chat.shown, probe])
    alone = chat.count_text(PROBE)
    around = chat.backend.count_tokens(prompt) - alone
    return Ground(around, chat.backend.count_held(prompt), room_of(chat), alone - 1)


def count_tools(chat: Chat, ground: Ground, text: str, tokens: int) -> int:
    """How many tokens would be told of tools before this text, which has so many itself."""
    told = told_before(chat, text, ground.room - ground.around - tokens)
    return chat.count_text(told) - ground.frame if told else 0


def state_of(chat: Chat) -> Hashable:
    """What differs between two states of a talk whose prompts may differ; cheap to have."""
    tools = tuple((tool.full_name, tool.description) for tool in chat.toolbox.tools)
    last = id(chat.history[-1]) if chat.history else 0
    shown = (len(chat.history), last, chat.first_shown, chat.kept)
    return (id(chat.backend), shown, tools, chat.settings.system, chat.prompt_words.code, chat.form)


class Speeds:
    """How fast each model reads on this machine, kept in the file of `measured` for the next start."""

    KIND = "read"

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._speeds: dict[str, Speed] = {}

    def of(self, model: str) -> Speed:
        """What is known of a model."""
        if model not in self._speeds:
            self._speeds[model] = Speed(read_samples(self._measured.read(self.KIND, model)))
        return self._speeds[model]

    def note(self, model: str, usage: Usage) -> None:
        """Learns from what a reply has cost, if it says how long it read."""
        speed = self.of(model)
        before = speed.samples
        speed.note(usage.prefilled_tokens, usage.reused_tokens, usage.prefill_s)
        if speed.samples != before:
            self._measured.write(self.KIND, model, write_samples(speed.samples))
