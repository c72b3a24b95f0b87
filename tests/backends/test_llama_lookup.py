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
from rkllm_chat.backends.llama import Llama
from rkllm_chat.backends.llama_lookup import LONGEST, SIZES, Lookup, Pace
from rkllm_chat.config import Generation
from rkllm_chat.events import Usage
from rkllm_chat.grammar import CallGrammar, call_grammar
from rkllm_chat.messages import Message, ToolResult
from rkllm_chat.prompt import compose

model = pytest.mark.model
GREEDY = Generation(temperature=0, max_tokens=200)
GRAMMAR = call_grammar(TOOLS, "json")
CLOCK = "It is 07:49 on Saturday, 21 November 2026 in 東京 (Asia/Tokyo, UTC+09:00)."
LISTING = "notes.txt\nharbour.md\nphotos/\ntide-2026.csv\n東京.txt\nhouse.toml"


def called(line: str, name: str, arguments: str, text: str) -> list[Message]:
    """A question, its call, and what came back."""
    call = f'[TOOL_CALL]\n{{"name": "{name}", "arguments": {arguments}}}\n[END_TOOL_CALL]'
    result = ToolResult("board", name, {}, "completed", text)
    return [Message("user", line), Message("assistant", call), Message("tool", text, result)]


COPY = called("Which files are here?", "list_files", "{}", LISTING)
HOUR = called("東京は今何時ですか？", "get_time", '{"place": "東京"}', CLOCK)
# of each, the likeliest token stands clear of the next: where two are as good as equal, rounding could decide
TALKS = {
    **{line: [Message("user", line)] for line in (*QUESTIONS, "東京は今何時ですか？", "Hello!")},
    "a long copy": COPY,
    "a copy of tokens that are parts of characters": HOUR,
}


@pytest.fixture(scope="module")
def pair(shipped_model: Path) -> Iterator[tuple[Llama, Llama]]:
    """One that drafts whenever it can, and one that never does."""
    drafting, plain = Llama(shipped_model, 0), Llama(shipped_model, 0)
    drafting.pace, plain.looks_up = Pace(rest=0), False
    yield drafting, plain
    asyncio.run(drafting.aclose())
    asyncio.run(plain.aclose())


Counts = tuple[int, int, int, bool]


def write(
    backend: Llama,
    talk: Sequence[Message],
    wanted: Generation = GREEDY,
    grammar: CallGrammar | None = None,
    pieces: int = 10**6,
) -> tuple[list[str], Counts | None]:
    """The pieces of a reply and its counts; it is stopped behind so many pieces."""

    async def listen() -> tuple[list[str], Counts | None]:
        said: list[str] = []
        async with aclosing(backend.stream(compose(talk, TOOLS), wanted, (), grammar)) as items:
            async for item in items:
                if isinstance(item, Usage):
                    return said, (item.prompt_tokens, item.reused_tokens, item.generated_tokens, item.hit_limit)
                said += [item] if isinstance(item, str) else []
                if len(said) == pieces:
                    break
        return said, None

    return asyncio.run(listen())


def held(backend: Llama) -> list[int]:
    """The tokens that the engine has evaluated."""
    engine = backend._engine  # noqa: SLF001 - a count of tokens alone would not show which they are
    return [int(token) for token in engine.input_ids[: engine.n_tokens]]


@model
@pytest.mark.parametrize("grammar", [None, GRAMMAR], ids=["free", "grammar"])
@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
def test_a_talk_is_the_same_with_drafts_and_so_is_the_cache(
    pair: tuple[Llama, Llama], talk: list[Message], grammar: CallGrammar | None
) -> None:
    for backend in pair:
        write(backend, [Message("user", "Hello!")])
    for _ in range(2):
        ours, theirs = (write(backend, talk, grammar=grammar) for backend in pair)
        assert ours == theirs
        assert held(pair[0]) == held(pair[1])
        talk = [*talk, Message("assistant", "".join(ours[0])), Message("user", "What time is it in Berlin?")]


