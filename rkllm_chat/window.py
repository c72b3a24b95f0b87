"""What of a talk its model is shown, and what of it fits: the prompt, the tools, the room. It runs no turn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from . import language
from .budget import ANSWER_SHARE, KEPT_SHARE, NEXT_SHARE, last_turn, turns_of
from .choosing import catalogue_of, choice_of, describe, likely_forms, lines_for
from .config import Settings
from .describing import TOOL as DESCRIBE
from .describing import answer_with
from .events import Usage
from .families import AUTO
from .grammar import CallGrammar, call_grammar
from .language import Words
from .messages import Message, Tool
from .more import TOOL as MORE
from .more import Pager, Share, make_share
from .names import shown_names
from .ours import WithOurs
from .paging import Fits
from .prefix import Prompt
from .prompt import compose, compose_native, with_forms
from .records import Forgot
from .sketch import describe_tools

if TYPE_CHECKING:
    from .chat import Backend, Chat, Toolbox


def words_for(backend: Backend, settings: Settings, words: Words) -> Words:
    """The words that a model reads: in the language of the settings, or its own, or that of the person."""
    chosen = backend.prompt_language if settings.prompt_language == "auto" else settings.prompt_language
    return language.load(chosen) if chosen else words


def form_of(backend: Backend, settings: Settings) -> str:
    """The row of FORMATS that calls are asked for in: that of the settings, or that of the model's family."""
    return backend.family.asks if settings.tool_format == AUTO else settings.tool_format


def prompt_of(chat: Chat, shown: Sequence[Message] | None = None) -> list[Message]:
    """The prompt as it would be sent now, or if so much of the history were shown."""
    shown = chat.shown if shown is None else shown
    words, system, catalogue = chat.prompt_words, chat.settings.system, catalogue_of(chat)
    if chat.backend.native_tools:
        return compose_native(shown, words, system, chat.form, catalogue)
    return compose(shown, (), words, system, chat.form, catalogue)


def with_tools(chat: Chat, messages: Sequence[Message]) -> list[Message]:
    """The messages of a new turn, before what the user says the tools that may help, where not all are told in full.

    Of what stands in the talk already the names are told again, and all where older turns have to leave it now.
    """
    asked = last_turn(messages)
    if catalogue_of(chat).is_full or not messages or messages[asked].role != "user" or messages[asked].tools:
        return list(messages)
    room = room_of(chat)
    free = room - chat.backend.count_tokens(prompt_of(chat, messages))
    question = messages[asked].text

    def telling(lines: tuple[str, ...]) -> list[Message]:
        return [*messages[:asked], replace(messages[asked], tools=lines), *messages[asked + 1 :]]

    grown = telling(lines_for(chat, question, free))
    fits = chat.backend.count_tokens(prompt_of(chat, [*chat.shown, *grown])) <= room
    return grown if fits else telling(likely_forms(chat, question, free))


def told_before(chat: Chat, question: str, free_tokens: int) -> str:
    """What would be told of tools before a question that is sent now; "" where nothing would."""
    if catalogue_of(chat).is_full:
        return ""
    return with_forms(Message("user", "", tools=lines_for(chat, question, free_tokens)), chat.prompt_words).text


def tools_beside(chat: Chat) -> tuple[Tool, ...]:
    """The tools that an engine with its own way to tell of them is given beside the prompt; see `compose_native`."""
    if not chat.backend.native_tools:
        return ()
    return tuple(shown_names(chat.toolbox.tools).values()) if catalogue_of(chat).is_full else (DESCRIBE,)


def outline(chat: Chat, prompt: Sequence[Message]) -> Prompt:
    """The prompt with what it was made from. Tools that an engine is given beside it count to the system text."""
    beside = describe_tools(tools_beside(chat), whole=True)
    head, *rest = prompt
    shown = [replace(head, text="\n".join([head.text, *beside])), *rest] if beside else prompt
    tools = choice_of(chat).told
    return Prompt(shown, chat.shown, chat.backend, chat.settings.system, chat.prompt_words.code, chat.form, tools)


def callable_tools(chat: Chat, fits: Fits = bool) -> Toolbox:
    """What can be called: the tools, `describe_tool` where not all are told in full, `more` once a result was cut."""
    words, box = chat.prompt_words, chat.toolbox
    if not catalogue_of(chat).is_full:
        box = WithOurs(box, DESCRIBE, partial(answer_with, partial(describe, chat), words))
    return WithOurs(box, MORE, Pager(chat.history, words, fits).show) if chat.newest_cut else box


def grammar_of(chat: Chat) -> CallGrammar | None:
    """What a call may be, for an engine that can be held to it."""
    if not (chat.backend.constrains and chat.settings.constrained):
        return None
    return call_grammar(callable_tools(chat).tools, chat.form)


def share_of(chat: Chat, usage: Usage) -> Share:
    """What the results of a reply may take, after what it has cost."""
    free = room_of(chat) - (usage.prompt_tokens + usage.generated_tokens or chat.count_tokens())
    older = compose(chat.history[chat.first_shown : last_turn(chat.history)], (), chat.prompt_words)[1:]
    freed = free + (chat.backend.count_tokens(older) if older else 0)
    return make_share(free, freed, chat.backend.context_tokens, chat.count_text, chat.prompt_words, chat.form)


def room_of(chat: Chat) -> int:
    """For the prompt, beside an answer."""
    room = chat.backend.context_tokens
    return room - min(chat.settings.generation.max_tokens, room // ANSWER_SHARE)


def next_tokens(chat: Chat) -> int:
    """What the next question is taken to need; the tools that may come with it are about as long again."""
    share = NEXT_SHARE if catalogue_of(chat).is_full else NEXT_SHARE // 2
    return chat.backend.context_tokens // share


def make_room(chat: Chat, next_tokens: int = 0) -> Forgot | None:
    """Which whole turns leave so that prompt and answer fit, and so many tokens more; None where none can or must.

    The oldest leave, down to half the room at once, so that the next turns can use the engine's cache again. The last
    turn stays, and so does the first while it is small: it says what the talk is about.
    """
    room, turns = room_of(chat), turns_of(chat.history)
    if len(turns) < 2 or chat.count_tokens() + next_tokens <= room:
        return None

    def count(start: int, kept: int) -> int:
        return chat.backend.count_tokens(prompt_of(chat, [*chat.history[:kept], *chat.history[start:]]))

    kept = chat.kept if chat.first_shown else turns[1]
    if (
        not chat.first_shown
        and chat.backend.count_tokens(prompt_of(chat, chat.history[:kept])[1:]) > room // KEPT_SHARE
    ):
        kept = 0
    starts = [start for start in turns if start > chat.first_shown] or [chat.first_shown]
    start = starts[bisect_left(starts[:-1], True, key=lambda start: count(start, kept) <= room // 2)]
    if kept and count(start, kept) + next_tokens > room:
        kept = 0
    left = sum(kept <= turn < start for turn in turns) - sum(chat.kept <= turn < chat.first_shown for turn in turns)
    return Forgot(start, left, kept) if left else None
