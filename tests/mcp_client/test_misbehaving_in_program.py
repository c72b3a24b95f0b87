"""The whole program beside misbehaving servers: a clean terminal, an end in time, and no process left behind."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from cpu_time import allow_s
from fuzzing import examples
from processes import find_processes
from rkllm_chat.chat.server_events import SERVER_START_WAIT_S
from rkllm_chat.config.settings import ServerConfig
from shell import Shell, wait_until
from stage import OpenScreen, Screen, Script, call_text

from .faults import chaos, client_environment, left_behind, read_events

# What no server may have a terminal do: its title, its clipboard, a device string, another screen, a beep.
FORBIDDEN = (b"\x1b]0;owned", b"\x1b]52", b"\x1bP1$r", b"\x1b[?1049h", b"\x9b31m", b"\x07")
CALLED = ("ansi-escape", "rpc-error", "poisoned-desc", "garbage-stdout", "huge-result", "crash-mid-call")
NOT_CALLED = ("exit-at-start", "list-null")


def write_config(folder: Path, servers: Sequence[ServerConfig]) -> str:
    """Write the servers as other programs do; gives the file's name."""
    entries = {
        server.name: {
            "command": server.command,
            "args": [*server.args],
            "env": dict(server.env),
            "timeout_s": server.timeout_s,
        }
        for server in servers
    }
    (folder / "servers.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    return "servers.json"


def leave(screen: Screen) -> None:
    screen.wait_for_prompt()
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0


@pytest.mark.slow
def test_the_terminal_is_clean_and_the_chat_goes_on(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    servers = [*(chaos(folder, mode, mode) for mode in (*CALLED, *NOT_CALLED)), chaos(folder, "ok", "fine")]
    replies = [reply for mode in CALLED for reply in (call_text(f"{mode}__act"), f"Reply to {mode}.")]
    model = script(*replies, call_text("fine__echo", text="well"), "The last reply.")
    screen = open_screen("--model", model, "--config", write_config(folder, servers), "--allow", "*")
    for mode in CALLED:
        screen.wait_for_prompt()
        screen.type("act\r")
        screen.wait_for(f"Reply to {mode}.")
    screen.wait_for_prompt()
    screen.type("echo\r")
    screen.wait_for("The last reply.")
    screen.wait_for_prompt()
    screen.type("/tools list\r")
    leave(screen)
    assert [escape for escape in FORBIDDEN if escape in screen.bytes] == []
    assert b"Traceback" not in screen.bytes
    assert [pid for server in servers for pid in left_behind(folder, server.name)] == []
    assert "echo" in str(read_events(folder, "fine"))


@pytest.mark.slow
def test_the_prompt_does_not_wait_for_a_server_that_hangs(
    open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    config = write_config(folder, [chaos(folder, mode, mode, delay_s=20) for mode in ("hang-on-init", "slow-start")])
    screen = open_screen("--model", script("Hello."), "--config", config)
    screen.wait_for_prompt()
    begun = time.monotonic()
    screen.type("hello\r")
    screen.wait_for("waiting for hang-on-init, ", seconds=10)
    assert time.monotonic() - begun <= SERVER_START_WAIT_S + allow_s(1)
    screen.say("\r", "Hello.")
    leave(screen)


@pytest.mark.slow
def test_the_program_leaves_within_three_seconds_whatever_its_servers_do(
    open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    stuck = ("ignore-sigterm", "ignore-sigterm", "ignore-eof", "fork-child-and-stay", "ignore-sigterm")
    servers = [chaos(folder, mode, f"stuck{number}") for number, mode in enumerate(stuck)]
    screen = open_screen("--model", script("Hello."), "--config", write_config(folder, servers))
    screen.wait_for("for commands, Ctrl+D to exit")
    screen.wait_for_prompt()
    begun = time.monotonic()
    leave(screen)
    assert time.monotonic() - begun <= 3 + allow_s(0.5)
    assert [pid for server in servers for pid in left_behind(folder, server.name)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "modes",
    [
        ("ok", "ignore-eof", "ignore-sigterm", "fork-child", "fork-child-and-stay"),
        pytest.param(("fork-child-setsid",), marks=pytest.mark.proc),
    ],
    ids=["own group", "other group"],
)
def test_a_client_that_is_killed_leaves_no_server_behind(modes: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mcp_client.faults", str(tmp_path), *modes, "--stay"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=client_environment()) as client:
        assert client.stdout
        assert client.stdout.readline() == b"open\n"
        client.send_signal(signal.SIGKILL)
    assert all(read_events(tmp_path, mode) for mode in modes)
    assert [pid for mode in modes for pid in left_behind(tmp_path, mode, allow_s(1))] == []


def test_servers_do_not_see_the_ctrl_c_of_the_terminal(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    config = write_config(folder, [chaos(folder, "hang-call")])
    replies = script(call_text("act"), "Never.", "Well.")
    screen = open_screen("--model", replies, "--config", config, "--allow", "*")
    screen.wait_for_prompt()
    screen.type("act\r")
    screen.wait_for("Calling tool")
    begun = time.monotonic()
    screen.type("\x03")
    screen.wait_for_prompt()
    assert time.monotonic() - begun <= allow_s(0.5)
    leave(screen)
    events = read_events(folder, "chaos")
    assert [entry for entry in events if entry["event"] == "signal"] == []
    assert "notifications/cancelled" in str(events)


CALL = ("call-tool", "stubborn.act")
STUBBORN = "trap '' TERM HUP; while :; do sleep 60; done"
"""A server that ignores the end of its input and SIGTERM."""


def add_stubborn(shell: Shell, script: str = STUBBORN, sandbox: str = "off") -> str:
    """Configure the server; return a word of its command line."""
    word = f"stubborn-{shell.folder}"  # not that of a run of these tests beside this one
    shell.add("stubborn", command="/bin/sh", args=["-c", script, word], sandbox=sandbox)
    return word


@pytest.mark.slow
@pytest.mark.proc  # by the mark of its process: the guard has not been told its group
def test_a_server_that_kills_its_client_at_once_is_stopped_too(shell: Shell) -> None:
    word = add_stubborn(shell, f"trap '' TERM HUP; kill -KILL $PPID; echo killed >told; {STUBBORN}")
    with shell.start(*CALL, forks=False) as process:
        assert process.wait(30) == -9
    wait_until((shell.folder / "told").exists)
    wait_until(lambda: not find_processes(word))


@pytest.mark.slow
@pytest.mark.proc  # as above: it may be killed before the guard has been told
@pytest.mark.parametrize("sandbox", ["off", pytest.param("on", marks=pytest.mark.sandbox)])
def test_a_command_killed_at_any_moment_leaves_no_server(sandbox: str, shell: Shell) -> None:
    word = add_stubborn(shell, sandbox=sandbox)
    chance = random.Random(sandbox)
    with shell.start(*CALL, forks=False) as process:
        started_at = time.monotonic()
        wait_until(lambda: bool(find_processes(word)))
        start_s = time.monotonic() - started_at
        process.kill()
    wait_until(lambda: not find_processes(word))
    there = 0
    for _ in range(examples(20)):
        with shell.start(*CALL, forks=False) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 1.5 * start_s))  # a third of them once the server is there
            there += bool(find_processes(word))
            process.kill()
    assert there, "no server had been started"
    wait_until(lambda: not find_processes(word))
