"""What a server gets wrong in one place of a result costs that place and no more."""

from __future__ import annotations

from typing import Any

import pytest

from rkllm_chat.core.errors import ProtocolError
from rkllm_chat.mcp_client.sdk_types import read_entries, read_result

GOOD: dict[str, Any] = {"name": "notes", "uri": "notes://all"}


def read_content(content: Any) -> list[str]:
    return [block.text for block in read_result("small", "CallToolResult", {"content": content}).content]


def test_malformed_entries_are_left_out_and_the_others_stay() -> None:
    malformed: list[Any] = [{**GOOD, "name": 7}, {"name": "no address"}, {**GOOD, "annotations": "many"}]
    assert [entry.name for entry in read_entries("Resource", [*malformed, GOOD])] == ["notes"]


@pytest.mark.parametrize(
    ("content", "mended"),
    [
        ("hello", ["hello"]),
        (None, []),
        ([{"type": "text", "text": "a"}], ["a"]),
        ([{"type": "hologram"}], ["[content of an unknown kind: hologram]"]),
        ([{"type": "text", "text": 7}, "b"], ["[content of an unknown kind: text]", "b"]),
    ],
)
def test_content_becomes_a_list_of_known_blocks(content: Any, mended: list[str]) -> None:
    assert read_content(content) == mended


def test_more_than_a_thousand_blocks_are_joined() -> None:
    block = {"type": "text", "text": "x"}
    assert len(read_content([block] * 1000)) == 1000
    joined = read_content([*[block] * 1001, {"type": "hologram"}, block])
    assert [text[:9] for text in joined] == ["x\nx\nx\nx\nx", "[content ", "x"]


def test_a_result_of_another_form_names_the_server_and_the_place() -> None:
    with pytest.raises(ProtocolError, match=r'Server "small" violated the protocol: messages'):
        read_result("small", "GetPromptResult", {"messages": 7, "ttlMs": -1})
