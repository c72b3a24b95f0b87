"""Every case of the table: the same events for every chunking, and those that are wanted."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from calls import CASES
from calls.case import TOOLS, Case, comparable
from rkllm_chat.events import CallFound
from rkllm_chat.formats import formats_for
from rkllm_chat.scanner import Scanner

SIZES = (1, 2, 3, 4, 7)
SEEDS = (1, 2, 3)
CUTS = 12
WITH_CALLS = [case for case in CASES if any(isinstance(event, CallFound) for event in case.wanted)]


def scan(case: Case, pieces: list[str]) -> list[tuple[str, ...]]:
    """What is seen, as it is compared, of a reply that comes in these pieces."""
    scanner = Scanner(formats_for(case.format), is_known=TOOLS.__contains__, starts_in_thought=case.starts_in_thought)
    seen = [event for piece in pieces for event in scanner.feed(piece)]
    return comparable([*seen, *scanner.close()])


def chunkings(text: str) -> Iterator[tuple[str, list[str]]]:
    """The text whole, in pieces of equal size, and in pieces of random sizes; each with its description."""
    yield "whole", [text]
    for size in SIZES:
        yield f"by {size}", [text[at : at + size] for at in range(0, len(text), size)]
    for seed in SEEDS:
        yield f"at random, seed {seed}", list(cut_at_random(text, random.Random(seed)))


def cut_at_random(text: str, chance: random.Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = chance.randint(1, 24)
        yield text[at : at + size]
        at += size


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reply_gives_what_is_wanted_in_whatever_pieces(case: Case) -> None:
    wanted = comparable(case.wanted)
    for how, pieces in chunkings(case.text):
        assert "".join(pieces) == case.text
        assert scan(case, pieces) == wanted, how


def calls_in(seen: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Names and arguments of the calls, without what was mended."""
    return [event[1:3] for event in seen if event[0] == "CallFound"]


@pytest.mark.parametrize("case", WITH_CALLS, ids=lambda case: case.name)
def test_a_reply_that_is_cut_has_the_first_of_its_calls_or_none(case: Case) -> None:
    wanted = calls_in(comparable(case.wanted))
    chance = random.Random(case.name)
    for end in sorted(chance.randrange(len(case.text)) for _ in range(CUTS)):
        found = calls_in(scan(case, [case.text[:end]]))
        assert found == wanted[: len(found)], case.text[:end]
