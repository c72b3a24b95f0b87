"""The end of a conversation as events, to show it again when a session is resumed."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.events import Event, Notice, Text, ToolFinished
from .context import make_reply_scanner
from .conversation import Conversation

_MAX_TURNS = 3
_MAX_CHARACTERS = 4000


def iter_last_turns(chat: Conversation) -> Iterator[Event]:
    """Yield the newest turns: at most three, and only one if they are long.

    Thoughts are left out; of tool results only the status is shown.
    """
    history = chat.history
    starts = [index for index, message in enumerate(history) if message.role == "user"]
    shown = starts[-1:]
    for start in starts[-2 : -_MAX_TURNS - 1 : -1]:
        if sum(len(message.text) for message in history[start:] if message.role != "tool") > _MAX_CHARACTERS:
            break
        shown = [start]
    for message in history[shown[0] :] if shown else ():
        if message.role == "user":
            yield Notice(f"> {message.text}")
        elif message.role == "assistant":
            scanner = make_reply_scanner(chat)
            yield from (event for event in [*scanner.feed(message.text), *scanner.close()] if isinstance(event, Text))
        elif message.result:
            yield ToolFinished(message.result)
