"""The programs of docs/library.md run as they stand, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/library.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SAID = {  # what stands in a program -> what it prints, as a regular expression
    "MCPClient.sync(": r"\[Tool\(name='get_time', .*\n6 \* 7 = 42\n",
    "add_server(": r"6 \* 7 = 42 {'expression': '6 \* 7', 'value': '42'} {}\n"
    r"ServerHealth\(is_connected=True, error=None, .*tools=[89]\) get_time: .*Tokyo",
    "ToolCallScanner(": r"(?s).*CallFound\(.*'city': 'Oslo'.*\n\[\]\n",
    "render_prompt(": r"(?s)<\|im_start\|>system\n.*get_weather.*Is it raining\?",
}


def run(code: str, environment: dict[str, str], folder: Path) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def find_program(mark: str) -> str:
    (program,) = [program for program in PROGRAMS if mark in program]
    return str(program)


@pytest.mark.slow
@pytest.mark.parametrize("mark", SAID)
def test_a_program_of_the_page_prints_what_it_says(mark: str, environment: dict[str, str], folder: Path) -> None:
    assert re.match(SAID[mark], run(find_program(mark), environment, folder))


@pytest.mark.slow
def test_the_conversation_of_the_page_calls_its_tool(environment: dict[str, str], folder: Path) -> None:
    said = run(find_program("Chat.sync("), environment, folder)
    assert re.search(r"42.*\[.*42.*\]", said)


def test_every_program_of_the_page_is_run_or_needs_what_is_not_here() -> None:
    marks = [*SAID, "Chat.sync(", "qwen3-4b.gguf"]
    assert all(sum(mark in program for mark in marks) == 1 for program in PROGRAMS)
    assert len(PROGRAMS) == len(marks)
    for program in PROGRAMS:
        compile(program, str(PAGE), "exec")
