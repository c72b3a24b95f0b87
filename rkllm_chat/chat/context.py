"""Build the prompt of a conversation and keep it inside the context window.

Covers the system text, tool descriptions, the visible history and the budget for tool results. No I/O except the
backend's `count_tokens`.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from ..backends import find_engine_of
from ..backends.base import PromptRenderer, PromptReplacer, ThinkingSwitch
from ..calls.formats import FORMATS
from ..calls.grammar import CallGrammar, NoCalls, build_call_grammar, forbid_calls, require_call
from ..calls.model_families import make_scanner
from ..calls.scanner import THINK_TAGS, Scanner
from ..calls.tool_names import shown_name, shown_names
from ..core.events import Usage
from ..core.i18n import Words, detect_text_language
from ..core.messages import UNSENT_KINDS, Message, Tool
from ..core.protocols import CallableTools
from ..prompt.budget import ANSWER_FRACTION, FIRST_TURN_FRACTION, NEXT_QUESTION_FRACTION, find_last_turn, find_turns
from ..prompt.compose import compose_flat_prompt, compose_native_prompt, compose_prompt, render_result_message
from ..prompt.result_pages import Fits
from ..prompt.untrusted_text import neutralize_line
from ..storage.session_records import ContextTrimmed
from .builtin_tools import DESCRIBE_TOOL, MORE_TOOL, ResultPager, ToolboxWithLocalTool, answer_describe_call
from .conversation import Conversation
from .evidence import REFERENCE, drop_failed_queries
from .result_budget import ResultBudget, make_result_budget
from .tool_selection import find_signatures, select_catalogue, select_tool_lines, select_tool_signatures
from .tool_traits import takes_query

PromptKind = Literal["chat", "call", "alone", "answer", "flat", "words"]
"""What the model is to do: continue, write a call in place of its last reply, reply to the question as if it were the
first one, answer without calls, answer from the question and the results alone, or as if there were no tools."""


def build_prompt(
    chat: Conversation,
    shown: Sequence[Message] | None = None,
    kind: PromptKind = "chat",
    forced_tools: Sequence[Tool] = (),
    request: str = "",
) -> list[Message]:
    """Build the prompt as it would be sent now, or with `shown` as the visible history.

    An engine that cannot be forced to write a call is asked for one of the forced tools. A `request` of the question is
    asked alone.
    """
    shown = chat.visible_messages if shown is None else shown
    if kind == "call":
        shown = [message for message in shown if message.reply_kind not in UNSENT_KINDS]
        if any(map(takes_query, forced_tools)):
            shown = drop_failed_queries(shown)
        if shown and not chat.backend.supports_grammar:
            request = request_call(chat, forced_tools)
            if shown[-1].role == "user":
                shown[-1] = replace(shown[-1], call_request=request)
            elif request:  # behind results, whose message has none
                shown.append(Message("user", request))
    elif kind == "alone":
        shown = [replace(shown[find_last_turn(shown)], text=request)]
    words, system, kinds = chat.prompt_words, chat.settings.system, chat.backend.media_kinds
    answer_words = partial(load_answer_words, chat)
    if kind in ("flat", "words"):
        start = find_last_turn(shown)
        turn, earlier = shown[start : start + 1] if kind == "words" else shown[start:], shown[:start]
        question = turn[0].text if turn else ""
        referred = find_referred_results(earlier) if REFERENCE.search(question) else []
        return compose_flat_prompt(turn, answer_words(question), system, kinds, earlier, referred)
    call_format, catalogue, asks_answer = chat.call_format, select_catalogue(chat), kind == "answer"
    if chat.backend.native_tools:
        return compose_native_prompt(shown, words, system, call_format, catalogue, kinds, asks_answer, answer_words)
    # else the answer was asked for in a prompt of its own, and the question is in the conversation once
    repeats = loses_conversation(chat)
    return compose_prompt(shown, (), words, system, call_format, catalogue, kinds, asks_answer, answer_words, repeats)


def find_referred_results(earlier: Sequence[Message]) -> list[Message]:
    """Return the completed results of the last turn: "How much is it?" is about them."""
    turn = earlier[find_last_turn(earlier) :] if earlier else ()
    return [message for message in turn if message.result and message.result.status == "completed"]


def load_answer_words(chat: Conversation, question: str) -> Words:
    """Return the model-facing sentences that ask for an answer: in the language of the question.

    Asked in English, models answered Japanese and Chinese questions in English (7 of 10, 0.5B).
    """
    return chat.profile.load_words(detect_text_language(question) or chat.words.code)


def can_force_calls(chat: Conversation) -> bool:
    """Return whether a grammar can hold the engine to a call."""
    return chat.backend.supports_grammar and chat.settings.constrained


def write_call(chat: Conversation, name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call as the model would: families that leave the markers out imitate their letters wrongly."""
    if chat.profile.writes_unmarked:
        return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False, default=str)
    return FORMATS[chat.call_format].render_call(name, arguments)


