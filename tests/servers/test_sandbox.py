"""What a sandbox denies a server, with the same thing done without one; what it lets through; and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.servers import in_turn, start_enclosed
from rkllm_chat.config import ServerConfig
from rkllm_chat.servers.programs import MARK
from rkllm_chat.servers.toolbox import Toolbox
from shell import wait_until
from targets import Tell

from .enclosed import PROBE, SECRET, SECRET_NAMES, USERS, Stage, find_processes, find_python, listening, staged
from .faults import fault, rows, wait_until_gone

pytestmark = pytest.mark.sandbox
GONE_S = 5.0
SLEEPER = "sleeper-of-the-probe"
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")

Told = dict[str, Any]


@pytest.fixture(scope="module", params=USERS, ids=lambda uid: f"user {uid}")
def told(request: pytest.FixtureRequest) -> Iterator[dict[str, Told]]:
    """What came of all probes for one user: without a sandbox, and in one."""
    with staged(request.param) as stage, listening() as ports, ExitStack() as open_files:
        terminal = give_terminal(open_files, request.param)
        yield {mode: try_everything(stage, mode, ports, terminal) for mode in ("off", "on")}


def give_terminal(open_files: ExitStack, uid: int) -> str:
    """The path of a terminal that is the user's."""
    for file in (pair := pty.openpty()):
        open_files.callback(os.close, file)
    os.chown(name := os.ttyname(pair[1]), uid, -1)
    return name


def try_everything(stage: Stage, mode: str, ports: tuple[int, int], terminal: str) -> Told:
    stage.add(sandbox=mode, write=["data"])
    victim = stage.start("call-tool", "probe.do", "--args", "-", stdin=subprocess.PIPE)  # it waits for its arguments
    private = Path(f"/tmp/of-the-probe-{stage.uid}-{mode}")
    probes: dict[str, list[Any]] = {
        "a key in the home": ["read", "~/.ssh/id_ed25519"],
        "the home": ["names", "~"],
        "the configuration": ["read", "mcp.json"],
        "a file elsewhere": ["read", str(stage.folder / "outside/diary.txt")],
        "that /etc/shadow is there": ["look", "/etc/shadow"],
        "the secrets of other processes": ["environments"],
        "writing elsewhere": ["write", str(stage.folder / "outside/new.txt")],
        "writing into its own folder": ["write", "new.txt"],
        "TCP": ["connect", ports[0]],
        "UDP": ["send", ports[1]],
        "a signal to the client": ["reach", victim.pid],
        "tracing the client": ["seize", victim.pid],
        "the terminal": ["write", terminal],
        "writing where it may": ["write", "data/new.txt"],
        "writing into /tmp": ["write", str(private)],
        "reading its own folder": ["names", "."],
        "itself": ["about"],
    }
    try:
        came = dict(zip(probes, stage.try_out(*probes.values()), strict=True))
        return {**came, "private file outside": private.exists(), "written": list((stage.project / "data").iterdir())}
    finally:
        victim.kill()
        victim.communicate()
        private.unlink(missing_ok=True)


DENIED = (
    "a key in the home",
    "a file elsewhere",
    "that /etc/shadow is there",
    "writing elsewhere",
    "writing into its own folder",
    "TCP",
    "UDP",
    "a signal to the client",
    "the terminal",
)


@fault("F92", *DENIED)
def test_what_a_server_can_do_without_a_sandbox_is_denied_in_one(mode: str, told: dict[str, Told]) -> None:
    assert told["off"][mode].startswith("ok")
    assert not told["on"][mode].startswith("ok")


@fault("F92", "tracing the client")
def test_the_client_cannot_be_traced(mode: str, told: dict[str, Told]) -> None:
    is_open = not YAMA.exists() or YAMA.read_text(encoding="ascii").strip() == "0"
    assert told["off"][mode].startswith("ok") == is_open
    assert "No such process" in told["on"][mode]


@fault("F92", "the configuration", "the secrets of other processes")
def test_secrets_are_not_to_be_found(mode: str, told: dict[str, Told], figure: Tell) -> None:
    figure(11, sum(SECRET in str(came) or "[hidden]" in str(came) for came in told["on"].values()))
    assert SECRET in told["off"][mode] or "[hidden]" in told["off"][mode]
    assert SECRET not in told["on"][mode] and "[hidden]" not in told["on"][mode]


@fault("F92", "the home")
def test_the_home_is_empty(mode: str, told: dict[str, Told]) -> None:
    assert ".ssh" in told["off"][mode]
    assert told["on"][mode] == "ok []"


@fault("F92", "writing where it may", "writing into /tmp", "reading its own folder")
def test_what_is_allowed_succeeds(mode: str, told: dict[str, Told]) -> None:
    assert told["on"][mode].startswith("ok")


@fault("F92", "a private /tmp")
def test_what_is_written_into_tmp_stays_inside_and_what_is_written_where_it_may_is_there(
    mode: str, told: dict[str, Told]
) -> None:
    assert mode
    assert (told["off"]["private file outside"], told["on"]["private file outside"]) == (True, False)
    assert [path.name for path in told["on"]["written"]] == ["new.txt"]


