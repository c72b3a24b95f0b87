"""What a turn remembers between two steps: a reply that was cut, a result that was replaced, a turn begun elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from chat.test_answers import LOOK, MOVE, SEE, open_harbour, read_answer
from rkllm_chat.backends.scripted import ScriptedReply
from rkllm_chat.chat.turn import Turn
from rkllm_chat.core.events import CallUnreadable, Text, ToolFinished, TurnEnded, Usage
from stage import collect, take_turn

OPEN_CALL = '[TOOL_CALL]\n{"name": "look", "arguments": {"place": "Husum"}'


@pytest.mark.parametrize("hit_limit", [True, False])
def test_a_missing_brace_is_added_only_to_a_reply_that_ended_by_itself(hit_limit: bool) -> None:
    usage = Usage(prompt_tokens=10, generated_tokens=5, hit_limit=hit_limit)
    chat, toolbox = open_harbour([ScriptedReply(OPEN_CALL, usage=usage), "Quiet."])
    take_turn(chat, "Is Husum quiet?")
    assert toolbox.called == ([] if hit_limit else [("look", {"place": "Husum"})])


@pytest.mark.parametrize(
    ("reply", "runs"),
    [
        (f"Assistant: {LOOK}", True),
        (f"User: Is it quiet?\nAssistant: {LOOK}", False),
        (f"User: Is it quiet?\nI do not know.\nAssistant: {LOOK}", False),
        (f"Assistant: Well.\nAssistant: {LOOK}", True),
        (f"User: Is it quiet?\nAssistant: {LOOK}\nAssistant: {SEE}", False),
    ],
)
def test_a_call_behind_a_role_is_quoted_only_if_another_role_has_spoken(reply: str, runs: bool) -> None:
    chat, toolbox = open_harbour([reply, "Quiet."])
    take_turn(chat, "Is Husum quiet?")
    assert bool(toolbox.called) == runs


def test_the_last_result_is_shown_where_the_model_writes_no_answer() -> None:
    chat, _box = open_harbour([LOOK, SEE, SEE, SEE, SEE])
    text = "The model wrote no answer. Result of look:\nEmden is quiet"
    assert read_answer(take_turn(chat, "Is it quiet?")) == (text, "answered", "result")
    chat, _box = open_harbour([LOOK, "Quiet.", MOVE, MOVE, MOVE, MOVE])
    take_turn(chat, "Is it quiet?")
    text = "The model wrote no answer. Result of move:\nmoved to Leer"
    assert read_answer(take_turn(chat, "Move.")) == (text, "answered", "result")


def test_no_result_of_the_turn_before_is_shown_as_an_answer() -> None:
    broken = "[TOOL_CALL]\n{broken\n[END_TOOL_CALL]"
    chat, _box = open_harbour([LOOK, "Quiet.", *[broken] * 6])
    take_turn(chat, "Is it quiet?")
    text, _reason, _by = read_answer(take_turn(chat, "And now?"))
    assert "quiet" not in text


def test_a_turn_that_began_elsewhere_knows_its_calls() -> None:
    chat, toolbox = open_harbour([LOOK, SEE, "Quiet."])
    take_turn(chat, "Is it quiet in Husum and Emden? Then move to Leer.")
    *begun, result, _answer = chat.history
    chat, toolbox = open_harbour([SEE, "It is quiet."])
    chat.history += begun
    events = asyncio.run(collect(Turn(chat).run([result])))
    assert toolbox.called == [] and read_answer(events) == ("It is quiet.", "answered", "forced")
    chat, toolbox = open_harbour([MOVE, "Moved."])
    chat.history += begun
    asyncio.run(collect(Turn(chat).run([result])))
    assert toolbox.called == [("move", {"to": "Leer"})]


def test_corrections_are_counted_over_the_replies_of_a_turn_and_anew_in_the_next() -> None:
    broken = [f"[TOOL_CALL]\n{{broken {number}\n[END_TOOL_CALL]" for number in range(12)]
    chat, toolbox = open_harbour([*broken[:3], "Sorry.", *broken[3:6], "Sorry."])
    counts = []
    for line in ("Look.", "Look again."):
        events = take_turn(chat, line)
        counts.append(sum(isinstance(event, CallUnreadable) for event in events))
        assert read_answer(events) == ("Sorry.", "answered", "forced")  # after two corrections no call is possible
    assert counts == [3, 3] and toolbox.called == []


def test_a_turn_counts_what_all_its_replies_cost_and_no_others() -> None:
    chat, _box = open_harbour([LOOK, SEE, "Quiet.", "Bye."])
    turns = [take_turn(chat, line) for line in ("Look.", "Bye.")]
    ended = [event for events in turns for event in events if isinstance(event, TurnEnded)]
    assert [len(turn.usage) for turn in ended] == [3, 1]


def test_an_invented_result_is_neither_kept_nor_shown_in_the_next_round() -> None:
    chat, toolbox = open_harbour([f"I look.\n{LOOK}\nResult of look: it is stormy.", SEE, "Quiet."])
    events = take_turn(chat, "Is it quiet?")
    shown = "".join(event.text for event in events if isinstance(event, Text))
    assert "stormy" not in shown
    assert [message.text for message in chat.history if message.role == "assistant"] == [
        f"I look.\n{LOOK}",
        SEE,
        "Quiet.",
    ]
    assert [event.result.text for event in events if isinstance(event, ToolFinished)] == [
        "Husum is quiet",
        "Emden is quiet",
    ]
    assert len(toolbox.called) == 2
