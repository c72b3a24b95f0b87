"""Recorded replies and special cases: the same events for every chunking, and those that are wanted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from calls.case import TOOLS, Case, comparable
from calls.cases import CASES
from calls.replies import REPLIES
from rkllm_chat.calls.formats import FORMATS, select_formats
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.core.events import CallFound, CallUnreadable, Text, Thought

SIZES = (1, 3, 7)
CUTS = 6


def scan(case: Case, pieces: list[str]) -> list[tuple[str, ...]]:
    """The events, as they are compared, of a reply that comes in these pieces."""
    scanner = Scanner(
        select_formats(case.format), is_known=TOOLS.__contains__, starts_in_thought=case.starts_in_thought
    )
    seen = [event for piece in pieces for event in scanner.feed(piece)]
    return comparable([*seen, *scanner.close()])


def chunkings(text: str, chance: random.Random) -> Iterator[list[str]]:
    """The text whole, in pieces of equal size, and in pieces of random sizes."""
    yield [text]
    for size in SIZES:
        yield [text[at : at + size] for at in range(0, len(text), size)]
    edges = sorted({0, len(text), *(chance.randrange(len(text) + 1) for _ in range(len(text) // 12 + 1))})
    yield [text[start:end] for start, end in pairwise(edges)]


def calls_in(seen: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Names and arguments of the calls, without their repairs."""
    return [event[1:3] for event in seen if event[0] == "CallFound"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_events_do_not_depend_on_chunking_and_a_truncated_reply_has_no_other_call(case: Case) -> None:
    wanted, chance = comparable(case.wanted), random.Random(case.name)
    for pieces in chunkings(case.text, chance):
        assert scan(case, pieces) == wanted, pieces
    for end in {chance.randrange(len(case.text)) for _ in range(CUTS)} if case.text else ():
        found = calls_in(scan(case, [case.text[:end]]))
        assert found == calls_in(wanted)[: len(found)], case.text[:end]


def scan_as(format_name: str, pieces: list[str]) -> list[object]:
    scanner = Scanner(select_formats(format_name), is_known=TOOLS.__contains__)
    return [*(event for piece in pieces for event in scanner.feed(piece)), *scanner.close()]


def arguments_in(events: list[object]) -> list[dict[str, str]]:
    """The arguments of the calls as texts: some formats know no other type."""
    calls = (event.call for event in events if isinstance(event, CallFound))
    return [{name: str(value) for name, value in call.arguments.items()} for call in calls if call.name == "get_tide"]


@pytest.mark.parametrize("format_name", REPLIES)
def test_a_reply_of_each_family_gives_its_calls_text_and_thoughts_wherever_it_is_split(format_name: str) -> None:
    row = REPLIES[format_name]
    wanted = [{name: str(value) for name, value in arguments.items()} for arguments in row.calls]
    for pieces in chunkings(row.first, random.Random(format_name)):
        events = scan_as(format_name, pieces)
        assert arguments_in(events) == wanted, pieces
        assert [event for event in events if isinstance(event, CallUnreadable)] == []
        assert "".join(event.text for event in events if isinstance(event, Text)).strip() == row.prose
        assert "".join(event.text for event in events if isinstance(event, Thought)).strip() == row.thought


@pytest.mark.parametrize("format_name", REPLIES)
def test_a_reply_of_each_family_that_is_cut_inside_a_value_is_truncated(format_name: str) -> None:
    row = REPLIES[format_name]
    whole = arguments_in(scan_as(format_name, [row.first]))
    for index, arguments in enumerate(row.calls):
        end = row.first.index(arguments["harbour"]) + 3
        *before, last = scan_as(format_name, [row.first[:end]])
        assert arguments_in(before) in (whole[:index], [])
        assert isinstance(last, CallUnreadable) and last.fault == "truncated"


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_marker_in_prose_is_text(format_name: str) -> None:
    row = FORMATS[format_name]
    for marker in {*row.openers, *row.closers} - {*row.control_tokens}:
        text = f"It writes {marker} first."
        assert comparable(scan_as(format_name, [text])) == [("Text", text)], marker


def test_the_cases_cover_every_format_and_fault() -> None:
    events = [event for case in CASES for event in case.wanted]
    faults = {event.fault for event in events if isinstance(event, CallUnreadable)}
    assert faults == {"bad_json", "bad_xml", "bad_python", "truncated", "call_in_thinking"}
    assert {*REPLIES} == {*FORMATS}
