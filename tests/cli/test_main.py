"""Each command in a real interpreter: what it imports, its exit code and its streams."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rkllm_chat.cli import json_commands
from rkllm_chat.cli.commands import COMMANDS, RENAMED
from shell import Shell
from stage import PROGRAM, Run

TREES = Path(__file__).parents[1] / "trees"
MCP_TOOL = [sys.executable, "-m", "rkllm_chat.cli.mcp_tool"]
SDK = {"mcp", "mcp_types", "pydantic"}
CHAT = {*SDK, "PIL", "llama_cpp", "prompt_toolkit", "uvicorn"}
HEAVY = {*CHAT, "jinja2", "jsonschema", "numpy", "rich", "tokenizers"}
LIGHT = {*HEAVY, "logging", "pathlib", *(() if sys.version_info[:2] == (3, 14) else ("dataclasses",))}
"""What `--help` does not need either: without these it takes 0.06 s of CPU, with them 0.1 s.

argparse of 3.14 imports dataclasses itself, for colors.
"""
ONE_SHOT = {*HEAVY, "asyncio", "argparse", "httpx2"}
DIRECT = {*ONE_SHOT, "logging", "pathlib", "shutil", "ssl", "subprocess", "tempfile"}
"""Commands that speak to a server by pipes start in a few milliseconds, so these count too."""


class Start(NamedTuple):
    """A command line, the modules that it must not import, its exit code, and a part of its output."""

    command: list[str]
    unwanted: set[str]
    output: str
    code: int = 0


STARTS = {
    "help": Start([*PROGRAM, "--help"], LIGHT, "--no-servers"),
    "version": Start([*PROGRAM, "--version"], LIGHT, "rkllm-chat 0."),
    "wrong option": Start([*PROGRAM, "--no-such-option"], LIGHT, "", 2),
    "serve": Start([*PROGRAM, "serve", "--help"], HEAVY, "claude"),
    "serve board": Start([*PROGRAM, "serve", "board", "--help"], HEAVY, "--folder"),
    "new-server": Start([*PROGRAM, "new-server", "--help"], HEAVY, "DEST"),
    "-p": Start([*PROGRAM, "-p", "hi", "--model", "replies.json", "--no-servers"], CHAT, "Hello."),
    "doctor": Start([*PROGRAM, "doctor", "--root", str(TREES / "laptop")], HEAVY, "kernel", 1),
    "trust": Start([*PROGRAM, "trust", "chaos"], HEAVY - {*SDK, "uvicorn"}, ""),  # it connects as the chat does
    "sessions": Start([*PROGRAM, "sessions"], HEAVY, ""),
    "init": Start([*PROGRAM, "init", "new"], ONE_SHOT, '"ok": true'),
    "list-servers": Start([*PROGRAM, "list-servers"], ONE_SHOT, '"chaos"'),
    "list-tools": Start([*PROGRAM, "list-tools", "--server", "chaos"], DIRECT, '"echo"'),
    "call-tool": Start([*PROGRAM, "call-tool", "chaos.echo", "--args", '{"text": "hello"}'], DIRECT, '"hello"'),
    "mcp-tool --help": Start([*MCP_TOOL, "--help"], ONE_SHOT, "chaos__echo"),
    "mcp-tool": Start([*MCP_TOOL, "chaos__echo", "--text", "hello"], {*ONE_SHOT, "subprocess"}, "hello\n"),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_command_imports_only_what_it_needs(start: Start, shell: Shell, script: Callable[..., str]) -> None:
    script("Hello.")
    shell.add_chaos()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *start.command[1:]],
        capture_output=True,
        text=True,
        env=shell.environment,
        cwd=shell.folder,
        timeout=30,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip() for line in lines}
    assert done.returncode == start.code and start.output in done.stdout
    assert "Traceback" not in done.stderr
    assert any(name.startswith("rkllm_chat.cli") for name in imported)
    assert imported & start.unwanted == set()


@pytest.mark.slow
def test_without_llama_cpp_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['llama_cpp'] = None; from rkllm_chat.cli.main import main; sys.exit(main(['-p', 'x']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (5, "")
    assert "pip install llama-cpp-python" in done.stderr


def test_help_names_the_options_and_the_bundled_servers(in_process: Run) -> None:
    shown = in_process("--help").stdout
    for word in ("--model", "--allow", "--no-servers", "serve", "doctor", "trust", "call-tool"):
        assert word in shown
    assert len(shown.splitlines()) <= 24 and max(map(len, shown.splitlines())) <= 80
    assert {"--output-format", "--config", "--set"} < set(in_process("chat", "--help").stdout.split())
    for name in ("board", "claude", "llm"):
        assert name in shown and name in in_process("serve", "--help").stdout


def test_help_has_no_colors(in_process: Run, environment: dict[str, str]) -> None:
    """Python 3.14 colors it, also with --no-color."""
    environment["FORCE_COLOR"] = "1"
    assert "\x1b" not in in_process("doctor", "--help").stdout + in_process("mcp", "add", "--help").stdout


def test_an_error_about_a_value_names_no_function(in_process: Run) -> None:
    assert "a number of seconds, not 'many'" in in_process("-p", "x", "--timeout", "many", code=2).stderr
    for option in ("--max-steps", "--temperature", "--seed"):  # former options
        assert "number, not 'many'" in in_process("-p", "x", option, "many", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("mcp-tool",), "mcp-tool is a program of its own, not a command of rkllm-chat. Write: mcp-tool --help"),
        (("mcp-tool", "board__get_time", "--place", "a b"), "Write: mcp-tool board__get_time --place 'a b'"),
        (("doctr",), 'There is no command "doctr". Did you mean doctor?'),
        (("frobnicate",), 'There is no command "frobnicate". Known commands: chat, '),
        (("--no-servers", "frobnicate"), 'There is no command "frobnicate". Known commands: chat, '),
        (("--modle", "doctor"), "unrecognized arguments: --modle"),
        (("-p", "x", "--set", "sed=1"), '--set: unknown key "sed". Did you mean "seed"?'),
        (("-p", "x", "--set", "seed=many"), "generation.seed must be a whole number, not 'many'"),
        (("-p", "x", "--set", "seed"), "Write KEY=VALUE"),
    ],
    ids=[
        "another program",
        "and its words",
        "a typo",
        "unknown",
        "behind an option",
        "an option before a command",
        "key",
        "value",
        "no value",
    ],
)
def test_an_invalid_command_line_is_one_line(arguments: tuple[str, ...], text: str, in_process: Run) -> None:
    (line,) = in_process(*arguments, code=2).stderr.splitlines()[-1:]
    assert text in line


def test_options_may_stand_before_the_command(program: Run, folder: Path) -> None:
    (folder / "own.toml").write_text('[[servers]]\nname = "harbour"\nurl = "http://127.0.0.1:1/mcp"\n', "utf-8")
    done = program("--config", "own.toml", "list-servers")
    assert [server["name"] for server in json.loads(done.stdout)["result"]] == ["harbour"]
    assert done.stdout == program("list-servers", "--config", "own.toml").stdout
    assert program("help", "doctor").stdout == program("doctor", "--help").stdout


def test_help_lists_every_command_with_a_line(in_process: Run) -> None:
    listed, for_scripts = in_process("--help").stdout, in_process("json", "--help").stdout
    for name, command in COMMANDS.items():
        if name not in RENAMED:
            assert f"  {name:<17} {command.summary}\n" in listed + for_scripts
    assert set(json_commands.SUMMARIES) < set(COMMANDS)


def test_a_command_that_moved_still_works_and_is_not_listed(program: Run) -> None:
    (board,) = json.loads(program("mcp", "list", "--json", "--no-start").stdout)["result"]
    (old,) = json.loads(program("list-servers").stdout)["result"]
    assert old.items() <= board.items() and board["state"] == "configured"
    assert json.loads(program("json", "list-servers").stdout)["result"] == [old]
    for words in (("trust", "nosuch"), ("mcp", "trust", "nosuch")):
        assert 'no server "nosuch"' in program(*words, code=6).stderr
    listed = program("--help").stdout + program("json", "--help").stdout
    assert not re.search(f"^  ({'|'.join(RENAMED)}) ", listed, flags=re.MULTILINE)
    for name, (command, *_) in RENAMED.items():
        assert program("help", name).stdout.startswith(f"usage: rkllm-chat {name if name in COMMANDS else command}")
