"""Whatever a text holds, what is printed of it steers no terminal; what holds nothing of the kind stays as it is."""

from __future__ import annotations

import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.clean import HIDDEN, UNSAFE, clean, clean_line, reveal

PIECES = (
    "\x1b[31m",
    "\x1b]52;c;aGk=\x07",
    "\x1b]8;;u\x07",
    "\x9b2J",
    "\r",
    "\r\n",
    "\b",
    "\u202e",
    "\u2066",
    "\ud83d",
    "\x7f",
)
HIDING = (
    "\u200b",
    "\u200d",
    "\ufeff",
    "\U000e0041",
    "\u2028",
    "\x85",
    "❤\ufe0f",
    "👩\u200d🔧",
    "\\x1b",
    "é",
    "東",
    "\t",
    "\n",
)
any_text = st.lists(st.sampled_from((*PIECES, *HIDING)) | st.text(), max_size=15).map("".join)
letters = st.characters(categories=["L", "N", "P", "S", "Zs", "Mc"]).filter(lambda letter: not HIDDEN.match(letter))
ordinary = st.lists(letters | st.sampled_from("\n\t "), max_size=60).map("".join)
MEANT = {"\n", "\t"}


@settings(max_examples=examples(400))
@given(any_text)
@example("".join(map(chr, range(0x300))))
def test_nothing_that_steers_comes_out_of_any_text(text: str) -> None:
    for shown in (clean(text), reveal(text), clean_line(text)):
        assert not UNSAFE.search(shown)
        assert {letter for letter in shown if unicodedata.category(letter) in ("Cc", "Cs")} <= MEANT
    assert not MEANT & set(clean_line(text))
    assert not HIDDEN.search(reveal(text))


@settings(max_examples=examples(400))
@given(any_text)
def test_what_is_clean_stays_as_it_is(text: str) -> None:
    for tidy in (clean, reveal, clean_line):
        assert tidy(tidy(text)) == tidy(text)


@settings(max_examples=examples(400))
@given(ordinary)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert (clean(text), reveal(text)) == (text, text)
