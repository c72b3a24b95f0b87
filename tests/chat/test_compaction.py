"""The older part of a conversation becomes a summary: the prompt for it, and what that costs."""

from __future__ import annotations

import asyncio

import pytest

from chat.scripted_app import backend_of
from rkllm_chat.chat.compaction import compact, find_older_messages
from rkllm_chat.chat.context import build_prompt
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.core.events import Event, Notice, Text
from rkllm_chat.core.messages import Message
from stage import FakeToolbox, call_text, collect_emitted, make_chat, take_turn


async def tide(**_: object) -> str:
    return "two metres"


def sum_up(chat: Conversation) -> list[Event]:
    return asyncio.run(collect_emitted(compact, chat, len(find_older_messages(chat))))


def test_a_summary_is_requested_behind_the_conversation_so_that_little_is_prefilled() -> None:
    chat = make_chat(
        [call_text("tide"), "Two metres.", "Twelve metres.", "The tide: two metres."], FakeToolbox({"tide": tide})
    )
    for line in ("how high is the tide?", "and the mast?"):
        take_turn(chat, line)
    before = build_prompt(chat)
    assert Text("The tide: two metres.") in sum_up(chat)
    request = Message("user", chat.prompt_words("compact.ask_behind"))
    assert backend_of(chat).prompts[-1] == [*before, request]
    assert [message.text for message in chat.visible_messages] == [
        "Summary of our talk so far: The tide: two metres.", "I remember.", "and the mast?", "Twelve metres.",
    ]  # fmt: skip


@pytest.mark.parametrize("why", ["it is too long", "it ends with no reply"])
def test_where_that_cannot_be_the_conversation_is_sent_in_a_prompt_of_its_own(why: str) -> None:
    chat = make_chat(["y" * 400, "y" * 400, "One, in short."], context=1000)
    take_turn(chat, "one " + "x" * 200)
    take_turn(chat, "two " + "x" * 200)
    if why == "it is too long":
        chat.history[-1] = Message("assistant", "y" * 3000)
    else:
        chat.history.append(Message("tool", "It was stopped."))
    events = sum_up(chat)
    system, transcript = backend_of(chat).prompts[-1]
    assert system.text == chat.prompt_words("compact.ask")
    assert transcript.text.startswith("user: one ") and "two" not in transcript.text
    assert Text("One, in short.") in events and isinstance(events[0], Notice)


REFUSED = {
    "it is longer than what it replaces": ("one", "First.", "one " * 30, "The summary is not shorter"),
    "it has nothing of the conversation": ("one " * 30, "First.", "I have no tool for that.", "shares no word"),
    "it is a reply said again": ("one " * 30, "I have no tool for that.", "I have no tool for that.", "shares no word"),
}


@pytest.mark.parametrize(("line", "reply", "summary", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_useless_summary_replaces_nothing(line: str, reply: str, summary: str, reason: str) -> None:
    chat = make_chat([reply, "Second.", summary])
    take_turn(chat, line)
    take_turn(chat, "two")
    before = list(chat.history)
    notice, shown = sum_up(chat)
    assert isinstance(notice, Notice) and reason in notice.text and shown == Text(summary.strip())
    assert chat.history == before
