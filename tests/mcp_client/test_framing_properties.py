"""Any bytes of a server, in any pieces, become lines; any line becomes JSON values or an error."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.mcp_client.protocol.cut_result import close_json
from rkllm_chat.mcp_client.protocol.event_stream import EventParser
from rkllm_chat.mcp_client.protocol.framing import TAIL_BYTES, TOO_DEEP, CutText, LineSplitter, parse_values
from rkllm_chat.mcp_client.protocol.limits import MAX_DEPTH, MAX_MESSAGE_BYTES, MB


@pytest.mark.slow
@pytest.mark.parametrize("depth", [150, 900, 100_000])
def test_a_tool_that_is_nested_too_deeply_is_marked_and_the_others_are_read(depth: int) -> None:
    deep = '{"a":' * depth + '"]}\\""' + "}" * depth
    good = {"name": "good", "inputSchema": {"type": "object"}}
    tools = f'[{{"name": "deep", "inputSchema": {deep}}}, {json.dumps(good)}]'
    message = f'{{"jsonrpc": "2.0", "id": 1, "result": {{"tools": {tools}}}}}'
    (value,) = parse_values(message)
    assert value["result"]["tools"] == [{"name": "deep", "inputSchema": TOO_DEEP}, good]
    for result in (f'{{"tools": {tools}, "_meta": {deep}}}', f"[{deep}]", f'"x", "more": {deep}'):
        with pytest.raises(ValueError, match="too deeply"):
            parse_values(f'{{"jsonrpc": "2.0", "id": 1, "result": {result}}}')


events = st.lists(st.tuples(st.sampled_from(["message", "news"]), st.text("ab: ", min_size=1)), max_size=4)


@pytest.mark.slow
@given(events, st.sampled_from(["\r", "\n", "\r\n"]), st.lists(st.floats(0, 1), max_size=6))
@example([("news", ":::")], "\r\n", [0.5, 0.5])  # an empty piece between CR and LF
@settings(max_examples=examples(100))
def test_events_are_read_with_any_line_end_in_any_pieces(
    sent: list[tuple[str, str]], end: str, places: list[float]
) -> None:
    lines = [line for name, data in sent for line in (f"event: {name}", f"data: {data}", "id: 7", "")]
    stream = "".join(line + end for line in [": hello", *lines]).encode()
    edges = [0, *sorted(int(place * len(stream)) for place in places), len(stream)]
    parser = EventParser()
    read = [event for start, stop in pairwise(edges) for event in parser.feed(stream[start:stop])]
    assert read == [(name, data) for name, data in sent]
    assert parser.last_id == (b"7" if sent else b"")


sizes = st.integers(0, 40) | st.sampled_from(
    (
        MAX_MESSAGE_BYTES - 1,
        MAX_MESSAGE_BYTES,
        MAX_MESSAGE_BYTES + 1,
        MAX_MESSAGE_BYTES + TAIL_BYTES,
        MAX_MESSAGE_BYTES + MB,
    )
)
cuts = st.lists(st.floats(0, 1), max_size=8)

SCRAPS = (*'{}[]":,\\ -', "\\ud800", "\\udc00", "\\u0000", "NaN", "-Infinity", "1e999")
words = st.sampled_from(
    (*SCRAPS, '{"id":', '"jsonrpc"', "9" * 4301, "[" * (MAX_DEPTH + 1), '{"a":' * 5000, "\u2028", "\ufeff")
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


def read_pieces(data: bytes, edges: list[float]) -> tuple[list[bytes], list[CutText]]:
    """What comes of bytes that are cut at these parts of their length: lines, also the last, and lines too long."""
    lines: list[bytes] = []
    too_long: list[CutText] = []
    reader = LineSplitter(lambda line: lines.append(bytes(line)), too_long.append)
    for start, end in pairwise([0, *sorted(int(edge * len(data)) for edge in edges), len(data)]):
        reader.feed(data[start:end])
    reader.end_line()
    return lines, too_long


@given(data=st.lists(st.binary(max_size=30) | st.just(b"\n"), max_size=20).map(b"".join), edges=cuts)
@example(data=b"\r\n\n\x00\xff\xfe\n{", edges=[0.5])
def test_the_lines_of_any_bytes_are_what_stands_between_newlines(data: bytes, edges: list[float]) -> None:
    assert read_pieces(data, edges) == (data.split(b"\n"), [])


@settings(max_examples=examples(25))
@given(lengths=st.lists(sizes, min_size=1, max_size=4), edges=cuts)
@example(lengths=[MAX_MESSAGE_BYTES + TAIL_BYTES], edges=[1 - 100 / MAX_MESSAGE_BYTES])
def test_of_a_line_that_is_too_long_its_ends_and_its_size_are_told(lengths: list[int], edges: list[float]) -> None:
    made = [(b"%d:" % number + b"x" * length)[:length] for number, length in enumerate(lengths)]
    lines, too_long = read_pieces(b"\n".join(made), edges)
    assert lines == [line for line in made if len(line) <= MAX_MESSAGE_BYTES]
    assert too_long == [describe_cut(line.decode()) for line in made if len(line) > MAX_MESSAGE_BYTES]


def describe_cut(line: str) -> CutText:
    """The beginning of a long line, and the end of what is beyond the limit."""
    return CutText(line[:MAX_MESSAGE_BYTES], line[MAX_MESSAGE_BYTES:][-TAIL_BYTES:], len(line))


@given(values, st.booleans(), st.booleans(), st.floats(0, 1))
@example({"a": "\U0001f600"}, True, True, 0.9)
def test_the_beginning_of_any_json_is_closed_and_keeps_what_was_whole(
    value: object, escapes: bool, spaced: bool, part: float
) -> None:
    text = json.dumps([value], ensure_ascii=escapes, separators=None if spaced else (",", ":"))
    json.loads(close_json(text[: max(1, int(part * len(text)))]))
    assert close_json(text) == text


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(any_line)
@example("[" * MAX_DEPTH + "]" * MAX_DEPTH)
@example('{"\\ud800": "\\udc00"} {"a": [1e999, NaN]}')
def test_any_line_is_values_that_strict_json_can_hold_or_an_error(line: str) -> None:
    try:
        found = parse_values(line)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1
        return
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    assert depth_of(found) <= MAX_DEPTH + 1


def depth_of(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@pytest.mark.slow
@given(value=values, cut=st.floats(0, 0.999))
def test_an_object_that_is_cut_anywhere_is_an_error(value: object, cut: float) -> None:
    text = json.dumps({"value": value})
    with pytest.raises(ValueError):
        parse_values(text[: 1 + int(cut * (len(text) - 1))])
