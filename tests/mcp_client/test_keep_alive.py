"""--keep-alive: a server stays for the next call that asks for it, is private, and ends by itself."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import termios
from pathlib import Path

import pytest

from mcp_client.faults import left_behind
from processes import find_process, is_there
from rkllm_chat.mcp_client.direct.keep_alive_daemon import short_path
from shell import Shell, wait_until

CALL = ("call-tool", "chaos.echo", "--args", '{"text": "x"}')
STAY = ("--keep-alive", "60")


@pytest.fixture
def sockets(shell: Shell) -> Path:
    """Where the sockets of this user are."""
    runtime = shell.folder.parent / "runtime"
    runtime.mkdir()
    shell.environment["XDG_RUNTIME_DIR"] = str(runtime)
    return runtime / "rkllm-chat"


@pytest.fixture(autouse=True)
def nothing_stays(shell: Shell, sockets: Path) -> object:
    """Whatever a test kept is ended with it."""
    yield
    for event in shell.events("start"):
        if is_there(event["pid"]):
            os.kill(event["pid"], signal.SIGKILL)
    wait_until(lambda: not sockets.exists() or not list(sockets.iterdir()))


def ask(shell: Shell, *arguments: str) -> str:
    """What `echo` gives, by a call that keeps the server."""
    process = shell.start(*(arguments or (*CALL, *STAY)))
    output, errors = process.communicate(timeout=30)
    assert errors == b""
    return output.decode()


@pytest.mark.parametrize(("eras", "version"), [("handshake", "2025-11-25"), ("modern", "2026-07-28")])
def test_the_next_call_finds_the_server_as_the_last_one_left_it(
    eras: str, version: str, shell: Shell, sockets: Path
) -> None:
    shell.add_chaos(eras=eras)
    assert {ask(shell) for _ in range(2)} == {'{"ok": true, "result": {"content": [{"type": "text", "text": "x"}]}}\n'}
    meta = json.loads(ask(shell, "list-tools", "--server", "chaos", "--meta", *STAY))["meta"]
    assert meta["protocolVersion"] == version
    assert len(shell.events("start")) == len(shell.received("initialize")) == 1
    assert len(shell.received("tools/call")) == 2
    (socket,) = sockets.iterdir()
    assert (sockets.stat().st_mode & 0o777, socket.stat().st_mode & 0o777) == (0o700, 0o600)


def test_it_ends_when_its_time_is_over_or_the_next_call_says_zero(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    for seconds in ("0.3", "60"):
        assert '"ok": true' in ask(shell, *CALL, "--keep-alive", seconds)
        if seconds == "60":
            assert '"ok": true' in ask(shell, *CALL, "--keep-alive", "0")
        assert left_behind(shell.folder, "chaos", limit_s=5) == []
        wait_until(lambda: not list(sockets.iterdir()))
    assert len(shell.events("start")) == 2


def test_a_call_without_the_flag_neither_keeps_a_server_nor_uses_one(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    assert shell.result(*CALL)
    assert not sockets.exists()
    ask(shell)
    process = shell.start(*CALL)
    process.communicate(timeout=30)
    assert len(shell.events("start")) == 3


def test_a_folder_that_others_can_enter_is_refused(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    sockets.mkdir(mode=0o755)
    sockets.chmod(0o755)
    error = shell.error(*CALL, *STAY)
    assert (error["type"], error["details"]["path"]) == ("UsageError", str(sockets))
    assert shell.events("start") == []


def test_another_configuration_is_another_server(shell: Shell) -> None:
    for token in ("one", "two"):
        shell.add_chaos(env={"TOKEN": token})
        ask(shell)
    assert len(shell.events("start")) == 2


def test_a_server_that_died_meanwhile_is_started_again(shell: Shell) -> None:
    shell.add_chaos()
    ask(shell)
    server = shell.events("start")[0]["pid"]
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not is_there(server))
    assert '"ok": true' in ask(shell)
    assert len(shell.events("start")) == 2


def test_a_server_that_dies_in_a_call_is_reported_with_its_last_words(shell: Shell) -> None:
    shell.add_chaos("crash-mid-call")
    error = shell.error("call-tool", "chaos.act", *STAY)
    assert (error["type"], error["details"]["exit_code"]) == ("ConnectionError", 7)
    assert error["details"]["stderr"] == "I am dying"


def test_a_url_cannot_be_kept(shell: Shell) -> None:
    error = shell.error("list-tools", "--url", "http://127.0.0.1:9/", *STAY)
    assert error["type"] == "UsageError" and '"url"' in error["message"]


def test_an_interrupted_call_is_cancelled_and_the_server_stays(shell: Shell) -> None:
    shell.add_chaos("hang-call")
    process = shell.start("call-tool", "chaos.act", *STAY)
    wait_until(lambda: shell.received("tools/call"))
    process.send_signal(signal.SIGINT)
    assert b'"Interrupted"' in process.communicate(timeout=10)[0]
    wait_until(lambda: shell.received("notifications/cancelled"))
    (call,), (cancelled,) = shell.received("tools/call"), shell.received("notifications/cancelled")
    assert cancelled["params"]["requestId"] == call["id"]
    assert '"text": "x"' in ask(shell)
    assert len(shell.events("start")) == 1


def test_a_late_answer_is_not_that_of_the_next_call(shell: Shell) -> None:
    shell.add_chaos("late-reply", delay_s=0.5)
    assert '"TimeoutError"' in ask(shell, "call-tool", "chaos.act", "--timeout", "0.2", *STAY)
    assert '"text": "x"' in ask(shell)
    assert '"LATE-RESULT"' in ask(shell, "call-tool", "chaos.act", *STAY)
    assert len(shell.events("start")) == 1


def test_a_server_ends_with_its_keeper(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    ask(shell)
    server = shell.events("start")[0]["pid"]
    found = find_process(server)
    assert found
    os.kill(found.parent, signal.SIGKILL)
    wait_until(lambda: not is_there(server))
    assert '"ok": true' in ask(shell, *CALL, "--keep-alive", "0")
    wait_until(lambda: not list(sockets.iterdir()))


def test_a_malformed_control_line_does_not_end_the_daemon(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    ask(shell)
    (path,) = sockets.iterdir()
    for line in (b'{"keeper": broken}', b'{"keeper": 7}', b'{"keeper": {"seconds": "x", "session": 1}}'):
        with socket.socket(socket.AF_UNIX) as client, short_path(str(path)) as name:
            client.connect(name)
            assert client.recv(1 << 16).startswith(b'{"keeper":')
            client.sendall(line + b"\n")
        assert '"ok": true' in ask(shell)
    assert len(shell.events("start")) == 1


def test_concurrent_calls_do_not_wait_for_each_other(shell: Shell) -> None:
    shell.add_chaos("late-reply", delay_s=0.5)
    both = [shell.start("call-tool", "chaos.act", "--keep-alive", "0") for _ in range(2)]
    assert [b'"LATE-RESULT"' in process.communicate(timeout=20)[0] for process in both] == [True, True]
    assert left_behind(shell.folder, "chaos", limit_s=5) == []


def test_a_server_that_no_later_call_can_reach_ends_with_its_call(shell: Shell) -> None:
    shell.add_chaos("late-reply", delay_s=0.5)
    both = [shell.start("call-tool", "chaos.act", *STAY) for _ in range(2)]
    assert [b'"LATE-RESULT"' in process.communicate(timeout=20)[0] for process in both] == [True, True]
    assert len(shell.events("start")) == 2
    wait_until(lambda: sum(is_there(event["pid"]) for event in shell.events("start")) == 1)
    ask(shell)
    assert len(shell.events("start")) == 2


@pytest.mark.proc
def test_a_server_that_has_got_half_a_message_is_not_used_again(shell: Shell) -> None:
    shell.add_chaos()
    (shell.folder / "big.json").write_text('{"text": "%s"}' % ("y" * 1_000_000), encoding="utf-8")
    assert '"ok": true' in ask(shell)
    server = shell.events("start")[0]["pid"]
    os.kill(server, signal.SIGSTOP)
    process = shell.start("call-tool", "chaos.echo", "--args", "@big.json", "--no-check", *STAY)
    with Path(f"/proc/{server}/fd/0").open("rb", buffering=0) as pipe:
        wait_until(lambda: int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder) > 60_000)
    process.kill()
    process.communicate(timeout=10)
    wait_until(lambda: not is_there(server))
    assert '"ok": true' in ask(shell)
    assert len(shell.events("start")) == 2


@pytest.mark.proc
def test_a_daemon_waits_without_cpu_time_for_a_server_that_has_closed_its_standard_error(shell: Shell) -> None:
    shell.add_chaos("late-reply", delay_s=2)
    entry = shell.servers["chaos"]
    command = ["-c", 'exec "$@" 2>&-', "sh", entry["command"], *entry["args"]]
    shell.add("chaos", **{**entry, "command": "sh", "args": command, "sandbox": "off"})
    assert '"LATE-RESULT"' in ask(shell, "call-tool", "chaos.act", *STAY)
    server = find_process(shell.events("start")[0]["pid"])
    assert server
    fields = Path(f"/proc/{server.parent}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    used_s = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")  # in user and kernel mode (proc(5))
    assert used_s < 0.3


def test_a_folder_that_cannot_be_created_is_the_error_of_the_user(shell: Shell) -> None:
    shell.add_chaos()
    shell.environment["XDG_RUNTIME_DIR"] = str(shell.folder / "missing")
    error = shell.error(*CALL, *STAY)
    assert (error["type"], error["details"]["path"]) == ("UsageError", str(shell.folder / "missing" / "rkllm-chat"))


def test_large_arguments_and_results_are_passed_whole(shell: Shell) -> None:
    shell.add_chaos("garbage-stdout")
    (shell.folder / "big.json").write_text('{"text": "%s"}' % ("y" * 3_000_000), encoding="utf-8")
    for _ in range(2):
        assert ask(shell, "call-tool", "chaos.echo", "--args", "@big.json", *STAY).count("y") > 3_000_000 - 1
    assert len(shell.events("start")) == 1
