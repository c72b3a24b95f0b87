"""Files of the program: private to their owner, never behind a link, and not fatal when they cannot be written."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fork_server
from mcp_client.faults import chaos
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.core.errors import ConfigError, UsageError
from rkllm_chat.core.numbered_files import write_numbered_file
from rkllm_chat.storage.export import write_new_file
from rkllm_chat.storage.log_file import MAX_BYTES, MAX_ROTATED_FILES
from rkllm_chat.storage.media import MediaStore
from rkllm_chat.storage.session_files import SessionDirectory
from stage import NO_BOARD, PROGRAM, OpenScreen, Run, Screen, Script, call_text

MAX_BYTES_LEFT = 3000
PLACES = ("history", "sessions", "logs")
LOGGED = ("-p", "Go!", "--allow", "act", "--log-file", "log.jsonl")


@pytest.fixture
def state(environment: dict[str, str]) -> Path:
    return Path(environment["HOME"]) / ".local/state/rkllm-chat"


@pytest.fixture
def acting(folder: Path, script: Script) -> Path:
    """A folder whose configuration has one small server, and a model that calls it."""
    server = chaos(folder, "ok")
    variables = {**server.env, "PYTHONDONTWRITEBYTECODE": "1"}  # on a full disk it would cut the files of all tests
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
    (folder / "mcp_config.toml").write_text(
        f'[chat]\nmodel = "replies.json"\n[[servers]]\nname = "chaos"\ncommand = {json.dumps(server.command)}\n'
        f"args = {json.dumps(list(server.args))}\nenv = {{ {env} }}\n{NO_BOARD}",
        encoding="utf-8",
    )
    script(call_text("act"), "Done.")
    return folder


def talk(screen: Screen) -> list[str]:
    """Says something, has it answered, and leaves; gives what was on the screen."""
    screen.wait_for("Type /help", 60)
    screen.wait_for_prompt()
    lines = screen.enter("Go!", "Done.")
    screen.leave()
    return lines


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.lstat().st_mode & 0o777 for path in folder.rglob("*")}


@pytest.mark.slow
def test_files_and_folders_are_private_under_any_umask(
    acting: Path, environment: dict[str, str], shelf: SessionDirectory
) -> None:
    before = os.umask(0)
    try:
        screen = Screen(["--allow", "act", "--log-file", "log.jsonl"], environment, acting, forks=False)
    finally:
        os.umask(before)
    try:
        talk(screen)
    finally:
        screen.close()
    home = Path(environment["HOME"])
    found = {**modes(home), "log.jsonl": (acting / "log.jsonl").stat().st_mode & 0o777}
    assert {f".local/state/rkllm-chat/{name}" for name in (*PLACES, "logs/chaos.log")} <= found.keys()
    assert len(list(shelf.path.iterdir())) == 1
    folders = {name for name in found if (home / name).is_dir()}
    assert {name: mode for name, mode in found.items() if mode != (0o700 if name in folders else 0o600)} == {}


def test_what_others_could_read_is_closed(program: Run, acting: Path, state: Path, shelf: SessionDirectory) -> None:
    program(*LOGGED, "--continue")
    (session,) = shelf.path.iterdir()
    closed = [session, shelf.path, acting / "log.jsonl", state / "logs"]
    for path in closed:
        path.chmod(0o755 if path.is_dir() else 0o644)
    program(*LOGGED, "--continue")
    assert [path.stat().st_mode & 0o077 for path in closed] == [0, 0, 0, 0]


@pytest.mark.sandbox
def test_a_conversation_on_a_read_only_disk_is_refused_for_that_reason(
    program: Run, acting: Path, state: Path, environment: dict[str, str]
) -> None:
    program(*LOGGED, "--continue")
    mounts = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(state), str(state)]
    command = [*mounts, *PROGRAM, *LOGGED, "--continue"]
    done = subprocess.run(command, env=environment, cwd=acting, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3 and "Read-only file system" in done.stderr and "ink" not in done.stderr


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("mount", "problem"),
    [
        (["--size", "4096", "--tmpfs"], "less than 1.0 MB is free"),
        (["--ro-bind", "{}"], "the file system is read-only"),
        (["--dev-bind", "{}"], ""),
    ],
    ids=["full", "read-only", "as it should be"],
)
def test_a_state_folder_that_cannot_be_written_is_named_by_doctor_and_costs_no_answer(
    mount: list[str], problem: str, acting: Path, state: Path, environment: dict[str, str]
) -> None:
    state.mkdir(parents=True)
    mounts = ["bwrap", "--dev-bind", "/", "/", *(word.format(state) for word in mount), str(state)]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*mounts, "sh", "-c", f'head -c 9000 /dev/zero >{state}/fill; exec "$@"', "-", *PROGRAM, *arguments]
        return subprocess.run(
            command, env=environment, cwd=acting, capture_output=True, text=True, timeout=60, check=False
        )

    found = run("doctor", "--model", str(find_shipped_model()))
    warned = [line.split(maxsplit=2)[2] for line in found.stdout.splitlines() if line.startswith("warn  state")]
    assert warned == ([f"{state}: {problem}"] if problem else [])
    assert "rial" not in found.stderr and "Errno" not in found.stderr
    if problem:
        assert "The decision cannot be saved" in run("mcp", "trust", "chaos", "--yes").stderr
    done = run("-p", "Go!", "--allow", "act")
    assert done.stdout.endswith("Done.\n")
    assert done.stderr.count(f"The tools of the servers cannot be recorded in {state}") == bool(problem)


def make_link(place: Path, tmp_path: Path) -> None:
    """A link to something of the same kind elsewhere."""
    target = tmp_path / f"elsewhere-{place.name}"
    if place.name in ("sessions", "logs"):
        target.mkdir()
    else:
        target.write_text("theirs\n", encoding="utf-8")
    place.symlink_to(target)


def make_pipe(place: Path, _: Path) -> None:
    os.mkfifo(place)


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_link, make_pipe])
def test_the_chat_follows_no_link_and_shows_a_notice(
    make: Callable[[Path, Path], None], open_screen: OpenScreen, acting: Path, state: Path, tmp_path: Path
) -> None:
    state.mkdir(parents=True)
    for name in PLACES:
        make(state / name, tmp_path)
    screen = open_screen("--allow", "act", "--log-file", "log.jsonl", size=(250, 40))
    lines = " ".join(talk(screen))
    assert "Input history is unavailable" in lines and "session cannot be saved" in lines
    assert "log of a server cannot be written" in (acting / "log.jsonl").read_text("utf-8")
    for target in tmp_path.glob("elsewhere-*"):
        assert list(target.iterdir()) == [] if target.is_dir() else target.read_text("utf-8") == "theirs\n"


def test_a_line_that_the_input_history_cannot_keep_is_sent(
    open_screen: OpenScreen, script: Script, state: Path
) -> None:
    screen = open_screen("--model", script("One.", "Two."), "--no-servers", size=(200, 40))
    screen.wait_for_prompt()
    (state / "history").unlink()
    (state / "history").mkdir()
    screen.enter("first", "◆ One.")
    lines = screen.enter("second", "◆ Two.")
    assert sum("Input history is unavailable" in line for line in lines) == 1
    screen.type("\x1b[A")
    screen.wait_until(lambda: "> second" in screen.lines()[-3:], "the line from memory")


@pytest.mark.slow
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(
    acting: Path, open_screen: OpenScreen, environment: dict[str, str]
) -> None:
    """Every file that the commands leave in the home folder becomes a pipe."""

    def run_all() -> list[str]:
        talk(open_screen("--allow", "act"))
        outputs = []
        for words in (["mcp_tool", "chaos__act"], ["mcp_tool", "completion", "words", "--", "chaos__a"]):
            command = [sys.executable, "-m", f"rkllm_chat.cli.{words[0]}", *words[1:]]
            done = fork_server.run(command, env=environment, cwd=acting, timeout=30, encoding="utf-8")
            outputs.append(f"{done.returncode} {done.stdout}{done.stderr}")
        return outputs

    first = run_all()
    files = [path for path in Path(environment["HOME"]).rglob("*") if path.is_file()]
    assert {"history", "measured.json", "chaos.log"} <= {path.name for path in files}
    assert any("tools" in path.parts for path in files)
    for path in files:
        path.unlink()
        os.mkfifo(path)
    called, completed = run_all()
    assert first == ["0 act is done\n", "0 chaos__add\nchaos__act\n"]
    assert called.startswith("3 ") and "trust" in called, "what was accepted cannot be read, so nothing is called"
    assert completed == "0 ", "there is no list of tools"


@pytest.mark.parametrize("make", [make_link, make_pipe])
def test_a_log_that_is_not_a_plain_file_is_rejected(
    make: Callable[[Path, Path], None], program: Run, acting: Path, tmp_path: Path
) -> None:
    make(acting / "log.jsonl", tmp_path)
    done = program(*LOGGED, code=2)
    assert "log.jsonl cannot be written" in done.stderr and done.stdout == ""
    (acting / "log.jsonl").unlink()
    program(*LOGGED)


@pytest.mark.slow
@pytest.mark.root
def test_files_of_another_user_are_rejected(program: Run, acting: Path, shelf: SessionDirectory) -> None:
    program(*LOGGED, "--continue")
    (session,) = shelf.path.iterdir()
    refused = {
        session: (3, "is not a plain file or folder of yours"),
        acting / "log.jsonl": (2, "it is not a regular file or directory of this user"),
        acting / "mcp_config.toml": (3, "belongs to another user (uid 4711)"),
    }
    for path, (code, words) in refused.items():
        os.chown(path, 4711, 4711)
        done = program(*LOGGED, "--resume", session.stem, code=code)
        assert path.name in done.stderr and words in done.stderr
        os.chown(path, os.geteuid(), os.getegid())
    assert "Done." in program(*LOGGED, "--resume", session.stem).stdout


def test_a_configuration_that_everybody_may_write_is_rejected(program: Run, acting: Path) -> None:
    config = acting / "mcp_config.toml"
    config.chmod(0o666)
    done = program("-p", "Go!", code=3)
    assert "mcp_config.toml is writable by everybody" in done.stderr and "chmod o-w" in done.stderr
    assert "is writable by everybody" in program("list-servers", code=1).stdout
    config.chmod(0o664)
    program("-p", "Go!", "--allow", "act")


def test_a_secret_that_others_can_read_is_named_without_its_value(program: Run, folder: Path, script: Script) -> None:
    script("Done.")
    config = folder / "mcp_config.toml"
    text = f"""
{NO_BOARD}
[chat]
model = "replies.json"
[[servers]]
name = "one"
enabled = false
command = "x"
env = {{ API_TOKEN = "hush-4711" }}
[[servers]]
name = "two"
enabled = false
url = "http://127.0.0.1:9/"
headers = {{ Authorization = "Bearer hush-4711" }}
[[servers]]
name = "three"
enabled = false
url = "http://127.0.0.1:9/"
oauth = {{ client_secret = "hush-4711", client_id = "x" }}
"""
    keys = ("servers[1].env.API_TOKEN", "servers[2].headers.Authorization", "servers[3].oauth.client_secret")

    def read_warnings(text: str, mode: int) -> tuple[str, str]:
        config.write_text(text, encoding="utf-8")
        config.chmod(mode)
        return program("-p", "Go!").stderr, program("doctor").stdout

    for shown in read_warnings(text, 0o644):
        assert all(key in shown for key in keys) and "hush" not in shown and "chmod 600" in shown
    assert "chmod" not in "".join(read_warnings(text, 0o600))
    assert "chmod" not in "".join(read_warnings(text.replace("hush-4711", "${HUSH:-none}"), 0o644))


def read_log(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_log_has_a_line_for_each_start_call_and_stop(program: Run, acting: Path) -> None:
    done = program(*LOGGED, "--server", "chaos")
    lines = [line for line in read_log(acting / "log.jsonl") if line["event"] != "log"]
    assert [line["event"] for line in lines] == ["start", "call", "stop"]
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
        assert isinstance(line.pop("pid"), int) and line.pop("seconds") >= 0
    assert re.fullmatch("[0-9a-f]{64}", lines[1].pop("arguments_sha256"))
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", lines[0].pop("protocol"))
    assert isinstance(lines[1].pop("received_bytes"), int)
    assert lines == [
        {"level": "info", "event": "start", "server": "chaos", "message": "open", "tools": lines[0]["tools"]},
        {
            "level": "info",
            "event": "call",
            "server": "chaos",
            "tool": "act",
            "outcome": "completed",
            "sent_bytes": 2,
        },
        {"level": "info", "event": "stop", "server": "chaos", "message": "closed"},
    ]
    assert '"event"' not in done.stdout + done.stderr
    program(*LOGGED, "--log-bodies")
    (_, call) = [line for line in read_log(acting / "log.jsonl") if line["event"] == "call"]
    assert call["arguments"] == {} and len(call["text"].encode()) == call["received_bytes"]


def test_a_server_that_cannot_start_is_logged(program: Run, folder: Path, script: Script) -> None:
    script("Done.")
    text = '[chat]\nmodel = "replies.json"\n[[servers]]\nname = "board"\ncommand = "no-such-command"\n'
    (folder / "mcp_config.toml").write_text(text, encoding="utf-8")
    program(*LOGGED)
    (fault,) = [line for line in read_log(folder / "log.jsonl") if line["event"] == "fault"]
    assert (fault["level"], fault["server"], fault["kind"]) == ("warning", "board", "ConnectionError")
    assert "no-such-command" in fault["message"]


WRITER = """
import logging, sys
from pathlib import Path
from rkllm_chat.storage.log_file import LogFile
from rkllm_chat.core.redact import Redactor
handler = LogFile(Path("log.jsonl"), Redactor())
logging.basicConfig(level=logging.INFO, handlers=[handler])
for number in range(int(sys.argv[2])):
    logging.info("%s %d %s", sys.argv[1], number, "x" * 4000)
