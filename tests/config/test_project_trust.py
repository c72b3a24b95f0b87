"""What configuration files of a project folder may set and start, and how acceptance of their servers is stored."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fork_server
from rkllm_chat.config.files import TRUST_VARIABLE
from rkllm_chat.config.project_trust import TrustStore, describe_start, is_loader_variable
from rkllm_chat.config.servers import is_board
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.config.trust_rules import Origin
from rkllm_chat.core.errors import ConfigError
from rkllm_chat.mcp_client.acceptance import accept as accept_start
from rkllm_chat.mcp_client.acceptance import may_start, review_start
from stage import PROGRAM, OpenScreen, Run, Screen, Script, call_text

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests/cli/mcp_tool/server.py"
TOOLS = [{"name": "get_tide", "inputSchema": {"type": "object"}}]
HARBOUR = ("--server", "harbour")
ARGS = ("harbour.py", "harbour.tools", "harbour.record")
START = "Start it and trust it from now on? [y/N]"


@pytest.fixture
def stranger(environment: dict[str, str], folder: Path) -> Path:
    """A folder that somebody else made: its mcp_config.toml names a server."""
    del environment[TRUST_VARIABLE]
    shutil.copy(SERVER, folder / "harbour.py")
    (folder / "harbour.tools").write_text(json.dumps(TOOLS), encoding="utf-8")
    write_config(folder)
    return folder


def write_config(folder: Path, more: str = "", policy: str = "") -> None:
    entry = f'[[servers]]\nname = "harbour"\ncommand = "{sys.executable}"\nargs = {json.dumps(ARGS)}\n'
    (folder / "mcp_config.toml").write_text(f"{policy}\n{entry}{more}\n", encoding="utf-8")


def own_config(environment: dict[str, str], text: str) -> None:
    """Writes the user's own configuration."""
    path = Path(environment["HOME"]) / ".config/rkllm-chat/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")


def accept(open_screen: OpenScreen, *keys: str) -> Screen:
    screen = open_screen("trust", "harbour")
    for key in keys:
        screen.wait_for(START)
        screen.type(key)
    return screen


