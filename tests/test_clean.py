"""Untrusted text on the terminal: what could steer it or hides is shown, the rest is left alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks import SEQUENCES
from rkllm_chat.clean import HIDDEN, UNSAFE, clean, clean_json, clean_line, reveal, reveal_line, unmask


@pytest.mark.parametrize(
    "text",
    [
        *("plain\n\ttext", "é ü ß 東京 한국어", "👩‍🔧 🇯🇵 ❤️ 1️⃣ ❤️‍🔥", "[TOOL_CALL] <b> & \\x1b", ""),
        *("می‌خواهم", "क्‍ष", "葛\U000e0100城市", "e\u0301"),
    ],
    ids=repr,
)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\x00b\x08\x7f", r"a\x00b\x08\x7f"),
        ("\x0b\x0c\x85", r"\x0b\x0c\x85"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("\u2066\u2069\u200e\u200f", r"\u2066\u2069\u200e\u200f"),
        ("\ud800", r"\ud800"),
    ],
    ids=["colour", "clipboard", "C1", "C0", "line jumps", "right to left", "isolates and marks", "surrogate"],
)
def test_what_steers_a_terminal_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_the_arabic_letter_mark_turns_text_around_and_is_shown_too() -> None:
    assert clean("a\u061cb") == r"a\u061cb"


def test_a_carriage_return_cannot_overwrite_a_line() -> None:
    assert clean("safe\rrm -rf\r\nnext") == "safe\nrm -rf\nnext"


def test_nothing_cleaned_holds_a_control_character() -> None:
    everything = "".join(map(chr, range(0x2100)))
    assert {c for c in clean(everything) if ord(c) < 32 or 0x7F <= ord(c) < 0xA0} == {"\t", "\n"}


def test_a_line_is_one_line() -> None:
    assert clean_line(" a\r\nb\t c\u2028d \x1b[2J ") == r"a b c d \x1b[2J"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200bb", r"a\u200bb"),
        ("rm\u200d x", r"rm\u200d x"),
        ("❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f\\ufe0f\\ufe0e"),
        ("x\ufe0f\u200d", r"x\ufe0f\u200d"),
        ("\U0001f3f4\U000e0067\U000e007f", "\U0001f3f4\\U000e0067\\U000e007f"),
        ("a\u3164\u115f\u00ad\ufeffb", r"a\u3164\u115f\xad\ufeffb"),
        ("one\u2028two", "one\ntwo"),
    ],
    ids=["zero width", "joiner", "variations", "joiner behind a hidden one", "tags", "fillers", "line separator"],
)
def test_what_hides_is_shown_unless_it_belongs_to_a_letter(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize("text", ["👩‍🔧 ❤️‍🔥", "می‌خواهم", "a\u200d b❤\ufe0f\u200d\u200d"])
def test_a_text_that_comes_in_pieces_is_shown_as_the_whole(text: str) -> None:
    assert "".join(clean(letter, text[:at]) for at, letter in enumerate(text)) == clean(text)


@pytest.mark.parametrize("text", SEQUENCES.values(), ids=SEQUENCES)
def test_nothing_stays_unseen_by_somebody_who_is_to_approve_it(text: str) -> None:
    for shown in (reveal(text), reveal(f"❤{text}"), reveal_line(text)):
        assert not UNSAFE.search(shown) and not HIDDEN.search(shown)
    assert not HIDDEN.search(unmask(text))


@given(st.text() | st.sampled_from(list(SEQUENCES.values())))
def test_a_document_means_the_same_and_steers_nothing(text: str) -> None:
    document = clean_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(document) == {text: [text]}
    assert clean(document) == document or any("\ud800" <= letter <= "\udfff" for letter in text)
