"""Compose the messages for a backend from history and tools. Pure; the result only grows at its end.

The system text comes first and depends only on the system prompt, the tools and the space for them, so its bytes stay
the same across turns and the engine's KV cache stays valid. Text that helps with one question precedes that question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from pathlib import Path

from ..calls.formats import FORMATS, Format
from ..calls.tool_names import DESCRIBE, MORE
from ..core import i18n as language
from ..core.i18n import Words
from ..core.identity_cache import cache_by_identity
from ..core.messages import EMPTY_REPLY, NOT_SHOWN, UNSENT_KINDS, Media, MediaKind, Message, Tool, ToolResult
from .tool_catalogue import Catalogue, make_catalogue
from .untrusted_text import fence_untrusted, neutralize, neutralize_line

NO_MEDIA = frozenset[MediaKind]()
_MAX_REPEATED_LENGTH = 500
"""Maximum length of a question that is asked again behind its results, in characters."""
WordsFor = Callable[[str], Words]
"""Maps a question to sentences in its language."""


def compose_prompt(
    history: Sequence[Message],
    tools: Iterable[Tool],
    words: Words | None = None,
    system: str = "",
    tool_format: str = "json",
    catalogue: Catalogue | None = None,
    media_kinds: frozenset[MediaKind] = NO_MEDIA,
    asks_answer: bool = False,
    answer_words: WordsFor | None = None,
    repeats_question: bool = False,
) -> list[Message]:
    """Build the messages to send, with the roles system, user and assistant, which every model family supports.

    Results of the calls of one reply are joined into one user message.

    Args:
        history: Visible messages.
        tools: Tools for the default catalogue.
        words: Model-facing sentences; English if None.
        system: Replaces the first sentence of the system text.
        tool_format: Row of FORMATS.
        catalogue: Tool list for the system text; by default all tools in full.
        media_kinds: Kinds of media that the model understands; placeholders stand for the others.
        asks_answer: Ask for the answer behind the last results; there are no calls any more.
        answer_words: Maps a question to the sentences that ask for its answer; those of `words` by default.
        repeats_question: Ask for an answer with the question, where the sentences have a form for that.
    """
    words = words or language.load()
    call_format = FORMATS[tool_format]
    catalogue = catalogue or make_catalogue(tools, words, call_format, 0, lambda _: 0)
    composed: list[Message] = []
    asking, question, results = words, "", list[Message]()
    for messages, is_last_word in _split_runs(history, asks_answer):
        if messages[0].role == "tool":
            results += messages
            asked = _request_answer(results, asking, question) if is_last_word else ""
            composed.append(_tool_turn(messages, words, call_format, words.code, media_kinds, asked))
        else:
            if asked := _find_question(messages):
                question, results = asked if repeats_question else "", []
                asking = answer_words(asked) if answer_words else asking
            composed += [add_signatures(show_media(message, media_kinds), words) for message in messages]
    return [Message("system", _system_text(catalogue, words, system, call_format)), *_join_neighbours(composed)]


def _join_neighbours(messages: Iterable[Message]) -> Iterator[Message]:
    """Join what the user says behind a question, or results, whose reply was stopped: templates require it."""
    for role, group in groupby(messages, key=lambda message: message.role):
        neighbours = list(group)
        yield from [join_messages(neighbours, "\n\n")] if role == "user" and len(neighbours) > 1 else neighbours


def _split_runs(history: Iterable[Message], asks_answer: bool) -> Iterator[tuple[list[Message], bool]]:
    """Yield runs of results and runs of other messages, without discarded replies.

    With each run comes whether the answer is asked for behind it: a reply without calls follows it.
    """
    sent = [message for message in history if message.reply_kind not in UNSENT_KINDS]
    runs = [list(group) for _, group in groupby(sent, key=lambda message: message.role == "tool")]
    for run, following in zip_longest(runs, runs[1:]):
        yield run, following[0].reply_kind == "forced" if following else asks_answer


def _find_question(messages: Sequence[Message]) -> str:
    """Return the last question of these messages; "" if there is none."""
    return next((message.text for message in reversed(messages) if message.role == "user"), "")


def _count_completed(messages: Iterable[Message]) -> int:
    return sum(message.result is not None and message.result.status == "completed" for message in messages)


def compose_flat_prompt(
    turn: Sequence[Message],
    words: Words,
    system: str = "",
    media_kinds: frozenset[MediaKind] = NO_MEDIA,
    earlier: Sequence[Message] = (),
    referred: Sequence[Message] = (),
) -> list[Message]:
    """Build a prompt without tools and calls: the results of a turn and the question, in one user message.

    Where that was measured, the question is the last: before its results, models half forgot it, or obeyed a result. If
    the turn has no completed result, what was said before comes first, and without any result the question stands
    alone: what a chat without tools would send.

    Args:
        turn: The messages of the turn.
        words: Model-facing sentences.
        system: Replaces the system text.
        media_kinds: Kinds of media that the model understands.
        earlier: The messages before the turn.
        referred: Results of earlier turns that the question refers to, for a turn without results.
    """
    asked = [show_media(message, media_kinds) for message in turn if message.role == "user"]
    results = [message for message in turn if message.result and _is_of_tool(message.result)]
    told = [render_result_message(message, words, media_kinds, is_flat=True) for message in results]
    completed = _count_completed(results)
    has_answer = completed > 0
    if asked and has_answer and words("prompt.answer_question", results=completed, question=""):
        shown = [*told, _ask_behind_results(join_messages(asked, "\n\n"), completed, words)]
    else:
        shown = [*asked, *told, *([Message("user", _request_answer(results, words))] if results else [])]
    said = [] if has_answer else [show_media(message, media_kinds) for message in _select_said(earlier)]
    if not results:
        shown = [*(render_result_message(message, words, media_kinds, is_flat=True) for message in referred), *shown]
    return [Message("system", system or words("prompt.system")), *said, join_messages(shown, "\n\n")]


def _ask_behind_results(question: Message, results: int, words: Words) -> Message:
    """Return a question in the sentence that asks for its answer from results."""
    text = words("prompt.answer_question", results=results, question=question.text)
    start = text.rfind(question.text)
    return replace(question, text=text, media=_shift(question.media, start))


def _is_of_tool(result: ToolResult) -> bool:
    """Return whether a result is of a tool that exists; an unknown one has not failed."""
    return bool(result.server) or result.status == "completed"


def _select_said(messages: Sequence[Message]) -> list[Message]:
    """Return what the user and the model said to each other: no calls, no results, nothing that was discarded."""
    sent = [message for message in messages if message.reply_kind not in UNSENT_KINDS]
    return [
        message
        for message, following in zip_longest(sent, sent[1:])
        if message.role == "user" or (message.role == "assistant" and not (following and following.role == "tool"))
    ]


def _system_text(catalogue: Catalogue, words: Words, system: str, call_format: Format) -> str:
    """Build the system message: role of the model, available tools, and how to write a call."""
    parts = [system or words("prompt.system")]
    if catalogue.lines:
        parts.append(catalogue.render(words))
    parts += catalogue.sections
    if catalogue.lines:
        parts += filter(None, [f"{words('prompt.call')}\n{call_format.example}", words("prompt.rule")])
    return "\n\n".join(parts)


def add_signatures(message: Message, words: Words) -> Message:
    """Add to the text of a user message the tools that may help: their signatures before it, the request after it."""
    if message.call_request:
        message = replace(message, text=f"{message.text}\n\n{message.call_request}")
    if not message.tool_lines:
        return message
    head = "\n".join([words("prompt.may_help"), *message.tool_lines, "", ""])
    return replace(message, text=head + message.text, media=_shift(message.media, len(head)))


def show_media(message: Message, kinds: frozenset[MediaKind] = NO_MEDIA) -> Message:
    """Return a message of a user or assistant with the media that a model understands; text stands for the others."""
    if not message.media:
        return message
    text, media = "", list[Media]()
    for part in message.parts:
        if isinstance(part, str):
            text += part
        elif _is_visible(part, kinds):
            media.append(replace(part, position=len(text)))
        else:
            text += f"{neutralize_line(part.placeholder)}\n"
    return replace(message, text=text, media=tuple(media))


def keep_visible_media(messages: Iterable[Message], kinds: frozenset[MediaKind]) -> list[Message]:
    """Return messages without the media that a model does not understand, to count their tokens."""
    return [
        replace(message, media=tuple(media for media in message.media if _is_visible(media, kinds)))
        if message.media
        else message
        for message in messages
    ]


def _is_visible(media: Media, kinds: frozenset[MediaKind]) -> bool:
    """Return whether a model understands a medium, and its file is still there."""
    return media.kind in kinds and Path(media.path).is_file()


def _shift(media: Iterable[Media], characters: int) -> tuple[Media, ...]:
    return tuple(replace(medium, position=medium.position + characters) for medium in media)


def compose_native_prompt(
    history: Sequence[Message],
    words: Words,
    system: str = "",
    tool_format: str = "json",
    catalogue: Catalogue | None = None,
    media_kinds: frozenset[MediaKind] = NO_MEDIA,
    asks_answer: bool = False,
    answer_words: WordsFor | None = None,
) -> list[Message]:
    """Build the messages for an engine with its own tool support; roles of results are preserved.

    Such an engine places its tools at the start of the prompt. If they do not all fit there, it receives only
    `describe_tool`, which enables its tool support and never changes; `catalogue` and the signatures for a question are
    part of the text, as for other engines, and calls are parsed from the text.
    """
    call_format = FORMATS[tool_format]
    head = Message("system", _system_text(catalogue or Catalogue(), words, system, call_format))
    composed, asking, results = [head], words, list[Message]()
    for messages, is_last_word in _split_runs(history, asks_answer):
        if question := _find_question(messages):
            asking, results = answer_words(question) if answer_words else asking, []
        results += messages if messages[0].role == "tool" else []
        if composed[-1].role == "tool" and messages[0].role == "user":  # services reject that order
            composed.append(Message("assistant", EMPTY_REPLY))
        for message in messages:
            if message.role != "tool":
                composed.append(add_signatures(show_media(message, media_kinds), words))
                continue
            lines = explain_next_page([message], words, call_format)
            if is_last_word and message is messages[-1]:
                lines.append(_request_answer(results, asking))
            composed.append(_show_result_media(_neutralize_result(message, lines), message, media_kinds))
    return [*_join_neighbours(composed)]


@cache_by_identity(max_entries=1024)
def _tool_turn(
    messages: Sequence[Message],
    words: Words,
    call_format: Format,
    _language: str,
    media_kinds: frozenset[MediaKind],
    asked: str,
) -> Message:
    """Join the results of one reply's calls and the feedback on unreadable calls into one message.

    `_language` is part of the cache key: the language of `words` may change. `asked` is what asks for the answer, if it
    is asked for.
    """
    parts = [render_result_message(message, words, media_kinds) for message in messages]
    tail = [asked] if asked else explain_next_page(messages, words, call_format)
    if not asked and any(message.result for message in messages) and (invitation := words("prompt.answer")):
        tail.append(invitation)
    return join_messages([*parts, *(Message("user", line) for line in tail)])


def _request_answer(results: Iterable[Message], words: Words, question: str = "") -> str:
    """Return the sentence that asks for the answer: from results, that the tool failed, or from what the model has.

    Where that was measured, a short question is asked again there: a small model answers what it read last. Asked for
    an answer in its own words behind a failed call, a model invents one (7 of 10 questions, 0.5B); asked for one
    sentence from two results, it leaves one of them out (2 of 12, 1.5B; asked for a sentence for each, 0 of 12).

    Args:
        results: The results of the turn.
        words: Model-facing sentences.
        question: What is asked; "" if it is not asked again.
    """
    statuses = [message.result.status for message in results if message.result and _is_of_tool(message.result)]
    if completed := statuses.count("completed"):
        is_repeated = question and len(question) <= _MAX_REPEATED_LENGTH
        asked = words("prompt.answer_question", results=completed, question=question) if is_repeated else ""
        return asked or words("prompt.answer_now" if completed == 1 else "prompt.answer_each")
    return words("prompt.answer_failed" if "failed" in statuses else "prompt.wrap_up")


def join_messages(messages: Sequence[Message], separator: str = "\n") -> Message:
    """Join messages of the user, with their media."""
    media, start = list[Media](), 0
    for message in messages:
        media += _shift(message.media, start)
        start += len(message.text) + len(separator)
    return Message("user", separator.join(message.text for message in messages), media=tuple(media))


def render_result_message(
    message: Message, words: Words, media_kinds: frozenset[MediaKind] = NO_MEDIA, is_flat: bool = False
) -> Message:
    """Return a result as `render_result`, with its media that the model understands."""
    return _show_result_media(Message("user", render_result(message, words, is_flat)), message, media_kinds)


def _show_result_media(rendered: Message, message: Message, kinds: frozenset[MediaKind]) -> Message:
    """Put the media of a result into the rendered message, each behind its placeholder, or at the end without one."""
    visible = [media for media in message.media if _is_visible(media, kinds)]
    if not visible or not message.result:
        return replace(rendered, media=()) if rendered.media else rendered
    text, start = rendered.text, 0
    placed: list[Media] = []
    for media in visible:
        source = message.result.text[: media.position]
        placeholder = source[source.rfind("[") :] if source.endswith(NOT_SHOWN) else "\0"
        found = text.find(placeholder, start)
        if found >= 0:
            shown = placeholder.removesuffix(NOT_SHOWN) + "]"
            text = text[:found] + shown + text[found + len(placeholder) :]
            start = found + len(shown)
        placed.append(replace(media, position=start if found >= 0 else len(text)))
        start = placed[-1].position
    return replace(rendered, text=text, media=tuple(placed))


def render_result(message: Message, words: Words, is_flat: bool = False) -> str:
    """Return a result below a heading with its tool, or our own feedback unchanged.

    Args:
        message: Message of the history.
        words: Model-facing sentences.
        is_flat: The call is not in the prompt, so the heading has its arguments too.
    """
    if message.result is None or is_tool_description(message):
        return message.text
    key = "result" if message.result.status == "completed" else "failed"
    called = message.result.tool
    if is_flat and message.result.arguments:
        called += f" {json.dumps(message.result.arguments, ensure_ascii=False, default=str)}"
    heading = words(f"prompt.flat_{key}" if is_flat else f"prompt.{key}", tool=neutralize_line(called))
    if is_correction(message):
        return f"{heading}\n{_neutralize_result(message).text}"
    end = "" if is_flat else words("prompt.result_end")
    return "\n".join(filter(None, (fence_untrusted(heading, message.text, words), end)))


def explain_next_page(messages: Iterable[Message], words: Words, call_format: Format) -> list[str]:
    """Return lines that explain how to read the rest of the first truncated result; that tool is not listed."""
    next_page = next((message.more for message in messages if message.more), None)
    return [words("prompt.read_on"), call_format.render_call(MORE, next_page)] if next_page else []


def _neutralize_result(message: Message, appended_lines: Sequence[str] = ()) -> Message:
    """Return a result message for an engine that formats results itself: without a fence, but neutralized.

    Args:
        message: Message of the history.
        appended_lines: Our own lines to append.
    """
    if message.result is None or is_tool_description(message):
        return message
    untrusted = message.result.text if is_correction(message) else message.text
    return replace(
        message, text="\n".join([message.text.replace(untrusted, neutralize(untrusted), 1), *appended_lines])
    )


def is_tool_description(message: Message) -> bool:
    """Return whether the message describes tools as the system text does, with untrusted parts neutralized."""
    result = message.result
    return result is not None and (result.server, result.tool, result.status) == ("", DESCRIBE, "completed")


def is_correction(message: Message) -> bool:
    """Return whether the message shows the model how to write its call, with the error text embedded."""
    result = message.result
    if result is None or message.more is not None:
        return False
    return result.text != message.text and result.text in message.text
