"""`rkllm-chat sessions`: saved conversations are listed, searched, shown, exported and deleted."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from rkllm_chat.storage.session_files import SessionDirectory
from stage import Run, Script


def save_two(program: Run, script: Script, shelf: SessionDirectory) -> tuple[str, str]:
    """Save two conversations; return their ids."""
    program("-p", "How deep is Husum?", "--continue", "--model", script("Two metres."), "--no-servers")
    (first,) = shelf.list_ids()
    (shelf.path / f"{first}.jsonl").rename(shelf.path / "250101-0000.jsonl")
    text = (shelf.path / "250101-0000.jsonl").read_text("utf-8")
    (shelf.path / "250102-0000.jsonl").write_text(text.replace("Husum", "Kiel").replace("/work", "/other"), "utf-8")
    os.utime(shelf.path / "250101-0000.jsonl", (1, 1))
    return "250101-0000", "250102-0000"


def test_sessions_are_listed_searched_and_limited(
    program: Run, in_process: Run, script: Script, shelf: SessionDirectory
) -> None:
    assert in_process("sessions").stderr == "No session is saved.\n"
    husum, kiel = save_two(program, script, shelf)
    for copied in ("notes.jsonl", f"{kiel}.bak"):  # other files of the folder are no sessions
        shutil.copy(shelf.path / f"{kiel}.jsonl", shelf.path / copied)
    lines = in_process("sessions").stdout.splitlines()
    assert [line[:11] for line in lines] == [kiel, husum]
    assert "     1 turn  How deep is Husum?  [" in lines[1] and lines[1].endswith("/work]")
    assert in_process("sessions", "list", "--limit", "1").stdout.splitlines() == lines[:1]
    assert in_process("sessions", "search", "METRES", "husum").stdout.splitlines() == lines[1:]
    document = json.loads(in_process("sessions", "--here", "--json").stdout)
    assert [session["name"] for session in document["result"]] == [husum]
    assert document["result"][0].keys() == {"name", "updated_at", "title", "turns", "model", "folder"}
    assert in_process("sessions", "list", "nowhere").stderr == "No session was found.\n"


def test_a_conversation_is_shown_and_exported(
    program: Run, in_process: Run, script: Script, shelf: SessionDirectory, folder: Path
) -> None:
    husum, _ = save_two(program, script, shelf)
    shown = in_process("sessions", "export", "250101").stdout
    assert "# How deep is Husum?" in shown and "Two metres." in shown
    assert json.loads(in_process("sessions", "export", husum, "-o", "json").stdout)["title"] == "How deep is Husum?"
    in_process("sessions", "export", husum, "-o", "talk.json")
    assert json.loads((folder / "talk.json").read_text("utf-8"))["session"] == husum
    done = in_process("sessions", "export", husum, "-o", "talk.json", code=3)
    assert "talk.json cannot be written: File exists. Existing files are not overwritten." in done.stderr
    done = in_process("sessions", "export", husum, "-o", "talk.html", code=2)
    assert "Unknown export format html. Available formats: md, json" in done.stderr
    assert not (folder / "talk.html").exists()
    assert in_process("sessions", "show", husum).stdout == shown
    assert 'There is no session "zzzz".' in in_process("sessions", "show", "zzzz", code=2).stderr


def test_only_confirmed_and_unused_sessions_are_deleted(
    program: Run, in_process: Run, script: Script, shelf: SessionDirectory
) -> None:
    husum, kiel = save_two(program, script, shelf)
    done = in_process("sessions", "delete", husum, code=2)
    assert "Deleting needs a confirmation, and standard input is not a terminal. Add --yes." in done.stderr
    file = shelf.open(husum)
    assert file is not None
    assert (
        f"Session {husum} is open in another chat." in in_process("sessions", "delete", "--yes", husum, code=2).stderr
    )
    os.close(file)
    assert shelf.list_ids() == [kiel, husum]
    (shelf.path / f"{husum}.torn").write_text("{", "utf-8")
    in_process("sessions", "delete", "--yes", "250101")
    assert os.listdir(shelf.path) == [f"{kiel}.jsonl"]  # noqa: PTH208
    in_process("sessions", "delete", "--yes", kiel, "nosuch", code=2)
    assert shelf.list_ids() == [kiel]
