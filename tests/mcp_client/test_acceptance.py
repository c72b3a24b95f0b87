"""A server of a folder starts as the user accepted it: what the review shows, and what is asked about again."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fork_server
from backends.openai.service import Service
from fuzzing import examples
from rkllm_chat.chat.server_approval import describe_review
from rkllm_chat.config.files import TRUST_VARIABLE
from rkllm_chat.config.settings import read_json
from rkllm_chat.config.trust_rules import Origin
from rkllm_chat.core import i18n
from rkllm_chat.core.errors import ConfigError
from rkllm_chat.core.sanitize import escape_visibly, sanitize_for_terminal
from rkllm_chat.mcp_client.acceptance import review_start
from rkllm_chat.mcp_client.process.start import SANDBOX_VARIABLE
from stage import OpenScreen, Run

from .chaos_http import serving

START = "Start it and trust it from now on? [y/N]"
SERVER = Path(__file__).parents[1] / "cli/mcp_tool/server.py"
TOOLS = [{"name": "get_tide", "inputSchema": {"type": "object"}}]
SCRIPT = """
import json, os, pathlib, runpy
pathlib.Path("tide.environment").write_text(json.dumps(dict(os.environ)))
runpy.run_path("server.py", run_name="__main__")
"""
ARGS = ["tide.py", "tide.tools", "tide.record"]
SECRET = "s3cret-in-the-environment"
UNSANDBOXED = "it runs without a sandbox: it can read and change all your files and use the network"
LITERAL = "l1teral-in-the-file"


@dataclass
class Clone:
    """A folder of somebody else; its mcp.json names the server `tide`, which writes its environment to a file."""

    folder: Path
    environment: dict[str, str]
    program: Run
    open_screen: OpenScreen
    entry: dict[str, Any] = field(default_factory=lambda: {"command": sys.executable, "args": ARGS})

    @property
    def home(self) -> Path:
        return Path(self.environment["HOME"])

    def write(self, **changes: Any) -> None:
        """Write the server's entry with changes; an empty value removes a key."""
        entry = {key: value for key, value in {**self.entry, **changes}.items() if value}
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"tide": entry}}), encoding="utf-8")
        (self.folder / "mcp.json").chmod(0o600)

    def write_own(self, entry: dict[str, Any]) -> None:
        """Write the user's own server of the same name."""
        (self.home / ".mcp.json").write_text(json.dumps({"mcpServers": {"tide": entry}}), encoding="utf-8")
        (self.home / ".mcp.json").chmod(0o600)

    def review(self, answer: str) -> list[str]:
        """Answer `rkllm-chat mcp trust tide`; return what it shows."""
        screen = self.open_screen("trust", "tide", size=(1000, 60))
        screen.wait_for_end_of_line(START)
        shown = screen.lines()
        screen.type(f"{answer}\r")
        screen.wait_for_end()
        assert SECRET.encode() not in screen.bytes and LITERAL.encode() not in screen.bytes
        return [line.strip() for line in shown]

    def is_accepted(self) -> bool:
        """Tell whether a script may use the server."""
        done = self.program("list-tools", "--server", "tide", code=None)
        error = json.loads(done.stdout).get("error", {})
        return "you have not accepted it" not in error.get("message", "")

    def look(self) -> dict[str, str]:
        """Start the server and return its environment."""
        self.program("list-tools", "--server", "tide")
        environment: dict[str, str] = json.loads((self.folder / "tide.environment").read_text(encoding="utf-8"))
        return environment


@pytest.fixture
def clone(
    environment: dict[str, str],
    folder: Path,
    program: Run,
    open_screen: OpenScreen,
    tmp_path_factory: pytest.TempPathFactory,
) -> Clone:
    del environment[TRUST_VARIABLE]
    environment |= {"HOME": str(tmp_path_factory.mktemp("home"))}  # in no folder that contains this one
    environment |= {"ACCESS_TOKEN": SECRET, "PLACE": "harbour"}
    shutil.copy(SERVER, folder / "server.py")
    (folder / "tide.py").write_text(SCRIPT, encoding="utf-8")
    (folder / "tide.tools").write_text(json.dumps(TOOLS), encoding="utf-8")
    (folder / "tool").symlink_to(sys.executable)
    return Clone(folder, environment, program, open_screen)


