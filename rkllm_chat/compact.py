"""The older part of a talk becomes a summary that the model writes itself. It prints nothing.

The summary is asked for behind the talk, of which the engine has read all; where that does not fit, in a context of its
own, so a talk that overflows can still be summed up. The history is touched only when the summary is there, whole.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from .budget import cut_middle
from .chat import Chat
from .events import Event, Notice, Reading, Sentence, Text, Usage
from .messages import Message
from .prompt import tool_text
from .window import prompt_of, tools_beside

KEPT_SHARE = 4
SUMMARY_SHARE = 8
READ_SHARE = 2


def older_messages(chat: Chat) -> list[Message]:
    """What `compact` would sum up: whole turns from the first one shown, but for the newest that fit a quarter of the
    window; the last turn always stays."""
    shown = chat.history[chat.first_shown :]
    turns = [i for i, message in enumerate(shown) if message.role == "user"]
    limit = chat.backend.context_tokens // KEPT_SHARE
    kept = turns[-1] if turns else 0
    for start in reversed(turns):
        if start and chat.backend.count_tokens(prompt_of(chat, shown[start:])[1:]) <= limit:
            kept = start
    return shown[:kept]


async def compact(chat: Chat, messages: int) -> AsyncGenerator[Event, None]:
    """Replaces so many messages, from the first one shown on, by their summary. Raises GenerationError."""
    start, older = chat.first_shown, chat.history[chat.first_shown : chat.first_shown + messages]
    before = chat.count_tokens()
    most = min(chat.settings.generation.max_tokens, chat.backend.context_tokens // SUMMARY_SHARE)
    ask = ask_for_summary(chat, older, most)
    scanner, said, usage = chat.make_scanner(), list[Text](), Usage()
    generation = replace(chat.settings.generation, max_tokens=most)
    async with aclosing(chat.backend.stream(ask, generation, tools_beside(chat))) as pieces:
        async for piece in pieces:
            if isinstance(piece, str):
                said += [event for event in scanner.feed(piece) if isinstance(event, Text)]
            elif isinstance(piece, Usage):
                usage = piece
            elif isinstance(piece, Sentence | Reading):
                yield chat.tell(piece)
    said += [event for event in scanner.close() if isinstance(event, Text)]
    summary = "".join(event.text for event in said).strip()
    if not summary or usage.hit_limit:
        yield Notice(chat.words("compact.failed"))
        return
    remembered = [
        Message("user", chat.prompt_words("compact.summary", text=summary)),
        Message("assistant", chat.prompt_words("compact.yes")),
    ]
    chat.history[start : start + messages] = remembered
    yield Notice(chat.words("compact.done", messages=messages, before=before, after=chat.count_tokens()))
    yield Text(summary)


def ask_for_summary(chat: Chat, older: Sequence[Message], most: int) -> list[Message]:
    """The prompt for a summary of at most so many tokens. Behind the talk it is of all of it, which does no harm."""
    talk = prompt_of(chat)
    behind = [*talk, Message("user", chat.prompt_words("compact.ask_behind"))]
    if talk[-1].role == "assistant" and chat.backend.count_tokens(behind) + most <= chat.backend.context_tokens:
        return behind
    return [Message("system", chat.prompt_words("compact.ask")), Message("user", read_transcript(chat, older))]


def read_transcript(chat: Chat, messages: Sequence[Message]) -> str:
    """The messages as a text to be summed up, cut to half of the window."""
    lines = [f"{one.role}: {tool_text(one, chat.prompt_words) if one.role == 'tool' else one.text}" for one in messages]
    limit = chat.backend.context_tokens // READ_SHARE
    return cut_middle("\n".join(lines), limit, lambda text: chat.backend.count_tokens([Message("user", text)]))
