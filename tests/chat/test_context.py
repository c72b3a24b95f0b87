"""The context window: which turns are dropped before a prompt overflows, which stay, and the notice about it."""

from __future__ import annotations

import asyncio
import re
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.scripted_app import backend_of, open_scripted_app
from fuzzing import examples
from rkllm_chat.chat.context import compute_prompt_budget, count_tokens
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.sessions import SessionManager
from rkllm_chat.chat.turn import Turn
from rkllm_chat.core.events import Event, Notice, ToolFinished, TurnEnded
from rkllm_chat.storage.session_files import SessionDirectory
from rkllm_chat.storage.session_records import ContextTrimmed
from rkllm_chat.tui import slash_commands as commands
from stage import FakeToolbox, call_text, collect, collect_emitted, make_chat, take_turn

WINDOW = 400
FIRST = "My boat is called Fulmar."


async def tide(**_: object) -> str:
    return "two metres at noon"


def make_tide_chat(*replies: str, window: int = WINDOW) -> Conversation:
    return make_chat(list(replies), FakeToolbox({"tide": tide}), context=window)


def asked(chat: Conversation) -> list[str]:
    """The user messages of the newest prompt."""
    return [message.text for message in backend_of(chat).prompts[-1] if message.role == "user"]


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def test_the_first_turn_and_the_newest_stay_when_older_ones_leave() -> None:
    lines = [FIRST, *(f"question {number} " + "x" * 120 for number in range(12))]
    chat = make_tide_chat(*("Noted. " + "y" * 100 for _ in lines))
    trimmed_prompts = 0
    for index, line in enumerate(lines):
        take_turn(chat, line)
        first, *others = asked(chat)
        assert first == FIRST and others == lines[index + 1 - len(others) : index + 1]
        assert count_tokens(chat) <= compute_prompt_budget(chat)
        trimmed_prompts += chat.first_shown > 0
    assert trimmed_prompts > 5


def test_turns_leave_at_once_and_deep_so_that_the_next_ones_find_room() -> None:
    chat = make_tide_chat(*("Noted. " + "y" * 60 for _ in range(40)))
    lefts = [bool(notices(take_turn(chat, f"question {number} " + "x" * 60))) for number in range(40)]
    between = [len(list(group)) for left, group in groupby(lefts) if not left]
    assert len(between) >= 3 and all(turns >= 2 for turns in between[:-1])


def test_a_first_turn_that_is_large_leaves_as_the_others_do() -> None:
    chat = make_tide_chat(*("y" * 100 for _ in range(8)))
    take_turn(chat, "long " * 60)
    for number in range(7):
        take_turn(chat, f"question {number} " + "x" * 120)
    assert not any(text.startswith("long") for text in asked(chat)) and chat.retained_count == 0


@pytest.mark.parametrize(("missing", "stays"), [(8, True), (5, False)])  # FIRST and its answer take seven tokens
def test_a_first_turn_leaves_where_the_newest_needs_its_space(missing: int, stays: bool) -> None:
    chat = make_tide_chat(*("ok" for _ in range(4)))
    free = compute_prompt_budget(chat) - count_tokens(chat)
    newest = "x" * 4 * (free - missing)
    for line in (FIRST, "and now?", "why?", newest):
        take_turn(chat, line)
    assert asked(chat) == ([FIRST, newest] if stays else [newest])


def test_space_is_made_when_a_turn_ends_so_that_the_next_question_need_not_wait() -> None:
    chat = make_tide_chat(*("y" * 100 for _ in range(12)))
    turns = (take_turn(chat, f"question {number} " + "x" * 100) for number in range(12))
    number, (*_, notice, end) = next((number, events) for number, events in enumerate(turns) if notices(events))
    assert isinstance(notice, Notice) and isinstance(end, TurnEnded)
    assert notice.text == chat.words("chat.forgot", turns=int(re.findall(r"\d+", notice.text)[0]))
    assert len(asked(chat)) == number + 1, "the prompt that was answered still had all of it"
    assert count_tokens(chat) <= compute_prompt_budget(chat) // 2


