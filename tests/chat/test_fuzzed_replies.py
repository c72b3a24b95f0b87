"""The whole turn with replies of any text: it ends, its history is consistent, and it runs only what was written."""

from __future__ import annotations

import random
import re

import pytest

from rkllm_chat.calls.formats import CONTROL_TOKENS, FORMATS, TURN_OPENERS
from rkllm_chat.core.events import CallFound, CallsDetected, CallUnreadable, TurnEnded
from stage import Box, make_chat, take_turn

PIECES = [
    *(literal for row in FORMATS.values() for literal in (*row.openers, *row.closers, *row.control_tokens)),
    *(mark for row in FORMATS.values() for pair in row.thought_markers.items() for mark in pair),
    *(*CONTROL_TOKENS, *TURN_OPENERS, "<think>", "</think>", "```", "```json\n", "~~~", "> ", "`", "\n", "\n\n", " "),
    *("{", "}", "[", "]", '"', "'", ":", ",", "\\", '{"name": "', '"arguments": {', "null", "1e999", "\ud800"),
    *(
        "I look.",
        "潮は2.4メートル。",
        "note",
        "act",
        "what",
        '<argument name="what">',
        "<parameter=what>",
        "</argument>",
    ),
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


def run_turns(number: int, seed: int = 20261123) -> int:
    """Run turns with such replies and return how many calls of the tool were made."""
    chance, made = random.Random(seed), 0
    for _ in range(number):
        replies = [write_reply(chance) for _ in range(3)]
        box = Box({"note": note}, schemas={"note": {"properties": {"what": {"type": "string"}}}})
        chat = make_chat([*replies, "Done."], box, max_steps=3)
        events = take_turn(chat, "go")
        assert isinstance(events[-1], TurnEnded), replies
        found = [event for event in events if isinstance(event, CallFound)]
        assert len(box.called) <= len(found), replies
        written = "".join(replies)
        for _, arguments in box.called:
            assert all(word in written for word in re.findall(r"\w+", str(arguments.get("what", "")))), replies
        results = [message for message in chat.history if message.role == "tool"]
        unreadable = [event for event in events if isinstance(event, CallUnreadable)]
        detected = sum(event.count for event in events if isinstance(event, CallsDetected))
        assert len(results) == detected + len(unreadable), replies
        assert chat.history[0].role == "user" and chat.history[-1].role in ("assistant", "tool"), replies
        made += len(box.called)
    return made


def test_any_reply_ends_the_turn_and_runs_only_what_it_says() -> None:
    assert run_turns(300) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_ten_thousand_turns_with_any_replies_end(seed: int) -> None:
    assert run_turns(1_250, seed) > 125
