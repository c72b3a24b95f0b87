"""What works without the functions that only Linux has, and what is said on Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import processes
from macos import SUBSET
from macos.run import run as run_as_macos

ROOT = Path(__file__).parents[1]
NOTICE = "rkllm_chat does not run on Windows itself: install and start it inside WSL (wsl --install)."
WINDOWS = """
import asyncio, decimal, jinja2.sandbox, jinja2.ext, os, pathlib, signal, subprocess, sys, tempfile, zipfile

sys.platform = "win32"
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for module, names in {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK fork geteuid getuid killpg posix_spawn setsid waitid",
    signal: "SIGHUP SIGKILL SIGPIPE SIGXFSZ pthread_sigmask",
}.items():
    for name in names.split():
        vars(module).pop(name, None)  # macOS has no waitid (Python before 3.13)
"""


def run_on_windows(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that looks like one on Windows to this package."""
    command = [sys.executable, "-c", WINDOWS + code]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=30, check=False)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.timeout(600)
def test_the_chat_and_its_servers_need_nothing_that_macos_lacks() -> None:
    done = run_as_macos([*SUBSET, "-n2", "-p", "no:cacheprovider"], stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout


@pytest.mark.proc
def test_tests_see_the_same_processes_in_proc_and_by_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()", "ebb tide"], stdin=subprocess.PIPE) as child:
        seen = []
        for has_proc in (True, False):
            monkeypatch.setattr(processes, "HAS_PROC", has_proc)
            found = processes.find_process(child.pid)
            assert found
            is_child = child.pid in processes.find_children(os.getpid())
            seen.append((found.parent, is_child, processes.find_processes("ebb tide")))
        child.communicate(b"\n")
    assert seen == [(os.getpid(), True, [child.pid])] * 2


@pytest.mark.parametrize("module", ["rkllm_chat.__main__", "rkllm_chat.cli.mcp_tool"])
def test_on_windows_a_start_is_refused_with_one_sentence(module: str) -> None:
    done = run_on_windows(f"from {module} import main; sys.exit(main())")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{NOTICE}\n")


def test_on_windows_the_scanner_and_the_prompt_can_be_used_and_the_rest_says_why_not() -> None:
    code = """
from rkllm_chat import ToolCallScanner, render_prompt

scanner = ToolCallScanner([{"name": "tide"}], model="Qwen3")
print(len(scanner.feed('<tool_call>{"name": "tide", "arguments": {}}</tool_call>')))
print("rain" in render_prompt([{"role": "user", "content": "rain"}], [], "Qwen3-8B"))
try:
    from rkllm_chat import MCPClient
except ImportError as error:
    print(error)
"""
    done = run_on_windows(code)
    assert (done.stdout.splitlines(), done.stderr) == (["1", "True", f"MCPClient: {NOTICE}"], "")