def retarget_program(clone: Clone) -> None:
    (clone.folder / "tool").unlink()
    (clone.folder / "tool").symlink_to(shutil.which("env") or "")


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any] | Callable[[Clone], object]]] = {
    "value": ({"env": {"CACHE": "default"}}, {"env": {"CACHE": "~/"}}),
    "secret value": ({"env": {"API_TOKEN": LITERAL}}, {"env": {"API_TOKEN": f"{LITERAL}2"}}),
    "argument": ({}, {"args": [*ARGS, ".."]}),
    "command": ({}, {"command": "/usr/bin/env"}),
    "address": ({}, {"url": "http://127.0.0.1:9/mcp", "command": "", "args": []}),
    "header": (
        {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Token": LITERAL}, "command": "", "args": []},
        {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Token": "another-one"}, "command": "", "args": []},
    ),
    "variable": ({"env": {"WHERE": "${PLACE}"}}, lambda clone: clone.environment.update(PLACE="elsewhere")),
    "reference": ({"env": {"WHERE": "${PLACE}"}}, {"env": {"WHERE": "harbour"}}),
    "program": ({"command": "./tool"}, retarget_program),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_decides_what_runs_is_asked_about_again(change: str, clone: Clone) -> None:
    before, after = CHANGES[change]
    clone.write(**before)
    clone.review("y")
    assert clone.is_accepted()
    if callable(after):
        after(clone)
    else:
        clone.write(**after)
    assert not clone.is_accepted()
    if change == "value":
        clone.review("y")
        assert clone.is_accepted()


def test_a_changed_script_a_new_secret_and_a_deadline_are_not_asked_about(clone: Clone) -> None:
    clone.write(env={"API_TOKEN": "${ACCESS_TOKEN}"})
    shown = clone.review("y")
    assert "You are not asked again when the contents of its programs and scripts change." in shown
    assert clone.look()["API_TOKEN"] == SECRET
    with (clone.folder / "tide.py").open("a", encoding="utf-8") as script:
        script.write("\n# changed\n")
    clone.environment["ACCESS_TOKEN"] = "n3w-s3cret"
    clone.write(env={"API_TOKEN": "${ACCESS_TOKEN}"}, timeout_s=9)
    assert clone.look()["API_TOKEN"] == "n3w-s3cret"


def test_values_are_shown_and_secrets_are_neither_shown_nor_stored(clone: Clone) -> None:
    clone.write(
        env={"PYTHONWARNINGS": "x", "API_TOKEN": LITERAL, "KEY": "${ACCESS_TOKEN}", "SSH_ASKPASS": "./run", "A": "1 2"}
    )
    shown = clone.review("y")
    assert shown[1:] == [
        f'command = "{sys.executable}"',
        *([f'program = "{Path(sys.executable).resolve()}"'] if Path(sys.executable).is_symlink() else []),
        'args = "tide.py" "tide.tools" "tide.record"',
        f'cwd = "{clone.folder}"',
        'env = "A=1 2" "API_TOKEN=********" "KEY=${ACCESS_TOKEN}" "PYTHONWARNINGS=x" "SSH_ASKPASS=./run"',
        'variables = "ACCESS_TOKEN=********"',
        'sandbox = "none: RKLLM_CHAT_SANDBOX=off"',
        f"! {UNSANDBOXED}",
        "! PYTHONWARNINGS can inject code into programs",
        "! SSH_ASKPASS can inject code into programs",
        "! it gets the value of your variable ACCESS_TOKEN",
        "You are not asked again when the contents of its programs and scripts change.",
        START,
    ]
    stored = [path for path in clone.home.rglob("*") if path.is_file() and path.name != ".mcp.json"]
    assert any(path.parent.name == "trust" for path in stored)
    assert not [path for path in stored if {SECRET, LITERAL} & set(path.read_text(errors="replace").split('"'))]


def test_a_key_in_a_value_does_not_hide_the_rest_of_it(clone: Clone) -> None:
    key = "sk-abcdefghij0123456789"
    clone.write(
        env={
            "BUILD_CMD": f"./build {key}",
            "DBUS_SESSION_BUS_ADDRESS": "unixexec:path=./run",
            "NODE_OPTIONS": f"--import=./hidden.mjs?{key}",
            "NOTE": f"./run {key}",
            "NPM_TOKEN": "~/bin/run",
            "OPENAI_KEY": key,
            "PYTHON_KEYRING_BACKEND": "hidden.Keyring",
        }
    )
    assert (
        f'env = "BUILD_CMD=./build {key}" "DBUS_SESSION_BUS_ADDRESS=unixexec:path=./run"'
        f' "NODE_OPTIONS=--import=./hidden.mjs?{key}" "NOTE=./run [redacted]" "NPM_TOKEN=~/bin/run"'
        ' "OPENAI_KEY=********" "PYTHON_KEYRING_BACKEND=hidden.Keyring"'
    ) in clone.review("n")


def test_a_server_of_a_folder_gets_no_value_of_the_users_own_of_its_name(clone: Clone) -> None:
    clone.write_own({**clone.entry, "env": {"API_TOKEN": "${ACCESS_TOKEN}"}})
    assert clone.look()["API_TOKEN"] == SECRET
    clone.write(env={"A": "1"})
    shown = clone.review("y")
    file = clone.home / ".mcp.json"
    warning = f"! it replaces your own server of this name in {file}; your rules for its tools do not apply to this one"
    assert warning in shown and 'env = "A=1"' in shown
    environment = clone.look()
    assert environment["A"] == "1" and "API_TOKEN" not in environment
    clone.environment[TRUST_VARIABLE] = "1"  # then the folder's files are the user's own
    assert clone.look()["API_TOKEN"] == SECRET


def test_variables_of_a_server_are_expanded_after_it_was_accepted(clone: Clone) -> None:
    with serving(Service()) as service:
        url = f"{service.url}/${{ACCESS_TOKEN}}/mcp"
        clone.write(command="", args=[], url=url)
        assert not clone.is_accepted()
        assert clone.review("n")[1:3] == [f'url = "{url}"', 'variables = "ACCESS_TOKEN=********"']
        assert service.connections == []
        clone.review("y")
        assert any(SECRET in request.path for request in service.others)


def test_a_secret_in_the_place_of_a_command_is_not_shown(clone: Clone) -> None:
    clone.write(command="./${ACCESS_TOKEN}", cwd="${ACCESS_TOKEN}")
    shown = clone.review("n")
    assert 'command = "./${ACCESS_TOKEN}"' in shown
    assert f'cwd = "{clone.folder}/${{ACCESS_TOKEN}}"' in shown


@pytest.mark.parametrize("entry", [{"command": "./run"}, {"command": "run", "env": {"PATH": "."}}])
def test_a_relative_program_is_the_one_that_was_shown_whatever_its_folder(entry: dict[str, Any], clone: Clone) -> None:
    (clone.folder / "inner").mkdir()
    for place in (".", "inner"):
        (clone.folder / place / "run").write_text(f"#!/bin/sh\necho {place} >>{clone.folder}/ran\n", encoding="utf-8")
        (clone.folder / place / "run").chmod(0o700)
    clone.write(**entry, args=["x"], cwd="inner")
    assert f'command = "{clone.folder}/run"' in clone.review("y")
    clone.program("list-tools", "--server", "tide", code=1)
    assert set((clone.folder / "ran").read_text(encoding="utf-8").split()) == {"."}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"command": "./later/run"}, 'the command \\"./later/run\\" cannot be found'),
        ({"command": "/bin/cat", "cwd": "later"}, "there is no folder later"),
    ],
)
def test_what_cannot_be_started_is_said_and_asked_about_again_when_it_can(
    entry: dict[str, Any], problem: str, clone: Clone
) -> None:
    """Its reach is not known: what was accepted is none."""
    clone.write(**entry)
    shown = "\n".join(clone.review("y"))
    assert f'problem = "Server \\"tide\\": {problem}' in shown
    assert "sandbox" not in shown
    (clone.folder / "later").mkdir()
    (clone.folder / "later/run").write_text("#!/bin/sh\n", encoding="utf-8")
    (clone.folder / "later/run").chmod(0o755)
    error = json.loads(clone.program("list-tools", "--server", "tide", code=1).stdout)["error"]
    assert "rkllm-chat mcp trust tide" in error["details"]["hint"]


