"""Calls that start while the model is still writing, and what becomes of them however the reply ends.

The engine writes its next words only once something has happened, so an order is proved without a clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzing import examples
from processes import find_children, is_there
from rkllm_chat.backends.base import ModelStream, StoppableStream, StreamItem
from rkllm_chat.backends.scripted import ScriptedBackend, split_tokens
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.events import CallFound, CallsDetected, Event, ToolFinished, ToolStarted, TurnEnded, Usage
from rkllm_chat.core.messages import Message, Tool
from rkllm_chat.core.protocols import Consent
from shell import wait_until
from stage import FakeToolbox, Screen, call_text, collect, make_chat, take_turn

Step = str | Exception | Callable[[], Awaitable[object]]
HARBOUR = Path(__file__).parents[1] / "tui/harbour.py"
STOPPED = ("stopped", "The call was stopped before it ended.")


class PacedBackend(ScriptedBackend):
    """Plays one list of steps per reply: writes a text, waits for a coroutine, or raises an error."""

    def __init__(self, *replies: Sequence[Step]) -> None:
        super().__init__([])
        self.steps = list(replies)

    def stream(self, *_: Any) -> ModelStream:
        return StoppableStream(self._play_steps(), lambda: None)

    async def _play_steps(self) -> AsyncGenerator[StreamItem, None]:
        for step in self.steps.pop(0):
            if isinstance(step, Exception):
                raise step
            if not isinstance(step, str):
                await asyncio.wait_for(step(), 5)
                continue
            for piece in split_tokens(step):
                yield piece
        yield Usage()


class Lookout(FakeToolbox):
    """Has `look`, which only reads, and `move`, which may change something; both end when their place is released."""

    def __init__(self) -> None:
        super().__init__({"look": self._look, "move": self._look, "denied": self._look})
        self.begun, self.ended, self.released = (defaultdict[str, asyncio.Event](asyncio.Event) for _ in range(3))
        self.cancelled: list[str] = []

    @property
    def tools(self) -> Sequence[Tool]:
        return [Tool(name, "", {}, "box", read_only=name != "move", trusted=True) for name in self.functions]

    async def _look(self, place: str = "Husum", waits: bool = False) -> str:
        self.begun[place].set()
        try:
            if waits:
                await self.released[place].wait()
        except asyncio.CancelledError:
            self.cancelled.append(place)
            raise
        self.ended[place].set()
        return f"{place} is quiet"


def look(place: str, waits: bool = False) -> str:
    return call_text("look", place=place, waits=waits)


def make_paced_chat(toolbox: FakeToolbox, *replies: Sequence[Step], **settings: Any) -> Conversation:
    chat = make_chat([], toolbox, **settings)
    chat.backend = PacedBackend(*replies)
    return chat


def results(chat: Conversation) -> list[tuple[str, str]]:
    """Status and text of each result in the history."""
    return [(message.result.status, message.result.text) for message in chat.history if message.result]


def running_calls() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("call of ")]


def test_calls_run_before_the_model_has_written_its_last_word() -> None:
    async def play() -> tuple[Conversation, list[Event]]:
        toolbox = Lookout()
        reply: list[Step] = [
            look("Husum"),
            toolbox.ended["Husum"].wait,
            " and ",
            look("Leer"),
            toolbox.ended["Leer"].wait,
        ]
        chat = make_paced_chat(toolbox, [*reply, " I wait."], ["Quiet."])
        return chat, await collect(Turn(chat).run("Look around."))

    chat, events = asyncio.run(play())
    kinds = [type(event) for event in events if isinstance(event, CallFound | CallsDetected | ToolStarted | TurnEnded)]
    assert kinds == [CallFound, CallFound, CallsDetected, ToolStarted, ToolStarted, TurnEnded]
    assert results(chat) == [("completed", "Husum is quiet"), ("completed", "Leer is quiet")]


def test_results_come_in_the_order_of_the_calls_whichever_ended_first() -> None:
    async def play() -> Conversation:
        toolbox = Lookout()

        async def release() -> None:
            toolbox.released["Husum"].set()

        chat = make_paced_chat(
            toolbox, [look("Husum", waits=True), look("Leer"), toolbox.ended["Leer"].wait, release], ["So."]
        )
        await collect(Turn(chat).run("Look around."))
        return chat

    assert results(asyncio.run(play())) == [("completed", "Husum is quiet"), ("completed", "Leer is quiet")]


def test_a_call_that_may_change_something_waits_for_the_end_and_so_do_those_behind_it() -> None:
    toolbox, begun = Lookout(), list[list[str]]()

    async def note() -> None:
        await asyncio.create_task(asyncio.sleep(0))  # a call that was started before has begun when this has
        begun.append([name for name, _ in toolbox.called])

    reply: list[Step] = [look("Husum"), note, call_text("move"), note, look("Leer"), note]
    asyncio.run(collect(Turn(make_paced_chat(toolbox, reply, ["Done."], policy=Policy("all"))).run("Move it.")))
    assert begun == [["look"], ["look"], ["look"]]
    assert [name for name, _ in toolbox.called] == ["look", "move", "look"]


@pytest.mark.parametrize("ending", ["the engine fails", "the user walks away"])
def test_a_reply_that_breaks_off_keeps_its_results_and_leaves_nothing_running(ending: str) -> None:
    async def play() -> tuple[Lookout, Conversation]:
        toolbox, reached = Lookout(), asyncio.Event()

        async def end() -> None:
            reached.set()
            if ending == "the engine fails":
                raise GenerationError("It broke.")
            await asyncio.Event().wait()

        calls = [look("Husum"), look("Leer", waits=True), call_text("move")]
        chat = make_paced_chat(toolbox, [*calls, toolbox.ended["Husum"].wait, toolbox.begun["Leer"].wait, end])
        turn = asyncio.create_task(collect(Turn(chat).run("Look around.")))
        await asyncio.wait_for(reached.wait(), 5)
        if ending == "the user walks away":
            turn.cancel()
        with pytest.raises((GenerationError, asyncio.CancelledError)):
            await turn
        assert running_calls() == []
        return toolbox, chat

    toolbox, chat = asyncio.run(play())
    assert toolbox.cancelled == ["Leer"]
    assert results(chat) == [("completed", "Husum is quiet"), STOPPED, STOPPED]
    assert [message.role for message in chat.history] == ["user", "assistant", "tool", "tool", "tool"]


def test_stopping_at_a_question_keeps_and_reports_what_had_run() -> None:
    async def stop(*_: Any) -> Consent:
        return "stop"

    chat = make_chat([look("Husum") + look("Leer", waits=True) + call_text("move") + " So."], Lookout(), stop)
    *events, end = take_turn(chat, "Move it.")
    assert results(chat) == [("completed", "Husum is quiet"), STOPPED, ("stopped", "The user did not allow this call.")]
    reported = [
        (type(event), event.tool if isinstance(event, ToolStarted) else event.result.tool)
        for event in events
        if isinstance(event, ToolStarted | ToolFinished)
    ]
    assert reported == [(ToolFinished, "move"), (ToolStarted, "look"), (ToolFinished, "look")]
    assert isinstance(end, TurnEnded) and end.reason == "stopped"


def test_the_tools_are_not_looked_through_for_each_word_of_a_reply() -> None:
    class CountedToolbox(Lookout):
        looks = 0

        @property
        def tools(self) -> Sequence[Tool]:
            self.looks += 1
            return super().tools

    def count_looks(words: int) -> int:
        toolbox = CountedToolbox()
        take_turn(make_chat(["word " * words], toolbox), "Write.")
        return toolbox.looks

    assert count_looks(100) == count_looks(1)


def test_where_no_calls_are_left_none_starts_early() -> None:
    async def answer(_rounds: int) -> Any:
        return "answer"

    toolbox = Lookout()
    chat = make_chat([look("Husum"), look("Leer") + " I wait."], toolbox, max_steps=1)
    chat.ask_to_continue = answer
    take_turn(chat, "Look.")
    assert len(toolbox.called) == 1


FRAGMENTS = st.sampled_from(
    [
        look("Husum"),
        look("Leer"),
        call_text("move"),
        call_text("nothing"),
        "[TOOL_CALL]\n{broken\n[END_TOOL_CALL]",
        call_text("more", handle="r1"),
        " and ",
        call_text("denied"),
    ]
)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(
    replies=st.lists(st.lists(FRAGMENTS, min_size=1, max_size=6).map("".join), min_size=1, max_size=4),
    mode=st.sampled_from(["ask", "all", "none"]),
    max_calls=st.sampled_from([2, 5, 100]),
    max_tokens=st.sampled_from([30, 1000]),
)
def test_a_turn_has_the_same_outcome_whether_calls_start_early_or_not(
    replies: list[str], mode: Any, max_calls: int, max_tokens: int
) -> None:
    def play(starts_early: bool) -> tuple[list[Message], list[str], list[str]]:
        async def yes(*_: Any) -> Consent:
            return "once"

        toolbox, policy = Lookout(), Policy(mode, deny=("denied",), max_calls=max_calls)
        chat = make_chat([*replies, "Done."], toolbox, yes, policy=policy, generation=Generation(max_tokens=max_tokens))
        chat.starts_calls_early = starts_early
        events = take_turn(chat, "Look.")
        return chat.history, sorted(map(str, toolbox.called)), sorted(map(str, events))

    assert play(starts_early=True) == play(starts_early=False)


@pytest.mark.slow
def test_ctrl_c_while_a_reply_and_its_call_are_under_way_stops_both(
    open_chat: Callable[..., Screen], folder: Path
) -> None:
    """The server is a real process. Its tool `wait` is declared read-only here, so the call starts early."""
    server, wait = HARBOUR.read_text(encoding="utf-8"), 'tool("wait", "Waits for high water.", {})'
    assert wait in server
    read_only = f'{{**{wait}, "annotations": {{"readOnlyHint": True}}}}'
    (folder / "server.py").write_text(server.replace(wait, read_only), encoding="utf-8")
    command = f'command = {json.dumps(sys.executable)}\nargs = ["server.py"]'
    config = f'[[servers]]\nname = "harbour"\ntrust = "trusted"\n{command}\n'
    (folder / "own.toml").write_text(config, encoding="utf-8")
    reply = f"I look. {call_text('wait')} And then I"
    screen = open_chat("--config own.toml", {"text": reply, "wait": True}, "Gladly.")
    screen.say("Look around.\r", "And then I")
    wait_until((folder / "called").exists)  # the model has not ended, and never will
    screen.type("\x03")
    wait_until((folder / "cancelled").exists)
    screen.wait_for_prompt()
    screen.enter("/history 1", "The call was stopped before it ended.")
    screen.enter("Thanks.", "Gladly.")
    children = find_children(screen.process.pid)
    assert children
    screen.leave()
    assert not any(map(is_there, children))
