"""The time to scan a hostile reply grows with its length and no faster."""

from __future__ import annotations

import pytest

from bench.calls import scan
from cpu_time import limit_cpu
from rkllm_chat.calls.formats import select_formats

SIZE = 60_000
MOST_CPU_S = 1.25
"""It takes below an eighth of a second; work that looks back over the reply takes half a minute."""
OPENERS = {
    (wrapper.bodies[0].__qualname__, "" if wrapper.is_open else opener): opener
    for call_format in select_formats()
    for opener, wrapper in call_format.openers.items()
}
"""One for each kind of body, and those with a reader of their own, which knows its end."""
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
    "\nuser: <tool_call>x",
    '<tool_call name="a"><argument name="b">x</tool_call>',
    "<function=a><parameter=b>x</function>",
    *OPENERS.values(),
)


@pytest.mark.parametrize("piece", dict.fromkeys(HOSTILE))
def test_hostile_markers_are_scanned_in_linear_time(piece: str) -> None:
    with limit_cpu(MOST_CPU_S):
        scan(piece * (SIZE // len(piece)), 64)


@pytest.mark.parametrize("closer", ["</argument>", "</parameter>", "</tool_call>", "</b>"])
def test_end_tags_inside_a_value_are_read_in_linear_time(closer: str) -> None:
    begun = '<tool_call name="a"><argument name="b">'
    with limit_cpu(MOST_CPU_S):
        scan(begun + f"{closer}x" * (SIZE // len(closer)), 64)
