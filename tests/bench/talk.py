"""A talk of ten turns with tools, the small model and the real board server: what is read anew, how soon it answers.

The first sketch of this program joins all messages and sends them with a cleared engine each time; it stands beside.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rkllm_chat.backends.llama import find_shipped_model
from rkllm_chat.backends.llama_engine import BATCH_TOKENS
from rkllm_chat.events import Usage
from rkllm_chat.messages import Message
from rkllm_chat.window import prompt_of

from .figures import Figure, Goal
from .sitting import QUESTIONS, Sitting

TALKS = 5
HELLO = "Hello!"
TALK = ("Thank you!", "Who are you?")


def prefilled() -> list[Figure]:
    """Tokens that ten turns of tool calls prefill, over those that are new; beside it all of them sent each time."""
    with tempfile.TemporaryDirectory() as name, Sitting(Path(name)) as sitting:
        chat = sitting.new_chat()
        turns = [sitting.take(chat, line) for line in QUESTIONS]
        used = [usage for turn in turns for usage in turn.usage]
        count = len(used)
        read, new = sum(usage.prefilled_tokens for usage in used), new_tokens(used)
        with Sketch() as sketch:
            sent = sum(len(sketch.tokens(prompt)) for prompt in prompts_of(chat.history, prompt_of(chat)[0]))
    what = f"ten turns, {count} replies: tokens prefilled"
    return [
        Figure(what, read, "", new, "tokens that are new", Goal(1.05, "ratio")),
        Figure(f"{what}:", read, "", sent, "the sketch", Goal(1, "ratio")),
        Figure("ten turns: calls of tools", sum(len(turn.usage) == 2 for turn in turns), "", goal=Goal(9, least=True)),
    ]


def new_tokens(used: Sequence[Usage]) -> int:
    """What each prompt has beyond the one before it and the reply to that."""
    held = new = 0
    for usage in used:
        new += usage.prompt_tokens - held
        held = usage.prompt_tokens + usage.generated_tokens
    return new


def prompts_of(history: Sequence[Message], system: Message) -> list[list[Message]]:
    """What was sent for each reply of a talk, were it sent whole."""
    replies = [index for index, message in enumerate(history) if message.role == "assistant"]
    return [[system, *history[:index]] for index in replies]


def first_tokens() -> list[Figure]:
    """How soon the first word of turn 10 comes, over turn 1: cold, and behind a system text that is held."""
    cold: list[float] = []
    held: list[float] = []
    late: list[float] = []
    alone: list[tuple[float, float]] = []
    sketched: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name, Sitting(Path(name)) as sitting, Sketch() as sketch:
        for _ in range(TALKS):
            sitting.clear()
            cold.append(sitting.take(sitting.new_chat(), HELLO).first_s)
            chat = sitting.new_chat()
            early = sitting.take(chat, HELLO)
            held.append(early.first_s)
            for line in (*QUESTIONS[:6], *TALK):
                sitting.take(chat, line)
            tenth = sitting.take(chat, HELLO)
            late.append(tenth.first_s)
            alone.append((sketch.first_behind(early.usage[0]), sketch.first_behind(tenth.usage[0])))
            first, *_, last = prompts_of(chat.history, prompt_of(chat)[0])
            sketched.append((sketch.first_token(first), sketch.first_token(last)))
    ours, goal, what = 1e3 * median(late), Goal(1.2, "ratio"), "first word of turn 10"
    rows = [
        Figure(what, ours, "ms", 1e3 * median(cold), "turn 1, cold", goal),
        Figure(what, ours, "ms", 1e3 * median(held), "turn 1, system text held", goal),
    ]
    for name, pairs in (("the engine alone", alone), ("the sketch", sketched)):
        once, ten = (1e3 * median(one) for one in zip(*pairs, strict=True))
        rows.append(Figure(f"{what}, {name}", ten, "ms", once, "turn 1"))
    return rows


class Sketch:
    """The loop of the first sketch: one text of all that was said, and an engine that begins anew."""

    def __init__(self) -> None:
        import llama_cpp

        self._engine: Any = llama_cpp.Llama(str(find_shipped_model()), n_ctx=0, n_batch=BATCH_TOKENS, verbose=False)

    def __enter__(self) -> Sketch:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        text = "\n".join(f"{message.role}: {message.text}" for message in messages)
        found: list[int] = self._engine.tokenize(f"{text}\nassistant:".encode())
        return found

    def first_behind(self, usage: Usage) -> float:
        """Seconds to the first token where so many tokens are held and so many are new, with nothing around."""
        tokens = [5 + place % 900 for place in range(usage.prompt_tokens)]
        self._engine.reset()
        self._engine.eval(tokens[: usage.reused_tokens])
        begun = time.perf_counter()
        next(self._engine.generate(tokens, temp=0))
        return time.perf_counter() - begun

    def first_token(self, messages: Sequence[Message]) -> float:
        """Seconds to the first token of a reply."""
        begun = time.perf_counter()
        self._engine.reset()
        next(self._engine.generate(self.tokens(messages), temp=0))
        return time.perf_counter() - begun
