"""A reply that is made to be slow to search costs no more than its length asks, in whatever pieces it comes."""

from __future__ import annotations

import pytest

from bench.calls import scan
from rkllm_chat.formats import formats_for
from targets import Tell

MB = 1_000_000
HANG_S = 20.0
"""A fair machine takes below half a second; work that looks back over the reply takes hours."""
HOSTILE = (
    "[TOOL_CALL]{",
    '<tool_call name="a">',
    '<tool_call name="a"><argument name="b">',
    '"',
    '{"a":',
    "[TOOL_CALL]",
    '[TOOL_CALL]{"name": "f", "arguments": {"a": "',
    "<think>",
    "[END_TOOL_CALL]",
    "```",
    "<|python_tag|>f(",
    *(opener for form in formats_for() for opener in form.openers),
)


@pytest.mark.parametrize("piece", dict.fromkeys(HOSTILE))
def test_a_megabyte_of_hostile_markers_is_read_in_the_time_of_its_length(piece: str, figure: Tell) -> None:
    spent = scan(piece * (MB // len(piece)), 64)
    figure(1, spent)
    assert spent < HANG_S
