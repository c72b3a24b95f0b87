"""Sessions through the real program: a conversation is restored after an exit, a kill, and in another chat."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fork_server import run
from rkllm_chat import __version__
from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.sessions import SessionManager
from rkllm_chat.core.errors import ChatError
from rkllm_chat.core.messages import Message
from rkllm_chat.storage.session_files import SessionDirectory
from rkllm_chat.storage.session_records import TurnFinished
from stage import PROGRAM, FakeToolbox, Screen, call_text, make_chat, take_turn
from tui.server_configs import write_late

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Script = Callable[..., str]
OpenChat = Callable[..., Screen]

ALONE = ("--no-servers",)


def open_session(shelf: SessionDirectory, chat: Conversation, name: str = "") -> SessionManager:
    sessions = SessionManager(shelf, chat, print)
    sessions.open(name)
    return sessions


def texts(shelf: SessionDirectory, name: str = "") -> list[str]:
    """The messages of a session, by default of the newest."""
    entries = shelf.read(name or shelf.list_ids()[0]).entries
    return [entry.record.text for entry in entries if isinstance(entry.record, Message)]


def kinds(shelf: SessionDirectory) -> list[str]:
    (name,) = shelf.list_ids()
    return [json.loads(line)["kind"] for line in (shelf.path / f"{name}.jsonl").read_text("utf-8").splitlines()]


def test_one_turn_for_a_script_leaves_no_session(program: Run, script: Script, shelf: SessionDirectory) -> None:
    program("-p", "hi", "--model", script("Hello."), *ALONE)
    assert not shelf.path.exists()


def test_a_script_continues_the_newest_session(program: Run, script: Script, shelf: SessionDirectory) -> None:
    model = ("--model", script("Hello."), *ALONE)
    first = program("-p", "one", "--continue", *model, "--output-format", "json")
    (notice,) = json.loads(first.stdout)["result"]["notices"]
    assert notice.startswith("No saved session in this folder; started a new one.")
    second = program("-p", "two", "--continue", *model)
    (name,) = shelf.list_ids()
    assert f"Resumed session {name} (1 turn). Last message: one" in second.stderr
    program("-p", "three", "--resume", name[:9], *model)
    assert texts(shelf) == ["one", "Hello.", "two", "Hello.", "three", "Hello."]
    assert kinds(shelf) == ["setup", *["message", "message", "usage", "turn"] * 3]
    for other in ("nosuch", "../../etc/passwd"):
        done = program("-p", "four", "--resume", other, *model, code=2)
        assert f'There is no session "{other}". Newest: {name}' in done.stderr


def test_a_session_of_a_newer_format_is_said_to_be_one(program: Run, script: Script, shelf: SessionDirectory) -> None:
    model = ("--model", script("Hello."), *ALONE)
    program("-p", "one", "--continue", *model)
    (name,) = shelf.list_ids()
    file = shelf.path / f"{name}.jsonl"
    assert "newer" not in program("-p", "two", "--continue", *model).stderr
    file.write_text(file.read_text("utf-8").replace('"format":1', '"format":2,"mood":"calm"', 1), encoding="utf-8")
    told = program("-p", "two", "--continue", *model).stderr
    assert f"The session was written by rkllm-chat {__version__} in a newer format" in told


def test_a_session_continues_with_its_own_model(
    program: Run, script: Script, shelf: SessionDirectory, folder: Path
) -> None:
    (folder / "other.json").write_text('["From the configured one."]', encoding="utf-8")
    (folder / "own.toml").write_text('[chat]\nmodel = "other.json"\n', encoding="utf-8")
    configured = ("--config", "own.toml", *ALONE)
    program("-p", "one", "--continue", "--model", script("From the session's."), *configured)
    assert "The system prompt" not in program("-p", "two", "--continue", *configured).stderr
    (name,) = shelf.list_ids()
    program("-p", "three", "--resume", name, *configured)
    (folder / "replies.json").unlink()
    program("-p", "four", "--continue", *configured)
    path, other = shelf.path / f"{name}.jsonl", str((folder / "other.json").absolute())
    written = path.read_text("utf-8")
    assert other in written
    path.write_text(written.replace(other, "http://me:[redacted]@127.0.0.1:9/v1"), "utf-8")
    program("-p", "five", "--continue", *configured)
    answers = texts(shelf)[1::2]
    assert answers == ["From the session's."] * 3 + ["From the configured one."] * 2


def test_a_session_of_another_folder_is_not_continued(
    script: Script, shelf: SessionDirectory, environment: dict[str, str], tmp_path: Path
) -> None:
    here, other = tmp_path / "work", tmp_path / "other"
    other.mkdir()
    command = [*PROGRAM, "--continue", "--model", str(here / script("Hello.")), *ALONE, "-p"]
    assert run([*command, "here"], env=environment, cwd=here).returncode == 0
    (first,) = shelf.list_ids()
    assert b"No saved session in this folder" in run([*command, "there"], env=environment, cwd=other).stderr
    assert texts(shelf, first) == ["here", "Hello."]
    (second,) = {*shelf.list_ids()} - {first}
    (shelf.path / f"{second}.jsonl").unlink()
    moved = (shelf.path / f"{first}.jsonl").read_text("utf-8").replace(str(here), str(other))
    (shelf.path / "250101-0000.jsonl").write_text(moved, "utf-8")
    assert run([*command, "again"], env=environment, cwd=other).returncode == 0
    assert texts(shelf, "250101-0000")[-2:] == ["again", "Hello."]
    assert len(texts(shelf, first)) == 2


def test_the_conversation_before_a_kill_is_restored(open_chat: OpenChat, shelf: SessionDirectory) -> None:
    replies = ("Hello.", {"text": "Once upon a time", "wait": True})
    screen = open_chat("--no-servers", *replies)
    screen.enter("hi", "◆ Hello.")
    screen.say("a story\r", "Once upon a time")
    os.kill(screen.process.pid, signal.SIGKILL)
    assert screen.wait_for_end() == -signal.SIGKILL
    assert texts(shelf) == ["hi", "Hello.", "a story"]
    again = open_chat("--no-servers --continue", "Hello again.")
    again.wait_for("(2 turns). Last message: a story")
    lines = again.enter("hi again", "◆ Hello again.")
    assert lines[lines.index("> hi") :][:3] == ["> hi", "◆ Hello.", "> a story"]
    assert texts(shelf) == ["hi", "Hello.", "a story", "hi again", "Hello again."]
    again.leave()
    again.wait_for(f"rkllm-chat --resume {shelf.list_ids()[0]}")


def test_a_reply_that_describes_a_call_is_no_answer_before_the_user_has_decided(
    open_chat: OpenChat, shelf: SessionDirectory
) -> None:
    call = '```json\n{"name": "calculate", "arguments": {"expression": "1 + 2"}}\n```'
    screen = open_chat("", f"It is this:\n{call}\nSo you can add.", "No call.")
    screen.say("hello\r", "The answer describes a call.")
    os.kill(screen.process.pid, signal.SIGKILL)
    assert screen.wait_for_end() == -signal.SIGKILL
    assert texts(shelf) == ["hello"]


def test_a_partial_answer_is_kept(open_chat: OpenChat, shelf: SessionDirectory) -> None:
    screen = open_chat("--no-servers", {"text": "Once upon a time", "wait": True})
    screen.say("a story\r", "Once upon a time")
    screen.say("\x03", "[Stopped]")
    screen.wait_for_prompt()
    assert texts(shelf) == ["a story", "Once upon a time"]
    assert shelf.read(shelf.list_ids()[0]).entries[-1].record == TurnFinished("stopped")


def test_an_empty_session_leaves_no_file(open_chat: OpenChat, shelf: SessionDirectory) -> None:
    screen = open_chat("--no-servers", "Hello.")
    screen.enter("/clear", "Conversation cleared.")
    screen.leave()
    assert not shelf.path.exists()


def test_a_second_chat_continues_in_a_copy(open_chat: OpenChat, program: Run, shelf: SessionDirectory) -> None:
    screen = open_chat("--no-servers", "Hello.", "Still here.")
    screen.enter("hi", "◆ Hello.")
    (first,) = shelf.list_ids()
    done = program("-p", "me too", "--continue", "--model", "replies.json", *ALONE)
    assert f"Session {first} is open in another chat; this chat continues in a copy of it." in done.stderr
    screen.enter("are you there?", "◆ Still here.")
    assert texts(shelf, first) == ["hi", "Hello.", "are you there?", "Still here."]
    (copy,) = {*shelf.list_ids()} - {first}
    assert texts(shelf, copy) == ["hi", "Hello.", "me too", "Hello."]
    assert f'"copy_of":"{first}"' in (shelf.path / f"{copy}.jsonl").read_text("utf-8")


def test_sessions_are_listed_searched_left_and_resumed(open_chat: OpenChat, shelf: SessionDirectory) -> None:
    screen = open_chat("--no-servers", "Two metres.", "四メートル。", "Six.")
    screen.enter("How deep is Husum?", "Two metres.")
    (first,) = shelf.list_ids()
    screen.enter("/new", f"/sessions resume {first} restores it.")
    screen.enter("東京湾は？", "四メートル。")
    second = shelf.list_ids()[0]
    screen.enter("/sessions ？", f"{second} *", "東京湾は？")
    lines = screen.enter("/sessions METRES husum")
    shown = lines[lines.index("> /sessions METRES husum") :]
    assert [line.split()[0] for line in shown[2:] if line[0].isdigit()] == [first]
    screen.enter("/sessions nowhere", "No session contains those words.")
    screen.enter(f"/resume {first[7:]}", f"Resumed session {first} (1 turn). Last message: How deep is Husum?")
    screen.enter("And Kiel?", "◆ Six.")
    assert texts(shelf, first) == ["How deep is Husum?", "Two metres.", "And Kiel?", "Six."]
    assert texts(shelf, second) == ["東京湾は？", "四メートル。"]
    screen.enter("/sessions deep", "How deep is Husum?  2      scripted", f"{first} *")
    screen.enter("/resume zzzz", 'There is no session "zzzz".')


def test_a_conversation_is_exported_and_no_file_is_overwritten(
    open_chat: OpenChat, shelf: SessionDirectory, folder: Path
) -> None:
    screen = open_chat("--no-servers", "Two <b>metres</b>.")
    screen.enter("/export", "The conversation is empty.")
    screen.enter("How deep?", "◆ Two")
    (name,) = shelf.list_ids()
    (folder / "there.md").write_text("mine", encoding="utf-8")
    exports = {"": f"{name}.md", "json": f"{name}.json", "talk.json": "talk.json", "md my talk": "my talk"}
    for arguments, file in exports.items():
        screen.enter(f"/export {arguments}".strip(), f"Conversation exported to {file}")
    screen.enter("/export there.md", "Cannot write there.md: File exists. Existing files are not overwritten.")
    lines = screen.enter("/export none/talk.md", "Cannot write none/talk.md: No such file or directory.")
    assert sum("Existing files are not overwritten" in line for line in lines) == 1
    screen.enter("/export talk.html", "Unknown export format html.")
    for page in (folder / f"{name}.md", folder / "my talk"):
        assert "> How deep?\n\nTwo &lt;b>metres" in page.read_text("utf-8")
        assert page.stat().st_mode & 0o777 == 0o600
    for document in (folder / f"{name}.json", folder / "talk.json"):
        assert json.loads(document.read_text("utf-8"))["session"] == name
    assert (folder / "there.md").read_text("utf-8") == "mine"
    assert not (folder / "talk.html").exists()


def test_no_secret_of_the_configuration_is_in_a_session(
    program: Run, script: Script, shelf: SessionDirectory, harbour: Path, environment: dict[str, str]
) -> None:
    config = harbour / "harbour.toml"
    entry = config.read_text("utf-8").replace("env = {", 'env = { TOKEN = "${HIDDEN}",')
    assert "TOKEN" in entry
    config.write_text(
        f'[chat]\nsystem = "You know ${{HIDDEN}}."\n{entry}'
        '[[servers]]\nname = "far"\nurl = "http://me:pass-0815@127.0.0.1:9/mcp?key=query-0815"\nconnect_s = 1\n'
        'headers = { Authorization = "Bearer header-0815" }\n',
        encoding="utf-8",
    )
    environment["HIDDEN"] = "hidden-0815"
    replies = (call_text("get_tide", harbour="hidden-0815"), "In metres, with header-0815, pass-0815 and query-0815.")
    asked = ("-p", "tell hidden-0815", "--continue", "--config", "harbour.toml", "--allow", "harbour__get_tide")
    done = program(*asked, "--model", script(*replies))
    assert "with header-0815" in done.stdout
    (path,) = shelf.path.iterdir()
    written = path.read_text("utf-8")
    assert "0815" not in written
    assert "The tide at [redacted] is 2.4 metres" in written and '"name":"get_tide"' in written


@pytest.mark.usefixtures("harbour")
def test_another_model_and_other_tools_are_reported(program: Run, script: Script, shelf: SessionDirectory) -> None:
    model = ("--continue", "--model", script("Hello."))
    program("-p", "one", *model, *ALONE)
    path = next(shelf.path.iterdir())
    path.write_text(path.read_text("utf-8").replace('"model":"scripted"', '"model":"big.gguf"'), "utf-8")
    done = program("-p", "two", *model, "--config", "harbour.toml")
    assert "This session used the model big.gguf; the current model is scripted." in done.stderr
    changed = "The tools have changed since this session was saved (+ added, - removed, ~ changed): +harbour__book, "
    assert changed in done.stderr
    assert "+harbour__write_log, +list_resources, 1 more\n" in done.stderr
    other = program("-p", "three", *model, "--config", "harbour.toml", "--system", "You are a pirate.")
    assert "The system prompt has changed since this session was saved." in other.stderr
    assert "The tools" not in other.stderr
    assert kinds(shelf).count("setup") == 3


@pytest.mark.slow
def test_tools_of_a_server_that_is_still_starting_are_not_reported_as_removed(
    open_chat: OpenChat, program: Run, script: Script, folder: Path
) -> None:
    options = write_late(folder)
    program("-p", "one", "--continue", "--model", script("Hello."), *options.split())
    (folder / "wait").touch()
    screen = open_chat(f"--continue {options}", "Hello.")
    screen.wait_for("[MCP: Server 'late' is still starting]")
    shown = [line[:15] for line in screen.lines()][1:5]
    assert shown == ["> one", "◆ Hello.", "Resumed session", "Model: scripted"]


def test_damage_is_reported_and_the_conversation_continues(
    program: Run, script: Script, shelf: SessionDirectory
) -> None:
    model = ("--continue", "--model", script("Hello."), *ALONE)
    program("-p", "one", *model)
    path = next(shelf.path.iterdir())
    path.write_bytes(b"\0\0\0 rubbish\n" + path.read_bytes() + b'{"kind":"mess')
    done = program("-p", "two", *model)
    assert "1 line of the session could not be read and was skipped." in done.stderr
    assert "its incomplete last record (13 bytes) was moved aside" in done.stderr
    assert texts(shelf) == ["one", "Hello.", "two", "Hello."]


def test_a_folder_behind_a_link_stops_a_continue_but_not_a_chat(
    open_chat: OpenChat, program: Run, script: Script, shelf: SessionDirectory, tmp_path: Path
) -> None:
    shelf.path.parent.mkdir(parents=True)
    shelf.path.symlink_to(tmp_path)
    assert "cannot be used" in program("-p", "one", "--continue", "--model", script("x"), *ALONE, code=3).stderr
    open_chat("--no-servers", "Hello.").enter("hi", "◆ Hello.", "The session cannot be saved")


async def depth(at: str = "Husum", **_: Any) -> str:
    if at == "Kiel":
        raise ValueError("no such harbour")
    return f"2 m at {at} " * 40


def test_the_prompt_after_a_resume_is_what_it_would_have_been(shelf: SessionDirectory) -> None:
    replies = [
        "I look. " + call_text("depth", at="Husum"),
        "Two.",
        call_text("depth", at="Kiel"),
        "Hm.",
        "Hm.",
        "Third.",
    ]
    chat, again = (
        make_chat(texts, FakeToolbox({"depth": depth}), context=250, max_steps=3) for texts in (replies, ["Third."])
    )
    sessions = open_session(shelf, chat)
    for line in ("How deep?", "And Kiel?"):
        take_turn(chat, line)
    sessions.close()
    open_session(shelf, again, "newest")
    assert again.history == chat.history and again.first_shown == chat.first_shown > 0
    for current in (chat, again):
        take_turn(current, "Thanks")
    assert isinstance(chat.backend, ScriptedBackend) and isinstance(again.backend, ScriptedBackend)
    assert again.backend.prompts[-1] == chat.backend.prompts[-1]


def test_an_edit_of_the_history_is_kept_by_a_resume(shelf: SessionDirectory) -> None:
    chat, again = make_chat(["One.", "Two.", "Three."]), make_chat([])
    sessions = open_session(shelf, chat)
    del chat.history[:]
    assert shelf.list_ids() == []  # nothing has changed
    for line in ("one", "two", "three"):
        take_turn(chat, line)
    del chat.history[4:]
    chat.history[:2] = [Message("user", "in short: one")]
    chat.history.pop()
    chat.history += [Message("assistant", "Zwei.")]
    sessions.close()
    open_session(shelf, again, "newest")
    assert again.history == chat.history
    assert [message.text for message in again.history] == ["in short: one", "two", "Zwei."]
    assert texts(shelf)[:6] == ["one", "One.", "two", "Two.", "three", "Three."]


def test_the_edits_of_commands_are_kept_by_a_resume(open_chat: OpenChat, shelf: SessionDirectory) -> None:
    screen = open_chat("--no-servers", "One. " * 20, "Two.", "Two again.", "Three.", "The first in short.")
    steps = {"first": "◆ One.", "second": "◆ Two.", "/retry": "◆ Two again.", "third": "◆ Three."}
    for line, text in {**steps, "/undo": "Removed: third", "/compact": "2 messages summarized"}.items():
        screen.enter(line, text)
    screen.leave()
    again, notices = make_chat(["Four."]), list[str]()
    SessionManager(shelf, again, notices.append).open(shelf.list_ids()[0])
    summary = ["Summary of our talk so far: The first in short.", "I remember."]
    assert [message.text for message in again.history] == [*summary, "second", "Two again."]
    assert any("(2 turns)" in line for line in notices)
    replies = ["One. " * 20, "Two.", "Three."]
    assert [text for text in texts(shelf) if text in replies] == replies


def test_a_call_that_a_kill_cut_off_has_a_result_after_a_resume(shelf: SessionDirectory) -> None:
    chat, again = make_chat([]), make_chat(["Never mind."])
    sessions = open_session(shelf, chat)
    chat.history += [Message("user", "How deep?"), Message("assistant", call_text("depth", at="Husum"))]
    sessions.close()
    open_session(shelf, again, "newest")
    assert [message.role for message in again.history] == ["user", "assistant", "tool"]
    take_turn(again, "And?")
    assert texts(shelf)[2:] == ["The call was stopped before it ended.", "And?", "Never mind."]


def test_an_unknown_session_is_an_error(shelf: SessionDirectory) -> None:
    with pytest.raises(ChatError, match="There is no session"):
        open_session(shelf, make_chat([]), "261120-zzzz")
