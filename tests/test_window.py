"""The window: which turns leave before a prompt overflows, which stay, and what is said of it."""

from __future__ import annotations

import asyncio
import json
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat import commands, language
from rkllm_chat.backends.scripted import Scripted
from rkllm_chat.chat import Chat
from rkllm_chat.config import Settings
from rkllm_chat.desk import open_desk
from rkllm_chat.events import Event, Notice, ToolFinished, TurnEnded
from rkllm_chat.journal import Shelf
from rkllm_chat.records import Forgot
from rkllm_chat.sessions import Sessions
from rkllm_chat.window import room_of
from stage import Box, call_text, collect, make_chat, take_turn

WINDOW = 400
FIRST = "My boat is called Fulmar."


async def tide(**_: object) -> str:
    return "two metres at noon"


def talk(*replies: str, window: int = WINDOW) -> Chat:
    return make_chat(list(replies), Box({"tide": tide}), context=window)


def asked(chat: Chat) -> list[str]:
    """What the user said in the prompt that was sent last."""
    assert isinstance(chat.backend, Scripted)
    return [message.text for message in chat.backend.prompts[-1] if message.role == "user"]


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def test_the_first_turn_and_the_newest_stay_when_older_ones_leave() -> None:
    lines = [FIRST, *(f"question {number} " + "x" * 120 for number in range(12))]
    chat = talk(*("Noted. " + "y" * 100 for _ in lines))
    before = 0
    for line in lines:
        take_turn(chat, line)
        said = asked(chat)
        assert (said[0], said[-1]) == (FIRST, line)
        assert said[1:] == lines[lines.index(line) + 2 - len(said) : lines.index(line) + 1]
        assert chat.count_tokens() <= room_of(chat)
        before += chat.first_shown > 0
    assert before > 5


def test_turns_leave_at_once_and_deep_so_that_the_next_ones_find_room() -> None:
    chat = talk(*("Noted. " + "y" * 60 for _ in range(40)))
    lefts = [bool(notices(take_turn(chat, f"question {number} " + "x" * 60))) for number in range(40)]
    between = [len(list(group)) for left, group in groupby(lefts) if not left]
    assert len(between) >= 3 and all(turns >= 2 for turns in between[:-1])


def test_a_first_turn_that_is_large_leaves_as_the_others_do() -> None:
    chat = talk(*("y" * 100 for _ in range(8)))
    take_turn(chat, "long " * 60)
    for number in range(7):
        take_turn(chat, f"question {number} " + "x" * 120)
    assert not any(text.startswith("long") for text in asked(chat)) and chat.kept == 0


def test_a_first_turn_leaves_where_the_newest_needs_its_room() -> None:
    for less, stays in ((8, True), (5, False)):  # FIRST and its answer take seven
        chat = talk(*("ok" for _ in range(4)))
        free = room_of(chat) - chat.count_tokens()
        for line in (FIRST, "and now?", "why?"):
            take_turn(chat, line)
        newest = "x" * 4 * (free - less)
        take_turn(chat, newest)
        assert asked(chat) == ([FIRST, newest] if stays else [newest])


def test_room_is_made_when_a_turn_ends_so_that_the_next_question_need_not_wait() -> None:
    chat = talk(*("y" * 100 for _ in range(12)))
    for number in range(12):
        events = take_turn(chat, f"question {number} " + "x" * 100)
        if told := notices(events):
            break
    assert told == [chat.words("chat.forgot", turns=told[0].partition("(")[2].partition(")")[0])]
    *_, notice, end = events
    assert isinstance(notice, Notice) and isinstance(end, TurnEnded)
    assert len(asked(chat)) == number + 1, "the prompt that was answered still had all of it"
    assert chat.count_tokens() <= room_of(chat) // 2


def test_a_call_never_loses_its_result() -> None:
    replies = [part for _ in range(20) for part in (call_text("tide"), "Two metres.")]
    chat = talk(*replies)
    for number in range(20):
        events = take_turn(chat, f"how high is tide {number}? " + "x" * 40)
        assert [event.result.text for event in events if isinstance(event, ToolFinished)] == ["two metres at noon"]
        roles = "".join(message.role[0] for message in chat.shown)
        assert roles == "uata" * (len(roles) // 4)
    assert chat.first_shown


def test_what_was_left_out_does_not_come_twice_when_turns_are_taken_back(tmp_path: Path) -> None:
    script = tmp_path / "replies.json"
    script.write_text(json.dumps(["y" * 100] * 10), encoding="utf-8")
    chosen = Settings(model=str(script), backend="scripted", context_tokens=WINDOW, servers=())

    async def sit() -> tuple[list[list[str]], list[str]]:
        async with open_desk(chosen, tmp_path, words=language.load()) as desk:
            for number in range(8):
                await collect(desk.chat.send(f"question {number} " + "x" * 100 if number else FIRST))
            shown = []
            while desk.chat.history:
                shown.append([message.text[:10] for message in desk.chat.shown if message.role == "user"])
                await collect(commands.run(desk, "/undo"))
            await collect(desk.chat.send("anew"))
            return shown, asked(desk.chat)

    shown, anew = asyncio.run(sit())
    assert len(shown) == 8 and all(len(set(texts)) == len(texts) and texts[0] == FIRST[:10] for texts in shown)
    assert [texts[-1] for texts in shown] == [*(f"question {number}" for number in range(7, 0, -1)), FIRST[:10]]
    assert anew == ["anew"]


def test_the_same_is_shown_after_a_resume(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    chat = talk(*("y" * 100 for _ in range(9)))
    sessions = Sessions(shelf, chat, print)
    for number in range(8):
        take_turn(chat, f"question {number} " + "x" * 100 if number else FIRST)
    sessions.close()
    again = talk("y" * 100)
    other = Sessions(shelf, again, print)
    other.open("newest")
    assert (again.first_shown, again.kept) == (chat.first_shown, chat.kept) and 0 < chat.kept < chat.first_shown
    for one in (chat, again):
        take_turn(one, "and now?")
    assert asked(again) == asked(chat) and asked(again)[0] == FIRST
    other.close()


@settings(max_examples=examples(60))
@given(
    window=st.integers(100, 600),
    sizes=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=20),
)
def test_whatever_is_said_the_prompt_fits_as_long_as_its_last_turn_does(
    window: int, sizes: list[tuple[int, int]]
) -> None:
    chat = talk(*("y" * 4 * answer for _, answer in sizes), window=window)
    told: list[Forgot] = []
    chat.keep = lambda record: told.append(record) if isinstance(record, Forgot) else None
    for number, (question, _) in enumerate(sizes):
        take_turn(chat, f"{number}" + "x" * 4 * question)
        if len(asked(chat)) > 1:
            assert isinstance(chat.backend, Scripted)
            assert chat.backend.count_tokens(chat.backend.prompts[-1]) <= room_of(chat)
        assert asked(chat)[-1].startswith(f"{number}x"[: len(str(number))])
    shown = sum(message.role == "user" for message in chat.shown)
    assert shown + sum(forgot.turns for forgot in told) == len(sizes)
    assert all(forgot.turns > 0 and forgot.kept <= forgot.first_shown for forgot in told)


@pytest.mark.parametrize("window", [60, 90])
def test_one_turn_alone_never_leaves(window: int) -> None:
    chat = talk("y" * 200, window=window)
    assert not notices(take_turn(chat, "x" * 100))
    assert chat.first_shown == 0
