"""A turn always ends with something a person can use, whatever the model writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.scripted_app import backend_of
from fuzzing import examples
from rkllm_chat.backends.scripted import ScriptedReply
from rkllm_chat.chat.answer import Answer
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.events import Event, ReplyDiscarded, Text, ToolFinished, TurnEnded
from rkllm_chat.core.messages import Tool
from rkllm_chat.core.protocols import CallPosition, Consent, Continuation, Decline
from stage import FakeToolbox, call_text, make_chat, take_turn

Run = Callable[..., Any]
LOOK, SEE, MOVE = call_text("look", place="Husum"), call_text("look", place="Emden"), call_text("move", to="Leer")
ANSWER_NOW = "Answer the question from this result."


class Harbour(FakeToolbox):
    """Has `look`, which only reads, `move`, which may change something, and `fail`."""

    def __init__(self) -> None:
        super().__init__({"look": self._look, "move": self._move, "fail": self._fail})

    @property
    def tools(self) -> Sequence[Tool]:
        schemas: dict[str, dict[str, Any]] = {"look": {"properties": {"place": {}}}, "move": {"properties": {"to": {}}}}
        return [
            Tool(name, "", schemas.get(name, {}), "box", read_only=name == "look", trusted=True)
            for name in self.functions
        ]

    async def _look(self, place: str = "Husum") -> str:
        return f"{place} is quiet"

    async def _move(self, to: str = "Leer") -> str:
        return f"moved to {to}"

    async def _fail(self) -> str:
        raise ValueError("it is broken")


def open_harbour(replies: Sequence[str | ScriptedReply], **chosen: Any) -> tuple[Conversation, Harbour]:
    toolbox = Harbour()
    return make_chat(replies, toolbox, **{"policy": Policy("all"), **chosen}), toolbox


def read_answer(events: Sequence[Event]) -> tuple[str, str, str]:
    """Text without the program's line on what was called, reason, and who wrote it."""
    answer = Answer()
    for event in events:
        if not (isinstance(event, Text) and event.is_report):
            answer.add(event)
    return answer.text, answer.end.reason, answer.end.answered_by


def test_a_repeated_call_is_discarded_and_the_answer_generated_from_its_result() -> None:
    chat, toolbox = open_harbour([LOOK, f"Let me see. {LOOK}", "It is quiet.", "You are welcome."])
    events = take_turn(chat, "Is Husum quiet?")
    assert toolbox.called == [("look", {"place": "Husum"})]
    assert read_answer(events) == ("It is quiet.", "answered", "forced")
    assert sum(isinstance(event, ReplyDiscarded) for event in events) == 1
    assert [message.reply_kind for message in chat.history if message.role == "assistant"] == [
        "",
        "discarded",
        "forced",
    ]
    take_turn(chat, "Thanks!")
    _first, repeated, forced, following = backend_of(chat).prompts
    assert repeated[-1].text.endswith("Answer the question from this result, or use another tool.")
    assert forced[:-1] == repeated[:-1] and forced[-1].text.endswith(f"Husum is quiet\n{ANSWER_NOW}")
    assert following[: len(forced)] == forced  # what the engine has evaluated stays valid
    assert [(message.role, message.text) for message in following[len(forced) :]] == [
        ("assistant", "It is quiet."),
        ("user", "Thanks!"),
    ]


def test_a_call_of_what_is_no_tool_leaves_no_trace_in_the_prompt() -> None:
    """So small models say that no tool fits, to a greeting too; an error beside it became part of their answer."""
    chat, toolbox = open_harbour([call_text("hello", message="Moin"), "Moin!", "You are welcome."])
    events = take_turn(chat, "Hello!")
    assert ReplyDiscarded(reason="nameless") in events and read_answer(events) == ("Moin!", "answered", "forced")
    take_turn(chat, "Thanks!")
    first, answering, following = backend_of(chat).prompts
    assert answering == first and toolbox.called == []
    assert [message.text for message in following[1:]] == ["Hello!", "Moin!", "Thanks!"]


