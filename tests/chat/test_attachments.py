"""Attachments take a share of the free tokens, however much of the context window that is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chat.scripted_app import backend_of, open_scripted_app
from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.chat.attachments import send_message
from rkllm_chat.chat.context import count_tokens
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.events import Draft, Event, Notice
from rkllm_chat.core.messages import Attachment, Message
from rkllm_chat.tui import slash_commands as commands
from stage import collect, collect_emitted

WINDOW = 4000


def send_attachments(folder: Path, length: int, **sizes: int) -> tuple[dict[str, int], int]:
    """Return how many characters of each file are shown after a message of `length` characters, and what was free."""
    letters = dict(zip(sizes, "ÄÖ", strict=False))
    for name, size in sizes.items():
        (folder / name).write_text(letters[name] * size, encoding="utf-8")
    settings = {"context_tokens": WINDOW, "generation": Generation(max_tokens=100), "system": "Hi."}

    async def play() -> tuple[dict[str, int], int]:
        async with open_scripted_app(folder, ["Yes."] * 3, **settings) as app:
            await collect(Turn(app.chat).run("x" * length))
            free = WINDOW - 100 - count_tokens(app.chat)
            await collect_emitted(send_message, app, " ".join(f"@{folder / name}" for name in sizes))
            assert app.backend.count_tokens(backend_of(app.chat).prompts[-1]) <= WINDOW - 100
            text = app.chat.history[-2].text
            return {name: text.count(letter) for name, letter in letters.items()}, free

    return asyncio.run(play())


@pytest.fixture(autouse=True)
def _in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the current folder are attached without a question."""
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("length", [0, 4000, 10_000])
def test_attachments_together_take_half_of_what_is_free(length: int, folder: Path) -> None:
    shown, free = send_attachments(folder, length, big=200_000, long=200_000)
    tokens = ScriptedBackend([]).count_tokens([Message("user", "Ä" * sum(shown.values()))])
    assert 0.7 * free / 2 < tokens < free / 2
    assert 0.9 < shown["big"] / shown["long"] < 1.1


def test_what_a_message_asks_is_what_was_written_beside_its_attachments(folder: Path) -> None:
    (folder / "notes.md").write_text("Next meeting: 8 December\n", encoding="utf-8")

    async def play() -> Message:
        async with open_scripted_app(folder, ["On 8 December."]) as app:
            await collect_emitted(send_message, app, "When is the next meeting, see @notes.md ?")
            return app.chat.history[-2]

    message = asyncio.run(play())
    assert message.asked == "When is the next meeting, see  ?" and "8 December" in message.text


def test_a_short_attachment_leaves_its_share_to_a_long_one(folder: Path) -> None:
    alone, _ = send_attachments(folder, 0, big=200_000)
    beside, _ = send_attachments(folder, 0, big=200_000, short=100)
    assert beside["short"] == 100
    assert beside["big"] > 0.9 * alone["big"]


def test_what_is_attached_waits_for_a_message_that_can_be_sent(folder: Path) -> None:
    async def play() -> str:
        async with open_scripted_app(folder, ["Yes."], context_tokens=WINDOW) as app:
            app.attachments = [Attachment("log", "text/plain", 6, "It is.")]
            with pytest.raises(GenerationError, match="characters"):
                await collect_emitted(send_message, app, "x" * 400_000)
            await collect_emitted(send_message, app, "Is it?")
            assert app.attachments == []
            return backend_of(app.chat).prompts[-1][-1].text

    assert "It is." in asyncio.run(play())


def test_a_turn_that_cannot_be_sent_again_stays_in_the_conversation(folder: Path) -> None:
    async def play() -> list[str]:
        async with open_scripted_app(folder, [], context_tokens=WINDOW) as app:
            app.chat.history += [Message("user", "x" * 400_000), Message("assistant", "Yes.")]  # of a larger model
            with pytest.raises(GenerationError, match="characters"):
                await collect_emitted(commands.run, app, "/retry")
            return [message.role for message in app.chat.history]

    assert asyncio.run(play()) == ["user", "assistant"]


def send(folder: Path, line: str) -> tuple[list[Event], str]:
    """Return the events of a message, and the prompt that the model got; "" for none."""

    async def play() -> tuple[list[Event], str]:
        async with open_scripted_app(folder, ["Yes."], context_tokens=WINDOW) as app:
            events = await collect_emitted(send_message, app, line)
            return events, backend_of(app.chat).prompts[-1][-1].text if backend_of(app.chat).prompts else ""

    return asyncio.run(play())


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_name_with_blanks_is_quoted_and_a_file_that_is_missing_is_named(folder: Path) -> None:
    (folder / "to buy.txt").write_text("rope", encoding="utf-8")
    line = 'See @"to buy.txt", @@nosuch.txt and ask @anna or mail@husum.example.'
    events, prompt = send(folder, line)
    assert "rope" in prompt and "[Attached: to buy.txt] 4 bytes" in notices(events) and " @nosuch.txt" in prompt
    line = line.replace("@@", "@")
    said = Notice("Not sent: File not found: nosuch.txt. @@nosuch.txt sends the text as it is.")
    assert send(folder, line) == ([said, Draft(line)], "")


def test_a_file_that_is_shortened_is_reported_with_its_sizes(folder: Path) -> None:
    (folder / "big").write_text("x" * 100_000, encoding="utf-8")
    events, prompt = send(folder, "@big")
    (line,) = (line for line in notices(events) if "shortened" in line)
    kept = int(line.split()[-6])
    assert line.startswith("big was shortened from 100000 to") and 1000 < kept < 100_000
    assert abs(prompt.count("x") - kept) < 200