def test_a_call_never_loses_its_result() -> None:
    replies = [part for _ in range(20) for part in (call_text("tide"), "Two metres.")]
    chat = make_tide_chat(*replies)
    for _ in range(20):
        events = take_turn(chat, "how high is the tide? " + "x" * 40)
        assert [event.result.text for event in events if isinstance(event, ToolFinished)] == ["two metres at noon"]
        roles = "".join(message.role[0] for message in chat.visible_messages)
        assert roles == "uata" * (len(roles) // 4)
    assert chat.first_shown


def test_dropped_turns_do_not_appear_twice_when_turns_are_undone(tmp_path: Path) -> None:
    async def play() -> tuple[list[list[str]], list[str]]:
        async with open_scripted_app(tmp_path, ["y" * 100] * 10, context_tokens=WINDOW) as app:
            for number in range(8):
                await collect(Turn(app.chat).run(f"question {number} " + "x" * 100 if number else FIRST))
            shown = []
            while app.chat.history:
                shown.append([message.text[:10] for message in app.chat.visible_messages if message.role == "user"])
                await collect_emitted(commands.run, app, "/undo")
            await collect(Turn(app.chat).run("anew"))
            return shown, asked(app.chat)

    shown, anew = asyncio.run(play())
    assert len(shown) == 8 and all(len(set(texts)) == len(texts) and texts[0] == FIRST[:10] for texts in shown)
    assert [texts[-1] for texts in shown] == [*(f"question {number}" for number in range(7, 0, -1)), FIRST[:10]]
    assert anew == ["anew"]


def test_the_same_turns_are_visible_after_a_resume(tmp_path: Path) -> None:
    chat, again = make_tide_chat(*("y" * 100 for _ in range(9))), make_tide_chat("y" * 100)
    sessions = SessionManager(SessionDirectory(tmp_path), chat, print)
    for number in range(8):
        take_turn(chat, f"question {number} " + "x" * 100 if number else FIRST)
    sessions.close()
    SessionManager(SessionDirectory(tmp_path), again, print).open("newest")
    visible = [(current.first_shown, current.retained_count) for current in (chat, again)]
    assert visible[0] == visible[1] and 0 < chat.retained_count < chat.first_shown
    for current in (chat, again):
        take_turn(current, "and now?")
    assert asked(again) == asked(chat) and asked(again)[0] == FIRST


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(
    window=st.integers(100, 600),
    sizes=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), min_size=1, max_size=20),
)
def test_a_prompt_always_fits_as_long_as_its_last_turn_does(window: int, sizes: list[tuple[int, int]]) -> None:
    chat = make_tide_chat(*("y" * 4 * answer for _, answer in sizes), window=window)
    trims: list[ContextTrimmed] = []
    chat.on_record = lambda record: trims.append(record) if isinstance(record, ContextTrimmed) else None
    for number, (question, _) in enumerate(sizes):
        take_turn(chat, f"{number}" + "x" * 4 * question)
        if len(asked(chat)) > 1:
            assert chat.backend.count_tokens(backend_of(chat).prompts[-1]) <= compute_prompt_budget(chat)
        assert asked(chat)[-1].startswith(f"{number}x"[: len(str(number))])
    shown = sum(message.role == "user" for message in chat.visible_messages)
    assert shown + sum(trim.turns for trim in trims) == len(sizes)
    assert all(trim.turns > 0 and trim.retained_count <= trim.first_shown for trim in trims)


@pytest.mark.parametrize("window", [60, 90])
def test_one_turn_alone_never_leaves(window: int) -> None:
    chat = make_tide_chat("y" * 200, window=window)
    assert not notices(take_turn(chat, "x" * 100))
    assert chat.first_shown == 0
