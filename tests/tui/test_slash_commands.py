"""Slash commands at a terminal: usage errors, completion, and each family of commands."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chat.scripted_app import open_scripted_app
from rkllm_chat.chat.app import App
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ChatError
from rkllm_chat.core.events import Event, Notice
from rkllm_chat.tui.slash_commands import COMMANDS, run
from stage import Run, Screen, call_text

from .server_configs import HARBOUR, write_harbour

OpenChat = Callable[..., Screen]
PASTE, PASTED = "\x1b[200~", "\x1b[201~"
SENT = "◆ So be it."


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """One chat for all tests that change nothing: the harbour server, and a model that always gives the same reply."""
    folder = tmp_path_factory.mktemp("slash")
    options = write_harbour(folder).split()
    (folder / "replies.json").write_text(json.dumps(["So be it."] * 100), encoding="utf-8")
    (folder / "notes").mkdir()
    (folder / "notes" / "rope.txt").write_text("Buy rope.", encoding="utf-8")
    environment = {**os.environ, "HOME": str(folder), "LANG": "C.UTF-8", "TERM": "xterm"}
    arguments = ["--model", "replies.json", *options, "--context", "1000000"]
    started = Screen(arguments, environment, folder, size=(100, 40))
    started.wait_for("for commands, Ctrl+D to exit")
    yield started
    started.close()


def clear(screen: Screen) -> None:
    screen.wait_for_prompt()
    screen.type("\x0c")
    screen.wait_until(lambda: screen.lines()[:1] == [">"], "a cleared screen")


@pytest.fixture
def fresh(screen: Screen) -> Screen:
    """The shared chat with an empty screen and an empty line."""
    clear(screen)
    return screen


# A line, and words of its error.
BAD_LINES = {
    "/": 'Unknown command "/"',
    "//": 'Unknown command "//"',
    "/unknown": 'Unknown command "/unknown"',
    "/toosl": "Did you mean /tools?",
    "/status": "Did you mean /context, /mcp list, /model?",
    "/cost": "Did you mean /context usage?",
    "/RESET": "Did you mean /clear?",
    "/config": "Did you mean /set, ",
    "/think": "Did you mean /set thinking?",
    "/save": "Did you mean /export?",
    "/redo": "Did you mean /retry?",
    "/version": "Did you mean !rkllm-chat --version?",
    "/stop": 'Unknown command "/stop". /help stop answers: How do I stop a reply?',
    "/help temp": "Did you mean /set temperature?",
    '/prompt letter captain="Anna': "No closing quotation",
    "/prompt letter boat=Anna": 'no argument "boat". Its arguments: captain, harbour',
    "/prompt letter Anna": '"Anna" is not of the form name=value',
    "/prompt letter captain=A captain=B": '"captain" occurs twice',
    "/prompt nosuch": 'no prompt "nosuch". Available prompts: harbour__letter',
    "/call get_tide harbour=A harbour=B": '"harbour" occurs twice',
    "/call get_tide harbour": '"harbour" is not of the form name=value',
    "/call get_tide": '"harbour" is required',
    '/call get_tide {"harbour"': "not valid JSON",
    "/call get_tied": "Did you mean get_tide?",
    "/resource nosuch.txt": "nosuch.txt is not a file",
    "/resource ~nosuchuser/rope.txt": "~nosuchuser/rope.txt is not a file",
    f"/resource {'rope' * 70}": "cannot be read" if sys.version_info < (3, 14) else "is not a file",
    "/model ~nosuchuser/rope.gguf": "~nosuchuser/rope.gguf: No such file",
    f"/model {'rope' * 70}": "There is no model",
    "/resource file:///etc/passwd": "No server lists file:///etc/passwd",
    "/mcp restart nosuch": 'no server "nosuch". Configured servers: harbour',
    "/mcp restart": "server is missing",
    "/mcp review nosuch": 'no server "nosuch". Configured servers: harbour',
    "/undo foo": '"foo" is not a number of turns',
    "/undo 0": '"0" is not a number of turns',
    "/compact previw": 'Unknown argument "previw". Write /compact or /compact preview',
    "/clear foo": "/clear takes no argument",
    "/copy 3": "no answer yet",
    "/usage foo": 'Unknown argument "usage foo"',
    "/export pdf": "Unknown export format pdf. Available formats: ",
    "/export -": "Unknown export format -.",
    "/permissions allow get_tied": 'no tool "get_tied". Did you mean get_tide?',
    "/permissions deny nosuch__tool": 'no tool "nosuch__tool"',
    "/mcp add": "incomplete",
    "/mcp add web 127.0.0.1:9": "Write /mcp add web http://127.0.0.1:9",
    "/mcp add notes uvx notes": "A command follows --: /mcp add notes -- uvx notes",
    "/mcp add notes ./notes": "A command follows --: /mcp add notes -- ./notes",
    "/mcp add harbour -- true": 'server "harbour" already exists',
    "/mcp schema nosuch": 'no tool "nosuch"',
    "/mcp frobnicate": 'Unknown action "frobnicate"',
    "/permissions allow": "required",
    "/permissions forget nosuch": 'no rule "nosuch"',
    "/history": "No tool calls yet",
    "/context cash": 'Unknown argument "cash"',
    "/tools off": "/tools off needs the tools",
    "/tools 3-99": "no tool 3-99; the tools are numbered 1 to 7",
    "/tools tide": "Did you mean get_tide?",
    "/tools only harbor": "Did you mean harbour?",
    "/language tlh": 'Unknown language "tlh". Known values: auto, en, ja, zh',
    "/thinking loudly": 'chat.thinking is "loudly". Allowed: auto, on, off',
    "/set temperatur 1": 'unknown key "temperatur". Did you mean "temperature"?',
    "/set chat.temperature 1": 'unknown key "chat.temperature". Did you mean "temperature"?',
    "/set temperature hot": "generation.temperature must be a number, not 'hot'",
    "/set top_k 0.5": "must be a whole number, not 0.5",
    "/set max_steps 0": "chat.max_steps must be from 1 to 1000",
    "/set constrained maybe": "must be true or false",
    "/set thinking loud": "Allowed: auto, on, off",
    "/set tool_format xlm": 'There is no format "xlm". Did you mean xlam?',
    "/set language tlh": 'Unknown language "tlh"',
    "/set keep_secrets on": "Write /set keep_secrets on --save",
    "/set allow get_tied": 'no tool "get_tied". Did you mean get_tide?',
    "/help nosuch": 'Unknown command "nosuch"',
}


def test_a_bad_line_gets_an_error_that_names_the_fault(tmp_path: Path) -> None:
    harbour = ServerConfig("harbour", sys.executable, (str(Path(__file__).with_name("harbour.py")),))

    async def run_lines() -> dict[str, str]:
        async with open_scripted_app(tmp_path, [], servers=(harbour,)) as app:
            return {line: await run_in_memory(app, line) for line in BAD_LINES}

    shown = asyncio.run(run_lines())
    assert {line: shown[line] for line, error in BAD_LINES.items() if error not in shown[line]} == {}


async def run_in_memory(app: App, line: str) -> str:
    """What a command says, or the error that the terminal would show."""
    said: list[str] = []

    async def emit(event: Event) -> None:
        said.extend([event.text] if isinstance(event, Notice) else ())

    try:
        await run(app, line, emit)
    except ChatError as error:
        return str(error)
    return "\n".join(said)


def test_the_error_of_a_bad_line_is_shown(fresh: Screen) -> None:
    fresh.enter("/toosl", BAD_LINES["/toosl"])
    fresh.enter("/undo foo", BAD_LINES["/undo foo"])


def test_a_server_is_shown_with_its_roots(
    open_screen: OpenChat, script: Callable[..., str], folder: Path, fresh: Screen
) -> None:
    options = write_harbour(folder).split()
    screen = open_screen("--model", script("Hello."), *options, size=(200, 40))
    screen.wait_for_prompt()
    for chat, expected in ((screen, str(folder)), (fresh, "false")):  # the shared chat runs in its home folder
        chat.enter("/mcp harbour", "connected, ")
        assert ["roots", expected] in [line.split() for line in chat.lines()]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        *(
            (line, "/help [COMMAND | keys | WORDS]: list commands")
            for line in ("/HELP help", "  /help help", "／help help")
        ),
        ("//etc is what?", SENT),
        ("/home/mira/notes is what?", SENT),
        ("/tools/list", 'Unknown command "/tools/list"'),
    ],
)
def test_a_slash_of_any_width_begins_a_command_and_two_begin_a_message(line: str, shown: str, fresh: Screen) -> None:
    fresh.enter(line, shown)


@pytest.mark.slow
def test_help_explains_each_command_and_has_an_example_of_its_arguments(screen: Screen) -> None:
    for command in {command.names[0]: command for command in COMMANDS.values()}.values():
        clear(screen)
        name, has_arguments = command.names[0], bool(command.usage)
        screen.enter(f"/help {name[1:]}", f"For example: {name} " if has_arguments else f"{name}: {command.about}")
    clear(screen)
    screen.enter("/help mcp", "Also: /servers", "/mcp restart NAME             stop a server and start it again")
    lines = screen.enter("/help", "/help NAME explains a command", "Program:")
    assert "/quit /exit /q       exit" in lines
    clear(screen)
    screen.enter("/help keys", "While the model works", "stop, keep the output")
    screen.enter("/help toosl", "Did you mean /tools?")
    screen.enter("/help stop asking", "How do I stop it asking about every call?", "--allow get_time")
    clear(screen)
    lines = screen.enter("/help where is the history stored", "Where are my files, and how do I remove everything?")
    assert not [line for line in lines if "Unknown command" in line]  # it is a question, and no name
    screen.enter("/help zebra stripes", 'No topic matches "zebra stripes"')


def test_a_rule_for_many_tools_is_set_only_by_a_typed_word(fresh: Screen) -> None:
    for pattern in ("*", "???????__wait"):
        clear(fresh)
        fresh.type(f"/permissions allow {pattern}\r")
        fresh.wait_for_end_of_line("to confirm:")
        fresh.enter("y", "to confirm: y")
        assert not any("allowed  " in line for line in fresh.enter("/permissions", "default  ask"))
    fresh.type("/permissions allow harbour__w*\r")
    fresh.wait_for_end_of_line("to confirm:")
    fresh.enter("yes", "allowed  harbour__w*")
    clear(fresh)
    assert not any("allowed  " in line for line in fresh.enter("/permissions forget harbour__w*", "default  ask"))
    fresh.enter("/permissions deny write_log", "denied   write_log")
    fresh.enter("/call write_log text=x", 'The rule deny = "write_log" refuses harbour__write_log.')
    fresh.enter("/permissions forget write_log")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "note"),
    [("x" * 200_000, "200001 characters in total"), ("line\n" * 10_000, "10001 lines, 50001 characters in total")],
    ids=["one line", "many lines"],
)
def test_a_long_line_is_sent_and_shown_shortened(text: str, note: str, fresh: Screen) -> None:
    data = f"{PASTE}{text}{PASTED}x".encode()
    while data:
        data = data[os.write(fresh.terminal, data[:2048]) :]
        fresh.read_some(0)
    fresh.type("\r")
    fresh.wait_for(note, 30)
    fresh.wait_for(SENT, 30)


@pytest.mark.parametrize("text", ["   ", "\u200b\u2060 \ufeff", "\n\n"], ids=["blanks", "hidden", "newlines"])
def test_a_line_without_visible_characters_is_not_sent(text: str, fresh: Screen) -> None:
    fresh.type(f"{PASTE}{text}{PASTED}\r")
    fresh.say("/help help\r" if not text.strip() else "\x03/help help\r", "For example: /help tools")
    assert not any(SENT in line for line in fresh.lines())


def test_bytes_that_are_not_utf_8_become_question_marks(fresh: Screen) -> None:
    os.write(fresh.terminal, b"a\xff\xfeb\xe2\x82c\r")
    fresh.wait_for(SENT)
    assert any(line.startswith("> a") and line.endswith("c") and "\ufffd" in line for line in fresh.lines())


def test_ctrl_d_in_a_message_of_several_lines_deletes(fresh: Screen) -> None:
    fresh.say("one\n", "> one")
    fresh.say("\x04\x04two\x01\x04\r", SENT)
    assert fresh.lines()[:2] == ["> one", "  wo"]


MENU = {
    "command": ("/prm", "/permissions"),
    "description of a command": ("/und", "remove the last turn"),
    "words of a command": ("/mcp re", "restart"),
    "description of a word": ("/mcp stat", "also show what each sandbox permits"),
    "servers": ("/mcp restart har", "harbour"),
    "what a server may do": ("/mcp allow harbour net", "network"),
    "tools": ("/mcp schema tid", "get_tide"),
    "arguments of a tool": ("/call get_tide ha", "harbour="),
    "prompts": ("/prompt le", "letter"),
    "arguments of a prompt": ("/prompt letter ca", "captain="),
    "values from the server": ("/prompt letter harbour=Hus", "harbour=Husum"),
    "prompts of a server": ("/harbour:", "/harbour:letter"),
    "arguments of a server's prompt": ("/harbour:letter ca", "captain="),
    "resources": ("/resource harbour://l", "harbour://log"),
    "folders": ("see @no", "notes/"),
    "files": ("see @notes/r", "notes/rope.txt"),
    "resource in a message": ("see @harbour://l", "harbour://log"),
    "value of a template": ("see @harbour://berth/1", "harbour://berth/12"),
    "settings": ("/set temp", "temperature"),
    "values of a setting": ("/set approve re", "read-only"),
    "states": ("/set thinking sh", "show"),
}


@pytest.mark.parametrize(("typed", "completion"), MENU.values(), ids=MENU)
def test_a_line_is_completed(typed: str, completion: str, fresh: Screen) -> None:
    fresh.type(typed)
    fresh.wait_until(lambda: any(completion in line for line in fresh.lines()[1:-1]), f"{completion!r} in the menu")
    fresh.type("\t")
    if completion.startswith(("/", "remove ", "also ")):
        fresh.wait_until(lambda: "".join(fresh.lines()[:1]).startswith("> /"), "a command in the line")
    else:
        fresh.wait_until(lambda: "".join(fresh.lines()[:1]).endswith(completion), f"{completion!r} in the line")
    fresh.type("\x03")


def test_a_turn_is_removed_retried_and_copied(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "First.", "Second.", "Third.", size=(80, 40))
    screen.enter("/retry", "no message yet")
    screen.enter("/copy", "no answer yet")
    screen.enter("tell me", "◆ First.")
    screen.enter("/retry", "◆ Second.")
    screen.enter("/copy", "Copied 7 characters (if your terminal supports OSC 52)")
    screen.enter("/undo", "Removed: tell me")
    screen.enter("/system You are a pirate.", "Takes effect with the next message")
    screen.type("/system\r")
    screen.wait_until(lambda: "You are a pirate." in screen.lines(), "the system text")
    screen.enter("ahoy", "◆ Third.")
    usage = [line.split()[-2:] for line in screen.enter("/context usage", "generated tokens ")[-6:-2]]
    assert usage == [["replies", "3"], ["17", "47%"], ["tokens", "19"], ["tokens", "6"]]
    screen.enter("/clear", "cleared", "ctx 0 /")
    screen.enter("/exit now", "/quit takes no argument")
    screen.type("/exit\r")
    assert screen.wait_for_end() == 0


@pytest.mark.usefixtures("harbour")
def test_tools_cost_the_same_in_the_list_and_in_the_context(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, "Well.", size=(120, 40))
    (listed,) = [line for line in screen.enter("/tools list", "in every prompt") if "in every prompt" in line]
    rows = [re.split(" {2,}", line)[:2] for line in screen.enter("/context", "next message") if "░" in line]
    tokens = {name: int(count) for name, count in rows}
    total = tokens.pop("total")
    assert f" {sum(tokens[name] for name in tokens if name.startswith('tools of '))} tokens in every" in listed
    assert sum(tokens.values()) == total


def test_the_status_line_counts_the_conversation_after_an_answer_that_was_asked_for_without_it(
    open_chat: OpenChat,
) -> None:
    call = call_text("calculate", expression="6 * 7")
    screen = open_chat("--server board --prompt-profile qwen2.5", call, call, "It is 42.")
    screen.enter("six times seven?", "◆ It is 42.")
    total = next(line for line in screen.enter("/context", "next message") if line.startswith("total"))
    assert f"ctx {total.split()[1]} /" in screen.lines()[-1]


@pytest.mark.slow
def test_older_messages_are_summarized_unless_that_is_stopped(open_chat: OpenChat) -> None:
    silent = {"text": "The Anna is 12", "wait": True}
    long = "Twelve metres" + ", from bow to stern" * 6
    replies = (long, "Nine.", silent, "The Anna has 12 metres.", "Ten.")
    screen = open_chat("--no-servers", *replies, size=(80, 60))
    screen.enter("/compact", "Nothing to summarize")
    screen.enter("how long is the Anna?", "◆ Twelve")
    screen.enter("and the Berta?", "◆ Nine")
    lines = screen.enter("/compact preview", "assistant: Twelve metres")
    assert any(line.startswith("2 messages (") for line in lines[-7:])
    screen.say("/compact\r", "… 1")
    screen.say("\x03", "[Stopped]")
    assert screen.enter("/context", "next message")[-5].startswith("tool results  ")
    screen.enter("/compact", "2 messages summarized: the prompt now has 27 tokens", "◆ The Anna has 12 metres.")
    screen.enter("and the Carla?", "◆ Ten.")
    screen.enter("/undo 9", "number from 1 to 3")
    screen.enter("/undo 2", "Removed: and the Carla?", "Summary undone; 2 messages restored.")
    assert any("how long is the Anna?" in line for line in screen.enter("/undo 2", "Removed: how long is the Anna?"))
    screen.enter("/undo", "no message yet")


def test_a_model_that_cannot_be_opened_replaces_none(open_chat: OpenChat, folder: Path) -> None:
    (folder / "models").mkdir()
    (folder / "models" / "second.gguf").write_text("This is no model.", encoding="utf-8")
    screen = open_chat("--no-servers", "One.", "Still one.")
    screen.say("/model\r", "Model: scripted (4096", "models/second.gguf")
    screen.type("\x1b")
    screen.wait_for_prompt()
    screen.enter("/model second", "models/second.gguf: not a GGUF file")
    screen.enter("/model nosuch.gguf", "nosuch.gguf: No such file")
    screen.enter("hi", "◆ One.")


@pytest.mark.model
def test_a_model_is_offered_once_whatever_its_path_is(open_screen: OpenChat, folder: Path, shipped_model: Path) -> None:
    (folder / "link.gguf").symlink_to(shipped_model)
    screen = open_screen("--model", "link.gguf", "--no-servers")
    screen.say("", "Model: link.gguf", "Ctrl+D")
    screen.say("/model\r", "Models  ", "tiny-tools")
    screen.wait_for_rest(0.3)  # the list is drawn from its top
    lines = screen.lines()
    assert sum("6 MB" in line or "link.gguf" in line for line in lines[-10:]) == 1, lines


@pytest.mark.slow
def test_a_model_whose_file_is_gone_stays_loaded_when_it_would_be_loaded_again(
    open_screen: OpenChat, folder: Path, shipped_model: Path
) -> None:
    (folder / "first.gguf").write_bytes(shipped_model.read_bytes())
    screen = open_screen("--model", "first.gguf", size=(180, 30))
    screen.say("", "Model: first.gguf", "Ctrl+D", "1/1 server")
    (folder / "first.gguf").unlink()
    screen.enter(
        "/set context_tokens 1024", "first.gguf: No such file or directory. /model lists those that are there."
    )
    screen.enter("/model second.gguf", "second.gguf")
    screen.enter("What is 12 * 34?", "◆ 12 * 34 = 408")


@pytest.mark.slow
def test_a_chat_whose_models_are_gone_goes_on_with_another_one(
    open_screen: OpenChat, folder: Path, shipped_model: Path
) -> None:
    (folder / "first.gguf").write_bytes(shipped_model.read_bytes())
    (folder / "second.gguf").write_text("This is no model.", encoding="utf-8")
    screen = open_screen("--model", "first.gguf", "--no-servers", size=(180, 30))
    screen.say("", "Model: first.gguf", "Ctrl+D")
    (folder / "first.gguf").unlink()
    screen.say(
        "/model second.gguf\r", "second.gguf: not a GGUF file", "first.gguf: No such file", "No model is loaded now"
    )
    screen.enter("hi", "No model is loaded. /model NAME loads one.")
    screen.enter("/model tiny-tools", "Model: tiny-tools.gguf (2048")
    screen.enter("/retry", "> hi", "◆ ")


@pytest.mark.usefixtures("harbour")
def test_a_server_is_shown_restarted_and_explained(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, "Nothing.", size=(90, 60))
    screen.enter("/mcp list", "harbour  connected  5 tools, MCP 2025-06-18, ", " ms  harbour.toml")
    screen.enter("/mcp disable harbour", "harbour  off")
    screen.enter("/mcp restart harbour", "is disabled")
    screen.enter("/mcp log harbour", "no log")
    lines = screen.enter("/mcp enable harbour")
    assert sum(line.startswith("harbour  connected  5 tools") for line in lines) == 2  # at the beginning, and again
    lines = screen.enter("/mcp schema get_tide", '"type": "object"')
    assert "Tide height at a harbour." in lines
    screen.enter("/mcp reload", "reloaded. Servers started or stopped: -")
    screen.enter("/mcp log harbour", "harbour: open for all")


@pytest.mark.usefixtures("harbour")
def test_a_prompt_asks_for_what_is_missing_and_is_sent_when_confirmed(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, "Dear Anna, the tide is high.")
    screen.enter("/prompt", "harbour  letter  captain= harbour= [tone=]  A letter to a captain")
    screen.say("/prompt letter captain=Anna\r", "harbour:")
    screen.say("Hu", "Hull", "Husum")
    screen.say("sum", "harbour: Husum")
    screen.say("\r\r", "user: Write a friendly letter to Anna at Husum.", "Send it?")
    screen.say("y", "◆ Dear Anna")
    screen.wait_for_prompt()
    screen.say("/prompt letter captain=Anna harbour=Hull\r", "at Hull.")
    screen.type("n")
    screen.wait_for_end_of_line("[y/N] n")
    assert sum("◆" in line for line in screen.wait_for_prompt()) == 1


@pytest.mark.usefixtures("harbour")
def test_resources_and_files_go_with_the_next_message(open_chat: OpenChat, folder: Path) -> None:
    (folder / "notes.txt").write_text("Buy rope.\n", encoding="utf-8")
    screen = open_chat(HARBOUR, "All quiet.", "It is free.")
    screen.enter(
        "/resources", "harbour  harbour://log             What happened", "harbour://berth/{number}  One berth"
    )
    screen.enter("/resource harbour://log", "Fetched resource: harbour://log] text/plain, 40 bytes", "next message")
    screen.enter("what happened?", "◆ All quiet.")
    screen.enter("is @harbour://berth/7 free, and what do @notes.txt say?", "◆ It is free.")
    screen.wait_for("Fetched resource: harbour://berth/7] text/plain, 16 bytes")
    screen.wait_for("[Attached: notes.txt] 10 bytes")


@pytest.mark.usefixtures("harbour")
def test_a_watched_resource_announces_its_changes_until_it_is_not_watched(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, "Nothing.", size=(120, 60))
    changed = "[MCP: Resource harbour://log of server 'harbour' has changed; /resource attaches it]"
    write = '/call write_log {"text": "fog"}'
    screen.enter("/resources watch", "No resource is watched.")
    screen.enter("/watch harbour://sea", "No server lists harbour://sea.")
    screen.say(f"{write}\r", "3 characters are in the log.")
    screen.enter("/resources watch harbour://log", "announces changes of harbour://log from now on")
    screen.enter("/watch", "harbour  harbour://log")
    lines = screen.enter(write, changed)
    assert sum(changed in line for line in lines) == 1
    screen.enter("/resources unwatch harbour://log", "harbour://log is no longer watched")
    screen.enter("/unwatch harbour://log", "is not watched.")
    screen.say(f"{write}\r", "3 characters are in the log.")
    assert sum(changed in line for line in screen.wait_for_prompt()) == 1


@pytest.mark.usefixtures("harbour")
def test_tools_are_listed_with_their_cost_and_switched_on_and_off(open_chat: OpenChat) -> None:
    def on(screen: Screen) -> list[str]:
        rows = [line.split() for line in screen.lines()]
        return [row[0] for row in rows if row[0].isdecimal() and row[1] == "x"][-7:]

    screen = open_chat(HARBOUR, "Nothing.", size=(90, 11))
    screen.enter("/tools list", "7 of 7 tools are on: 84 tokens in every prompt. 2 of them are the chat's own.")
    assert " · 1/1 server · 5 tools" in screen.lines()[-1], "as many as /mcp and mcp list count"
    assert on(screen) == list("1234567")
    clear(screen)
    lines = screen.enter("/tools off 2-3,wait", "4 of 7 tools are on")
    assert [line.split()[0] for line in lines[2:-3]] == ["2", "3", "6"], "those that were switched are listed"
    assert on(screen) == []
    clear(screen)
    screen.enter("/tools list", "4 of 7 tools are on")
    assert on(screen) == list("1457")
    screen.enter("/tools none", "0 of 7 tools are on: 0 tokens in every prompt")
    screen.enter("/tools only harbour", "5 of 7 tools")
    assert on(screen) == list("34567")
    clear(screen)
    lines = screen.enter("/tools get_tide wait", "5 of 7 tools are on")
    rows = [line.split()[:2] for line in lines if line.split()[0].isdecimal()]
    assert rows == [["4", "x"], ["6", "x"], ["5", "of"]], "they are listed, and nothing is switched"


def test_a_tool_is_called_manually(fresh: Screen) -> None:
    lines = fresh.enter("/call get_tide harbour=Hull", "2.4 metres and rising.")
    assert any(line.startswith("""[MCP: Tool 'get_tide' completed] harbour="Hull" """) for line in lines)
    fresh.enter('/call get_tide {"harbour": "Husum"}', "The tide at Husum")


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
@pytest.mark.usefixtures("harbour")
def test_a_long_result_of_a_manual_call_is_shortened_where_a_key_shows_it(terminal: str, open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, "So be it.", size=(80, 24), TERM=terminal, PAGER="no-such-pager")
    if terminal == "dumb":
        screen.enter("/call read_year year=2026", "2026, day 365: calm")
        return
    lines = screen.enter("/call read_year year=2026", "365 lines, 7,192 characters in total; Ctrl+O shows them")
    assert lines[-7].startswith("[MCP: Tool 'read_year' completed]") and lines[-6] == "  2026, day 1: calm"
    screen.say("\x0f", "2026, day 365: calm")


@pytest.mark.usefixtures("harbour")
def test_a_result_that_is_too_long_for_the_model_is_shown_whole(open_chat: OpenChat) -> None:
    calls = (call_text("read_year", year=2026), call_text("more", handle="r1", search="storm"))
    screen = open_chat(f"{HARBOUR} --context 1024 --allow read_year", *calls, "One storm, on day 217.", size=(80, 400))
    screen.enter("How was the year?", "◆ One storm, on day 217.")
    lines = screen.enter("/history", "2  more ", "match: 1 of 365")
    assert 'There is no tool call "3"' in "\n".join(screen.enter("/history 3", "from 1 to 2"))
    assert any(line.startswith("1  read_year  year=2026 ") for line in lines)
    clear(screen)
    page = screen.enter("/calls 2", "Lines of r1 that match: 1 of 365")[-6:-2]
    assert page[1:] == [f"{line}: 2026, day {line}: {'storm' if line == 217 else 'calm'}" for line in (216, 217, 218)]
    lines = screen.enter("/history 1", "2026, day 365: calm")
    assert lines[-367:-2] == [f"2026, day {day}: {'storm' if day == 217 else 'calm'}" for day in range(1, 366)]


def test_thoughts_are_one_line_or_shown_whole(open_chat: OpenChat) -> None:
    silent = {"text": "<think>Hm, let me see", "wait": True}
    hello, again = "<think>He greets me.\nNothing else.</think>Hello!", "<think>Again?\nOnce more.</think>Hello again!"
    screen = open_chat("--no-servers", hello, again, silent)
    thought, answer = screen.enter("hi", "◆ Hello!")[-4:-2]
    assert re.fullmatch(r"\[Thought for .* s, 27 characters\]", thought) and answer == "◆ Hello!"
    screen.enter("/set thinking show", "Thinking: show")
    assert screen.enter("hi", "◆ Hello again!")[-5:-2] == ["Again?", "Once more.", "◆ Hello again!"]
    screen.enter("/thinking hide", "Thinking: hide")
    screen.say("once more\r", "14 characters")
    screen.say("\x1b", "[Thought for", "[Stopped]")


def test_a_setting_is_shown_changed_and_saved(open_chat: OpenChat, environment: dict[str, str]) -> None:
    config = Path(environment["HOME"]) / ".config/rkllm-chat/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('# mine\n[chat]\nsystem = "You are brief."\n', encoding="utf-8")
    screen = open_chat("--no-servers --seed 1", "One.", "Two.", size=(100, 60))
    lines = screen.enter("/set", "/set GROUP lists")
    rows = [line.split() for line in lines[lines.index("> /set") :]]
    assert ["chat.system", "You", "are", "brief."] in rows and ["generation.seed", "1"] in rows and len(rows) < 20
    assert ["policy:", "approve,", "allow,", "deny,", "max_calls"] in rows
    rows = [line.split() for line in screen.enter("/set generation", "generation.repeat_penalty")]
    assert ["generation.top_k", "40", "0-1000000"] in rows and ["policy.max_calls"] not in [row[:1] for row in rows]
    screen.enter("/set temperature=0.2 --save", "generation.temperature  0.2  0-100", "Saved temperature to ")
    screen.enter("/set generation.seed 7 --save", "option of the command line sets seed to 1")
    screen.enter("/set system You are a pirate.", "chat.system  You are a pirate.", "prompt will be reprocessed")
    screen.enter("/system", "You are a pirate.")
    screen.enter("/set system default --save", "chat.system  -")
    screen.enter("ahoy", "◆ One.")
    screen.enter("/set thinking on", "chat.thinking  on  auto|on|off")
    screen.enter("/set context_tokens 9000", "chat.context_tokens  9000", "ctx 13 / 9.0k")
    screen.enter("/set keep_secrets on --save", "next time the program starts")
    assert config.read_text(encoding="utf-8") == (
        "# mine\n[chat]\nkeep_secrets = true\n\n[generation]\nseed = 7\ntemperature = 0.2\n"
    )
    screen.enter("/system reset", "prompt will be reprocessed")
    screen.enter("/set language ja", "chat.language  ja")
    screen.enter("/undo", "取り消しました: ahoy")


def test_a_setting_of_the_model_takes_effect_at_once(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers")
    screen.enter("/set max_tokens 2", "generation.max_tokens  2")
    screen.enter("What time is it in Tokyo?", "reached its token limit")
    screen.enter("/set context_tokens 768", "Model: tiny-tools.gguf (768 tokens of context)", "/ 768 (")


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_prompts_of_files_and_servers_are_commands(
    open_chat: OpenChat, environment: dict[str, str], folder: Path
) -> None:
    environment.pop("RKLLM_CHAT_TRUST_PROJECT", None)
    own, of_folder = Path(environment["HOME"]) / ".config/rkllm-chat/prompts", folder / ".rkllm-chat/prompts"
    for place, name, text in (
        (own, "tide", "---\ndescription: Ask for a tide\narguments: harbour\n---\nHow high is it at $harbour?\n"),
        (of_folder, "deploy", "Deploy\x1b[2J it.\n"),
        (of_folder, "tide", "Not this one."),
        (of_folder, "quit", "Nor this one."),
    ):
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.md").write_text(text, encoding="utf-8")
    screen = open_chat(HARBOUR, "Two metres.", "Done.", "Done again.", "Dear Anna.", size=(90, 60))
    lines = screen.enter("/help", "/help NAME explains")
    assert [line for line in lines if "tide" in line or ":letter" in line][-2:] == [
        "/tide                Ask for a tide",
        "/harbour:letter      A letter to a captain",
    ]
    screen.enter("/help tide", "/tide HARBOUR: Ask for a tide")
    screen.enter("/tide", "needs the argument harbour. Usage: /tide HARBOUR")
    screen.enter("/tied", "Did you mean /tide?")
    screen.enter("/tide Hull", "◆ Two metres.")
    screen.enter("/undo", "Removed: How high is it at Hull?")
    screen.say("/deploy\r", "Deploy\\x1b[2J it.", "Approve and send it?")
    screen.type("n")
    clear(screen)
    screen.say("/deploy\r", "Approve and send it?")
    screen.wait_for_end_of_line("[y/N]")
    screen.say("y", "◆ Done.")
    screen.wait_for_prompt()
    screen.enter("/deploy", "◆ Done again.")
    screen.say(
        "/harbour:letter captain=Anna harbour=Hull\r", "user: Write a friendly letter to Anna at Hull.", "Send it?"
    )
    screen.say("y", "◆ Dear Anna.")


@pytest.mark.slow
def test_code_is_copied_whole_however_narrow_the_screen(open_chat: OpenChat) -> None:
    line = "curl " + " ".join(f"--header 'X-Number: {number}'" for number in range(9))
    answer = f"Run:\n```sh\n{line}\n```\nor\n\n1. this:\n   ~~~\n   echo one\n     echo two\n   ~~~\n"
    screen = open_chat("--no-servers", answer, "No code.", "One:\n```\nx", size=(40, 40))
    screen.enter("how?", "echo two")
    assert re.sub(rb"\x1b\[[\d;]*m", b"", screen.bytes).count(line.encode()) == 1, "the terminal wraps it"
    for argument, text in (("code 1", line), ("code 2", "echo one\n  echo two"), ("", answer.strip())):
        screen.enter(f"/copy {argument}", "Copied")
        assert base64.b64encode(text.encode()) in screen.bytes
        clear(screen)
    for argument, error in (
        ("code", "has 2 code blocks"),
        ("code 3", 'no code block "3"'),
        ("codes", "Unknown argument"),
    ):
        screen.enter(f"/copy {argument}", error)
    screen.enter("again", "◆ No code.")
    screen.enter("/copy code", "has no code block")
    screen.enter("again", "◆ One:")
    screen.enter("/copy code", "Copied 1 character (")


def test_a_message_that_was_not_sent_is_in_the_line_again(fresh: Screen) -> None:
    for line in ("look at @http://127.0.0.1/x please", "//etc says @http://127.0.0.1/x"):
        fresh.say(f"{line}\r", "Not sent: No server lists http://127.0.0.1/x", f"> {line}")
        fresh.wait_until(lambda: fresh.lines()[-2] == f"> {line}", "the line below the error")  # noqa: B023  # awaited
        fresh.wait_for_rest(0.3)  # the row may be that of the message as it was typed
        fresh.type("\x03")
        clear(fresh)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own.toml", "own.json"])
def test_a_server_is_added_to_the_file_in_use_and_survives_a_reload(
    name: str, open_screen: OpenChat, program: Run, script: Callable[..., str], folder: Path
) -> None:
    text = {"own.toml": "# mine\n", "own.json": '{\n  // mine\n  "mcpServers": {}\n}\n'}[name]
    (folder / name).write_text(text, encoding="utf-8")
    screen = open_screen("--model", script("Hello."), "--config", name, size=(200, 40))
    screen.wait_for_prompt()
    screen.enter(
        "/mcp add clock -- rkllm-chat serve board",
        f"Server 'clock' was added to {name}",
        f"The servers in {name} replace the bundled one. To add it: rkllm-chat mcp add --config {name} board",
        "clock  connected",
    )
    screen.enter(
        "/mcp reload", "started or stopped: board", "clock  connected  8 tools, MCP 2026-07-28, ", f" ms  {name}"
    )
    added = (folder / name).read_text(encoding="utf-8")
    assert "mine" in added and added.count("clock") == 1 and added.count("board") == 1  # an argument of that one
    listed = program("mcp", "list", "--config", name).stdout
    assert "clock  connected  8 tools, MCP 2026-07-28, " in listed, "the same as in the chat"
    screen.enter("/mcp remove clock", f"Server 'clock' was removed from {name}")
    assert "clock" not in (folder / name).read_text(encoding="utf-8")
    assert {path.name for path in folder.iterdir() if path.suffix in (".toml", ".json")} == {name, "replies.json"}


@pytest.mark.usefixtures("harbour")
def test_a_server_is_disabled_and_enabled_in_its_file_with_save(open_chat: OpenChat, folder: Path) -> None:
    text = (folder / "harbour.toml").read_text(encoding="utf-8")
    screen = open_chat(HARBOUR, "Nothing.", size=(90, 60))
    screen.enter("/mcp get harbour", "harbour  connected, 5 tools")
    screen.enter("/mcp disable harbour", "harbour  off")
    assert (folder / "harbour.toml").read_text(encoding="utf-8") == text
    screen.enter("/mcp disable harbour --save", "Saved harbour to harbour.toml.", "harbour  off")
    assert "enabled = false" in (folder / "harbour.toml").read_text(encoding="utf-8")
    screen.enter("/mcp reload", "Servers started or stopped: -", "harbour  off")
    screen.enter("/mcp enable harbour --save")
    screen.leave()
    assert "enabled = true" in (folder / "harbour.toml").read_text(encoding="utf-8")


def test_settings_of_the_command_line_count_for_this_chat(open_chat: OpenChat) -> None:
    given = "--no-servers --set temperature=0.25 --set chat.max_steps=3 --seed 7"
    screen = open_chat(given, "Hello.", size=(100, 30))
    screen.enter("/set temperature", "generation.temperature  0.25")
    screen.enter("/set max_steps", "chat.max_steps  3")
    screen.enter("/set seed", "generation.seed  7")  # an option that --set replaces


def test_the_menu_has_frequent_commands_first_and_no_aliases(fresh: Screen) -> None:
    fresh.say("/", "list tools with their token cost", "/mcp ")
    names = [line.split()[0] for line in fresh.lines()[1:-1] if line.strip().startswith("/")]
    assert names[:3] == ["/model", "/tools", "/mcp"] and not {"/?", "/q", "/exit", "/servers"} & set(names)
