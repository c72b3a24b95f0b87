"""Markdown in, the screen of a terminal out."""

from __future__ import annotations

import re
from textwrap import dedent

import pyte
import pytest

from rkllm_chat.markdown import Growing

SGR = re.compile("\x1b\\[[0-9;]*m")


def screen(text: str, width: int = 40) -> str:
    """What a terminal without colours shows of an answer."""
    growing = Growing(width, color=False)
    return "\n".join(growing.feed(dedent(text)) + growing.close()) + "\n"


def colored(text: str, width: int = 40) -> list[str]:
    growing = Growing(width, color=True)
    return growing.feed(dedent(text)) + growing.close()


def cell_screen(lines: list[str], width: int = 40) -> pyte.Screen:
    terminal = pyte.Screen(width, 40)
    pyte.Stream(terminal).feed("\r\n".join(lines))
    return terminal


def look_of(lines: list[str], word: str) -> str:
    """The colour and attributes in which a terminal shows a word: "blue bold"."""
    terminal = cell_screen(lines)
    row, column = next((row, line.index(word)) for row, line in enumerate(terminal.display) if word in line)
    cell = terminal.buffer[row][column]
    names = ("bold", "italics", "underscore", "strikethrough")
    return " ".join([cell.fg, *(name for name in names if getattr(cell, name))])


def tails(text: str, width: int = 40, color: bool = False) -> list[list[str]]:
    """The tail after each character."""
    growing = Growing(width, color)
    seen = []
    for character in text:
        growing.feed(character)
        seen.append(growing.tail())
    return seen


def test_a_paragraph_is_wrapped_and_keeps_its_lines() -> None:
    assert screen("""\
        The quick brown fox jumps over the lazy dog again.
        A line of its own.


        Another paragraph.
    """) == dedent("""\
        The quick brown fox jumps over the lazy
        dog again.
        A line of its own.

        Another paragraph.
    """)


def test_lists_are_nested_and_keep_their_numbers() -> None:
    assert screen("""\
        3. Third, with words enough for a second line
           - inner
             goes on

             after a blank
           * another
        4. Fourth
        - [x] done
        -
        + last
    """) == dedent("""\
        3. Third, with words enough for a second
           line
           • inner
             goes on

             after a blank
           • another
        4. Fourth
        • [x] done
        •
        • last
    """)


@pytest.mark.parametrize("indent", [2, 3, 4])
def test_a_list_is_nested_however_small_the_model_indents(indent: int) -> None:
    inner = " " * indent
    assert screen(f"1. a\n{inner}- b\n{inner}- c\n2. d\n") == "1. a\n   • b\n   • c\n2. d\n"


def test_a_year_at_the_beginning_of_a_line_is_no_list() -> None:
    assert screen("It was\n1986. A good year.\n") == "It was\n1986. A good year.\n"


def test_quotes_stand_behind_a_bar() -> None:
    assert screen("""\
        > Quoted words that need more than one line
        still quoted
        >
        > > deeper
        > - item

        out
    """) == dedent("""\
        │ Quoted words that need more than one
        │ line
        │ still quoted
        │
        │ │ deeper
        │ • item

        out
    """)


def test_code_is_shown_as_it_is_between_its_fences() -> None:
    assert screen("""\
        1. Run:
           ```sh
           if true; then
               echo "*not* **emphasis**"

           fi
           ```
        ~~~
        a line of code that is longer than the screen
        ```
        ~~~
    """) == dedent("""\
        1. Run:
           ```sh
           if true; then
               echo "*not* **emphasis**"

           fi
           ```
        ~~~
        a line of code that is longer than the s
        creen
        ```
        ~~~
    """)


def test_code_that_stands_further_left_than_its_item_is_still_code() -> None:
    assert screen("- Run:\n  ```\nmake **all**\n  ```\n") == "• Run:\n  ```\n  make **all**\n  ```\n"


def test_a_table_has_columns_as_wide_as_their_cells() -> None:
    assert screen("""\
        Prices:
        | Name | Price | Mark |
        |:-----|------:|:----:|
        | tea | 1.50 | a |
        | コーヒー | 12.00 | `x \\| y` |
        | a | b | c | d |
        | short |
        After.
    """) == dedent("""\
        Prices:
        Name     │ Price │  Mark
        ─────────┼───────┼────────
        tea      │  1.50 │    a
        コーヒー │ 12.00 │ `x | y`
        a        │     b │  c | d
        short    │       │
        After.
    """)


def test_a_table_that_is_too_wide_is_wrapped_in_its_cells() -> None:
    text = """\
        | Name | What it does |
        |------|------|
        | get_time | says how late it is anywhere |
        | ls | lists<br>files |
    """
    assert screen(text, width=24) == dedent("""\
        Name     │ What it does
        ─────────┼──────────────
        get_time │ says how late
                 │ it is
                 │ anywhere
        ls       │ lists
                 │ files
    """)


def test_a_table_with_no_room_for_its_columns_is_shown_row_by_row() -> None:
    assert screen("|a|b|c|\n|-|-|-|\n|one|two|three|\n", width=12) == dedent("""\
        | a | b | c
        ───
        | one | two
        | three
    """)


def test_a_pipe_alone_makes_no_table() -> None:
    assert screen("a | b\nc | d\n") == "a | b\nc | d\n"


def test_rules_and_underlined_headings() -> None:
    assert screen("# One #\ntext\n***\nTitle\n===\nSub\n---\n- - -\n", width=5) == dedent("""\
        # One
        text
        ─────
        Title
        ═════
        Sub
        ─────
        ─────
    """)


