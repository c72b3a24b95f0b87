"""The chat on a real pseudo terminal: what is typed, and what a person then sees."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import PROGRAM, Screen, call_text

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]


def test_a_talk_with_a_tool_looks_like_this(open_screen: OpenScreen, script: Script) -> None:
    model = script(call_text("calculate", expression="6 * 7"), "It is 42.", "You are welcome.")
    screen = open_screen("--model", model)
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    screen.type("six times seven?\r")
    screen.wait_for("It is 42.")
    screen.wait_for_prompt()
    screen.type("thanks\r")
    screen.wait_for("welcome.")
    lines = [re.sub(r"[\d.e-]+ s$", "0.1 s", line) for line in screen.wait_for_prompt()]
    start = lines.index("> six times seven?")
    assert lines[start:][:7] == [
        "> six times seven?",
        "[MCP: Detected 1 tool call]",
        """[MCP: Calling tool 'calculate'] expression="6 * 7\"""",
        "[MCP: Tool 'calculate' completed] 0.1 s",
        "◆ It is 42.",
        "> thanks",
        "◆ You are welcome.",
    ]
    assert lines[0].startswith("rkllm-chat 0.") and lines[0].endswith("opens the model and its servers ...")
    assert lines[1:3] == [
        "Model: scripted (4096 tokens of context). Servers: board.",
        "/help lists the commands, Ctrl+D leaves.",
    ]
    screen.type("\x04")
    assert screen.wait_for_end() == 0


def test_commands_show_tables_and_clear_forgets(open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script("Hello.", "Hello again."))
    screen.wait_for_prompt()
    screen.type("/help\r")
    screen.wait_for("/call           runs a tool by hand")
    screen.wait_for_prompt()
    screen.type("/tools\r")
    screen.wait_for("9 of 9 tools are on")
    assert any(re.fullmatch(r"7 +x +board +get_time +\d+ +Current time in a .*", line) for line in screen.lines())
    screen.wait_for_prompt()
    screen.type("/nosuch\r")
    screen.wait_for('There is no command "/nosuch"')
    screen.wait_for_prompt()
    screen.type("/clear\r")
    screen.wait_for("The conversation is forgotten.")
    screen.wait_for_prompt()
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0


def test_ctrl_c_stops_an_answer_and_keeps_the_chat(open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script({"text": "Once upon a time", "wait": True}, "The end."), "--no-servers")
    screen.wait_for_prompt()
    screen.type("a story\r")
    screen.wait_for("◆ Once upon a time")
    screen.type("\x03")
    screen.wait_for("[Stopped]")
    screen.wait_for_prompt()
    screen.type("and then?\r")
    screen.wait_for("◆ The end.")


def test_ctrl_c_clears_a_line_hints_and_then_leaves(open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script("Hello."), "--no-servers")
    screen.wait_for_prompt()
    screen.type("never sent")
    screen.wait_for("never sent")
    screen.type("\x03")
    screen.wait_for_prompt()
    screen.type("\x03")
    screen.wait_for("Press Ctrl+C once more to leave.")
    screen.wait_for_prompt()
    screen.type("\x03")
    assert screen.wait_for_end() == 0


HARBOUR = '''
from mcp.server.mcpserver import MCPServer
server = MCPServer("harbour")
@server.tool()
def get_tide(harbour: str) -> str:
    """Tide height at a harbour."""
    open("called", "a").close()
    return "2.4 metres"
server.run("stdio")
'''


@pytest.mark.parametrize(
    ("answer", "line", "called"),
    [
        ("y", "[MCP: Tool 'get_tide' completed]", True),
        ("a", "[MCP: Tool 'get_tide' completed]", True),
        ("n", "[MCP: Tool 'get_tide' declined: The user did not allow this call.]", False),
        ("\r", "[MCP: Tool 'get_tide' declined: The user did not allow this call.]", False),
    ],
    ids=["yes", "always", "no", "Enter"],
)
def test_a_call_that_needs_approval_is_asked_about(
    answer: str, line: str, called: bool,
    open_screen: OpenScreen, script: Script, folder: Path,
) -> None:  # fmt: skip
    (folder / "harbour.py").write_text(HARBOUR, encoding="utf-8")
    config = f'[[servers]]\nname = "harbour"\ncommand = "{PROGRAM[0]}"\nargs = ["harbour.py"]\n'
    (folder / "mcp_config.toml").write_text(config, encoding="utf-8")
    screen = open_screen("--model", script(call_text("get_tide", harbour="Husum"), "So it is."))
    screen.wait_for_prompt()
    screen.type("tide?\r")
    screen.wait_for("Run it? [y] once [a] always this tool [n] no [q] stop:")
    assert screen.lines()[-5:-2] == [
        "harbour wants to run get_tide",
        '  harbour = "Husum"',
        "  ! its server does not say that it only reads",
    ]
    screen.type(answer)
    assert any(found.startswith(line) for found in screen.wait_for("So it is."))
    assert (folder / "called").exists() == called


