"""Who is put into a sandbox and who is not, what is said of it, and what becomes of a machine that has none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.servers.programs import SANDBOX_VARIABLE
from shell import Shell
from stage import Screen

from .enclosed import PROBE, SECRET, Stage

pytestmark = pytest.mark.sandbox
ROOT = Path(__file__).parents[2]

# What stands in for bubblewrap on the PATH: one that a kernel lets do nothing, and one of an older release.
FORBIDDEN = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
OLD = """#!/bin/sh
for word; do
    case $word in
    --help) exec /usr/bin/bwrap --help 2>&1 | grep -v -e --disable-userns -e --size; exit ;;
    --disable-userns | --size) echo "bwrap: Unknown option $word" >&2; exit 1 ;;
    esac
done
exec /usr/bin/bwrap "$@"
"""


@pytest.fixture
def replaced(stage: Stage) -> Callable[[str], None]:
    """Puts another bubblewrap on the user's PATH, or none."""

    def replace(script: str) -> None:
        folder = stage.folder / "programs"
        folder.mkdir()
        if script:
            (folder / "bwrap").write_text(script, encoding="utf-8")
            (folder / "bwrap").chmod(0o755)
        stage.environment["PATH"] = str(folder) if not script else f"{folder}:{os.environ['PATH']}"

    return replace


@pytest.mark.parametrize(
    ("script", "cause"),
    [("", "bubblewrap is not installed"), (FORBIDDEN, "No permissions to create new namespace")],
    ids=["not installed", "forbidden"],
)
def test_where_there_can_be_no_sandbox_on_refuses_and_auto_does_without(
    script: str, cause: str, stage: Stage, replaced: Callable[[str], None]
) -> None:
    replaced(script)
    stage.add(sandbox="on")
    error = stage.call(["read", "~/.ssh/id_ed25519"])["error"]
    assert error["type"] == "ConnectionError" and cause in error["message"]
    assert "apt install bubblewrap" in error["details"]["hint"]
    stage.add()
    assert stage.try_out(["read", "~/.ssh/id_ed25519"]) == [f"ok {SECRET}"]


def test_an_older_bubblewrap_is_used_without_what_it_does_not_know(
    stage: Stage, replaced: Callable[[str], None]
) -> None:
    replaced(OLD)
    stage.add(sandbox="on")
    assert stage.try_out(["names", "~"], ["write", "/tmp/new.txt"]) == ["ok []", "ok"]


def test_what_bubblewrap_can_do_is_tried_once(stage: Stage, replaced: Callable[[str], None]) -> None:
    replaced(f'#!/bin/sh\necho "$1" >>{stage.folder}/started\nexec /usr/bin/bwrap "$@"\n')
    stage.add()
    (stage.folder / "started").touch(0o666)
    (stage.folder / "started").chmod(0o666)
    counts = []
    for _ in range(2):
        stage.try_out(["about"])
        counts.append(len((stage.folder / "started").read_text(encoding="utf-8").splitlines()))
    assert counts == [3, 4]  # --help, a trial, the server; then the server alone


def test_a_folder_to_write_that_is_not_there_is_an_error_that_names_it(stage: Stage) -> None:
    stage.add(write=["nowhere"])
    error = stage.call(["about"])["error"]
    assert f"there is no {stage.project}/nowhere" in error["message"]


def test_a_server_that_ships_needs_no_sandbox_and_works_in_one(shell: Shell) -> None:
    del shell.environment[SANDBOX_VARIABLE]
    shell.environment["PATH"] = "/nonexistent"  # no bubblewrap: that only matters where one is wanted
    shell.add("board", command="rkllm-chat", args=["serve", "board"])
    assert shell.result("call-tool", "board.calculate", "--args", '{"expression": "6 * 7"}')
    shell.environment["PATH"] = os.environ["PATH"]
    shell.add("board", command="rkllm-chat", args=["serve", "board"], sandbox="on")
    assert shell.result("call-tool", "board.calculate", "--args", '{"expression": "6 * 7"}')


def test_the_variable_says_what_auto_means(stage: Stage) -> None:
    stage.add()
    stage.environment[SANDBOX_VARIABLE] = "off"
    assert stage.try_out(["read", "~/.ssh/id_ed25519"]) == [f"ok {SECRET}"]
    stage.add(sandbox="on")
    assert stage.try_out(["names", "~"]) == ["ok []"]


def test_a_server_that_is_kept_is_kept_in_its_sandbox(stage: Stage) -> None:
    stage.add()
    given = json.dumps({"probes": [["names", "~"], ["about"]]})
    answers = []
    for seconds in ("30", "30", "0"):
        process = stage.start("call-tool", "probe.do", "--args", given, "--keep-alive", seconds)
        answers.append(json.loads(process.communicate(timeout=40)[0])["result"]["content"][0]["text"])
    assert [json.loads(answer)[0] for answer in answers] == ["ok []"] * 3


def test_the_chat_shows_who_is_in_a_sandbox(
    open_screen: Callable[..., Screen], script: Callable[..., str], folder: Path
) -> None:
    entry = {"command": sys.executable, "args": [str(PROBE)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"probe": entry}}), encoding="utf-8")
    screen = open_screen("--model", script("Hello."), size=(160, 40), **{SANDBOX_VARIABLE: "auto"})
    screen.wait_for_prompt()
    screen.type("/mcp status\r")
    screen.wait_for("in a sandbox, no network")
    screen.wait_for("The sandbox of 'probe': no network (network = true allows it); reads ")


def test_the_chat_says_once_that_there_is_no_sandbox(
    program: Callable[..., Any], environment: dict[str, str], script: Callable[..., str], folder: Path
) -> None:
    entry = {"command": sys.executable, "args": [str(PROBE)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"one": entry, "two": entry}}), encoding="utf-8")
    environment |= {SANDBOX_VARIABLE: "auto", "PATH": "/nonexistent"}
    done = program("--model", script("Hello."), "-p", "hello")
    assert done.stdout == "Hello.\n"
    assert done.stderr.count("without a sandbox") == 1


@pytest.mark.parametrize(
    ("sandbox", "path", "state"),
    [
        ("auto", "", "ok"),
        ("auto", "/nonexistent", "look"),
        ("on", "/nonexistent", "wrong"),
        ("off", "/nonexistent", None),
    ],
)
def test_the_doctor_misses_bubblewrap_where_it_is_wanted(
    sandbox: str, path: str, state: str | None, program: Callable[..., Any], environment: dict[str, str], folder: Path
) -> None:
    entry = {"command": sys.executable, "args": [str(PROBE)], "sandbox": sandbox}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"probe": entry}}), encoding="utf-8")
    environment |= {SANDBOX_VARIABLE: "auto", "PATH": path or os.environ["PATH"]}
    told = json.loads(program("doctor", "--json", code=1 if state == "wrong" else 0).stdout)
    assert [line["state"] for line in told["result"]["lines"] if line["name"] == "sandbox"] == (
        [state] if state else []
    )


@pytest.mark.parametrize(
    ("allowed", "code", "said"),
    [("", 1, "bubblewrap is not installed"), ("1", 5, "NOT TESTED: ")],
    ids=["a failure", "left out where that is allowed"],
)
def test_without_bubblewrap_these_tests_are_no_silent_skip(allowed: str, code: int, said: str) -> None:
    chosen = ["tests/servers/test_sandbox.py", "-k", "home_is_empty"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *chosen, "-x"]
    environment = {**os.environ, "PATH": "/nonexistent", "ALLOW_NO_SANDBOX": allowed}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=50, check=False)
    assert done.returncode == code, done.stdout
    assert said in done.stdout