def test_a_title_in_place_of_the_name_calls_the_only_tool_with_its_arguments_if_it_only_reads() -> None:
    chat, toolbox = open_harbour([call_text("Harbour of Husum", place="Husum"), "Quiet.", "Bye."])
    assert read_answer(take_turn(chat, "Is Husum quiet?")) == ("Quiet.", "answered", "model")
    assert toolbox.called == [("look", {"place": "Husum"})]
    chat, toolbox = open_harbour([call_text("Trip to Leer", to="Leer"), MOVE, "Done."])
    take_turn(chat, "Go to Leer.")
    told = backend_of(chat).prompts[1][-1].text
    assert 'There is no tool "Trip to Leer"' in told and "move" in told and toolbox.called == [("move", {"to": "Leer"})]
    for name, arguments in (("hello", {"place": "Husum"}), ("Hello there", {"to": "Leer", "place": "Husum"})):
        chat, toolbox = open_harbour([call_text(name, **arguments), "Moin!"])
        assert ReplyDiscarded(reason="nameless") in take_turn(chat, "Hello!") and toolbox.called == []


def test_the_answer_is_asked_for_once_more_without_tools_and_then_the_result_is_shown() -> None:
    chat, toolbox = open_harbour([LOOK, LOOK, LOOK, "Quiet."])
    assert read_answer(take_turn(chat, "Is Husum quiet?")) == ("Quiet.", "answered", "forced")
    flat = backend_of(chat).prompts[-1]
    assert [message.role for message in flat] == ["system", "user"] and "look" not in flat[0].text
    assert flat[1].text == f'Is Husum quiet?\n\nResult of look {{"place": "Husum"}}:\nHusum is quiet\n\n{ANSWER_NOW}'
    chat, _ = open_harbour([LOOK, LOOK, LOOK + "```", "It is quiet."])  # neither a call nor a fence is an answer
    take_turn(chat, "Is Husum quiet?")
    kinds = [message.reply_kind for message in chat.history if message.role == "assistant"]
    assert kinds == ["", "discarded", "discarded", "forced"]
    chat, _ = open_harbour([LOOK, "It is quiet.\n\n"])  # the last piece has no word
    assert read_answer(take_turn(chat, "Is Husum quiet?")) == ("It is quiet.", "answered", "model")
    chat, toolbox = open_harbour([LOOK] * 4)
    text = "The model wrote no answer. Result of look:\nHusum is quiet"
    assert read_answer(take_turn(chat, "Is Husum quiet?")) == (text, "answered", "result")
    assert len(toolbox.called) == 1 and "Husum is quiet" not in chat.history[-1].text


@pytest.mark.parametrize(
    ("replies", "called"),
    [
        ([LOOK, LOOK], ["look"]),
        ([LOOK + MOVE, LOOK + MOVE], ["look", "move"]),
        ([LOOK + MOVE, MOVE], ["look", "move"]),
        ([LOOK, MOVE, LOOK, LOOK], ["look", "move", "look"]),  # what was moved may be seen again, once
        ([LOOK, SEE, LOOK, SEE], ["look", "look", "look"]),  # two that only read need not alternate until the limit
        ([LOOK, MOVE, LOOK, MOVE, LOOK], ["look", "move", "look"]),
        ([MOVE, LOOK, MOVE], ["move", "look"]),  # nobody is there to be asked again
        ([LOOK + LOOK], ["look"]),
        ([MOVE + MOVE], ["move"]),
        ([call_text("fail"), call_text("fail")], ["fail"]),
    ],
)
def test_a_call_runs_again_only_if_it_reads_and_another_was_made_since(replies: list[str], called: list[str]) -> None:
    chat, toolbox = open_harbour([*replies, "Done."])
    assert read_answer(take_turn(chat, "Look at Husum and Emden and move to Leer."))[:2] == ("Done.", "answered")
    assert [name for name, _ in toolbox.called] == called


