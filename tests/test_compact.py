"""The older part of a talk becomes a summary: what is asked of the model for it, and what that costs."""

from __future__ import annotations

import asyncio

import pytest

from rkllm_chat.backends.scripted import Scripted
from rkllm_chat.chat import Chat
from rkllm_chat.compact import compact, older_messages
from rkllm_chat.events import Event, Notice, Text
from rkllm_chat.messages import Message
from rkllm_chat.window import prompt_of
from stage import Box, call_text, collect, make_chat, take_turn


async def tide(**_: object) -> str:
    return "two metres"


def sum_up(chat: Chat) -> list[Event]:
    return asyncio.run(collect(compact(chat, len(older_messages(chat)))))


def test_a_summary_is_asked_for_behind_the_talk_so_that_little_is_read_anew() -> None:
    chat = make_chat([call_text("tide"), "Two metres.", "Twelve metres.", "In short."], Box({"tide": tide}))
    for line in ("how high is the tide?", "and the mast?"):
        take_turn(chat, line)
    held, backend = prompt_of(chat), chat.backend
    assert isinstance(backend, Scripted)
    assert Text("In short.") in sum_up(chat)
    asked = backend.prompts[-1]
    assert asked[:-1] == held and asked[-1] == Message("user", chat.prompt_words("compact.ask_behind"))
    assert [message.text for message in chat.shown] == [
        "Summary of our talk so far: In short.", "I remember.", "and the mast?", "Twelve metres.",
    ]  # fmt: skip


@pytest.mark.parametrize("why", ["it is too long", "it ends with no reply"])
def test_where_that_cannot_be_the_talk_is_read_in_a_context_of_its_own(why: str) -> None:
    chat = make_chat(["y" * 400, "y" * 400, "In short."], context=1000)
    take_turn(chat, "one " + "x" * 200)
    take_turn(chat, "two " + "x" * 200)
    if why == "it is too long":
        chat.history[-1] = Message("assistant", "y" * 3000)
    else:
        chat.history.append(Message("tool", "It was stopped."))
    events = sum_up(chat)
    assert isinstance(chat.backend, Scripted)
    system, transcript = chat.backend.prompts[-1]
    assert system.text == chat.prompt_words("compact.ask")
    assert transcript.text.startswith("user: one ") and "two" not in transcript.text
    assert Text("In short.") in events and isinstance(events[0], Notice)