@pytest.mark.slow
def test_a_fresh_clone_of_ours_chats_with_its_board_at_once(
    environment: dict[str, str], folder: Path, open_screen: OpenScreen, script: Script
) -> None:
    del environment[TRUST_VARIABLE]
    shutil.copy(ROOT / "mcp_config.toml", folder)
    screen = open_screen("--model", script(call_text("calculate", expression="6 * 7"), "It is 42."))
    screen.wait_for("Servers: board.")
    screen.wait_for_prompt()
    lines = screen.enter("six times seven?", "It is 42.")
    assert not any("y/N" in line or "ignored" in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "is_it"),
    [
        ({}, True),
        ({"args": ("serve", "board", "--folder", ".")}, True),
        ({"args": ("serve", "board", "--folder", "..")}, False),
        ({"args": ("serve", "board", "--folder", "link")}, False),
        ({"args": ("serve", "board", "--folder", "${HOME}")}, False),
        ({"args": ("serve", "board", "--http", "1")}, False),
        ({"args": ("serve", "claude")}, False),
        ({"env": {"PYTHONPATH": "."}}, False),
        ({"cwd": "sub"}, False),
        ({"command": "./rkllm-chat"}, False),
    ],
)
def test_only_the_bundled_board_server_needs_no_acceptance(
    changes: dict[str, Any], is_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("/")
    server = ServerConfig("board", **{"command": "rkllm-chat", "args": ("serve", "board"), **changes})
    assert is_board(server) == is_it


@pytest.mark.slow
def test_the_board_server_imports_nothing_of_the_folder(stranger: Path, environment: dict[str, str]) -> None:
    (stranger / "mcp_config.toml").unlink()
    for name in ("json.py", "runpy.py", "asyncio.py", "mcp.py"):
        (stranger / name).write_text("open('taken', 'w')\n", encoding="utf-8")
    # the program itself is started as its command is: not from the folder
    code = "import sys; sys.path.remove(''); from rkllm_chat.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "call-tool", "board.calculate", "--args", '{"expression": "6 * 7"}'],
        cwd=stranger,
        env=environment,
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert b"42" in done.stdout
    assert not (stranger / "taken").exists()
    subprocess.run([sys.executable, "-m", "json"], cwd=stranger, capture_output=True, timeout=30, check=False)
    assert (stranger / "taken").exists()  # the files do run where the folder is on the path


def test_errors_of_commands_say_how_a_server_is_accepted(stranger: Path, program: Run, script: Script) -> None:
    error = json.loads(program("call-tool", "harbour.get_tide", code=1).stdout)["error"]
    assert error["type"] == "ConfigError"
    assert f"({sys.executable} {' '.join(ARGS)})" in error["message"] and "mcp_config.toml" in error["message"]
    assert error["details"]["accept"] == "rkllm-chat mcp trust harbour"
    done = program("-p", "tide?", "--model", script("I do not know."), *HARBOUR)
    assert "rkllm-chat mcp trust harbour" in done.stderr
    findings = json.loads(program("doctor", "--json", "--model", "replies.json").stdout)["result"]["lines"]
    [finding] = [finding for finding in findings if finding["name"] == "server harbour"]
    assert (finding["state"], finding["value"]) == ("warn", error["message"])
    tool = [sys.executable, "-m", "rkllm_chat.cli.mcp_tool", "harbour__get_tide"]
    environment = {"HOME": str(stranger.parent / "home"), "PATH": "/usr/bin:/bin"}
    refused = fork_server.run(tool, cwd=stranger, env=environment)
    assert refused.returncode == 3 and b"rkllm-chat mcp trust harbour" in refused.stderr


@pytest.mark.parametrize("way", ["--config", "variable", "own file", "accepted"])
def test_what_the_user_configures_himself_needs_no_question(
    way: str, stranger: Path, environment: dict[str, str], program: Run, open_screen: OpenScreen
) -> None:
    options: tuple[str, ...] = ()
    match way:
        case "--config":
            options = ("--config", "mcp_config.toml")
        case "variable":
            environment[TRUST_VARIABLE] = "1"
        case "own file":
            own_config(environment, (stranger / "mcp_config.toml").read_text(encoding="utf-8"))
            (stranger / "mcp_config.toml").unlink()
        case "accepted":
            screen = accept(open_screen, "y\r")
            screen.wait_for("The current tools of harbour were approved")
            assert screen.wait_for_end() == 0
    assert json.loads(program("call-tool", "harbour.get_tide", *options).stdout)["ok"]


@pytest.mark.slow
def test_a_server_that_the_user_added_needs_no_question(
    stranger: Path, open_screen: OpenScreen, script: Script, program: Run
) -> None:
    (stranger / "mcp_config.toml").unlink()
    program("new-server", "made", "--add")
    screen = open_screen("--model", script("Hello."))
    screen.wait_for("Servers: made, board.")
    screen.wait_for_prompt()
    screen.enter(f"/mcp add harbour -- {sys.executable} {' '.join(ARGS)}", "harbour  connected  1 tool")
    screen.leave()
    assert json.loads(program("call-tool", "harbour.get_tide").stdout)["ok"]
    write_config(stranger, "", "[chat]\nmax_steps = 3")  # the same entry again, in a file of somebody else's
    assert json.loads(program("call-tool", "harbour.get_tide").stdout)["ok"]
    write_config(stranger, 'cwd = "."')
    assert json.loads(program("call-tool", "harbour.get_tide").stdout)["ok"]  # the folder is what it was
    write_config(stranger, 'env = { A = "1" }')
    assert "you have not accepted it" in program("call-tool", "harbour.get_tide", code=1).stdout


@pytest.mark.usefixtures("stranger")
def test_trust_takes_enter_for_no_and_needs_a_terminal(program: Run, open_screen: OpenScreen) -> None:
    screen = accept(open_screen, "\r")
    assert screen.wait_for_end() == 1
    program("trust", "harbour", code=2, stdin="y\n")
    assert "ConfigError" in program("call-tool", "harbour.get_tide", code=1).stdout


@pytest.mark.usefixtures("stranger")
def test_a_script_approves_what_is_shown_with_yes(program: Run) -> None:
    assert "--yes" in program("trust", "harbour", code=2, stdin="y\n").stderr
    assert "ConfigError" in program("call-tool", "harbour.get_tide", code=1).stdout
    shown = program("trust", "--yes", "harbour").stdout
    assert sys.executable in shown and "The current tools of harbour were approved" in shown
    assert json.loads(program("call-tool", "harbour.get_tide").stdout)["ok"]


@pytest.mark.usefixtures("stranger")
def test_an_acceptance_that_cannot_be_stored_is_an_error(program: Run, environment: dict[str, str]) -> None:
    records = Path(environment["HOME"], ".local/state/rkllm-chat/trust")
    records.parent.mkdir(parents=True)
    records.touch()
    done = program("trust", "--yes", "harbour", code=3)
    assert "cannot be saved" in done.stderr and "approved" not in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("words", [["trust", "--yes", "harbour"], ["-p", "hi"]], ids=lambda words: words[0])
def test_tools_that_only_the_chat_is_offered_are_no_change(
    words: list[str], stranger: Path, environment: dict[str, str], program: Run, open_screen: OpenScreen, script: Script
) -> None:
    environment[TRUST_VARIABLE] = "1"
    needs = {"tide": "", "ask": "elicitation", "sum_up": "sampling", "look": "roots"}
    tools = [{"name": name, "inputSchema": {"type": "object"}, "needs": need} for name, need in needs.items()]
    (stranger / "harbour.tools").write_text(json.dumps(tools), encoding="utf-8")
    program(*words, *(["--model", script("hello"), *HARBOUR] if "-p" in words else []))
    screen = open_screen("--model", script("unused"), *HARBOUR)
    screen.wait_for("4 tools")
    assert not any("withheld" in line for line in screen.lines())


def test_a_server_is_shown_as_it_would_be_started(stranger: Path, open_screen: OpenScreen, script: Script) -> None:
    (stranger / "run").mkdir()
    shutil.copy("/bin/sh", stranger / "run/it")
    text = """
[[servers]]
name = "odd"
command = "./run/it"
args = ["-c", "sudo\\u202e x", "--all=/", "two words"]
env = { LD_PRELOAD = "./a.so", TOKEN = "hidden-in-here", PATH = "." }
cwd = "run"
[[servers]]
name = "newest"
command = "npx"
args = ["-y", "some-server"]
"""
    write_config(stranger, text)
    (stranger / "mcp_config.toml").chmod(0o600)  # it holds a secret
    screen = open_screen("--model", script("Hello."), "--server", "odd", "--server", "newest", size=(120, 60))
    screen.wait_for_end_of_line("Start these 2 servers and trust them from now on? [y/N]")
    assert screen.lines()[-3:-1] == [
        '  1. odd: "./run/it" "-c" "sudo\\u202e x" "--all=/" "two words" (! 5 warnings)',
        '  2. newest: "npx" "-y" "some-server" (! 2 warnings)',
    ]
    screen.type("n")
    screen.wait_for_end_of_line("Decide about each of them? [y/N]")
    screen.type("y")
    shown = screen.wait_for_end_of_line(START)
    assert '  args = "-c" "sudo\\u202e x" "--all=/" "two words"' in shown
    assert '  env = "LD_PRELOAD=./a.so" "PATH=." "TOKEN=********"' in shown
    assert b"hidden-in-here" not in screen.bytes
    screen.say("n", "wants to start the MCP server newest")


def has_questions(screen: Screen, count: int) -> bool:
    return sum("[y/N]" in line for line in screen.lines()) == count


@pytest.mark.parametrize(
    ("answers", "started"), [("y", ["harbour", "second"]), ("nynn", []), ("nyny", ["second"]), ("nn", [])]
)
def test_the_servers_of_a_folder_are_approved_as_one_list(
    answers: str, started: list[str], stranger: Path, open_screen: OpenScreen, script: Script
) -> None:
    entry = f'[[servers]]\nname = "second"\ncommand = "{sys.executable}"\nargs = {json.dumps(ARGS)}\n'
    write_config(stranger, entry)
    options = ("--model", script("Hello."), *HARBOUR, "--server", "second")
    screen = open_screen(*options, size=(200, 60))
    for count, answer in enumerate(answers, 1):
        screen.wait_until(partial(has_questions, screen, count), "a question")
        screen.type(answer)
    screen.wait_for(f"Servers: {', '.join(started) or 'none'}.")
    screen.wait_for_prompt()
    assert has_questions(screen, len(answers))
    screen = open_screen(*options, size=(200, 60))
    if len(started) == 2:  # nothing is asked again
        screen.wait_for("Servers: harbour, second.")
    else:
        screen.wait_for("[y/N]")


@pytest.mark.parametrize(
    "name", ["PATH", "ld_audit", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "GIT_CONFIG_KEY_0", "SSH_ASKPASS"]
)
def test_a_variable_that_makes_programs_load_code_is_known(name: str) -> None:
    assert is_loader_variable(name)
    assert not is_loader_variable(f"X{name}X") and not is_loader_variable("NODE_AUTH_TOKEN")


@pytest.mark.usefixtures("stranger")
def test_a_dumb_terminal_is_asked_before_the_first_line(open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script("Hello."), *HARBOUR, TERM="dumb", size=(1000, 30))
    screen.wait_for(START)
    screen.say("y\r", "Servers: harbour.")
    screen.say("hi\r", "Hello.")


@pytest.mark.slow
@pytest.mark.parametrize("entry", ['trust = "${T:-trusted}"', 'sandbox = "${T:-off}"'])
def test_a_file_of_a_project_hides_no_choice_behind_a_variable(stranger: Path, program: Run, entry: str) -> None:
    write_config(stranger, entry)
    key = entry.partition(" ")[0]
    for command in (("-p", "hi"), ("call-tool", "harbour.get_tide"), ("doctor",)):
        done = program(*command, code=None)
        assert f"servers[0].{key} is " in done.stdout + done.stderr and "Allowed: " in done.stdout + done.stderr


@pytest.mark.slow
def test_rules_of_the_chat_are_stored_for_their_folder(
    stranger: Path, environment: dict[str, str], open_screen: OpenScreen, script: Script
) -> None:
    text = (stranger / "mcp_config.toml").read_text(encoding="utf-8")
    (stranger / "mcp_config.toml").write_text(text.replace('"harbour.', f'"{stranger}/harbour.'), encoding="utf-8")
    model = script(call_text("get_tide"), "So.")
    own = ("--config", str(stranger / "mcp_config.toml"), "--model", str(stranger / model))
    asked = [*PROGRAM, "-p", "tide?", *own, "--output-format", "json"]

    def status(place: Path = stranger) -> list[str]:
        done = fork_server.run(asked, cwd=place, env=environment)
        return [call["status"] for call in json.loads(done.stdout)["result"]["calls"]]

    assert status() == ["declined"]
    screen = open_screen(*own)
    screen.wait_for_prompt()
    screen.enter("/permissions allow harbour__get_tide", "allowed  harbour__get_tide")
    screen.leave()
    assert status() == ["completed"]
    elsewhere = stranger.parent / "elsewhere"
    elsewhere.mkdir()
    assert status(elsewhere) == ["declined"]
    screen = open_screen(*own)
    screen.wait_for_prompt()
    screen.enter("/permissions forget harbour__get_tide", "default  ask")
    screen.leave()
    assert status() == ["declined"]


def make_server() -> ServerConfig:
    return ServerConfig("notes", command="notes-server", source="mcp.json", origin=Origin.PROJECT)


def test_acceptance_is_stored_for_the_user_alone(tmp_path: Path) -> None:
    server = make_server()
    accepted = TrustStore(str(tmp_path / "state"))
    assert not may_start(accepted, server)
    accept_start(accepted, review_start(server))
    assert may_start(TrustStore(str(tmp_path / "state")), server)
    kept = tmp_path / "state/trust"
    assert kept.stat().st_mode & 0o777 == 0o700
    modes = {file.name.partition("-")[0]: file.stat().st_mode & 0o777 for file in kept.iterdir()}
    assert modes == {"notes": 0o600, "key.json": 0o600}


def test_a_damaged_record_accepts_nothing_and_no_link_is_followed(tmp_path: Path) -> None:
    server, store = make_server(), TrustStore(str(tmp_path / "state"))
    accept_start(store, review_start(server))
    [file] = (tmp_path / "state/trust").glob("notes-*")
    file.write_text(file.read_text(encoding="utf-8")[:-5], encoding="utf-8")
    assert not may_start(store, server)
    accept_start(store, review_start(server))
    assert may_start(store, server)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="link"):
        may_start(store, server)


def test_the_description_of_a_server_contains_no_secret() -> None:
    server = ServerConfig("x", command="y", env={"TOKEN": "s3cret"}, headers={"Authorization": "s3cret"})
    assert "s3cret" not in str(describe_start(server))
