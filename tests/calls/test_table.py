"""The table of cases is as large as it says, and holds what it says."""

from __future__ import annotations

from collections import Counter

from calls import CASES
from calls.case import REPAIRS, ROWS, TOOLS, Case, call, comparable, said, thought
from rkllm_chat.events import CallFound, CallGarbled

# Repairs that fewer than three formats can need, and why.
RARE: dict[str, str] = {}


def calls_of(case: Case) -> list[CallFound]:
    return [event for event in case.wanted if isinstance(event, CallFound)]


def test_the_table_is_as_large_as_promised() -> None:
    assert len(CASES) >= 340
    assert len([case for case in CASES if not calls_of(case)]) >= 80


def test_every_case_has_a_name_and_a_reply_of_its_own() -> None:
    names = Counter(case.name for case in CASES)
    replies = Counter((case.text, case.format, case.starts_in_thought) for case in CASES)
    assert [name for name, count in names.items() if count > 1] == []
    assert [reply for reply, count in replies.items() if count > 1] == []


def test_every_format_has_its_cases() -> None:
    counts = Counter(case.format for case in CASES)
    often = {"json", "xml", "hermes", "qwen3-coder", "llama3"}
    assert set(counts) == {*ROWS, ""}
    assert {name: counts[name] for name in ROWS if counts[name] < (8 if name in often else 5)} == {}


def test_every_repair_is_needed_in_three_formats_or_says_why_not() -> None:
    formats = {(repair, case.format) for case in CASES for event in calls_of(case) for repair in event.call.repairs}
    counts = Counter(repair for repair, _ in formats)
    assert set(counts) == set(REPAIRS)
    assert {repair for repair in REPAIRS if counts[repair] < 3} == set(RARE)


def test_every_fault_and_kind_of_event_is_wanted_somewhere() -> None:
    faults = {event.fault for case in CASES for event in case.wanted if isinstance(event, CallGarbled)}
    assert faults == {"bad_json", "bad_xml", "bad_python", "truncated", "call_in_thinking"}
    assert {type(event).__name__ for case in CASES for event in case.wanted} == {
        *("Text", "Thought", "CallFound", "CallGarbled")
    }


def test_what_is_wanted_is_written_as_it_is_compared() -> None:
    for case in CASES:
        assert len(comparable(case.wanted)) == len(case.wanted), case.name
        for event in case.wanted:
            if isinstance(event, CallFound):
                assert event.call.name in TOOLS | {"book_flight"}, case.name
                assert event.call.name in case.text, case.name


def test_every_text_that_is_wanted_stands_in_the_reply() -> None:
    cleaned = {"unknown model: a token in the middle is not shown"}
    for case in CASES:
        texts = [seen[1] for seen in comparable(case.wanted) if seen[0] in ("Text", "Thought")]
        assert case.name in cleaned or all(text in case.text for text in texts), case.name


def test_events_are_compared_by_what_counts() -> None:
    one = call("f", "comment", "fence", x=1)
    assert comparable([said(" a"), said("b\n"), thought(" \n"), one]) == [
        ("Text", "ab"),
        ("CallFound", "f", '{"x": 1}', "comment", "fence"),
    ]
    assert comparable([one]) == comparable([call("f", "fence", "comment", "fence", x=1)])
    assert comparable([one]) != comparable([call("f", "fence", "comment", x=True)])
    assert comparable([said("a"), thought("b"), said("c")]) == [("Text", "a"), ("Thought", "b"), ("Text", "c")]
