"""Any bytes of a server, in whatever pieces, are lines; any line is JSON values that can be passed on, or an error."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.servers.lines import DEEPEST, LONGEST, MB, TAIL, Lines, read_values

HEAD = 16 * TAIL
sizes = st.integers(0, 40) | st.sampled_from((HEAD, LONGEST - 1, LONGEST, LONGEST + 1, LONGEST + TAIL, LONGEST + MB))
cuts = st.lists(st.floats(0, 1), max_size=8)

SCRAPS = (
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "\\",
    "\\ud800",
    "\\udc00",
    "\\u0000",
    "NaN",
    "-Infinity",
    "1e999",
    " ",
    "-",
)
words = st.sampled_from(
    (*SCRAPS, '{"id":', '"jsonrpc"', "9" * 4301, "[" * (DEEPEST + 1), '{"a":' * 5000, "\u2028", "\ufeff")
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
any_line = (
    st.lists(words | st.text(max_size=6), max_size=20).map("".join)
    | values.map(json.dumps)
    | st.lists(values.map(json.dumps), max_size=3).map(" ".join)
    | st.binary(max_size=60).map(lambda data: data.decode("utf-8", "replace"))
)


def read_pieces(data: bytes, edges: list[float]) -> tuple[list[bytes], list[tuple[bytes, int]], Lines]:
    """What comes of bytes that are cut at these parts of their length: lines, lines too long, and the reader."""
    lines: list[bytes] = []
    too_long: list[tuple[bytes, int]] = []
    reader = Lines(lines.append, lambda ends, size: too_long.append((ends, size)))
    for start, end in pairwise([0, *sorted(int(edge * len(data)) for edge in edges), len(data)]):
        reader.feed(data[start:end])
    return lines, too_long, reader


@given(data=st.lists(st.binary(max_size=30) | st.just(b"\n"), max_size=20).map(b"".join), edges=cuts)
@example(data=b"\r\n\n\x00\xff\xfe\n{", edges=[0.5])
def test_the_lines_of_any_bytes_are_what_stands_between_newlines(data: bytes, edges: list[float]) -> None:
    lines, too_long, reader = read_pieces(data, edges)
    *whole, rest = data.split(b"\n")
    assert (lines, too_long, reader.head) == (whole, [], rest)


@settings(max_examples=examples(25))
@given(lengths=st.lists(sizes, min_size=1, max_size=4), edges=cuts)
@example(lengths=[LONGEST + TAIL], edges=[1 - 100 / LONGEST])
def test_of_a_line_that_is_too_long_its_ends_and_its_size_are_told(lengths: list[int], edges: list[float]) -> None:
    made = [(b"%d:" % number + b"x" * length)[:length] for number, length in enumerate(lengths)]
    lines, too_long, reader = read_pieces(b"".join(line + b"\n" for line in made), edges)
    assert lines == [line for line in made if len(line) <= LONGEST]
    assert too_long == [(told_of(line), len(line)) for line in made if len(line) > LONGEST]
    assert (reader.head, reader.discarded) == (b"", 0)


def told_of(line: bytes) -> bytes:
    """The beginning of a long line, and of what is beyond the limit the end."""
    return line[:HEAD] + line[LONGEST:][-TAIL:]


@settings(max_examples=examples(400))
@given(any_line)
@example("[" * DEEPEST + "]" * DEEPEST)
@example('{"\\ud800": "\\udc00"} {"a": [1e999, NaN]}')
def test_any_line_is_values_that_strict_json_can_hold_or_an_error(line: str) -> None:
    try:
        found = read_values(line)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1
        return
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    assert depth_of(found) <= DEEPEST + 1


def depth_of(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(value=values, cut=st.floats(0, 0.999))
def test_an_object_that_is_cut_anywhere_is_an_error(value: object, cut: float) -> None:
    text = json.dumps({"value": value})
    with pytest.raises(ValueError):
        read_values(text[: 1 + int(cut * (len(text) - 1))])
