"""Drafts from what was written before: the same tool turns with and without, and what a larger model may expect."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rkllm_chat.backends.llama import Llama, find_shipped_model
from rkllm_chat.backends.llama_engine import load
from rkllm_chat.backends.llama_lookup import Pace
from rkllm_chat.config import Generation
from rkllm_chat.events import Usage
from rkllm_chat.grammar import call_grammar
from rkllm_chat.messages import Message, ToolResult
from rkllm_chat.prompt import compose

from .constrained import TOOLS
from .figures import Figure, Goal
from .random_model import write_random_model

RUNS = 7
HELD = 400  # tokens of context, when a batch of the larger model is timed
TURNS = (
    (
        "What time is it in Tokyo?",
        "get_time",
        "It is 20:26 on Friday, 20 November 2026 in Tokyo (Asia/Tokyo, UTC+09:00).",
    ),
    ("What is 1234 / 56?", "calculate", "1234 / 56 = 22.035714285714285"),
    (
        "Which files are here?",
        "list_files",
        "notes.txt\nharbour.md\nphotos/\ntide-2026.csv\nold.txt\nhouse.toml\nREADME.md",
    ),
    ("How busy is it?", "get_load", "Load 1.25 (1 min), 0.98 (5 min), 0.64 (15 min) on 4 cores, up 99 hours 1 minute."),
)


@dataclass
class Spent:
    """What all turns took: tokens written, seconds, tokens drafted and accepted, drafts."""

    tokens: int = 0
    seconds: float = 0.0
    drafted: int = 0
    accepted: int = 0
    drafts: int = 0

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def lookup_gain() -> list[Figure]:
    """Tokens per second of tool turns with drafts and without; the same expected of 200 million parameters.

    The chat drafts only where that is faster; here it always does.
    """
    backend = Llama(find_shipped_model(), 0)
    backend.pace = Pace(rest=0)  # what is measured is drafts, not whether they are worth it
    runs = [(take_turns(backend, True), take_turns(backend, False)) for _ in range(RUNS)]
    asyncio.run(backend.aclose())
    ours, plain = (max(found, key=lambda spent: spent.speed) for found in zip(*runs, strict=True))
    size = 1 + round(ours.drafted / ours.drafts)
    alone, batch = time_batches(size)
    steps = ours.tokens - ours.accepted
    expected = ours.tokens / (ours.drafts * batch + (steps - ours.drafts) * alone)
    return [
        Figure("tool turns: tokens drafted", ours.speed, "/s", plain.speed, "not", Goal(1.3, "ratio", least=True)),
        Figure("of the tokens drafted: right", ours.accepted, "", ours.drafted, "all"),
        Figure("tokens written by a step of the engine", ours.tokens / steps, "", 1.0, "not drafted"),
        Figure(f"200 M random weights: a batch of {size}", 1e3 * batch, "ms", 1e3 * alone, "one token"),
        Figure("200 M: expected of as many right", expected, "/s", 1 / alone, "not drafted"),
    ]


def take_turns(backend: Llama, looks_up: bool) -> Spent:
    """The call of each turn and its answer, greedy, calls held to their grammar."""
    backend.looks_up = looks_up
    spent = Spent()
    for line, name, text in TURNS:
        asked = [Message("user", line)]
        call = write(backend, asked, spent)
        result = Message("tool", text, ToolResult("board", name, {}, "completed", text))
        write(backend, [*asked, Message("assistant", call), result], spent)
    return spent


def write(backend: Llama, talk: list[Message], spent: Spent) -> str:
    async def listen() -> str:
        said = ""
        prompt = compose(talk, TOOLS)
        async for item in backend.stream(prompt, Generation(temperature=0), (), call_grammar(TOOLS, "json")):
            if isinstance(item, Usage):
                spent.tokens += item.generated_tokens
                spent.seconds += item.generate_s
            said += item if isinstance(item, str) else ""
        return said

    said = asyncio.run(listen())
    if backend.lookup:
        spent.drafted += backend.lookup.drafted
        spent.accepted += backend.lookup.accepted
        spent.drafts += backend.lookup.drafts
    return said


def time_batches(size: int) -> tuple[float, float]:
    """Seconds that one token takes in a model of 200 million parameters, and a draft: so many tokens at once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.gguf"
        write_random_model(find_shipped_model(), path)
        engine = load(path, 1024)
    engine.eval(range(5, 5 + HELD))
    taken = [(time_step(engine, engine.eval, 1), time_step(engine, engine.eval_draft, size)) for _ in range(RUNS)]
    engine.close()
    alone, batch = zip(*taken, strict=True)
    return min(alone), min(batch)


def time_step(engine: Any, evaluate: Callable[[Sequence[int]], None], size: int) -> float:
    engine.keep(HELD)
    begun = time.perf_counter()
    evaluate(range(5, 5 + size))
    return time.perf_counter() - begun