@fault("F93", "without a sandbox", "in a sandbox")
def test_a_server_is_given_little(mode: str, told: dict[str, Told]) -> None:
    about = told["off" if "without" in mode else "on"]["itself"]
    listed = {"HOME", "PATH", MARK, "LC_CTYPE"} | ({"TMPDIR", "PWD"} if mode == "in a sandbox" else set())
    assert about["environment"].keys() - {"__CF_USER_TEXT_ENCODING"} <= listed
    assert not set(SECRET_NAMES) & about["environment"].keys()
    assert about["descriptors"] == [0, 1, 2]
    assert about["umask"] == "0o77"
    assert about["session"] == ([about["pid"]] * 2 if "without" in mode else [1, 1])


@fault("F93", "limits")
def test_a_server_has_limits_and_no_privileges(mode: str, told: dict[str, Told]) -> None:
    about = told["on"]["itself"]
    assert mode
    assert about["limits"] == {"CORE": 0, "FSIZE": 4 << 30, "NOFILE": 4096}
    assert (about["processes"], about["oom"]) == (4096, 500)
    assert about["privileges"] == ["0000000000000000"]


def test_with_a_network_a_server_reaches_others_and_still_no_home(stage: Stage) -> None:
    stage.add(network=True)
    with listening() as (tcp, udp):
        *told, outside = stage.try_out(["connect", tcp], ["send", udp], ["names", "~"], ["write", "/new.txt"])
    assert told == ["ok heard", "ok heard", "ok []"]
    assert "Read-only file system" in outside


def test_a_package_runner_has_a_network_and_its_own_cache_unless_that_is_denied(stage: Stage) -> None:
    runner = stage.folder / "npx"
    runner.write_text(f"#!{PROBE_PYTHON}\n{PROBE.read_text(encoding='utf-8')}", encoding="utf-8")
    runner.chmod(0o755)
    with listening() as (tcp, _):
        probes: list[list[Any]] = [["connect", tcp], ["write", "~/.npm/kept"], ["names", "~"]]
        stage.add(command=str(runner), args=["-y", "some-server"])
        assert stage.try_out(*probes) == ["ok heard", "ok", "ok ['.npm']"]
        stage.add(command=str(runner), args=["-y", "some-server"], network=False)
        assert stage.try_out(*probes)[0].startswith("ConnectionRefusedError")
    assert (stage.home / ".npm/kept").is_file()


PROBE_PYTHON = "/usr/bin/env python3"


def test_what_args_and_env_name_may_be_written_unless_write_says_what(stage: Stage) -> None:
    named, new = stage.folder / "outside", stage.folder / "home/notes/new.txt"
    entry: dict[str, Any] = {"args": ["probe.py", str(named)], "env": {"NOTES": str(new)}}
    probes: list[list[Any]] = [["write", str(named / "by name.txt")], ["write", str(new)], ["names", "~"]]
    stage.add(**entry)
    assert stage.try_out(*probes) == ["ok", "ok", "ok ['notes']"]
    stage.add(**entry, write=[])
    denied = stage.try_out(*probes, ["read", str(named / "diary.txt")])
    assert ["Read-only" in one for one in denied[:2]] == [True, True]
    assert denied[3] == f"ok {SECRET}"


def test_of_a_home_that_is_named_the_keys_stay_hidden(stage: Stage) -> None:
    stage.add(args=["probe.py", str(stage.home)])
    told = stage.try_out(["write", "~/notes/new.txt"], ["names", "~/.ssh"], ["read", "~/.ssh/id_ed25519"])
    assert told[:2] == ["ok", "ok []"]
    assert told[2].startswith("FileNotFoundError")


@pytest.mark.parametrize(
    ("mode", "how", "said"),
    rows(
        ("F64", "killed", -signal.SIGKILL, "was ended by SIGKILL"),
        ("F64", "segfault", -signal.SIGSEGV, "was ended by SIGSEGV"),
        ("F64", "exit", 3, "exited with 3"),
    ),
)
def test_how_a_server_ended_is_told_as_without_a_sandbox(mode: str, how: int, said: str, stage: Stage) -> None:
    assert mode
    for kind in ("off", "on"):
        stage.add(sandbox=kind)
        error = stage.call(["end", how])["error"]
        assert said in error["message"]
        assert error["details"]["exit_code"] == how
        assert ("sandbox" in error["details"]["hint"]) == (kind == "on")


@fault("F64", "out of memory")
def test_a_server_that_runs_out_of_memory_is_told_and_not_started_over_and_over(mode: str, tmp_path: Path) -> None:
    async def go() -> tuple[str, str]:
        assert mode
        server = ServerConfig("probe", command=sys.executable, args=(str(PROBE),), sandbox="on", timeout_s=10)
        async with Toolbox([server], tmp_path / "logs") as box:
            tool = next(tool for tool in box.tools if tool.name == "do")
            died = await box.call(tool, {"probes": [["end", -signal.SIGKILL]]}, lambda *_: None)
            short = await box.call(tool, {"probes": [["exhaust"]]}, lambda *_: None)
        return died.text, short.text

    died, short = asyncio.run(go())
    assert "was ended by SIGKILL" in died
    assert "MemoryError" in short