def test_the_user_is_asked_again_before_a_call_changes_something_twice() -> None:
    asked: list[str] = []

    async def approve(tool: Tool, _arguments: Mapping[str, Any], _position: CallPosition) -> Consent:
        asked.append(tool.name)
        return "once"

    toolbox = Harbour()
    chat = make_chat([MOVE, LOOK, MOVE, "Done."], toolbox, approve, policy=Policy(allow=("box__*",)))
    take_turn(chat, "Go.")
    assert [name for name, _ in toolbox.called] == ["move", "look", "move"] and asked == ["move"]


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        (["", "Here."], ("Here.", "answered", "forced")),
        ([LOOK, "", "Quiet."], ("Quiet.", "answered", "forced")),
        ([call_text("sail"), call_text("sail"), "I cannot sail."], ("I cannot sail.", "answered", "forced")),
        (
            [call_text("fail"), "", "", ""],
            ("The model wrote no answer. fail failed:\nit is broken", "steps", "result"),
        ),
    ],
)
def test_an_empty_reply_or_a_wrong_call_is_no_end(replies: list[str], answer: tuple[str, str, str]) -> None:
    chat, _ = open_harbour(replies)
    assert read_answer(take_turn(chat, "Go.")) == answer


def test_a_thought_that_is_cut_off_behind_a_result_is_no_end() -> None:
    chat, _ = open_harbour([LOOK, "<think>" + "Hm. Well, let me see what else there is. " * 9, "Quiet."])
    chat.settings = replace(chat.settings, generation=Generation(max_tokens=30))
    assert read_answer(take_turn(chat, "Go.")) == ("Quiet.", "answered", "forced")


@pytest.mark.parametrize("consent", ["once", "no"])
def test_a_call_that_the_answer_describes_runs_only_if_the_user_wants_it(consent: Consent) -> None:
    positions: list[CallPosition] = []

    async def approve(_tool: Tool, _arguments: Mapping[str, Any], position: CallPosition) -> Consent:
        positions.append(position)
        return consent

    toolbox = Harbour()
    fenced = '```json\n{"name": "look", "arguments": {"place": "Husum"}}\n```'
    text = f"You can look there:\n{fenced}\nThis tells you whether it is quiet."
    chat = make_chat([text, "I look.", "It is quiet."], toolbox, approve, policy=Policy("all"))
    answer, reason, _ = read_answer(take_turn(chat, "How do I look?"))
    assert positions == [CallPosition(is_described=True)]
    assert (toolbox.called, answer) == (
        ([("look", {"place": "Husum"})], "It is quiet.") if consent == "once" else ([], text)
    )
    assert reason == "answered"


@pytest.mark.parametrize("consent", ["no", "stop", Decline("It is dark.")])
def test_who_declines_a_described_call_is_asked_about_no_other(consent: Consent | Decline) -> None:
    asked: list[object] = []

    async def approve(_tool: Tool, arguments: Mapping[str, Any], _position: CallPosition) -> Consent | Decline:
        asked.append(arguments["to"])
        return consent

    text = '```json\n{"name": "move", "arguments": {"to": "Leer"}}\n```\nThis moves the ship.'
    chat = make_chat([text, MOVE, MOVE], Harbour(), approve, prompt_profile="qwen2.5")
    answer, reason, _ = read_answer(take_turn(chat, "How do I move the ship to Leer and to Emden?"))
    assert (answer, reason, asked) == (text, "answered", ["Leer"])


async def answer_in_the_end(_rounds: int) -> Continuation:
    return "answer"


