"""A call that was not run because of how it was written: what the model is told, how often, and how it ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from calls.replies import KINDS
from cpu_time import limit_cpu
from many_tools import configure
from rkllm_chat.backends.scripted import ScriptedBackend, ScriptedReply
from rkllm_chat.calls.feedback import build_example_arguments, find_named_tool, to_call_error, write_correction
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import (
    CallUnreadable,
    Event,
    Fault,
    Notice,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Usage,
)
from rkllm_chat.core.messages import Tool, ToolCall
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.tui.event_lines import describe_event
from stage import FakeToolbox, Run, Script, call_text, collect, make_chat, take_turn

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


def toolbox_of(**options: Any) -> FakeToolbox:
    return FakeToolbox({"depth": depth, "height": depth}, schemas={"depth": SCHEMA}, **options)


def messages_about_calls(chat: Conversation) -> list[str]:
    """What the model was told of its calls."""
    return [message.text for message in chat.history if message.role == "tool"]


def are_corrected(chat: Conversation) -> list[bool]:
    """Of each message about a call, whether it shows how to write the call again."""
    return ["Write it again as:" in text for text in messages_about_calls(chat)]


def end_of(events: list[Event]) -> TurnEnded:
    end = events[-1]
    assert isinstance(end, TurnEnded)
    return end


def tag(**arguments: str) -> str:
    inner = "".join(f'<argument name="{name}">{value}</argument>' for name, value in arguments.items())
    return f'<tool_call name="depth">{inner}</tool_call>'


TOO_DEEP = '[TOOL_CALL]{"name": "depth", "arguments": ' + "".join(f'{{"a{n}":' for n in range(70)) + "1" + "}" * 71
INVALID_CALLS: list[tuple[str, str, str, dict[str, Any] | None]] = [
    (BROKEN, "bad_json", "'depth'", {"at": "..."}),
    ('<tool_call name="depth"><b></b></tool_call>', "bad_xml", "<argument name=", {"at": "..."}),
    (call_text("depth", at="Husum")[:40], "truncated", "cut off", {"at": "..."}),
    (TOO_DEEP, "too_large", "64", {"at": "..."}),
    (call_text("dept", at="Husum"), "unknown_tool", '"dept". Did you mean depth?', None),
    (call_text("depth", metres="3"), "missing_argument", '"at" is required', {"at": "...", "metres": 3}),
    (
        call_text("depth", at="H" * 100, metres="three", unit="m"),
        "bad_arguments",
        '"metres" must be a whole number, not "three"',
        {"at": "...", "metres": 1, "unit": "m"},
    ),
]


def assert_corrected(format_name: str, bad: str, code: str, fault: str, example: dict[str, Any] | None) -> None:
    """The model is told the fault in one line, and shown its own call as it should be written."""
    toolbox = toolbox_of()
    chat = make_chat(
        [bad, FORMATS[format_name].render_call("depth", {"at": "Husum"}), "Deep."], toolbox, tool_format=format_name
    )
    events = take_turn(chat, "how deep?")
    shown = FORMATS[format_name].example if example is None else FORMATS[format_name].render_call("depth", example)
    first, _, rest = messages_about_calls(chat)[0].partition("\n")
    assert f" {code}. " in first and fault in first
    assert rest.endswith(f":\n{shown}")
    assert toolbox.called == [("depth", {"at": "Husum"})]
    assert end_of(events).reason == "answered"
    assert not any(isinstance(event, Notice) for event in events)


@pytest.mark.parametrize(("bad", "code", "fault", "example"), INVALID_CALLS, ids=lambda part: str(part)[:30])
def test_the_model_is_told_the_fault_and_shown_its_own_call(
    bad: str, code: str, fault: str, example: dict[str, Any] | None
) -> None:
    assert_corrected("json", bad, code, fault, example)


@pytest.mark.parametrize("format_name", KINDS)
def test_the_example_is_written_in_the_form_that_the_model_is_asked_for(format_name: str) -> None:
    assert_corrected(
        format_name, call_text("depth", metres="3"), "missing_argument", '"at"', {"at": "...", "metres": 3}
    )


@pytest.mark.parametrize("code", language.list_languages())
def test_every_fault_has_a_text_in_every_language(code: str) -> None:
    words = language.load(code)
    tool = Tool("depth", schema=SCHEMA, server="box")
    for fault in get_args(Fault):
        error = to_call_error(CallUnreadable(fault, "No brace.", "depth(at=)"), [tool], words)
        lines = write_correction(error, FORMATS["json"], words).splitlines()
        assert fault in lines[0] and error.message in lines[0]
        assert "\n".join(lines[2:]) == call_text("depth", at="...")
        assert ("No brace." in lines[0]) is fault.startswith(("bad_", "too_"))


def test_a_person_sees_the_fault_without_the_example() -> None:
    events = take_turn(make_chat([call_text("depth"), "Sorry."], toolbox_of()), "how deep?")
    (result,) = [event.result for event in events if isinstance(event, ToolFinished)]
    assert result.status == "failed" and '"at" is required' in result.text and "\n" not in result.text


def test_coercions_are_among_the_repairs_of_a_call() -> None:
    events = take_turn(make_chat([call_text("depth", at=7, metres="3"), "Deep."], toolbox_of()), "how deep?")
    assert [event.call for event in events if isinstance(event, ToolStarted)] == [
        ToolCall("depth", {"at": "7", "metres": 3}, ("at: integer to text", "metres: text to integer"))
    ]


@pytest.mark.parametrize(("last", "is_answer"), [("I cannot tell.", True), (BROKEN, False)])
def test_a_turn_has_two_corrections_and_then_an_answer_without_calls(last: str, is_answer: bool) -> None:
    bad = [f'Well. [TOOL_CALL]\n{{"name": depth{number}}}\n[END_TOOL_CALL]' for number in range(3)]
    toolbox = toolbox_of()
    chat = make_chat([*bad, last, last], toolbox)
    events = take_turn(chat, "how deep?")
    shown = [Text(last)] if is_answer else [Text(bad[2].removeprefix("Well. ")), GAVE_UP]
    assert events[-1 - len(shown) : -1] == shown
    end = end_of(events)
    assert (end.reason, end.answered_by) == (("answered", "forced") if is_answer else ("steps", "result"))
    assert len(end.usage) == (4 if is_answer else 5)
    assert are_corrected(chat) == [True, True, False]
    assert "bad_json" in messages_about_calls(chat)[2]
    assert toolbox.called == []


@pytest.mark.parametrize(
    "bad", [BROKEN, call_text("dept", at="Husum"), call_text("depth")], ids=["unreadable", "unknown", "missing"]
)
def test_the_same_bad_call_again_is_not_corrected_again(bad: str) -> None:
    chat = make_chat([bad, f"Once more: {bad}", "It is deep."], toolbox_of())
    events = take_turn(chat, "how deep?")
    assert are_corrected(chat) == [True, False]
    assert end_of(events).answered_by == "forced"
    assert [event for event in events if isinstance(event, Text)] == [Text("Once more: "), Text("It is deep.")]


def test_a_bad_call_that_was_improved_is_corrected_again() -> None:
    replies = [call_text("dept"), call_text("depth"), call_text("depth", at="Husum"), "Deep."]
    toolbox = toolbox_of()
    assert end_of(take_turn(make_chat(replies, toolbox), "how deep?")).reason == "answered"
    assert toolbox.called == [("depth", {"at": "Husum"})]


def test_a_reply_with_a_valid_call_goes_on_without_a_third_correction() -> None:
    replies = [f"{BROKEN}{call_text('height', at=number)}" for number in range(3)]
    toolbox = toolbox_of()
    chat = make_chat([*replies, "High."], toolbox)
    events = take_turn(chat, "how high?")
    assert len(toolbox.called) == 3
    assert end_of(events).reason == "answered"
    assert are_corrected(chat) == [True, False, False, False, False, False]


def test_the_next_turn_has_its_own_corrections() -> None:
    chat = make_chat([*[BROKEN] * 4, "Hello."], toolbox_of())
    assert end_of(take_turn(chat, "how deep?")).reason == "steps"
    assert end_of(take_turn(chat, "and now?")).reason == "answered"


def test_calls_with_other_arguments_all_run() -> None:
    chat = make_chat([*(call_text("depth", at=str(number)) for number in range(7)), "Deep."], toolbox_of())
    assert end_of(take_turn(chat, "how deep?")).reason == "answered"


def cut_reply(text: str) -> ScriptedReply:
    """A reply that ended because it reached its limit."""
    return ScriptedReply(text, usage=Usage(prompt_tokens=1, generated_tokens=1, hit_limit=True))


@pytest.mark.parametrize(("read_only", "called"), [(True, 1), (False, 0)], ids=["reads", "acts"])
def test_of_a_reply_that_was_cut_off_only_calls_that_read_are_run(read_only: bool, called: int) -> None:
    toolbox = toolbox_of(read_only=read_only)
    cut = call_text("depth", at="Husum") + " and then I will"
    chat = make_chat([cut_reply(cut), "Deep."], toolbox, policy=Policy(approve="all"))
    events = take_turn(chat, "how deep?")
    assert len(toolbox.called) == called
    assert end_of(events).reason == "answered"
    if not called:
        (text,) = messages_about_calls(chat)
        assert "truncated" in text and text.endswith(call_text("depth", at="Husum"))
        told = "[MCP: Tool 'depth' was not called: the reply was cut off, and the rest of it is unknown]"
        assert told in [describe_event(event, language.load()) for event in events]


def test_a_cut_off_reply_is_not_run_on_the_word_of_a_server_that_is_not_trusted() -> None:
    class Untrusted(FakeToolbox):
        @property
        def tools(self) -> list[Tool]:
            return [Tool("depth", server="box", read_only=True)]

    toolbox = Untrusted({"depth": depth})
    take_turn(make_chat([cut_reply(call_text("depth")), "Deep."], toolbox, policy=Policy(approve="read-only")), "deep?")
    assert toolbox.called == []
    take_turn(make_chat([call_text("depth"), "Deep."], toolbox, policy=Policy(approve="read-only")), "deep?")
    assert toolbox.called == [("depth", {})]


def test_a_call_that_is_cut_off_at_the_same_place_ends_the_turn_for_its_length() -> None:
    chat = make_chat([call_text("depth", at="H" * 400)] * 4, toolbox_of(), generation=Generation(max_tokens=20))
    events = take_turn(chat, "how deep?")
    raw = call_text("depth", at="H" * 400)[:80]
    unreadable = events[-4]
    assert isinstance(unreadable, CallUnreadable) and (unreadable.fault, unreadable.raw) == ("truncated", raw)
    assert events[-3:] == [Text(raw), GAVE_UP, TurnEnded("length", end_of(events).usage, "result")]


@pytest.mark.parametrize("raw", [BROKEN, "<tool_call name='depth'", "functions.box:depth(at=", '{"name": "depth", "a'])
def test_the_tool_that_was_meant_is_found_in_what_cannot_be_read(raw: str) -> None:
    tools = [Tool(name, server="box") for name in ("name", "arguments", "depth", "height")]
    assert find_named_tool(raw, tools) is tools[2]
    assert find_named_tool(raw, tools[:2]) is None


INNER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SAMPLES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {"a": 1}, {}),
    ({"properties": {"a": {"type": "string"}}}, {}, {}),
    ({"properties": {"a": {"type": "string", "examples": ["Husum"]}}, "required": ["a"]}, {}, {"a": "Husum"}),
    ({"properties": {"a": {"type": "integer", "default": 7}}, "required": ["a"]}, {}, {"a": 7}),
    ({"properties": {"a": {"type": "boolean"}, "b": {}}, "required": ["a", "b"]}, {}, {"a": True, "b": "..."}),
    ({"properties": {"a": {"type": "array", "items": {"enum": ["x"]}}}, "required": ["a"]}, {}, {"a": ["x"]}),
    ({"properties": {"a": INNER}, "required": ["a"]}, {"a": {"n": "one"}}, {"a": {"n": 1}}),
]


@pytest.mark.parametrize(("schema", "given", "wanted"), SAMPLES, ids=lambda part: str(part)[:60])
def test_an_example_has_the_required_and_the_given_arguments(
    schema: dict[str, Any], given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert build_example_arguments(Tool("t", schema=schema), given) == wanted


def test_an_example_of_a_schema_that_takes_too_many_steps_has_no_arguments() -> None:
    loop = {"allOf": [{"$ref": "#/$defs/loop"}] * 100}
    schema = {"$defs": {"loop": loop}, "properties": {"a": {"$ref": "#/$defs/loop"}}, "required": ["a"]}
    with limit_cpu(1):
        assert build_example_arguments(Tool("t", schema=schema), {}) == {}


def test_a_coerced_call_arrives_at_a_real_server_in_its_types(tmp_path: Path) -> None:
    server = next(config for config in configure() if config.name == "git")
    replies = [call_text("git_log", repo_path="a", max_count="few")]
    replies += [FORMATS["xml"].render_call("functions.git:git_log", {"repo_path": "a", "max_count": "2"}), "Done."]

    async def talk() -> tuple[list[Event], Conversation]:
        async with Toolbox([server], tmp_path / "logs") as toolbox:
            chat = Conversation(ScriptedBackend(replies), toolbox, Settings(policy=Policy(approve="all")), ENGLISH)
            return await collect(Turn(chat).run("the last two commits")), chat

    events, chat = asyncio.run(asyncio.wait_for(talk(), 30))
    failed, completed = (event.result for event in events if isinstance(event, ToolFinished))
    assert (failed.status, completed.status) == ("failed", "completed")
    assert '"max_count"' in failed.text and '"few"' in failed.text
    assert completed.text.endswith('{"max_count": 2, "repo_path": "a"}')
    assert messages_about_calls(chat)[0].endswith(call_text("git_log", repo_path="a", max_count=10))


def test_the_program_writes_the_events_of_a_turn_that_was_given_up(program: Run, script: Script) -> None:
    model = script(BROKEN, f"I try. {BROKEN}", BROKEN, BROKEN)
    done = program("-p", "x", "--model", model, "--output-format", "stream-json", "--no-servers", code=1)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["type"] for event in events if event["type"] != "text"]
    assert kinds == ["call_garbled", "call_garbled", "notice", "turn_ended"]
    assert "".join(event["text"] for event in events if event["type"] == "text") == f"I try. {BROKEN}"
    assert (events[-2]["text"], events[-1]["reason"]) == (GAVE_UP.text, "steps")


def test_the_answer_in_json_is_what_the_model_wrote(program: Run, script: Script) -> None:
    model = script(*[BROKEN] * 4)
    done = program("-p", "x", "--model", model, "--output-format", "json", "--no-servers", code=1)
    result = json.loads(done.stdout)["result"]
    assert (result["text"], result["reason"], result["notices"]) == (BROKEN, "steps", [GAVE_UP.text])
