"""The whole program on the stand-in of the NPU: one-shot, and at a terminal when the runtime crashes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cpu_time import allow_s
from macos import PROC
from rkllm_chat.config.servers import BOARD_SERVER
from rkllm_chat.core.messages import Message
from rkllm_chat.storage.session_files import SessionDirectory
from rkllm_chat.storage.session_records import TurnFinished
from shell import wait_until
from stage import PROGRAM, OpenScreen, Run

pytestmark = pytest.mark.model
LOADED = "2048 tokens of context"


Options = Callable[[str], list[str]]


@pytest.fixture
def on_npu(compiled: Callable[[str], Path], folder: Path, shipped_model: Path) -> Options:
    """The options that make the program run on the stand-in of a layout, with the board server."""

    def write(family: str) -> list[str]:
        server = {
            "name": "board",
            "command": PROGRAM[0],
            "args": [*PROGRAM[1:], *BOARD_SERVER.args],
            "trust": "trusted",
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in server.items()]
        head = f"[rkllm]\nlibrary = {json.dumps(str(compiled(family)))}\n[generation]\ntemperature = 0\n[[servers]]\n"
        (folder / "npu.toml").write_text(head + "\n".join(lines), encoding="utf-8")
        return ["--config", "npu.toml", "--backend", "rkllm", "--model", str(shipped_model)]

    return write


def test_one_turn_calls_a_tool_and_reports_its_cost(on_npu: Options, program: Run) -> None:
    answer = json.loads(program(*on_npu("G"), "-p", "What is 12 * 34?", "--output-format", "json").stdout)["result"]
    assert [(call["tool"], call["status"], call["text"]) for call in answer["calls"]] == [
        ("calculate", "completed", "12 * 34 = 408")
    ]
    assert "12 * 34 = 408" in answer["text"]
    first, second = answer["usage"]["model_calls"]
    assert first["reused_tokens"] == 0
    assert second["reused_tokens"] >= first["prompt_tokens"]
    assert second["prefilled_tokens"] < 60


def test_an_older_release_is_loaded_as_it_samples_with_tools(on_npu: Options, program: Run, folder: Path) -> None:
    """It cannot change its temperature later, and the first question would load the model again."""
    options = on_npu("F")
    config = folder / "npu.toml"
    config.write_text(config.read_text("utf-8").replace("[generation]\ntemperature = 0\n", ""), encoding="utf-8")
    done = program(*options, "-p", "What is 12 * 34?")
    assert "12 * 34 = 408" in done.stdout and "Tool 'calculate' completed" in done.stderr
    assert "Reloading the model" not in done.stderr


@pytest.mark.slow
def test_a_crash_is_one_line_and_the_next_message_is_answered(
    on_npu: Options, open_screen: OpenScreen, environment: dict[str, str], folder: Path
) -> None:
    once = folder / "once"
    environment |= {"RKLLM_STANDIN_FAULT": "run_crashes", "RKLLM_STANDIN_FAULT_ONCE": str(once)}
    screen = open_screen(*on_npu("F"))
    screen.wait_for(LOADED)
    screen.wait_for("1/1 server")  # on a busy machine the prompt comes first
    screen.wait_for_prompt()
    assert len(workers_of(environment["HOME"])) == 1
    screen.type("Hello!\r")
    screen.wait_for("How can I help you?")
    screen.wait_for_prompt()
    once.touch()
    screen.type("What is 6 * 7?\r")
    screen.wait_for("was ended by SIGSEGV")
    lines = screen.wait_for_prompt()
    assert not any("Traceback" in line for line in lines)
    screen.type("What is 6 * 7?\r")
    screen.wait_for("Restarting")
    screen.wait_for("6 * 7 = 42")
    screen.wait_for_prompt()
    screen.type("/quit\r")
    assert screen.wait_for_end() == 0
    assert workers_of(environment["HOME"]) == []


@pytest.mark.slow
def test_a_crash_while_prefetching_is_told_and_the_next_message_is_answered(
    on_npu: Options, open_screen: OpenScreen, environment: dict[str, str], folder: Path
) -> None:
    once = folder / "once"
    once.touch()
    environment |= {"RKLLM_STANDIN_FAULT": "run_crashes", "RKLLM_STANDIN_FAULT_ONCE": str(once)}
    screen = open_screen(*on_npu("H"), "--no-servers", "--system", "You are a helpful assistant. " * 8)
    screen.wait_for("Prefetching the prompt failed: The NPU runtime was ended by SIGSEGV.")
    screen.wait_for_prompt()
    screen.type("Hello!\r")
    screen.wait_for("Restarting")
    screen.wait_for("How can I help you?")


@pytest.mark.slow
@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_further_ctrl_c_while_a_stop_takes_its_time_leaves(
    terminal: str,
    on_npu: Options,
    open_screen: OpenScreen,
    environment: dict[str, str],
    folder: Path,
    shelf: SessionDirectory,
) -> None:
    once = folder / "once"
    environment |= {"RKLLM_STANDIN_FAULT": "hang_in_prefill", "RKLLM_STANDIN_FAULT_ONCE": str(once)}
    screen = open_screen(*on_npu("G"), "--no-servers", TERM=terminal)
    screen.wait_for(LOADED)
    screen.wait_for_prompt()
    screen.type("Hello!\r")
    screen.wait_for("How can I help you?")
    screen.wait_for_prompt()
    once.touch()
    screen.type("What is 6 * 7?\r")
    wait_until(lambda: not once.exists())  # the runtime removes it when it begins to hang
    started = time.monotonic()
    screen.type("\x03")
    if terminal == "dumb":  # two signals of which none is taken yet are one
        screen.wait_for("^C")
        status = Path(PROC, str(screen.process.pid), "status")
        wait_until(lambda: "ShdPnd:\t0000000000000000" in status.read_text("utf-8"))
    screen.type("\x03")
    screen.wait_for("Press Ctrl+C again to exit.")
    screen.type("\x03")
    assert screen.wait_for_end() == 0
    assert time.monotonic() - started < allow_s(5)
    assert workers_of(environment["HOME"]) == []
    (name,) = shelf.list_ids()
    records = [entry.record for entry in shelf.read(name).entries]
    assert [record.text for record in records if isinstance(record, Message) and record.role == "user"] == [
        "Hello!",
        "What is 6 * 7?",
    ]
    assert records[-1] == TurnFinished("stopped")


def test_thinking_is_switched_without_loading_the_model_again(
    on_npu: Options, open_screen: OpenScreen, environment: dict[str, str]
) -> None:
    screen = open_screen(*on_npu("G"), "--no-servers")
    screen.wait_for(LOADED)
    screen.wait_for_prompt()
    workers = workers_of(environment["HOME"])
    screen.type("/thinking off\r")
    screen.wait_for("chat.thinking  off")
    assert workers_of(environment["HOME"]) == workers != []


def workers_of(home: str) -> list[str]:
    """The worker processes of the user with that home, orphans too."""
    found: list[str] = []
    for process in Path(PROC).glob("[0-9]*"):
        try:
            ours = f"HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0")
            if ours and b"rkllm.worker" in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_model_that_does_not_load_exits_with_an_error(on_npu: Options, program: Run) -> None:
    failed = program(*on_npu("G"), "-p", "Hello!", "--context", "9000", code=5)
    assert failed.stderr.count("\n") == 1 and "--set context_tokens=2048" in failed.stderr


def test_a_missing_library_exits_with_an_error(program: Run, shipped_model: Path) -> None:
    failed = program("--backend", "rkllm", "--model", str(shipped_model), "-p", "Hello!", code=5)
    assert failed.stderr.startswith("rkllm-chat: librkllmrt.so was not found in")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("qwen3.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "a Git LFS pointer"),
        ("qwen3.rkllm", b"\n <!DOCTYPE html><title>Sign in</title>", "a web page"),
        ("qwen3.gguf", b'<?xml version="1.0"?><Error>AccessDenied</Error>', "a web page"),
    ],
)
def test_what_was_downloaded_instead_of_a_model_is_named(
    name: str, content: bytes, said: str, program: Run, folder: Path
) -> None:
    (folder / name).write_bytes(content)
    failed = program("--no-servers", "--model", name, "-p", "Hello!", code=5)
    assert f"{said}, not the model" in failed.stderr and "Download the file itself" in failed.stderr


@pytest.mark.slow
def test_a_truncated_model_is_said_to_be_incomplete(
    on_npu: Options, program: Run, shipped_model: Path, folder: Path
) -> None:
    whole, model = shipped_model.read_bytes(), folder / "qwen3-tiny.rkllm"
    for content, is_named in ((whole[: len(whole) // 2], True), (b"RKLLM rkllm-toolkit version: 1.3.1", False)):
        model.write_bytes(content)
        failed = program(*on_npu("G")[:-1], str(model), "-p", "Hello!", code=5)
        assert ("the download may be incomplete" in failed.stderr) is is_named, failed.stderr
