"""What ends a reply although the engine goes on."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rkllm_chat.backends.stops import Stops

ENDS = ("<|im_end|>", "</s>")


def feed_all(pieces: list[str]) -> tuple[str, str]:
    stops = Stops(ENDS)
    shown = "".join([stops.feed(piece) for piece in pieces]) + stops.close()
    return shown, stops.ending


def test_what_stands_before_an_end_is_the_reply() -> None:
    assert feed_all(["Hello", "!<|im", "_end|>", "<|im_start|>user"]) == ("Hello!", "said")


@given(st.text(alphabet="<|>/s_imend a", max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_the_cuts_between_pieces_change_nothing(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert feed_all(pieces) == feed_all([text])


@given(st.text(alphabet="<|>/s_imend a", max_size=60))
def test_nothing_is_lost_without_an_end(text: str) -> None:
    whole = min([text.find(end) for end in ENDS if end in text], default=len(text))
    assert feed_all(list(text))[0] == text[:whole]


def test_the_beginning_of_an_end_is_held_back_and_no_more() -> None:
    stops = Stops(ENDS)
    assert stops.feed("a <b </") == "a <b "
    assert stops.feed("p>") == "</p>"


@pytest.mark.parametrize("unit", ["a", "no, ", "The same line, said again.\n"])
def test_a_reply_that_goes_round_is_ended(unit: str) -> None:
    stops = Stops(ENDS)
    shown = [stops.feed(unit) for _ in range(5000)]
    assert stops.ending == "circle"
    assert len("".join(shown)) < 1200 + 200 + len(unit)


def test_a_long_list_of_like_lines_is_no_circle() -> None:
    stops = Stops(ENDS)
    for number in range(500):
        stops.feed(f"| {number} | 0.00 | 0.00 |\n")
    assert stops.ending == ""
