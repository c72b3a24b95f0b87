"""A session whose file was damaged in any way loads, and records appended to it are read again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.core.messages import Message, ToolResult
from rkllm_chat.storage.session_files import SessionDirectory, SessionLog
from rkllm_chat.storage.session_records import Record, TurnFinished, rebuild_conversation

RESULT = ToolResult("box", "depth", {"at": "Husum"}, "completed", "2 m", 0.25, {"depth": 2})
RECORDS: tuple[Record, ...] = (
    Message("user", "深さは?\u2028"),
    Message("assistant", "[TOOL_CALL]…"),
    Message("tool", "2 m", RESULT),
    TurnFinished("answered"),
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
def written() -> Iterator[tuple[SessionDirectory, Path]]:
    """A session of RECORDS: its shelf and its file."""
    with tempfile.TemporaryDirectory() as folder:
        shelf = SessionDirectory(Path(folder) / "sessions")
        journal = SessionLog(shelf, print)
        for record in RECORDS:
            journal.append(record)
        journal.close()
        yield shelf, shelf.path / f"{journal.name}.jsonl"


def check(shelf: SessionDirectory, path: Path, at_least: int = 0) -> list[Record]:
    """Loads, goes on and loads again: the records that were there, and what was said behind them."""
    said: list[str] = []
    before = [entry.record for entry in shelf.read(path.stem).entries]
    journal = SessionLog(shelf, said.append)
    assert journal.resume(path.stem)
    journal.append(AFTER)
    journal.append(TurnFinished("answered"))
    journal.close()
    contents = shelf.read(path.stem)
    assert [entry.record for entry in contents.entries] == [*before, AFTER, TurnFinished("answered")]
    assert (contents.torn_line, said) == (b"", [])
    assert path.read_bytes().endswith(b"\n")
    rebuild_conversation(contents.entries)
    assert len(before) >= at_least
    return before


@settings(max_examples=examples(60))
@given(flips=flips, inserts=inserts, cuts=cuts)
@example(flips=[], inserts=[(0.5, b"\n")], cuts=[])
@pytest.mark.slow
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


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, len(RECORDS) - 1), unique=True))
def test_lines_that_were_joined_are_lost_alone(joints: list[int]) -> None:
    with written() as (shelf, path):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line.rstrip(b"\n") if at in joints else line for at, line in enumerate(lines)))
        last = len(RECORDS) - 1
        fused = {at + step for at in joints if at != last for step in (0, 1)}
        assert check(shelf, path) == [record for at, record in enumerate(RECORDS) if at not in fused]


@settings(max_examples=examples(40))
@given(st.binary(max_size=200))
def test_a_file_of_any_bytes_can_be_gone_on_with(data: bytes) -> None:
    with written() as (shelf, path):
        path.write_bytes(data)
        check(shelf, path)
