"""How one-shot commands end: stopped at any moment, with nobody reading, with secrets about, and with what imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servers.chaos_http import open_site
from servers.chaos_sse import open_event_site
from servers.faults import left_behind, wait_until_gone
from shell import Shell, serving, wait_until
from stage import PROGRAM

SECRET = "s3cr3t-v4lue-of-mine"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("mode", "method", "phase"),
    [("hang-on-init", "initialize", "start"), ("list-hang", "tools/list", "list"), ("hang-call", "tools/call", "call")],
)
def test_a_signal_in_any_phase_ends_the_command_with_a_document(
    mode: str, method: str, phase: str, number: signal.Signals, shell: Shell
) -> None:
    shell.add_chaos(mode)
    process = shell.start("call-tool", "chaos.act")
    wait_until(lambda: shell.heard(method))
    process.send_signal(number)
    document = shell.read(*process.communicate(timeout=10), process.returncode)
    details = {"phase": phase, "signal": number.name}
    assert document["error"] == {"type": "Interrupted", "message": f"Stopped by {number.name}.", "details": details}


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
        words = Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return False
    return words[:2] == [str(READ), "0x0"]


READ = {"x86_64": 0, "aarch64": 63}[os.uname().machine]


def test_a_signal_while_a_site_is_silent_ends_the_command(shell: Shell) -> None:
    with open_site("call-silent") as site:
        process = shell.start("call-tool", "act", "--url", site.url)
        wait_until(lambda: site.called("act"))
        process.send_signal(signal.SIGINT)
        document = shell.read(*process.communicate(timeout=10), process.returncode)
    assert document["error"]["type"] == "Interrupted"


def test_a_signal_while_the_sdk_waits_ends_the_command(shell: Shell) -> None:
    with open_event_site("call-silent") as site:
        shell.add("site", url=site.url, transport="sse")
        process = shell.start("call-tool", "site.act")
        wait_until(lambda: site.called("act"))
        process.send_signal(signal.SIGINT)
        document = shell.read(*process.communicate(timeout=10), process.returncode)
    assert document["error"]["details"] == {"phase": "call", "signal": "SIGINT"}


def test_a_signal_while_the_server_ends_changes_nothing(shell: Shell) -> None:
    shell.add_chaos("ignore-sigterm")
    process = shell.start("call-tool", "chaos.act")
    wait_until(lambda: shell.events("eof"))
    process.send_signal(signal.SIGINT)
    document = shell.read(*process.communicate(timeout=10), process.returncode)
    assert document["ok"]


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(shell: Shell) -> None:
    shell.add_chaos("late-reply", delay_s=1.0)
    command = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *PROGRAM, "call-tool", "chaos.act"]
    with subprocess.Popen(command, env=shell.environment, cwd=shell.folder, stdout=subprocess.PIPE) as process:
        wait_until(lambda: shell.heard("tools/call"))
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


def test_the_document_is_out_before_the_server_has_ended(shell: Shell) -> None:
    shell.add_chaos("ignore-sigterm")
    process = shell.start("call-tool", "chaos.act")
    assert process.stdout
    assert json.loads(process.stdout.readline())["ok"]
    server = shell.events("start")[0]["pid"]
    assert wait_until_gone([server], 0) == [server]
    process.communicate(timeout=10)
    assert left_behind(shell.folder, "chaos") == []


@pytest.mark.parametrize("mode", ["ok", "large-result", "ignore-eof"])
def test_a_reader_who_leaves_early_is_no_trouble(mode: str, shell: Shell) -> None:
    shell.add_chaos(mode)
    with shell.start("call-tool", "chaos.act") as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=10) == 1
    assert left_behind(shell.folder, "chaos") == []


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_trouble(closed: str, shell: Shell) -> None:
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


def test_a_full_disk_is_no_trouble(shell: Shell) -> None:
    shell.add_chaos()
    with Path("/dev/full").open("wb") as full:
        process = shell.start("list-tools", "--server", "chaos", stdout=full)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (1, b"")


def test_a_standard_output_that_does_not_block_gets_everything(shell: Shell) -> None:
    shell.add_chaos("large-result")
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with shell.start("call-tool", "chaos.act", stdout=theirs) as process:
        os.close(theirs)
        with os.fdopen(ours, "rb") as output:
            document = json.loads(output.read())
        assert process.wait(timeout=10) == 0
    assert len(document["result"]["content"][0]["text"]) == 3_000_000


SPILL = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    told = " ".join([os.environ["API_TOKEN"], sys.argv[1], os.environ["PLAIN"]])
    sys.stderr.write(told + "\\n")
    sys.stderr.flush()
    if message["method"] == WHEN:
        if HOW == "die":
            sys.exit(told)
        body = {"error": {"code": -1, "message": told, "data": {told: [told]}}} if HOW == "error" else {"result": {
            "content": [{"type": "text", "text": told}], "isError": HOW == "is error"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
    elif "id" in message:
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "spill",
                  "version": "1"}, "tools": [{"name": "tell", "inputSchema": {"type": "object"}}]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("how", ["result", "is error", "error", "die"])
@pytest.mark.parametrize("when", ["tools/call", "tools/list", "initialize"])
def test_secrets_come_out_nowhere(how: str, when: str, shell: Shell) -> None:
    (shell.folder / "spill.py").write_text(f"WHEN, HOW = {when!r}, {how!r}\n{SPILL}", encoding="utf-8")
    shell.environment |= {"MY_KEY": SECRET + "-1", "MY_TOKEN": SECRET + "-2"}
    env = {"API_TOKEN": "${MY_TOKEN}", "PLAIN": "plain-words"}
    shell.add("spill", command=sys.executable, args=["spill.py", "${MY_KEY}"], env=env)
    for line in (["call-tool", "spill.tell", "--meta"], ["call-tool", "spill.tell", "--no-check"], ["list-servers"]):
        document = shell.run(*line)
        assert SECRET not in json.dumps(document), document
        if not document["ok"]:
            assert "plain-words" not in json.dumps(document)
        elif line[0] == "call-tool" and when == "tools/call":  # a result is the user's own, but for what is a secret
            assert document["result"]["content"][0]["text"] == "[redacted] [redacted] plain-words"


def test_secrets_do_not_stand_in_the_process_list(shell: Shell) -> None:
    shell.environment |= {"MY_TOKEN": SECRET}
    shell.add_chaos("hang-call", env={"API_TOKEN": "${MY_TOKEN}"})
    process = shell.start("call-tool", "chaos.act")
    wait_until(lambda: shell.heard("tools/call"))
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert any(b"servers.chaos" in line for line in lines)
    assert not any(SECRET.encode() in line for line in lines)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)


HEAVY = ("mcp", "mcp_types", "pydantic", "jsonschema", "rich", "prompt_toolkit", "httpx2", "asyncio", "argparse")
LIGHT = ("subprocess", "dataclasses", "typing", "pathlib", "inspect", "logging", "shutil", "tempfile", "ssl")


def told_at_end(shell: Shell, expression: str, *arguments: str) -> str:
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
    return set(told_at_end(shell, "' '.join(sys.modules)", *arguments).split())


@pytest.mark.parametrize("command", ["list-tools", "call-tool", "list-servers"])
def test_a_command_over_pipes_imports_nothing_that_costs(command: str, shell: Shell) -> None:
    shell.add_chaos()
    lines = {"call-tool": ["chaos.echo", "--args", '{"text": "x"}'], "list-tools": ["--server", "chaos"]}
    unwanted = {*HEAVY, *(LIGHT if command in lines else ())}
    assert imported(shell, command, *lines.get(command, [])) & unwanted == set()


def test_a_command_over_plain_http_imports_no_sdk(shell: Shell) -> None:
    with open_site("ok") as site:
        modules = imported(shell, "call-tool", "echo", "--url", site.url)
    assert modules & set(HEAVY) == set() and "http.client" in modules


def test_what_the_small_client_does_not_speak_goes_through_the_sdk(shell: Shell) -> None:
    with serving("sse", dict(os.environ)) as entry:
        shell.add("full", **entry)
        assert "mcp" in imported(shell, "list-prompts", "--server", "full")


def test_a_command_takes_little_memory(shell: Shell) -> None:
    shell.add_chaos()
    status = told_at_end(shell, "open('/proc/self/status').read()", "call-tool", "chaos.echo")
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert 5_000 < peak_kb < 20 * 1024


def test_a_server_that_does_not_want_to_end_is_ended_in_time(shell: Shell) -> None:
    shell.add_chaos("ignore-sigterm")
    begun = time.monotonic()
    assert shell.result("call-tool", "chaos.act")
    assert time.monotonic() - begun < 10
