"""What a sandbox denies a server (with the same without one as a control), what it allows, and how a server ends."""

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

from processes import find_processes
from rkllm_chat import MCPClient, MCPException
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.process.start import MARK_VARIABLE
from rkllm_chat.mcp_client.toolbox import Toolbox
from shell import wait_until
from stage import Run, Script, call_text

from .enclosed import PROBE, SECRET, SECRET_NAMES, USERS, Stage, find_python, listening, staged
from .faults import wait_until_gone

pytestmark = pytest.mark.sandbox
GONE_S = 5.0
SLEEPER = "sleeper-of-the-probe"
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")

Results = dict[str, Any]


@pytest.fixture(scope="module", params=USERS)
def results(request: pytest.FixtureRequest) -> Iterator[dict[str, Results]]:
    """The results of all probes for one user: without a sandbox ("off"), and in one ("on")."""
    with staged(request.param) as stage, listening() as ports, ExitStack() as open_files:
        terminal = give_terminal(open_files, request.param)
        yield {mode: try_everything(stage, mode, ports, terminal) for mode in ("off", "on")}


def give_terminal(open_files: ExitStack, uid: int) -> str:
    """The path of a terminal that is the user's."""
    for file in (pair := pty.openpty()):
        open_files.callback(os.close, file)
    os.chown(name := os.ttyname(pair[1]), uid, -1)
    return name


def try_everything(stage: Stage, mode: str, ports: tuple[int, int], terminal: str) -> Results:
    stage.add(sandbox=mode, write=["data"])
    # it waits for its arguments; a forked process would not show its environment in /proc
    victim = stage.start("call-tool", "probe.do", "--args", "-", stdin=subprocess.PIPE, forks=False)
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
        results = dict(zip(probes, stage.try_out(*probes.values()), strict=True))
        written = [path.name for path in (stage.project / "data").iterdir()]
        return {**results, "private file outside": private.exists(), "written": written}
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


def test_what_a_server_can_do_without_a_sandbox_is_denied_in_one(results: dict[str, Results]) -> None:
    assert [probe for probe in DENIED if not results["off"][probe].startswith("ok")] == []
    assert [probe for probe in DENIED if results["on"][probe].startswith("ok")] == []
    can_trace = not YAMA.exists() or YAMA.read_text(encoding="ascii").strip() == "0"
    assert results["off"]["tracing the client"].startswith("ok") == can_trace
    assert "No such process" in results["on"]["tracing the client"]


def test_secrets_are_not_to_be_found(results: dict[str, Results]) -> None:
    for probe in ("the configuration", "the secrets of other processes"):
        assert SECRET in results["off"][probe] or "[hidden]" in results["off"][probe]
        assert SECRET not in results["on"][probe] and "[hidden]" not in results["on"][probe]
    assert ".ssh" in results["off"]["the home"]
    assert results["on"]["the home"] == "ok []"


def test_what_is_allowed_succeeds_and_tmp_is_private(results: dict[str, Results]) -> None:
    allowed = ("writing where it may", "writing into /tmp", "reading its own folder")
    assert [probe for probe in allowed if not results["on"][probe].startswith("ok")] == []
    assert [results[mode]["private file outside"] for mode in ("off", "on")] == [True, False]
    assert results["on"]["written"] == ["new.txt"]


@pytest.mark.parametrize("mode", ["off", "on"])
def test_a_server_is_given_little(mode: str, results: dict[str, Results]) -> None:
    about = results[mode]["itself"]
    listed = {"HOME", "PATH", MARK_VARIABLE, "LC_CTYPE"} | ({"TMPDIR", "PWD"} if mode == "on" else set())
    assert about["environment"].keys() - {"__CF_USER_TEXT_ENCODING"} <= listed
    assert not set(SECRET_NAMES) & about["environment"].keys()
    assert about["descriptors"] == [0, 1, 2]
    assert about["umask"] == "0o77"
    assert about["session"] == ([about["pid"]] * 2 if mode == "off" else [1, 1])
    if mode == "on":
        assert about["limits"] == {"CORE": 0, "FSIZE": 4 << 30, "NOFILE": 4096}
        assert (about["processes"], about["oom"]) == (4096, 500)
        assert about["privileges"] == ["0000000000000000"]


