"""Where a call may begin: with a marker or without, alone or behind prose, one or several, whole or almost."""

from __future__ import annotations

from itertools import groupby, product

import pytest

from calls.ordinary_answers import ANSWERS, CALL, NOW, TOOLS
from rkllm_chat.calls.model_families import FAMILIES, UNKNOWN, make_scanner
from rkllm_chat.core.events import CallDescribed, CallFound, CallUnreadable, Text

ROWS = (
    "unknown",
    "qwen2.5",
    "qwen3",
    "qwen3.5",
    "llama3",
    "gemma",
    "phi4",
    "minicpm5",
    "internlm2",
    "deepseek-r1",
    "smollm3",
    "mistral",
    "glm4.5",
    "granite",
    "lfm2",
    "gpt-oss",
)
SIZES = (1, 3, 10_000)
OTHER = '{"name": "tell_joke", "arguments": {"about": "ducks"}}'
Found = tuple[object, ...]
PARIS: Found = ("get_time", {"place": "Paris"})
CLOCK: Found = ("now", {})


def fenced(*lines: str, language: str = "json") -> str:
    return "\n".join((f"```{language}", *lines, "```"))


def read(reply: str, row: str = "qwen2.5", writes_unmarked: bool = False, is_complete: bool = True) -> list[Found]:
    """What is found in a reply besides its text, the same in whatever pieces it comes."""
    family = FAMILIES.get(row, UNKNOWN)
    readings: list[list[Found]] = []
    for size in SIZES:
        scanner = make_scanner(family.preferred_format, family.accepted_formats, TOOLS, writes_unmarked=writes_unmarked)
        events = [event for at in range(0, len(reply), size) for event in scanner.feed(reply[at : at + size])]
        readings.append(list(map(of_event, [*events, *scanner.close(is_complete)])))
    first, *others = ([found for found, _ in groupby(reading) if found != ("Text",)] for reading in readings)
    assert others == [first] * len(others), reply
    return first


def of_event(event: object) -> Found:
    match event:
        case CallFound(call):
            return (call.name, dict(call.arguments))
        case CallDescribed(call):
            return ("described", call.name)
        case CallUnreadable(fault):
            return (fault,)
        case _:
            return (type(event).__name__,)


@pytest.mark.parametrize(
    ("reply", "calls"),
    {
        CALL: [PARIS],
        f"\n  {CALL}\n": [PARIS],
        f"[{CALL}, {NOW}]": [PARIS, CLOCK],
        f"{CALL}\n{NOW}": [PARIS, CLOCK],
        f"{CALL}, {NOW}": [PARIS, CLOCK],
        f"{CALL};{NOW}": [PARIS, CLOCK],
        f"{CALL}\n</tool_call>": [PARIS],
        f"{CALL}[END_TOOL_CALL]": [PARIS],
        f"{CALL}\n</tool_call>\n{NOW}\n</tool_call>": [PARIS, CLOCK],
        fenced(CALL): [PARIS],
        fenced(CALL, NOW): [PARIS, CLOCK],
        fenced(f"{CALL},", NOW): [PARIS, CLOCK],
        f"{fenced(CALL)}\n\n{fenced(NOW, language='')}": [PARIS, CLOCK],
        f"{fenced(CALL)}\n</tool_call>": [PARIS],
        f"[TOOL_CALL]\n{CALL},\n{NOW}\n[END_TOOL_CALL]": [PARIS, CLOCK],
        f"<tool_call>\n{CALL}\n{NOW}\n</tool_call>": [PARIS, CLOCK],
        f"<tool_call>\n[{CALL}, {NOW}]\n</tool_call>": [PARIS, CLOCK],
        f"One moment.\n<tool_call>\n{CALL}\n</tool_call>": [PARIS],
        f"One moment.<tool_call>\n{CALL}\n</tool_call>": [PARIS],
    }.items(),
    ids=repr,
)
@pytest.mark.parametrize("row", ["unknown", "qwen2.5", "llama3", "gemma"])
def test_a_call_may_have_no_marker_and_several_may_stand_together(reply: str, calls: list[Found], row: str) -> None:
    assert read(reply, row) == calls


@pytest.mark.parametrize("call", [CALL, fenced(CALL), fenced(CALL, language=""), f"{CALL}\n</tool_call>"])
def test_behind_prose_an_unmarked_call_that_ends_the_reply_is_one_in_families_that_write_such(call: str) -> None:
    reply = f"To get the time in Paris, I use a tool:\n\n{call}"
    assert read(reply, writes_unmarked=True) == [PARIS]
    assert read(f"{reply}\n{fenced(NOW)}", writes_unmarked=True) == [PARIS, CLOCK]
    assert read(reply) == [("described", "get_time")]
    assert read(f"{reply}\nThis tells the time.", writes_unmarked=True) == [("described", "get_time")]


@pytest.mark.parametrize("call", [CALL, f"```json\n{CALL}", f"[TOOL_CALL]\n{CALL}", f"<tool_call>{CALL}"])
def test_one_missing_last_brace_is_added_where_the_model_ended_the_reply(call: str) -> None:
    reply = call.replace('"}}', '"}')
    assert read(reply) == [PARIS]
    assert read(reply, is_complete=False) == [("truncated",)]
    assert read(call.replace('"}}', '"')) == read(call[: call.index("ris")]) == [("truncated",)]


