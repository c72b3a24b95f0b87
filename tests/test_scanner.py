"""Calls, thoughts and text found in a reply, whatever the pieces it comes in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.events import CallFound, CallGarbled, Fault, Text, Thought
from rkllm_chat.formats import CONTROLS, DEEPEST, FORMATS, TURNS, formats_for
from rkllm_chat.formats.pycalls import LARGEST
from rkllm_chat.messages import ToolCall
from rkllm_chat.reader import LONGEST_CALL, Reader
from rkllm_chat.scanner import Invented, Scanner, Seen

OPENERS = ["<think>", *(opener for form in formats_for() for opener in form.openers)]

light = settings(max_examples=examples(300))

BODY = '{"name": "get_tide", "arguments": {"harbour": "Husum"}}'
JSON = f"[TOOL_CALL]\n{BODY}\n[END_TOOL_CALL]"
XML = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
TIDE = ToolCall("get_tide", {"harbour": "Husum"})
FOUND = CallFound(TIDE)
NO_END = CallFound(replace(TIDE, repairs=("missing end marker",)))
BARE = JSON.removesuffix("[END_TOOL_CALL]")


def scan(*pieces: str) -> list[Seen]:
    """The events of a reply that comes in these pieces, neighbouring texts and thoughts joined."""
    scanner = Scanner()
    return joined([event for piece in pieces for event in scanner.feed(piece)] + scanner.close())


def joined(events: Iterable[Seen]) -> list[Seen]:
    """The events with neighbouring texts, and neighbouring thoughts, as one."""
    found: list[Seen] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, Text) and isinstance(last, Text):
            found[-1] = Text(last.text + event.text)
        elif isinstance(event, Thought) and isinstance(last, Thought):
            found[-1] = Thought(last.text + event.text)
        elif isinstance(event, Invented) and isinstance(last, Invented):
            found[-1] = Invented(last.text + event.text)
        else:
            found.append(event)
    return found


def scan_as(form: str, reply: str) -> list[Seen]:
    """The events of a whole reply by a model that is asked for this form, and knows a tool `f`."""
    scanner = Scanner(formats_for(form), is_known="f".__eq__)
    return scanner.feed(reply) + scanner.close()


def as_json(body: str) -> str:
    return f"[TOOL_CALL]{body}[END_TOOL_CALL]"


def as_xml(inside: str) -> str:
    return f'<tool_call name="f">{inside}</tool_call>'


def call(name: str, **arguments: object) -> CallFound:
    return CallFound(ToolCall(name, arguments))


def truncated(raw: str) -> CallGarbled:
    return CallGarbled("truncated", "The reply ended before the call did.", raw)


def bad_json(detail: str, raw: str) -> CallGarbled:
    return CallGarbled("bad_json", detail, raw)


IN_THOUGHT = CallGarbled("call_in_thinking", "The call stands in the thinking, where nothing is run.", "")

CASES: dict[str, tuple[str, list[Seen]]] = {
    "nothing": ("", []),
    "text": ("Hello, 世界.\n", [Text("Hello, 世界.\n")]),
    "a JSON call": (JSON, [FOUND]),
    "an XML call": (XML, [FOUND]),
    "text around": (f"Let me look.\n{JSON}\nDone.", [Text("Let me look.\n"), FOUND, Text("\nDone.")]),
    "two calls and text": (f"a{JSON}b{XML}c", [Text("a"), FOUND, Text("b"), FOUND, Text("c")]),
    "XML before JSON keeps its order": (as_xml("") + JSON, [call("f"), FOUND]),
    "no white space": (as_json('{"name":"f","arguments":{}}'), [call("f")]),
    "no arguments": (as_json('{"name": "f"}'), [call("f")]),
    "other keys are passed over": (as_json('{"id": 1, "arguments": {"a": [1]}, "name": "f"}'), [call("f", a=[1])]),
    "arguments as a JSON string": (
        as_json(r'{"name": "f", "arguments": "{\"a\": 1}"}'),
        [CallFound(ToolCall("f", {"a": 1}, ("encoded arguments",)))],
    ),
    "end marker in a string": (
        as_json('{"name": "f", "arguments": {"a": "x [END_TOOL_CALL] y"}}'),
        [call("f", a="x [END_TOOL_CALL] y")],
    ),
    "opener in a string": (as_json('{"name": "f", "arguments": {"a": "[TOOL_CALL]{"}}'), [call("f", a="[TOOL_CALL]{")]),
    "brackets and quotes in a string": (
        as_json(r'{"name": "f", "arguments": {"a": "}]\"\\"}}'),
        [call("f", a='}]"\\')],
    ),
    "a pair of surrogate escapes": (as_json(r'{"name": "f", "arguments": {"a": "\ud83c\udf0a"}}'), [call("f", a="🌊")]),
    "no end marker": (BARE, [NO_END]),
    "no end marker before the next call": (BARE + JSON, [NO_END, FOUND]),
    "no end marker before text": (BARE + "Done.", [NO_END, Text("Done.")]),
    "no XML arguments": (as_xml(""), [call("f")]),
    "single quotes, other attributes": ("<tool_call id='1' name='f' x=\"y\"></tool_call>", [call("f")]),
    "attributes over lines": ('<tool_call\n  name = "f"\n>\n</tool_call>', [call("f")]),
    "several XML arguments": (
        as_xml("<argument name='a'>1</argument>\n<argument name='b'></argument>"),
        [call("f", a="1", b="")],
    ),
    "newlines around an XML value": (as_xml('<argument name="a">\n x\ny \n</argument>'), [call("f", a=" x\ny ")]),
    "entities": (
        as_xml('<argument name="a">&lt;b&gt; &amp;amp; &#65;&quot;</argument>'),
        [call("f", a='<b> &amp; A"')],
    ),
    "raw markup in an XML value": (
        as_xml('<argument name="a">if (a < b) </p></argument>'),
        [call("f", a="if (a < b) </p>")],
    ),
    "JSON in a <tool_call>": (f"<tool_call>\n{BODY}\n</tool_call> Yes.", [FOUND, Text(" Yes.")]),
    "JSON in a <tool_call> that is not closed": (f"<tool_call>{BODY}\n", [NO_END]),
    "CDATA": (as_xml('<argument name="a"><![CDATA[<b> &lt; ]] >]]></argument>'), [call("f", a="<b> &lt; ]] >")]),
    "end tag of an argument in its value": (
        as_xml('<argument name="a">x</argument> y</argument>'),
        [call("f", a="x</argument> y")],
    ),
    "end tag of the call in a value": (
        as_xml('<argument name="a">x</tool_call>y</argument>'),
        [call("f", a="x</tool_call>y")],
    ),
    "JSON markers in an XML value": (as_xml(f'<argument name="a">{JSON}</argument>'), [call("f", a=JSON)]),
    "thought": ("<think>Hm.</think>\nYes.", [Thought("Hm."), Text("\nYes.")]),
    "calls in a thought": (f"<think>{JSON}{XML}</think>{XML}", [Thought(JSON + XML), FOUND]),
    "a thought without end": (f"<think>{JSON} Hm", [Thought(f"{JSON} Hm"), IN_THOUGHT]),
    "an empty thought": ("<think></think>Yes.", [Text("Yes.")]),
    "a lone end of thought": ("a</think>b", [Text("a</think>b")]),
}

PROSE = [
    "A call begins with [TOOL_CALL] and ends with [END_TOOL_CALL].",
    "[TOOL_CALL]",
    "[TOOL_CALL] \n",
    "[TOOL_CALL]]",
    "[[TOOL_CALL]",
    "[tool_call]{}",
    "［TOOL_CALL］{}",
    "[TOOL\u200b_CALL]{}",
    "Write <tool_call name=...> around it.",
    "vector<tool_call> calls;",
    "<tool_calls name='f'>",
    "<tool_call>",
    "<tool_call ",
    "<tool_call name",
    "<tool_call id='1'></tool_call>",
    "<tool_call name=''></tool_call>",
    "<tool_call name='" + "x" * 300,
    "1 < 2, [1, 2] and <thi",
]

NO_TOOL = 'The "name" is not the name of a tool.'
NO_OBJECT = 'The "arguments" are not an object.'
TWICE = 'The JSON cannot be read: the key "{}" stands twice in one object.'
ONLY_ARGUMENTS = 'Only <argument name="..."> elements may stand inside the call.'

# what stands between the markers -> what is told
BAD_JSON = {
    '{"arguments": {}}': "The JSON object has no 'name'.",
    '{"name": 3}': NO_TOOL,
    '{"name": " "}': NO_TOOL,
    '{"name": "f", "arguments": []}': NO_OBJECT,
    '{"name": "f", "arguments": null}': NO_OBJECT,
    '{"name": "f", "arguments": "[1]"}': NO_OBJECT,
    '{"name": "f", "name": "g"}': TWICE.format("name"),
    '{"name": "f", "arguments": {"a": 1, "a": 2}}': TWICE.format("a"),
    '{"name": "f", "arguments": {"a": NaN}}': "The JSON cannot be read: NaN is not JSON.",
    '{"name": "f", "arguments": {"a": -Infinity}}': "The JSON cannot be read: -Infinity is not JSON.",
    '{"name": "f\n': "A string is not closed before the end marker.",
}
BAD_XML = {
    "Husum": ONLY_ARGUMENTS,
    "<location>Husum</location>": ONLY_ARGUMENTS,
    "<argument>1</argument>": "An <argument> has no name.",
    "<argument name='a'>1</argument><argument name='a'>2</argument>": 'The argument "a" stands twice.',
}
CUT = [JSON[:13], JSON[:30], XML[:24], XML[:50], '[TOOL_CALL]{"a": "[END_TOOL_CALL]']
UNFINISHED = '[TOOL_CALL]{"name": "f", '

GARBLED: dict[str, tuple[str, list[Seen]]] = {
    **{body: (as_json(body) + " x", [bad_json(told, as_json(body)), Text(" x")]) for body, told in BAD_JSON.items()},
    **{
        inside: (as_xml(inside) + JSON, [CallGarbled("bad_xml", told, as_xml(inside)), FOUND])
        for inside, told in BAD_XML.items()
    },
    **{f"cut: {reply}": (reply, [truncated(reply)]) for reply in CUT},
    "a call in a call": (
        UNFINISHED + JSON,
        [bad_json("A new call begins before this one has ended.", UNFINISHED), FOUND],
    ),
}

ALL = {**CASES, **{f"prose: {text[:30]}": (text, [Text(text)]) for text in PROSE}, **GARBLED}


@pytest.mark.parametrize(("reply", "events"), ALL.values(), ids=ALL)
def test_a_reply_gives_its_events(reply: str, events: list[Seen]) -> None:
    assert scan(reply) == events


@pytest.mark.parametrize(("reply", "events"), ALL.values(), ids=ALL)
def test_a_call_split_anywhere_gives_the_same_events(reply: str, events: list[Seen]) -> None:
    for at in range(len(reply)):
        assert scan(reply[:at], reply[at:]) == events, reply[:at]


@pytest.mark.parametrize(("reply", "events"), ALL.values(), ids=ALL)
def test_a_reply_that_comes_in_single_characters_gives_the_same_events(reply: str, events: list[Seen]) -> None:
    assert scan(*reply) == events


@pytest.mark.parametrize(
    "body",
    ['{"name": f}', '{"name": "f"]', '{"a": "\n"}', "{}}", '{"a": {"b": {'],
)
def test_broken_json_is_told_and_never_run(body: str) -> None:
    first, *rest = scan(as_json(body), JSON)
    assert isinstance(first, CallGarbled)
    assert first.fault == "bad_json"
    assert first.detail.startswith("The JSON ")
    assert rest[-1] == FOUND


# --- a reply that was cut ---


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
        '<argument name="a">x</argument>',
        '<argument name="a">x</argument> y</argument><argument name="b">2</argument>',
        '<argument name="a">&lt;/argument&gt;&lt;/tool_call&gt;</argument>',
        '<argument name="a"><![CDATA[x]]></argument>',
    ],
    ids=["plain", "end tag inside", "entities", "CDATA"],
)
def test_an_xml_call_cut_anywhere_is_no_call(inside: str) -> None:
    reply = as_xml(inside)
    for end in range(len(reply)):
        assert [event for event in scan(reply[:end]) if isinstance(event, CallFound)] == [], reply[:end]
    assert isinstance(scan(reply)[0], CallFound)


def test_end_tags_in_cdata_end_nothing() -> None:
    value = "x</argument></tool_call>y"
    reply = as_xml(f'<argument name="a"><![CDATA[{value}]]></argument>')
    assert scan(reply) == [call("f", a=value)]
    assert scan(reply[:-30]) == [truncated(reply[:-30])]


# --- what is shown at once ---


@pytest.mark.parametrize("marker", OPENERS)
def test_text_is_held_back_only_while_it_may_be_a_marker(marker: str) -> None:
    for end in range(1, len(marker)):
        scanner = Scanner()
        assert scanner.feed("Look: " + marker[:end]) == [Text("Look: ")]
        assert scanner.feed("é") == [Text(marker[:end] + "é")]


def test_a_thought_is_held_back_only_while_it_may_end() -> None:
    scanner = Scanner()
    assert scanner.feed("<think>Hm.</thin") == [Thought("Hm.")]
    assert scanner.feed("g") == [Thought("</thing")]
    assert scanner.feed("</think>" + "Yes.") == [Text("Yes.")]


def test_a_call_is_given_with_its_last_character() -> None:
    for reply in (JSON, XML):
        scanner = Scanner()
        assert scanner.feed("a" + reply[:-1]) == [Text("a")]
        assert scanner.feed(reply[-1]) == [FOUND]


# --- limits ---


def nested(levels: int) -> str:
    """A call whose JSON is nested this deep; the object and its arguments are two levels."""
    return as_json('{"name": "f", "arguments": {"a": ' + "[" * (levels - 2) + "]" * (levels - 2) + "}}")


def fault_of(event: Seen) -> Fault | None:
    return event.fault if isinstance(event, CallGarbled) else None


def test_json_nested_too_deep_is_too_large() -> None:
    assert isinstance(scan(nested(DEEPEST))[0], CallFound)
    first, *rest = scan(nested(DEEPEST + 1), JSON)
    assert isinstance(first, CallGarbled)
    assert (first.fault, first.detail) == ("too_large", f"The JSON is nested deeper than {DEEPEST} levels.")
    assert nested(DEEPEST + 1).startswith(first.raw)
    assert rest[-1] == FOUND


@pytest.mark.parametrize("form", FORMATS)
def test_of_a_call_longer_than_the_limit_and_what_stands_behind_it_nothing_is_run(form: str) -> None:
    room = LONGEST_CALL if form not in IN_PYTHON else LARGEST
    assert scan_as(form, FORMATS[form].show("f", {"a": "x" * (room - 200)})) == [call("f", a="x" * (room - 200))]
    (told,) = scan_as(form, FORMATS[form].show("f", {"a": "x" * LONGEST_CALL}) + XML)
    assert isinstance(told, CallGarbled)
    assert (told.fault, told.detail) == ("too_large", f"The call is longer than {LONGEST_CALL} characters.")


def test_a_call_that_is_too_large_is_cut_at_the_same_place_in_whatever_pieces() -> None:
    reply = FORMATS["json"].show("f", {"a": "x" * (2 * LONGEST_CALL)})
    assert scan(*(reply[at : at + 50_000] for at in range(0, len(reply), 50_000))) == scan(reply)


def test_a_number_that_json_does_not_have_is_never_passed_on() -> None:
    assert scan(as_json('{"name": "f", "arguments": {"a": 1e30}}')) == [call("f", a=1e30)]
    assert fault_of(scan(as_json('{"name": "f", "arguments": {"a": 1e999}}'))[0]) == "bad_json"


def test_half_a_surrogate_pair_is_never_passed_on() -> None:
    (event,) = scan(as_json(r'{"name": "f", "arguments": {"a": "\ud83c"}}'))
    assert fault_of(event) == "bad_json" or event == call("f", a="\ufffd")


def test_a_number_of_too_many_digits_is_told_in_words_for_a_model() -> None:
    (first,) = scan(as_json('{"name": "f", "arguments": {"a": ' + "1" * 5000 + "}}"))
    assert isinstance(first, CallGarbled)
    assert first.fault == "bad_json"
    assert "set_int_max_str_digits" not in first.detail


class CountingReader(Reader):
    """Counts the characters that are consumed, and those kept over to the next piece, which are looked at again."""

    consumed = 0
    kept = 0

    def feed(self, text: str) -> None:
        kept = len(self.text) - self.at
        super().feed(text)
        self.kept += kept

    def take_to(self, end: int) -> str:
        taken = super().take_to(end)
        self.consumed += len(taken)
        return taken


IN_PYTHON = {name for name, row in FORMATS.items() if row.show("f", {"a": 1}).find("f(a=1)") >= 0} | {"chatglm3"}
DONE = object()
VALUES = ["x", '"', "\\", "[END_TOOL_CALL", "</argument", "[TOOL_CALL]{", "</argument> ", "</parameter>\n", "`", "'"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("value", VALUES)
def test_each_character_of_a_long_call_is_looked_at_a_bounded_number_of_times(form: str, value: str) -> None:
    row = FORMATS[form]
    body = row.show("f", {"a": value * 2_000})
    for opener, read in row.openers.items():
        if not body.startswith(opener):
            continue
        reader = CountingReader()
        reader.record()
        reading = read(reader)
        for character in body.removeprefix(opener):
            reader.feed(character)
            if next(reading, DONE) is DONE:
                break
        assert reader.consumed <= 2 * len(body)
        assert reader.kept <= 16 * len(body)


# --- any reply at all ---

TOOL = "f"
MARKS = [
    *(mark for row in FORMATS.values() for mark in (*row.openers, *row.closers, *row.controls)),
    *(mark for row in FORMATS.values() for pair in row.thoughts.items() for mark in pair),
]
RESULTS = [*TURNS, *(mark for row in FORMATS.values() for mark in row.results)]


def headings(name: str) -> tuple[str, ...]:
    """What our prompts write above a result, in two languages."""
    return (f"Result of {name}:", f"{name} の結果:") if name == TOOL else ()


SHOWN = [row.show(TOOL, {"a": 1, "b": "x [TOOL_CALL]"}) for row in FORMATS.values()]
fragments = st.one_of(
    st.sampled_from([*MARKS, *CONTROLS]),
    st.sampled_from([*RESULTS, *headings(TOOL)]),
    st.sampled_from(SHOWN),
    st.sampled_from([shown[: len(shown) // 2] for shown in SHOWN]),
    st.sampled_from(
        [
            *(JSON, XML, BARE, "<think>", "</think>", "```", "```json\n", "~~~", "`", "> ", "\n", " ", "é"),
            *("<tool_call", ' name="f">', '<argument name="a">', "</argument>", "<![CDATA[", "]]>", "f(a=1)", "f\n"),
            *(
                '{"name": "f"',
                '"arguments": ',
                "{",
                "}",
                "[",
                "]",
                '"',
                "'",
                "\\",
                "=",
                ">",
                "<",
                ";",
                "#",
                "/",
                "text",
            ),
        ]
    ),
    st.text(max_size=5),
)
replies = st.lists(fragments, max_size=12).map("".join)
families = st.sampled_from(["", *FORMATS])
DROPPED = re.compile(
    "|".join(re.escape(mark) for mark in sorted({*MARKS, *CONTROLS, "<think>", "</think>"}, key=len)[::-1])
)


def scan_pieces(form: str, pieces: Iterable[str]) -> list[Seen]:
    scanner = Scanner(formats_for(form), is_known=TOOL.__eq__, headings=headings)
    return joined([event for piece in pieces for event in scanner.feed(piece)] + scanner.close())


@light
@given(form=families, reply=replies, cuts=st.lists(st.integers(0, 200), max_size=6))
def test_any_reply_gives_the_same_events_in_whatever_pieces(form: str, reply: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(reply)) for cut in cuts), len(reply)]
    whole = scan_pieces(form, [reply])
    assert scan_pieces(form, (reply[start:end] for start, end in pairwise(edges))) == whole
    assert scan_pieces(form, reply) == whole


@light
@given(form=families, reply=replies)
def test_every_character_of_any_reply_is_shown_or_part_of_a_call_or_a_mark_or_invented(form: str, reply: str) -> None:
    rest = reply
    scanner = Scanner(formats_for(form), is_known=TOOL.__eq__, headings=headings)
    events = scanner.feed(reply) + scanner.close()
    for event in events:
        said = event.raw if isinstance(event, CallFound | CallGarbled) else event.text
        before, found, rest = rest.partition(said) if said else ("", "", rest)
        assert found == said
        assert DROPPED.sub("", before).strip() == "", before
        if isinstance(event, Invented):
            assert event is events[-1] and rest == "" and event.text.startswith((*RESULTS, *headings(TOOL)))
            assert any(isinstance(one, CallFound | CallGarbled) for one in events)
            kept = reply[: -len(event.text)]
            assert kept.startswith(reply[: scanner.kept]) and DROPPED.sub("", kept[scanner.kept :]).strip() == ""
    assert DROPPED.sub("", rest).strip() == "", rest


@light
@given(form=families, reply=replies, data=st.data())
def test_a_call_in_any_reply_was_whole_where_it_is_found(form: str, reply: str, data: st.DataObject) -> None:
    calls = [event for event in scan_pieces(form, [reply]) if isinstance(event, CallFound) and event.raw]
    for found in calls:
        cut = data.draw(st.integers(0, max(len(found.raw.rstrip()) - 1, 0)))
        begun = [event for event in scan_pieces(form, [found.raw[:cut]]) if isinstance(event, CallFound)]
        assert all(one.call.arguments == found.call.arguments or one != found for one in begun)
