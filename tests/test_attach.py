"""What goes with a message takes a share of what is free, however much of the window that is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rkllm_chat import attach, language
from rkllm_chat.backends.scripted import Scripted
from rkllm_chat.config import Generation, Settings
from rkllm_chat.desk import open_desk
from rkllm_chat.messages import Message
from stage import collect

WINDOW = 4000


def attached(folder: Path, said: int, **sizes: int) -> tuple[dict[str, int], int]:
    """File -> characters of it that the model is shown, where so many have been said before; and what was free."""
    script = folder / "replies.json"
    script.write_text(json.dumps(["Yes."] * 3), encoding="utf-8")
    letters = dict(zip(sizes, "ÄÖ", strict=False))
    for name, size in sizes.items():
        (folder / name).write_text(letters[name] * size, encoding="utf-8")
    generation = Generation(max_tokens=100)
    chosen = Settings(
        model=str(script), backend="scripted", context_tokens=WINDOW, servers=(), generation=generation, system="Hi."
    )

    async def sit() -> tuple[dict[str, int], int]:
        async with open_desk(chosen, folder, words=language.load()) as desk:
            await collect(desk.chat.send("x" * said))
            free = WINDOW - 100 - desk.chat.count_tokens()
            await collect(attach.say(desk, " ".join(f"@{folder / name}" for name in sizes)))
            assert isinstance(desk.backend, Scripted)
            assert desk.backend.count_tokens(desk.backend.prompts[-1]) <= WINDOW - 100
            text = desk.chat.history[-2].text
            return {name: text.count(letter) for name, letter in letters.items()}, free

    return asyncio.run(sit())


@pytest.mark.parametrize("said", [0, 4000, 10_000])
def test_attachments_together_take_half_of_what_is_free(said: int, folder: Path) -> None:
    shown, free = attached(folder, said, big=200_000, long=200_000)
    tokens = Scripted([]).count_tokens([Message("user", "Ä" * sum(shown.values()))])
    assert 0.7 * free / 2 < tokens < free / 2
    assert 0.9 < shown["big"] / shown["long"] < 1.1


def test_a_short_attachment_leaves_its_share_to_a_long_one(folder: Path) -> None:
    alone, _ = attached(folder, 0, big=200_000)
    beside, _ = attached(folder, 0, big=200_000, short=100)
    assert beside["short"] == 100
    assert beside["big"] > 0.9 * alone["big"]
