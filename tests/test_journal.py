"""A session's file: what is written is read again, whatever happens to it in between."""

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
from rkllm_chat.errors import ConfigError, UsageError
from rkllm_chat.events import Usage
from rkllm_chat.journal import DEEPEST, Journal, Shelf, make_id
from rkllm_chat.messages import Message, Tool, ToolResult
from rkllm_chat.records import Edit, Forgot, Record, Setup, TurnDone, rebuild
from targets import Tell

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
    Usage(10, 4, 6, 7, 0.1, 0.2, 0.15, hit_limit=True),
    Message("tool", "2 m", RESULT),
    Forgot(0, 0),
    Edit(1, 2, (Message("assistant", "Two."),)),
    TurnDone("failed", "why"),
)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "state/sessions")


@pytest.fixture
def said() -> list[str]:
    return []


def write_all(shelf: Shelf, records: tuple[Record, ...], said: list[str]) -> str:
    """A session of these records, closed again; its id."""
    journal = Journal(shelf, said.append)
    for record in records:
        journal.keep(record)
    journal.close()
    return journal.name


def file_of(shelf: Shelf, name: str) -> Path:
    return shelf.path / f"{name}.jsonl"


def records_of(shelf: Shelf, name: str) -> list[Record]:
    return [entry.record for entry in shelf.read(name).entries]


def test_what_is_kept_is_read_again(shelf: Shelf, said: list[str]) -> None:
    begun = time.time()
    name = write_all(shelf, RECORDS, said)
    contents = shelf.read(name)
    assert [entry.record for entry in contents.entries] == list(RECORDS)
    assert all(begun - 0.001 <= entry.at <= time.time() for entry in contents.entries)
    assert (contents.damaged, contents.torn, said) == (0, b"", [])
    assert file_of(shelf, name).read_bytes().count(b"\n") == len(RECORDS)


def test_file_and_folders_are_the_owners_alone_whatever_the_umask_is(shelf: Shelf, said: list[str]) -> None:
    before = os.umask(0)
    try:
        path = file_of(shelf, write_all(shelf, RECORDS, said))
    finally:
        os.umask(before)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parents[1])] == [0o600, 0o700, 0o700]


def test_rights_that_others_were_given_are_taken_away(shelf: Shelf, said: list[str]) -> None:
    path = file_of(shelf, write_all(shelf, RECORDS, said))
    path.chmod(0o644)
    path.parent.chmod(0o755)
    shelf.read(path.stem)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]


def test_a_file_cut_at_every_byte_opens_and_continues(shelf: Shelf, said: list[str]) -> None:
    records = tuple(Message("user", text) for text in ("one", "二つ目", "three"))
    name = write_all(shelf, records, said)
    path = file_of(shelf, name)
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        journal = Journal(shelf, said.append)
        assert journal.resume(name)
        journal.keep(Message("user", "after"))
        journal.close()
        contents = shelf.read(name)
        left = sum(cut >= end - 1 for end in ends)  # a record that only lacks its newline is whole
        assert [entry.record for entry in contents.entries] == [*records[:left], Message("user", "after")], cut
        assert (contents.damaged, contents.torn) == (0, b"")
    assert said == []


def test_a_torn_end_is_put_aside(shelf: Shelf, said: list[str]) -> None:
    name = write_all(shelf, RECORDS, said)
    with file_of(shelf, name).open("ab") as file:
        file.write(b'{"kind":"message","at":"2026')
    assert shelf.read(name).torn == b'{"kind":"message","at":"2026'
    journal = Journal(shelf, said.append)
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
        (b"\0" * 4096, 0),
        (b"\0\0 not json", 1),
        (GOOD[:-1], 1),
        (GOOD + GOOD, 1),
        (GOOD.replace(b'"x"', b"7"), 1),
        (GOOD.replace(b"user", b"admin"), 1),
        (GOOD.replace(b'"user"', b"[]"), 1),
        (GOOD.replace(b"message", b"massage"), 1),
        (GOOD.replace(b"message", b"edit"), 1),
        (GOOD.replace(b"2026-11-20", b"2026-13-20"), 1),
        (GOOD.replace(b"2026-11", b"0000-11"), 1),
        (GOOD.replace(b'"x"', b'"\xff"'), 1),
        (GOOD.replace(b'"x"', b'"x","result":{"server":NaN}'), 1),
        (GOOD.replace(b'"x"', b'"x","more":' + b"9" * 5000), 1),
        (GOOD.replace(b'"x"', b'"x","more":' + b"[" * 100_000 + b"]" * 100_000), 1),
        (GOOD.replace(b'"x"', b'"x","more":' + b'{"a":' * 100_000), 1),
        (b'{"kind":"usage","at":"2026-11-20T17:30:32.123Z","prompt_tokens":-1}', 1),
        (b'{"kind":"usage","at":"2026-11-20T17:30:32.123Z","prefill_s":1e400}', 1),
        (b"[]", 1),
        (b'"' + b"\\" * 1_000_001, 1),
        (b'{"kind":"turn","reason":"answered"}', 1),
    ],
)
def test_a_damaged_line_is_counted_and_the_others_are_read(
    line: bytes, damaged: int, shelf: Shelf, said: list[str]
) -> None:
    name = write_all(shelf, RECORDS, said)
    path = file_of(shelf, name)
    path.write_bytes(path.read_bytes() + line + b"\n" + GOOD + b"\n")
    contents = shelf.read(name)
    records = [entry.record for entry in contents.entries]
    good = [Message("user", "x")] * (2 if b"text" in line and not damaged else 1)
    assert (records, contents.damaged) == ([*RECORDS, *good], damaged)