def test_a_missing_variable_is_named_and_stops_that_server_alone(clone: Clone) -> None:
    clone.write(env={"A": "${NOWHERE}"})
    clone.review("y")
    error = json.loads(clone.program("list-tools", "--server", "tide", code=1).stdout)["error"]
    assert error["type"] == "ConfigError" and "uses the variable NOWHERE, which is not set" in error["message"]
    clone.environment["NOWHERE"] = "here"
    assert not clone.is_accepted()


@pytest.mark.sandbox
def test_what_a_sandbox_permits_is_shown_and_more_of_it_is_asked_about(clone: Clone) -> None:
    clone.environment[SANDBOX_VARIABLE] = "auto"
    notes, log = clone.folder / "notes", clone.folder / "log"
    notes.mkdir()
    log.mkdir()
    clone.write(args=[*ARGS, "./notes", "log/today"])
    shown = clone.review("y")
    assert show_writes(notes, log) in shown and "network = false" in shown
    assert not any(line.startswith(("!", "sandbox")) for line in shown)
    (log / "today").touch()  # the folder of the file is the same
    assert clone.is_accepted()
    notes.rmdir()
    notes.symlink_to(clone.home)
    assert not clone.is_accepted()
    shown = clone.review("y")
    assert show_writes(clone.home, log) in shown
    assert "! ./notes contains all your files" in shown
    clone.environment["PATH"] = "/nonexistent"  # the machine loses bubblewrap
    assert not clone.is_accepted()
    shown = clone.review("n")
    assert 'sandbox = "none: bubblewrap is not installed"' in shown and f"! {UNSANDBOXED}" in shown


