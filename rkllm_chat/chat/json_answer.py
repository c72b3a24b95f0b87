"""Answers that are one JSON value of a schema: held to it by a grammar where the engine can, corrected elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..calls.arguments import MAX_STEPS, find_violation
from ..calls.grammar import build_reply_grammar
from ..calls.schema.resolve import BudgetedSchema, BudgetExceededError
from ..core.errors import GenerationError
from ..core.events import CallFound, CallUnreadable, Event, Text, TextWasThought, TurnEnded
from ..core.strict_json import parse_strict_json
from .conversation import Conversation
from .event_stream import Emit, emit_all
from .turn import Turn

MAX_CORRECTIONS = 2
_FENCED = re.compile(r"\A```[^\n]*\n(.*)```\Z", re.DOTALL)


def request_json(chat: Conversation, text: str, schema: Mapping[str, Any]) -> str:
    """Return the text of a user with the request to answer by a schema."""
    return f"{text}\n\n{chat.prompt_words('prompt.json_answer', schema=json.dumps(schema, ensure_ascii=False))}"


async def correct_answer(
    chat: Conversation, run_turn: Callable[[Emit], Awaitable[None]], schema: Mapping[str, Any], emit: Emit
) -> None:
    """Run a turn, and up to `MAX_CORRECTIONS` more, until the answer is valid.

    The replies are held to the schema by a grammar if the engine supports it: in a turn that may call tools, only the
    corrections are. Text is emitted once, when it is valid: the JSON value alone.

    Args:
        chat: The conversation.
        run_turn: Runs the turn; its text has been made by `request_json`.
        schema: The schema.
        emit: Takes the events.

    Raises:
        GenerationError: No answer was valid; `details` has the last one as `answer`.
    """
    grammar = build_reply_grammar(schema)
    chat.reply_grammar, chat.answers_json = None if chat.toolbox.tools else grammar, True
    parts: list[str] = []
    ends: list[TurnEnded] = []

    async def hold(event: Event) -> None:
        match event:
            case Text(_, is_report=True):  # it is no part of the value
                pass
            case Text(part):
                parts.append(part)
            case TurnEnded():
                ends.append(event)
            case _:
                if isinstance(event, CallFound | CallUnreadable | TextWasThought):
                    parts.clear()
                await emit(event)

    try:
        for corrections_left in reversed(range(MAX_CORRECTIONS + 1)):
            parts.clear()
            await run_turn(hold)
            answer, reason = remove_fence("".join(parts)), ends[-1].reason
            problem = find_problem(answer, schema)
            if reason == "steps" or not problem:
                break
            if not corrections_left:
                hint = "Raise max_tokens." if reason == "length" else "Use a larger model, or a simpler schema."
                raise GenerationError(f"The answer does not match the schema: {problem}.", hint, answer=answer)
            chat.reply_grammar = grammar
            correction = chat.prompt_words("prompt.json_correction", problem=problem)
            run_turn = partial(emit_all, Turn(chat).run(correction))
    finally:
        chat.reply_grammar, chat.answers_json = None, False
    await emit(Text(answer))
    await emit(replace(ends[-1], usage=tuple(usage for end in ends for usage in end.usage)))


def find_problem(answer: str, schema: Mapping[str, Any]) -> str:
    """Return why an answer is no JSON value of the schema: a part of a sentence; "" if it is one."""
    try:
        value = parse_strict_json(answer)
    except ValueError as error:
        return f"it is not JSON: {error}"
    try:
        violation = find_violation(value, BudgetedSchema(schema, MAX_STEPS))
    except (BudgetExceededError, RecursionError):
        return "the schema takes too long to check"
    if not violation:
        return ""
    return f"{'.'.join(map(str, violation.path)) or 'the value'} {violation.message}"


def remove_fence(answer: str) -> str:
    """Return an answer without the code fence around all of it."""
    text = answer.strip()
    match = _FENCED.match(text)
    return match[1].strip() if match else text