REPLIES = st.lists(
    st.sampled_from(
        [
            LOOK,
            MOVE,
            call_text("look", place="Leer"),
            call_text("fail"),
            call_text("sail"),
            LOOK + MOVE,
            "",
            " \n",
            "It is quiet.",
            "look",
            f"I look. {LOOK}",
            '{"name": "look", "arguments": {}}',
            '[TOOL_CALL]{"name": }[END_TOOL_CALL]',
            '{"name": "look", "arguments": {"place": "Husum"}',
            "<think>",
            '```json\n{"name": "look", "arguments": {}}\n``` shows it.',
        ]
    ),
    max_size=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(replies=REPLIES, last=st.sampled_from([LOOK, "", call_text("sail"), "look"]), rounds=st.integers(1, 4))
def test_whatever_a_model_writes_the_turn_ends_with_a_text_and_nothing_is_changed_twice(
    replies: list[str], last: str, rounds: int
) -> None:
    chat, toolbox = open_harbour([*replies, *[last] * 20], max_steps=rounds)
    chat.ask_to_continue = answer_in_the_end
    events = take_turn(chat, "Go.")
    text, reason, _ = read_answer(events)
    completed = [event for event in events if isinstance(event, ToolFinished) and event.result.status == "completed"]
    assert reason in ("answered", "steps")
    assert (reason == "answered") >= bool(completed)
    assert text if completed else True
    assert sum(name == "move" for name, _ in toolbox.called) <= 1
    assert isinstance(events[-1], TurnEnded)
    assert not any(isinstance(event, Text) and "[TOOL_CALL]" in event.text for event in events if completed)


GET_TIDE = '{"name": "get_tide", "arguments": {"harbour": "Husum"}}'
TIDE_CALL = f"<tool_call>\n{GET_TIDE}\n</tool_call>"
RISING = "The tide at Husum is 2.4 metres"
SERVER = ("--config", "harbour.toml", "--allow", "get_tide")

# What real small models wrote -> texts of which the answer has one, and how it came about.
MISBEHAVIOURS: dict[str, tuple[str, list[str], str, str]] = {
    "an equal call again and again": (
        "qwen2.5-coder-0.5b-instruct",
        [TIDE_CALL] * 8,
        RISING,
        "result",
    ),
    "a call in a fence": ("qwen2.5-coder-0.5b-instruct", [f"```json\n{GET_TIDE}\n```", "2.4 m."], "2.4 m.", "model"),
    "a missing brace": (
        "qwen2.5-coder-0.5b-instruct",
        [GET_TIDE[:-1]] * 3,
        RISING,
        "result",
    ),
    "a tool that does not exist": (
        "qwen2.5-coder-0.5b-instruct",
        [TIDE_CALL.replace("get_tide", "get_weather")] * 2 + ["I cannot."] * 2,
        "I cannot.",
        "forced",
    ),
    "a call described in prose": (
        "qwen2.5-coder-1.5b-instruct",
        [f"To get the tide, use:\n```json\n{GET_TIDE}\n```\nThis returns the tide.", "2.4 m."],
        "2.4 m.",
        "model",
    ),
    "the name of a tool": (
        "qwen2.5-coder-0.5b-instruct",
        ["get_tide", TIDE_CALL, "It is 2.4 m."],
        "It is 2.4 m.",
        "model",
    ),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_a_script_gets_an_answer_where_a_real_model_misbehaved(name: str, program: Run, harbour: Path) -> None:
    model, replies, text, answered_by = MISBEHAVIOURS[name]
    replies = [*replies, *replies[-1:] * (8 - len(replies))] if answered_by == "result" else replies
    (harbour / "replies.json").write_text(json.dumps({"model": model, "replies": replies}), encoding="utf-8")
    asked = ("-p", "How high is the tide in Husum?", "--backend", "scripted", "--model", "replies.json", *SERVER)
    result = json.loads(program(*asked, "--output-format", "json").stdout)["result"]
    assert text in result["text"]
    assert (result["answered_by"], result["reason"]) == (answered_by, "answered")
    assert len(result["calls"]) <= 2 and result["suggested_calls"] == []
