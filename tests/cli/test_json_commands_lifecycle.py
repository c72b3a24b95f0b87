"""How one-shot commands end: by signals, with closed or full streams, without printing secrets or leaving servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from macos import PROC
from mcp_client.chaos_http import open_site
from mcp_client.chaos_sse import open_event_site
from mcp_client.faults import left_behind, wait_until_gone
from processes import find_processes
from shell import Shell, wait_until
from stage import PROGRAM

SECRET = "s3cr3t-v4lue-of-mine"


@pytest.mark.parametrize(
    ("number", "mode", "method", "phase"),
    [
        (signal.SIGINT, "hang-on-init", "initialize", "start"),
        (signal.SIGTERM, "list-hang", "tools/list", "list"),
        (signal.SIGHUP, "hang-call", "tools/call", "call"),
    ],
)
def test_a_signal_in_any_phase_ends_the_command_with_a_document(
    number: signal.Signals, mode: str, method: str, phase: str, shell: Shell
) -> None:
    shell.add_chaos(mode)
    process = shell.start("call-tool", "chaos.act")
    wait_until(lambda: shell.received(method))
    process.send_signal(number)
    document = shell.read(*process.communicate(timeout=10), process.returncode)
    assert document["error"]["type"] == "Interrupted" and number.name in document["error"]["message"]
    assert document["error"]["details"] == {"phase": phase, "signal": number.name}


def test_a_signal_while_arguments_are_read_ends_the_command(shell: Shell) -> None:
    shell.add_chaos()
    process = shell.start("call-tool", "chaos.act", "--args", "-", stdin=subprocess.PIPE)
    wait_until(lambda: reads_standard_input(process.pid))
    process.send_signal(signal.SIGINT)
    document = shell.read(*process.communicate(timeout=10), process.returncode)
    assert document["error"]["details"]["phase"] == "arguments"
    assert shell.events("start") == []


def reads_standard_input(pid: int) -> bool:
    """Whether a process waits in a read of its descriptor 0."""
    try:
        words = Path(f"{PROC}/{pid}/syscall").read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return False
    return words[:2] == [str(READ), "0x0"]


READ = {"x86_64": 0, "aarch64": 63}[os.uname().machine]


@pytest.mark.parametrize(("open_server", "transport"), [(open_site, "http"), (open_event_site, "sse")])
def test_a_signal_while_a_remote_server_is_silent_ends_the_command(
    open_server: Callable[[str], Any], transport: str, shell: Shell
) -> None:
    """Over HTTP without the SDK, over SSE with it."""
    with open_server("call-silent") as site:
        shell.add("site", url=site.url, transport=transport)
        process = shell.start("call-tool", "site.act")
        wait_until(lambda: site.called("act"))
        process.send_signal(signal.SIGINT)
        document = shell.read(*process.communicate(timeout=10), process.returncode)
    assert document["error"]["details"] == {"phase": "call", "signal": "SIGINT"}


@pytest.mark.slow
def test_a_signal_while_the_server_ends_changes_nothing(shell: Shell) -> None:
    shell.add_chaos("ignore-sigterm")
    process = shell.start("call-tool", "chaos.act")
    wait_until(lambda: shell.events("eof"))
    process.send_signal(signal.SIGINT)
    document = shell.read(*process.communicate(timeout=10), process.returncode)
    assert document["ok"]


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(shell: Shell) -> None:
    shell.add_chaos("late-reply", delay_s=0.4)
    command = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *PROGRAM, "call-tool", "chaos.act"]
    with subprocess.Popen(command, env=shell.environment, cwd=shell.folder, stdout=subprocess.PIPE) as process:
        wait_until(lambda: shell.received("tools/call"))
        process.send_signal(signal.SIGHUP)
        output, _ = process.communicate(timeout=10)
    assert json.loads(output)["ok"]


def test_a_killed_command_leaves_no_server(shell: Shell) -> None:
    shell.add_chaos("fork-child-and-stay")
    process = shell.start("call-tool", "chaos.act")
    wait_until(lambda: shell.events("child"))
    process.kill()
    process.communicate(timeout=10)
    assert left_behind(shell.folder, "chaos", limit_s=5) == []


@pytest.mark.slow
def test_the_document_is_printed_before_the_server_has_ended(shell: Shell) -> None:
    shell.add_chaos("ignore-sigterm")
    process = shell.start("call-tool", "chaos.act")
    assert process.stdout
    assert json.loads(process.stdout.readline())["ok"]
    server = shell.events("start")[0]["pid"]
    assert wait_until_gone([server], 0) == [server]
    process.communicate(timeout=10)
    assert left_behind(shell.folder, "chaos") == []


@pytest.mark.parametrize("mode", ["large-result", pytest.param("ignore-eof", marks=pytest.mark.slow)])
def test_a_closed_pipe_causes_no_error_message(mode: str, shell: Shell) -> None:
    shell.add_chaos(mode)
    with shell.start("call-tool", "chaos.act") as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=10) == 1
    assert left_behind(shell.folder, "chaos") == []


@pytest.mark.parametrize("closed", ["<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_cause_no_error_message(closed: str, shell: Shell) -> None:
    shell.add_chaos()
    line = f'"$@" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", line, "sh", *PROGRAM, "call-tool", "chaos.echo", "--args", '{"text": "x"}'],
        env=shell.environment,
        cwd=shell.folder,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.stderr == b""
    if ">&-" in closed.split():
        assert (done.returncode, done.stdout) == (1, b"")
    else:
        assert json.loads(done.stdout)["result"]["content"][0]["text"] == "x"
    assert left_behind(shell.folder, "chaos") == []


def test_a_full_disk_causes_no_error_message(shell: Shell) -> None:
    shell.add_chaos()
    with Path("/dev/full").open("wb") as full:
        process = shell.start("list-tools", "--server", "chaos", stdout=full)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (1, b"")


def test_a_nonblocking_standard_output_gets_the_whole_document(shell: Shell) -> None:
    shell.add_chaos("large-result")
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with shell.start("call-tool", "chaos.act", stdout=write_end) as process:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as output:
            document = json.loads(output.read())
        assert process.wait(timeout=10) == 0
    assert len(document["result"]["content"][0]["text"]) == 3_000_000


def test_secrets_are_not_in_the_list_of_processes(shell: Shell) -> None:
    shell.environment |= {"MY_TOKEN": SECRET}
    shell.add_chaos("hang-call", env={"API_TOKEN": "${MY_TOKEN}"})
    process = shell.start("call-tool", "chaos.act", forks=False)
    wait_until(lambda: shell.received("tools/call"))
    assert find_processes("mcp_client.chaos")
    assert not find_processes(SECRET)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)


HEAVY = ("mcp", "mcp_types", "pydantic", "jsonschema", "rich", "prompt_toolkit", "httpx2", "asyncio", "argparse")


def evaluate_at_end(shell: Shell, expression: str, *arguments: str) -> str:
    """What an expression is in the process of a command when it ends."""
    code = (
        "import os, sys\n"
        "end = os._exit\n"
        "def tell(code):\n"
        f"    os.write(2, str({expression}).encode())\n"
        "    end(code)\n"
        "os._exit = tell\n"
        f"sys.argv = ['rkllm-chat', *{list(arguments)!r}]\n"
        "from rkllm_chat.__main__ import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=shell.environment,
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert json.loads(done.stdout)["ok"], done.stdout
    return done.stderr


def imported(shell: Shell, *arguments: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    return set(evaluate_at_end(shell, "' '.join(sys.modules)", *arguments).split())


def test_a_command_over_plain_http_imports_no_sdk(shell: Shell) -> None:
    with open_site("ok") as site:
        modules = imported(shell, "call-tool", "echo", "--url", site.url)
    assert modules & set(HEAVY) == set() and "http.client" in modules


@pytest.mark.slow
def test_a_command_over_sse_imports_no_sdk_either(shell: Shell) -> None:
    with open_event_site("ok") as site:
        shell.add("site", url=site.url, transport="sse")
        modules = imported(shell, "list-tools", "--server", "site")
    assert modules & {"mcp", "mcp_types"} == set() and "httpx2" in modules


def test_a_command_takes_little_memory(shell: Shell) -> None:
    shell.add_chaos()
    status = evaluate_at_end(shell, f"open('{PROC}/self/status').read()", "call-tool", "chaos.echo")
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert 5_000 < peak_kb < 20 * 1024
