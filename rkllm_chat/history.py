"""The list of messages that a chat remembers; whoever changes it, every change is told. It knows no file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

from typing_extensions import Self

from .messages import Message
from .records import Edit, Keep


class History(list[Message]):
    """A list that tells `keep` of each message that comes in, and of each other change as an Edit."""

    def __init__(self, messages: Iterable[Message], keep: Keep) -> None:
        super().__init__(messages)
        self._keep = keep

    def append(self, message: Message) -> None:
        super().append(message)
        self._keep(message)

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.append(message)

    def __iadd__(self, messages: Iterable[Message]) -> Self:  # type: ignore[override,misc]  # as list has it
        self.extend(messages)
        return self

    def __delitem__(self, where: SupportsIndex | slice) -> None:
        self._tell(lambda: super(History, self).__delitem__(where))

    def __setitem__(self, where: Any, messages: Any) -> None:
        self._tell(lambda: super(History, self).__setitem__(where, messages))

    def insert(self, where: SupportsIndex, message: Message) -> None:
        self._tell(lambda: super(History, self).insert(where, message))

    def pop(self, where: SupportsIndex = -1) -> Message:
        message = self[where]
        del self[where]
        return message

    def clear(self) -> None:
        del self[:]

    def _tell(self, change: Callable[[], None]) -> None:
        """Makes a change and tells what is different: all but the longest equal beginning and end."""
        before = list(self)
        change()
        shorter = min(len(before), len(self))
        start = next((i for i in range(shorter) if before[i] is not self[i]), shorter)
        tail = next((i for i in range(shorter - start) if before[-1 - i] is not self[-1 - i]), shorter - start)
        if start + tail < max(len(before), len(self)):
            self._keep(Edit(start, len(before) - tail, tuple(self[start : len(self) - tail])))
