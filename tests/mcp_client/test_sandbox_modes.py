"""Which servers run in a sandbox, how that is shown, and what happens where none is possible."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rkllm_chat.config.servers import SandboxMode, ServerConfig
from rkllm_chat.mcp_client.process.start import SANDBOX_VARIABLE
from rkllm_chat.mcp_client.toolbox import Toolbox
from shell import Shell
from stage import OpenScreen, Run, Script

from .enclosed import PROBE, SECRET, Stage, find_python
from .probe import session

pytestmark = pytest.mark.sandbox

# What stands in for bubblewrap on the PATH: one that a kernel lets do nothing, and one of an older release.
FORBIDDEN = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
OLD = """#!/bin/sh
for word; do
    case $word in
    --help) exec /usr/bin/bwrap --help 2>&1 | grep -v -e --disable-userns -e --size -e seccomp; exit ;;
    --disable-userns | --size | --seccomp) echo "bwrap: Unknown option $word" >&2; exit 1 ;;
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


def test_what_a_server_of_the_chat_wrote_before_it_ended_is_explained_by_its_sandbox(tmp_path: Path) -> None:
    async def fail_to_open() -> str:
        ends = ("-c", "echo 'x: Read-only file system' >&2; exit 3")
        async with Toolbox(
            [ServerConfig("probe", command="sh", args=ends, sandbox="on")], tmp_path / "logs"
        ) as toolbox:
            return toolbox.failures["probe"].hint

    assert "ran in a sandbox" in asyncio.run(fail_to_open())


def test_an_older_bubblewrap_is_used_without_the_options_that_it_lacks(
    stage: Stage, replaced: Callable[[str], None]
) -> None:
    replaced(OLD)
    stage.add(sandbox="on")
    assert stage.try_out(["names", "~"], ["write", "/tmp/new.txt"]) == ["ok []", "ok"]


def test_where_system_calls_are_not_filtered_a_server_has_a_keyring_of_its_own(
    stage: Stage, replaced: Callable[[str], None]
) -> None:
    stage.before = (find_python(stage.uid), str(stage.project / "probe.py"), "--with-key", "key", SECRET)
    stage.add(sandbox="off")
    assert stage.try_out(["keyring", "key"]) == [f"ok {SECRET}"]
    replaced(OLD)
    stage.add(sandbox="on")
    assert stage.try_out(["keyring", "key"], ["open socket", 40]) == [
        "OSError: [Errno 126] Required key not available",
        "ok",
    ]


def test_a_server_of_the_chat_has_it_too_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bwrap").write_text(OLD, encoding="utf-8")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    server = ServerConfig("probe", command=sys.executable, args=(str(PROBE),))

    async def ask_twice(sandbox: SandboxMode) -> list[str]:
        async with Toolbox([replace(server, sandbox=sandbox)], tmp_path / "logs") as toolbox:
            assert toolbox.is_connected("probe"), toolbox.failures
            probes = {"probes": [["session"]]}
            return [(await toolbox.call(toolbox.tools[0], probes, lambda *_: None)).text for _ in range(2)]

    ours = json.dumps([f"ok {session()}"])
    assert asyncio.run(ask_twice("off")) == [ours, ours]
    one, two = asyncio.run(ask_twice("on"))
    assert one == two and one.startswith('["ok ') and one != ours


def test_the_features_of_bubblewrap_are_probed_once(stage: Stage, replaced: Callable[[str], None]) -> None:
    replaced(f'#!/bin/sh\necho "$1" >>{stage.folder}/started\nexec /usr/bin/bwrap "$@"\n')
    stage.add()
    (stage.folder / "started").touch(0o666)
    (stage.folder / "started").chmod(0o666)
    counts = []
    for _ in range(2):
        stage.try_out(["about"])
        counts.append(len((stage.folder / "started").read_text(encoding="utf-8").splitlines()))
    assert counts == [3, 4]  # --help, a trial, the server; then the server alone


def test_a_pipe_in_the_place_of_the_stored_features_is_not_waited_for(stage: Stage) -> None:
    stage.add()
    stage.try_out(["about"])
    (probed,) = stage.folder.rglob("bubblewrap.json")
    probed.unlink()
    os.mkfifo(probed)
    os.chown(probed, stage.uid, -1)
    assert stage.try_out(["names", "~"]) == ["ok []"]


