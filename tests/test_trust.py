"""What a folder's files may say and start, for the chat and for scripts, and where the answers are kept."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config import ServerConfig
from rkllm_chat.discover import find_settings
from rkllm_chat.errors import ConfigError
from rkllm_chat.places import TRUST_VARIABLE
from rkllm_chat.trust import Accepted, changes_loading, describe_start, is_board
from stage import PROGRAM, Screen, call_text

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

ROOT = Path(__file__).parents[1]
HARBOUR = Path(__file__).parent / "terminal/harbour.py"
START = "Start it, now and from now on? [y/N]"


@pytest.fixture
def stranger(environment: dict[str, str], folder: Path) -> Path:
    """A folder that somebody else made: its mcp_config.toml names a server of his."""
    del environment[TRUST_VARIABLE]
    shutil.copy(HARBOUR, folder)
    write_config(folder)
    return folder


def write_config(folder: Path, more: str = "", policy: str = "") -> None:
    entry = f'[[servers]]\nname = "harbour"\ncommand = "{sys.executable}"\nargs = ["harbour.py"]\n'
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


TIDE = ("--args", '{"harbour": "Husum"}')


def test_a_fresh_clone_of_ours_chats_with_its_board_at_once(
    environment: dict[str, str], folder: Path, open_screen: OpenScreen, script: Script
) -> None:
    del environment[TRUST_VARIABLE]
    shutil.copy(ROOT / "mcp_config.toml", folder)
    screen = open_screen("--model", script(call_text("calculate", expression="6 * 7"), "It is 42."))
    screen.wait_for("Servers: board.")
    screen.wait_for_prompt()
    screen.type("six times seven?\r")
    screen.wait_for("It is 42.")
    assert not any("y/N" in line or "ignored" in line for line in screen.lines())


@pytest.mark.parametrize(
    ("changes", "is_it"),
    [
        ({}, True),
        ({"args": ("serve", "board", "--folder", ".")}, True),
        ({"args": ("serve", "board", "--folder", "sub/..")}, True),
        ({"args": ("serve", "board", "--folder", "..")}, False),
        ({"args": ("serve", "board", "--folder", "link")}, False),
        ({"args": ("serve", "board", "--http", "1")}, False),
        ({"args": ("serve", "claude")}, False),
        ({"args": ("-p", "x")}, False),
        ({"env": {"PYTHONPATH": "."}}, False),
        ({"cwd": "sub"}, False),
        ({"command": "./rkllm-chat"}, False),
        ({"command": "/usr/bin/rkllm-chat"}, False),
    ],
)
def test_the_board_server_is_known_exactly(
    changes: dict[str, Any], is_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("/")
    server = ServerConfig("board", **{"command": "rkllm-chat", "args": ("serve", "board"), **changes})
    assert is_board(server) == is_it


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
    assert (stranger / "taken").exists()  # what it would have been


def test_scripts_are_told_how_a_server_is_accepted(stranger: Path, program: Run, script: Script) -> None:
    error = json.loads(program("call-tool", "harbour.get_tide", *TIDE, code=1).stdout)["error"]
    assert error["type"] == "ConfigError"
    command = f"{sys.executable} harbour.py"
    told = f'Server "harbour" ({command}) is named by mcp_config.toml of this folder, and you have not accepted it.'
    assert error["message"].startswith(told)
    assert error["details"]["accept"] == "rkllm-chat trust harbour"
    done = program("-p", "tide?", "--model", script("I do not know."))
    assert "[MCP: Server 'harbour' is not there:" in done.stderr and "rkllm-chat trust harbour" in done.stderr
    tool = [sys.executable, "-m", "rkllm_chat.toolcommands", "harbour__get_tide", "--harbour", "Husum"]
    environment = {"HOME": str(stranger.parent / "home"), "PATH": "/usr/bin:/bin"}
    refused = subprocess.run(tool, cwd=stranger, env=environment, capture_output=True, timeout=30, check=False)
    assert refused.returncode == 3 and b"rkllm-chat trust harbour" in refused.stderr


@pytest.mark.parametrize("way", ["--config", "variable", "own file", "accepted"])
def test_what_the_user_says_himself_needs_no_question(
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
            screen.wait_for("The tools of harbour are accepted as they are now.")
            assert screen.wait_for_end() == 0
    assert json.loads(program("call-tool", "harbour.get_tide", *TIDE, *options).stdout)["ok"]


def test_a_server_that_the_user_put_there_by_us_needs_no_question(
    stranger: Path, open_screen: OpenScreen, script: Script, program: Run
) -> None:
    (stranger / "mcp_config.toml").unlink()
    program("new-server", "made", "--add")
    screen = open_screen("--model", script("Hello."))
    screen.wait_for("Servers: made.")
    screen.wait_for_prompt()
    screen.type(f"/mcp add harbour -- {sys.executable} harbour.py\r")
    screen.wait_for("harbour  open  4 tools")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert json.loads(program("call-tool", "harbour.get_tide", *TIDE).stdout)["ok"]
    write_config(stranger, "", "[chat]\nmax_steps = 3")  # the same entry again, in a file of somebody else's
    assert json.loads(program("call-tool", "harbour.get_tide", *TIDE).stdout)["ok"]
    write_config(stranger, 'cwd = "."')
    assert json.loads(program("call-tool", "harbour.get_tide", *TIDE).stdout)["ok"]  # the folder is what it was
    write_config(stranger, 'env = { A = "1" }')
    assert "you have not accepted it" in program("call-tool", "harbour.get_tide", *TIDE, code=1).stdout


@pytest.mark.usefixtures("stranger")
def test_trust_takes_enter_for_no_and_wants_a_person(program: Run, open_screen: OpenScreen) -> None:
    screen = accept(open_screen, "\r")
    assert screen.wait_for_end() == 1
    assert "There is nobody to be asked." in program("trust", "harbour", code=2, stdin="y\n").stderr
    assert "ConfigError" in program("call-tool", "harbour.get_tide", *TIDE, code=1).stdout


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
    screen = open_screen("--model", script("Hello."), "--server", "odd", "--server", "newest", size=(100, 40))
    screen.wait_for_end_of_line(START)
    shown = screen.lines()
    assert shown[1:] == [
        "mcp_config.toml of this folder names the server odd, which you have not accepted as it is now:",
        f'  command = "{stranger}/run/it"',
        '  args = "-c" "sudo\\u202e x" "--all=/" "two words"',
        f'  cwd = "{stranger}/run"',
        '  env = "LD_PRELOAD=./a.so" "PATH=." "TOKEN"',
        "  ! / is all that you have",
        "  ! LD_PRELOAD decides which code programs load",
        "  ! PATH decides which code programs load",
        START,
    ]
    assert b"hidden-in-here" not in screen.bytes
    screen.type("n")
    screen.wait_for("names the server newest")
    screen.wait_for("! it fetches a program, whichever version is the newest")


@pytest.mark.parametrize(
    "name", ["PATH", "LD_PRELOAD", "ld_audit", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "RUBYOPT"]
)
def test_a_variable_that_loads_code_is_known(name: str) -> None:
    assert changes_loading(name)
    assert not changes_loading(f"X{name}X") and not changes_loading("NODE_AUTH_TOKEN")


@pytest.mark.usefixtures("stranger")
def test_on_a_terminal_without_a_cursor_it_is_asked_before_the_first_line(
    open_screen: OpenScreen, script: Script
) -> None:
    screen = open_screen("--model", script("Hello."), TERM="dumb")
    screen.wait_for(START)
    screen.type("y\r")
    screen.wait_for("Servers: harbour.")
    screen.type("hi\r")
    screen.wait_for("Hello.")


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ('[policy]\napprove = "all"', "policy.approve"),
        ('[policy]\napprove = "read-only"', "policy.approve"),
        ('[policy]\nallow = ["*"]', "policy.allow"),
        ("[policy]\nmax_calls = 5000", "policy.max_calls"),
        ('[rkllm]\nlibrary = "./evil.so"', "rkllm.library"),
        ('[openai]\nkey_env = "HOME"', "openai.key_env"),
        ("[chat]\nkeep_secrets = true", "keep_secrets"),
    ],
)
def test_a_folders_file_cannot_give_itself_leave(
    policy: str, name: str, stranger: Path, program: Run, script: Script
) -> None:
    write_config(stranger, policy=policy)
    model = script(call_text("get_tide", harbour="Husum"), "So.")
    arguments = ("-p", "tide?", "--model", model, "--no-servers", "--output-format", "json")
    told = f"mcp_config.toml: {name} is ignored; a folder's file cannot say that."
    assert any(told in notice for notice in json.loads(program(*arguments).stdout)["result"]["notices"])
    said = json.loads(program(*arguments, "--config", "mcp_config.toml").stdout)["result"]["notices"]
    assert not any("is ignored" in notice for notice in said)


@pytest.mark.parametrize("approve", ["ask", "none"])
def test_a_folders_file_may_ask_for_more_care(
    approve: str, stranger: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own_config(environment, '[policy]\napprove = "ask"\ndeny = ["a"]\n')
    write_config(stranger, policy=f'[policy]\napprove = "{approve}"\ndeny = ["b"]')
    monkeypatch.chdir(stranger)
    policy = find_settings(environment=environment).policy
    assert (policy.approve, policy.deny) == (approve, ("a", "b"))


def test_rules_of_the_chat_are_kept_for_their_folder(
    stranger: Path, environment: dict[str, str], open_screen: OpenScreen, script: Script
) -> None:
    text = (stranger / "mcp_config.toml").read_text(encoding="utf-8")
    (stranger / "mcp_config.toml").write_text(text.replace("harbour.py", str(HARBOUR)), encoding="utf-8")
    model = script(call_text("get_tide", harbour="Husum"), "So.")
    own = ("--config", str(stranger / "mcp_config.toml"), "--model", str(stranger / model))
    asked = [*PROGRAM, "-p", "tide?", *own, "--output-format", "json"]

    def status(place: Path = stranger) -> list[str]:
        done = subprocess.run(asked, cwd=place, env=environment, capture_output=True, timeout=30, check=True)
        return [call["status"] for call in json.loads(done.stdout)["result"]["calls"]]

    assert status() == ["declined"]
    screen = open_screen(*own)
    screen.wait_for_prompt()
    screen.type("/permissions allow harbour__get_tide\r")
    screen.wait_for("runs       harbour__get_tide")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert status() == ["completed"]
    elsewhere = stranger.parent / "elsewhere"
    elsewhere.mkdir()
    assert status(elsewhere) == ["declined"]
    screen = open_screen(*own)
    screen.wait_for_prompt()
    screen.type("/permissions forget harbour__get_tide\r")
    screen.wait_for("otherwise")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert status() == ["declined"]


def make_server() -> ServerConfig:
    return ServerConfig("notes", command="notes-server", source="mcp.json", is_project=True)


def test_what_is_accepted_is_kept_for_the_user_alone(tmp_path: Path) -> None:
    server = make_server()
    accepted = Accepted(str(tmp_path / "state"))
    assert not accepted.may_start(server)
    accepted.accept(server)
    assert Accepted(str(tmp_path / "state")).may_start(server)
    kept = tmp_path / "state/trust"
    assert kept.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in kept.iterdir()] == [0o600]


def test_no_link_is_followed_to_what_was_accepted(tmp_path: Path) -> None:
    server, accepted = make_server(), Accepted(str(tmp_path / "state"))
    accepted.accept(server)
    [file] = (tmp_path / "state/trust").iterdir()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="It must be a file of yours, and no link"):
        accepted.may_start(server)


def test_a_file_that_is_damaged_accepts_nothing(tmp_path: Path) -> None:
    server, accepted = make_server(), Accepted(str(tmp_path / "state"))
    accepted.accept(server)
    [file] = (tmp_path / "state/trust").iterdir()
    file.write_text(file.read_text(encoding="utf-8")[:-5], encoding="utf-8")
    assert not accepted.may_start(server)
    accepted.accept(server)
    assert accepted.may_start(server)


def test_no_secret_is_in_what_is_shown_and_hashed() -> None:
    server = ServerConfig("x", command="y", env={"TOKEN": "s3cret"}, headers={"Authorization": "s3cret"})
    assert "s3cret" not in str(describe_start(server))