def test_long_values_do_not_scroll_the_rest_off_the_screen(clone: Clone) -> None:
    clone.write(
        args=["-c", "pass", "x" * 20_000, "~"], env={f"PIP_{number}": "1" for number in range(9)}, sandbox="off"
    )
    screen = clone.open_screen("trust", "tide", size=(120, 24))
    screen.wait_for_end_of_line(START)
    shown = [line.strip() for line in screen.lines()]
    assert "mcp.json in this folder wants to start the MCP server tide" in " ".join(shown)
    summary = shown[shown.index("In short; the complete text is above:") :]
    assert any(line.startswith("command = ") for line in summary)
    assert any(re.fullmatch(r'args = "-c" "pass" "x+ \[… \d+ more characters …\] x+" "~"', line) for line in summary)
    assert "! its arguments are run as code" in summary and "! 6 more warnings above" in summary
    screen.type("n\r")
    screen.wait_for_end()
    assert b"x" * 99 in screen.bytes and screen.bytes.count(b"decides where programs are downloaded from") > 9
    clone.write()
    assert not any("In short" in line for line in clone.review("n"))


@pytest.mark.sandbox
def test_a_reach_into_folders_with_sockets_is_said(clone: Clone) -> None:
    clone.environment[SANDBOX_VARIABLE] = "auto"
    (clone.folder / "sockets").symlink_to("/run")
    clone.write(args=[*ARGS, "./sockets"])
    assert not any("/run" in line or "sockets or settings" in line for line in clone.review("n"))
    clone.write(write=["sockets"])
    assert "! /run holds sockets or settings of the system, which can lead out of the sandbox" in clone.review("n")
    clone.write(write=["/tmp"])
    warning = "contains all your files" if clone.home.resolve().is_relative_to("/tmp") else "holds sockets or settings"
    assert any(line.startswith(f"! /tmp {warning}") for line in clone.review("n"))