def test_members_of_a_later_release_are_left_out(shelf: Shelf, said: list[str]) -> None:
    name = write_all(shelf, RECORDS, said)
    path = file_of(shelf, name)
    path.write_bytes(path.read_bytes() + GOOD.replace(b'"x"', b'"x","mood":"fine"') + b"\n")
    assert records_of(shelf, name)[-1] == Message("user", "x")


def test_what_json_cannot_hold_is_written_as_words(shelf: Shelf, said: list[str]) -> None:
    deep: Any = "x"
    for _ in range(DEEPEST * 2):
        deep = [deep]
    odd = {"nan": float("nan"), "inf": float("-inf"), "half": "\ud800", "deep": deep, "set": {1}, "none": None}
    name = write_all(shelf, (Message("tool", "t", ToolResult("s", "t", {}, "completed", "t", 0.0, odd)),), said)
    line = file_of(shelf, name).read_text(encoding="utf-8")
    json.loads(line, parse_constant=lambda word: pytest.fail(word))
    (message,) = records_of(shelf, name)
    assert isinstance(message, Message)
    assert message.text == "t" and message.result is not None


def test_a_result_too_large_for_a_line_keeps_what_the_model_read(shelf: Shelf, said: list[str]) -> None:
    huge = ToolResult("s", "t", {}, "completed", "x" * (17 << 20), 0.0, {"all": "x"})
    name = write_all(shelf, (Message("tool", "short", huge),), said)
    assert records_of(shelf, name) == [Message("tool", "short", ToolResult("s", "t", {}, "completed", "short"))]


def test_what_is_to_be_hidden_is_never_written(shelf: Shelf, said: list[str]) -> None:
    journal = Journal(shelf, said.append, lambda _, text: text.replace('se"cret-4711', "[redacted]"))
    journal.keep(Message("assistant", 'the assistant says se"cret-4711 twice: se"cret-4711'))
    journal.close()
    assert b"4711" not in file_of(shelf, journal.name).read_bytes()
    assert records_of(shelf, journal.name) == [Message("assistant", "the assistant says [redacted] twice: [redacted]")]


def test_one_program_writes_a_session_at_a_time(shelf: Shelf, said: list[str]) -> None:
    first, second = Journal(shelf, said.append), Journal(shelf, said.append)
    first.keep(Message("user", "one"))
    assert not second.resume(first.name)
    assert second.name == ""
    first.close()
    assert second.resume(first.name)
    second.close()


def test_nothing_is_written_before_the_first_record(shelf: Shelf, said: list[str]) -> None:
    Journal(shelf, said.append).close()
    assert not shelf.path.exists()
    assert shelf.ids() == []


def test_a_link_a_pipe_and_a_folder_are_refused(shelf: Shelf, tmp_path: Path, said: list[str]) -> None:
    shelf.path.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(GOOD + b"\n")
    linked, piped, folder = (file_of(shelf, f"261120-000{i}") for i in range(3))
    linked.symlink_to(elsewhere)
    os.mkfifo(piped)
    folder.mkdir()
    for path in (linked, piped, folder):
        with pytest.raises(ConfigError):
            shelf.read(path.stem)
        with pytest.raises(ConfigError):
            Journal(shelf, said.append).resume(path.stem)
    assert elsewhere.read_bytes() == GOOD + b"\n"


