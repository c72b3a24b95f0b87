"""Sessions through the real program: what was said is there again, after a leave, a kill, and for another chat."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.scripted import Reply, Scripted
from rkllm_chat.chat import Chat, Onward
from rkllm_chat.errors import ChatError, GenerationError
from rkllm_chat.events import Event, Notice, ToolProgress
from rkllm_chat.journal import Shelf
from rkllm_chat.messages import Message
from rkllm_chat.policy import Consent
from rkllm_chat.records import Entry, TurnDone
from rkllm_chat.replay import Replay
from rkllm_chat.sessions import Sessions
from stage import PROGRAM, Box, Screen, call_text, make_chat, take_turn

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Script = Callable[..., str]
OpenScreen = Callable[..., Screen]

ALONE = ("--no-servers",)


@pytest.fixture
def shelf(environment: dict[str, str]) -> Shelf:
    """Where the program of this user keeps its sessions."""
    return Shelf(Path(environment["HOME"]) / ".local/state/rkllm-chat/sessions")


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
    assert [line.split()[0] for line in shown[2:-1]] == [first]
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
    assert "it is [hidden] in /srv/harbour" in written and '"name":"tell"' in written


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


def saved(shelf: Shelf, chat: Chat, said: list[str]) -> Sessions:
    return Sessions(shelf, chat, said.append)


def turns(chat: Chat, *lines: str) -> list[Event]:
    """The events of turns, but for what a replay cannot know; a turn whose engine fails ends with the error's text."""
    events: list[Event] = []
    for line in lines:
        try:
            events += [event for event in take_turn(chat, line) if not isinstance(event, ToolProgress)]
        except GenerationError as error:
            events.append(Notice(str(error)))
    return events


async def depth(at: str = "Husum", **_: Any) -> str:
    if at == "Kiel":
        raise ValueError("no such harbour")
    return f"2 m at {at} " * 40


def test_the_prompt_after_a_resume_is_what_it_would_have_been(shelf: Shelf) -> None:
    replies = ["I look. " + call_text("depth", at="Husum"), "Two.", call_text("depth", at="Kiel"), "Hm.", "Third."]
    box = Box({"depth": depth})
    chat = make_chat(replies, box, context=250, max_steps=3)
    sessions = saved(shelf, chat, [])
    turns(chat, "How deep?", "And Kiel?")
    sessions.close()
    again = make_chat(["Third."], box, context=250, max_steps=3)
    other = saved(shelf, again, [])
    other.open("newest")
    assert again.history == chat.history and again.first_shown == chat.first_shown > 0
    turns(chat, "Thanks")
    turns(again, "Thanks")
    other.close()
    assert isinstance(chat.backend, Scripted) and isinstance(again.backend, Scripted)
    assert again.backend.prompts[-1] == chat.backend.prompts[-1]


def test_what_is_taken_back_is_taken_back_after_a_resume(shelf: Shelf) -> None:
    chat = make_chat(["One.", "Two.", "Three."])
    sessions = saved(shelf, chat, [])
    turns(chat, "one", "two", "three")
    del chat.history[4:]
    chat.history[:2] = [Message("user", "in short: one")]
    chat.history.pop()
    chat.history += [Message("assistant", "Zwei.")]
    sessions.close()
    again = make_chat([])
    saved(shelf, again, []).open("newest")
    assert again.history == chat.history == [
        Message("user", "in short: one"), Message("user", "two"), Message("assistant", "Zwei."),
    ]  # fmt: skip
    assert texts(shelf)[:6] == ["one", "One.", "two", "Two.", "three", "Three."]


def test_a_call_that_a_kill_cut_off_has_a_result_after_a_resume(shelf: Shelf) -> None:
    chat = make_chat([])
    sessions = saved(shelf, chat, [])
    chat.history += [Message("user", "How deep?"), Message("assistant", call_text("depth", at="Husum"))]
    sessions.close()
    again = make_chat(["Never mind."])
    other = saved(shelf, again, [])
    other.open("newest")
    assert [message.role for message in again.history] == ["user", "assistant", "tool"]
    turns(again, "And?")
    other.close()
    assert texts(shelf)[2:] == ["The call was stopped before it ended.", "And?", "Never mind."]


def play(entries: list[Entry], lines: tuple[str, ...]) -> list[Event]:
    """The events of the same lines, from the session alone."""
    from rkllm_chat.backends.scripted import replies_of

    replay = Replay(entries)
    settings = replay.settings_of(make_chat([]).settings)
    backend = Scripted(replies_of(entries), replay.setup.context_tokens)
    chat = Chat(backend, replay, settings, make_chat([]).words, replay.approve, at_limit=replay.at_limit)
    return turns(chat, *lines)


async def yes(*_: Any) -> Consent:
    return "once"


