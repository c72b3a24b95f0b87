"""A session whose file was damaged in any way loads, and what is said from there on is there again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.journal import Journal, Shelf
from rkllm_chat.messages import Message, ToolResult
from rkllm_chat.records import Record, TurnDone, rebuild

RESULT = ToolResult("box", "depth", {"at": "Husum"}, "completed", "2 m", 0.25, {"depth": 2})
RECORDS: tuple[Record, ...] = (
    Message("user", "深さは?\u2028"),
    Message("assistant", "[TOOL_CALL]…"),
    Message("tool", "2 m", RESULT),
    TurnDone("answered"),
    Message("user", "And now?"),
)
AFTER = Message("user", "after")

places = st.floats(0, 1)
flips = st.lists(st.tuples(places, st.integers(0, 255)), max_size=6)
inserts = st.lists(
    st.tuples(places, st.sampled_from((b"\n", b"\r", b"\0" * 9, b"{", b'"', b"\\", b"\xff")) | st.binary()), max_size=4
)
cuts = st.lists(st.tuples(places, st.integers(1, 40)), max_size=4)


@contextmanager
def written() -> Iterator[tuple[Shelf, Path]]:
    """A session of RECORDS: its shelf and its file."""
    with tempfile.TemporaryDirectory() as folder:
        shelf = Shelf(Path(folder) / "sessions")
        journal = Journal(shelf, print)
        for record in RECORDS:
            journal.keep(record)
        journal.close()
        yield shelf, shelf.path / f"{journal.name}.jsonl"


def check(shelf: Shelf, path: Path, at_least: int = 0) -> list[Record]:
    """Loads, goes on and loads again: the records that were there, and what was said behind them."""
    said: list[str] = []
    before = [entry.record for entry in shelf.read(path.stem).entries]
    journal = Journal(shelf, said.append)
    assert journal.resume(path.stem)
    journal.keep(AFTER)
    journal.keep(TurnDone("answered"))
    journal.close()
    contents = shelf.read(path.stem)
    assert [entry.record for entry in contents.entries] == [*before, AFTER, TurnDone("answered")]
    assert (contents.torn, said) == (b"", [])
    assert path.read_bytes().endswith(b"\n")
    rebuild(contents.entries)
    assert len(before) >= at_least
    return before


@settings(max_examples=examples(150))
@given(flips=flips, inserts=inserts, cuts=cuts)
@example(flips=[], inserts=[(0.5, b"\n")], cuts=[])
def test_whatever_happened_to_the_bytes_the_session_goes_on(
    flips: list[tuple[float, int]], inserts: list[tuple[float, bytes]], cuts: list[tuple[float, int]]
) -> None:
    with written() as (shelf, path):
        data = bytearray(path.read_bytes())
        for place, byte in flips:
            data[int(place * (len(data) - 1))] = byte
        for place, more in inserts:
            at = int(place * len(data))
            data[at:at] = more
        for place, length in cuts:
            at = int(place * len(data))
            del data[at : at + length]
        path.write_bytes(data)
        hurt = len(flips) + len(inserts) + sum(1 + length // 40 for _, length in cuts)
        check(shelf, path, at_least=max(0, len(RECORDS) - 2 * hurt))


@given(st.lists(st.integers(0, len(RECORDS) - 1), unique=True))
def test_lines_that_were_joined_are_lost_alone(joints: list[int]) -> None:
    with written() as (shelf, path):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line.rstrip(b"\n") if at in joints else line for at, line in enumerate(lines)))
        last = len(RECORDS) - 1
        fused = {at + step for at in joints if at != last for step in (0, 1)}
        assert check(shelf, path) == [record for at, record in enumerate(RECORDS) if at not in fused]


@given(st.binary(max_size=200))
def test_a_file_of_any_bytes_can_be_gone_on_with(data: bytes) -> None:
    with written() as (shelf, path):
        path.write_bytes(data)
        check(shelf, path)