def test_what_a_model_writes_cannot_steer_the_terminal(open_screen: OpenScreen, script: Script) -> None:
    evil = "safe\x1b]0;owned\x07 \x1b[2J \x9b31m done"
    screen = open_screen("--model", script(evil), "--no-servers", "--no-color")
    screen.wait_for_prompt()
    screen.type("hi\r")
    lines = screen.wait_for("done")
    assert "◆ safe\\x1b]0;owned\\x07 \\x1b[2J \\x9b31m done" in lines
    assert b"\x1b]0;owned" not in screen.bytes


def test_a_server_that_fails_is_told_and_the_chat_opens(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    (folder / "mcp_config.toml").write_text(
        '[[servers]]\nname = "gone"\ncommand = "no-such-command"\n', encoding="utf-8"
    )
    screen = open_screen("--model", script("Hello."))
    screen.wait_for("Server 'gone' is not there")
    screen.type("hi\r")
    screen.wait_for("◆ Hello.")


def test_the_prompt_is_there_while_a_server_hangs_at_its_start(
    open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    config = '[[servers]]\nname = "hung"\ncommand = "sleep"\nargs = ["60"]\nconnect_s = 50\n'
    (folder / "mcp_config.toml").write_text(config, encoding="utf-8")
    screen = open_screen("--model", script("Hello."))
    screen.wait_for_prompt()
    screen.type("hi\r")
    screen.wait_for("Still opening")
    screen.type("\x03")
    screen.wait_for("[Stopped]")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0


def test_a_missing_model_ends_the_chat_with_its_reason(open_screen: OpenScreen) -> None:
    screen = open_screen("--model", "missing.gguf")
    screen.wait_for("missing.gguf: No such file or directory.")
    assert screen.wait_for_end() == 5
    assert "Traceback" not in "\n".join(screen.lines())


def test_a_wrong_configuration_is_told_with_its_place(open_screen: OpenScreen, folder: Path) -> None:
    (folder / "mcp_config.toml").write_text('[chat]\nmodle = "x"\n', encoding="utf-8")
    screen = open_screen()
    screen.wait_for('mcp_config.toml: unknown key "chat.modle". Did you mean "model"?')
    assert screen.wait_for_end() == 3


def test_a_termination_signal_leaves_cleanly(open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script("Hello."))
    screen.wait_for_prompt()
    screen.process.send_signal(signal.SIGTERM)
    assert screen.wait_for_end() == 143
    assert "Traceback" not in "\n".join(screen.lines())


def test_lines_typed_before_come_back(open_screen: OpenScreen, script: Script, environment: dict[str, str]) -> None:
    first = open_screen("--model", script("Hello."), "--no-servers")
    first.wait_for_prompt()
    first.type("remember me\r")
    first.wait_for("◆ Hello.")
    first.wait_for_prompt()
    first.type("\x04")
    assert first.wait_for_end() == 0
    second = open_screen("--model", script("Hello."), "--no-servers")
    second.wait_for_prompt()
    second.type("\x1b[A")
    second.wait_for("> remember me")
    history = Path(environment["HOME"]) / ".local/state/rkllm-chat/history"
    assert history.stat().st_mode & 0o777 == 0o600


def test_a_message_does_not_wait_for_a_server_that_hangs_at_its_start(
    open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    text = '[[servers]]\nname = "stuck"\ncommand = "sleep"\nargs = ["600"]\nconnect_s = 60\n'
    (folder / "stuck.toml").write_text(text, encoding="utf-8")
    screen = open_screen("--model", script("Hello."), "--config", "stuck.toml")
    screen.wait_for_prompt()
    screen.type("hello\r")
    screen.wait_for("[MCP: Server 'stuck' is still starting]")
    screen.wait_for("◆ Hello.")
    screen.wait_for_prompt()
    screen.type("/mcp\r")
    screen.wait_for("stuck  starting")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0


def test_a_server_asks_its_user_in_the_middle_of_a_call(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    (folder / "harbour.py").write_text(ASKING_SERVER, encoding="utf-8")
    text = f'[[servers]]\nname = "harbour"\ncommand = "{PROGRAM[0]}"\nargs = ["harbour.py"]\n'
    (folder / "asking.toml").write_text(text, encoding="utf-8")
    model = script(call_text("book", boat="Anna"), "Booked.")
    screen = open_screen("--model", model, "--config", "asking.toml", "--allow", "book")
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    screen.type("book a berth\r")
    screen.wait_for("[MCP: Server 'harbour' asks: How long is the boat?]")
    screen.wait_for("Answer it? [y/N]")
    screen.type("y\r")
    screen.wait_for("Metres:")
    screen.type("long\r")
    screen.wait_for('must be a whole number, not "long"')
    screen.type("12\r")
    screen.wait_for("◆ Booked.")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0


def open_beside_chaos(open_screen: OpenScreen, mode: str, model: str, folder: Path) -> Screen:
    """The chat with a server of the tests that does what a mode says."""
    lines = ["[[servers]]", 'name = "chaos"', f'command = "{PROGRAM[0]}"', f'args = ["-m", "servers.chaos", "{mode}"]']
    (folder / "chaos.toml").write_text("\n".join([*lines, f'env = {{ PYTHONPATH = "{Path(__file__).parent}" }}']))
    screen = open_screen("--model", model, "--config", "chaos.toml", "--allow", "act")
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    return screen


def test_a_tool_that_cannot_be_called_is_shown_with_the_reason(
    open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    screen = open_beside_chaos(open_screen, "old-task-no-tasks", script("Hello."), folder)
    screen.type("/mcp\r")
    screen.wait_for("chaos  open  2 tools, MCP 2025-11-25")
    screen.wait_for("[MCP: Tool 'act' of server 'chaos' is hidden: it runs as a task only, and the server does")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0


def test_what_a_server_warns_of_is_shown(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    screen = open_beside_chaos(open_screen, "logs", script(call_text("act"), "Done."), folder)
    screen.type("act\r")
    screen.wait_for("◆ Done.")
    lines = screen.wait_for_prompt()
    assert any(line.startswith("[MCP: Server 'chaos', warning: ") and "a line of warning" in line for line in lines)
    assert not any("a line of notice" in line for line in lines)
    screen.type("\x04")
    assert screen.wait_for_end() == 0


ASKING_SERVER = '''
from typing import Annotated

from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from pydantic import BaseModel

server = MCPServer("harbour")


class Berth(BaseModel):
    metres: int


async def ask_berth() -> Elicit[Berth]:
    return Elicit("How long is the boat?", Berth)


@server.tool()
async def book(boat: str, berth: Annotated[Berth, Resolve(ask_berth)]) -> str:
    """Books a berth."""
    return f"{boat} has {berth.metres} metres"


server.run("stdio")
'''


def test_a_server_is_added_switched_off_and_on_and_removed(
    open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    (folder / "harbour.py").write_text(HARBOUR, encoding="utf-8")
    screen = open_screen("--model", script("Hello."))
    screen.wait_for("lists the commands")
    screen.type(f"/mcp add harbour -- {PROGRAM[0]} harbour.py\r")
    screen.wait_for("harbour  open  1 tools")
    screen.type("/mcp disable harbour\r")
    screen.wait_for("harbour  off")
    screen.type("/mcp enable harbour\r")
    screen.wait_for_prompt()
    screen.type("/tools harbour\r")
    screen.wait_for("1 of 10 tools are on")
    assert 'name = "harbour"' in (folder / "mcp_config.toml").read_text(encoding="utf-8")
    screen.type("/mcp remove harbour\r")
    screen.wait_for("Server 'harbour' was taken out of mcp_config.toml.")
    assert "harbour" not in (folder / "mcp_config.toml").read_text(encoding="utf-8")
    screen.type("/mcp remove board\r")
    screen.wait_for("by hand")


def test_the_configuration_is_read_again(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    (folder / "harbour.py").write_text(HARBOUR, encoding="utf-8")
    config = folder / "mcp_config.toml"
    entry = f'[[servers]]\nname = "harbour"\ncommand = "{PROGRAM[0]}"\nargs = ["harbour.py"]\n'
    config.write_text(entry, encoding="utf-8")
    screen = open_screen("--model", script("Hello.", "Hello again."))
    screen.wait_for("lists the commands")
    config.write_text(entry.replace("harbour", "port", 1) + "[chat", encoding="utf-8")
    screen.type("hi\r")
    screen.wait_for("The configuration has changed: /mcp reload takes it over.")
    screen.wait_for("◆ Hello.")
    screen.type("/mcp reload\r")
    screen.wait_for("not valid TOML")
    config.write_text(entry.replace("harbour", "port", 1), encoding="utf-8")
    screen.wait_for_prompt()
    screen.type("/mcp reload\r")
    screen.wait_for("Opened or closed: harbour, port")
    screen.wait_for("port  open  1 tools")