def test_an_end_marker_or_the_end_of_a_fence_ends_a_call_that_lacks_its_last_brace() -> None:
    for reply in (fenced(CALL), f"{CALL}</tool_call>", f"[TOOL_CALL]{CALL}[END_TOOL_CALL]"):
        assert read(reply.replace('"}}', '"}'), is_complete=False) == [PARIS]


def test_a_reply_that_only_calls_an_unknown_tool_or_names_one_is_reported() -> None:
    unknown = ("tell_joke", {"about": "ducks"})
    assert [read(reply) for reply in (OTHER, fenced(OTHER), f"{CALL}\n{OTHER}")] == [
        [unknown],
        [unknown],
        [PARIS, unknown],
    ]
    assert read(OTHER.replace("tell_joke", "Simpson's joke")) == [("Simpson's joke", unknown[1])]
    assert read(f"{OTHER}\nis no call.") == [] == read(f"This is none:\n{OTHER}", writes_unmarked=True)
    assert [read(reply) for reply in ("get_time", "`get_time`", "get_time()\n", "get_time.")] == [[("bare_name",)]] * 4
    assert read("now()") == [CLOCK]
    assert [read(reply) for reply in ("now", "search", "get_times", "get_time is a tool", "get")] == [[]] * 5


def test_what_a_reply_shows_is_described_at_its_end_at_most_three_times() -> None:
    shown = [f"- `{CALL.replace('Paris', place)}`" for place in ("Oslo", "Oslo", "Rome", "Lima", "Cairo")]
    assert read("\n".join(("For example:", *shown, f"- {OTHER}"))) == [("described", "get_time")]
    family = FAMILIES["qwen2.5"]
    scanner = make_scanner(family.preferred_format, family.accepted_formats, TOOLS)
    events = [*scanner.feed("For example:\n" + "\n".join(shown)), *scanner.close()]
    described = [event for event in events if isinstance(event, CallDescribed)]
    assert [event.call.arguments["place"] for event in described] == ["Oslo", "Rome", "Lima"]
    assert described[0].raw == CALL.replace("Paris", "Oslo")


FILE = (
    "<tool_call>\n<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n<parameter=content>\nhi\n{}</function>\n"
    "</tool_call>"
)
WRITTEN: Found = ("write_file", {"path": "a.txt", "content": "hi"})
TIME = "\n<tool_call>\n<function=get_time>\n<parameter=place>\nParis\n</parameter>\n</function>\n</tool_call>"


def test_a_missing_end_tag_of_a_value_costs_no_call_where_one_meaning_is_left() -> None:
    whole, damaged = FILE.format("</parameter>\n"), FILE.format("")
    for reply in (whole, damaged):
        assert read(reply, "qwen3.5") == [WRITTEN]
        assert read(f"{reply}{TIME}\nDone.", "qwen3.5", is_complete=False) == [WRITTEN, PARIS]
    assert read(damaged, "qwen3.5", is_complete=False) == [("truncated",)]
    assert read(f"{damaged} is how it ends.", "qwen3.5") == [("truncated",)]


def shown(reply: str) -> str:
    scanner = make_scanner("hermes", ("hermes",), TOOLS)
    events = [*scanner.feed(reply), *scanner.close(True)]
    return "".join(event.text for event in events if isinstance(event, Text)).strip()


@pytest.mark.parametrize("end", ["</assistant>", "</response>", "<sep>", "<SPECIAL_12>", "<end_of_sentence>", "</s>"])
def test_tokens_that_models_leave_at_the_edges_of_a_reply_are_not_shown(end: str) -> None:
    assert shown(f"</think>\n\nIt is noon.{end}\n") == "It is noon."
    assert shown(f"Write {end} or </think> there.") == f"Write {end} or </think> there."
    assert read(f"<tool_call>\n<tool_call>\n{CALL}\n</tool_call>{end}") == [PARIS]
    assert shown(f"<tool_call>\n<tool_call>\n{CALL}\n</tool_call>{end}") == ""


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("**[TOOL_CALL]**\n", "\n**[END_TOOL_CALL]**"),
        ("[TOOL CALL]\n", ""),
        ("[tool_call]\n", "\n[/tool_call]"),
        ("【TOOL_CALL】", "【END_TOOL_CALL】"),
        ("\\[TOOL_CALL\\]\n", "\n\\[END_TOOL_CALL\\]"),
        ("<tools>\n", "\n</tools>"),
    ],
)
def test_a_call_behind_something_like_a_marker_is_told_back(before: str, behind: str) -> None:
    assert read(f"One moment.\n{before}{CALL}{behind}") == [("bad_json",)]
    assert read(f"One moment.\n{before}{OTHER}{behind}") == []
    assert read(f"It writes:\n```\n{before}{CALL}{behind}\n```\nand waits.") == [("described", "get_time")]


@pytest.mark.parametrize("row", ROWS)
def test_an_ordinary_answer_contains_no_call_and_is_shown_whole(row: str) -> None:
    family = FAMILIES.get(row, UNKNOWN)
    for name, answer in ANSWERS.items():
        for unmarked, size in product((False, True), SIZES if row == "qwen2.5" else SIZES[-1:]):
            scanner = make_scanner(family.preferred_format, family.accepted_formats, TOOLS, writes_unmarked=unmarked)
            pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
            events = [*(event for piece in pieces for event in scanner.feed(piece)), *scanner.close(True)]
            assert [event for event in events if not isinstance(event, CallDescribed | Text)] == [], name
            shown = "".join(event.text for event in events if isinstance(event, Text))
            assert shown.strip() == answer.strip(), name
