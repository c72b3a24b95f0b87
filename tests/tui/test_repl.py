"""The chat on a real pseudo terminal: start and end, servers, configuration and questions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stage import Screen, call_text

from .server_configs import HARBOUR, TESTS, write_chaos, write_late, write_servers

OpenScreen = Callable[..., Screen]
OpenChat = Callable[..., Screen]


@pytest.mark.model
def test_the_small_model_answers_with_a_tool(open_chat: OpenChat) -> None:
    screen = open_chat()
    screen.wait_for("Model: tiny-tools.gguf (2048 tokens of context).")
    screen.wait_for("nothing else. Try: What time is it in")
    started = ("Servers: board.", "Server 'board' is connected")  # on a busy machine the server starts after the chat
    screen.wait_until(lambda: any(text in line for line in screen.lines() for text in started), "the server")
    screen.enter("What is 12 times 7?", "[MCP: Tool 'calculate' completed]", "◆ ", "84", "tok/s")
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0


@pytest.mark.model
def test_an_example_that_fits_the_servers_stands_in_the_empty_line_until_the_first_key(
    open_chat: OpenChat, folder: Path, shipped_model: Path
) -> None:
    (folder / "real.gguf").write_bytes(shipped_model.read_bytes())
    screen = open_chat("--model real.gguf")
    screen.wait_for_end_of_line("> What time is it in Tokyo?")
    screen.say("a", "> a")
    assert not any("Tokyo" in line for line in screen.lines())
    screen.say("\x7f", ">")
    screen.wait_for_prompt()
    assert not any("Tokyo" in line for line in screen.lines()), "it was for the first key"
    without = open_chat("--model real.gguf --no-servers --set language=ja", LANG="ja_JP.UTF-8")
    without.wait_for("> RAM とフラッシュメモリの違い")


@pytest.mark.model
@pytest.mark.parametrize(
    ("root", "example"), [("", "Returns the list of dir"), (".", "Which files are in this folder?")]
)
def test_the_example_asks_about_files_only_where_their_folder_is_known(
    root: str, example: str, open_chat: OpenChat, folder: Path, shipped_model: Path
) -> None:
    (folder / "real.gguf").write_bytes(shipped_model.read_bytes())
    command = [sys.executable, "-m", "many_tools.server", "filesystem", *filter(None, [root])]
    screen = open_chat(f"--model real.gguf {write_servers(folder, 'files.toml', {'files': command})}")
    screen.wait_for(f"> {example}")


@pytest.mark.model
@pytest.mark.parametrize(("name", "is_told"), [("SmolLM2-135M.gguf", True), ("SmolLM2-1.7B.gguf", False)])
def test_a_model_that_was_seen_to_call_no_tool_says_so(
    name: str, is_told: bool, open_chat: OpenChat, folder: Path, shipped_model: Path
) -> None:
    (folder / name).write_bytes(shipped_model.read_bytes())
    screen = open_chat(f"--model {name} --set prompt_profile=smollm2")
    assert any("called no tool when it was measured" in line for line in screen.lines()) == is_told


def test_ctrl_c_clears_a_line_hints_and_then_leaves(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "Hello.")
    screen.say("never sent", "never sent")
    screen.type("\x03")
    screen.wait_for_prompt()
    screen.say("\x03", "Press Ctrl+C again to exit.")
    screen.wait_for_prompt()
    screen.type("\x03")
    assert screen.wait_for_end() == 0


def test_what_is_typed_during_the_start_stays_in_the_line(open_screen: OpenScreen, script: Callable[..., str]) -> None:
    screen = open_screen("--no-servers", "--model", script("Hello."))
    screen.say("good ", "good ")
    screen.wait_for("Ctrl+D to exit")
    screen.say("morning", "> good morning")


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_a_message_on_the_command_line_begins_the_chat(
    terminal: str, open_screen: OpenScreen, script: Callable[..., str]
) -> None:
    screen = open_screen("good morning", "--no-servers", "--model", script("Hello."), TERM=terminal)
    screen.wait_for("Hello.")
    assert "> good morning" in screen.lines()
    screen.wait_for_prompt()


def test_a_narrow_status_has_context_activity_and_speed_and_no_name(open_chat: OpenChat) -> None:
    screen = open_chat("", {"text": "I think that", "wait": True}, size=(40, 20))
    screen.type("Hello\r")
    screen.wait_until(
        lambda: bool(re.fullmatch(r"ask · ctx \d+% · [⠋⠙⠴⠦] 3( tokens)? · [\d.,]+ tok/s", screen.lines()[-1])),
        "context, activity and speed",
    )
    screen.say("\x1b", "[Stopped]")


def test_something_moves_while_nothing_comes_and_while_a_reply_is_written(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", {"text": "", "wait": True}, {"text": "I think that", "wait": True})

    def see_change(pattern: str) -> None:
        seen = set[str]()

        def has_changed() -> bool:
            seen.update(re.findall(pattern, "\n".join(screen.lines())))
            return len(seen) > 2

        screen.wait_until(has_changed, pattern)

    screen.type("Hello\r")
    see_change("([⠋⠙⠴⠦]) processing prompt ")
    screen.say("\x1b", "[Stopped]")
    screen.type("And now?\r")
    see_change(r"ctx \d+ / 4.1k \(0%\) · [⠋⠙⠴⠦] 3 tokens · ([\d.]+ tok/s)")
    screen.say("\x1b", "◆ I think that")
    screen.wait_for_prompt()
    assert "tokens" not in screen.lines()[-1]


@pytest.mark.parametrize(("answer", "line"), [("y", "completed]"), ("\r", "declined]")], ids=["yes", "Enter"])
def test_a_call_runs_only_when_it_was_approved(answer: str, line: str, open_chat: OpenChat, harbour: Path) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="x"), "So it is.")
    screen.type("tide?\r")
    screen.wait_for_end_of_line("stop:")
    said = "So it is." if answer == "y" else "Not called, as you said no: harbour__write_log"
    screen.say(answer, f"[MCP: Tool 'write_log' {line}", said)
    assert (harbour / "called").exists() == (answer == "y")


@pytest.mark.parametrize("columns", [40, 100])
def test_the_chat_opens_without_a_server_that_fails_and_shows_what_to_do(
    columns: int, open_chat: OpenChat, folder: Path
) -> None:
    write_servers(folder, "mcp_config.toml", {"gone": ["no-such-command"]})
    screen = open_chat("", "Hello.", size=(columns, 30))
    told = "[MCP: Server 'gone' failed to start; /mcp restart gone tries again. "
    screen.wait_until(lambda: told in " ".join(screen.lines()), told)
    screen.wait_for("ask · 1 failed: /mcp · ")
    screen.enter("hi", "◆ Hello.")
    assert "ask · 1 failed: /mcp · " in screen.lines()[-1]
    screen.enter("/mcp restart gone", "no-such-command")


def test_a_server_that_restarts_on_demand_is_not_counted_as_failed(open_chat: OpenChat, folder: Path) -> None:
    replies = [call_text("act"), "It died.", call_text("act"), "It ran."]
    screen = open_chat(f"{write_chaos(folder, chaos='crash-once')} --allow act", *replies, size=(100, 30))
    screen.enter("go", "exited with 7", "◆ It died.")
    screen.wait_for(" · 0/1 server · ")
    assert "failed" not in screen.lines()[-1]
    screen.enter("/mcp list", "chaos  disconnected")
    screen.type("again\r")
    screen.wait_for_end_of_line("stop:")
    screen.say("y", "◆ It ran.")
    screen.wait_for(" · 1/1 server · ")
    assert "failed" not in screen.lines()[-1]


@pytest.mark.slow
def test_a_message_waits_for_a_server_that_hangs_at_its_start_until_enter_or_esc(
    open_chat: OpenChat, folder: Path
) -> None:
    options = write_servers(folder, "stuck.toml", {"stuck": ["sleep", "600"]}, connect_s=60)
    screen = open_chat(options, "Hello.")
    screen.say("hello\r", "waiting for stuck, ")
    screen.say("\x1b", "[Stopped]", "0 cached")  # what the message in the input line costs
    assert screen.lines()[-2:][0] == "> hello"
    screen.say(" there\r", "> hello there", "waiting for stuck, ")
    screen.enter("", "◆ Hello.")
    screen.enter("/mcp list", "stuck  starting")
    screen.leave()


@pytest.mark.slow
@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_a_message_waits_until_the_tools_of_a_starting_server_are_there(
    terminal: str, open_chat: OpenChat, folder: Path
) -> None:
    (folder / "wait").touch()
    screen = open_chat(write_late(folder), call_text("write_log", text="x"), TERM=terminal)
    screen.say("Write x into the log.\r", "aiting for late")
    (folder / "wait").unlink()
    screen.wait_for("Run write_log?")


@pytest.mark.slow
def test_on_a_dumb_terminal_enter_sends_a_message_without_a_server(open_chat: OpenChat, folder: Path) -> None:
    options = write_servers(folder, "stuck.toml", {"stuck": ["sleep", "600"]}, connect_s=60)
    screen = open_chat(options, "Hello.", TERM="dumb")
    screen.say("hello\r", "Waiting for stuck to start; Enter sends without")
    screen.say("\r", "Hello.")
    screen.say("\r/mcp list\r", "stuck  starting")


@pytest.mark.slow
def test_a_server_that_fails_after_the_first_prompt_is_reported_with_its_reason(
    open_chat: OpenChat, folder: Path
) -> None:
    (folder / "go").touch()
    command = ["sh", "-c", "while [ -e go ]; do sleep 0.1; done; echo no disk >&2; exit 7"]
    options = write_servers(folder, "late.toml", {"late": command}, connect_s=60)
    screen = open_chat(options, "Hello.", size=(100, 40))
    screen.wait_for("[MCP: Server 'late' is still starting]")
    (folder / "go").unlink()
    screen.wait_for("[MCP: Server 'late' failed to start; /mcp restart late tries again. ")


@pytest.mark.slow
def test_a_server_that_connects_after_the_first_prompt_is_counted(open_chat: OpenChat, folder: Path) -> None:
    (folder / "wait").touch()
    screen = open_chat(write_late(folder), "Hello.")
    screen.wait_for("0/1 server · 0 tools")
    screen.enter("/call write_log text=x", "Still starting: late.")
    (folder / "wait").unlink()
    screen.wait_for("[MCP: Server 'late' is connected]")
    screen.wait_for("1/1 server · 5 tools")


@pytest.mark.slow
def test_servers_that_start_late_are_announced_together(open_chat: OpenChat, folder: Path) -> None:
    (folder / "wait").touch()
    command = ["sh", "-c", f"while [ -e wait ]; do sleep 0.1; done; exec {sys.executable} {TESTS}/tui/harbour.py"]
    names = ("one", "two", "three")
    screen = open_chat(write_servers(folder, "late.toml", dict.fromkeys(names, command), connect_s=60), "Hello.")
    screen.wait_for("[MCP: Servers 'one', 'two', 'three' are still starting]")
    (folder / "wait").unlink()
    (line,) = [line for line in screen.wait_for("connected]", 40) if "connected]" in line]
    assert re.fullmatch(r"\[MCP: Servers ('(one|two|three)'(, )?){3} are connected\]", line)


def test_what_is_typed_while_loading_stands_below_the_resumed_turns(
    open_screen: OpenScreen,
    program: Callable[..., object],
    script: Callable[..., str],
    environment: dict[str, str],
    folder: Path,
) -> None:
    program("-p", "one", "--continue", "--model", script("One."), "--no-servers")
    Path(environment["HOME"], ".local/state/rkllm-chat/measured.json").write_text('{"load replies.json": 0.6}', "utf-8")
    (folder / "wait").touch()
    screen = open_screen("--continue", "--model", script("Two."), *write_late(folder).split())
    screen.wait_for("◆ One.")
    screen.say("two\r", "Still loading", "loading replies.json 1 s")
    (loading,) = [line for line in screen.lines() if "loading replies.json" in line]
    assert loading.endswith("loading replies.json 1 s"), "the time of the load before has passed"
    (folder / "wait").unlink()
    screen.wait_for("◆ Two.")
    lines = screen.wait_for_prompt()
    assert [line for line in lines if line.startswith((">", "◆"))] == ["> one", "◆ One.", "> two", "◆ Two.", ">"]


def test_a_resumed_conversation_has_its_context_in_the_status_from_the_start(
    open_screen: OpenScreen, program: Callable[..., object], script: Callable[..., str]
) -> None:
    program("-p", "one and all", "--continue", "--model", script("One."), "--no-servers")
    screen = open_screen("--continue", "--model", script("Two."), "--no-servers")
    screen.wait_for("◆ One.")
    screen.wait_until(lambda: bool(re.search(r"ctx [1-9]\d* / ", screen.lines()[-1])), "the tokens")


def test_a_server_whose_name_looks_like_another_one_is_marked(
    open_chat: OpenChat, program: Callable[..., Any], folder: Path
) -> None:
    options = write_servers(folder, "c.toml", {"bo\u0430rd": [sys.executable, str(TESTS / "tui" / "harbour.py")]})
    assert (
        "! the name has letters that look like others: \u0430 (CYR" in program("mcp", "list", *options.split()).stdout
    )
    screen = open_chat(options, "Hello.")
    screen.enter("/mcp list", "! bo\u0430rd", "that look like others: \u0430 (CYRILLIC SMALL LETTER A)")
    screen.say("/mcp\r", "Servers  1/1", "x  ! bo\u0430rd")


@pytest.mark.slow
def test_waiting_for_the_first_server_can_be_stopped(
    open_screen: OpenScreen, script: Callable[..., str], folder: Path
) -> None:
    write_servers(folder, "mcp_config.toml", {"hung": ["sleep", "60"]}, connect_s=50)
    screen = open_screen("--model", script("Hello."))
    screen.wait_for_prompt()
    screen.say("hi\r", "Still loading")
    screen.say("\x03", "[Stopped]")
    screen.wait_until(lambda: screen.lines()[-1] == "> hi", "the message in the input line")
    screen.type("\x03")
    screen.leave()


@pytest.mark.parametrize(
    ("config", "error", "code"),
    [
        ('[chat]\nmodel = "missing.gguf"\n', "missing.gguf: No such file or directory.", 5),
        ('[chat]\nmodle = "x"\n', 'mcp_config.toml:2: unknown key "chat.modle". Did you mean "model"?', 3),
    ],
    ids=["missing model", "unknown key"],
)
def test_a_chat_that_cannot_start_ends_with_the_reason(
    config: str, error: str, code: int, open_screen: OpenScreen, folder: Path
) -> None:
    (folder / "mcp_config.toml").write_text(config, encoding="utf-8")
    screen = open_screen()
    screen.wait_for(error)
    assert screen.wait_for_end() == code
    assert "Traceback" not in "\n".join(screen.lines())


def test_a_home_in_which_no_folder_can_be_made_costs_what_would_be_stored_and_no_more(
    open_chat: OpenChat, environment: dict[str, str]
) -> None:
    for name in (".local", ".config", ".cache"):
        Path(environment["HOME"], name).write_text("", encoding="utf-8")
    screen = open_chat("--no-servers", "Hello.", size=(80, 24))
    screen.wait_for("Input history is unavailable and will not be saved:")
    screen.enter("hi", "The session cannot be saved:", "◆ Hello.")
    screen.leave()


def test_the_input_history_is_kept_across_sessions(open_chat: OpenChat, environment: dict[str, str]) -> None:
    first = open_chat("--no-servers", "Hello.")
    first.enter("remember me", "◆ Hello.")
    first.leave()
    second = open_chat("--no-servers", "Hello.")
    second.say("\x1b[A", "> remember me")
    history = Path(environment["HOME"]) / ".local/state/rkllm-chat/history"
    assert history.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_a_server_asks_its_user_in_the_middle_of_a_call(open_chat: OpenChat) -> None:
    replies = (call_text("book", boat="Anna"), "Booked.", call_text("book", boat="Berta"), "Then not.")
    screen = open_chat(f"{HARBOUR} --allow book", *replies)
    screen.say("a berth for the Anna\r", "[MCP: Server 'harbour' asks: How long is it?]", "Answer it? [y/N]")
    screen.say("y", "metres (from bow to stern):")
    screen.say("long\r", 'must be a whole number, not "long"')
    screen.say("300\r", "at most 200, not 300")
    screen.say("12\r", "side [port, starboard], optional: port")
    screen.say("\r", "note, optional:")
    screen.say("\r", "metres: 12", "side: port", "note: -", "Send these answers?")
    screen.wait_for_end_of_line("cancels. [y/N]")
    for keys, question in (("n", "metres (from bow"), ("\x7f4\r", "side ["), ("\r", "note, "), ("\r", "Send these")):
        screen.type(keys)
        screen.wait_until(lambda asked=question: screen.lines()[-2].startswith(asked), question)  # type: ignore[misc]
    assert "metres: 14" in screen.lines()
    screen.say("y", "[MCP: Tool 'book' completed]", "◆ Booked.")
    screen.wait_for_prompt()
    screen.enter("/history 1", '"content": {"metres": 14, "side": "port"}')
    screen.type("and one for the Berta\r")
    screen.wait_for_end_of_line("[y/N]")
    screen.type("y")
    screen.wait_for_end_of_line("bow to stern):")
    screen.say("\x1b", "◆ Then not.")
    screen.wait_for_prompt()
    screen.enter("/history 2", '"action": "cancel"')


def test_a_tool_that_cannot_be_called_is_shown_with_the_reason(open_chat: OpenChat, folder: Path) -> None:
    screen = open_chat(write_chaos(folder, chaos="old-task-no-tasks"), "Hello.")
    screen.enter(
        "/mcp list",
        "chaos  connected  2 tools, MCP 2025-11-25",
        "'act' of server 'chaos' is hidden: it can only run as a task",
    )


def test_a_warning_of_a_server_is_shown(open_chat: OpenChat, folder: Path) -> None:
    screen = open_chat(write_chaos(folder, chaos="logs") + " --allow act", call_text("act"), "Done.")
    lines = screen.enter("act", "◆ Done.")
    assert any(line.startswith("[MCP: Server 'chaos', warning: ") and "a line of warning" in line for line in lines)
    assert not any("a line of notice" in line for line in lines)


@pytest.mark.slow
def test_a_server_is_added_switched_off_and_on_and_removed(open_chat: OpenChat, folder: Path) -> None:
    config = folder / "mcp_config.toml"
    screen = open_chat("", "Hello.")
    screen.enter("/mcp remove board", "The board server is built in and has no entry.")
    screen.enter(
        f"/mcp add harbour -- {sys.executable} {Path(__file__).with_name('harbour.py')}", "harbour  connected  5 tools"
    )
    screen.enter("/mcp disable harbour", "harbour  off")
    listed = "\n".join(screen.enter("/mcp enable harbour", "board    connected"))
    assert listed.index("harbour  connected") < listed.index("board    connected"), "the order of the next start"
    lines = screen.enter("/tools only harbour", "5 of 15 tools are on")
    assert not any("Configuration changed" in line for line in lines), "the chat knows its own edit"
    assert 'name = "harbour"' in config.read_text(encoding="utf-8")
    screen.enter("/mcp reload", "board    connected", "harbour  connected")
    screen.enter("/mcp remove harbour", "Server 'harbour' was removed from mcp_config.toml.")
    assert "harbour" not in config.read_text(encoding="utf-8")
    screen.enter("/mcp disable board", "board  off")


def test_the_configuration_is_read_again(open_chat: OpenChat, harbour: Path) -> None:
    config = harbour / "harbour.toml"
    changed = config.read_text(encoding="utf-8").replace("harbour", "port", 1)
    screen = open_chat(HARBOUR, "Hello.", "Hello again.")
    config.write_text(f"{changed}[chat", encoding="utf-8")
    screen.enter("hi", "Configuration changed on disk. Run /mcp reload", "◆ Hello.")
    lines = screen.enter("/mcp reload", "not valid TOML")
    assert sum("Configuration changed" in line for line in lines) == 1, "a message says it, not the command itself"
    config.write_text(changed, encoding="utf-8")
    screen.enter("/clear", "Conversation cleared.")
    screen.enter("/mcp reload", "started or stopped: harbour, port", "port  connected  5 tools")
