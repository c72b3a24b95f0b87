"""Calls that the small model writes at temperature 1, with a grammar and without: how many are valid, and the price."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import count
from statistics import median
from typing import Any, Literal

from jsonschema import Draft202012Validator

from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.calls.arguments import validate_arguments
from rkllm_chat.calls.grammar import CallGrammar, build_call_grammar
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.errors import ValidationError
from rkllm_chat.core.events import CallFound, CallUnreadable, Usage
from rkllm_chat.core.messages import Message, Tool
from rkllm_chat.prompt.compose import compose_prompt

from .figures import Figure, Goal

Verdict = Literal["valid", "saved", "lost", "cut off", "no call"]
CALLS = 500
TEXT = {"type": "string"}


def schema_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TOOLS = (
    Tool(
        "get_time",
        "Time in a city",
        schema_of(
            "place",
            place=TEXT,
            clock={"enum": ["12h", "24h"]},
            shift={"type": "integer", "minimum": -12, "maximum": 14},
        ),
    ),
    Tool(
        "calculate",
        "Work out a sum",
        schema_of(
            "expression",
            "digits",
            expression={**TEXT, "minLength": 1},
            digits={"type": "integer", "minimum": 0, "maximum": 12},
            units={"type": "array", "items": {"enum": ["m", "s", "kg"]}, "maxItems": 3},
        ),
    ),
    Tool(
        "list_files",
        "Files in a folder",
        schema_of(
            "only",
            folder=TEXT,
            only=schema_of(
                "hidden",
                hidden={"type": "boolean"},
                larger_than={"type": "number", "minimum": 0},
                kinds={"type": "array", "items": TEXT, "minItems": 1},
            ),
        ),
    ),
)
QUESTIONS = ("What time is it in Tokyo?", "What is 12 * 34?", "Which files are there?", "Time in New York?")


def judge(text: str) -> Verdict:
    """What becomes of the call in a reply: valid as it is written; saved by what mends calls; or lost."""
    scanner = Scanner()
    events = scanner.feed(text) + scanner.close()
    found = next((event for event in events if isinstance(event, CallFound | CallUnreadable)), None)
    if found is None:
        return "no call"
    if isinstance(found, CallUnreadable):
        return "cut off" if found.fault == "truncated" else "lost"
    tool = next((tool for tool in TOOLS if tool.name == found.call.name), None)
    if tool is None:
        return "lost"
    if not found.call.repairs and Draft202012Validator(tool.schema).is_valid(found.call.arguments):
        return "valid"
    try:
        validate_arguments(found.call.arguments, tool.schema)
    except ValidationError:
        return "lost"
    return "saved"


def reply(backend: LlamaBackend, seed: int, grammar: CallGrammar | None, max_tokens: int = 120) -> str:
    """One reply at temperature 1 to the question of this seed."""
    prompt = compose_prompt([Message("user", QUESTIONS[seed % len(QUESTIONS)])], TOOLS)
    wanted = Generation(temperature=1, seed=seed, max_tokens=max_tokens)

    async def collect() -> str:
        pieces = backend.stream(prompt, wanted, (), grammar)
        return "".join([piece async for piece in pieces if isinstance(piece, str)])

    return asyncio.run(collect())


def judge_calls(backend: LlamaBackend, grammar: CallGrammar | None, number: int) -> Counter[Verdict]:
    """What becomes of so many calls. One that the limit of tokens cuts off is none, but counted."""
    verdicts: Counter[Verdict] = Counter()
    for seed in count():
        if verdicts["valid"] + verdicts["saved"] + verdicts["lost"] >= number:
            break
        verdicts[judge(reply(backend, seed, grammar))] += 1
    return verdicts


def constrained_calls() -> list[Figure]:
    """How many of 500 calls at temperature 1 are valid with the grammar and without; what mending saves of the rest."""
    backend = LlamaBackend(find_shipped_model(), 0)
    held, free = (judge_calls(backend, grammar, CALLS) for grammar in (build_call_grammar(TOOLS, "json"), None))
    asyncio.run(backend.aclose())
    share = 100 / CALLS
    return [
        Figure(
            f"{CALLS} calls: valid as written, with the grammar",
            held["valid"] * share,
            "%",
            free["valid"] * share,
            "without",
            Goal(100, least=True),
        ),
        Figure(f"{CALLS} calls without it: saved by mending", free["saved"] * share, "%"),
        Figure(f"{CALLS} calls without it: lost", free["lost"] * share, "%"),
        Figure("beside them: cut off by the limit of tokens", held["cut off"], "", free["cut off"], "without"),
    ]


def grammar_costs() -> list[Figure]:
    """What holding a call to a grammar costs: tokens per second, and what a hundred tools take."""
    backend = LlamaBackend(find_shipped_model(), 0)
    grammar = build_call_grammar(TOOLS, "json")
    held, free = speed(backend, grammar), speed(backend, None)
    many = [Tool(f"{tool.name}_{number}", schema=tool.schema) for number in range(34) for tool in TOOLS][:100]
    begun = time.perf_counter()
    large = build_call_grammar(many, "json")
    written = time.perf_counter() - begun
    first, few = (first_token(backend, found) for found in (large, grammar))
    asyncio.run(backend.aclose())
    return [
        Figure("tokens of a call per second, with the grammar", held, "", free, "without"),
        Figure("100 tools: the grammar is written, once", 1e3 * written, "ms"),
        Figure("100 tools: from the marker to the next token", 1e3 * first, "ms", 1e3 * few, "3 tools"),
    ]


def speed(backend: LlamaBackend, grammar: CallGrammar | None) -> float:
    """Tokens per second of a greedy reply that is a call, the prompt left out; the best of ten."""
    return max(asyncio.run(measure(backend, grammar))[0] for _ in range(10))


def first_token(backend: LlamaBackend, grammar: CallGrammar | None) -> float:
    """Seconds from the end of the marker to what follows it; the median of nine."""
    return median(asyncio.run(measure(backend, grammar))[1] for _ in range(9))


async def measure(backend: LlamaBackend, grammar: CallGrammar | None) -> tuple[float, float]:
    """Tokens per second, and the seconds behind the marker."""
    prompt = compose_prompt([Message("user", QUESTIONS[0])], TOOLS)
    text, marked, behind = "", 0.0, 0.0
    usage = Usage()
    async for item in backend.stream(prompt, Generation(temperature=0, max_tokens=200), (), grammar):
        if isinstance(item, Usage):
            usage = item
        elif isinstance(item, str):
            text += item
            behind = behind or (marked and time.perf_counter() - marked)
            marked = marked or ("[TOOL_CALL]" in text and time.perf_counter())
    return usage.generated_tokens / usage.generate_s, behind
