"""A server that stays for the next call: used when it is asked for, private, and ended by itself whatever happens."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from servers.faults import is_there, left_behind
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


def test_the_next_call_finds_the_server_as_the_last_one_left_it(shell: Shell) -> None:
    shell.add_chaos()
    answers = {ask(shell) for _ in range(3)}
    assert answers == {'{"ok": true, "result": {"content": [{"type": "text", "text": "x"}]}}\n'}
    assert len(shell.events("start")) == len(shell.heard("initialize")) == 1
    assert len(shell.heard("tools/call")) == 3


def test_what_was_agreed_on_is_known_to_the_next_call(shell: Shell) -> None:
    shell.add_chaos()
    metas = [ask(shell, "list-tools", "--server", "chaos", "--meta", *STAY) for _ in range(2)]
    for meta in metas:
        assert '"protocolVersion": "2025-11-25"' in meta and '"serverInfo": {"name": "chaos", "version": "1"}' in meta


@pytest.mark.parametrize("eras", ["handshake", "modern"])
def test_both_eras_are_kept(eras: str, shell: Shell) -> None:
    shell.add_chaos(eras=eras)
    assert ask(shell) == ask(shell)
    assert len(shell.events("start")) == 1


def test_it_ends_by_itself_when_nobody_calls(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    assert '"ok": true' in ask(shell, *CALL, "--keep-alive", "0.3")
    assert left_behind(shell.folder, "chaos", limit_s=5) == []
    wait_until(lambda: not list(sockets.iterdir()))


def test_zero_ends_it_after_this_call(shell: Shell) -> None:
    shell.add_chaos()
    ask(shell)
    assert '"ok": true' in ask(shell, *CALL, "--keep-alive", "0")
    assert left_behind(shell.folder, "chaos", limit_s=5) == []
    assert len(shell.events("start")) == 1


def test_a_call_that_does_not_say_so_neither_keeps_a_server_nor_uses_one(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    assert shell.result(*CALL)
    assert not sockets.exists()
    ask(shell)
    process = shell.start(*CALL)
    process.communicate(timeout=30)
    assert len(shell.events("start")) == 3


def test_the_socket_is_its_owners_alone(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    ask(shell)
    (socket,) = sockets.iterdir()
    assert (sockets.stat().st_mode & 0o777, socket.stat().st_mode & 0o777) == (0o700, 0o600)


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


def test_a_server_that_dies_in_a_call_is_told_with_its_last_words(shell: Shell) -> None:
    shell.add_chaos("crash-mid-call")
    error = shell.error("call-tool", "chaos.act", *STAY)
    assert (error["type"], error["details"]["exit_code"]) == ("ConnectionError", 7)
    assert error["details"]["stderr"] == "I am dying"


def test_a_server_that_cannot_be_started_is_told_as_ever(shell: Shell) -> None:
    shell.add("none", command="no-such-command")
    error = shell.error("list-tools", "--server", "none", *STAY)
    assert error["type"] == "ConnectionError" and 'the command "no-such-command" cannot be found' in error["message"]


def test_a_site_cannot_be_kept(shell: Shell) -> None:
    error = shell.error("list-tools", "--url", "http://127.0.0.1:9/", *STAY)
    assert error["type"] == "UsageError" and "no process" in error["message"]


def test_a_call_that_is_stopped_is_given_up_and_the_server_stays(shell: Shell) -> None:
    shell.add_chaos("hang-call")
    process = shell.start("call-tool", "chaos.act", *STAY)
    wait_until(lambda: shell.heard("tools/call"))
    process.send_signal(signal.SIGINT)
    assert b'"Interrupted"' in process.communicate(timeout=10)[0]
    wait_until(lambda: shell.heard("notifications/cancelled"))
    (call,), (cancelled,) = shell.heard("tools/call"), shell.heard("notifications/cancelled")
    assert cancelled["params"]["requestId"] == call["id"]
    assert '"text": "x"' in ask(shell)
    assert len(shell.events("start")) == 1


def test_an_answer_that_comes_too_late_is_not_taken_for_another(shell: Shell) -> None:
    shell.add_chaos("late-reply", delay_s=1.0)
    assert '"TimeoutError"' in ask(shell, "call-tool", "chaos.act", "--timeout", "0.4", *STAY)
    assert '"text": "x"' in ask(shell)
    assert '"LATE-RESULT"' in ask(shell, "call-tool", "chaos.act", *STAY)
    assert len(shell.events("start")) == 1


def test_a_keeper_that_is_killed_takes_its_server_along(shell: Shell, sockets: Path) -> None:
    shell.add_chaos()
    ask(shell)
    server = shell.events("start")[0]["pid"]
    keeper = int(Path(f"/proc/{server}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not is_there(server))
    assert '"ok": true' in ask(shell, *CALL, "--keep-alive", "0")
    wait_until(lambda: not list(sockets.iterdir()))


def test_two_calls_at_once_do_not_wait_for_each_other(shell: Shell) -> None:
    shell.add_chaos("late-reply", delay_s=1.0)
    both = [shell.start("call-tool", "chaos.act", "--keep-alive", "0") for _ in range(2)]
    assert [b'"LATE-RESULT"' in process.communicate(timeout=20)[0] for process in both] == [True, True]
    assert left_behind(shell.folder, "chaos", limit_s=5) == []


def test_what_large_calls_carry_goes_through_whole(shell: Shell) -> None:
    shell.add_chaos("garbage-stdout")
    (shell.folder / "big.json").write_text('{"text": "%s"}' % ("y" * 3_000_000), encoding="utf-8")
    for _ in range(2):
        assert ask(shell, "call-tool", "chaos.echo", "--args", "@big.json", *STAY).count("y") > 3_000_000 - 1
    assert len(shell.events("start")) == 1
