"""Drafts from what was written before: the shipped GGUF writes what it writes without them, in fewer steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.constrained import QUESTIONS, TOOLS
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.prompt_lookup import MAX_DRAFT_TOKENS, NGRAM_SIZES, DraftTiming, PromptLookup
from rkllm_chat.calls.grammar import CallGrammar, build_call_grammar
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message, ToolResult
from rkllm_chat.prompt.compose import compose_prompt

model = pytest.mark.model
GREEDY = Generation(temperature=0, max_tokens=200)
GRAMMAR = build_call_grammar(TOOLS, "json")
CLOCK = "It is 07:49 on Saturday, 21 November 2026 in 東京 (Asia/Tokyo, UTC+09:00)."
LISTING = "notes.txt\nharbour.md\nphotos/\ntide-2026.csv\n東京.txt\nhouse.toml"


def make_result_talk(line: str, name: str, arguments: str, text: str) -> list[Message]:
    """A question, its call, and what came back."""
    call = f'[TOOL_CALL]\n{{"name": "{name}", "arguments": {arguments}}}\n[END_TOOL_CALL]'
    result = ToolResult("board", name, {}, "completed", text)
    return [Message("user", line), Message("assistant", call), Message("tool", text, result)]


COPY = make_result_talk("Which files are here?", "list_files", "{}", LISTING)
HOUR = make_result_talk("東京は今何時ですか？", "get_time", '{"place": "東京"}', CLOCK)
# of each, the likeliest token stands clear of the next: where two are as good as equal, rounding could decide
TALKS: dict[str, tuple[list[Message], CallGrammar | None]] = {
    "a call": ([Message("user", QUESTIONS[0])], GRAMMAR),
    "a call without grammar": ([Message("user", QUESTIONS[1])], None),
    "Hello!": ([Message("user", "Hello!")], GRAMMAR),
    "a long copy": (COPY, None),
    "a copy of tokens that are parts of characters": (HOUR, GRAMMAR),
}


@pytest.fixture(scope="module")
def pair(shipped_model: Path) -> Iterator[tuple[LlamaBackend, LlamaBackend]]:
    """One that drafts whenever it can, and one that never does."""
    drafting, plain = LlamaBackend(shipped_model, 0), LlamaBackend(shipped_model, 0)
    drafting.draft_timing, plain.uses_prompt_lookup = DraftTiming(retry_steps=0), False
    yield drafting, plain
    asyncio.run(drafting.aclose())
    asyncio.run(plain.aclose())


Counts = tuple[int, int, int, bool]


def write(
    backend: LlamaBackend,
    talk: Sequence[Message],
    wanted: Generation = GREEDY,
    grammar: CallGrammar | None = None,
    pieces: int = 10**6,
) -> tuple[list[str], Counts | None]:
    """The pieces of a reply and its counts; it is stopped behind so many pieces."""

    async def listen() -> tuple[list[str], Counts | None]:
        said: list[str] = []
        async with aclosing(backend.stream(compose_prompt(talk, TOOLS), wanted, (), grammar)) as items:
            async for item in items:
                if isinstance(item, Usage):
                    return said, (item.prompt_tokens, item.reused_tokens, item.generated_tokens, item.hit_limit)
                said += [item] if isinstance(item, str) else []
                if len(said) == pieces:
                    break
        return said, None

    return asyncio.run(listen())


def cached_tokens(backend: LlamaBackend) -> list[int]:
    """The tokens that the engine has evaluated."""
    engine = backend._engine  # noqa: SLF001 - a count of tokens alone would not show which they are
    return [int(token) for token in engine.input_ids[: engine.n_tokens]]


@pytest.mark.slow
@model
@pytest.mark.parametrize(("talk", "grammar"), TALKS.values(), ids=TALKS)
def test_drafts_change_neither_a_talk_nor_the_cache(
    pair: tuple[LlamaBackend, LlamaBackend], talk: list[Message], grammar: CallGrammar | None
) -> None:
    for backend in pair:
        write(backend, [Message("user", "Hello!")])
    for _ in range(2):
        ours, theirs = (write(backend, talk, grammar=grammar) for backend in pair)
        assert ours == theirs
        assert cached_tokens(pair[0]) == cached_tokens(pair[1])
        talk = [*talk, Message("assistant", "".join(ours[0])), Message("user", "What time is it in Berlin?")]


@model
def test_most_drafts_of_a_copy_are_accepted(pair: tuple[LlamaBackend, LlamaBackend]) -> None:
    drafting, plain = pair
    said, counts = write(drafting, COPY)
    assert write(plain, COPY)[0] == said
    assert "harbour.md\nphotos/" in "".join(said)
    assert drafting.lookup and counts
    assert drafting.lookup.accepted >= counts[2] / 2
    assert drafting.lookup.drafted <= 2 * drafting.lookup.accepted


@pytest.mark.slow
@model
def test_a_limit_within_a_draft_discards_the_rest(pair: tuple[LlamaBackend, LlamaBackend]) -> None:
    for backend in pair:
        write(backend, COPY)
    for limit in range(1, 40, 3):
        wanted = replace(GREEDY, max_tokens=limit)
        ours, theirs = (write(backend, COPY, wanted) for backend in pair)
        assert ours == theirs
        assert cached_tokens(pair[0]) == cached_tokens(pair[1])


@pytest.mark.slow
@model
def test_a_seed_gives_the_same_text_with_drafts(pair: tuple[LlamaBackend, LlamaBackend]) -> None:
    for backend in pair:
        write(backend, HOUR)
    for temperature, talk in ((0.3, HOUR), (1.0, HOUR[:1]), (2.0, HOUR)):
        wanted = Generation(temperature=temperature, seed=1, max_tokens=60, repeat_penalty=1.05)
        ours, theirs = (write(backend, talk, wanted, GRAMMAR) for backend in pair)
        assert ours == theirs


@model
@pytest.mark.parametrize("pieces", [1, 20])
def test_after_a_stop_only_written_tokens_are_cached(pair: tuple[LlamaBackend, LlamaBackend], pieces: int) -> None:
    drafting, plain = pair
    whole = write(plain, COPY)
    complete = cached_tokens(plain)
    said, _ = write(drafting, COPY, pieces=pieces)
    assert said == whole[0][:pieces]
    assert cached_tokens(drafting) == complete[: len(cached_tokens(drafting))]
    assert write(drafting, COPY)[0] == whole[0]


tokens = st.lists(st.integers(0, 3), max_size=60)


@given(tokens, tokens, st.integers(0, 20))
def test_a_draft_is_what_followed_the_last_occurrence(prompt: list[int], reply: list[int], room: int) -> None:
    lookup = PromptLookup()
    said = list(prompt)
    for token in [None, *reply]:
        said += [] if token is None else [token]
        draft = lookup.propose_draft(said, room)
        expected = next((found for size in NGRAM_SIZES if (found := last_place(said, size))), None)
        assert len(draft) <= min(room, MAX_DRAFT_TOKENS)
        assert draft == (said[expected : expected + len(draft)] if expected else [])
        assert bool(draft) == bool(expected and room)


def last_place(said: list[int], size: int) -> int | None:
    """The index behind the last place, the end apart, where the last `size` tokens stand."""
    places = range(len(said) - 1, size - 1, -1)
    return next((end for end in places if said[end - size : end] == said[-size:]), None) if len(said) > size else None


def test_accepted_tokens_lengthen_the_next_draft() -> None:
    lookup = PromptLookup()
    said = [*range(40), 0, 1]
    assert lookup.propose_draft(said, 99) == [2, 3, 4]
    said += [2, 3, 4, 5]
    assert lookup.propose_draft(said, 99) == [6, 7, 8, 9, 10, 11]
    said += [6, 7, 30]
    assert lookup.propose_draft(said, 99) == []
    assert (lookup.drafted, lookup.accepted) == (9, 5)


def test_drafts_that_cost_more_than_they_save_become_rare() -> None:
    dear, cheap = DraftTiming(retry_steps=5), DraftTiming(retry_steps=5)
    for _ in range(20):
        for pace, seconds in ((dear, 4.0), (cheap, 2.0)):
            assert pace.should_draft or pace is dear
            pace.record(True, 3, seconds)
            pace.record(False, 1, 1.0)
    tries = []
    for _ in range(4):
        tries.append(dear.should_draft)
        dear.record(False, 1, 1.0)
    assert tries == [False] * 4
    assert dear.should_draft and cheap.should_draft