def show_writes(*paths: Path) -> str:
    return " ".join(["write =", '"/tmp"', *sorted(f'"{path}"' for path in paths)])


ROWS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "plain": ({"command": "/bin/cat", "args": ["notes.txt", "src/x.py"]}, set()),
    "parent": ({"command": "/bin/cat", "args": ["notes/../.."]}, {"notes/../.. contains this folder"}),
    "home": ({"command": "/bin/cat", "args": ["--dir=~/x/.."]}, {"~/x/.. contains all your files"}),
    "value": ({"command": "/bin/cat", "env": {"DIR": "~/"}}, {"~/ contains all your files"}),
    "python": ({"command": "python3", "args": ["-Ic", "pass"]}, {"its arguments are run as code"}),
    "node": ({"command": "/opt/node20", "args": ["--eval", "1"]}, {"its arguments are run as code"}),
    "env": ({"command": "env", "args": ["A=1", "bash", "-c", "ls"]}, {"its arguments are run by a shell"}),
    "split": ({"command": "env", "args": ["-S", "bash -c ls"]}, {"its arguments are run by a shell"}),
    "find": ({"command": "find", "args": [".", "-exec", "sh", "{}", ";"]}, {"its arguments are run by a shell"}),
    "import": (
        {"command": "/opt/node20", "args": ["--import=data:text/javascript,1"]},
        {"its arguments are run as code"},
    ),
    "git": ({"command": "git", "args": ["-c", "core.pager=./x", "log"]}, {"its arguments are run as code"}),
    "sudo": ({"command": "timeout", "args": ["9", "sudo", "ls"]}, {"it runs as root"}),
    "npx": ({"command": "npx", "args": ["-y", "some-server@1.2.3"], "network": False}, {"it downloads a program"}),
    "uv": (
        {"command": "uv", "args": ["--directory", "x", "run", "x.py", "--index-url=http://x"], "network": False},
        {
            "it downloads a program whose version is not pinned",
            "--index-url decides where programs are downloaded from",
        },
    ),
    "registry": (
        {"command": "/bin/cat", "env": {"npm_config_registry": "http://x", "UV_INDEX_URL": "x", "https_proxy": "x"}},
        {
            f"{name} decides where programs are downloaded from"
            for name in ("npm_config_registry", "UV_INDEX_URL", "https_proxy")
        },
    ),
    "loader": ({"command": "/bin/cat", "env": {"BROWSER": "./x"}}, {"BROWSER can inject code into programs"}),
    "makefile": ({"command": "/bin/cat", "env": {"MAKEFILES": "./x"}}, {"MAKEFILES can inject code into programs"}),
    "inside": ({"command": "./tool"}, set()),
    "own": ({"command": "./own"}, {"its program is a file of this folder"}),
    "claude": (
        {"command": "rkllm-chat", "args": ["serve", "claude"]},
        {"it lets the Claude CLI change files and run commands without asking"},
    ),
    "off": ({"command": "/bin/cat", "sandbox": "off"}, set()),
    "network": ({"command": "/bin/cat", "network": True}, set()),
}