@model
def test_a_copy_is_drafted_and_most_of_it_accepted(pair: tuple[Llama, Llama]) -> None:
    drafting, plain = pair
    said, counts = write(drafting, COPY)
    assert write(plain, COPY)[0] == said
    assert "harbour.md\nphotos/" in "".join(said)
    assert drafting.lookup and counts
    assert drafting.lookup.accepted >= counts[2] / 2
    assert drafting.lookup.drafted <= 2 * drafting.lookup.accepted


@model
def test_a_limit_anywhere_in_a_draft_keeps_nothing_behind_it(pair: tuple[Llama, Llama]) -> None:
    for backend in pair:
        write(backend, COPY)
    for limit in range(1, 40):
        wanted = replace(GREEDY, max_tokens=limit)
        ours, theirs = (write(backend, COPY, wanted) for backend in pair)
        assert ours == theirs
        assert held(pair[0]) == held(pair[1])


@model
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_a_seed_gives_the_same_text_with_drafts(pair: tuple[Llama, Llama], temperature: float) -> None:
    for backend in pair:
        write(backend, HOUR)
    for talk in (HOUR[:1], HOUR):
        for seed in range(4):
            wanted = Generation(temperature=temperature, seed=seed, max_tokens=60, repeat_penalty=1.05)
            ours, theirs = (write(backend, talk, wanted, GRAMMAR) for backend in pair)
            assert ours == theirs


@model
@pytest.mark.parametrize("pieces", [1, 7, 20])
def test_after_a_stop_only_what_was_written_is_held(pair: tuple[Llama, Llama], pieces: int) -> None:
    drafting, plain = pair
    whole = write(plain, COPY)
    complete = held(plain)
    said, _ = write(drafting, COPY, pieces=pieces)
    assert said == whole[0][:pieces]
    assert held(drafting) == complete[: len(held(drafting))]
    assert write(drafting, COPY)[0] == whole[0]


tokens = st.lists(st.integers(0, 3), max_size=60)


@given(tokens, tokens, st.integers(0, 20))
def test_a_draft_is_what_followed_the_last_time(prompt: list[int], reply: list[int], room: int) -> None:
    lookup = Lookup()
    said = list(prompt)
    for token in [None, *reply]:
        said += [] if token is None else [token]
        draft = lookup.draft(said, room)
        expected = next((found for size in SIZES if (found := last_place(said, size))), None)
        assert len(draft) <= min(room, LONGEST)
        assert draft == (said[expected : expected + len(draft)] if expected else [])
        assert bool(draft) == bool(expected and room)


def last_place(said: list[int], size: int) -> int | None:
    """The index behind the last place, the end apart, where the last `size` tokens stand."""
    places = range(len(said) - 1, size - 1, -1)
    return next((end for end in places if said[end - size : end] == said[-size:]), None) if len(said) > size else None


def test_what_was_right_is_counted_and_makes_the_next_draft_longer() -> None:
    lookup = Lookup()
    said = [*range(40), 0, 1]
    assert lookup.draft(said, 99) == [2, 3, 4]
    said += [2, 3, 4, 5]
    assert lookup.draft(said, 99) == [6, 7, 8, 9, 10, 11]
    said += [6, 7, 30]
    assert lookup.draft(said, 99) == []
    assert (lookup.drafted, lookup.accepted) == (9, 5)


def test_where_a_draft_costs_more_than_it_brings_it_is_tried_seldom() -> None:
    dear, cheap = Pace(rest=5), Pace(rest=5)
    for _ in range(20):
        for pace, seconds in ((dear, 4.0), (cheap, 2.0)):
            assert pace.is_worth_a_draft or pace is dear
            pace.note(True, 3, seconds)
            pace.note(False, 1, 1.0)
    tries = []
    for _ in range(4):
        tries.append(dear.is_worth_a_draft)
        dear.note(False, 1, 1.0)
    assert tries == [False] * 4
    assert dear.is_worth_a_draft and cheap.is_worth_a_draft
