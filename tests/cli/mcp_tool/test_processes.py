"""How `mcp-tool` ends: no server is left, no secret is printed or stored, a failed write has its exit code."""

from __future__ import annotations

import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

import fork_server
from cli.mcp_tool.stage import COMMAND, Stage
from processes import is_there
from rkllm_chat.cli.json_commands.invocation import Invocation
from rkllm_chat.cli.mcp_tool.options import make_options
from rkllm_chat.cli.mcp_tool.run import report_error
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ConnectError
from rkllm_chat.core.redact import REDACTED

STOPS = (signal.SIGTERM, signal.SIGHUP)
SECRET = "s3cret-t0ken-of-mine"


def start(stage: Stage, *words: str, **options: Any) -> subprocess.Popen[str]:
    options = {"stderr": subprocess.PIPE, "text": True, **options}
    return fork_server.start([*COMMAND, *words], env=stage.environment, cwd=stage.folder, **options)


def configure(box: Stage, **env: str) -> None:
    """Give the server `box` other variables."""
    box.configure("box", {**box.servers["box"], "env": env})


def test_a_result_that_cannot_be_written_exits_with_8(box: Stage) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        process = start(box, "box__large", stdout=full)
        process.communicate(timeout=10)
    assert process.returncode == 8


def test_a_reader_that_closes_the_pipe_causes_no_traceback(box: Stage) -> None:
    with start(box, "box__large", stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        assert process.stdout.read(10) == "x" * 10
        process.stdout.close()
        assert process.stderr.read() == ""
    assert not any(map(is_there, box.processes()))


@pytest.mark.parametrize(
    ("tool", "output_format"),
    [("see", "json"), ("fail", "text"), ("die", "json"), pytest.param("hang", "text", marks=pytest.mark.slow)],
)
def test_an_expanded_token_is_neither_printed_nor_stored(tool: str, output_format: str, box: Stage) -> None:
    configure(box, API_TOKEN="${TOKEN}")
    box.environment["TOKEN"] = SECRET
    process = start(box, "--output", output_format, "--timeout", "0.6", f"box__{tool}", stdout=subprocess.PIPE)
    output, errors = process.communicate(timeout=10)
    assert SECRET not in output + errors
    stored = [path for path in Path(box.environment["HOME"]).rglob("*") if path.is_file()]
    assert stored and not any(SECRET in path.read_text(encoding="utf-8") for path in stored)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in stored)


@pytest.mark.parametrize(("server", "hidden"), [("one", ("one",)), ("two", ("two",)), (None, ("one", "two"))])
def test_an_error_line_hides_the_secrets_of_its_own_server(server: str | None, hidden: tuple[str, ...]) -> None:
    """An error that names no server hides those of all."""
    invocation = Invocation()
    for name in ("one", "two"):
        configured = ServerConfig(name, env={"TOKEN": f"s3cret-of-{name}"})
        invocation.select_server(configured, configured)
    error = ConnectError("Failed: s3cret-of-one, s3cret-of-two.", server=server)
    report_error(error, make_options(), invocation)
    shown = [REDACTED if name in hidden else f"s3cret-of-{name}" for name in ("one", "two")]
    assert invocation.notices == [f"Failed: {', '.join(shown)}."]


def test_a_server_that_cannot_be_listed_is_shown_without_its_secret(box: Stage) -> None:
    box.configure("broken", {"command": "/no/such/s3cret-program", "env": {"TOKEN": "s3cret-program"}})
    box.add("other", [{"name": "tool"}])
    shown = box.run("--help").stdout
    assert "/no/such/" in shown and "s3cret-program" not in shown


@pytest.mark.slow
def test_a_server_that_does_not_end_by_itself_is_killed_with_its_child(box: Stage) -> None:
    configure(box, STUBBORN="1", CHILD="1")
    assert box.run("box__say", "--x=1").stdout == "None\n"
    assert len(box.processes()) == 2 and not any(map(is_there, box.processes()))


@pytest.mark.parametrize("number", [signal.SIGINT, *(pytest.param(n, marks=pytest.mark.slow) for n in STOPS)])
def test_a_signal_ends_the_server_too(number: signal.Signals, box: Stage) -> None:
    configure(box, CHILD="1")
    process = start(box, "box__hang")
    box.wait_for_call()
    process.send_signal(number)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 128 + number
    assert number.name in errors and errors.count("\n") == 1
    assert len(box.processes()) == 2 and not any(map(is_there, box.processes()))


@pytest.mark.slow
def test_a_signal_ends_servers_that_are_still_starting(stage: Stage) -> None:
    stage.add("one", [{"name": "tool"}], env={"CHILD": "1", "WAITS_FOR": "nobody.record"})
    stage.add("two", [{"name": "tool"}], env={"CHILD": "1"})
    process = start(stage, "--help")
    stage.wait_for("one", "started")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130
    processes = [*stage.processes("one"), *stage.processes("two")]
    assert processes and not any(map(is_there, processes))
