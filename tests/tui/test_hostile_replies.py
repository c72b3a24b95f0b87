"""Any reply of a model, however hostile, is scanned and shown without an error and without its control sequences.

`RKLLM_CHAT_FUZZ=20000` tries as many.
"""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attacks import SEQUENCES
from fuzzing import examples
from rkllm_chat import ToolCallScanner
from rkllm_chat.calls.formats import CONTROL_TOKENS, FORMATS
from rkllm_chat.calls.scanner import InventedResult
from rkllm_chat.core import i18n
from rkllm_chat.core.events import CallFound, CallUnreadable, Notice, Text, Thought, ToolFinished, ToolStarted
from rkllm_chat.core.messages import Tool, ToolResult
from rkllm_chat.core.sanitize import UNSAFE, escape_visibly, strip_invisible
from rkllm_chat.tui.approval_prompt import describe_call
from rkllm_chat.tui.event_lines import EventPrinter
from rkllm_chat.tui.markdown import Growing

TOOL = Tool("f", schema={"type": "object", "properties": {"a": {"type": "string"}}})
MODELS = ("", "Qwen3-8B", "Llama-3.2-3B-Instruct", "gemma-3-4b", "DeepSeek-V3", "Mistral-7B-Instruct", "gpt-oss-20b")
OWN = re.compile("\x1b\\[[0-9;]*m")
MARKS = sorted(
    {mark for row in FORMATS.values() for mark in (*row.openers, *row.closers, *row.control_tokens)}
    | {mark for row in FORMATS.values() for pair in row.thought_markers.items() for mark in pair}
    | {*CONTROL_TOKENS, "<think>", "</think>"}
)
CALLS = [row.render_call("f", {"a": "\x1b]0;owned\x07 \u202e"}) for row in FORMATS.values()]
COMBINING = ("\u0301", "\u20dd", "\u0e33", "\u1160", "\u200d", "\ufe0f", "\U000e0041", "\ud800", "\udfff")
SYNTAX = (
    "```",
    "~~~",
    "> ",
    "|",
    "|-|-|",
    "[a](",
    "](javascript:x)",
    "&#27;[2J",
    "- ",
    "#",
    "*",
    "`",
    "<",
    "\n",
    "\r",
    "\t",
)
pieces = st.one_of(
    st.sampled_from(MARKS),
    st.sampled_from(MARKS).map(lambda mark: mark[: len(mark) // 2]),
    st.sampled_from(CALLS),
    st.sampled_from(CALLS).map(lambda call: call[: len(call) // 2]),
    st.sampled_from([*SEQUENCES.values()]),
    st.sampled_from([*COMBINING, *SYNTAX]),
    st.text(max_size=5),
    st.characters(categories=("Cc", "Cf", "Cs", "Mn", "Me", "Zl", "Zp")),
)
runs = st.tuples(pieces, st.sampled_from((1, 1, 1, 3, 30))).map(lambda run: run[0] * run[1])
replies = st.lists(runs, max_size=12).map("".join)


def show_all(reply: str, model: str, size: int, width: int, color: bool) -> tuple[list[str], str]:
    """The rendered Markdown lines of a reply in pieces of a size, and everything that is printed of its events."""
    scanner, growing, output = ToolCallScanner([TOOL], model), Growing(width, color), io.StringIO()
    printer = EventPrinter(output, output, i18n.load(), color)
    lines: list[str] = []
    size = max(size, len(reply) // 50)
    for at in range(0, len(reply) + size, size):
        for event in scanner.feed(reply[at : at + size]) if at < len(reply) else scanner.close():
            match event:
                case Text(text) | Thought(text):
                    lines += growing.feed(text)
                    printer.show(event)
                case InventedResult(text):
                    printer.show(Notice(text))
                case CallFound(call):
                    printer.show(ToolStarted("s", call.name, call))
                    printer.show(ToolFinished(ToolResult("s", call.name, call.arguments, "failed", reply)))
                    lines_of_call = describe_call(TOOL, call.arguments, i18n.load())
                    output.write("\n".join(line.text for line in lines_of_call))
                case CallUnreadable():
                    printer.show(event)
        growing.tail()
    printer.end_line()
    return lines + growing.close(), output.getvalue()


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(replies, st.sampled_from(MODELS), st.integers(1, 40), st.sampled_from((2, 20, 80)), st.booleans())
@example("<think>" * 300 + "\x1b[2J", "", 7, 80, True)
@example("a" * 100_000 + "\x9b2J" + "\u0301" * 20_000, "Qwen3-8B", 997, 80, True)
@example("".join(SEQUENCES.values()) * 3, "", 1, 20, True)
def test_any_reply_is_shown_without_its_control_sequences(
    reply: str, model: str, size: int, width: int, color: bool
) -> None:
    lines, printed = show_all(reply, model, size, width, color)
    for text in (*lines, *printed.split("\n")):
        assert not UNSAFE.search(OWN.sub("", text) if color else text), repr(text[:200])
    for text in (escape_visibly(reply), strip_invisible(escape_visibly(reply))):
        assert not UNSAFE.search(text)