def test_with_a_network_a_server_still_sees_no_home(stage: Stage) -> None:
    stage.add(network=True)
    with listening() as (tcp, udp):
        *reached, outside = stage.try_out(["connect", tcp], ["send", udp], ["names", "~"], ["write", "/new.txt"])
    assert reached == ["ok heard", "ok heard", "ok []"]
    assert "Read-only file system" in outside


PROBE_PYTHON = "/usr/bin/env python3"


def install(stage: Stage, folder: str, name: str) -> Path:
    """The probe as a program of that name."""
    program = stage.folder / folder / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!{PROBE_PYTHON}\n{PROBE.read_text(encoding='utf-8')}", encoding="utf-8")
    program.chmod(0o755)
    return program


def test_a_package_runner_has_a_network_and_its_own_cache_unless_that_is_denied(stage: Stage) -> None:
    runner = install(stage, "programs", "npx")
    stage.environment["PATH"] = f"{runner.parent}:{os.environ['PATH']}"
    with listening() as (tcp, _):
        probes: list[list[Any]] = [["connect", tcp], ["write", "~/.npm/kept"], ["names", "~"]]
        stage.add(command=str(runner), args=["-y", "some-server"])
        assert stage.try_out(*probes) == ["ok heard", "ok", "ok ['.npm']"]
        stage.add(command=str(runner), args=["-y", "some-server"], network=False)
        assert stage.try_out(*probes)[0].startswith("ConnectionRefusedError")
    assert (stage.home / ".npm/kept").is_file()


INSIDE = ["ok []", "ConnectionRefusedError: [Errno 111] Connection refused"]


@pytest.mark.parametrize(
    ("name", "home"), [("srt", ".local .ssh notes"), pytest.param("uvx", ".cache .local", marks=pytest.mark.slow)]
)
def test_only_an_installed_program_is_a_runner_or_a_sandbox(name: str, home: str, stage: Stage) -> None:
    project, programs, elsewhere, everybodys = (
        install(stage, folder, name).parent for folder in ("project/bin", "programs", "elsewhere", "everybodys")
    )
    everybodys.chmod(0o777)
    links = stage.folder / "links"
    links.mkdir()
    (links / name).symlink_to(project / name)
    searched = [project, everybodys, links, programs]
    stage.environment["PATH"] = os.pathsep.join([*map(str, searched), os.environ["PATH"]])
    commands: dict[str, dict[str, Any]] = {
        "in the project": {"command": f"./bin/{name}"},
        "in the project, found on the PATH": {"command": name},
        "on the PATH of the entry": {"command": name, "env": {"PATH": f"{elsewhere}:{os.environ['PATH']}"}},
        "in a folder that everybody can write": {"command": str(everybodys / name)},
        "a link into the project": {"command": str(links / name)},
        "installed": {"command": str(programs / name)},
    }
    with listening() as (tcp, _):
        results = {}
        for place, entry in commands.items():
            stage.add(args=[], **entry)
            results[place] = stage.try_out(["names", "~"], ["connect", tcp])
    assert results.pop("installed") == [f"ok {home.split()}", "ok heard"]
    assert results == dict.fromkeys(results, INSIDE)


def test_what_args_and_env_name_may_be_written_unless_write_says_what(stage: Stage) -> None:
    named, new = stage.folder / "outside", stage.folder / "home/notes/new.txt"
    entry: dict[str, Any] = {"args": ["probe.py", str(named)], "env": {"NOTES": str(new)}}
    probes: list[list[Any]] = [["write", str(named / "by name.txt")], ["write", str(new)], ["names", "~"]]
    stage.add(**entry)
    assert stage.try_out(*probes) == ["ok", "ok", "ok ['notes']"]
    stage.add(**entry, write=[])
    denied = stage.try_out(*probes, ["read", str(named / "diary.txt")])
    assert ["Read-only" in text for text in denied[:2]] == [True, True]
    assert denied[3] == f"ok {SECRET}"


