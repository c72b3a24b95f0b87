"""The whole program beside misbehaving servers: a clean terminal, an end in time, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rkllm_chat.config import ServerConfig
from rkllm_chat.desk import FIRST_S
from stage import Screen, call_text
from targets import Tell

from .faults import SLACK, TESTS, chaos, fault, left_behind, read_events, rows

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]

# What no server may have a terminal do: its title, its clipboard, a device string, another screen, a beep.
FORBIDDEN = (b"\x1b]0;owned", b"\x1b]52", b"\x1bP1$r", b"\x1b[?1049h", b"\x9b31m", b"\x07")


def write_config(folder: Path, servers: Sequence[ServerConfig]) -> str:
    """The servers as other programs write them."""
    entries = {
        one.name: {"command": one.command, "args": [*one.args], "env": dict(one.env), "timeout_s": one.timeout_s}
        for one in servers
    }
    (folder / "servers.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    return "servers.json"


@pytest.mark.parametrize(
    "mode",
    rows(
        ("F79", "ansi-escape"),
        ("F79", "rpc-error"),
        ("F79", "exit-at-start"),
        ("F79", "poisoned-desc"),
        ("F12", "garbage-stdout"),
        ("F22", "pretty-json"),
        ("F25", "huge-result"),
        ("F32", "crash-mid-call"),
        ("F44", "close-stdin-but-live"),
        ("F71", "list-null"),
    ),
)
def test_the_terminal_is_clean_and_the_chat_goes_on(
    mode: str, open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    servers = [chaos(folder, mode), chaos(folder, "ok", "fine")]
    replies = script(call_text("chaos__act"), "One.", call_text("fine__echo", text="well"), "Two.")
    screen = open_screen("--model", replies, "--config", write_config(folder, servers), "--allow", "*")
    screen.wait_for_prompt()
    screen.type("act\r")
    screen.wait_for("One.")
    screen.wait_for_prompt()
    screen.type("echo\r")
    screen.wait_for("Two.")
    screen.wait_for_prompt()
    screen.type("/tools\r")
    screen.wait_for_prompt()
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0
    assert [escape for escape in FORBIDDEN if escape in screen.bytes] == []
    assert b"Traceback" not in screen.bytes
    assert [pid for server in servers for pid in left_behind(folder, server.name)] == []
    assert "echo" in str(read_events(folder, "fine"))


@fault("F04", "hang-on-init", "slow-start")
def test_the_prompt_does_not_wait_for_a_server_that_hangs(
    mode: str, open_screen: OpenScreen, script: Script, folder: Path, figure: Tell
) -> None:
    config = write_config(folder, [chaos(folder, mode, delay_s=20)])
    started = time.monotonic()
    screen = open_screen("--model", script("Hello."), "--config", config)
    screen.wait_for_prompt()
    figure(6, time.monotonic() - started)
    begun = time.monotonic()
    screen.type("hello\r")
    screen.wait_for("Hello.", seconds=10)
    assert time.monotonic() - begun <= FIRST_S + 1 * SLACK
    screen.wait_for_prompt()
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0


@fault("F45", "ignore-sigterm")
def test_the_program_leaves_within_three_seconds_whatever_its_servers_do(
    mode: str, open_screen: OpenScreen, script: Script, folder: Path, figure: Tell
) -> None:
    modes = (mode, mode, "ignore-eof", "fork-child-and-stay", mode)
    servers = [chaos(folder, mode, f"stuck{number}") for number, mode in enumerate(modes)]
    screen = open_screen("--model", script("Hello."), "--config", write_config(folder, servers))
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    begun = time.monotonic()
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0
    figure(5, spent := time.monotonic() - begun)
    assert spent <= 3.5
    assert [pid for server in servers for pid in left_behind(folder, server.name)] == []


@fault("F47", "ok", "ignore-eof", "ignore-sigterm", "fork-child", "fork-child-and-stay", "fork-child-setsid")
def test_a_client_that_is_killed_leaves_no_server_behind(mode: str, tmp_path: Path, figure: Tell) -> None:
    command = [sys.executable, "-m", "servers.faults", mode, str(tmp_path), "--stay"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path[1:]])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as client:
        assert client.stdout
        assert client.stdout.readline() == b"open\n"
        client.send_signal(signal.SIGKILL)
    left = [pid for server in ("chaos", "fine") for pid in left_behind(tmp_path, server, 1 * SLACK)]
    figure(4, len(left), of=1)
    assert left == []


@fault("F50", "hang-call")
def test_servers_do_not_see_the_ctrl_c_of_the_terminal(
    mode: str, open_screen: OpenScreen, script: Script, folder: Path, figure: Tell
) -> None:
    config = write_config(folder, [chaos(folder, mode)])
    replies = script(call_text("act"), "Never.", "Well.")
    screen = open_screen("--model", replies, "--config", config, "--allow", "*")
    screen.wait_for_prompt()
    screen.type("act\r")
    screen.wait_for("Calling tool")
    begun = time.monotonic()
    screen.type("\x03")
    screen.wait_for_prompt()
    figure(7, spent := time.monotonic() - begun)
    assert spent <= 0.5 * SLACK
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0
    events = read_events(folder, "chaos")
    assert [entry for entry in events if entry["event"] == "signal"] == []
    assert "notifications/cancelled" in str(events)