def request_call(chat: Conversation, tools: Sequence[Tool]) -> str:
    """Return the sentence that asks for a call of these tools; "" if the profile has none."""
    names = [neutralize_line(shown_name(tool, chat.toolbox.tools)) for tool in tools]
    return chat.prompt_words("prompt.call_now", names=" or ".join(names))


def list_answer_prompts(chat: Conversation, is_unsure: bool) -> list[PromptKind]:
    """Return how an answer without calls is asked for, in the order in which it is tried.

    Where the model was unsure of a call, and it found nothing, the question was hardly one for a tool: "Who borrowed my
    car?" is answered from what was said.

    A prompt of its own comes first only where the engine can return to the conversation: otherwise one answer makes the
    next turn evaluate everything again (on the NPU 491 of 495 tokens, measured; behind a growing prompt 17). Without a
    result it comes first there too: as long as the prompt lists tools, the model announces or refuses again.
    """
    turn = chat.history[find_last_turn(chat.history) :]
    has_results = any(message.result and message.result.server for message in turn)
    is_flat_first = chat.profile.answers_flat and not (has_results and loses_conversation(chat))
    kinds: list[PromptKind] = ["flat", "answer"] if is_flat_first else ["answer", "flat"]
    return ["words", *kinds] if is_unsure else kinds


def loses_conversation(chat: Conversation) -> bool:
    """Return whether the engine would have to evaluate the conversation again behind another prompt."""
    return isinstance(chat.backend, PromptReplacer) and chat.backend.loses_conversation


def count_tokens(chat: Conversation) -> int:
    """Return the length of the prompt as it would be sent now."""
    return chat.backend.count_tokens(build_prompt(chat))


def render_sent_prompt(chat: Conversation, messages: Sequence[Message] = ()) -> str:
    """Return the prompt of the next request as it is sent: with its control tokens, or as the messages of a request.

    The conversation stays as it is.

    Args:
        chat: The conversation.
        messages: What the user says next.
    """
    shown = [*chat.visible_messages, *add_tool_signatures(chat, messages)]
    prompt, tools = build_prompt(chat, shown), native_tools_of(chat)
    if isinstance(chat.backend, PromptRenderer):
        return chat.backend.render_request(prompt, tools)
    rows = [{"role": message.role, "content": message.text} for message in prompt]
    return json.dumps(rows, ensure_ascii=False, indent=2)


def make_reply_scanner(chat: Conversation) -> Scanner:
    """Return a parser for a reply of this model."""
    return make_scanner(
        chat.call_format,
        chat.backend.family.accepted_formats,
        make_call_toolbox(chat).tools,
        chat.prompt_words,
        chat.profile.writes_unmarked,
    )


def may_begin_in_thought(chat: Conversation) -> bool:
    """Return whether a reply may begin inside a thought that nothing marks, as services send it that do not split it.

    That holds for a family whose template opens the thought, until a reply of the conversation has none. Other engines
    begin the reply with the opening.
    """
    if not chat.backend.family.starts_in_thought or chat.settings.thinking == "off":
        return False
    replies = (message.text for message in chat.history if message.role == "assistant")
    have_thoughts = all(any(end in reply for end in THINK_TAGS.values()) for reply in replies)
    return have_thoughts and find_engine_of(chat.settings).is_service


@contextmanager
def thinking_off(chat: Conversation, is_needed: bool) -> Iterator[None]:
    """Return a context in which the model does not think, where the engine can switch it."""
    if not (is_needed and isinstance(chat.backend, ThinkingSwitch)):
        yield
        return
    chat.backend.set_thinking("off")
    try:
        yield
    finally:
        chat.backend.set_thinking(chat.settings.thinking)


def add_tool_signatures(chat: Conversation, messages: Sequence[Message]) -> list[Message]:
    """Add the signatures of tools that may help to a new user message, unless the system text has all signatures.

    Tools whose signatures are already visible are only named again; all are repeated if older turns must be dropped
    now.
    """
    question_index = find_last_turn(messages)
    if not messages or messages[question_index].role != "user" or messages[question_index].tool_lines:
        return list(messages)
    question = messages[question_index].text

    def with_lines(lines: tuple[str, ...]) -> list[Message]:
        asked = replace(messages[question_index], tool_lines=lines)
        return [*messages[:question_index], asked, *messages[question_index + 1 :]]

    if select_catalogue(chat).is_full:
        return list(messages)
    limit_tokens = compute_prompt_budget(chat)
    free_tokens = limit_tokens - chat.backend.count_tokens(build_prompt(chat, messages))
    extended = with_lines(select_tool_lines(chat, question, free_tokens))
    fits = chat.backend.count_tokens(build_prompt(chat, [*chat.visible_messages, *extended])) <= limit_tokens
    return extended if fits else with_lines(select_tool_signatures(chat, question, free_tokens))