def test_a_missing_folder_to_write_is_named(stage: Stage) -> None:
    stage.add(write=["nowhere"])
    error = stage.call(["about"])["error"]
    assert f"{stage.project}/nowhere" in error["message"]


@pytest.mark.slow
def test_a_server_that_ships_needs_no_sandbox_and_works_in_one(shell: Shell) -> None:
    del shell.environment[SANDBOX_VARIABLE]
    shell.environment["PATH"] = "/nonexistent"  # no bubblewrap: that only matters where one is wanted
    shell.add("board", command="rkllm-chat", args=["serve", "board"])
    assert shell.result("call-tool", "board.calculate", "--args", '{"expression": "6 * 7"}')
    shell.environment["PATH"] = os.environ["PATH"]
    shell.add("board", command="rkllm-chat", args=["serve", "board"], sandbox="on")
    assert shell.result("call-tool", "board.calculate", "--args", '{"expression": "6 * 7"}')


def test_the_variable_says_what_auto_means(stage: Stage) -> None:
    stage.environment[SANDBOX_VARIABLE] = "off"
    for sandbox, expected in (("auto", f"ok {SECRET}"), ("on", "FileNotFoundError")):
        stage.add(sandbox=sandbox)
        assert stage.try_out(["read", "~/.ssh/id_ed25519"])[0].startswith(expected)


@pytest.mark.slow
def test_the_chat_shows_which_servers_are_in_a_sandbox(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    entry = {"command": sys.executable, "args": [str(PROBE)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"probe": entry}}), encoding="utf-8")
    screen = open_screen("--model", script("Hello."), size=(160, 40), **{SANDBOX_VARIABLE: "auto"})
    screen.wait_for_prompt()
    screen.type("/mcp status\r")
    screen.wait_for("in a sandbox, no network")
    screen.wait_for("Sandbox of 'probe': no network (network = true allows it); may read ")


def test_the_chat_says_once_that_there_is_no_sandbox(
    program: Run, environment: dict[str, str], script: Script, folder: Path
) -> None:
    entry = {"command": sys.executable, "args": [str(PROBE)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"one": entry, "two": entry}}), encoding="utf-8")
    environment |= {SANDBOX_VARIABLE: "auto", "PATH": "/nonexistent"}
    done = program("--model", script("Hello."), "--server", "one", "--server", "two", "-p", "hello")
    assert done.stdout == "Hello.\n"
    cure = "bubblewrap is not installed. To install it: sudo apt install bubblewrap]"
    assert done.stderr.count("without a sandbox") == 1 and cure in done.stderr


@pytest.mark.parametrize(
    ("sandbox", "path", "state"),
    [
        ("auto", "", "ok"),
        ("auto", "/nonexistent", "warn"),
        ("on", "/nonexistent", "wrong"),
        ("off", "/nonexistent", ""),
    ],
)
def test_the_doctor_reports_missing_bubblewrap_where_it_is_wanted(
    sandbox: str, path: str, state: str,
    program: Run, script: Script, environment: dict[str, str], folder: Path,
) -> None:  # fmt: skip
    entry = {"command": sys.executable, "args": [str(PROBE)], "sandbox": sandbox}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"probe": entry}}), encoding="utf-8")
    environment |= {SANDBOX_VARIABLE: "auto", "PATH": path or os.environ["PATH"]}
    options = ("--json", "--model", script("Hello."))  # else doctor loads the model that ships
    told = json.loads(program("doctor", *options, code=1 if state == "wrong" else 0).stdout)
    found = [line["state"] for line in told["result"]["lines"] if line["name"] == "sandbox"]
    assert found == ([state] if state else [])


def test_the_doctor_of_a_fresh_machine_names_the_sandbox_that_is_missing(
    program: Run, script: Script, environment: dict[str, str]
) -> None:
    environment |= {SANDBOX_VARIABLE: "auto", "PATH": "/nonexistent"}
    told = json.loads(program("doctor", "--json", "--model", script("Hello.")).stdout)
    (line,) = [line for line in told["result"]["lines"] if line["name"] == "sandbox"]
    assert (line["state"], line["advice"]) == ("ok", "sudo apt install bubblewrap")
