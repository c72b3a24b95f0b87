"""A call that was not run because of how it was written: what the model is told, how often, and how it ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from rkllm_chat import language
from rkllm_chat.backends.scripted import Reply, Scripted
from rkllm_chat.chat import Chat
from rkllm_chat.config import Generation, ServerConfig, Settings
from rkllm_chat.corrections import correct, find_meant, read_misstep, sample_arguments
from rkllm_chat.events import (
    CallGarbled,
    Event,
    Fault,
    Notice,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Usage,
)
from rkllm_chat.formats import FORMATS
from rkllm_chat.messages import Tool, ToolCall
from rkllm_chat.policy import Policy
from rkllm_chat.scanner import Scanner
from rkllm_chat.servers.toolbox import Toolbox
from stage import Box, call_text, collect, make_chat, take_turn

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Script = Callable[..., str]

SCHEMA = {
    "type": "object",
    "properties": {"at": {"type": "string"}, "metres": {"type": "integer"}, "unit": {"enum": ["m", "ft"]}},
    "required": ["at"],
}
ENGLISH = language.load()
GAVE_UP = Notice(ENGLISH("chat.gave_up"))
BROKEN = '[TOOL_CALL]\n{"name": depth}\n[END_TOOL_CALL]'


async def depth(**arguments: Any) -> str:
    return f"depth of {arguments}"


def box_of(**options: Any) -> Box:
    return Box({"depth": depth, "height": depth}, schemas={"depth": SCHEMA}, **options)


def told(chat: Chat) -> list[str]:
    """What the model was told of its calls."""
    return [message.text for message in chat.history if message.role == "tool"]


def end_of(events: list[Event]) -> TurnEnded:
    end = events[-1]
    assert isinstance(end, TurnEnded)
    return end


def tag(**arguments: str) -> str:
    inner = "".join(f'<argument name="{name}">{value}</argument>' for name, value in arguments.items())
    return f'<tool_call name="depth">{inner}</tool_call>'


SHORTER = "use a shorter argument or several calls."
MISSTEPS: list[tuple[str, str, str, dict[str, Any] | None]] = [
    (
        BROKEN,
        "bad_json",
        "In its JSON: The JSON cannot be read: 'depth' stands where a value must at line 1, column 10.",
        {"at": "..."},
    ),
    (
        '<tool_call name="depth"><b></b></tool_call>',
        "bad_xml",
        'In its tags: Only <argument name="..."> elements may stand inside the call.',
        {"at": "..."},
    ),
    (
        call_text("depth", at="Husum")[:40],
        "truncated",
        f"The reply was cut off before the call ended; {SHORTER}",
        {"at": "..."},
    ),
    (
        '[TOOL_CALL]{"name": "depth", "arguments": ' + '{"a":' * 70 + "1" + "}" * 71,
        "too_large",
        f"The JSON is nested deeper than 64 levels. {SHORTER.capitalize()}",
        {"at": "..."},
    ),
    (call_text("dept", at="Husum"), "unknown_tool", 'There is no tool "dept". Did you mean depth?', None),
    (call_text("weather", at="Husum"), "unknown_tool", 'There is no tool "weather".', None),
    (
        call_text("depth", metres="3"),
        "missing_argument",
        'Argument "at" is required (text).',
        {"at": "...", "metres": 3},
    ),
    (
        call_text("depth", at="Husum", metres="three"),
        "bad_arguments",
        'Argument "metres" must be a whole number, not "three".',
        {"at": "Husum", "metres": 1},
    ),
    (
        call_text("depth", at="H" * 100, unit="M"),
        "bad_arguments",
        'Argument "unit" must be one of m, ft, not "M" (did you mean "m"?).',
        {"at": "...", "unit": "m"},
    ),
    (
        tag(at="Husum", metres="three"),
        "bad_arguments",
        'Argument "metres" must be a whole number, not "three".',
        {"at": "Husum", "metres": 1},
    ),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("bad", "code", "fault", "example"), MISSTEPS, ids=lambda part: str(part)[:30])
def test_the_model_is_told_in_two_lines_with_one_example_of_its_own_call(
    bad: str, code: str, fault: str, example: dict[str, Any] | None, form: str
) -> None:
    box = box_of()
    chat = make_chat([bad, FORMATS[form].show("depth", {"at": "Husum"}), "Deep."], box, tool_format=form)
    events = take_turn(chat, "how deep?")
    shown = FORMATS[form].example if example is None else FORMATS[form].show("depth", example)
    assert told(chat)[0] == f"Tool call not executed: {code}. {fault}\nWrite it again as:\n{shown}"
    assert box.called == [("depth", {"at": "Husum"})]
    assert end_of(events).reason == "answered"
    assert not any(isinstance(event, Notice) for event in events)


@pytest.mark.parametrize("code", language.languages())
@pytest.mark.parametrize("fault", get_args(Fault))
def test_every_fault_has_its_words_in_every_language(fault: Fault, code: str) -> None:
    words = language.load(code)
    raw = "depth(at=)"
    tool = Tool("depth", schema=SCHEMA, server="box")
    misstep = read_misstep(CallGarbled(fault, "No brace.", raw), [tool], words)
    text = correct(misstep, FORMATS["json"], words)
    lines = text.splitlines()
    assert f"{fault}" in lines[0] and misstep.fault in lines[0]
    assert "\n".join(lines[2:]) == call_text("depth", at="...")
    assert ("No brace." in text) is fault.startswith(("bad_", "too_"))


def test_the_words_for_a_call_in_the_thinking_say_where_to_write_it() -> None:
    misstep = read_misstep(CallGarbled("call_in_thinking", "", call_text("depth")), [], ENGLISH)
    assert correct(misstep, FORMATS["json"], ENGLISH).splitlines()[0] == (
        "Tool call not executed: call_in_thinking. "
        "A call inside the thinking is never run; write it behind the thinking."
    )


def test_a_person_sees_why_without_the_example() -> None:
    events = take_turn(make_chat([call_text("depth"), "Sorry."], box_of()), "how deep?")
    finished = [event.result for event in events if isinstance(event, ToolFinished)]
    assert [(one.status, one.text) for one in finished] == [("failed", 'Argument "at" is required (text).')]


def test_what_was_coerced_is_among_the_repairs_of_the_call() -> None:
    events = take_turn(make_chat([call_text("depth", at=7, metres="3"), "Deep."], box_of()), "how deep?")
    assert [event.call for event in events if isinstance(event, ToolStarted)] == [
        ToolCall("depth", {"at": "7", "metres": 3}, ("at: integer to text", "metres: text to integer"))
    ]


def test_a_turn_has_two_corrections_and_then_ends_with_what_the_model_wrote() -> None:
    bad = [f'Well. [TOOL_CALL]\n{{"name": depth{number}}}\n[END_TOOL_CALL]' for number in range(3)]
    box = box_of()
    chat = make_chat([*bad, "Never said."], box)
    events = take_turn(chat, "how deep?")
    raw = bad[2].removeprefix("Well. ")
    garbled = next(event for event in reversed(events) if isinstance(event, CallGarbled))
    assert events[-4:-1] == [garbled, Text(raw), GAVE_UP]
    assert garbled.raw == raw
    assert end_of(events).reason == "steps" and len(end_of(events).usage) == 3
    assert ["Write it again as:" in text for text in told(chat)] == [True, True, False]
    assert told(chat)[2].startswith("Tool call not executed: bad_json. ")
    assert box.called == []


@pytest.mark.parametrize(
    "bad",
    [BROKEN, call_text("dept", at="Husum"), call_text("depth"), tag(metres="three"), call_text("depth")[:20]],
    ids=["unreadable", "unknown", "missing", "arguments", "cut"],
)
def test_the_same_bad_call_again_is_not_corrected_again(bad: str) -> None:
    chat = make_chat([bad, f"Once more: {bad}", "Never said."], box_of())
    events = take_turn(chat, "how deep?")
    assert ["Write it again as:" in text for text in told(chat)] == [True, False]
    assert [event for event in events if isinstance(event, Notice)] == [GAVE_UP]
    assert end_of(events).reason == "steps"
    seen = Scanner()
    unread = [event for event in [*seen.feed(bad), *seen.close()] if isinstance(event, CallGarbled)]
    assert [event for event in events if isinstance(event, Text)] == [
        Text("Once more: "), *(Text(one.raw) for one in unread)
    ]  # fmt: skip


def test_a_bad_call_that_was_mended_in_part_is_corrected_again() -> None:
    replies = [call_text("dept"), call_text("depth"), call_text("depth", at="Husum"), "Deep."]
    box = box_of()
    assert end_of(take_turn(make_chat(replies, box), "how deep?")).reason == "answered"
    assert box.called == [("depth", {"at": "Husum"})]


def test_a_reply_with_a_call_that_can_be_run_goes_on_without_a_third_correction() -> None:
    replies = [f"{BROKEN}{call_text('height', at=number)}" for number in range(3)]
    box = box_of()
    chat = make_chat([*replies, "High."], box)
    events = take_turn(chat, "how high?")
    assert len(box.called) == 3
    assert end_of(events).reason == "answered"
    assert ["Write it again as:" in text for text in told(chat)] == [True, False, False, False, False, False]


def test_the_next_turn_has_its_own_corrections() -> None:
    chat = make_chat([BROKEN, BROKEN, BROKEN, "Hello."], box_of())
    assert end_of(take_turn(chat, "how deep?")).reason == "steps"
    assert end_of(take_turn(chat, "and now?")).reason == "answered"


@pytest.mark.parametrize(("last", "reason"), [("Deep.", "answered"), (call_text("depth", at="Husum"), "steps")])
def test_an_equal_call_runs_three_times_and_then_the_model_answers_without_tools(last: str, reason: str) -> None:
    box = box_of()
    again = [call_text("depth", at="Husum"), call_text("box.depth", at="Husum"), tag(at="Husum")]
    chat = make_chat([*again, call_text("depth", at="Husum"), last, "Never said."], box)
    events = take_turn(chat, "how deep?")
    assert box.called == [("depth", {"at": "Husum"})] * 3
    assert told(chat)[3].startswith("This call was run 3 times in this turn with the same arguments.")
    assert end_of(events).reason == reason and len(end_of(events).usage) == 5
    statuses = [event.result.status for event in events if isinstance(event, ToolFinished)]
    assert statuses == ["completed"] * 3 + ["failed"]


def test_equal_calls_of_one_reply_run_three_times_and_others_run_all() -> None:
    box = box_of()
    replies = [call_text("depth", at="Husum") * 5 + call_text("depth", at="Kiel"), "Deep."]
    assert end_of(take_turn(make_chat(replies, box), "how deep?")).reason == "answered"
    assert [arguments["at"] for _, arguments in box.called] == ["Husum"] * 3 + ["Kiel"]
    chat = make_chat([*(call_text("depth", at=str(number)) for number in range(7)), "Deep."], box_of())
    assert end_of(take_turn(chat, "how deep?")).reason == "answered"


def cut_reply(text: str) -> Reply:
    """A reply that ended because it reached its limit."""
    return Reply(text, usage=Usage(prompt_tokens=1, generated_tokens=1, hit_limit=True))


@pytest.mark.parametrize(("read_only", "called"), [(True, 1), (False, 0)], ids=["reads", "acts"])
def test_of_a_reply_that_was_cut_off_only_calls_that_read_are_run(read_only: bool, called: int) -> None:
    box = box_of(read_only=read_only)
    cut = call_text("depth", at="Husum") + " and then I will"
    chat = make_chat([cut_reply(cut), "Deep."], box, policy=Policy(approve="all"))
    events = take_turn(chat, "how deep?")
    assert len(box.called) == called
    assert end_of(events).reason == "answered"
    if not called:
        assert told(chat) == [
            "Tool call not executed: truncated. The reply was cut off, so what else it meant to do is unknown; write "
            f"shorter replies.\nWrite it again as:\n{call_text('depth', at='Husum')}"
        ]


def test_a_cut_off_reply_is_not_run_on_the_word_of_a_server_that_is_not_trusted() -> None:
    class Untrusted(Box):
        @property
        def tools(self) -> list[Tool]:
            return [Tool("depth", server="box", read_only=True)]

    box = Untrusted({"depth": depth})
    take_turn(make_chat([cut_reply(call_text("depth")), "Deep."], box, policy=Policy(approve="read-only")), "deep?")
    assert box.called == []
    take_turn(make_chat([call_text("depth"), "Deep."], box, policy=Policy(approve="read-only")), "deep?")
    assert box.called == [("depth", {})]


def test_a_call_that_is_cut_off_at_the_same_place_ends_the_turn_for_its_length() -> None:
    chat = make_chat([call_text("depth", at="H" * 400)] * 2, box_of(), generation=Generation(max_tokens=20))
    events = take_turn(chat, "how deep?")
    raw = call_text("depth", at="H" * 400)[:80]
    assert events[-4:] == [
        CallGarbled("truncated", "The reply ended before the call did.", raw),
        Text(raw),
        GAVE_UP,
        TurnEnded("length", end_of(events).usage),
    ]


@pytest.mark.parametrize("raw", [BROKEN, "<tool_call name='depth'", "functions.box:depth(at=", '{"name": "depth", "a'])
def test_the_tool_that_was_meant_is_found_in_what_cannot_be_read(raw: str) -> None:
    tools = [Tool(name, server="box") for name in ("name", "arguments", "depth", "height")]
    assert find_meant(raw, tools) is tools[2]
    assert find_meant(raw, tools[:2]) is None


INNER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
HOSTILE = {"$defs": {"loop": {"allOf": [{"$ref": "#/$defs/loop"}] * 100}}}
SAMPLES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {"a": 1}, {}),
    ({"properties": {"a": {"type": "string"}}}, {}, {}),
    ({"properties": {"a": {"type": "string", "examples": ["Husum"]}}, "required": ["a"]}, {}, {"a": "Husum"}),
    ({"properties": {"a": {"type": "integer", "default": 7}}, "required": ["a"]}, {}, {"a": 7}),
    ({"properties": {"a": {"type": "boolean"}, "b": {}}, "required": ["a", "b"]}, {}, {"a": True, "b": "..."}),
    ({"properties": {"a": {"type": "array", "items": {"enum": ["x"]}}}, "required": ["a"]}, {}, {"a": ["x"]}),
    ({"properties": {"a": INNER}, "required": ["a"]}, {"a": {"n": "one"}}, {"a": {"n": 1}}),
    ({**HOSTILE, "properties": {"a": {"$ref": "#/$defs/loop"}}, "required": ["a"]}, {}, {}),
]


@pytest.mark.parametrize(("schema", "given", "wanted"), SAMPLES, ids=lambda part: str(part)[:60])
def test_an_example_has_what_is_required_and_what_was_given(
    schema: dict[str, Any], given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert sample_arguments(Tool("t", schema=schema), given) == wanted


HARBOUR = '''
from mcp.server.mcpserver import MCPServer
server = MCPServer("harbour")
@server.tool()
def set_gate(gate: int, is_open: bool = False) -> str:
    """Opens or shuts a gate."""
    return f"gate {gate}: {is_open}"
server.run("stdio")
'''


def test_with_a_real_server_a_wrong_call_is_mended_and_a_coerced_one_arrives_in_its_types(tmp_path: Path) -> None:
    (tmp_path / "harbour.py").write_text(HARBOUR, encoding="utf-8")
    server = ServerConfig("harbour", command=sys.executable, args=(str(tmp_path / "harbour.py"),))
    opens = FORMATS["xml"].show("functions.harbour:set_gate", {"gate": "2", "is_open": "True"})
    replies = [call_text("set_gate", gate="north"), opens, "Done."]

    async def talk() -> tuple[list[Event], Chat]:
        async with Toolbox([server], tmp_path / "logs") as toolbox:
            chat = Chat(Scripted(replies), toolbox, Settings(policy=Policy(approve="all")), ENGLISH)
            return await collect(chat.send("open gate two")), chat

    events, chat = asyncio.run(asyncio.wait_for(talk(), 30))
    finished = [(event.result.status, event.result.text) for event in events if isinstance(event, ToolFinished)]
    assert finished == [
        ("failed", 'Argument "gate" must be a whole number, not "north".'),
        ("completed", "gate 2: True"),
    ]
    assert told(chat)[0].endswith(call_text("set_gate", gate=1))


def test_the_events_of_a_turn_that_could_not_be_mended_come_out_of_the_program(program: Run, script: Script) -> None:
    model = script(BROKEN, call_text("calculat", expression="1"), f"I try. {BROKEN}")
    done = program("-p", "x", "--model", model, "--output-format", "stream-json", code=1)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events if event["type"] != "text"] == [
        "call_garbled", "call_found", "tool_finished", "call_garbled", "notice", "turn_ended"
    ]  # fmt: skip
    finished = next(event["result"] for event in events if event["type"] == "tool_finished")
    assert (finished["status"], finished["text"]) == (
        "failed",
        'There is no tool "calculat". Did you mean calculate?',
    )
    assert "".join(event["text"] for event in events if event["type"] == "text") == f"I try. {BROKEN}"
    assert (events[-2]["text"], events[-1]["reason"]) == (GAVE_UP.text, "steps")


def test_the_answer_in_json_is_what_the_model_wrote(program: Run, script: Script) -> None:
    done = program("-p", "x", "--model", script(BROKEN, BROKEN), "--output-format", "json", code=1)
    result = json.loads(done.stdout)["result"]
    assert (result["text"], result["reason"], result["notices"]) == (BROKEN, "steps", [GAVE_UP.text])
