"""The door: what is imported for what, and how wrong command lines are answered."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from rkllm_chat.bundled import BUNDLED

Run = Callable[..., "subprocess.CompletedProcess[str]"]

HEAVY = (
    "mcp",
    "mcp_types",
    "uvicorn",
    "llama_cpp",
    "prompt_toolkit",
    "rich",
    "pydantic",
    "jinja2",
    "jsonschema",
    "numpy",
)


def modules_after(arguments: Sequence[str]) -> set[str]:
    """The heavy modules that a command line has imported when it ends."""
    code = (
        "import sys, contextlib\n"
        "from rkllm_chat.cli import main\n"
        "with contextlib.suppress(SystemExit):\n"
        f"    main({list(arguments)!r})\n"
        f"print('IMPORTED', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["--no-such-option"],
        ["serve", "--help"],
        *(["serve", name, "--help"] for name in BUNDLED),
        ["new-server", "--help"],
    ],
)
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    assert modules_after(arguments) == set()


def test_help_names_the_servers_that_ship() -> None:
    command = [sys.executable, "-m", "rkllm_chat"]
    for arguments in (["--help"], ["serve", "--help"]):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=30, check=True)
        assert all(name in done.stdout for name in ("board", "claude", "llm", "remote"))


def test_a_turn_without_servers_imports_no_sdk() -> None:
    imported = modules_after(["-p", "hi", "--backend", "scripted", "--model", "/dev/null", "--no-servers"])
    assert not imported & {"mcp", "mcp_types", "pydantic", "prompt_toolkit", "llama_cpp"}


def test_without_llama_cpp_a_sentence_says_what_to_install() -> None:
    code = "import sys; sys.modules['llama_cpp'] = None; from rkllm_chat.cli import main; sys.exit(main(['-p', 'x']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (5, "")
    assert "llama-cpp-python is needed" in done.stderr and "pip install llama-cpp-python" in done.stderr


def test_help_names_the_options(program: Run) -> None:
    shown = program("--help").stdout
    for option in ("--model", "--config", "--output-format", "--allow", "--no-servers", "serve"):
        assert option in shown


def test_version_is_one_line(program: Run) -> None:
    assert program("--version").stdout.startswith("rkllm-chat 0.")


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("--no-such-option",), "unrecognized arguments"),
        (("-p", ""), "The prompt is empty"),
        (("-p", "x", "--max-tokens", "-1"), "must be from 1"),
        (("-p", "x", "--max-tokens", "abc"), "invalid"),
        (("-p", "x", "--temperature", "-1"), "must be from 0"),
        (("-p", "x", "--temperature", "nan"), "must be from 0"),
        (("-p", "x", "--output-format", "yaml"), "invalid choice"),
        (("-p", "x", "--language", "xx"), 'no language "xx"'),
        (("-p", "x", "--tool-format", "yaml"), 'no tool format "yaml"'),
        (("-p", "x", "--log-file", "/no/such/folder/log"), "cannot be written"),
        (("serve", "toaster"), "invalid choice"),
        (("serve", "board", "--folder", "/no/such/folder"), "There is no folder"),
    ],
)
def test_a_wrong_command_line_is_told_on_standard_error_with_exit_code_2(
    arguments: tuple[str, ...], cause: str, program: Run
) -> None:
    done = program(*arguments, code=2)
    assert cause in done.stderr and done.stdout == ""
    assert "Traceback" not in done.stderr
