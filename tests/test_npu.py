"""The whole program on the NPU's stand-in: as a script runs it, and as a person sees it when the runtime crashes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.discover import BOARD
from stage import PROGRAM, Screen

pytestmark = pytest.mark.model
Run = Callable[..., "subprocess.CompletedProcess[str]"]
LOADED = "2048 tokens of context"


@pytest.fixture(params="FG")
def on_npu(
    request: pytest.FixtureRequest, compiled: Callable[[str], Path], folder: Path, shipped_model: Path
) -> list[str]:
    """The options that make the program run on the stand-in, with the board server."""
    library = compiled(request.param)
    server = {"name": "board", "command": PROGRAM[0], "args": [*PROGRAM[1:], *BOARD.args], "trust": "trusted"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in server.items()]
    text = f"[rkllm]\nlibrary = {json.dumps(str(library))}\n[generation]\ntemperature = 0\n[[servers]]\n" + "\n".join(
        lines
    )
    (folder / "npu.toml").write_text(text, encoding="utf-8")
    return ["--config", "npu.toml", "--backend", "rkllm", "--model", str(shipped_model)]


def test_one_turn_calls_a_tool_and_says_its_cost(on_npu: list[str], program: Run) -> None:
    answer = json.loads(program(*on_npu, "-p", "What is 12 * 34?", "--output-format", "json").stdout)["result"]
    assert [(call["tool"], call["status"], call["text"]) for call in answer["calls"]] == [
        ("calculate", "completed", "12 * 34 = 408")
    ]
    assert "12 * 34 = 408" in answer["text"]
    first, second = answer["usage"]["model_calls"]
    assert first["reused_tokens"] == 0
    assert second["reused_tokens"] >= first["prompt_tokens"]
    assert second["prefilled_tokens"] < 60


def test_a_crash_is_one_line_and_the_talk_goes_on(
    on_npu: list[str], open_screen: Callable[..., Screen], environment: dict[str, str], folder: Path
) -> None:
    once = folder / "once"
    environment |= {"RKLLM_STANDIN_FAULT": "run_crashes", "RKLLM_STANDIN_FAULT_ONCE": str(once)}
    screen = open_screen(*on_npu)
    screen.wait_for(LOADED)
    screen.wait_for_prompt()
    assert len(workers_of(environment["HOME"])) == 1
    screen.type("Hello!\r")
    screen.wait_for("How can I help you?")
    screen.wait_for_prompt()
    once.touch()
    screen.type("What is 6 * 7?\r")
    screen.wait_for("The NPU runtime ended with Segmentation fault (SIGSEGV).")
    lines = screen.wait_for_prompt()
    assert not any("Traceback" in line for line in lines)
    screen.type("What is 6 * 7?\r")
    screen.wait_for("The NPU runtime is started again")
    screen.wait_for("6 * 7 = 42")
    screen.wait_for_prompt()
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0
    assert workers_of(environment["HOME"]) == []


def workers_of(home: str) -> list[str]:
    """The worker processes of the user with that home, whoever is their parent now."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0")
            if ours and b"rkllm_worker" in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_a_model_that_does_not_load_says_why_and_ends(on_npu: list[str], program: Run) -> None:
    failed = program(*on_npu, "-p", "Hello!", "--context", "9000", code=5)
    told = "The model was converted for at most 2048 tokens of context, 9000 were asked for. Use --context 2048."
    assert failed.stderr == f"rkllm-chat: {told}\n"


def test_without_the_library_the_program_says_where_it_looked(program: Run, shipped_model: Path) -> None:
    failed = program("--backend", "rkllm", "--model", str(shipped_model), "-p", "Hello!", code=5)
    assert failed.stderr.startswith(
        "rkllm-chat: librkllmrt.so is not in the usual places. Name librkllmrt.so as library"
    )
