"""What the scanner finds in a reply, exactly: white space, raw text, details of faults, limits and costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calls.replies import KINDS
from fuzzing import examples
from rkllm_chat.calls.formats import (
    COMMON_FORMATS,
    CONTROL_TOKENS,
    FORMATS,
    TURN_OPENERS,
    ReadContext,
    read_wrapped,
    select_formats,
)
from rkllm_chat.calls.incremental_reader import MAX_CALL_LENGTH, Reader
from rkllm_chat.calls.json_repair import MAX_DEPTH
from rkllm_chat.calls.literals import Markers
from rkllm_chat.calls.python_parser import MAX_LENGTH
from rkllm_chat.calls.scanner import InventedResult, Scanner, ScannerEvent
from rkllm_chat.core.events import CallDescribed, CallFound, CallUnreadable, Text, TextWasThought, Thought
from rkllm_chat.core.messages import ToolCall
from stage import join_texts

OPENERS = ["<think>", *(opener for call_format in select_formats("", COMMON_FORMATS) for opener in call_format.openers)]

light = settings(max_examples=examples(80))

BODY = '{"name": "get_tide", "arguments": {"harbour": "Husum"}}'
JSON = f"[TOOL_CALL]\n{BODY}\n[END_TOOL_CALL]"
XML = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
TIDE = ToolCall("get_tide", {"harbour": "Husum"})
FOUND = CallFound(TIDE)
NO_END = CallFound(replace(TIDE, repairs=("missing end marker",)))
BARE = JSON.removesuffix("[END_TOOL_CALL]")


def scan(*pieces: str) -> list[ScannerEvent]:
    """The events of a reply that comes in these pieces, neighbouring texts and thoughts joined."""
    scanner = Scanner()
    return join_texts([event for piece in pieces for event in scanner.feed(piece)] + scanner.close())


def scan_as(format_name: str, reply: str) -> list[ScannerEvent]:
    """The events of a whole reply by a model that is asked for this form, and knows a tool `f`."""
    scanner = Scanner(select_formats(format_name), is_known="f".__eq__)
    return scanner.feed(reply) + scanner.close()


def as_json(body: str) -> str:
    return f"[TOOL_CALL]{body}[END_TOOL_CALL]"


def as_xml(inside: str) -> str:
    return f'<tool_call name="f">{inside}</tool_call>'


def call(name: str, **arguments: object) -> CallFound:
    return CallFound(ToolCall(name, arguments))


CASES: dict[str, tuple[str, list[ScannerEvent]]] = {
    "two calls and text": (f"a\n{JSON}\nb{XML}c", [Text("a\n"), FOUND, Text("\nb"), FOUND, Text("c")]),
    "no end marker before text": (BARE + "Done.", [NO_END, Text("Done.")]),
    "JSON in a <tool_call>": (f"<tool_call>\n{BODY}\n</tool_call> Yes.", [FOUND, Text(" Yes.")]),
    "attributes over lines": ('<tool_call\n  id=\'1\' name = "f" x="y"\n>\n</tool_call>', [call("f")]),
    "newlines around an XML value": (as_xml('<argument name="a">\n x\ny \n</argument>'), [call("f", a=" x\ny ")]),
    "end tags in CDATA": (
        as_xml('<argument name="a"><![CDATA[<b> &lt; ]] ></argument></tool_call>]]></argument>'),
        [call("f", a="<b> &lt; ]] ></argument></tool_call>")],
    ),
    "JSON markers in an XML value": (as_xml(f'<argument name="a">{JSON}</argument>'), [call("f", a=JSON)]),
    "calls in a thought": (f"<think>{JSON}{XML}</think>\n{XML}", [Thought(JSON + XML), Text("\n"), FOUND]),
    "a thought that only ends": ("Hm.</think>\nYes.", [Text("Hm."), TextWasThought(), Text("\nYes.")]),
    "a thought that only ends, on a line": (
        "I call it.\n</thinking>\n\n" + JSON,
        [Text("I call it.\n"), TextWasThought(), Text("\n\n"), FOUND],
    ),
    "another tag for thoughts": (f"<thinking>{JSON}</thinking>Yes.", [Thought(JSON), Text("Yes.")]),
    "tags for thoughts in an answer": (said := "Use <think> tags: <think>why</think> comes first.", [Text(said)]),
    "an end of a thought in an answer": (ends := "Its end is </think> or (</think>).", [Text(ends)]),
    "a call that one reading was sure of": (sure := "```json\n<|tool_call|>{so<tool_call>", [Text(sure)]),
    "struck-out text": ("<s>a</s> b</s>\n", [Text("<s>a</s> b")]),
    "comments with brackets and an end marker": (
        as_json('{"name": "get_tide", // } [END_TOOL_CALL]\n/* ] */ "arguments": {"harbour": "Husum"}}'),
        [CallFound(replace(TIDE, repairs=("comment",)))],
    ),
    "an end token in the middle": ("a<eos>b<eos>\n", [Text("a<eos>b")]),
    "a quoted line": (f"> {as_xml('')}\n{as_xml('')}", [Text(f"> {as_xml('')}\n"), call("f")]),
}

PROSE = [
    "[TOOL_CALL] \n",
    "[[TOOL_CALL]]",
    "[TOOL\u200b_CALL]{}",
    "<tool_calls name='f'>",
    "<tool_call name",
    "<tool_call id='1'></tool_call>",
    "<tool_call name=''></tool_call>",
    "<tool_call name='" + "x" * 300,
    "1 < 2, [1, 2] and <thi",
]

# What stands between the markers -> a part of the detail.
BAD_JSON = {
    '{"arguments": {}}': "'name'",
    '{"name": 3}': "name of a tool",
    '{"name": "f", "arguments": []}': "not an object",
    '{"name": "f", "arguments": "[1]"}': "not an object",
    '{"name": "f", "arguments": {"a": 1, "a": 2}}': '"a" occurs twice',
    '{"name": "f\n': "not closed",
    '{"name": f}': "line 1, column 10",
    '{"a": {"b": {': "line 1, column 14",
}
BAD_XML = {
    "Husum": "<argument",
    "<location>Husum</location>": "<argument",
    "<argument>1</argument>": "no name",
    "<argument name='a'>1</argument><argument name='a'>2</argument>": '"a" occurs twice',
}


def cut_in_two(reply: str) -> Iterator[tuple[str, ...]]:
    """The reply in single characters, and in two pieces cut at each place."""
    yield tuple(reply)
    yield from ((reply[:at], reply[at:]) for at in range(len(reply)))


@pytest.mark.parametrize(("reply", "events"), CASES.values(), ids=CASES)
def test_a_reply_gives_its_events_wherever_it_is_split(reply: str, events: list[ScannerEvent]) -> None:
    for pieces in cut_in_two(reply):
        assert scan(*pieces) == events, pieces


def test_prose_about_markers_stays_text_wherever_it_is_split() -> None:
    for text in PROSE:
        for pieces in cut_in_two(text):
            assert scan(*pieces) == [Text(text)], pieces


@pytest.mark.parametrize("body", BAD_JSON)
def test_broken_json_is_reported_with_its_raw_text_and_scanning_goes_on(body: str) -> None:
    for pieces in [(as_json(body), " x", JSON), tuple(as_json(body) + " x" + JSON)]:
        unreadable, *rest = scan(*pieces)
        assert isinstance(unreadable, CallUnreadable)
        assert (unreadable.fault, unreadable.raw) == ("bad_json", as_json(body))
        assert BAD_JSON[body] in unreadable.detail
        assert rest == [Text(" x"), FOUND]


@pytest.mark.parametrize("inside", BAD_XML)
def test_broken_tags_are_reported_with_their_raw_text_and_scanning_goes_on(inside: str) -> None:
    for pieces in [(as_xml(inside), JSON), tuple(as_xml(inside) + JSON)]:
        unreadable, *rest = scan(*pieces)
        assert isinstance(unreadable, CallUnreadable)
        assert (unreadable.fault, unreadable.raw) == ("bad_xml", as_xml(inside))
        assert BAD_XML[inside] in unreadable.detail
        assert rest == [FOUND]


def test_a_call_that_begins_inside_another_one_ends_that_one() -> None:
    unfinished = '[TOOL_CALL]{"name": "f", '
    unreadable, *rest = scan(unfinished + JSON)
    assert isinstance(unreadable, CallUnreadable)
    assert (unreadable.fault, unreadable.raw, rest) == ("bad_json", unfinished, [FOUND])


def test_a_thought_without_end_reports_the_call_in_it() -> None:
    thought, unreadable = scan(f"<think>{JSON} Hm")
    assert thought == Thought(f"{JSON} Hm")
    assert isinstance(unreadable, CallUnreadable)
    assert (unreadable.fault, unreadable.raw) == ("call_in_thinking", "")


@pytest.mark.parametrize("marker", ["<think>", "<think></think>", "<think>\n<think>x</think>"])
def test_thoughts_are_nested_to_any_depth(marker: str) -> None:
    assert not [event for event in scan(marker * 5000) if not isinstance(event, Text | Thought)]
    unreadable = scan(marker * 5000 + "<think>" + JSON)[-1]
    assert isinstance(unreadable, CallUnreadable) and unreadable.fault == "call_in_thinking"


# --- truncated replies ---


@pytest.mark.parametrize(
    ("reply", "whole"),
    [
        (JSON, TIDE),
        (
            as_json('{"name": "f", "arguments": {"a": {"b": "}} [END_TOOL_CALL]"}, "c": 1}}'),
            ToolCall("f", {"a": {"b": "}} [END_TOOL_CALL]"}, "c": 1}),
        ),
    ],
    ids=["plain", "with markers inside"],
)
def test_a_json_call_cut_anywhere_is_the_whole_call_or_none(reply: str, whole: ToolCall) -> None:
    balanced = reply.rindex("}") + 1
    for end in range(len(reply)):
        calls = [event for event in scan(reply[:end]) if isinstance(event, CallFound)]
        repaired = CallFound(replace(whole, repairs=("missing end marker",)))
        assert calls == ([repaired] if end >= balanced else []), reply[:end]
    assert scan(reply) == [CallFound(whole)]


@pytest.mark.parametrize(
    "inside",
    [
        '<argument name="a">x</argument> y</argument><argument name="b">2</argument>',
        '<argument name="a">&lt;/argument&gt;&lt;/tool_call&gt;</argument>',
        '<argument name="a"><![CDATA[x</argument></tool_call>y]]></argument>',
    ],
    ids=["end tag inside", "entities", "CDATA"],
)
def test_an_xml_call_cut_anywhere_is_no_call(inside: str) -> None:
    reply = as_xml(inside)
    for end in range(len(reply)):
        assert [event for event in scan(reply[:end]) if isinstance(event, CallFound)] == [], reply[:end]
    assert isinstance(scan(reply)[0], CallFound)


def test_a_call_cut_off_behind_its_opener_is_reported_as_truncated() -> None:
    for reply in (JSON[:13], XML[:24], '[TOOL_CALL]{"a": "[END_TOOL_CALL]'):
        (unreadable,) = scan(reply)
        assert isinstance(unreadable, CallUnreadable)
        assert (unreadable.fault, unreadable.raw) == ("truncated", reply)


# --- streaming ---


def test_text_is_held_back_only_while_it_may_be_a_marker() -> None:
    for marker in OPENERS:
        for end in range(1, len(marker)):
            scanner = Scanner(select_formats("", COMMON_FORMATS))
            assert scanner.feed("Look: " + marker[:end]) == [Text("Look: ")]
            assert "".join(event.text for event in scanner.feed("é") if isinstance(event, Text)) == marker[:end] + "é"


def test_data_in_json_is_held_back_only_while_it_may_be_a_call() -> None:
    for begin, end in (('{"name": "', 'Anna"'), ('{"name": ', "5"), ("[", "1"), ("{", "x | x")):
        scanner = Scanner(select_formats("llama3"), is_known="get_tide".__eq__)
        assert scanner.feed(begin) == []
        assert scanner.feed(f"{end}: ") == [Text(f"{begin}{end}: ")]


def test_a_thought_is_held_back_only_while_it_may_end() -> None:
    scanner = Scanner()
    assert scanner.feed("<think>Hm.</thin") == [Thought("Hm.")]
    assert scanner.feed("g") == [Thought("</thing")]
    assert scanner.feed("</think>" + "Yes.") == [Text("Yes.")]


def test_a_call_is_found_with_its_last_character() -> None:
    for reply in (JSON, XML):
        scanner = Scanner()
        assert scanner.feed("a" + reply[:-1]) == [Text("a")]
        assert scanner.feed(reply[-1]) == [FOUND]


def test_kept_counts_the_reply_up_to_its_last_call_or_word() -> None:
    for reply in (f"Look. \n\n{JSON}\nDone.", JSON, "<think>Hm.", ""):
        for pieces in ([f"{reply} \n"], [*reply, " ", "\n"]):
            scanner = Scanner()
            for piece in pieces:
                scanner.feed(piece)
            scanner.close()
            assert f"{reply} \n"[: scanner.retained_length].rstrip() == reply, pieces
    scanner = Scanner()
    assert isinstance(scanner.feed(f"{JSON}<tool_response>")[-1], InventedResult)
    assert scanner.retained_length == len(JSON)


# --- limits ---


def nested(levels: int) -> str:
    """A call whose JSON is nested this deep; the object and its arguments are two levels."""
    return as_json('{"name": "f", "arguments": {"a": ' + "[" * (levels - 2) + "]" * (levels - 2) + "}}")


def test_json_nested_too_deep_is_too_large() -> None:
    assert isinstance(scan(nested(MAX_DEPTH))[0], CallFound)
    first, *rest = scan(nested(MAX_DEPTH + 1), JSON)
    assert isinstance(first, CallUnreadable)
    assert first.fault == "too_large" and str(MAX_DEPTH) in first.detail
    assert nested(MAX_DEPTH + 1).startswith(first.raw)
    assert rest[-1] == FOUND


@pytest.mark.parametrize(
    "format_name", ["json", "xml", "qwen3-coder", "lfm2", "functiongemma", "mistral-args", "llama3"]
)
def test_nothing_is_run_of_a_call_longer_than_the_limit_or_behind_it(format_name: str) -> None:
    room = MAX_CALL_LENGTH if format_name != "lfm2" else MAX_LENGTH
    assert scan_as(format_name, FORMATS[format_name].render_call("f", {"a": "x" * (room - 200)})) == [
        call("f", a="x" * (room - 200))
    ]
    (unreadable,) = scan_as(format_name, FORMATS[format_name].render_call("f", {"a": "x" * MAX_CALL_LENGTH}) + XML)
    assert isinstance(unreadable, CallUnreadable)
    assert unreadable.fault == "too_large" and str(MAX_CALL_LENGTH) in unreadable.detail


def test_a_call_that_is_too_large_is_cut_at_the_same_place_in_whatever_pieces() -> None:
    reply = FORMATS["json"].render_call("f", {"a": "x" * (2 * MAX_CALL_LENGTH)})
    assert scan(*(reply[at : at + 50_000] for at in range(0, len(reply), 50_000))) == scan(reply)


class CountingReader(Reader):
    """Counts the characters that are consumed, and those kept over to the next piece, which are looked at again."""

    consumed = 0
    retained = 0

    def feed(self, text: str) -> None:
        self.retained += len(self.text) - self.at
        super().feed(text)

    def take_to(self, end: int) -> str:
        taken = super().take_to(end)
        self.consumed += len(taken)
        return taken


DONE = object()


@pytest.mark.parametrize("format_name", KINDS)
def test_each_character_of_a_long_call_is_read_a_bounded_number_of_times(format_name: str) -> None:
    row = FORMATS[format_name]
    for value in ('"', (row.closers or ("</parameter>",))[0][:-1], "`"):
        body = row.render_call("f", {"a": value * 300})
        for opener in filter(body.startswith, row.openers):
            reader = CountingReader()
            reader.start_recording()
            reading = read_wrapped(row.openers[opener])(
                reader, ReadContext("f".__eq__, lambda _name: (), (), Markers(()))
            )
            for character in body.removeprefix(opener):
                reader.feed(character)
                if next(reading, DONE) is DONE:
                    break
            assert reader.consumed <= 2 * len(body)
            assert reader.retained <= 16 * len(body)


@pytest.mark.parametrize("format_name", KINDS)
def test_a_long_argument_in_small_chunks_is_read_unchanged(format_name: str) -> None:
    row, text = FORMATS[format_name], " ".join(f"word{number}" for number in range(3200))
    reply = row.render_call("f", {"a": text})
    whole = scan_as(format_name, reply)
    assert [event.call.arguments for event in whole if isinstance(event, CallFound)] == [{"a": text}]
    scanner = Scanner(select_formats(format_name), is_known="f".__eq__)
    pieces = re.findall(r"(?s).{1,7}", reply)
    assert len(pieces) > 3 * 1024
    assert join_texts([event for piece in pieces for event in scanner.feed(piece)] + scanner.close()) == whole


# --- any reply at all ---

TOOL = "f"
MARKS = [
    *(mark for row in FORMATS.values() for mark in (*row.openers, *row.closers, *row.control_tokens)),
    *(mark for row in FORMATS.values() for pair in row.thought_markers.items() for mark in pair),
]
RESULTS = [*TURN_OPENERS, *(mark for row in FORMATS.values() for mark in row.result_openers)]


def headings(name: str) -> tuple[str, ...]:
    """What our prompts write above a result, in two languages."""
    return (f"Result of {name}:", f"{name} の結果:") if name == TOOL else ()


SHOWN = [row.render_call(TOOL, {"a": 1, "b": "x [TOOL_CALL]"}) for row in FORMATS.values()]
TAGS = ("<tool_call", ' name="f">', '<argument name="a">', "</argument>", "<![CDATA[", "]]>", "f(a=1)", "f\n")
WORDS = (
    JSON,
    XML,
    BARE,
    "<think>",
    "</think>",
    "```",
    "```json\n",
    "~~~",
    "> ",
    '{"name": "f"',
    '"arguments": ',
    "text",
)
fragments = st.one_of(
    st.sampled_from([*MARKS, *CONTROL_TOKENS]),
    st.sampled_from([*RESULTS, *headings(TOOL)]),
    st.sampled_from(SHOWN),
    st.sampled_from([shown[: len(shown) // 2] for shown in SHOWN]),
    st.sampled_from([JSON, XML, BARE, *TAGS, *WORDS, *"{}[]\"'`\\=><;#/ \né"]),
    st.text(max_size=5),
)
replies = st.lists(fragments, max_size=12).map("".join)
families = st.sampled_from(["", *FORMATS])
DROPPED_MARKS = sorted({*MARKS, *CONTROL_TOKENS, "<think>", "</think>"}, key=len, reverse=True)
DROPPED = re.compile("|".join(map(re.escape, DROPPED_MARKS)))


def ends_of_gaps(reply: str, starts: set[int]) -> set[int]:
    """Where any number of dropped marks and white space may end that begins at one of these places."""
    ends, waiting = set(starts), list(starts)
    while waiting:
        at = waiting.pop()
        steps = [len(mark) for mark in DROPPED_MARKS if reply.startswith(mark, at)]
        if reply[at : at + 1].isspace():
            steps.append(1)
        new = {at + step for step in steps} - ends
        ends |= new
        waiting += new
    return ends


def consists_of(reply: str, sources: Iterable[str]) -> bool:
    """Whether a reply is these texts in their order, and around them only dropped marks and white space."""
    ends = ends_of_gaps(reply, {0})
    for source in sources:
        ends = ends_of_gaps(reply, {at + len(source) for at in ends if reply.startswith(source, at)})
    return len(reply) in ends


def make_scanner(format_name: str, unmarked: bool = False) -> Scanner:
    """A scanner for a model that knows one tool; `unmarked` if it also writes calls without a marker."""
    offered = {TOOL: True} if unmarked else None
    return Scanner(
        select_formats(format_name), is_known=TOOL.__eq__, headings=headings, writes_unmarked=unmarked, offered=offered
    )


def scan_pieces(format_name: str, pieces: Iterable[str], unmarked: bool = False) -> list[ScannerEvent]:
    scanner = make_scanner(format_name, unmarked)
    return join_texts([event for piece in pieces for event in scanner.feed(piece)] + scanner.close(unmarked))


@light
@given(format_name=families, reply=replies, cuts=st.lists(st.integers(0, 200), max_size=6), unmarked=st.booleans())
def test_any_reply_gives_the_same_events_in_whatever_pieces(
    format_name: str, reply: str, cuts: list[int], unmarked: bool
) -> None:
    edges = [0, *sorted(min(cut, len(reply)) for cut in cuts), len(reply)]
    whole = scan_pieces(format_name, [reply], unmarked)
    assert scan_pieces(format_name, (reply[start:end] for start, end in pairwise(edges)), unmarked) == whole
    assert scan_pieces(format_name, reply, unmarked) == whole


@light
@given(format_name=families, reply=replies, unmarked=st.booleans())
@example(format_name="", reply="<tool_call><|im_start|></tool_call>", unmarked=False)
def test_every_character_of_any_reply_is_shown_or_part_of_a_call_or_a_mark_or_invented(
    format_name: str, reply: str, unmarked: bool
) -> None:
    scanner = make_scanner(format_name, unmarked)
    events = scanner.feed(reply) + scanner.close()
    described = {event.raw for event in events if isinstance(event, CallDescribed)}
    assert all(source in reply for source in described)
    parts = [event for event in events if not isinstance(event, CallDescribed | TextWasThought)]
    sources = [event.text if isinstance(event, Text | Thought | InventedResult) else event.raw for event in parts]
    last = events[-1] if events else None
    may_be_shown = isinstance(last, CallUnreadable) and "between the markers" in last.detail  # as text before it
    assert consists_of(reply, sources) or (may_be_shown and consists_of(reply, sources[:-1])), events
    for event in events:
        if isinstance(event, InventedResult):
            assert (
                event is events[-1]
                and reply.endswith(event.text)
                and event.text.startswith((*RESULTS, *headings(TOOL)))
            )
            assert any(isinstance(event, CallFound | CallUnreadable) for event in events)
            retained = reply[: -len(event.text)]
            assert (
                retained.startswith(reply[: scanner.retained_length])
                and DROPPED.sub("", retained[scanner.retained_length :]).strip() == ""
            )


@light
@given(format_name=families, reply=replies, data=st.data())
def test_a_call_in_any_reply_was_whole_where_it_is_found(format_name: str, reply: str, data: st.DataObject) -> None:
    calls = [event for event in scan_pieces(format_name, [reply]) if isinstance(event, CallFound) and event.raw]
    for whole in calls:
        cut = data.draw(st.integers(0, max(len(whole.raw.rstrip()) - 1, 0)))
        begun = [event for event in scan_pieces(format_name, [whole.raw[:cut]]) if isinstance(event, CallFound)]
        assert all(event.call.arguments == whole.call.arguments or event != whole for event in begun)