def test_a_link_to_a_folder_of_the_system_does_not_make_it_available(stage: Stage) -> None:
    links = {"kernel": "/proc", "sockets": "/run", "shared": "/tmp", "other": str(stage.folder / "outside")}
    for name, target in links.items():
        (stage.project / name).symlink_to(target)
    stage.add(args=["probe.py", *(f"./{name}" for name in links)])
    probes = ["look", str(stage.home / "notes")], ["names", "/run"]
    notes, sockets, settings, diary = stage.try_out(*probes, ["settings"], ["read", "other/diary.txt"])
    assert notes.startswith("FileNotFoundError") and "/proc/sys" not in settings and diary == f"ok {SECRET}"
    stage.add(args=[str(stage.project / "probe.py")], cwd="/run")
    names = f"ok {sorted(path.name for path in Path('/run').iterdir())}"
    assert names not in (sockets, *stage.try_out(["names", "."]))


def test_the_keys_of_a_home_that_is_named_stay_hidden(stage: Stage) -> None:
    stage.add(args=["probe.py", str(stage.home)])
    *allowed, key = stage.try_out(["write", "~/notes/new.txt"], ["names", "~/.ssh"], ["read", "~/.ssh/id_ed25519"])
    assert allowed == ["ok", "ok []"] and key.startswith("FileNotFoundError")


def test_the_way_a_server_ended_is_reported_and_its_sandbox_only_where_it_wrote_of_a_denial(stage: Stage) -> None:
    stage.add(sandbox="on")
    for how, cause in ((-signal.SIGKILL, "was ended by SIGKILL"), (3, "exited with 3")):
        error = stage.call(["end", how])["error"]
        assert cause in error["message"]
        assert error["details"]["exit_code"] == how and "sandbox" not in error["details"]["hint"]
    stage.add(sandbox="on", command="/bin/sh", args=["-c", "echo 'x: Read-only file system' >&2; exit 3"])
    error = stage.call(["end", 3])["error"]
    assert "could write to /tmp" in error["details"]["hint"] and "x: Read-only file system" in error["message"]


def test_a_child_that_leaves_session_group_and_environment_ends_with_its_server(stage: Stage) -> None:
    left: dict[str, list[int]] = {}
    for kind in ("off", "on"):
        stage.add(sandbox=kind)
        word = f"{SLEEPER}-{kind}-{stage.folder.name}"
        assert stage.try_out(["leave child", word]) == ["ok"]
        left[kind] = wait_until_gone(find_processes(word), GONE_S if kind == "on" else 0)
        for pid in left[kind]:
            os.kill(pid, signal.SIGKILL)
    assert (len(left["off"]), left["on"]) == (1, [])


def test_a_client_that_is_killed_leaves_nothing(stage: Stage) -> None:
    word = f"{SLEEPER}-{stage.folder.name}"
    stage.add(sandbox="on", args=["probe.py", f"--word={word}"])
    given = json.dumps({"probes": [["leave child", word], ["end", -signal.SIGSTOP]]})
    client = stage.start("call-tool", "probe.do", "--args", given)
    wait_until(lambda: len(find_processes(f"--word={word}")) >= 2)  # bubblewrap and the server
    wait_until(lambda: len(find_processes(word)) > len(find_processes(f"--word={word}")))
    there = find_processes(word)
    client.kill()
    client.communicate()
    assert wait_until_gone([pid for pid in there if pid != client.pid], GONE_S) == []
    assert find_processes(word) == []