def test_a_session_played_again_gives_the_same_events(shelf: Shelf) -> None:
    both = call_text("depth", at="Husum") + call_text("depth", at="Kiel") + call_text("nosuch")
    garbled = "[TOOL_CALL]{broken[END_TOOL_CALL]"
    replies: list[str | Reply] = [
        "<think>Hm.</think>" + both, "Two.", garbled, "Sorry.", call_text("depth", at=7), "…and so on",
        Reply("It breaks", error="The engine is gone."), "x" * 500, "Last.",
    ]  # fmt: skip
    schema = {"depth": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}
    chat = make_chat(replies, Box({"depth": depth}, read_only=False, schemas=schema), yes, context=600, max_steps=2)
    sessions = saved(shelf, chat, [])
    lines = ("How deep?", "Again?", "Seven?", "More", "And more", "Bye " * 100)
    events = turns(chat, *lines)
    sessions.close()
    name = shelf.ids()[0]
    assert any(isinstance(event, Notice) and "oldest" in event.text for event in events)
    assert play(list(shelf.read(name).entries), lines) == events


@pytest.mark.parametrize(
    "answers",
    [["stop", "stop"], ["answer"], [1, "stop"], [1, "answer"], [2, "stop"], [3]],
    ids=lambda answers: str(answers),
)
def test_a_turn_that_came_to_its_limit_goes_on_as_it_did(shelf: Shelf, answers: list[Onward]) -> None:
    calls = [call_text("depth", at=place) for place in ("Husum", "Emden", "Leer", "Weener")]
    chat = make_chat([*calls, "Deep.", "Bye."], Box({"depth": depth}), max_steps=2)
    asked = list(answers)

    async def at_limit(_rounds: int) -> Onward:
        return asked.pop(0)

    chat.at_limit = at_limit
    sessions = saved(shelf, chat, [])
    events = turns(chat, "How deep?", "Thanks")
    sessions.close()
    assert asked == []
    assert play(list(shelf.read(shelf.ids()[0]).entries), ("How deep?", "Thanks")) == events


@pytest.mark.parametrize("consent", ["once", "always", "no", "stop"])
def test_what_a_person_said_about_a_call_is_said_again(shelf: Shelf, consent: Consent) -> None:
    async def approve(*_: Any) -> Consent:
        return consent

    call = call_text("depth", at="Husum")
    chat = make_chat([call + call, call, "Deep."], Box({"depth": depth}, read_only=False), approve)
    sessions = saved(shelf, chat, [])
    events = turns(chat, "How deep?", "And now?") if consent == "stop" else turns(chat, "How deep?")
    sessions.close()
    lines = ("How deep?", "And now?") if consent == "stop" else ("How deep?",)
    assert play(list(shelf.read(shelf.ids()[0]).entries), lines) == events


def test_the_program_plays_a_session_without_model_and_servers(
    open_screen: OpenScreen, program: Run, script: Script, shelf: Shelf, folder: Path
) -> None:
    model = script(call_text("calculate", expression="6 * 7"), "It is 42.", "Bye.")
    first = program("-p", "6 * 7?", "--continue", "--model", model, "--output-format", "stream-json")
    (name,) = shelf.ids()
    (folder / "talk.jsonl").write_bytes((shelf.path / f"{name}.jsonl").read_bytes())
    again = program("-p", "6 * 7?", "--model", "talk.jsonl", "--output-format", "stream-json")
    events = [json.loads(line) for line in first.stdout.splitlines()]
    assert [json.loads(line) for line in again.stdout.splitlines()] == [e for e in events if e["type"] != "notice"]
    screen = open_screen("--backend", "scripted", "--model", "talk.jsonl")
    screen.wait_for_prompt()
    screen.type("/replay all\r")
    screen.wait_for("The session is played to its end.")
    shown = [line for line in screen.lines() if re.match(r"> 6|\[MCP|◆", line)]
    assert shown == [
        "> 6 * 7?",
        "[MCP: Detected 1 tool call]",
        "[MCP: Calling tool 'calculate']",
        "[MCP: Tool 'calculate' completed]",
        "◆ It is 42.",
    ]
    assert shelf.ids() == [name]


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"kind":"message"}'])
def test_a_file_that_holds_no_session_is_not_played(text: str, program: Run, folder: Path) -> None:
    (folder / "talk.jsonl").write_text(text, encoding="utf-8")
    done = program("-p", "x", "--model", "talk.jsonl", code=5)
    assert "talk.jsonl holds no session." in done.stderr


def test_a_session_that_is_not_there_is_an_error(shelf: Shelf) -> None:
    with pytest.raises(ChatError, match="There is no session"):
        saved(shelf, make_chat([]), []).open("261120-zzzz")