def test_a_folder_behind_a_link_is_refused_and_the_talk_is_told_once(
    shelf: Shelf, tmp_path: Path, said: list[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    shelf.path.parent.mkdir()
    shelf.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be used"):
        shelf.ids()
    write_all(shelf, RECORDS, said)
    assert len(said) == 1 and "cannot be used" in said[0]
    assert list((tmp_path / "elsewhere").iterdir()) == []


FULL = """
import resource, signal, sys
from pathlib import Path
from rkllm_chat.journal import Journal, Shelf
from rkllm_chat.messages import Message

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Shelf(Path(sys.argv[1])), lambda trouble: print(bool(trouble)))
for number in range(3):
    limit(800)
    for part in range(4):
        journal.keep(Message("user", f"{number}.{part} " + "x" * 150))
    data = (Path(sys.argv[1]) / f"{journal.name}.jsonl").read_bytes()
    assert data.endswith(b"\\n") and (len(data) <= 800 or number), data
    limit(resource.RLIM_INFINITY)
    journal.keep(Message("user", f"{number} space"))
journal.close()
"""


def test_a_full_disk_is_told_once_and_nothing_is_missing_when_there_is_space_again(shelf: Shelf) -> None:
    command = [sys.executable, "-c", FULL, str(shelf.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "False"] * 3
    (name,) = shelf.ids()
    texts = [record.text.split("x")[0].strip() for record in records_of(shelf, name) if isinstance(record, Message)]
    assert texts == [f"{n}{tail}" for n in range(3) for tail in (".0", ".1", ".2", ".3", " space")]
    assert shelf.read(name).damaged == 0


def test_a_killed_writer_loses_at_most_the_record_it_was_at(shelf: Shelf, figure: Tell) -> None:
    losses = losses_of(shelf.path, 200)
    figure(9, max(loss.lost for loss in losses), of=len(losses))
    assert {(loss.lost, loss.damaged) for loss in losses} == {(0, 0)}  # what was said to be written is there
    assert len({loss.name for loss in losses}) == 100


def test_ids_sort_by_their_age_and_never_meet(shelf: Shelf, said: list[str]) -> None:
    moments = [1e9, 1e9 + 1, 1e9 + 59.9, 1e9 + 3600, 1e9 + 86_399.9, 1_700_000_000.0, 1_700_000_000.2, 1_790_000_000.0]
    ids = [make_id(moment) for moment in moments]
    assert ids == sorted(set(ids))
    written = [write_all(shelf, RECORDS, said) for _ in range(5)]
    assert len(set(written)) == 5 and written == sorted(written)
    assert shelf.ids() == written[::-1]


def test_the_beginning_of_an_id_is_enough(shelf: Shelf) -> None:
    shelf.path.mkdir(parents=True)
    for name in ("261120-ab12", "261120-ac34", "251231-zz99"):
        file_of(shelf, name).write_bytes(GOOD + b"\n")
    assert [shelf.find(text) for text in ("261120-ab12", "25", "zz", "AB")] == [
        "261120-ab12", "251231-zz99", "251231-zz99", "261120-ab12",
    ]  # fmt: skip
    for text, cause in (
        ("2611", "Several sessions begin"),
        ("a", "Several sessions begin"),
        ("261120-ab13", "Nearest are 261120-ab12"),
        ("../../etc/passwd", "There is no session"),
        ("", "There is no session"),
        ("x" * 300, "There is no session"),
        ("a\0b", "There is no session"),
    ):
        with pytest.raises(UsageError, match=cause):
            shelf.find(text)


def test_marks_are_played_when_a_talk_is_rebuilt(shelf: Shelf, said: list[str]) -> None:
    one, two, three, four = (Message("user", text) for text in ("one", "two", "three", "four"))
    records = (one, two, three, Forgot(2, 1), Edit(2, 3), four, Edit(0, 2, (Message("user", "short"),)))
    talk = rebuild(shelf.read(write_all(shelf, records, said)).entries)
    assert talk.history == (Message("user", "short"), four)
    assert talk.first_shown == 0


def test_a_file_too_large_to_be_a_session_is_not_read(shelf: Shelf) -> None:
    shelf.path.mkdir(parents=True)
    with file_of(shelf, "261120-ab12").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError, match="is too large to be read"):
        shelf.read("261120-ab12")
