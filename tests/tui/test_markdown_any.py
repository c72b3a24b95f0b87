"""Properties of rendered Markdown for any text, however it is split and however hostile."""

from __future__ import annotations

import re
import sys
from collections import Counter
from types import FrameType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from fuzzing import examples
from rkllm_chat.core.sanitize import UNSAFE
from rkllm_chat.tui.markdown import Growing

SGR = re.compile("\x1b\\[[0-9;]*m")
MARKS = ("*", "**", "***", "_", "__", "`", "``", "```", "~~~", "~~", "[", "](", "](", "![", ")", "\\", "<https://ab.e/")
STARTS = ("\n- ", "\n1. ", "\n> ", "\n# ", "\n  * ", "\n    ", "\n```py\n", "<", ">", "---", "===", ":", "!")
SYNTAX = (*MARKS, *STARTS, " ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\r")
TABLES = ("\n|ab|cd|\n|-|:-:|\n", "|", "|ef|gh|\n", "\n| ")
WORDS = ("word", "if", "日本語", "。」", "「", "é", "e\u0301", "👨\u200d👩\u200d👧", "❤\ufe0f", "\u0301", "a" * 30)
CONTROLS = ("\x1b[31m", "\x1b]8;;u\x07", "\x07", "\x0c", "\x9b1m")
UNSAFE_WORDS = (*CONTROLS, "\u202e", "\u200d", "\ufe0f", "\ud800", "&#8238;", "&#27;")
texts = st.lists(st.sampled_from((*SYNTAX, *WORDS)), max_size=60).map("".join)
tables = st.lists(st.sampled_from((*SYNTAX, *WORDS, *TABLES)), max_size=60).map("".join)
anything = st.lists(st.sampled_from((*SYNTAX, *TABLES, *UNSAFE_WORDS)) | st.text(), max_size=40).map("".join)
widths = st.integers(1, 6) | st.sampled_from((20, 80))
HOSTILE = {
    "stars and letters": "*a ",
    "lines of stars": "*a\n",
    "links": "[a](",
    "lines of brackets": "[a\n",
    "backticks": "`a``b",
    "angles": "<a ",
    "one word": "a",
    "quotes": "> ",
    "deeper and deeper": "\n" + " " * 20 + "- a",
    "newlines": "\n",
    "spaces": " ",
    "backslashes": "\\",
    "pipes": "|",
    "accents": "\u0301",
    "joiners": "\u200d",
    "code": "```python\nx = '''\n",
    "lines of code": "```python\n" + "x\n" * 100,
    "tables": "|a|b|\n|-|-|\n" + "|c|d|\n" * 80,
}


def lines_of(text: str, width: int, color: bool, cuts: list[int] | None = None) -> list[str]:
    growing = Growing(width, color)
    lines: list[str] = []
    for size in cuts or ():
        lines += growing.feed(text[:size])
        text = text[size:]
    return lines + growing.feed(text) + growing.close()


def letters(text: str) -> str:
    return "".join(filter(str.isalpha, SGR.sub("", text)))


@pytest.mark.slow
@given(anything, widths, st.booleans(), st.lists(st.integers(1, 30)))
@example("\r\n" * 3 + "a\r", 20, True, [1] * 7)
@example("word " * 100 + "**bold** " * 20, 20, True, [4] * 300)
@example("a👨\u200d👩\u200d👧❤\ufe0f\u200d🔥 b\u200d", 20, True, [1] * 12)
def test_the_output_does_not_depend_on_the_chunks(text: str, width: int, color: bool, cuts: list[int]) -> None:
    whole = lines_of(text, width, color)
    assert lines_of(text, width, color, cuts) == whole
    assert lines_of(text, width, color, [1] * len(text)) == whole


@pytest.mark.slow
@given(anything, widths, st.booleans())
@example("&#27;[31m \x1b[31m `\x1b[31m`\n```py\n\x1b[31m\n```\n| \x9b |\n|--|\n", 20, True)
def test_only_own_sequences_are_written_and_no_line_is_too_wide(text: str, width: int, color: bool) -> None:
    growing = Growing(width, color)
    lines = growing.feed(text)
    for line in (*lines, *growing.tail(), *growing.close()):
        plain = SGR.sub("", line) if color else line
        assert not UNSAFE.search(plain)
        assert not {"\n", "\t"} & set(plain)
        assert line.count("\x1b") % 2 == 0
        assert line.count("\x1b") == 2 * line.count("\x1b[0m")
        assert cell_len(plain) <= max(2, width)


@pytest.mark.slow
@given(texts, widths, st.booleans())
@example("a " * 500 + "**" + "b " * 500, 20, True)
def test_every_letter_is_shown_in_order(text: str, width: int, color: bool) -> None:
    shown = letters("".join(lines_of(text, width, color)))
    assert shown == letters(text)


@given(tables, widths, st.booleans())
@example("\\👨\u200d👩\u200d👧", 20, False)
def test_every_letter_of_a_table_is_shown(text: str, width: int, color: bool) -> None:
    shown = letters("".join(lines_of(text, width, color)))
    assert Counter(shown) == Counter(letters(text))


@given(tables, widths, widths, st.integers(0, 200), st.booleans())
def test_a_resize_at_any_moment_loses_nothing(text: str, old: int, new: int, at: int, color: bool) -> None:
    growing = Growing(old, color)
    before = growing.feed(text[:at])
    growing.resize(new)
    tail = growing.tail()
    after = growing.feed(text[at:]) + growing.close()
    assert Counter(letters("".join(before + after))) == Counter(letters(text))
    assert all(cell_len(SGR.sub("", line)) <= max(2, new) for line in (*tail, *after))


@given(tables, widths, st.booleans())
@settings(max_examples=examples(30))
def test_reading_the_tail_changes_nothing(text: str, width: int, color: bool) -> None:
    growing = Growing(width, color)
    lines: list[str] = []
    for character in text:
        lines += growing.feed(character)
        growing.tail()
    assert lines + growing.close() == lines_of(text, width, color)


def calls_for(text: str) -> int:
    """Return the number of function calls for a text in chunks of four characters."""
    count = 0

    def count_call(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    growing = Growing(80, color=True)
    previous = sys.getprofile()
    sys.setprofile(count_call)
    try:
        for at in range(0, len(text), 4):
            growing.feed(text[at : at + 4])
        growing.close()
    finally:
        sys.setprofile(previous)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_twice_the_text_is_twice_the_work(name: str) -> None:
    text = HOSTILE[name] * (1000 // len(HOSTILE[name]) + 1)
    calls_for(text[:500])  # fill the caches
    assert calls_for(text * 2) < 2.5 * calls_for(text) + 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_the_buffer_of_hostile_text_is_bounded_and_no_line_is_too_wide(name: str) -> None:
    growing = Growing(2, color=True)
    lines = growing.feed(HOSTILE[name] * (6000 // len(HOSTILE[name])))
    assert len(growing.tail()) < 1500
    assert all(cell_len(SGR.sub("", line)) <= 2 for line in lines + growing.close())


def test_a_long_line_is_written_while_it_arrives() -> None:
    growing = Growing(80, color=True)
    shown = growing.feed("word " * 20_000)
    assert len(shown) > 20_000 // 16 - 10
    assert len(growing.tail()) < 6
    assert "".join(shown + growing.close()).count("word") == 20_000
