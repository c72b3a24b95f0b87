"""What a server gets wrong in one place costs that place and no more."""

from __future__ import annotations

from typing import Any

import pytest

from rkllm_chat.servers.mend import mend_result

GOOD: dict[str, Any] = {"name": "echo", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    "odd",
    [
        {"name": 7, "inputSchema": {"type": "object"}},
        {"name": "", "inputSchema": {"type": "object"}},
        {"name": "x" * 300, "inputSchema": {"type": "object"}},
        {"inputSchema": {"type": "object"}},
        {"name": "a", "inputSchema": "object"},
        {"name": "a", "inputSchema": None},
        "tool",
        None,
    ],
    ids=repr,
)
def test_a_malformed_tool_is_left_out_and_the_others_stay(odd: Any) -> None:
    assert mend_result("tools/list", {"tools": [odd, GOOD]}) == {"tools": [GOOD]}


@pytest.mark.parametrize("tools", [None, "none", 7, {"echo": {}}])
def test_a_list_that_is_none_is_empty(tools: Any) -> None:
    assert mend_result("tools/list", {"tools": tools}) == {"tools": []}


def test_a_cursor_that_is_no_text_is_the_end() -> None:
    assert mend_result("tools/list", {"tools": [GOOD], "nextCursor": 7}) == {"tools": [GOOD]}
    assert mend_result("tools/list", {"tools": [GOOD], "nextCursor": "b"})["nextCursor"] == "b"


@pytest.mark.parametrize(
    ("content", "mended"),
    [
        ("hello", [{"type": "text", "text": "hello"}]),
        (None, []),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}]),
        ([{"type": "hologram"}], [{"type": "text", "text": "[content of an unknown kind: hologram]"}]),
        (
            [{"type": "text", "text": 7}, "b"],
            [{"type": "text", "text": "[content of an unknown kind: text]"}, {"type": "text", "text": "b"}],
        ),
    ],
)
def test_content_is_a_list_of_what_is_known(content: Any, mended: Any) -> None:
    assert mend_result("tools/call", {"content": content, "isError": False}) == {"content": mended, "isError": False}


def test_what_is_not_complete_or_not_known_is_left_alone() -> None:
    asks = {"resultType": "input_required", "inputRequests": {}}
    assert mend_result("tools/call", asks) is asks
    assert mend_result("server/discover", {"x": 1}) == {"x": 1}
    assert mend_result("tools/call", [1]) == [1]
