"""Session files: records are read as they were written, damage costs only damaged lines, one writer at a time."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.journal import losses_of
from rkllm_chat.core.errors import ConfigError, UsageError
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message, Tool, ToolResult
from rkllm_chat.storage.session_files import MAX_DEPTH, SessionDirectory, SessionLog, make_session_id
from rkllm_chat.storage.session_index import find_newest, list_sessions
from rkllm_chat.storage.session_records import (
    ContextTrimmed,
    HistoryEdited,
    Record,
    RestoredConversation,
    SessionTitle,
    Setup,
    TurnFinished,
    read_entry,
    rebuild_conversation,
)

RESULT = ToolResult("box", "depth", {"at": "Husum", "metres": [1, 2.5]}, "completed", "2 m", 0.25, {"depth": 2})
RECORDS: tuple[Record, ...] = (
    Setup(
        "0.1",
        "a.gguf",
        "llama",
        "gguf:12",
        4096,
        "/home/anna",
        "ab",
        {"max_steps": 8},
        (Tool("depth", "Deep?"),),
        "",
        "qwen3",
        "hermes",
        ("hermes",),
    ),
    Message("user", "深さは?\u2028 \u2029\x85 and\x0b more"),
    Message("assistant", "[TOOL_CALL]…"),
    Usage(10, 4, 6, 7, 0.1, 0.2, 0.15, hit_limit=True, was_repeating=True),
    Message("tool", "2 m", RESULT),
    ContextTrimmed(0, 0),
    HistoryEdited(1, 2, (Message("assistant", "Two."),)),
    TurnFinished("failed", "why"),
    SessionTitle("Depths"),
)


@pytest.fixture
def said() -> list[str]:
    return []


def write_all(shelf: SessionDirectory, records: tuple[Record, ...], said: list[str]) -> str:
    """A session of these records, closed again; its id."""
    journal = SessionLog(shelf, said.append)
    for record in records:
        journal.append(record)
    journal.close()
    return journal.name


def file_of(shelf: SessionDirectory, name: str) -> Path:
    return shelf.path / f"{name}.jsonl"


def records_of(shelf: SessionDirectory, name: str) -> list[Record]:
    return [entry.record for entry in shelf.read(name).entries]


def test_records_are_read_as_they_were_written(shelf: SessionDirectory, said: list[str]) -> None:
    begun = time.time()
    name = write_all(shelf, RECORDS, said)
    contents = shelf.read(name)
    assert [entry.record for entry in contents.entries] == list(RECORDS)
    assert all(begun - 0.001 <= entry.at <= time.time() for entry in contents.entries)
    assert (contents.damaged_lines, contents.torn_line, said) == (0, b"", [])
    assert file_of(shelf, name).read_bytes().count(b"\n") == len(RECORDS)


@pytest.mark.slow
def test_a_file_cut_at_every_byte_opens_and_continues(shelf: SessionDirectory, said: list[str]) -> None:
    records = tuple(Message("user", text) for text in ("one", "二"))
    name = write_all(shelf, records, said)
    path = file_of(shelf, name)
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        journal = SessionLog(shelf, said.append)
        assert journal.resume(name)
        journal.append(Message("user", "after"))
        journal.close()
        contents = shelf.read(name)
        left = sum(cut >= end - 1 for end in ends)  # a record that only lacks its newline is whole
        assert [entry.record for entry in contents.entries] == [*records[:left], Message("user", "after")], cut
        assert (contents.damaged_lines, contents.torn_line) == (0, b"")
    assert said == []


def test_an_incomplete_last_line_is_moved_to_another_file(shelf: SessionDirectory, said: list[str]) -> None:
    name = write_all(shelf, RECORDS, said)
    with file_of(shelf, name).open("ab") as file:
        file.write(b'{"kind":"message","at":"2026')
    assert shelf.read(name).torn_line == b'{"kind":"message","at":"2026'
    journal = SessionLog(shelf, said.append)
    assert journal.resume(name)
    journal.close()
    aside = shelf.path / f"{name}.torn"
    assert aside.read_bytes() == b'{"kind":"message","at":"2026\n'
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert records_of(shelf, name) == list(RECORDS)


GOOD = b'{"kind":"message","at":"2026-11-20T17:30:32.123Z","role":"user","text":"x"}'


@pytest.mark.parametrize(
    ("line", "damaged"),
    [
        (b"\0\0\0\0" + GOOD, 0),
        (GOOD + b"\r", 0),
        (b"", 0),
        (b"\0\0 not json", 1),
        (GOOD + GOOD, 1),
        (GOOD.replace(b'"x"', b"7"), 1),
        (GOOD.replace(b"user", b"admin"), 1),
        (GOOD.replace(b"message", b"edit"), 1),
        (GOOD.replace(b'"message"', b"[]"), 1),
        (GOOD.replace(b"2026-11-20", b"2026-13-20"), 1),
        (GOOD.replace(b"2026-11-20", b"0001-01-01"), 1),
        (GOOD.replace(b"2026-11-20", b"9999-12-31"), 1),
        (GOOD.replace(b'"x"', b'"\xff"'), 1),
        (GOOD.replace(b'"x"', b'"x","result":{"server":NaN}'), 1),
        (GOOD.replace(b'"x"', b'"x","mood":' + b"9" * 5000), 1),
        (GOOD.replace(b'"x"', b'"x","mood":' + b"[" * 100_000 + b"]" * 100_000), 1),
        (GOOD.replace(b'"x"', b'"x","mood":' + b"[1," * 100_000 + b"1" + b"]" * 100_000), 1),
        (GOOD.replace(b'"x"', b'"x","mood":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000), 1),
        (GOOD.replace(b'"x"', b'"x","mood":[' + b'[1],{"a":1},' * 1000 + b"1]"), 0),
        (b'{"kind":"usage","at":"2026-11-20T17:30:32.123Z","prompt_tokens":-1}', 1),
        (b'{"kind":"usage","at":"2026-11-20T17:30:32.123Z","prefill_s":1e400}', 1),
        (b'"' + b"\\" * 1_000_001, 1),
        (b'{"kind":"turn","reason":"answered"}', 1),
    ],
)
def test_a_damaged_line_is_counted_and_the_others_are_read(
    line: bytes, damaged: int, shelf: SessionDirectory, said: list[str]
) -> None:
    name = write_all(shelf, RECORDS, said)
    path = file_of(shelf, name)
    path.write_bytes(path.read_bytes() + line + b"\n" + GOOD + b"\n")
    contents = shelf.read(name)
    records = [entry.record for entry in contents.entries]
    good = [Message("user", "x")] * (2 if b"text" in line and not damaged else 1)
    assert (records, contents.damaged_lines) == ([*RECORDS, *good], damaged)


def test_values_that_json_cannot_hold_are_written_as_text(shelf: SessionDirectory, said: list[str]) -> None:
    deep: Any = "x"
    for _ in range(MAX_DEPTH * 2):
        deep = [deep]
    odd = {"nan": float("nan"), "inf": float("-inf"), "half": "\ud800", "deep": deep, "set": {1}, "none": None}
    name = write_all(shelf, (Message("tool", "t", ToolResult("s", "t", {}, "completed", "t", 0.0, odd)),), said)
    line = file_of(shelf, name).read_text(encoding="utf-8")
    json.loads(line, parse_constant=lambda word: pytest.fail(word))
    (message,) = records_of(shelf, name)
    assert isinstance(message, Message)
    assert message.text == "t" and message.result is not None


def test_a_result_that_is_too_large_keeps_only_its_text(shelf: SessionDirectory, said: list[str]) -> None:
    huge = ToolResult("s", "t", {}, "completed", "x" * (17 << 20), 0.0, {"all": "x"})
    name = write_all(shelf, (Message("tool", "short", huge),), said)
    assert records_of(shelf, name) == [Message("tool", "short", ToolResult("s", "t", {}, "completed", "short"))]


def test_secrets_are_redacted_before_they_are_written(shelf: SessionDirectory, said: list[str]) -> None:
    journal = SessionLog(shelf, said.append, lambda _, text: text.replace('se"cret-4711', "[redacted]"))
    journal.append(Message("assistant", 'the assistant says se"cret-4711 twice: se"cret-4711'))
    journal.close()
    assert b"4711" not in file_of(shelf, journal.name).read_bytes()
    assert records_of(shelf, journal.name) == [Message("assistant", "the assistant says [redacted] twice: [redacted]")]


def test_links_pipes_and_folders_are_rejected(shelf: SessionDirectory, tmp_path: Path, said: list[str]) -> None:
    shelf.path.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(GOOD + b"\n")
    linked, dangling, piped, folder = paths = [file_of(shelf, f"261120-000{i}") for i in range(4)]
    linked.symlink_to(elsewhere)
    dangling.symlink_to(tmp_path / "missing")
    os.mkfifo(piped)
    folder.mkdir()
    assert sorted(shelf.list_ids()) == [path.stem for path in paths]
    for path in paths:
        with pytest.raises(ConfigError):
            shelf.read(path.stem)
        with pytest.raises(ConfigError):
            SessionLog(shelf, said.append).resume(path.stem)
    assert elsewhere.read_bytes() == GOOD + b"\n"


FULL = """
import resource, signal, sys
from pathlib import Path
from rkllm_chat.core.messages import Message
from rkllm_chat.storage.session_files import SessionLog, SessionDirectory

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = SessionLog(SessionDirectory(Path(sys.argv[1])), lambda trouble: print(bool(trouble)))
for number in range(3):
    limit(800)
    for part in range(4):
        journal.append(Message("user", f"{number}.{part} " + "x" * 150))
    data = (Path(sys.argv[1]) / f"{journal.name}.jsonl").read_bytes()
    assert data.endswith(b"\\n") and (len(data) <= 800 or number), data
    limit(resource.RLIM_INFINITY)
    journal.append(Message("user", f"{number} space"))
