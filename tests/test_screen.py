"""The keys and the drawing of the screen, through the real program on a real pseudo terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.history import InMemoryHistory

from rkllm_chat import screen
from stage import PROGRAM, Screen, call_text

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]

HARBOUR = '''
import asyncio
from pathlib import Path
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("harbour")


@server.tool()
async def wait(context: Context) -> str:
    """Waits for the tide."""
    try:
        for step in range(1000):
            await context.report_progress(step % 10, 10, "rising")
            if Path("go").exists():
                return "high water"
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        Path("cancelled").touch()
        raise
    return "never"


server.run("stdio")
'''


@pytest.fixture
def harbour(folder: Path) -> Path:
    """A server whose tool waits until there is a file "go"; gives the folder."""
    (folder / "harbour.py").write_text(HARBOUR, encoding="utf-8")
    text = f'[[servers]]\nname = "harbour"\ncommand = "{PROGRAM[0]}"\nargs = ["harbour.py"]\n'
    (folder / "mcp_config.toml").write_text(text, encoding="utf-8")
    return folder


def open_quiet(open_screen: OpenScreen, model: str, *arguments: str, **options: object) -> Screen:
    screen = open_screen("--model", model, *arguments, **options)
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    return screen


def test_a_line_typed_while_a_tool_runs_is_sent_after_the_turn(
    open_screen: OpenScreen, script: Script, harbour: Path
) -> None:
    screen = open_quiet(open_screen, script(call_text("wait"), "It is high.", "Bye."), "--allow", "wait")
    screen.type("tide?\r")
    screen.wait_for("rising")
    screen.type("and then leave\r")
    screen.wait_for("next: and then leave")
    (harbour / "go").touch()
    screen.wait_for("◆ Bye.")
    lines = screen.wait_for_prompt()
    told = lines[lines.index("> tide?") :]
    assert [line.partition(" 0")[0] for line in told if not line.startswith("[MCP: Tool")][:6] == [
        "> tide?",
        "[MCP: Detected 1 tool call]",
        "[MCP: Calling tool 'wait']",
        "◆ It is high.",
        "> and then leave",
        "◆ Bye.",
    ]
    assert not any("next:" in line for line in lines)


@pytest.mark.parametrize("key", ["\x03", "\x1b"], ids=["Ctrl+C", "Esc"])
def test_stopping_a_tool_cancels_it_on_its_server_and_what_was_typed_comes_back(
    key: str, open_screen: OpenScreen, script: Script, harbour: Path
) -> None:
    screen = open_quiet(open_screen, script(call_text("wait"), call_text("wait"), "It is high."), "--allow", "wait")
    screen.type("tide?\r")
    screen.wait_for("rising")
    screen.type("queued\rhalf a line")
    screen.wait_for("half a line")
    screen.type(key)
    screen.wait_for("[Stopped]")
    lines = screen.wait_for("> queued")
    assert lines[-3:-1] == ["> queued", "  half a line"]
    (harbour / "go").touch()
    screen.type("\x03")
    screen.wait_for_prompt()
    assert (harbour / "cancelled").exists()
    screen.type("again\r")
    screen.wait_for("[MCP: Tool 'wait' completed]")
    screen.wait_for("◆ It is high.")


@pytest.mark.parametrize("key", ["\x03", "\x1b", "q"], ids=["Ctrl+C", "Esc", "q"])
def test_stopping_at_a_question_ends_the_turn(key: str, open_screen: OpenScreen, script: Script, harbour: Path) -> None:
    screen = open_quiet(open_screen, script(call_text("wait"), "Never said.", "Well."))
    screen.type("tide?\r")
    screen.wait_for("Run it?")
    screen.type(key)
    screen.wait_for("[MCP: Tool 'wait' stopped]")
    lines = screen.wait_for_prompt()
    assert not any("Never said." in line for line in lines)
    assert not (harbour / "cancelled").exists()


@pytest.mark.usefixtures("harbour")
def test_what_was_being_typed_when_a_question_came_is_no_answer(open_screen: OpenScreen, script: Script) -> None:
    screen = open_quiet(open_screen, script(call_text("wait")))
    screen.type("tide?\ryes anyway")
    screen.wait_for("Run it?")
    screen.type("\x03")
    screen.wait_for("[MCP: Tool 'wait' stopped]")
    screen.wait_for("> yes anyway")
    assert not any("Tool 'wait' completed" in line for line in screen.lines())


@pytest.mark.parametrize(
    "keys", ["one\ntwo\r", "one\x1b\rtwo\r", "one\\\rtwo\r", "\x1b[200~one\rtwo\x1b[201~\r"],
    ids=["Ctrl+J", "Alt+Enter", "backslash", "paste"],
)  # fmt: skip
def test_a_message_may_have_several_lines(keys: str, open_screen: OpenScreen, script: Script) -> None:
    screen = open_quiet(open_screen, script("Read."), "--no-servers")
    screen.type(keys)
    lines = screen.wait_for("◆ Read.")
    start = lines.index("> one")
    assert lines[start : start + 3] == ["> one", "  two", "◆ Read."]


def test_the_line_can_be_written_in_an_editor(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    editor = folder / "editor"
    editor.write_text(f'#!{sys.executable}\nimport sys\nopen(sys.argv[1], "a").write(" and more")\n', encoding="utf-8")
    editor.chmod(0o755)
    screen = open_screen("--model", script("Read."), "--no-servers", EDITOR=str(editor))
    screen.wait_for("lists the commands")
    screen.type("some")
    screen.wait_for("> some")
    screen.type("\x18\x05")
    screen.wait_for("> some and more")
    screen.type("\r")
    screen.wait_for("◆ Read.")


def test_what_is_typed_before_the_screen_is_there_is_taken_as_it_was_meant(
    open_screen: OpenScreen, script: Script
) -> None:
    screen = open_screen("--model", script("First.", "Second."), "--no-servers")
    screen.wait_until_hushed()
    screen.type("one\rtwo\r")
    screen.wait_for("◆ Second.")
    told = [line for line in screen.lines() if line[:1] in ">◆"]
    assert told[:4] == ["> one", "◆ First.", "> two", "◆ Second."]


def test_a_line_with_an_exclamation_mark_is_for_the_shell(open_screen: OpenScreen, script: Script) -> None:
    screen = open_quiet(open_screen, script("Hello."), "--no-servers")
    screen.type("!echo from the $((1 + 1))nd shell\r")
    screen.wait_for("from the 2nd shell")
    screen.wait_for_prompt()
    screen.type("hi\r")
    screen.wait_for("◆ Hello.")


@pytest.mark.parametrize("size", [(20, 5), (200, 50), (0, 0)], ids=["20x5", "200x50", "unknown"])
def test_any_size_will_do(size: tuple[int, int], open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script("Well met in a narrow room."), "--no-servers", size=size)
    screen.wait_for("> ")
    screen.type("hi\r")
    screen.wait_for("room.")
    screen.resize(40, 8)
    screen.type("there")
    screen.wait_for("> there")
    screen.type("\x03\x04")
    assert screen.wait_for_end() == 0


@pytest.mark.parametrize(
    "variables", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_poor_terminal_will_do(variables: dict[str, str], open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script("Plain **words**."), "--no-servers", **variables)
    screen.wait_for("lists the commands")
    screen.type("hi\r")
    screen.wait_for("words")
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    if "LANG" not in variables:
        assert b"\x1b[1m" not in screen.bytes and b"\x1b[3" not in screen.bytes


@pytest.mark.usefixtures("harbour")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_in_the_middle_of_a_tool_leaves_cleanly(
    number: int, code: int, open_screen: OpenScreen, script: Script
) -> None:
    screen = open_quiet(open_screen, script(call_text("wait")), "--allow", "wait")
    screen.type("tide?\r")
    screen.wait_for("rising")
    screen.process.send_signal(number)
    assert screen.wait_for_end() == code
    assert "Traceback" not in "\n".join(screen.lines())


def test_ctrl_z_and_fg(script: Script, environment: dict[str, str], folder: Path) -> None:
    command = ["bash", "--norc", "-i"]
    screen = Screen([], {**environment, "PS1": "shell: "}, folder, command=command)
    try:
        screen.wait_for("shell:")
        screen.type(" ".join([*PROGRAM, "--no-servers", "--model", script("Hello.")]) + "\r")
        screen.wait_for("lists the commands")
        screen.type("\x1a")
        screen.wait_for("Stopped")
        screen.type("fg\r")
        screen.wait_for_prompt()
        screen.type("hi\r")
        screen.wait_for("◆ Hello.")
        screen.type("\x04")
        screen.wait_for("shell:")
    finally:
        os.killpg(screen.process.pid, signal.SIGKILL)
        screen.close()


def test_a_question_whose_asker_has_gone_stands_in_nobodys_way() -> None:
    async def ask() -> tuple[str | None, str | None, object]:
        seen = screen.Screen(InMemoryHistory(), DummyCompleter(), color=False)
        first, second = (asyncio.ensure_future(seen.read(name)) for name in ("first", "second"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        answers = []
        third = asyncio.ensure_future(seen.read("third"))
        for answer, question in (("one", first), ("three", third)):
            seen.buffer.text = answer
            seen.enter()
            answers.append(await asyncio.wait_for(question, 5))
        return answers[0], answers[1], seen.question

    assert asyncio.run(ask()) == ("one", "three", None)