@pytest.mark.parametrize("sandbox", ["off", pytest.param("auto", marks=pytest.mark.sandbox)])
def test_what_is_notable_about_a_start_is_said(sandbox: str, clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the program: that the lines of a review are shown, the tests above see."""
    monkeypatch.setenv(SANDBOX_VARIABLE, sandbox)
    monkeypatch.setenv("HOME", str(clone.home))
    monkeypatch.chdir(clone.folder)
    shutil.copy("/bin/cat", clone.folder / "own")
    text = json.dumps({"mcpServers": {name: entry for name, (entry, _) in ROWS.items()}})
    servers = read_json(text, str(clone.folder / "mcp.json"), {}, Origin.PROJECT).servers
    assert [server.name for server in servers] == [*ROWS]
    for server in servers:
        entry, expected = ROWS[server.name]
        lines = describe_review(review_start(server), i18n.load())
        said = {line.removeprefix("  ! ") for line in lines if line.startswith("  ! ")}
        is_found = entry["command"].startswith("./") or shutil.which(entry["command"])
        is_bare = is_found and (sandbox == "off" or server.name in ("off", "claude"))  # else its reach is not known
        network = {"it can use the network"} if server.name == "network" and not is_bare else set()
        assert (server.name, said) == (server.name, expected | ({UNSANDBOXED} if is_bare else network))


@pytest.mark.sandbox
def test_a_pipe_among_the_files_of_a_folder_is_not_waited_for(clone: Clone) -> None:
    clone.environment[SANDBOX_VARIABLE] = "auto"
    package = clone.folder / "venv/lib/python3.11/site-packages/x.dist-info"
    package.mkdir(parents=True)
    (clone.folder / "venv/bin").mkdir()
    (clone.folder / "venv/pyvenv.cfg").touch()
    shutil.copy("/bin/cat", clone.folder / "venv/bin/python")
    for path in (package / "direct_url.json", package.parent / "x.pth"):
        os.mkfifo(path)
    clone.write(command="./venv/bin/python")
    assert "! its program is a file of this folder" in clone.review("n")


PARTS = (
    "~",
    "/",
    "..",
    "./x",
    "-c",
    "=",
    ":",
    "python3",
    "npx",
    "${HOME}",
    "${NO}",
    "${A:-",
    "}",
    "~nobody",
    "x" * 5000,
    "\u202e",
    "\n",
    "\x1b[2J",
    "\ud800",
    "\0",
    "https://[::1",
    "@",
    "%",
    "\\",
    " ",
)
texts = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=4).map("".join)
tables = st.dictionaries(texts, texts, max_size=2)
options = {"cwd": texts, "env": tables, "headers": tables, "sandbox": st.sampled_from(["on", "off", "auto"])}
logins = st.fixed_dictionaries({"scope": texts})
entries = st.fixed_dictionaries(
    {"command": texts, "args": st.lists(texts, max_size=4)},
    optional={**options, "write": st.lists(texts, max_size=2), "network": st.booleans()},
) | st.fixed_dictionaries(
    {"url": texts}, optional={"headers": tables, "oauth": st.fixed_dictionaries({"scope": texts})}
)


@settings(max_examples=examples(50))
@given(entry=entries)
@example(entry={"command": "env", "args": ["\ud800/"]})
def test_any_server_of_a_folder_is_described_in_printable_lines(entry: dict[str, Any]) -> None:
    try:
        [server] = read_json(json.dumps({"mcpServers": {"a": entry}}), "mcp.json", {}, Origin.PROJECT).servers
    except ConfigError:
        return
    lines = describe_review(review_start(server), i18n.load())
    assert lines
    assert [line for line in lines if "\n" in line or escape_visibly(sanitize_for_terminal(line)) != line] == []


def test_every_command_says_that_there_is_no_sandbox(clone: Clone) -> None:
    clone.environment |= {SANDBOX_VARIABLE: "auto", "PATH": "/nonexistent"}
    clone.write()
    clone.review("y")
    reason = "bubblewrap is not installed"
    notice = f'Server "tide" runs without a sandbox: {reason}.'
    called = ("call-tool", "tide.get_tide")
    for command in (called, ("list-tools", "--server", "tide")):
        assert json.loads(clone.program(*command).stdout)["notices"] == [notice]
    listed, _board = json.loads(clone.program("list-servers").stdout)["result"]
    assert (listed["sandbox"], listed["sandbox_missing"]) == ("auto", reason)
    tool = [sys.executable, "-m", "rkllm_chat.cli.mcp_tool", "tide__get_tide"]
    done = fork_server.run(tool, cwd=clone.folder, env=clone.environment, encoding="utf-8")
    assert done.returncode == 0 and done.stderr == f"mcp-tool: {notice}\n"
    screen = clone.open_screen("trust", "tide", size=(200, 30))
    assert screen.wait_for_end() == 0
    assert f"[MCP: Server 'tide' runs without a sandbox: {reason}]" in screen.lines()
    clone.environment[SANDBOX_VARIABLE] = "off"  # the user's own decision
    assert json.loads(clone.program(*called).stdout).keys() == {"ok", "result"}