@pytest.mark.slow
def test_a_server_in_the_toolbox_is_started_again_and_asked_to_end(tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    async def go() -> list[str]:
        server = ServerConfig("probe", command=sys.executable, args=(str(PROBE), "--stay", str(asked)), sandbox="on")
        async with Toolbox([server], tmp_path / "logs") as toolbox:
            assert toolbox.is_connected("probe"), toolbox.failures
            probes: list[list[Any]] = [["end", -signal.SIGKILL], ["reach", 1]]
            return [
                (await toolbox.call(toolbox.tools[0], {"probes": [probe]}, lambda *_: None)).text for probe in probes
            ]

    died, reached = asyncio.run(go())
    assert "was ended by SIGKILL" in died and reached == '["ok"]'
    assert asked.exists()


@pytest.mark.parametrize("way", [True, "error"])
def test_a_call_that_the_sandbox_made_fail_says_what_allows_it(way: bool | str, stage: Stage) -> None:
    """Also where the server reports it as an error of the protocol."""
    stage.add()
    with listening() as (tcp, _):
        probes: list[list[Any]] = [["connect", tcp], ["write", "new.txt"], ["about"]]
        network, place, other = (stage.call(probe, fail=way)["error"]["details"] for probe in probes)
    assert "network = true" in network["hint"] and "set write" in place["hint"]
    assert "hint" not in other


@pytest.mark.parametrize("way", [True, "error"])
def test_what_a_sandbox_denied_is_said_to_programs_and_to_the_user_and_not_to_the_model(
    way: bool | str, program: Run, script: Script, folder: Path
) -> None:
    server = {"command": sys.executable, "args": [str(PROBE)], "sandbox": "on"}
    (folder / "own.json").write_text(json.dumps({"mcpServers": {"probe": server}}), encoding="utf-8")
    options = ("--config", "own.json", "--allow", "*", "--output-format", "json")
    acts: dict[str, list[Any]] = {
        "has no network. To allow it: network = true": ["connect", 9],
        "allows writing to /tmp only": ["write", str(folder / "new.txt")],
        "": ["about"],
    }
    for advice, probe in acts.items():
        done = program("-p", "x", *options, "--model", script(call_text("do", probes=[probe], fail=way), "It failed."))
        result = json.loads(done.stdout)["result"]
        said = [notice for notice in result["notices"] if "sandbox of server 'probe'" in notice]
        assert [advice in notice for notice in said] == [True] * bool(advice)
        (call,) = result["calls"]
        assert call["status"] == "failed" and "The sandbox" not in call["text"] and "/mcp" not in call["text"]
    assert "/mcp allow" not in done.stdout

    async def call_as_a_program() -> MCPException:
        async with MCPClient(folder / "own.json") as client:
            with pytest.raises(MCPException) as caught:
                await client.execute_tool("probe", "do", {"probes": [["connect", 9]], "fail": way})
            return caught.value

    assert (
        'The sandbox of "probe" has no network. To allow it, set network = true'
        in asyncio.run(call_as_a_program()).hint
    )


def test_what_a_server_writes_does_not_widen_its_next_sandbox(stage: Stage) -> None:
    stage.add(args=["probe.py", "data/notes"], write=["data"])
    diary = stage.folder / "outside/diary.txt"
    (stage.project / "data/notes").symlink_to(stage.folder / "outside")
    denied = stage.try_out(["read", str(diary)], ["read", "data/notes/diary.txt"])
    assert [text.partition(":")[0] for text in denied] == ["FileNotFoundError"] * 2
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


def test_a_home_that_is_a_link_is_hidden(stage: Stage) -> None:
    stage.environment["HOME"] = str(stage.folder / "link")
    (stage.folder / "link").symlink_to(stage.home)
    stage.add(cwd=str(stage.home), args=[str(stage.project / "probe.py")])
    assert stage.try_out(["names", str(stage.home)], ["names", "~"]) == ["ok []", "ok []"]


def test_what_is_hidden_has_no_second_name_through_a_link(stage: Stage) -> None:
    link = stage.folder / "to-home"
    link.symlink_to(stage.home)
    stage.add(cwd=str(link), args=[str(stage.project / "probe.py"), ".", "./notes"])
    key, *allowed = stage.try_out(["read", f"{link}/.ssh/id_ed25519"], ["write", "notes/new.txt"], ["names", str(link)])
    assert key.startswith("FileNotFoundError") and allowed[0] == "ok" and "'notes'" in allowed[1]
    assert (stage.home / "notes/new.txt").exists()
    project = stage.folder / "to-project"
    project.symlink_to(stage.project)
    stage.add(cwd=str(project), args=["probe.py", "./data"], write=[])
    assert stage.try_out(["names", str(project / "data")]) == ["ok []"]
