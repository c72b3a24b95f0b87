"""Control characters and invisible characters of untrusted text are shown as escapes; other text is not changed."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attacks import SEQUENCES
from fuzzing import examples
from rkllm_chat.core.sanitize import (
    UNSAFE,
    ZERO_WIDTH,
    escape_line_visibly,
    escape_visibly,
    sanitize_for_terminal,
    sanitize_json,
    sanitize_line,
    strip_invisible,
)


@pytest.mark.parametrize(
    "text",
    [
        "plain\n\ttext",
        "é ü ß 東京 한국어",
        "👩‍🔧 🇯🇵 ❤️ 1️⃣ ❤️‍🔥",
        "[TOOL_CALL] <b> & \\x1b",
        "",
        "می‌خواهم",
        "क्‍ष",
        "葛\U000e0100城市",
        "e\u0301",
    ],
    ids=repr,
)
def test_harmless_text_is_not_changed(text: str) -> None:
    assert sanitize_for_terminal(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\x00b\x08\x7f", r"a\x00b\x08\x7f"),
        ("\x0b\x0c\x85", r"\x0b\x0c\x85"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("\u2066\u2069\u200e\u200f\u061c", r"\u2066\u2069\u200e\u200f\u061c"),
        ("\ud800", r"\ud800"),
    ],
    ids=["colour", "clipboard", "C1", "C0", "line jumps", "right to left", "isolates and marks", "surrogate"],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert sanitize_for_terminal(text) == shown


def test_a_carriage_return_cannot_overwrite_a_line() -> None:
    assert sanitize_for_terminal("safe\rrm -rf\r\nnext") == "safe\nrm -rf\nnext"


def test_a_line_is_one_line() -> None:
    assert sanitize_line(" a\r\nb\t c\u2028d \x1b[2J ") == r"a b c d \x1b[2J"


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
def test_invisible_characters_are_escaped_unless_they_belong_to_a_letter(text: str, shown: str) -> None:
    assert sanitize_for_terminal(text) == shown


@pytest.mark.parametrize("text", ["👩‍🔧 ❤️‍🔥", "می‌خواهم", "a\u200d b❤\ufe0f\u200d\u200d"])
def test_chunks_are_cleaned_like_the_whole_text(text: str) -> None:
    assert "".join(sanitize_for_terminal(letter, text[:at]) for at, letter in enumerate(text)) == sanitize_for_terminal(
        text
    )


@pytest.mark.parametrize("text", SEQUENCES.values(), ids=SEQUENCES)
def test_text_to_be_approved_has_no_invisible_character(text: str) -> None:
    for shown in (escape_visibly(text), escape_visibly(f"❤{text}"), escape_line_visibly(text)):
        assert not UNSAFE.search(shown) and not ZERO_WIDTH.search(shown)
    assert not ZERO_WIDTH.search(strip_invisible(text))


@given(st.text() | st.sampled_from(list(SEQUENCES.values())))
def test_a_cleaned_json_document_has_the_same_value(text: str) -> None:
    document = sanitize_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(document) == {text: [text]}
    assert sanitize_for_terminal(document) == document or any("\ud800" <= letter <= "\udfff" for letter in text)


PIECES = [
    "\x1b[31m",
    "\x1b]52;c;aGk=\x07",
    "\x1b]8;;u\x07",
    "\x9b2J",
    "\r",
    "\r\n",
    "\b",
    "\u202e",
    "\u2066",
    "\x7f",
    "\ud83d",
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
]
any_text = st.lists(st.sampled_from(PIECES) | st.text(), max_size=15).map("".join)
letters = st.characters(categories=["L", "N", "P", "S", "Zs", "Mc"]).filter(lambda letter: not ZERO_WIDTH.match(letter))
ordinary = st.lists(letters | st.sampled_from("\n\t "), max_size=60).map("".join)
ALLOWED = {"\n", "\t"}


@settings(max_examples=examples(200))
@given(any_text)
@example("".join(map(chr, range(0x300))))
def test_no_control_character_comes_out_of_any_text(text: str) -> None:
    for shown in (sanitize_for_terminal(text), escape_visibly(text), sanitize_line(text)):
        assert not UNSAFE.search(shown)
        assert {letter for letter in shown if unicodedata.category(letter) in ("Cc", "Cs")} <= ALLOWED
    assert not ALLOWED & set(sanitize_line(text))
    assert not ZERO_WIDTH.search(escape_visibly(text))


@settings(max_examples=examples(200))
@given(any_text)
def test_sanitizing_twice_changes_nothing(text: str) -> None:
    for sanitize in (sanitize_for_terminal, escape_visibly, sanitize_line):
        assert sanitize(sanitize(text)) == sanitize(text)


@settings(max_examples=examples(200))
@given(ordinary)
def test_ordinary_text_is_not_changed(text: str) -> None:
    assert (sanitize_for_terminal(text), escape_visibly(text)) == (text, text)