@fault("F46", "a child that leaves all")
def test_a_child_that_leaves_session_group_and_environment_ends_with_its_server(mode: str, stage: Stage) -> None:
    assert mode
    left: dict[str, list[int]] = {}
    for kind in ("off", "on"):
        stage.add(sandbox=kind)
        word = f"{SLEEPER}-{kind}-{stage.folder.name}"
        assert stage.try_out(["leave child", word]) == ["ok"]
        left[kind] = wait_until_gone(find_processes(word), GONE_S if kind == "on" else 0)
        for pid in left[kind]:
            os.kill(pid, signal.SIGKILL)
    assert (len(left["off"]), left["on"]) == (1, [])


@fault("F47", "killed client")
def test_a_client_that_is_killed_leaves_nothing(mode: str, stage: Stage, figure: Tell) -> None:
    assert mode
    word = f"{SLEEPER}-{stage.folder.name}"
    stage.add(sandbox="on", args=["probe.py", f"--word={word}"])
    given = json.dumps({"probes": [["leave child", word], ["end", -signal.SIGSTOP]]})
    client = stage.start("call-tool", "probe.do", "--args", given)
    wait_until(lambda: len(find_processes(f"--word={word}")) >= 2)  # bubblewrap and the server
    wait_until(lambda: len(find_processes(word)) > len(find_processes(f"--word={word}")))
    there = find_processes(word)
    client.kill()
    client.communicate()
    left = wait_until_gone([pid for pid in there if pid != client.pid], GONE_S)
    figure(4, len(left), of=1)
    assert left == []
    assert find_processes(word) == []


def test_a_server_is_asked_to_end_before_it_is_made_to(tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    async def go() -> None:
        server = ServerConfig("probe", command=sys.executable, args=(str(PROBE), "--stay", str(asked)), sandbox="on")
        async with Toolbox([server], tmp_path / "logs") as box:
            assert box.is_connected("probe"), box.failures

    asyncio.run(go())
    assert asked.exists()


def test_a_call_that_failed_for_want_of_a_network_says_what_allows_it(stage: Stage) -> None:
    stage.add()
    with listening() as (tcp, _):
        tried, another = (stage.call(probe, fail=True)["error"]["details"] for probe in (["connect", tcp], ["about"]))
    assert "network = true" in tried["hint"]
    assert "hint" not in another


def test_a_call_that_failed_for_want_of_a_place_to_write_says_what_allows_it(stage: Stage) -> None:
    stage.add()
    assert "see write" in stage.call(["write", "new.txt"], fail=True)["error"]["details"]["hint"]


def test_what_a_server_writes_does_not_widen_its_next_sandbox(stage: Stage) -> None:
    stage.add(args=["probe.py", "data/notes"], write=["data"])
    diary = stage.folder / "outside/diary.txt"
    (stage.project / "data/notes").symlink_to(stage.folder / "outside")
    told = stage.try_out(["read", str(diary)], ["read", "data/notes/diary.txt"])
    assert [one.partition(":")[0] for one in told] == ["FileNotFoundError"] * 2
    (stage.project / "data/notes").unlink()
    packages = stage.project / "data/bin-of/lib/python3/site-packages"
    packages.mkdir(parents=True)
    (stage.project / "data/bin-of/pyvenv.cfg").touch()
    (packages / "more.pth").write_text(f"{stage.folder}/outside\n", encoding="utf-8")
    (stage.project / "data/bin-of/bin").mkdir()
    (stage.project / "data/bin-of/bin/run").symlink_to(find_python(stage.uid))
    stage.add(command="data/bin-of/bin/run", args=["-I", "probe.py"], write=["data"])
    assert stage.try_out(["read", str(diary)])[0].startswith("FileNotFoundError")
    stage.add(command="data/bin-of/bin/run", args=["-I", "probe.py"])  # now it cannot be the server's own doing
    assert stage.try_out(["read", str(diary)]) == [f"ok {SECRET}"]


def test_a_home_that_is_a_link_is_a_home_all_the_same(stage: Stage) -> None:
    stage.environment["HOME"] = str(stage.folder / "link")
    (stage.folder / "link").symlink_to(stage.home)
    stage.add(cwd=str(stage.home), args=[str(stage.project / "probe.py")])
    assert stage.try_out(["names", str(stage.home)], ["names", "~"]) == ["ok []", "ok []"]


def test_a_sandbox_is_no_burden_to_a_start(figure: Tell) -> None:
    enclosed_s, plain_s = asyncio.run(in_turn(start_enclosed))
    figure(14, (enclosed_s - plain_s) * 1e3)
    assert enclosed_s < GONE_S
