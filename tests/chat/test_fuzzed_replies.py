"""The whole turn with replies of any text: it ends, its history is consistent, and it runs only what was written."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import pairwise

import pytest

from rkllm_chat.calls.formats import CONTROL_TOKENS, FORMATS, TURN_OPENERS
from rkllm_chat.chat.turn import Turn
from rkllm_chat.core.events import (
    CallFound,
    CallsDetected,
    CallUnreadable,
    Event,
    Reading,
    ReplyDiscarded,
    ToolStarted,
    TurnEnded,
)
from stage import FakeToolbox, make_chat

PIECES = [
    *(literal for row in FORMATS.values() for literal in (*row.openers, *row.closers, *row.control_tokens)),
    *(mark for row in FORMATS.values() for pair in row.thought_markers.items() for mark in pair),
    *CONTROL_TOKENS,
    *TURN_OPENERS,
    "<think>",
    "</think>",
    "```",
    "```json\n",
    "~~~",
    "> ",
    "`",
    "\n",
    "\n\n",
    " ",
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    ":",
    ",",
    "\\",
    '{"name": "',
    '"arguments": {',
    "null",
    "1e999",
    "\ud800",
    "I look.",
    "潮は2.4メートル。",
    "note",
    "act",
    "what",
    '<argument name="what">',
    "<parameter=what>",
    "</argument>",
]
WHOLE = [row.render_call("note", {"what": "tide"}) for row in FORMATS.values()]


def write_reply(chance: random.Random) -> str:
    """Write a reply of fragments, among them whole calls with a few characters changed."""
    parts = [chance.choice(PIECES) for _ in range(chance.randrange(12))]
    for _ in range(chance.randrange(3)):
        call = chance.choice(WHOLE)
        for _ in range(chance.choice((0, 0, 1, 3))):
            at = chance.randrange(len(call))
            call = call[:at] + chance.choice(("", chance.choice(PIECES))) + call[at + chance.randrange(4) :]
        parts.insert(chance.randrange(len(parts) + 1), call)
    return "".join(parts) * (20 if chance.random() < 0.01 else 1)


async def note(what: str = "", **_others: object) -> str:
    return f"noted {len(what)}"


async def collect_replies(stream: AsyncGenerator[Event, None]) -> list[list[Event]]:
    """The events of a turn, those from each prompt on by themselves."""
    replies: list[list[Event]] = []
    async with aclosing(stream) as running:
        async for event in running:
            if isinstance(event, Reading) and event.done == 0:
                replies.append([])
            replies[-1].append(event)
    return replies


def run_turns(number: int, seed: int = 20261123) -> int:
    """Run turns with such replies and return how many calls of the tool were made."""
    chance, made = random.Random(seed), 0
    for _ in range(number):
        replies = [write_reply(chance) for _ in range(3)]
        toolbox = FakeToolbox({"note": note}, schemas={"note": {"properties": {"what": {"type": "string"}}}})
        chat = make_chat([*replies, "Done."], toolbox, max_steps=3)
        by_reply = asyncio.run(collect_replies(Turn(chat).run("go")))
        assert isinstance(by_reply[-1][-1], TurnEnded), replies
        written = "".join(replies)
        for _, arguments in toolbox.called:
            assert all(word in written for word in re.findall(r"\w+", str(arguments.get("what", "")))), replies
        void: list[Event] = []
        kept: list[Event] = []
        for events in by_reply:
            (void if any(isinstance(event, ReplyDiscarded) for event in events) else kept).extend(events)
        assert not any(isinstance(event, CallsDetected | ToolStarted) for event in void), replies
        assert len(toolbox.called) <= sum(isinstance(event, CallFound) for event in kept), replies
        results = [message for message in chat.history if message.role == "tool"]
        unreadable = [event for event in kept if isinstance(event, CallUnreadable)]
        detected = sum(event.count for event in kept if isinstance(event, CallsDetected))
        assert len(results) == detected + len(unreadable), replies  # a discarded reply has no results
        answered = [message for message, following in pairwise(chat.history) if following.role == "tool"]
        assert not any(message.reply_kind == "discarded" for message in answered), replies
        assert chat.history[0].role == "user" and chat.history[-1].role in ("assistant", "tool"), replies
        made += len(toolbox.called)
    return made


def test_any_reply_ends_the_turn_and_runs_only_what_it_says() -> None:
    assert run_turns(120) > 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_ten_thousand_turns_with_any_replies_end(seed: int) -> None:
    assert run_turns(1_250, seed) > 125
