"""Remember conversations as the model wrote them, so that a continued one begins with the same tokens.

A client sends back only text and calls of a reply. The model's own text has more: thoughts, the spelling of its calls,
the tool signatures shown with a question. With it, the engine finds the conversation in its KV cache.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from ..core.messages import Message
from .chat_request import ClientMessage, describe_messages

_MAX_CONVERSATIONS = 256
_MAX_CHARACTERS = 8 * 1024 * 1024


class ReplyHistories:
    """Histories by the conversation that clients see, the least recently used first; their size is bounded."""

    def __init__(self) -> None:
        self._histories: OrderedDict[bytes, tuple[Message, ...]] = OrderedDict()
        self._tokens: dict[bytes, int] = {}
        self._characters = 0

    def find(self, system: str, messages: Sequence[ClientMessage]) -> tuple[int, tuple[Message, ...], int]:
        """Return how many messages, up to a reply, are known, their history and its tokens; 0, () and 0 if none are.

        Who sends the beginning of a conversation knows what it says. What else the cache has may be of another client.
        """
        digests = _digest(system, messages)
        for index in reversed(range(len(messages))):
            if messages[index].role == "assistant" and (digest := digests[index]) in self._histories:
                self._histories.move_to_end(digest)
                return index + 1, self._histories[digest], self._tokens[digest]
        return 0, (), 0

    def remember(self, system: str, messages: Sequence[ClientMessage], history: Sequence[Message], tokens: int) -> None:
        """Remember the history of a conversation that ends with a reply, and how many tokens it has."""
        digest = _digest(system, messages)[-1]
        self._tokens[digest] = tokens
        self._characters -= _count_characters(self._histories.pop(digest, ()))
        self._histories[digest] = tuple(history)
        self._characters += _count_characters(history)
        while len(self._histories) > _MAX_CONVERSATIONS or self._characters > _MAX_CHARACTERS:
            forgotten, oldest = self._histories.popitem(last=False)
            del self._tokens[forgotten]
            self._characters -= _count_characters(oldest)


def _digest(system: str, messages: Sequence[ClientMessage]) -> list[bytes]:
    """Return for each message a digest of the conversation up to it, which begins with its system text."""
    digests = [b""]
    for text in (system, *(describe_messages([message]) for message in messages)):
        digests.append(hashlib.sha256(digests[-1] + text.encode("utf-8", "surrogatepass")).digest())
    return digests[2:]


def _count_characters(history: Sequence[Message]) -> int:
    return sum(len(message.text) for message in history)
