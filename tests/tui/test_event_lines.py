"""The lines that `EventPrinter` writes for events."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO

import pytest

from rkllm_chat.chat.value_rules import REASONS
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import (
    CallFound,
    CallsDetected,
    CallUnreadable,
    Event,
    Notice,
    ReplyDiscarded,
    Table,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from rkllm_chat.core.messages import Status, ToolCall, ToolResult
from rkllm_chat.tui.event_lines import EventPrinter, describe_event, format_table
from rkllm_chat.tui.markdown.cells import break_words, wrap_text

CALL = ToolCall("get_time", {"place": "Tokyo"})


def shown(*events: Event, color: bool = False) -> str:
    """Return what is written for events, with both streams on one terminal."""
    screen = StringIO()
    printer = EventPrinter(screen, screen, language.load(), color)
    for event in events:
        printer.show(event)
    printer.end_line()
    return screen.getvalue()


def finished(status: Status, text: str) -> ToolFinished:
    return ToolFinished(ToolResult("board", "get_time", {}, status, text))


def test_a_turn_with_a_tool() -> None:
    before = (Text("Let me "), Text("see.\n\n"), CallFound(CALL), CallsDetected(1))
    running = (ToolStarted("board", "get_time", CALL), ToolProgress("board", "get_time", 1, 3, "looking"))
    after = (finished("completed", "noon"), Text("\n"), Text("It is"), Text(" noon.\n"), TurnEnded("answered"))
    assert shown(*before, *running, *after) == (
        "◆ Let me see.\n"
        "[MCP: Detected 1 tool call]\n"
        "[MCP: Calling tool 'get_time']\n"
        "[MCP: Tool 'get_time': 1/3 looking]\n"
        "[MCP: Tool 'get_time' completed]\n"
        "◆ It is noon.\n"
    )


@pytest.mark.parametrize(
    ("wrap", "text", "lines"),
    [
        (wrap_text, "may read /venvs/dev/lib/site-packages", ["may read", "/venvs/dev/lib/", "site-packages"]),
        (wrap_text, "x" * 25, ["x" * 16, "x" * 9]),
        (break_words, "! 由模型编造（值不在对话）：content", ["! 由模型编造（值", "不在对话）：", "content"]),
        (break_words, "! 値がありません値があります：content", ["! 値がありません", "値があります：", "content"]),
        (break_words, "! 値がありません、です", ["! 値がありませ", "ん、です"]),
    ],
)
def test_a_line_breaks_where_a_reader_expects_it(
    wrap: Callable[[str, int], list[str]], text: str, lines: list[str]
) -> None:
    assert wrap(text, 16) == lines


def test_a_matrix_names_its_columns_in_a_narrow_window() -> None:
    rows = (
        ("Esc", "close the menu", "stop", "stop"),
        ("Ctrl+Z", "suspend", "suspend", "suspend"),
        ("?", "help", "-", "-"),
    )
    table = Table(("Key", "While typing", "At work", "At a question"), rows, is_matrix=True)
    assert format_table(table, 30) == [
        "Esc",
        "  While typing: close the menu",
        "  At work, At a question: stop",
        "Ctrl+Z",
        "  suspend",
        "?",
        "  While typing: help",
    ]
    assert format_table(table, 80)[0] == "Key     While typing    At work  At a question"


def test_a_call_is_named_with_its_server_where_there_are_several() -> None:
    screen = StringIO()
    printer = EventPrinter(screen, screen, language.load(), color=False, names_servers=lambda: True)
    for server in ("files", "notes"):
        printer.show(ToolStarted(server, "read", CALL))
        printer.show(ToolProgress(server, "read", 1, 3, "looking"))
        printer.show(ToolFinished(ToolResult(server, "read", {}, "declined", "no", decline_reason="user")))
    printer.show(ToolFinished(ToolResult("", "more", {}, "completed", "")))
    assert screen.getvalue().splitlines() == [
        "[MCP: Calling tool 'files__read']",
        "[MCP: Tool 'files__read': 1/3 looking]",
        "[MCP: Tool 'files__read' declined]",
        "[MCP: Calling tool 'notes__read']",
        "[MCP: Tool 'notes__read': 1/3 looking]",
        "[MCP: Tool 'notes__read' declined]",
        "[MCP: Tool 'more' completed]",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (CallsDetected(2), "[MCP: Detected 2 tool calls]"),
        (
            CallUnreadable("bad_json", "No brace.", "[TOOL_CALL]"),
            "[MCP: A tool call could not be parsed, so it is not run: No brace.]",
        ),
        (finished("failed", "no such place"), "[MCP: Tool 'get_time' failed: no such place]"),
        (finished("declined", "not allowed"), "[MCP: Tool 'get_time' declined: not allowed]"),
        (
            ToolFinished(ToolResult("b", "write", {}, "failed", "write shorter replies", decline_reason="cut")),
            "[MCP: Tool 'write' was not called: the reply was cut off, and the rest of it is unknown]",
        ),
        (finished("stopped", ""), "[MCP: Tool 'get_time' stopped]"),
        (ToolProgress("b", "get_time", 5, None, ""), "[MCP: Tool 'get_time': 5 ]"),
        (Notice("two\nlines\tand \x1b[2J"), "two lines and \\x1b[2J"),
        (Notice("x" * 3000), "x" * 1999 + "…"),
        (
            TurnEnded("length"),
            "[The answer was cut off: it reached its token limit. Write continue for the rest, or raise max_tokens "
            "(/set max_tokens 4096, --set max_tokens=4096)]",
        ),
    ],
)
def test_each_kind_of_line(event: Event, line: str) -> None:
    assert shown(event) == f"{line}\n"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("en", r"(Tool not called.*|No tool called|(Answer|Refusal) discarded): .+\."),
        ("ja", r"(ツールは(未実行です|まだ実行していません).*|(回答|拒否の返答)を破棄しました): .+。"),
        ("zh", r"(工具(未|尚未).*调用.*|没有调用工具|(回答|拒绝)已丢弃)：.+。"),
    ],
)
def test_what_is_discarded_is_said_in_one_line_with_the_reason(code: str, outcome: str) -> None:
    words = language.load(code)
    events = [ReplyDiscarded(), ReplyDiscarded("x"), *(ReplyDiscarded(reason=reason) for reason in REASONS)]
    lines = [describe_event(event, words) for event in events]
    assert [line for line in lines if not re.fullmatch(outcome, line) or len(wrap_text(line, 85)) > 1] == []
    long = describe_event(ReplyDiscarded(reason="unspoken", values=f"read_query: {'SELECT ' * 50}"), words)
    assert "read_query: SELECT" in long and len(wrap_text(long, 80)) == 2


def test_thoughts_and_side_lines_are_dim_where_colours_are_wanted() -> None:
    events: list[Event] = [Thought("\nHm.\n"), Text("\n\nYes."), TurnEnded("answered"), Notice("x")]
    assert shown(*events) == "Hm.\n◆ Yes.\nx\n"
    assert shown(*events, color=True) == "\x1b[2mHm.\x1b[0m\n◆ Yes.\n\x1b[2mx\x1b[0m\n"


def test_white_space_is_kept_inside_an_answer_only() -> None:
    assert shown(Text("a\n"), Text("\n"), Text("  b "), TurnEnded("answered")) == "◆ a\n\n  b\n"
    assert shown(Text(" \n"), Text("\n"), TurnEnded("answered")) == ""


def test_columns_line_up_with_wide_characters() -> None:
    assert shown(Table(("city", "time"), (("東京", "noon"), ("Berlin", "night")))) == (
        "city    time\n東京    noon\nBerlin  night\n"
    )


def test_in_a_narrow_window_the_last_column_is_below_the_others() -> None:
    rows = (("1", "x", "get_time", "Tell the time of a place."), ("2", "", "add", "Add two numbers, or more of them."))
    table = Table(("no.", "on", "tool", "description"), rows)
    assert format_table(table, 24) == [
        "no.  on  tool",
        "  description",
        "1    x   get_time",
        "  Tell the time of a",
        "  place.",
        "2        add",
        "  Add two numbers, or",
        "  more of them.",
    ]
    assert format_table(table, 12)[4:7] == ["1  x", "  get_time", "  Tell the"]
    without = Table((), (("3", "-", "wait", "-"), ("4", "", "stop", "End what runs, at once.")))
    assert format_table(without, 24)[:2] == ["3  -  wait", "4     stop"]


def test_what_is_for_the_user_alone_is_shown_indented_below_its_server() -> None:
    """No line of a server passes for one of the program or of the model."""
    result = ToolResult("harbour", "show", {}, "completed", "x", user_text="◆ low\x1b[2J\n[MCP: ok]\n" + "more\n" * 50)
    side = StringIO()
    EventPrinter(StringIO(), side, language.load(), color=False).show(ToolFinished(result))
    lines = side.getvalue().splitlines()
    assert lines[:2] == [
        "[MCP: Tool 'show' completed]",
        "[MCP: Server 'harbour' shows to you, not to the model:]",
    ]
    assert all(line.startswith("  ") and "\x1b" not in line for line in lines[2:])
    assert (len(lines), lines[-1]) == (43, "  … and 12 more lines")


def test_the_terminal_is_written_to_while_llama_cpp_hides_standard_output() -> None:
    """llama-cpp-python does so while it loads a model; in a process of its own, as it changes file descriptor 1."""
    code = """
from llama_cpp._utils import suppress_stdout_stderr
from rkllm_chat.tui.event_lines import open_terminal
terminal = open_terminal()
with suppress_stdout_stderr(disable=False):
    print("hidden", flush=True)
    terminal.write("shown\\n")
"""
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout == b"shown\n"