def native_tools_of(chat: Conversation) -> tuple[Tool, ...]:
    """Return the tools for an engine with its own tool support; see `compose_native_prompt`."""
    if not chat.backend.native_tools:
        return ()
    return tuple(shown_names(chat.toolbox.tools).values()) if select_catalogue(chat).is_full else (DESCRIBE_TOOL,)


def make_call_toolbox(chat: Conversation, fits: Fits = bool) -> CallableTools:
    """Return the toolbox for calls.

    It has the tools, `describe_tool` if not all signatures are listed, and `more` once a result was truncated.
    """
    words, toolbox = chat.prompt_words, chat.toolbox
    if not select_catalogue(chat).is_full:
        toolbox = ToolboxWithLocalTool(
            toolbox, DESCRIBE_TOOL, partial(answer_describe_call, partial(find_signatures, chat), words)
        )
    return (
        ToolboxWithLocalTool(toolbox, MORE_TOOL, ResultPager(chat.history, words, fits).answer_call)
        if chat.last_handle_number
        else toolbox
    )


def build_grammar(
    chat: Conversation, kind: PromptKind = "chat", forced_tools: Sequence[Tool] = ()
) -> CallGrammar | NoCalls | None:
    """Return the grammar of the reply or of its tool calls for an engine that supports it, or that there are none."""
    if chat.reply_grammar and chat.backend.supports_grammar:
        return chat.reply_grammar
    if kind in ("answer", "flat", "words"):
        return forbid_calls(chat.call_format, chat.backend.family.accepted_formats)
    if not can_force_calls(chat):
        return None
    is_forced = kind == "call" or bool(forced_tools)
    tools = forced_tools if is_forced else make_call_toolbox(chat).tools
    grammar = build_call_grammar(tools, chat.call_format, chat.profile.writes_unmarked)
    return require_call(grammar) if grammar and is_forced else grammar


def compute_result_budget(chat: Conversation, usage: Usage) -> ResultBudget:
    """Return the token budget for the results of a reply, given its usage."""
    free = compute_prompt_budget(chat) - (usage.prompt_tokens + usage.generated_tokens or count_tokens(chat))
    kinds, words = chat.backend.media_kinds, chat.prompt_words
    shown = chat.history[chat.first_shown : find_last_turn(chat.history)]
    older = compose_prompt(shown, (), words, media_kinds=kinds)[1:]
    free_after_trim = free + (chat.backend.count_tokens(older) if older else 0)

    def count(message: Message) -> int:
        return chat.backend.count_tokens([render_result_message(message, words, kinds)])

    return make_result_budget(free, free_after_trim, chat.backend.context_tokens, count, words, chat.call_format)


def compute_prompt_budget(chat: Conversation) -> int:
    """Return the token budget for the prompt: the context window minus space for the reply."""
    context_tokens = chat.backend.context_tokens
    return context_tokens - min(chat.generation.max_tokens, int(context_tokens * ANSWER_FRACTION))


def estimate_question_tokens(chat: Conversation) -> int:
    """Return the expected length of the next question; tool signatures that accompany it double it."""
    fraction = NEXT_QUESTION_FRACTION if select_catalogue(chat).is_full else 2 * NEXT_QUESTION_FRACTION
    return int(chat.backend.context_tokens * fraction)


def choose_dropped_turns(chat: Conversation, next_tokens: int = 0) -> ContextTrimmed | None:
    """Choose whole turns to drop so that prompt, reply and next question fit; None if none can or must be.

    The oldest turns are dropped, down to half the budget at once, so that the next turns can reuse the KV cache. The
    last turn stays, and so does the first while it is small: it states the subject of the conversation.
    """
    limit_tokens, turns = compute_prompt_budget(chat), find_turns(chat.history)
    if len(turns) < 2 or count_tokens(chat) + next_tokens <= limit_tokens:
        return None

    def fits(start: int, retained: int, most: int) -> bool:
        shown = build_prompt(chat, [*chat.history[:retained], *chat.history[start:]])
        return chat.backend.count_tokens(shown) <= most

    retained = chat.retained_count if chat.first_shown else _count_first_turn(chat, turns[1], limit_tokens)
    starts = [start for start in turns if start > chat.first_shown] or [chat.first_shown]
    # from the first start that fits on, all fit: the answers are False ..., True ..., which can be bisected
    start = starts[bisect_left(starts[:-1], True, key=lambda turn: fits(turn, retained, limit_tokens // 2))]
    if retained and not fits(start, retained, limit_tokens - next_tokens):
        retained = 0
    dropped_before = sum(chat.retained_count <= turn < chat.first_shown for turn in turns)
    dropped_turns = sum(retained <= turn < start for turn in turns) - dropped_before
    return ContextTrimmed(start, dropped_turns, retained) if dropped_turns else None


def _count_first_turn(chat: Conversation, end: int, limit_tokens: int) -> int:
    """Return the number of messages of the first turn; 0 if it is too large to stay."""
    tokens = chat.backend.count_tokens(build_prompt(chat, chat.history[:end])[1:])
    return end if tokens <= limit_tokens * FIRST_TURN_FRACTION else 0
