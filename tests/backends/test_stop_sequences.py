"""Stop sequences and repetition end a reply."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rkllm_chat.backends.shared.stop_sequences import Ending, StopDetector

ENDS = ("<|im_end|>", "</s>")


VERSE = "".join(f"A vast and beautiful canvas of {color},\n" for color in ("blue", "green", "pink", "orange", "yellow"))


def feed_all(pieces: list[str]) -> tuple[str, Ending | None]:
    stops = StopDetector(ENDS)
    shown = "".join([stops.feed(piece) for piece in pieces]) + stops.close()
    return shown, stops.ending


def test_the_reply_is_the_text_before_a_stop_sequence() -> None:
    assert feed_all(["Hello", "!<|im", "_end|>", "<|im_start|>user"]) == ("Hello!", Ending.STOP_SEQUENCE)


@given(st.text(alphabet="<|>/s_imend a", max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_the_boundaries_of_pieces_change_nothing(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert feed_all(pieces) == feed_all([text])


@given(st.text(alphabet="<|>/s_imend a", max_size=60))
def test_nothing_is_lost_without_a_stop_sequence(text: str) -> None:
    whole = min([text.find(end) for end in ENDS if end in text], default=len(text))
    assert feed_all(list(text))[0] == text[:whole]


def test_only_the_beginning_of_a_stop_sequence_is_held_back() -> None:
    stops = StopDetector(ENDS)
    assert stops.feed("a <b </") == "a <b "
    assert stops.feed("p>") == "</p>"


@pytest.mark.parametrize("unit", ["a", "The same line, said again.\n", VERSE])
def test_a_repeating_reply_is_ended(unit: str) -> None:
    stops = StopDetector(ENDS)
    shown = [stops.feed(unit) for _ in range(1500)]
    assert stops.ending is Ending.REPETITION
    assert len("".join(shown)) < 1200 + 200 + len(unit)


def test_a_repeating_short_line_is_ended_sooner() -> None:
    stops = StopDetector(ENDS)
    shown = [stops.feed("README.md\n") for _ in range(500)]
    assert stops.ending is Ending.REPETITION
    assert len("".join(shown)) <= 12 * len("README.md\n") + 100


def test_a_line_that_is_repeated_in_a_numbered_list_is_no_list() -> None:
    for name, ending in (("Dune", Ending.REPETITION), ("Dune {}", None)):
        stops = StopDetector(ENDS)
        for number in range(1, 60):
            stops.feed(f"{number}. {name.format(number)}\n")
        assert stops.ending is ending


@pytest.mark.parametrize("unit", ["&", "!!", "[PAD151935]", "<unk>"])
def test_the_garbage_of_a_broken_runtime_is_ended_soon(unit: str) -> None:
    stops = StopDetector(ENDS)
    shown = [stops.feed(unit) for _ in range(500)]
    assert stops.ending is Ending.GARBAGE
    assert len("".join(shown)) < 200 + 100 + len(unit)


@pytest.mark.parametrize("text", ["-" * 1000, "ha" * 500, "0" * 1000, "| " * 500, "\n" * 1000])
def test_a_long_line_is_no_garbage(text: str) -> None:
    assert feed_all([*text])[1] is not Ending.GARBAGE


def test_a_list_of_similar_lines_is_no_repetition() -> None:
    stops = StopDetector(ENDS)
    for number in range(500):
        stops.feed(f"| {number} | 0.00 | 0.00 |\n")
    assert stops.ending is None
