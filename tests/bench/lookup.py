"""Prompt lookup: the same tool turns with drafts and without. `turns` measures a larger model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.prompt_lookup import DraftTiming
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.calls.grammar import build_call_grammar
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message, ToolResult
from rkllm_chat.prompt.compose import compose_prompt

from .constrained import TOOLS
from .figures import Figure, Goal

RUNS = 7
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
    """What all turns took: tokens written, seconds, tokens drafted and accepted."""

    tokens: int = 0
    seconds: float = 0.0
    drafted: int = 0
    accepted: int = 0

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def lookup_gain() -> list[Figure]:
    """Tokens per second of tool turns with drafts and without.

    The chat drafts only where that is faster; here it always does.
    """
    backend = LlamaBackend(find_shipped_model(), 0)
    backend.draft_timing = DraftTiming(retry_steps=0)  # what is measured is drafts, not whether they are worth it
    runs = [(take_turns(backend, True), take_turns(backend, False)) for _ in range(RUNS)]
    asyncio.run(backend.aclose())
    ours, plain = (max(found, key=lambda spent: spent.speed) for found in zip(*runs, strict=True))
    steps = ours.tokens - ours.accepted
    return [
        Figure("tool turns: tokens drafted", ours.speed, "/s", plain.speed, "not", Goal(1.3, "ratio", least=True)),
        Figure("of the tokens drafted: right", ours.accepted, "", ours.drafted, "all"),
        Figure("tokens written by a step of the engine", ours.tokens / steps, "", 1.0, "not drafted"),
    ]


def take_turns(backend: LlamaBackend, looks_up: bool) -> Spent:
    """The call of each turn and its answer, greedy, calls held to their grammar."""
    backend.uses_prompt_lookup = looks_up
    spent = Spent()
    for line, name, text in TURNS:
        asked = [Message("user", line)]
        call = write(backend, asked, spent)
        result = Message("tool", text, ToolResult("board", name, {}, "completed", text))
        write(backend, [*asked, Message("assistant", call), result], spent)
    return spent


def write(backend: LlamaBackend, talk: list[Message], spent: Spent) -> str:
    async def listen() -> str:
        said = ""
        prompt = compose_prompt(talk, TOOLS)
        async for item in backend.stream(prompt, Generation(temperature=0), (), build_call_grammar(TOOLS, "json")):
            if isinstance(item, Usage):
                spent.tokens += item.generated_tokens
                spent.seconds += item.generate_s
            said += item if isinstance(item, str) else ""
        return said

    said = asyncio.run(listen())
    if backend.lookup:
        spent.drafted += backend.lookup.drafted
        spent.accepted += backend.lookup.accepted
    return said
