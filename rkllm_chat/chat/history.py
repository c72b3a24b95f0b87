"""The message list of a conversation, which reports every change to a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

from typing_extensions import Self

from ..core.messages import Message
from ..storage.session_records import HistoryEdited, Keep


class History(list[Message]):
    """A list that reports each appended message, and every other change as a HistoryEdited record, to `keep`."""

    def __init__(self, messages: Iterable[Message], keep: Keep) -> None:
        super().__init__(messages)
        self._keep = keep

    def append(self, message: Message) -> None:
        """Append and report a message."""
        super().append(message)
        self._keep(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Append and report messages."""
        for message in messages:
            self.append(message)

    def __iadd__(self, messages: Iterable[Message]) -> Self:  # type: ignore[override,misc]  # same contract as list
        self.extend(messages)
        return self

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        self._apply(lambda: super(History, self).__delitem__(index))

    def __setitem__(self, index: Any, messages: Any) -> None:
        self._apply(lambda: super(History, self).__setitem__(index, messages))

    def pop(self, index: SupportsIndex = -1) -> Message:
        """Remove and return a message; report the edit."""
        message = self[index]
        del self[index]
        return message

    def _apply(self, change: Callable[[], None]) -> None:
        """Apply a change and report the difference without the longest common prefix and suffix."""
        before = list(self)
        change()
        min_length = min(len(before), len(self))
        start = next((i for i in range(min_length) if before[i] is not self[i]), min_length)
        common_suffix = next(
            (i for i in range(min_length - start) if before[-1 - i] is not self[-1 - i]), min_length - start
        )
        if start + common_suffix < max(len(before), len(self)):
            self._keep(
                HistoryEdited(start, len(before) - common_suffix, tuple(self[start : len(self) - common_suffix]))
            )
