"""Sessions through the real program: what was said is there again, after a leave, a kill, and for another chat."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.scripted import Scripted
from rkllm_chat.chat import Chat
from rkllm_chat.errors import ChatError
from rkllm_chat.journal import Shelf
from rkllm_chat.messages import Message
from rkllm_chat.records import TurnDone
from rkllm_chat.sessions import Sessions
from stage import PROGRAM, Box, Screen, call_text, make_chat, take_turn

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Script = Callable[..., str]
OpenScreen = Callable[..., Screen]

ALONE = ("--no-servers",)


def texts(shelf: Shelf, name: str = "") -> list[str]:
    """What was said in a session, by default in the newest."""
    entries = shelf.read(name or shelf.ids()[0]).entries
    return [one.record.text for one in entries if isinstance(one.record, Message)]


def kinds(shelf: Shelf) -> list[str]:
    (name,) = shelf.ids()
    return [json.loads(line)["kind"] for line in (shelf.path / f"{name}.jsonl").read_text("utf-8").splitlines()]


def test_one_turn_for_a_script_leaves_no_session(program: Run, script: Script, shelf: Shelf) -> None:
    program("-p", "hi", "--model", script("Hello."), *ALONE)
    assert not shelf.path.exists()


def test_a_script_goes_on_with_the_newest_session(program: Run, script: Script, shelf: Shelf) -> None:
    model = script("Hello.")
    first = program("-p", "one", "--continue", "--model", model, *ALONE)
    assert "There is no session yet: this is a new one." in first.stderr
    second = program("-p", "two", "--continue", "--model", model, *ALONE)
    (name,) = shelf.ids()
    assert f"Session {name} goes on (turns so far: 1). The last was: one" in second.stderr
    program("-p", "three", "--resume", name[:9], "--model", model, *ALONE)
    assert texts(shelf) == ["one", "Hello.", "two", "Hello.", "three", "Hello."]
    assert kinds(shelf) == ["setup", *["message", "message", "usage", "turn"] * 3]


def test_json_output_names_what_became_of_the_session(program: Run, script: Script) -> None:
    done = program("-p", "one", "--continue", "--model", script("Hello."), *ALONE, "--output-format", "json")
    assert json.loads(done.stdout)["result"]["notices"] == ["There is no session yet: this is a new one."]


def test_the_newest_session_of_this_folder_comes_before_one_of_another(
    script: Script, shelf: Shelf, environment: dict[str, str], tmp_path: Path
) -> None:
    script("Hello.")
    model = str(tmp_path / "work/replies.json")
    other = tmp_path / "other"
    other.mkdir()

    def ask(line: str, place: Path) -> None:
        command = [*PROGRAM, "-p", line, "--continue", "--model", model, *ALONE]
        subprocess.run(command, env=environment, cwd=place, check=True, capture_output=True, timeout=30)

    ask("here", tmp_path / "work")
    first = shelf.ids()[0]
    ask("there", other)  # no session of that folder: it goes on with the newest
    assert texts(shelf, first) == ["here", "Hello.", "there", "Hello."]
    (shelf.path / f"{first}.jsonl").unlink()
    ask("here", tmp_path / "work")
    mine = shelf.ids()[0]
    moved = (shelf.path / f"{mine}.jsonl").read_text("utf-8").replace(str(tmp_path / "work"), str(other))
    (shelf.path / "250101-0000.jsonl").write_text(moved, "utf-8")
    ask("again", other)
    assert texts(shelf, "250101-0000")[-2:] == ["again", "Hello."]
    assert len(texts(shelf, mine)) == 2


@pytest.mark.parametrize("name", ["nosuch", "../../etc/passwd", "/etc/passwd", "x" * 300])
def test_an_unknown_session_is_told_with_the_nearest(program: Run, script: Script, shelf: Shelf, name: str) -> None:
    model = script("Hello.")
    program("-p", "one", "--continue", "--model", model, *ALONE)
    done = program("-p", "two", "--resume", name, "--model", model, *ALONE, code=2)
    assert f'There is no session "{name}". Nearest are {shelf.ids()[0]}' in done.stderr
    assert "/sessions" in done.stderr


def talk(screen: Screen, line: str, answer: str) -> None:
    screen.wait_for_prompt()
    screen.type(f"{line}\r")
    screen.wait_for(answer)
    screen.wait_for_prompt()


def test_what_was_said_before_a_kill_is_there_again(open_screen: OpenScreen, script: Script, shelf: Shelf) -> None:
    model = script("Hello.", {"text": "Once upon a time", "wait": True})
    screen = open_screen("--model", model, *ALONE)
    talk(screen, "hi", "◆ Hello.")
    screen.type("a story\r")
    screen.wait_for("Once upon a time")
    os.kill(screen.process.pid, signal.SIGKILL)
    assert screen.wait_for_end() == -signal.SIGKILL
    assert texts(shelf) == ["hi", "Hello.", "a story"]
    again = open_screen("--continue", "--model", model, *ALONE)
    again.wait_for("goes on (turns so far: 2). The last was: a story")
    talk(again, "hi again", "◆ Hello.")
    assert texts(shelf) == ["hi", "Hello.", "a story", "…", "hi again", "Hello."]


@pytest.mark.parametrize(("keys", "number"), [("\x03", 0), ("", signal.SIGTERM), ("", signal.SIGHUP)])
def test_a_partial_answer_is_kept(
    open_screen: OpenScreen, script: Script, shelf: Shelf, keys: str, number: int
) -> None:
    screen = open_screen("--model", script({"text": "Once upon a time", "wait": True}), *ALONE)
    screen.wait_for_prompt()
    screen.type("a story\r")
    screen.wait_for("Once upon a time")
    if keys:
        screen.type(keys)
        screen.wait_for("[Stopped]")
        screen.wait_for_prompt()
    else:
        screen.process.send_signal(number)
        screen.wait_for_end()
    assert texts(shelf) == ["a story", "Once upon a time"]
    (name,) = shelf.ids()
    assert shelf.read(name).entries[-1].record == TurnDone("stopped")


def test_an_empty_session_leaves_no_file(open_screen: OpenScreen, script: Script, shelf: Shelf) -> None:
    screen = open_screen("--model", script("Hello."), *ALONE)
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    screen.type("/clear\r")
    screen.wait_for("The conversation is forgotten.")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert not shelf.path.exists()


def test_a_second_chat_goes_on_in_a_copy(open_screen: OpenScreen, program: Run, script: Script, shelf: Shelf) -> None:
    model = script("Hello.", "Still here.")
    screen = open_screen("--model", model, *ALONE)
    talk(screen, "hi", "◆ Hello.")
    (first,) = shelf.ids()
    done = program("-p", "me too", "--continue", "--model", model, *ALONE)
    assert f"Session {first} is open in another chat: this goes on in a copy of it." in done.stderr
    talk(screen, "are you there?", "◆ Still here.")
    assert texts(shelf, first) == ["hi", "Hello.", "are you there?", "Still here."]
    (copy,) = {*shelf.ids()} - {first}
    assert texts(shelf, copy) == ["hi", "Hello.", "me too", "Hello."]
    assert f'"copy_of":"{first}"' in (shelf.path / f"{copy}.jsonl").read_text("utf-8")


def test_sessions_are_listed_searched_left_and_gone_on_with(
    open_screen: OpenScreen, script: Script, shelf: Shelf
) -> None:
    screen = open_screen("--model", script("Two metres.", "四メートル。", "Six."), *ALONE)
    talk(screen, "How deep is Husum?", "Two metres.")
    (first,) = shelf.ids()
    screen.type("/new\r")
    screen.wait_for(f"/resume {first} brings it back.")
    talk(screen, "東京湾は？", "四メートル。")
    second = shelf.ids()[0]
    screen.type("/sessions\r")
    screen.wait_for("How deep is Husum?  1      scripted")
    screen.wait_for(f"{second} *")
    screen.wait_for_prompt()
    screen.type("/sessions METRES husum\r")
    screen.wait_for("> /sessions METRES husum")
    lines = screen.wait_for_prompt()
    shown = lines[lines.index("> /sessions METRES husum") :]
    assert [line.split()[0] for line in shown[2:] if line[0].isdigit()] == [first]
    screen.type("/sessions nowhere\r")
    screen.wait_for("In no session that was said.")
    screen.wait_for_prompt()
    screen.type(f"/resume {first[7:]}\r")
    screen.wait_for(f"Session {first} goes on (turns so far: 1). The last was: How deep is Husum?")
    talk(screen, "And Kiel?", "◆ Six.")
    assert texts(shelf, first) == ["How deep is Husum?", "Two metres.", "And Kiel?", "Six."]
    assert texts(shelf, second) == ["東京湾は？", "四メートル。"]
    screen.type("/resume\r")
    screen.wait_for(f"{first} *")
    screen.wait_for_prompt()
    screen.type("/resume zzzz\r")
    screen.wait_for('There is no session "zzzz".')


def test_a_talk_is_written_out_and_nothing_is_written_over(
    open_screen: OpenScreen, script: Script, shelf: Shelf, folder: Path
) -> None:
    screen = open_screen("--model", script("Two <b>metres</b>."), *ALONE)
    screen.wait_for_prompt()
    screen.type("/export\r")
    screen.wait_for("Nothing was said yet.")
    talk(screen, "How deep?", "◆ Two")
    (name,) = shelf.ids()
    (folder / "there.md").write_text("mine", encoding="utf-8")
    for line, answer in (
        ("/export", f"The talk is written to {name}.md"),
        ("/export html", f"The talk is written to {name}.html"),
        ("/export talk.json", "The talk is written to talk.json"),
        ("/export html my talk", "The talk is written to my talk"),
        ("/export there.md", "there.md cannot be written: File exists. Nothing is written over."),
        ("/export talk.pdf", "A talk cannot be written as pdf. There are md, html, json."),
    ):
        screen.type(f"{line}\r")
        screen.wait_for(answer)
        screen.wait_for_prompt()
    assert "> How deep?\n\nTwo &lt;b>metres" in (folder / f"{name}.md").read_text("utf-8")
    for page in (folder / f"{name}.html", folder / "my talk"):
        assert "Two &lt;b&gt;metres&lt;/b&gt;." in page.read_text("utf-8")
        assert page.stat().st_mode & 0o777 == 0o600
    assert json.loads((folder / "talk.json").read_text("utf-8"))["session"] == name
    assert (folder / "there.md").read_text("utf-8") == "mine"
    assert not (folder / "talk.pdf").exists()


SERVER = '''
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("leaky")
@server.tool()
def tell() -> str:
    """Tells."""
    return f"it is {os.environ['TOKEN']} in {os.environ['PLACE']}"
server.run("stdio")
'''


def test_no_secret_of_the_configuration_is_in_a_session(
    program: Run, script: Script, shelf: Shelf, folder: Path, environment: dict[str, str]
) -> None:
    (folder / "leaky.py").write_text(SERVER, encoding="utf-8")
    (folder / "own.toml").write_text(
        f'[chat]\nsystem = "You know ${{HIDDEN}}."\n[[servers]]\nname = "leaky"\ncommand = "{PROGRAM[0]}"\n'
        'args = ["leaky.py", "${HIDDEN}"]\nenv = { TOKEN = "${HIDDEN}", PLACE = "/srv/harbour" }\n'
        '[[servers]]\nname = "far"\nurl = "http://me:pass-0815@127.0.0.1:9/mcp?key=query-0815"\nconnect_s = 1\n'
        'headers = { Authorization = "Bearer header-0815" }\n',
        encoding="utf-8",
    )
    environment["HIDDEN"] = "hidden-0815"
    model = script(call_text("tell"), "Done with header-0815, pass-0815 and query-0815.")
    done = program("-p", "tell hidden-0815", "--continue", "--model", model, "--config", "own.toml", "--allow", "tell")
    assert "Done with header-0815" in done.stdout
    (path,) = shelf.path.iterdir()
    written = path.read_text("utf-8")
    assert "0815" not in written
    assert "it is [redacted] in /srv/harbour" in written and '"name":"tell"' in written


def test_another_model_and_other_tools_are_told(program: Run, script: Script, shelf: Shelf) -> None:
    model = script("Hello.")
    program("-p", "one", "--continue", "--model", model, *ALONE)
    path = next(shelf.path.iterdir())
    path.write_text(path.read_text("utf-8").replace('"model":"scripted"', '"model":"big.gguf"'), "utf-8")
    done = program("-p", "two", "--continue", "--model", model)
    assert "The model was big.gguf then, now it is scripted." in done.stderr
    assert "The tools are not the same as then (+ new, - gone, ~ changed): +board__calculate, " in done.stderr
    other = program("-p", "three", "--continue", "--model", model, "--system", "You are a pirate.")
    assert "The system text is another one than then." in other.stderr
    assert "The tools" not in other.stderr
    assert kinds(shelf).count("setup") == 3


def test_damage_is_told_and_the_talk_goes_on(program: Run, script: Script, shelf: Shelf) -> None:
    model = script("Hello.")
    program("-p", "one", "--continue", "--model", model, *ALONE)
    path = next(shelf.path.iterdir())
    path.write_bytes(b"\0\0\0 rubbish\n" + path.read_bytes() + b'{"kind":"mess')
    done = program("-p", "two", "--continue", "--model", model, *ALONE)
    assert "1 lines of the session could not be read and were left out." in done.stderr
    assert "The end of the session was torn off in the middle of a record (13 bytes)" in done.stderr
    assert texts(shelf) == ["one", "Hello.", "two", "Hello."]


def test_a_folder_behind_a_link_stops_a_continue_but_not_a_chat(
    open_screen: OpenScreen, program: Run, script: Script, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.path.parent.mkdir(parents=True)
    shelf.path.symlink_to(tmp_path)
    model = script("Hello.")
    assert "cannot be used" in program("-p", "one", "--continue", "--model", model, *ALONE, code=3).stderr
    screen = open_screen("--model", model, *ALONE)
    talk(screen, "hi", "◆ Hello.")
    assert any("The session cannot be saved" in line for line in screen.lines())


def turns(chat: Chat, *lines: str) -> None:
    for line in lines:
        take_turn(chat, line)


async def depth(at: str = "Husum", **_: Any) -> str:
    if at == "Kiel":
        raise ValueError("no such harbour")
    return f"2 m at {at} " * 40


def test_the_prompt_after_a_resume_is_what_it_would_have_been(shelf: Shelf) -> None:
    replies = ["I look. " + call_text("depth", at="Husum"), "Two.", call_text("depth", at="Kiel"), "Hm.", "Third."]
    box = Box({"depth": depth})
    chat = make_chat(replies, box, context=250, max_steps=3)
    sessions = Sessions(shelf, chat, print)
    turns(chat, "How deep?", "And Kiel?")
    sessions.close()
    again = make_chat(["Third."], box, context=250, max_steps=3)
    other = Sessions(shelf, again, print)
    other.open("newest")
    assert again.history == chat.history and again.first_shown == chat.first_shown > 0
    turns(chat, "Thanks")
    turns(again, "Thanks")
    other.close()
    assert isinstance(chat.backend, Scripted) and isinstance(again.backend, Scripted)
    assert again.backend.prompts[-1] == chat.backend.prompts[-1]


def test_what_is_taken_back_is_taken_back_after_a_resume(shelf: Shelf) -> None:
    chat = make_chat(["One.", "Two.", "Three."])
    sessions = Sessions(shelf, chat, print)
    del chat.history[:]
    assert shelf.ids() == []  # nothing has changed
    turns(chat, "one", "two", "three")
    del chat.history[4:]
    chat.history[:2] = [Message("user", "in short: one")]
    chat.history.pop()
    chat.history += [Message("assistant", "Zwei.")]
    sessions.close()
    again = make_chat([])
    Sessions(shelf, again, print).open("newest")
    assert again.history == chat.history == [
        Message("user", "in short: one"), Message("user", "two"), Message("assistant", "Zwei."),
    ]  # fmt: skip
    assert texts(shelf)[:6] == ["one", "One.", "two", "Two.", "three", "Three."]


def test_what_a_command_took_back_or_summed_up_stays_so(open_screen: OpenScreen, script: Script, shelf: Shelf) -> None:
    screen = open_screen("--model", script("One.", "Two.", "Two again.", "Three.", "All of it in short."), *ALONE)
    talk(screen, "first", "◆ One.")
    talk(screen, "second", "◆ Two.")
    talk(screen, "/retry", "◆ Two again.")
    talk(screen, "third", "◆ Three.")
    talk(screen, "/undo", "Taken back: third")
    talk(screen, "/compact", "became a summary")
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    again = make_chat(["Four."])
    said: list[str] = []
    sessions = Sessions(shelf, again, said.append)
    sessions.open("newest")
    assert again.history == [
        Message("user", "Summary of our talk so far: All of it in short."), Message("assistant", "I remember."),
        Message("user", "second"), Message("assistant", "Two again."),
    ]  # fmt: skip
    assert any("turns so far: 2" in line for line in said)
    sessions.close()
    assert [text for text in texts(shelf) if text in ("One.", "Two.", "Three.")] == ["One.", "Two.", "Three."]


def test_a_call_that_a_kill_cut_off_has_a_result_after_a_resume(shelf: Shelf) -> None:
    chat = make_chat([])
    sessions = Sessions(shelf, chat, print)
    chat.history += [Message("user", "How deep?"), Message("assistant", call_text("depth", at="Husum"))]
    sessions.close()
    again = make_chat(["Never mind."])
    other = Sessions(shelf, again, print)
    other.open("newest")
    assert [message.role for message in again.history] == ["user", "assistant", "tool"]
    turns(again, "And?")
    other.close()
    assert texts(shelf)[2:] == ["The call was stopped before it ended.", "And?", "Never mind."]


def test_a_session_that_is_not_there_is_an_error(shelf: Shelf) -> None:
    with pytest.raises(ChatError, match="There is no session"):
        Sessions(shelf, make_chat([]), print).open("261120-zzzz")