def test_a_link_says_where_it_leads() -> None:
    text = (
        "[my bank](https://evil.example/?a=1) <https://a.example> <me@a.example> ![cat](cat.png) [x](javascript:run())"
    )
    shown = "my bank (https://evil.example/?a=1) https://a.example me@a.example cat (cat.png) x (javascript:run())"
    assert screen(text, width=200) == shown + "\n"
    assert "".join(cell_screen(colored(text, 200), 200).display).strip() == shown


def test_html_is_shown_and_not_obeyed() -> None:
    assert screen("<b>bold</b> &lt;i&gt; <!-- x -->\n") == "<b>bold</b> <i> <!-- x -->\n"


def test_japanese_is_wrapped_anywhere_but_before_a_full_stop() -> None:
    assert screen("空白のない文章です。「括弧」も、折る。", width=10) == dedent("""\
        空白のない
        文章です。
        「括弧」
        も、折る。
    """)


def test_emphasis_and_code_have_looks_of_their_own() -> None:
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
    assert {word: look_of(lines, word) for word in expected} == expected
    assert cell_screen(lines).display[2].rstrip() == "plain bold italic both gone code link"


def test_code_keeps_its_colours_where_a_string_goes_over_many_lines() -> None:
    body = "".join(f"for word {number}\n" for number in range(60))
    lines = colored(f'```python\ntext = """\n{body}"""\nfor x in y: pass\n```\n')
    string = {line.partition("for word")[0] for line in lines if "for word" in line}
    assert string == {"\x1b[33m"}
    assert look_of(lines[-2:], "for") == "brightblue"


def test_code_in_a_language_nobody_knows_is_plain() -> None:
    assert colored("```klingon\nfor x\n```\n")[1] == "for x"


def test_an_open_mark_is_shown_plainly_until_it_is_closed() -> None:
    assert tails("a **bo** c", color=True)[2:] == [
        ["a *"],
        ["a **"],
        ["a **b"],
        ["a **bo"],
        ["a **bo*"],
        ["a **bo**"],
        ["a \x1b[1mbo\x1b[0m"],
        ["a \x1b[1mbo\x1b[0m c"],
    ]


def test_lines_of_code_go_out_one_by_one() -> None:
    growing = Growing(40, color=False)
    assert growing.feed("```py\nx = 1\ny =") == ["```py", "x = 1"]
    assert growing.tail() == ["y ="]
    assert growing.feed(" 2\n") == ["y = 2"]
    assert growing.feed("```\n") == ["```"]
    assert growing.close() == []


def test_a_table_grows_row_by_row_and_is_printed_when_it_is_over() -> None:
    growing = Growing(40, color=False)
    assert growing.feed("|a|b|\n|-|-|\n|long|c|\n|half of") == []
    assert growing.tail() == ["a    │ b", "─────┼──", "long │ c"]
    assert growing.feed("|\n\n") == ["a       │ b", "────────┼──", "long    │ c", "half of │"]


def test_a_long_table_is_not_held_until_its_end() -> None:
    growing = Growing(40, color=False)
    growing.feed("|number|\n|-:|\n" + "".join(f"|{number}|\n" for number in range(49)))
    assert len(growing.feed("|49|\n")) == 52
    assert growing.feed("|50|\n|51|\n") == ["    50", "    51"]
    assert growing.close() == []


def test_the_tail_stays_small_in_a_long_paragraph() -> None:
    prose = "The **quick** fox jumps over `the lazy` dog, and *on it goes* for a [while](u). " * 12
    chinese = "这是一个很长的段落，没有空格，也没有**换行**符，只有标点符号。" * 12
    for text, most in ((prose, 6), (chinese, 10), (prose.replace(". ", ".\n"), 6)):
        assert max(map(len, tails(text, 60))) <= most


@pytest.mark.parametrize("form", ["**{}**", "_{}_", "`{}`", "[{}](u)", '[x](u "{}")'])
def test_a_mark_holds_over_all_the_lines_between_it_and_its_end(form: str) -> None:
    written = "before " * 30 + form.format(("within " * 40).strip()) + " after" * 30
    styles = {style for line in colored(written) for style in re.findall("\x1b\\[([0-9;]*)m[^\x1b]*within", line)}
    assert len(styles) == 1
    assert not any(mark in "".join(SGR.sub("", line) for line in colored(written)) for mark in "*_`[]")
    assert sum(line.count("within") for line in colored(written)) == 40


def test_boxes_leave_room_for_what_is_in_them() -> None:
    assert screen("> " * 8 + "word word", width=20) == "│ │ │ │ │ > > > word\n│ │ │ │ │ word\n"


def test_what_is_held_for_a_mark_that_is_never_closed_is_bounded() -> None:
    for text in ("*a b c d e " * 100, "*a\n" * 60, "[a\n" * 60, "`code without an end " * 50):
        assert max(map(len, tails(text, 60))) <= 20


def test_a_resize_holds_for_the_lines_to_come() -> None:
    growing = Growing(40, color=False)
    lines = growing.feed("one two three four five six seven eight nine ten")
    growing.resize(10)
    assert lines + growing.feed(" eleven\n") == [
        "one two",
        "three four",
        "five six",
        "seven",
        "eight nine",
        "ten eleven",
    ]


def test_an_answer_without_words_shows_nothing() -> None:
    assert screen("") == "\n"
    assert screen("\n \n\n") == "\n"
