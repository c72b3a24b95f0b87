"""Markdown as a terminal shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pyte
import pytest

from rkllm_chat.tui.markdown import Growing

HERE = Path(__file__).parent
SGR = re.compile("\x1b\\[[0-9;]*m")


def screen(text: str, width: int = 40) -> str:
    """Return what a terminal without colours shows of an answer."""
    growing = Growing(width, color=False)
    return "\n".join(growing.feed(text) + growing.close()) + "\n"


def colored(text: str, width: int = 40) -> list[str]:
    growing = Growing(width, color=True)
    return growing.feed(text) + growing.close()


def cell_screen(lines: list[str], width: int = 40) -> pyte.Screen:
    terminal = pyte.Screen(width, 40)
    pyte.Stream(terminal).feed("\r\n".join(lines))
    return terminal


def style_of(lines: list[str], word: str) -> str:
    """Return the colour and attributes in which a terminal shows a word: "blue bold"."""
    terminal = cell_screen(lines)
    row, column = next((row, line.index(word)) for row, line in enumerate(terminal.display) if word in line)
    cell = terminal.buffer[row][column]
    names = ("bold", "italics", "underscore", "strikethrough")
    return " ".join([cell.fg, *(name for name in names if getattr(cell, name))])


def tails(text: str, width: int = 40, color: bool = False) -> list[list[str]]:
    """Return the tail after each character."""
    growing = Growing(width, color)
    return [growing.tail() for character in text if growing.feed(character) is not None]


# Markdown, what is shown, and the width of the screen.
SHORT: dict[str, tuple[str, str, int]] = {
    "a year at the start of a line is no list item": ("It was\n1986. Good.\n", "It was\n1986. Good.\n", 40),
    "a pipe alone makes no table": ("a | b\nc | d\n", "a | b\nc | d\n", 40),
    "code further left than its item is code": ("- a\n  ```\n**b**\n  ```\n", "• a\n  ```\n  **b**\n  ```\n", 40),
    "an underlined heading": ("# One #\ntext\nTitle\n===\n", "# One\ntext\nTitle\n═════\n", 5),
    "rules": ("text\n***\nSub\n---\n- - -\n", "text\n─────\nSub\n─────\n─────\n", 5),
    "a narrow table": ("|a|b|c|\n|-|-|-|\n|one|two|three|\n", "| a | b | c\n───\n| one | two\n| three\n", 12),
    "nested quotes leave room for text": ("> " * 8 + "word word", "│ │ │ │ │ > > > word\n│ │ │ │ │ word\n", 20),
    "HTML is literal": ("<b>bold</b> &lt;i&gt; <!-- x -->\n", "<b>bold</b> <i> <!-- x -->\n", 40),
    "Japanese": ("空白のない文章です。「括弧」も、折る。", "空白のない\n文章です。\n「括弧」\nも、折る。\n", 10),
    "nothing": ("", "\n", 40),
    "blank lines": ("\n \n\n", "\n", 40),
    "a list nested by 2 spaces": ("1. a\n  - b\n  - c\n2. d\n", "1. a\n   • b\n   • c\n2. d\n", 40),
    "a list nested by 4 spaces": ("1. a\n    - b\n    - c\n2. d\n", "1. a\n   • b\n   • c\n2. d\n", 40),
}


@pytest.mark.parametrize(("text", "shown", "width"), SHORT.values(), ids=SHORT)
def test_a_short_text_is_rendered(text: str, shown: str, width: int) -> None:
    assert screen(text, width) == shown


def test_a_long_answer_is_rendered_as_recorded() -> None:
    """Each heading of `answer.md` says what its section shows; `answer.screen` is the result."""
    source, expected = (HERE / name for name in ("answer.md", "answer.screen"))
    assert screen(source.read_text("utf-8")) == expected.read_text("utf-8")


def test_a_link_shows_its_target() -> None:
    text = (
        "[my bank](https://evil.example/?a=1) <https://a.example> <me@a.example> ![cat](cat.png) [x](javascript:run())"
    )
    shown = "my bank (https://evil.example/?a=1) https://a.example me@a.example cat (cat.png) x (javascript:run())"
    assert screen(text, width=200) == shown + "\n"
    assert "".join(cell_screen(colored(text, 200), 200).display).strip() == shown


def test_each_kind_of_markup_has_its_style() -> None:
    lines = colored(
        "# head\n\nplain **bold** *italic* ***both*** ~~gone~~ `code` [link](u)\n\n```python\ndef f(): 'str'\n```\n"
    )
    expected = {
        "head": "default bold underscore",
        "plain": "default",
        "bold": "default bold",
        "italic": "default italics",
        "both": "default bold italics",
        "gone": "default strikethrough",
        "code": "cyan",
        "link": "default underscore",
        "def": "brightblue",
        "str": "brown",
    }
    assert {word: style_of(lines, word) for word in expected} == expected
    assert cell_screen(lines).display[2].rstrip() == "plain bold italic both gone code link"


def test_a_string_of_many_lines_keeps_its_colour() -> None:
    body = "".join(f"for word {number}\n" for number in range(60))
    lines = colored(f'```python\ntext = """\n{body}"""\nfor x in y: pass\n```\n')
    string = {line.partition("for word")[0] for line in lines if "for word" in line}
    assert string == {"\x1b[33m"}
    assert style_of(lines[-2:], "for") == "brightblue"


def test_code_in_an_unknown_language_is_plain() -> None:
    assert colored("```klingon\nfor x\n```\n")[1] == "for x"


def test_an_open_mark_is_shown_plainly_until_it_is_closed() -> None:
    bold = "a \x1b[1mbo\x1b[0m"
    plain = ("a *", "a **", "a **b", "a **bo", "a **bo*", "a **bo**")
    assert tails("a **bo** c", color=True)[2:] == [[line] for line in (*plain, bold, f"{bold} c")]


def test_lines_of_code_go_out_one_by_one() -> None:
    growing = Growing(40, color=False)
    assert growing.feed("```py\nx = 1\ny =") == ["```py", "x = 1"]
    assert growing.tail() == ["y ="]
    assert growing.feed(" 2\n") == ["y = 2"]
    assert growing.feed("```\n") == ["```"]
    assert growing.close() == []


def test_a_table_grows_by_rows_and_is_printed_at_its_end() -> None:
    growing = Growing(40, color=False)
    assert growing.feed("|a|b|\n|-|-|\n|long|c|\n|half of") == []
    assert growing.tail() == ["a    │ b", "─────┼──", "long │ c"]
    assert growing.feed("|\n\n") == ["a       │ b", "────────┼──", "long    │ c", "half of │"]


def test_a_long_table_is_not_buffered_until_its_end() -> None:
    growing = Growing(40, color=False)
    growing.feed("|number|\n|-:|\n" + "".join(f"|{number}|\n" for number in range(49)))
    assert len(growing.feed("|49|\n")) == 52
    assert growing.feed("|50|\n|51|\n") == ["    50", "    51"]
    assert growing.close() == []


@pytest.mark.slow
def test_the_tail_stays_small_in_a_long_paragraph() -> None:
    prose = "The **quick** fox jumps over `the lazy` dog, and *on it goes* for a [while](u). " * 8
    chinese = "这是一个很长的段落，没有空格，也没有**换行**符，只有标点符号。" * 12
    for text, limit in ((prose, 6), (chinese, 10), (prose.replace(". ", ".\n"), 6)):
        assert max(map(len, tails(text, 60))) <= limit


@pytest.mark.parametrize("markup", ["**{}**", "_{}_", "`{}`", "[{}](u)", '[x](u "{}")'])
def test_markup_styles_all_lines_up_to_its_end(markup: str) -> None:
    source = "before " * 30 + markup.format(("within " * 40).strip()) + " after" * 30
    styles = {style for line in colored(source) for style in re.findall("\x1b\\[([0-9;]*)m[^\x1b]*within", line)}
    assert len(styles) == 1
    assert not any(mark in "".join(SGR.sub("", line) for line in colored(source)) for mark in "*_`[]")
    assert sum(line.count("within") for line in colored(source)) == 40


@pytest.mark.slow
def test_the_buffer_for_an_unclosed_mark_is_bounded() -> None:
    for text in ("*a b c d e " * 200, "*a\n" * 60, "[a\n" * 60, "`code without an end " * 120):
        growing = Growing(60, color=False)
        for start in range(0, len(text), 12):
            growing.feed(text[start : start + 12])
            assert len(growing.tail()) <= 20


def test_a_resize_applies_to_later_lines() -> None:
    growing = Growing(40, color=False)
    lines = growing.feed("one two three four five six seven eight nine ten")
    growing.resize(10)
    shown = "\n".join(lines + growing.feed(" eleven\n"))
    assert shown == "one two\nthree four\nfive six\nseven\neight nine\nten eleven"