"""


@pytest.mark.slow
def test_a_large_log_is_rotated_also_with_two_writers(folder: Path) -> None:
    count = 600  # 600 lines of 4 kB of each of the two: more than one file, less than all that are kept
    commands = [[sys.executable, "-c", WRITER, name, str(count)] for name in ("a", "b")]
    running = [subprocess.Popen(command, cwd=folder) for command in commands]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    files = sorted(folder.iterdir())
    assert [path.name for path in files] == ["log.jsonl", "log.jsonl.1"]
    said = {line["message"][:6].split()[0] + line["message"].split()[1] for path in files for line in read_log(path)}
    assert said == {f"{name}{number}" for name in ("a", "b") for number in range(count)}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    subprocess.run([sys.executable, "-c", WRITER, "c", "6000"], cwd=folder, check=True, timeout=100)
    assert len(list(folder.iterdir())) == 1 + MAX_ROTATED_FILES
    assert all(path.stat().st_size <= MAX_BYTES + 5000 for path in folder.iterdir())


@pytest.mark.slow
def test_a_log_on_a_full_disk_is_reported_once_and_the_turn_goes_on(acting: Path, environment: dict[str, str]) -> None:
    (acting / "log.jsonl").write_bytes(b"x" * 4000 + b"\n")

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4100, 4100))

    done = subprocess.run(
        [*PROGRAM, *LOGGED],
        cwd=acting,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
        preexec_fn=fill,
    )
    assert "Done." in done.stdout and done.stderr.count("The log cannot be written") == 1
    written = (acting / "log.jsonl").read_bytes()
    assert len(written) <= 4100
    assert fork_server.run([*PROGRAM, *LOGGED], cwd=acting, env=environment).returncode == 0
    (_, *new) = (acting / "log.jsonl").read_bytes()[len(written) :].split(b"\n", 1)
    events = [json.loads(line)["event"] for line in new[0].splitlines()]
    assert [event for event in events if event != "log"] == ["start", "call", "stop"]


def test_what_does_not_fit_on_the_disk_is_refused_and_leaves_no_half_file(tmp_path: Path) -> None:
    data = b"RIFF____WAVE" + bytes(MAX_BYTES_LEFT)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with MediaStore() as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_BYTES_LEFT, limits[1]))
        try:
            with pytest.raises(ConfigError, match="sound cannot be stored: File too large"):
                store.add(data, "sound")
            with pytest.raises(UsageError, match="cannot be written: File too large"):
                write_numbered_file(str(tmp_path), "sound", "audio/wav", data)
            with pytest.raises(OSError, match="File too large"):
                write_new_file(tmp_path / "export.md", data)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert store.add(data, "sound").size_bytes == len(data)
    assert list(tmp_path.iterdir()) == []
