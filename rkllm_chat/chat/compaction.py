"""Compaction: replace the older part of the conversation by a summary that the model writes.

The request is appended to the conversation, whose prefix the engine has cached; if that does not fit, it is sent as a
prompt of its own, so an overflowing conversation can still be summarized. The history changes only once the summary is
complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.events import Event, Notice, Reading, Text, TextWasThought, WritingCall
from ..core.messages import Message
from ..prompt.budget import truncate_middle
from ..prompt.compose import keep_visible_media, render_result, show_media
from ..prompt.tool_ranking import extract_terms
from ..prompt.untrusted_text import neutralize_line
from .context import build_prompt, count_tokens, make_reply_scanner, native_tools_of
from .conversation import Compaction, Conversation
from .event_stream import Emit
from .reply_stream import ReplyStream

_RETAINED_FRACTION = 1 / 4
_SUMMARY_FRACTION = 1 / 8
_TRANSCRIPT_FRACTION = 1 / 2


def find_older_messages(chat: Conversation) -> list[Message]:
    """Return the messages that `compact` would summarize.

    These are the visible turns except for the newest that fit a quarter of the context window; the last turn always
    stays.
    """
    shown = chat.history[chat.first_shown :]
    turns = [i for i, message in enumerate(shown) if message.role == "user"]
    limit = int(chat.backend.context_tokens * _RETAINED_FRACTION)
    boundary = turns[-1] if turns else 0
    for start in reversed(turns):
        if start and chat.backend.count_tokens(build_prompt(chat, shown[start:])[1:]) <= limit:
            boundary = start
    return shown[:boundary]


async def compact(chat: Conversation, messages: int, emit: Emit) -> None:
    """Replace the first `messages` visible messages by their summary.

    Raises:
        GenerationError: The engine failed.
    """
    start, older = chat.first_shown, chat.history[chat.first_shown : chat.first_shown + messages]
    before = count_tokens(chat)
    max_tokens = min(chat.settings.generation.max_tokens, int(chat.backend.context_tokens * _SUMMARY_FRACTION))
    prompt = _summary_prompt(chat, older, max_tokens)
    texts: list[str] = []

    async def take(event: Event) -> None:
        if isinstance(event, Text):
            texts.append(event.text)
            await emit(WritingCall("", sum(map(len, texts))))
        elif isinstance(event, TextWasThought):
            texts.clear()
        elif isinstance(event, Notice | Reading):
            await emit(event)

    reply = ReplyStream(make_reply_scanner(chat))
    generation = replace(chat.generation, max_tokens=max_tokens)
    await reply.read(chat.backend.stream(prompt, generation, native_tools_of(chat)), take, chat.translate)
    summary = "".join(texts).strip()
    if not summary or reply.usage.is_cut:
        await emit(Notice(chat.words("compact.failed")))
        return
    lost = [neutralize_line(media.placeholder) for message in older for media in message.media]
    replacement = [
        Message("user", "\n".join([chat.prompt_words("compact.summary", text=summary), *lost])),
        Message("assistant", chat.prompt_words("compact.yes")),
    ]
    if problem := _find_problem(chat, older, replacement, summary):
        await emit(Notice(chat.words(problem)))
        await emit(Text(summary))
        return
    chat.history[start : start + messages] = replacement
    last_question = next(message for message in reversed(chat.history) if message.role == "user")
    chat.compactions.append(Compaction(tuple(older), replacement[0], last_question))
    await emit(Notice(chat.words("compact.done", messages=messages, before=before, after=count_tokens(chat))))
    await emit(Text(summary))


def _find_problem(chat: Conversation, older: Sequence[Message], replacement: Sequence[Message], summary: str) -> str:
    """Return the key of the sentence that says why a summary cannot replace the older messages; "" if it can.

    It must be shorter than they are, and share a word with one that is not the same text: a small model may answer the
    request like one of the questions, "I have no tool for that.".
    """
    shown = keep_visible_media(older, chat.backend.media_kinds)
    if chat.backend.count_tokens(replacement) >= chat.backend.count_tokens(shown):
        return "compact.longer"
    terms = set(extract_terms(summary))
    texts = (message.text for message in older if message.text.strip() != summary)
    return "" if any(not terms.isdisjoint(extract_terms(text)) for text in texts) else "compact.unrelated"


def restore_compacted(chat: Conversation) -> int | None:
    """Undo the last compaction if nothing was said since, or if only its summary is left to undo.

    Returns:
        The number of messages that returned; None if there is no such compaction.
    """
    last_question = next((message for message in reversed(chat.history) if message.role == "user"), None)
    compaction = chat.compactions[-1] if chat.compactions else None
    if compaction is None or (
        last_question is not compaction.last_question and last_question is not compaction.summary
    ):
        return None
    start = next(i for i, message in enumerate(chat.history) if message is compaction.summary)
    chat.history[start : start + 2] = compaction.older
    chat.compactions.pop()
    return len(compaction.older)


def _summary_prompt(chat: Conversation, older: Sequence[Message], max_tokens: int) -> list[Message]:
    """Build the prompt for a summary of at most `max_tokens`. Appended to the conversation, it covers all of it."""
    prompt = build_prompt(chat)
    extended = [*prompt, Message("user", chat.prompt_words("compact.ask_behind"))]
    if (
        prompt[-1].role == "assistant"
        and chat.backend.count_tokens(extended) + max_tokens <= chat.backend.context_tokens
    ):
        return extended
    return [Message("system", chat.prompt_words("compact.ask")), Message("user", write_transcript(chat, older))]


def write_transcript(chat: Conversation, messages: Sequence[Message]) -> str:
    """Return the messages as text to summarize, truncated to half of the context window."""
    lines = [
        f"{message.role}: "
        f"{render_result(message, chat.prompt_words) if message.role == 'tool' else show_media(message).text}"
        for message in messages
    ]
    limit = int(chat.backend.context_tokens * _TRANSCRIPT_FRACTION)
    return truncate_middle("\n".join(lines), limit, lambda text: chat.backend.count_tokens([Message("user", text)]))
