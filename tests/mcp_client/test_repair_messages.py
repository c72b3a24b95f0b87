"""What a server gets wrong in one place of a result costs that place and no more."""

from __future__ import annotations

from typing import Any

import pytest

from rkllm_chat.mcp_client.repair_messages import repair_result

GOOD: dict[str, Any] = {"name": "echo", "inputSchema": {"type": "object"}}
MALFORMED: list[Any] = [
    {**GOOD, "name": 7},
    {**GOOD, "name": ""},
    {**GOOD, "name": "x" * 257},
    {**GOOD, "name": "a\nb"},
    {"inputSchema": {"type": "object"}},
    {"name": "a", "inputSchema": "object"},
    "tool",
    None,
]


def test_malformed_tools_are_left_out_and_the_others_stay() -> None:
    longest = {**GOOD, "name": "x" * 256}
    assert repair_result("tools/list", {"tools": [*MALFORMED, GOOD, longest]}) == {"tools": [GOOD, longest]}


@pytest.mark.parametrize("tools", [None, {"echo": {}}])
def test_a_list_of_another_type_is_empty(tools: Any) -> None:
    assert repair_result("tools/list", {"tools": tools}) == {"tools": []}


def test_a_cursor_that_is_no_text_is_left_out() -> None:
    assert repair_result("tools/list", {"tools": [GOOD], "nextCursor": 7}) == {"tools": [GOOD]}
    assert repair_result("tools/list", {"tools": [GOOD], "nextCursor": "b"})["nextCursor"] == "b"


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
def test_content_becomes_a_list_of_known_blocks(content: Any, mended: Any) -> None:
    assert repair_result("tools/call", {"content": content, "isError": False}) == {"content": mended, "isError": False}


def test_what_is_beyond_a_thousand_is_cut_or_joined() -> None:
    assert len(repair_result("tools/list", {"tools": [GOOD] * 1001})["tools"]) == 1000
    block = {"type": "text", "text": "x"}
    assert repair_result("tools/call", {"content": [block] * 1000}) == {"content": [block] * 1000}
    joined = repair_result("tools/call", {"content": [*[block] * 1001, {"type": "hologram"}, block]})["content"]
    assert [part["text"][:9] for part in joined] == ["x\nx\nx\nx\nx", "[content ", "x"]


def test_what_is_not_complete_or_not_known_is_left_alone() -> None:
    asks = {"resultType": "input_required", "inputRequests": {}}
    assert repair_result("tools/call", asks) is asks
    assert repair_result("server/discover", {"x": 1}) == {"x": 1}
    assert repair_result("tools/call", [1]) == [1]
