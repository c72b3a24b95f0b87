"""Untrusted text on the terminal: what could steer it is shown, the rest is left alone."""

from __future__ import annotations

import pytest

from rkllm_chat.clean import clean, clean_line


@pytest.mark.parametrize(
    "text", ["plain\n\ttext", "é ü ß 東京 한국어", "👩‍🔧 🇯🇵", "[TOOL_CALL] <b> & \\x1b", ""], ids=repr
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
