"""A turn as a list of events, and the history it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from itertools import pairwise
from typing import Any, cast

import pytest

from chat.scripted_app import backend_of
from rkllm_chat.backends.scripted import ScriptedReply
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.events import (
    CallFound,
    CallsDetected,
    CallUnreadable,
    Event,
    Notice,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from rkllm_chat.core.messages import Message, Tool, ToolCall, ToolResult
from rkllm_chat.core.protocols import CallPosition, Consent, Continuation
from stage import FakeToolbox, call_text, make_chat, take_turn


async def depth(**arguments: Any) -> str:
    return f"depth of {arguments}"


class Approver:
    """Answers every question about a call alike, unless there is an answer for the tool."""

    def __init__(self, answer: Consent, **answers: Consent) -> None:
        self.answer, self.answers = answer, answers
        self.questions: list[tuple[str, Mapping[str, Any]]] = []

    async def __call__(self, tool: Tool, arguments: Mapping[str, Any], _position: CallPosition) -> Consent:
        self.questions.append((tool.full_name, arguments))
        return self.answers.get(tool.name, self.answer)


def statuses(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.result.status, event.result.text) for event in events if isinstance(event, ToolFinished)]


def test_a_turn_with_a_tool_is_these_events() -> None:
    chat = make_chat(["Let me see. " + call_text("depth", at="Husum"), "Two metres."], FakeToolbox({"depth": depth}))
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
    end = cast(TurnEnded, events[-1])
    assert (end.reason, len(end.usage)) == ("answered", 2)
    assert chat.history == [
        Message("user", "How deep?"),
        Message("assistant", "Let me see. " + call_text("depth", at="Husum")),
        Message("tool", result.text, result),
        Message("assistant", "Two metres."),
    ]


def test_each_prompt_begins_with_the_one_before() -> None:
    replies = ["Hi.", call_text("depth"), "Deep.", call_text("depth") + call_text("nothing"), "Deeper."]
    chat = make_chat(replies, FakeToolbox({"depth": depth}))
    for line in ("hello", "how deep?", "and now?"):
        take_turn(chat, line)
    prompts = backend_of(chat).prompts
    assert len(prompts) == 5
    assert all(after[: len(before)] == before for before, after in pairwise(prompts))


def test_calls_of_one_reply_run_side_by_side_and_answer_in_order() -> None:
    second_began = asyncio.Event()

    async def first() -> str:
        await asyncio.wait_for(second_began.wait(), 5)
        return "one"

    async def second() -> str:
        second_began.set()
        return "two"

    chat = make_chat(
        [call_text("first") + call_text("second"), "Done."], FakeToolbox({"first": first, "second": second})
    )
    events = take_turn(chat, "both")
    assert [e.result.text for e in events if isinstance(e, ToolFinished)] == ["two", "one"]
    assert [message.text for message in chat.history if message.role == "tool"] == ["one", "two"]


def test_a_garbled_call_is_reported_to_the_model_and_not_run() -> None:
    toolbox = FakeToolbox({"depth": depth})
    chat = make_chat(['[TOOL_CALL]\n{"name": depth}\n[END_TOOL_CALL]', call_text("depth"), "Deep."], toolbox)
    kinds = [type(event) for event in take_turn(chat, "how deep?")]
    assert kinds.count(CallUnreadable) == kinds.count(CallFound) == 1
    assert toolbox.called == [("depth", {})]
    correction = chat.history[2]
    assert correction.role == "tool" and correction.result is None
    assert "bad_json" in correction.text and "[TOOL_CALL]" in correction.text


def test_a_reply_cut_inside_a_call_runs_nothing() -> None:
    whole = call_text("depth", at="Husum")
    for end in (*range(1, whole.rindex("}")), len(whole)):
        toolbox = FakeToolbox({"depth": depth})
        take_turn(make_chat([whole[:end], "Sorry."], toolbox), "how deep?")
        assert toolbox.called == ([("depth", {"at": "Husum"})] if end == len(whole) else []), whole[:end]


def test_a_call_inside_thinking_is_not_run() -> None:
    toolbox = FakeToolbox({"depth": depth})
    events = take_turn(make_chat([f"<think>{call_text('depth')}</think>Hello."], toolbox), "hi")
    assert events[:2] == [Thought(call_text("depth")), Text("Hello.")] and toolbox.called == []


def test_a_call_is_coerced_to_the_schema_or_its_error_returned_to_the_model() -> None:
    schema = {"type": "object", "properties": {"metres": {"type": "integer"}}, "required": ["metres"]}
    toolbox = FakeToolbox({"depth": depth}, schemas={"depth": schema})
    calls = [call_text("depth", metres="3"), call_text("depth", metres="three"), call_text("depth"), call_text("dept")]
    events = take_turn(make_chat(["".join(calls), "Done."], toolbox), "how deep?")
    assert toolbox.called == [("depth", {"metres": 3})]
    assert statuses(events)[:3] == [
        ("failed", 'Argument "metres" must be a whole number, not "three".'),
        ("failed", 'Argument "metres" is required (a whole number).'),
        ("failed", 'There is no tool "dept". Did you mean depth?'),
    ]


@pytest.mark.parametrize(
    ("policy", "answer", "is_asked", "status"),
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
def test_a_call_runs_only_as_policy_and_user_decide(
    policy: Policy, answer: Consent, is_asked: bool, status: str
) -> None:
    toolbox, approve = FakeToolbox({"depth": depth}, read_only=False), Approver(answer)
    events = take_turn(make_chat([call_text("depth", at=1), "Done."], toolbox, approve, policy=policy), "how deep?")
    assert [event.result.status for event in events if isinstance(event, ToolFinished)] == [status]
    assert approve.questions == ([("box__depth", {"at": 1})] if is_asked else [])
    assert bool(toolbox.called) == (status == "completed")


def test_a_tool_that_is_always_allowed_is_asked_about_once() -> None:
    toolbox, approve = FakeToolbox({"depth": depth, "height": depth}, read_only=False), Approver("always")
    calls = [call_text("depth", at=1), call_text("depth", at=2) + call_text("height"), "Done."]
    take_turn(make_chat(calls, toolbox, approve), "how deep?")
    assert [name for name, _ in approve.questions] == ["box__depth", "box__height"]
    assert len(toolbox.called) == 3


def test_a_turn_has_a_limit_of_calls_and_the_next_turn_its_own() -> None:
    toolbox = FakeToolbox({"depth": depth})
    calls = [call_text("depth", at=1) + call_text("depth", at=2), call_text("depth", at=3), "Two.", call_text("depth")]
    chat = make_chat([*calls, "One more."], toolbox, policy=Policy("all", max_calls=2))
    assert [status for status, _ in statuses(take_turn(chat, "how deep?"))] == ["completed", "completed", "declined"]
    assert "No more tools can be called in this turn." in chat.history[-2].text
    assert [status for status, _ in statuses(take_turn(chat, "and now?"))] == ["completed"]
    assert len(toolbox.called) == 3


def test_stopping_at_a_question_runs_none_of_the_calls_and_ends_the_turn() -> None:
    toolbox = FakeToolbox({"depth": depth, "height": depth}, read_only=False)
    chat = make_chat([call_text("depth") + call_text("height"), "Never said."], toolbox, Approver("stop", depth="once"))
    events = take_turn(chat, "how deep?")
    assert toolbox.called == []
    assert cast(TurnEnded, events[-1]).reason == "stopped"
    assert [message.result.status for message in chat.history if message.result] == ["stopped", "stopped"]


@pytest.mark.parametrize(
    ("continuation", "text", "calls", "reason"),
    [("stop", "", 2, "steps"), (1, "", 3, "steps"), (5, "Four metres.", 4, "answered")],
)
def test_the_user_decides_how_a_turn_continues_after_its_last_round(
    continuation: Continuation, text: str, calls: int, reason: str
) -> None:
    asked: list[int] = []

    async def ask_to_continue(rounds: int) -> Continuation:
        asked.append(rounds)
        return continuation if len(asked) == 1 else "stop"

    toolbox = FakeToolbox({"depth": depth})
    chat = make_chat([*(call_text("depth", at=number) for number in range(4)), "Four metres."], toolbox, max_steps=2)
    chat.ask_to_continue = ask_to_continue
    *events, end = take_turn(chat, "how deep?")
    assert asked == ([2, 3] if continuation == 1 else [2])
    assert len(toolbox.called) == calls
    notice = Notice(f"Stopped after {calls} rounds of tool calls (max_steps). Write continue to go on.")
    assert (events[-1] == notice) == (reason == "steps")
    assert "".join(event.text for event in events if isinstance(event, Text)) == text
    assert cast(TurnEnded, end).reason == reason


@pytest.mark.parametrize(
    ("replies", "text", "answered_by"),
    [
        (["Four metres."], "Four metres.", "forced"),
        ([call_text("depth"), "Four metres."], "Four metres.", "forced"),
        (
            [call_text("depth"), call_text("depth")],
            "The model wrote no answer. Result of depth:\ndepth of {}",
            "result",
        ),
    ],
)
def test_a_last_reply_without_tools_runs_none(replies: list[str], text: str, answered_by: str) -> None:
    async def answer(_rounds: int) -> Continuation:
        return "answer"

    toolbox = FakeToolbox({"depth": depth})
    chat = make_chat([call_text("depth"), *replies], toolbox, max_steps=1)
    chat.ask_to_continue = answer
    events = take_turn(chat, "how deep?")
    assert len(toolbox.called) == 1
    assert "".join(event.text for event in events if isinstance(event, Text)) == text
    end = cast(TurnEnded, events[-1])
    assert (end.reason, end.answered_by) == ("answered", answered_by)
    assert [message.role for message in chat.history][:4] == ["user", "assistant", "tool", "assistant"]
    assert backend_of(chat).prompts[1][-1].text.endswith("Answer the question from this result.")


async def leave_at(chat: Conversation, line: str, kind: tuple[type[Event], ...] = (), count: int = 0) -> list[Event]:
    """Run a turn and close its stream at the first event of a kind, or after `count` events; return the events."""
    seen: list[Event] = []
    async with aclosing(Turn(chat).run(line)) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, kind) or len(seen) == count:
                break
    return seen


@pytest.mark.parametrize("text", ["", "Once upon"])
def test_cancelling_the_task_of_a_turn_keeps_what_was_generated(text: str) -> None:
    chat, texts = make_chat([ScriptedReply(text, wait=True)]), list[str]()

    async def read() -> None:
        async with aclosing(Turn(chat).run("a story")) as events:
            async for event in events:
                texts.append(event.text if isinstance(event, Text) else "")

    async def play() -> None:
        reading = asyncio.create_task(read())
        while not backend_of(chat).prompts or "".join(texts) != text:  # noqa: ASYNC110 - the script has no event for it
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()

    asyncio.run(play())
    assert chat.history == [Message("user", "a story"), *([Message("assistant", text)] if text else [])]
    chat.backend = backend_of(make_chat(["Fine."]))
    take_turn(chat, "a poem")
    asked = [message.text for message in backend_of(chat).prompts[0] if message.role == "user"]
    assert asked == (["a story", "a poem"] if text else ["a story\n\na poem"])


@pytest.mark.parametrize("kind", [CallFound, CallsDetected, ToolStarted, ToolProgress])
def test_leaving_around_a_call_answers_it_as_stopped(kind: type[Event]) -> None:
    cancelled: list[bool] = []

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        return ""

    chat = make_chat([call_text("endless") + " and"], FakeToolbox({"endless": endless}))
    asyncio.run(leave_at(chat, "go", (kind,)))
    assert [message.role for message in chat.history] == ["user", "assistant", "tool"]
    assert chat.history[2].result is not None and chat.history[2].result.status == "stopped"
    assert cancelled == [True]


def test_an_engine_that_fails_leaves_a_whole_history() -> None:
    chat = make_chat([])
    with pytest.raises(GenerationError, match="one more was requested"):
        take_turn(chat, "hello")
    assert chat.history == [Message("user", "hello")]


def test_leaving_anywhere_leaves_a_consistent_history_and_a_usable_chat() -> None:
    garbled = '[TOOL_CALL]{"name": }[END_TOOL_CALL]'
    replies = ["Well. " + call_text("depth") + garbled + call_text("depth", at=1), call_text("nothing"), "Done."]
    for count in range(1, 100):
        chat = make_chat([*replies, "Again."], FakeToolbox({"depth": depth}))
        seen = asyncio.run(leave_at(chat, "go", count=count))
        kept = [message for message in chat.history if message.reply_kind != "discarded"]
        generated = "".join(message.text for message in kept if message.role == "assistant")
        calls = [event for event in Scanner().feed(generated) if isinstance(event, CallFound | CallUnreadable)]
        assert chat.history[0] == Message("user", "go")
        assert sum(message.role == "tool" for message in chat.history) == len(calls)
        backend = backend_of(chat)
        del backend.replies[backend.played : -1]
        assert take_turn(chat, "and now?")[0] == Text("Again.")
        if len(seen) < count:
            break
    assert count > 10 and isinstance(seen[-1], TurnEnded)
