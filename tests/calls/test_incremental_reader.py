"""Text that arrives in pieces, read by generators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from rkllm_chat.calls.incremental_reader import EndOfTextError, Parsing, Reader, TooLongError
from rkllm_chat.calls.literals import Markers


def read(
    generator: Callable[[Reader], Parsing[object]], pieces: Iterable[str], limit: int = 1000
) -> tuple[object, str]:
    """What a generator returns when it is fed these pieces, and what is left unread."""
    reader = Reader(limit, max_head_length=limit)
    running = generator(reader)
    try:
        for piece in pieces:
            next(running)
            reader.feed(piece)
        reader.end()
        next(running)
    except StopIteration as stop:
        return stop.value, reader.text[reader.at :]
    raise AssertionError("the generator still waits after the end")


@pytest.mark.parametrize("pieces", [["one</x>two"], ["one<", "/x>two"], list("one</x>two"), ["one", "</x>", "two"]])
def test_until_gives_what_stands_before_a_literal(pieces: list[str]) -> None:
    value, rest = read(lambda reader: reader.read_through("</x>"), pieces)
    assert value == "one"
    assert "two".startswith(rest)


def test_until_raises_at_the_end_of_the_text() -> None:
    with pytest.raises(EndOfTextError):
        read(lambda reader: reader.read_through("</x>"), ["one</x"])


@pytest.mark.parametrize(("text", "answer"), [("abc", True), ("abd", False), ("ab", False), ("", False)])
def test_next_is_waits_only_while_it_may_be(text: str, answer: bool) -> None:
    assert read(lambda reader: reader.is_next("abc"), list(text)) == (answer, text)


def test_skip_consumes_only_what_is_there() -> None:
    assert read(lambda reader: reader.skip("ab"), ["abc"]) == (True, "c")
    assert read(lambda reader: reader.skip("ab"), ["acc"]) == (False, "acc")


def test_space_is_skipped_and_given_back() -> None:
    assert read(lambda reader: reader.skip_space(), [" \n", "\t", "x"]) == (" \n\t", "x")
    assert read(lambda reader: reader.skip_space(), ["  "]) == ("  ", "")


def test_up_to_stops_before_an_edge() -> None:
    assert read(lambda reader: reader.read_up_to(re.compile("[{}]")), ["ab", "c{d"]) == ("abc", "{d")


def test_what_is_recorded_is_bounded() -> None:
    def record(reader: Reader) -> Parsing[str]:
        reader.start_recording()
        yield from reader.read_through("</x>")
        return reader.stop_recording()

    assert read(record, ["abc", "</x>"], limit=7) == ("abc</x>", "")
    with pytest.raises(TooLongError):
        read(record, ["abcd", "</x>"], limit=7)


def test_what_is_unread_comes_first_again() -> None:
    def look(reader: Reader) -> Parsing[str]:
        head = yield from reader.read_through("-")
        reader.unread(head + "-")
        return (yield from reader.read_through("c"))

    assert read(look, ["ab", "-", "c"]) == ("ab-", "")


@pytest.mark.parametrize(
    ("text", "kept"), [("ab[TOOL", 5), ("[", 1), ("[TOOL_CALL]", 0), ("x", 0), ("", 0), ("[[TO", 3), ("<thin", 5)]
)
def test_the_end_that_may_be_a_marker_is_kept_back(text: str, kept: int) -> None:
    assert Markers(("[TOOL_CALL]", "<think>")).count_partial(text, 0) == kept
