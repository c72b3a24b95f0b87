"""A turn as a list of events, and the history it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from itertools import pairwise
from typing import Any, cast

import pytest

from rkllm_chat.backends.scripted import Reply, Scripted
from rkllm_chat.chat import Chat, Onward
from rkllm_chat.errors import GenerationError
from rkllm_chat.events import (
    CallFound,
    CallGarbled,
    CallsDetected,
    Event,
    Notice,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from rkllm_chat.messages import NOTHING_SAID, Message, Tool, ToolCall, ToolResult
from rkllm_chat.policy import Consent, Policy
from rkllm_chat.scanner import Scanner
from stage import Box, call_text, make_chat, take_turn


async def depth(**arguments: Any) -> str:
    return f"depth of {arguments}"


def statuses(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.result.status, event.result.text) for event in events if isinstance(event, ToolFinished)]


def test_a_turn_with_a_tool_is_these_events() -> None:
    chat = make_chat(["Let me see. " + call_text("depth", at="Husum"), "Two metres."], Box({"depth": depth}))
    events = take_turn(chat, "How deep?")
    call = ToolCall("depth", {"at": "Husum"})
    result = ToolResult("box", "depth", {"at": "Husum"}, "completed", "depth of {'at': 'Husum'}")
    assert events[:-1] == [
        Text("Let me see. "),
        CallFound(call),
        CallsDetected(1),
        ToolStarted("box", "depth", call),
        ToolProgress("box", "depth", 1, 2, "half"),
        ToolFinished(result),
        Text("Two metres."),
    ]
    end = events[-1]
    assert isinstance(end, TurnEnded)
    assert (end.reason, len(end.usage)) == ("answered", 2)
    assert chat.history == [
        Message("user", "How deep?"),
        Message("assistant", "Let me see. " + call_text("depth", at="Husum")),
        Message("tool", result.text, result),
        Message("assistant", "Two metres."),
    ]


def test_each_prompt_begins_with_the_one_before() -> None:
    replies = ["Hi.", call_text("depth"), "Deep.", call_text("depth") + call_text("nothing"), "Deeper."]
    chat = make_chat(replies, Box({"depth": depth}))
    for line in ("hello", "how deep?", "and now?"):
        take_turn(chat, line)
    assert isinstance(chat.backend, Scripted)
    prompts = chat.backend.prompts
    assert len(prompts) == 5
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before


def test_calls_of_one_reply_run_side_by_side_and_answer_in_order() -> None:
    second_began = asyncio.Event()

    async def first() -> str:
        await asyncio.wait_for(second_began.wait(), 5)
        return "one"

    async def second() -> str:
        second_began.set()
        return "two"

    chat = make_chat([call_text("first") + call_text("second"), "Done."], Box({"first": first, "second": second}))
    events = take_turn(chat, "both")
    assert [e.result.text for e in events if isinstance(e, ToolFinished)] == ["two", "one"]
    assert [message.text for message in chat.history if message.role == "tool"] == ["one", "two"]


def test_a_garbled_call_is_told_back_and_not_run() -> None:
    box = Box({"depth": depth})
    chat = make_chat(['[TOOL_CALL]\n{"name": depth}\n[END_TOOL_CALL]', call_text("depth"), "Deep."], box)
    events = take_turn(chat, "how deep?")
    assert [type(event) for event in events if isinstance(event, CallGarbled | CallFound)] == [CallGarbled, CallFound]
    assert box.called == [("depth", {})]
    remark = chat.history[2]
    assert remark.role == "tool" and remark.result is None
    assert "bad_json" in remark.text and "[TOOL_CALL]" in remark.text


def test_a_reply_cut_inside_a_call_runs_nothing() -> None:
    whole = call_text("depth", at="Husum")
    body_end = whole.rindex("}")
    for end in range(1, body_end):
        box = Box({"depth": depth})
        take_turn(make_chat([whole[:end], "Sorry."], box), "how deep?")
        assert box.called == [], whole[:end]
    box = Box({"depth": depth})
    take_turn(make_chat([whole, "Deep."], box), "how deep?")
    assert box.called == [("depth", {"at": "Husum"})]


def test_a_call_inside_thinking_is_not_run() -> None:
    box = Box({"depth": depth})
    events = take_turn(make_chat([f"<think>{call_text('depth')}</think>Hello."], box), "hi")
    assert events[:2] == [Thought(call_text("depth")), Text("Hello.")]
    assert box.called == []


def test_an_unknown_tool_is_told_with_its_neighbours() -> None:
    events = take_turn(make_chat([call_text("dept"), "Sorry."], Box({"depth": depth})), "how deep?")
    assert statuses(events) == [("failed", 'There is no tool "dept". Did you mean depth?')]


def test_arguments_are_coerced_to_the_schema_or_told_back() -> None:
    schema = {"type": "object", "properties": {"metres": {"type": "integer"}}, "required": ["metres"]}
    box = Box({"depth": depth}, schemas={"depth": schema})
    replies = [call_text("depth", metres="3"), call_text("depth", metres="three"), call_text("depth"), "Done."]
    events = take_turn(make_chat(replies, box), "how deep?")
    assert box.called == [("depth", {"metres": 3})]
    assert statuses(events)[1:] == [
        ("failed", 'Argument "metres" must be a whole number, not "three".'),
        ("failed", 'Argument "metres" is required (a whole number).'),
    ]


def test_a_failing_tool_is_a_result() -> None:
    async def broken() -> str:
        raise ValueError("no water")

    events = take_turn(make_chat([call_text("broken"), "Sorry."], Box({"broken": broken})), "how deep?")
    assert statuses(events) == [("failed", "no water")]
    assert isinstance(events[-1], TurnEnded)


@pytest.mark.parametrize(
    ("policy", "answer", "asked", "status"),
    [
        (Policy(), "once", True, "completed"),
        (Policy(), "no", True, "declined"),
        (Policy(), "stop", True, "stopped"),
        (Policy(allow=("depth",)), "no", False, "completed"),
        (Policy(allow=("depth",), deny=("box__*",)), "once", False, "declined"),
        (Policy(approve="none"), "once", False, "declined"),
        (Policy(approve="all"), "no", False, "completed"),
    ],
    ids=["asked: yes", "asked: no", "asked: stop", "allowed", "denied", "none", "all"],
)
def test_a_call_runs_only_as_the_policy_and_the_user_say(
    policy: Policy, answer: Consent, asked: bool, status: str,
) -> None:  # fmt: skip
    questions: list[tuple[str, Mapping[str, Any]]] = []

    async def approve(tool: Tool, arguments: Mapping[str, Any]) -> Consent:
        questions.append((tool.full_name, arguments))
        return answer

    box = Box({"depth": depth}, read_only=False)
    events = take_turn(make_chat([call_text("depth", at=1), "Done."], box, approve, policy=policy), "how deep?")
    assert [event.result.status for event in events if isinstance(event, ToolFinished)] == [status]
    assert questions == ([("box__depth", {"at": 1})] if asked else [])
    assert bool(box.called) == (status == "completed")


def test_a_tool_that_is_always_allowed_is_asked_about_once() -> None:
    questions: list[str] = []

    async def approve(tool: Tool, _arguments: Mapping[str, Any]) -> Consent:
        questions.append(tool.full_name)
        return "always"

    box = Box({"depth": depth, "height": depth}, read_only=False)
    calls = [call_text("depth", at=1), call_text("depth", at=2) + call_text("height"), "Done."]
    take_turn(make_chat(calls, box, approve), "how deep?")
    assert questions == ["box__depth", "box__height"]
    assert len(box.called) == 3


def test_a_turn_has_a_limit_of_calls_and_the_next_turn_its_own() -> None:
    box = Box({"depth": depth})
    calls = [call_text("depth", at=1) + call_text("depth", at=2), call_text("depth", at=3), "Two.", call_text("depth")]
    chat = make_chat([*calls, "One more."], box, policy=Policy("all", max_calls=2))
    assert [status for status, _ in statuses(take_turn(chat, "how deep?"))] == ["completed", "completed", "declined"]
    assert "No more tools can be called in this turn." in chat.history[-2].text
    assert [status for status, _ in statuses(take_turn(chat, "and now?"))] == ["completed"]
    assert len(box.called) == 3


def test_stopping_at_a_question_runs_none_of_the_calls_and_ends_the_turn() -> None:
    async def approve(tool: Tool, _arguments: Mapping[str, Any]) -> Consent:
        return "once" if tool.name == "depth" else "stop"

    box = Box({"depth": depth, "height": depth}, read_only=False)
    chat = make_chat([call_text("depth") + call_text("height"), "Never said."], box, approve)
    events = take_turn(chat, "how deep?")
    assert box.called == []
    assert cast(TurnEnded, events[-1]).reason == "stopped"
    assert [message.result.status for message in chat.history if message.result] == ["stopped", "stopped"]


@pytest.mark.parametrize(
    ("onward", "said", "called", "reason"),
    [
        ("stop", "", 2, "steps"),
        (1, "", 3, "steps"),
        (5, "Four metres.", 4, "answered"),
    ],
)
def test_somebody_says_how_it_goes_on_after_the_last_round(onward: Onward, said: str, called: int, reason: str) -> None:
    asked: list[int] = []

    async def at_limit(rounds: int) -> Onward:
        asked.append(rounds)
        return onward if len(asked) == 1 else "stop"

    box = Box({"depth": depth})
    chat = make_chat([*(call_text("depth", at=number) for number in range(4)), "Four metres."], box, max_steps=2)
    chat.at_limit = at_limit
    events = take_turn(chat, "how deep?")
    assert asked[0] == 2 and len(box.called) == called
    assert "".join(event.text for event in events if isinstance(event, Text)) == said
    assert cast(TurnEnded, events[-1]).reason == reason


@pytest.mark.parametrize(("last", "reason"), [("Four metres.", "answered"), (call_text("depth"), "steps")])
def test_a_last_reply_without_tools_runs_none(last: str, reason: str) -> None:
    async def at_limit(_rounds: int) -> Onward:
        return "answer"

    box = Box({"depth": depth})
    chat = make_chat([call_text("depth"), last], box, max_steps=1)
    chat.at_limit = at_limit
    events = take_turn(chat, "how deep?")
    assert len(box.called) == 1
    assert cast(TurnEnded, events[-1]).reason == reason
    roles = [message.role for message in chat.history]
    assert roles[:5] == ["user", "assistant", "tool", "tool", "assistant"]
    assert chat.history[3].text.startswith("There are no more tool calls")


def test_a_turn_ends_after_its_rounds() -> None:
    box = Box({"depth": depth})
    events = take_turn(make_chat([call_text("depth")] * 5, box, max_steps=3), "how deep?")
    assert len(box.called) == 3
    assert events[-2] == Notice("Stopped after 3 rounds of tool calls.")
    assert isinstance(events[-1], TurnEnded) and events[-1].reason == "steps"


async def leave_at(chat: Chat, line: str, kind: type[Event]) -> None:
    """Walks away from a turn at the first event of a kind."""
    async with aclosing(chat.send(line)) as events:
        async for event in events:
            if isinstance(event, kind):
                return


def test_walking_away_from_an_answer_keeps_what_was_said() -> None:
    chat = make_chat([Reply("Once upon", wait=True), "Again."])
    asyncio.run(leave_at(chat, "a story", Text))
    assert chat.history == [Message("user", "a story"), Message("assistant", "Once")]
    assert take_turn(chat, "go on")[0] == Text("Again.")


def test_stopping_the_task_of_a_turn_keeps_what_was_said() -> None:
    chat = make_chat([Reply("Once upon", wait=True)])

    async def talk() -> None:
        said = asyncio.Event()

        async def listen() -> None:
            heard = ""
            async with aclosing(chat.send("a story")) as events:
                async for event in events:
                    heard += event.text if isinstance(event, Text) else ""
                    if heard == "Once upon":
                        said.set()

        listening = asyncio.create_task(listen())
        await asyncio.wait_for(said.wait(), 5)
        listening.cancel()
        await asyncio.wait([listening])
        assert listening.cancelled()

    asyncio.run(talk())
    assert chat.history == [Message("user", "a story"), Message("assistant", "Once upon")]


def test_walking_away_before_a_word_leaves_a_whole_history() -> None:
    chat = make_chat([Reply("", wait=True)])

    async def talk() -> None:
        listening = asyncio.ensure_future(anext(chat.send("hello")))
        assert isinstance(chat.backend, Scripted)
        while not chat.backend.prompts:  # noqa: ASYNC110 - the script begins when it is asked
            await asyncio.sleep(0)
        listening.cancel()
        await asyncio.wait([listening])

    asyncio.run(talk())
    assert chat.history == [Message("user", "hello"), Message("assistant", NOTHING_SAID)]


@pytest.mark.parametrize("kind", [CallFound, CallsDetected, ToolStarted, ToolProgress])
def test_walking_away_around_a_call_answers_it_as_stopped(kind: type[Event]) -> None:
    cancelled: list[bool] = []

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        return ""

    chat = make_chat([call_text("endless") + " and"], Box({"endless": endless}))
    asyncio.run(leave_at(chat, "go", kind))
    assert [message.role for message in chat.history] == ["user", "assistant", "tool"]
    assert chat.history[2].result is not None and chat.history[2].result.status == "stopped"
    assert cancelled == ([] if kind is CallFound else [True])  # it was to begin then; it runs while the model writes on


def test_an_engine_that_fails_leaves_a_whole_history() -> None:
    chat = make_chat([])
    with pytest.raises(GenerationError, match="asked for one more"):
        take_turn(chat, "hello")
    assert chat.history == [Message("user", "hello"), Message("assistant", NOTHING_SAID)]


def test_the_oldest_turns_leave_when_the_context_is_full() -> None:
    chat = make_chat(["word " * 20] * 10, context=200)
    events = [take_turn(chat, f"question {number} " + "x" * 80) for number in range(10)]
    notices = [event for happened in events for event in happened if isinstance(event, Notice)]
    assert notices and "no longer shown" in notices[0].text
    assert isinstance(chat.backend, Scripted)
    last = chat.backend.prompts[-1]
    assert [message.role for message in last[:2]] == ["system", "user"]
    assert chat.backend.count_tokens(last) <= 150
    assert "question 9" in last[-1].text
    assert len(chat.history) == 20


def test_a_long_result_is_cut_in_its_middle() -> None:
    async def long() -> str:
        return "begin " + "x" * 10_000 + " end"

    chat = make_chat([call_text("long"), "Read."], Box({"long": long}), context=1000)
    take_turn(chat, "read")
    shown = chat.history[2]
    assert shown.text.startswith("begin ") and shown.text.endswith(" end") and "left out" in shown.text
    assert 250 < chat.backend.count_tokens([shown]) <= 375  # half of what is free
    assert shown.result is not None and len(shown.result.text) == 10_010


def test_walking_away_anywhere_leaves_a_whole_history_and_a_chat_that_goes_on() -> None:
    garbled = '[TOOL_CALL]{"name": }[END_TOOL_CALL]'
    replies = ["Well. " + call_text("depth") + garbled + call_text("depth", at=1), call_text("nothing"), "Done."]
    whole = take_turn(make_chat(replies, Box({"depth": depth})), "go")
    pieces = 0
    while True:
        pieces += 1
        chat = make_chat([*replies, "Again."], Box({"depth": depth}))
        ended = asyncio.run(leave_after(chat, "go", pieces))
        said = [message.text for message in chat.history if message.role == "assistant"]
        calls = [one for text in said for one in Scanner().feed(text) if isinstance(one, CallFound | CallGarbled)]
        assert chat.history[0] == Message("user", "go")
        assert sum(message.role == "tool" for message in chat.history) == len(calls)
        assert isinstance(chat.backend, Scripted)
        del chat.backend.replies[chat.backend.played : -1]
        assert take_turn(chat, "and now?")[0] == Text("Again.")
        if ended:
            break
    assert pieces > len(whole) > 10


async def leave_after(chat: Chat, line: str, count: int) -> bool:
    """Walks away after `count` events; says whether the turn had ended by then."""
    async with aclosing(chat.send(line)) as events:
        async for event in events:
            count -= 1
            if not count:
                return isinstance(event, TurnEnded)
    return True
