"""Two prompts beside each other: how much the later one shares with the earlier, where they part and why. It is pure.

An engine reads only what is new as long as each prompt extends the one before. What the prompts were made from is
compared; what somebody did to the history is told by its records, not guessed from texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

from .events import Usage
from .messages import Message
from .records import Edit, Forgot, Record

Cause = Literal[
    "first",
    "model",
    "system",
    "language",
    "form",
    "tools",
    "forgot",
    "talk",
    "compacted",
    "undone",
    "retried",
    "engine",
]

BLOCK_TOKENS = 16
"""Engines keep whole blocks of tokens (vLLM's default), so so many less than all are no loss."""

LEAD, LONGEST_PLACE = 20, 120
"""Characters: shown before the place where two texts part, and of a place at all."""


@dataclass(frozen=True)
class Prompt:
    """A prompt as it is sent, and what it was made from.

    `said` is the part of the history that it shows. `system` is what a person set, `tools` what the model reads of each
    tool. `engine` is told from another by identity: one that was opened again holds nothing.
    """

    messages: Sequence[Message]
    said: Sequence[Message]
    engine: object = None
    system: str = ""
    language: str = ""
    form: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parting:
    """What a prompt shares with the one before, in whole messages and in characters; without `causes` it extends it.

    `was` and `now` are the line where they part, in the earlier and in the later one.
    """

    messages: int = 0
    characters: int = 0
    causes: tuple[Cause, ...] = ()
    was: str = ""
    now: str = ""


@dataclass(frozen=True)
class Change:
    """Something was done to the history from message `start` on; -1 and less: to all that the model is shown."""

    start: int
    cause: Cause


@dataclass(frozen=True)
class Read:
    """A prompt that was sent: what it cost, all zero if its reply was stopped or failed, and what it shared."""

    usage: Usage
    parting: Parting


@dataclass
class Prefix:
    """The prompts of a sitting, one after the other. `changes` are those since the last one; `ahead` counts the tokens
    that were read while nobody waited, which are no part of any read."""

    ahead: int = 0
    last: Prompt | None = None
    changes: list[Change] = field(default_factory=list[Change])
    reads: list[Read] = field(default_factory=list[Read])

    def note(self, record: Record) -> None:
        """Takes down a record that says that the history has not only grown."""
        if isinstance(record, Edit):
            self.changes.append(Change(record.start, "compacted" if record.messages else "undone"))
        elif isinstance(record, Forgot):
            self.changes.append(Change(-1, "forgot"))

    def restored(self) -> None:
        """Another talk takes the place of the one before."""
        self.changes.append(Change(-2, "talk"))

    def send(self, prompt: Prompt) -> Parting:
        """What the next prompt shares with the last; from now on it is the last."""
        parting = compare(self.last, prompt, self.changes)
        self.last = prompt
        self.changes.clear()
        return parting


def compare(before: Prompt | None, after: Prompt, changes: Sequence[Change] = ()) -> Parting:
    """What two prompts share. `changes` are those of the history between them."""
    if before is None:
        return Parting(causes=("first",))
    if before.engine is not after.engine:
        return Parting(causes=("model",))
    same = count_same(before.messages, after.messages)
    characters = sum(len(message.text) for message in after.messages[:same])
    if same == len(before.messages):
        return Parting(same, characters)
    was, now = (prompt.messages[same].text if same < len(prompt.messages) else "" for prompt in (before, after))
    alike = count_same(was, now) if is_same_role(before, after, same) else 0
    causes = causes_of_head(before, after) if same == 0 else causes_of_talk(before, after, changes)
    return Parting(same, characters + alike, causes, *lines_at(was, now, alike))


def is_same_role(before: Prompt, after: Prompt, index: int) -> bool:
    return index < len(after.messages) and before.messages[index].role == after.messages[index].role


def causes_of_head(before: Prompt, after: Prompt) -> tuple[Cause, ...]:
    """All that is different of what the system text is made from."""
    parts: tuple[tuple[Cause, object, object], ...] = (
        ("system", before.system, after.system),
        ("language", before.language, after.language),
        ("form", before.form, after.form),
        ("tools", before.tools, after.tools),
    )
    return tuple(cause for cause, was, now in parts if was != now)


def causes_of_talk(before: Prompt, after: Prompt, changes: Sequence[Change]) -> tuple[Cause, ...]:
    """What changed the history nearest to its beginning; a talk that only grew reads otherwise in another language."""
    same = count_same(before.said, after.said)
    if same == len(before.said):
        return ("language",)
    cause = min(reversed(changes), key=lambda change: change.start).cause if changes else "talk"
    return ("retried",) if cause == "undone" and same == len(after.said) else (cause,)


def find_loss(reads: Sequence[Read], index: int) -> tuple[Cause, ...]:
    """Why a prompt was not read from the cache as far as it could be: its own causes, or what the engine held was gone.

    Where the reply before was stopped, it is not known how far the engine had come.
    """
    read = reads[index]
    if read.parting.causes or not index:
        return read.parting.causes
    held = reads[index - 1].usage.prompt_tokens
    is_lost = read.usage.prompt_tokens > 0 and read.usage.reused_tokens + BLOCK_TOKENS < held
    return ("engine",) if is_lost else ()


def count_same(one: Sequence[object], other: Sequence[object]) -> int:
    """The length of the beginning that two sequences share."""
    return sum(1 for _ in takewhile(lambda two: two[0] is two[1] or two[0] == two[1], zip(one, other, strict=False)))


def lines_at(was: str, now: str, place: int) -> tuple[str, str]:
    """The lines of two texts where they part, from a little before that place on.

    Where one of them has come to the end of a line, it is what follows that tells them apart.

    >>> lines_at("one\\ntwo, three\\nfour", "one\\ntwo, two", 9)
    ('two, three', 'two, two')
    >>> lines_at("one\\ntwo", "one", 3)
    ('two', '')
    """
    if "\n" in (was[place : place + 1], now[place : place + 1]):
        return first_line(was[place:].lstrip("\n")), first_line(now[place:].lstrip("\n"))
    start = max(was.rfind("\n", 0, place) + 1, place - LEAD)
    return first_line(was[start:]), first_line(now[start:])


def first_line(text: str) -> str:
    return text.partition("\n")[0][:LONGEST_PLACE]
