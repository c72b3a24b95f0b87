"""Events in, characters out."""

from __future__ import annotations

from io import StringIO

import pytest

from rkllm_chat import language
from rkllm_chat.events import (
    CallFound,
    CallGarbled,
    CallsDetected,
    Event,
    Notice,
    Table,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from rkllm_chat.messages import Status, ToolCall, ToolResult
from rkllm_chat.terminal import Terminal

CALL = ToolCall("get_time", {"place": "Tokyo"})


def shown(*events: Event, color: bool = False) -> str:
    """What a terminal shows of these events, answer and side lines on one screen."""
    screen = StringIO()
    terminal = Terminal(screen, screen, language.load(), color)
    for event in events:
        terminal.show(event)
    terminal.end_line()
    return screen.getvalue()


def finished(status: Status, text: str) -> ToolFinished:
    return ToolFinished(ToolResult("board", "get_time", {}, status, text))


def test_a_turn_with_a_tool() -> None:
    events: list[Event] = [
        Text("Let me "),
        Text("see.\n\n"),
        CallFound(CALL),
        CallsDetected(1),
        ToolStarted("board", "get_time", CALL),
        ToolProgress("board", "get_time", 1, 3, "looking"),
        finished("completed", "noon"),
        Text("\n"),
        Text("It is"),
        Text(" noon.\n"),
        TurnEnded("answered"),
    ]
    assert shown(*events) == (
        "◆ Let me see.\n"
        "[MCP: Detected 1 tool call]\n"
        "[MCP: Calling tool 'get_time']\n"
        "[MCP: Tool 'get_time': 1/3 looking]\n"
        "[MCP: Tool 'get_time' completed]\n"
        "◆ It is noon.\n"
    )


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (CallsDetected(2), "[MCP: Detected 2 tool calls]"),
        (CallGarbled("bad_json", "No brace.", "[TOOL_CALL]"), "[MCP: A tool call could not be read: No brace.]"),
        (finished("failed", "no such place"), "[MCP: Tool 'get_time' failed: no such place]"),
        (finished("declined", "not allowed"), "[MCP: Tool 'get_time' declined: not allowed]"),
        (finished("stopped", ""), "[MCP: Tool 'get_time' stopped]"),
        (ToolProgress("b", "get_time", 5, None, ""), "[MCP: Tool 'get_time': 5 ]"),
        (Notice("two\nlines\tand \x1b[2J"), "two lines and \\x1b[2J"),
        (TurnEnded("length"), "[The answer was cut off: it reached its token limit]"),
    ],
)
def test_each_kind_of_line(event: Event, line: str) -> None:
    assert shown(event) == f"{line}\n"


def test_a_long_line_is_cut() -> None:
    assert shown(Notice("x" * 1000)) == "x" * 300 + "…\n"


def test_thoughts_are_dim_and_stand_on_lines_of_their_own() -> None:
    events: list[Event] = [Thought("\nHm.\n"), Text("\n\nYes."), TurnEnded("answered")]
    assert shown(*events) == "Hm.\n◆ Yes.\n"
    assert shown(*events, color=True) == "\x1b[2mHm.\x1b[0m\n◆ Yes.\n"


def test_side_lines_are_dim_only_where_colours_are_wanted() -> None:
    assert shown(Notice("x"), color=True) == "\x1b[2mx\x1b[0m\n"


def test_an_answer_of_white_space_shows_nothing() -> None:
    assert shown(Text(" \n"), Text("\n"), TurnEnded("answered")) == ""


def test_white_space_inside_an_answer_is_kept() -> None:
    assert shown(Text("a\n"), Text("\n"), Text("  b "), TurnEnded("answered")) == "◆ a\n\n  b\n"


def test_columns_line_up_with_wide_characters() -> None:
    assert shown(Table(("city", "time"), (("東京", "noon"), ("Berlin", "night")))) == (
        "city    time\n東京    noon\nBerlin  night\n"
    )