journal.close()
"""


def test_a_full_disk_is_reported_once_and_no_record_is_lost(shelf: SessionDirectory) -> None:
    command = [sys.executable, "-c", FULL, str(shelf.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "False"] * 3
    (name,) = shelf.list_ids()
    texts = [record.text.split("x")[0].strip() for record in records_of(shelf, name) if isinstance(record, Message)]
    assert texts == [f"{n}{tail}" for n in range(3) for tail in (".0", ".1", ".2", ".3", " space")]
    assert shelf.read(name).damaged_lines == 0


@pytest.mark.slow
def test_a_killed_writer_loses_at_most_the_record_it_was_at(shelf: SessionDirectory) -> None:
    losses = losses_of(shelf.path, 100)
    assert {(loss.lost, loss.damaged) for loss in losses} == {(0, 0)}  # what was said to be written is there
    assert len({loss.name for loss in losses}) == 50


def test_states_of_sessions_take_a_limited_number_of_bytes(shelf: SessionDirectory, said: list[str]) -> None:
    names: list[str] = []
    for age in (1, 2, 3):
        log = SessionLog(shelf, said.append)
        log.append(Message("user", "Hello"))
        log.close()
        names.append(log.name)
        file = shelf.state_folder(log.name) / "one.bin"
        file.parent.mkdir()
        file.write_bytes(b"0123456789")
        os.utime(file, (age, age))
    shelf.state_folder("260101-aaaa").mkdir()
    shelf.limit_states(25)
    assert [shelf.state_folder(name).exists() for name in names] == [False, True, True]
    assert not shelf.state_folder("260101-aaaa").exists(), "its session was deleted"
    assert sorted(shelf.list_ids()) == sorted(names)


def test_ids_sort_by_age_and_are_unique(shelf: SessionDirectory, said: list[str]) -> None:
    moments = [1e9, 1e9 + 1, 1e9 + 59.9, 1e9 + 3600, 1e9 + 86_399.9, 1_700_000_000.0, 1_700_000_000.2, 1_790_000_000.0]
    ids = [make_session_id(moment) for moment in moments]
    assert ids == sorted(set(ids))
    written = [write_all(shelf, RECORDS, said) for _ in range(5)]
    assert len(set(written)) == 5 and written == sorted(written)
    assert shelf.list_ids() == written[::-1]


def test_the_sessions_of_a_folder_whose_name_is_not_utf_8_are_found(shelf: SessionDirectory, said: list[str]) -> None:
    folder = os.fsdecode(b"/home/ann\xe9")
    name = write_all(shelf, (Setup(folder=folder), Message("user", "hi")), said)
    assert find_newest(shelf, folder) == name
    assert [session.name for session in list_sessions(shelf, "", 1, folder)] == [name]
    assert (find_newest(shelf, "/home/anna"), list_sessions(shelf, "", 1, "/home/anna")) == ("", [])


def test_a_session_is_found_by_a_unique_prefix(shelf: SessionDirectory) -> None:
    shelf.path.mkdir(parents=True)
    for name in ("261120-ab12", "261120-ac34", "251231-zz99"):
        file_of(shelf, name).write_bytes(GOOD + b"\n")
    assert [shelf.find_id(text) for text in ("261120-ab12", "25", "zz", "AB")] == [
        "261120-ab12", "251231-zz99", "251231-zz99", "261120-ab12",
    ]  # fmt: skip
    for text, cause in (
        ("2611", "Several sessions begin"),
        ("a", "Several sessions begin"),
        ("261120-ab13", "Similar: 261120-ab12"),
        ("../../etc/passwd", "There is no session"),
        ("", "There is no session"),
        ("x" * 300, "There is no session"),
        ("a\0b", "There is no session"),
    ):
        with pytest.raises(UsageError, match=cause):
            shelf.find_id(text)


def test_edits_are_applied_when_a_talk_is_rebuilt(shelf: SessionDirectory, said: list[str]) -> None:
    one, two, three, four = (Message("user", text) for text in ("one", "two", "three", "four"))
    edits = (ContextTrimmed(2, 1), HistoryEdited(2, 3), four, HistoryEdited(0, 2, (Message("user", "short"),)))
    records: tuple[Record, ...] = (one, two, three, *edits)
    unedited, edited = (
        rebuild_conversation(shelf.read(write_all(shelf, each, said)).entries) for each in (records[:2], records)
    )
    assert unedited == RestoredConversation((one, two))
    assert edited == RestoredConversation((Message("user", "short"), four))


def test_records_of_earlier_builds_are_read_by_the_names_of_their_members() -> None:
    trim = {"kind": "forgot", "at": "2026-11-20T17:16:42Z", "first_shown": 4, "turns": 1}
    for member in ("kept", "retained_count"):
        assert read_entry({**trim, member: 2}).record == ContextTrimmed(4, 1, 2)
    said = {"role": "user", "text": "q", "tools": ["depth()"], "hint": "Call depth."}
    message = Message("user", "q", tool_lines=("depth()",), call_request="Call depth.")
    assert read_entry({**trim, "kind": "message", **said}).record == message
    edited = {**trim, "kind": "edit", "start": 0, "stop": 1, "messages": [said]}
    assert read_entry(edited).record == HistoryEdited(0, 1, (message,))


def test_a_file_that_is_too_large_is_not_read(shelf: SessionDirectory) -> None:
    shelf.path.mkdir(parents=True)
    with file_of(shelf, "261120-ab12").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError, match="too large"):
        shelf.read("261120-ab12")
