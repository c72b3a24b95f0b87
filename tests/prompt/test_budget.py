"""Texts cut in the middle to fit a small context."""

from __future__ import annotations

import pytest

from rkllm_chat.core.messages import Message
from rkllm_chat.prompt.budget import MAX_TOKEN_LENGTH, find_turns, truncate_middle


def count_words(text: str) -> int:
    return len(text.split())


def test_a_text_that_fits_is_left_alone() -> None:
    text = "word " * 20
    assert truncate_middle(text, 20, count_words) == text


def test_a_text_that_does_not_fit_keeps_its_beginning_and_its_end() -> None:
    lines = "\n".join(f"line {i}" for i in range(100))
    cut = truncate_middle(lines, 60, count_words)
    head, note, *tail = cut.partition("\n[")[0], *cut.partition("\n[")[2].partition("]\n")
    assert count_words(cut) <= 60
    assert lines.startswith(head)
    assert lines.endswith(tail[-1])
    assert note == f"{len(lines) - len(head) - len(tail[-1])} of {len(lines)} characters left out"
    assert len(head) > len(tail[-1]) > 0


def test_of_a_text_for_which_there_is_no_room_only_the_note_is_left() -> None:
    assert truncate_middle("word " * 20, 1, count_words).strip() == "[100 of 100 characters left out]"


@pytest.mark.parametrize("limit", [0, 1, 1000])
def test_cutting_ends_after_a_few_counts_whatever_the_limit(limit: int) -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return len(text)

    cut = truncate_middle("x" * 10_000, limit, count)
    assert len(cut) <= max(limit, len("\n[10000 of 10000 characters left out]\n"))
    assert len(counted) < 60


def test_a_turn_begins_at_each_question() -> None:
    roles = ("user", "assistant", "tool", "assistant", "user", "assistant")
    history = [Message(role, "") for role in roles]  # type: ignore[arg-type]  # roles come as texts
    assert find_turns(history) == [0, 4]


def test_of_a_text_that_cannot_fit_only_what_may_fit_is_counted() -> None:
    sizes: list[int] = []

    def count(text: str) -> int:
        sizes.append(len(text))
        return len(text.split())

    cut = truncate_middle("word " * (1 << 20), 100, count)
    assert count(cut) <= 100 and cut.startswith("word ") and cut.endswith("word ")
    assert "of 5242880 characters left out" in cut
    assert max(sizes) < 100 * MAX_TOKEN_LENGTH + 100
