"""A result as text."""

from __future__ import annotations

from typing import Any

import pytest

from rkllm_chat.cli.mcp_tool.output_formats import FORMATTERS


def content(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (content("a", "b"), "a\nb"),
        (content("a", structuredContent={"x": 1}), "a"),
        ({"structuredContent": {"x": "東"}}, '{\n  "x": "東"\n}'),
        ({"content": "broken"}, ""),
        ({"content": [5, {"type": "resource", "resource": {"text": "r"}}, {"type": "new"}]}, "r\n[new: not shown]"),
        ({"content": [{"type": "resource", "resource": 5}]}, "[resource: not shown]"),
    ],
)
def test_text_is_the_texts_and_the_structured_content_where_there_is_nothing_else(
    result: dict[str, Any], expected: str
) -> None:
    assert FORMATTERS["text"](result) == expected
