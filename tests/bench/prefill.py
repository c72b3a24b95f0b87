"""A chat of ten turns with tools, the small model and the real board server: tokens prefilled, time to first token."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from rkllm_chat.backends.llama.engine import BATCH_TOKENS
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.core.events import Usage

from .chats import QUESTIONS, BoardChats
from .figures import Figure, Goal

CHATS = 5
GREETING = "Hello!"
SMALL_TALK = ("Thank you!", "Who are you?")


def prefilled() -> list[Figure]:
    """Tokens that ten turns of tool calls prefill, over those that are new."""
    with tempfile.TemporaryDirectory() as name, BoardChats(Path(name)) as chats:
        chat = chats.new_chat()
        turns = [chats.run_turn(chat, line) for line in QUESTIONS]
        used = [usage for turn in turns for usage in turn.usage]
        count = len(used)
        read, new = sum(usage.prefilled_tokens for usage in used), new_tokens(used)
    what = f"ten turns, {count} replies: tokens prefilled"
    return [
        Figure(what, read, "", new, "tokens that are new", Goal(1.05, "ratio")),
        Figure("ten turns: calls of tools", sum(len(turn.usage) == 2 for turn in turns), "", goal=Goal(9, least=True)),
    ]


def new_tokens(used: Sequence[Usage]) -> int:
    """What each prompt has beyond the one before it and the reply to that."""
    previous = new = 0
    for usage in used:
        new += usage.prompt_tokens - previous
        previous = usage.prompt_tokens + usage.generated_tokens
    return new


def first_tokens() -> list[Figure]:
    """Time to the first token of turn 10, over turn 1: with an empty cache, and with the system text cached."""
    cold: list[float] = []
    cached: list[float] = []
    late: list[float] = []
    alone: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name, BoardChats(Path(name)) as chats, closing(open_engine()) as engine:
        for _ in range(CHATS):
            chats.clear()
            cold.append(chats.run_turn(chats.new_chat(), GREETING).first_s)
            chat = chats.new_chat()
            early = chats.run_turn(chat, GREETING)
            cached.append(early.first_s)
            for line in (*QUESTIONS[:6], *SMALL_TALK):
                chats.run_turn(chat, line)
            tenth = chats.run_turn(chat, GREETING)
            late.append(tenth.first_s)
            alone.append((time_first_token(engine, early.usage[0]), time_first_token(engine, tenth.usage[0])))
    ours, goal, what = 1e3 * median(late), Goal(1.2, "ratio"), "first word of turn 10"
    first, tenth_ms = (1e3 * median(times) for times in zip(*alone, strict=True))
    return [
        Figure(what, ours, "ms", 1e3 * median(cold), "turn 1, cold", goal),
        Figure(what, ours, "ms", 1e3 * median(cached), "turn 1, system text held", goal),
        Figure(f"{what}, the engine alone", tenth_ms, "ms", first, "turn 1"),
    ]


def open_engine() -> Any:
    import llama_cpp

    return llama_cpp.Llama(str(find_shipped_model()), n_ctx=0, n_batch=BATCH_TOKENS, verbose=False)


def time_first_token(engine: Any, usage: Usage) -> float:
    """Seconds to the first token of the bare engine, with as many cached and as many new tokens."""
    tokens = [5 + place % 900 for place in range(usage.prompt_tokens)]
    engine.reset()
    engine.eval(tokens[: usage.reused_tokens])
    started = time.perf_counter()
    next(engine.generate(tokens, temp=0))
    return time.perf_counter() - started
