"""Compare successive prompts: how long their common prefix is, where they diverge, and why. Pure.

An engine prefills only new tokens as long as each prompt extends the previous one. The inputs of the prompts are
compared; changes of the history are known from its records, not guessed from texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal

from ..core.events import Usage
from ..core.messages import Message
from ..storage.session_records import ContextTrimmed, HistoryEdited, Record

DivergenceCause = Literal[
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
"""Why a prompt does not extend the previous one."""

BLOCK_TOKENS = 16
"""Engines cache whole blocks of tokens (vLLM's default size), so up to this many missing tokens are no loss."""

_LEAD_LENGTH, _MAX_EXCERPT_LENGTH = 20, 120
"""Maximum characters shown before the divergence, and of the whole excerpt."""


@dataclass(frozen=True)
class PromptSnapshot:
    """A prompt and the inputs it was built from.

    Attributes:
        messages: Messages as sent.
        visible_messages: Visible part of the history.
        engine: Compared by identity: a reopened engine has an empty cache.
        system: Custom system prompt.
        language: Language of model-facing text.
        call_format: Row of FORMATS.
        tools: What the model reads about each tool.
    """

    messages: Sequence[Message]
    visible_messages: Sequence[Message]
    engine: object = None
    system: str = ""
    language: str = ""
    call_format: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrefixDivergence:
    """What a prompt shares with the previous one; without `causes` it extends it.

    Attributes:
        messages: Number of identical messages.
        characters: Number of identical characters.
        causes: Why the prompts diverge.
        old_line: Line at the divergence in the earlier prompt.
        new_line: Line at the divergence in the later prompt.
    """

    messages: int = 0
    characters: int = 0
    causes: tuple[DivergenceCause, ...] = ()
    old_line: str = ""
    new_line: str = ""


@dataclass(frozen=True)
class HistoryChange:
    """A modification of the history from message `start` on; a negative `start` affects all visible messages."""

    start: int
    cause: DivergenceCause


@dataclass(frozen=True)
class PromptSent:
    """A prompt that was sent: its usage, all zero if the reply was stopped or failed, and its common prefix."""

    usage: Usage
    divergence: PrefixDivergence


@dataclass
class PromptLog:
    """The sequence of prompts of a session.

    Attributes:
        prefilled_tokens: Tokens prefilled while idle, which are not part of any read.
        last: The newest prompt.
        changes: Modifications of the history since then.
        sent: All prompts sent.
    """

    prefilled_tokens: int = 0
    last: PromptSnapshot | None = None
    changes: list[HistoryChange] = field(default_factory=list[HistoryChange])
    sent: list[PromptSent] = field(default_factory=list[PromptSent])

    def note_record(self, record: Record) -> None:
        """Take account of a record that modifies the history."""
        if isinstance(record, HistoryEdited):
            self.changes.append(HistoryChange(record.start, "compacted" if record.messages else "undone"))
        elif isinstance(record, ContextTrimmed):
            self.changes.append(HistoryChange(-1, "forgot"))

    def note_retry(self) -> None:
        """Mark the latest edit of the history as the beginning of a retry."""
        self.changes[-1] = replace(self.changes[-1], cause="retried")

    def note_restored(self) -> None:
        """Take account of a replaced history."""
        self.changes.append(HistoryChange(-2, "talk"))

    def add_prompt(self, prompt: PromptSnapshot) -> PrefixDivergence:
        """Compare the next prompt with the last one and make it the last one."""
        divergence = compare_prompts(self.last, prompt, self.changes)
        self.last = prompt
        self.changes.clear()
        return divergence


def compare_prompts(
    before: PromptSnapshot | None, after: PromptSnapshot, changes: Sequence[HistoryChange] = ()
) -> PrefixDivergence:
    """Compare two prompts.

    Args:
        before: Earlier prompt; None if there is none.
        after: Later prompt.
        changes: Modifications of the history between them.
    """
    if before is None:
        return PrefixDivergence(causes=("first",))
    if before.engine is not after.engine:
        return PrefixDivergence(causes=("model",))
    shared_messages = _common_prefix_length(before.messages, after.messages)
    characters = sum(len(message.text) for message in after.messages[:shared_messages])
    if shared_messages == len(before.messages):
        return PrefixDivergence(shared_messages, characters)
    was, now = (
        prompt.messages[shared_messages].text if shared_messages < len(prompt.messages) else ""
        for prompt in (before, after)
    )
    shared_characters = _common_prefix_length(was, now) if _is_same_role(before, after, shared_messages) else 0
    causes = (
        _causes_in_system_text(before, after) if shared_messages == 0 else _causes_in_history(before, after, changes)
    )
    return PrefixDivergence(
        shared_messages, characters + shared_characters, causes, *find_divergent_lines(was, now, shared_characters)
    )


def _is_same_role(before: PromptSnapshot, after: PromptSnapshot, index: int) -> bool:
    return index < len(after.messages) and before.messages[index].role == after.messages[index].role


def _causes_in_system_text(before: PromptSnapshot, after: PromptSnapshot) -> tuple[DivergenceCause, ...]:
    """Return every input of the system text that differs."""
    parts: tuple[tuple[DivergenceCause, object, object], ...] = (
        ("system", before.system, after.system),
        ("language", before.language, after.language),
        ("form", before.call_format, after.call_format),
        ("tools", before.tools, after.tools),
    )
    return tuple(cause for cause, was, now in parts if was != now)


def _causes_in_history(
    before: PromptSnapshot, after: PromptSnapshot, changes: Sequence[HistoryChange]
) -> tuple[DivergenceCause, ...]:
    """Return the change of the history closest to its beginning; an unchanged history differs by language only."""
    if _common_prefix_length(before.visible_messages, after.visible_messages) == len(before.visible_messages):
        return ("language",)
    return (min(reversed(changes), key=lambda change: change.start).cause,) if changes else ("talk",)


def find_cache_miss(reads: Sequence[PromptSent], index: int) -> tuple[DivergenceCause, ...]:
    """Return why a prompt was not taken from the KV cache as far as possible: its own causes, or a lost cache.

    If the previous reply was stopped, it is unknown how far the engine had come.
    """
    read = reads[index]
    if read.divergence.causes or not index:
        return read.divergence.causes
    cached_tokens = reads[index - 1].usage.prompt_tokens
    is_lost = read.usage.prompt_tokens > 0 and read.usage.reused_tokens + BLOCK_TOKENS < cached_tokens
    return ("engine",) if is_lost else ()


def _common_prefix_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the length of the common prefix of two sequences."""
    return sum(1 for _ in takewhile(lambda two: two[0] is two[1] or two[0] == two[1], zip(one, other, strict=False)))


def find_divergent_lines(was: str, now: str, place: int) -> tuple[str, str]:
    r"""Return the lines of two texts at the position of their divergence, from a few characters before it.

    If one text has a line break there, what follows distinguishes them.

    >>> find_divergent_lines("one\ntwo, three\nfour", "one\ntwo, two", 9)
    ('two, three', 'two, two')
    >>> find_divergent_lines("one\ntwo", "one", 3)
    ('two', '')
    """
    if "\n" in (was[place : place + 1], now[place : place + 1]):
        return _first_line(was[place:].lstrip("\n")), _first_line(now[place:].lstrip("\n"))
    start = max(was.rfind("\n", 0, place) + 1, place - _LEAD_LENGTH)
    return _first_line(was[start:]), _first_line(now[start:])


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:_MAX_EXCERPT_LENGTH]
