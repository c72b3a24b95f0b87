"""The second start of llama.cpp reads system text and tools from a file: real GGUF, real files, real processes."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from altered import with_template
from rkllm_chat.backends.beginnings import Beginnings
from rkllm_chat.backends.llama import Llama
from rkllm_chat.backends.llama_engine import load
from rkllm_chat.backends.llama_states import LlamaStates, describe
from rkllm_chat.config import Generation
from rkllm_chat.events import Usage
from rkllm_chat.messages import Message
from stage import PROGRAM

pytestmark = pytest.mark.model
GREEDY = Generation(temperature=0, max_tokens=24)
SYSTEM = "You are a helpful assistant. " * 60
LINES = ("Hello!", "What is 12 * 34?", "Tell me a story about a harbour.")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def start(
    model: Path, states: Path | None, line: str = "Hello!", system: str = SYSTEM, context: int = 2048
) -> tuple[str, Usage]:
    """One start: the engine is opened, asked, closed. Gives the reply and what it cost."""

    async def ask() -> tuple[str, Usage]:
        backend = Llama(model, context, states=states)
        prompt = [Message("system", system), Message("user", line)]
        items = [item async for item in backend.stream(prompt, GREEDY)]
        await backend.aclose()
        usage = items.pop()
        assert isinstance(usage, Usage)
        return "".join(item for item in items if isinstance(item, str)), usage

    return asyncio.run(ask())


def only_file(states: Path) -> Path:
    (path,) = states.iterdir()
    return path


def test_the_second_start_evaluates_what_was_said_and_no_more(shipped_model: Path, tmp_path: Path) -> None:
    for line in LINES:
        bare, _ = start(shipped_model, None, line)
        states = tmp_path / line
        cold, first = start(shipped_model, states, line)
        warm, second = start(shipped_model, states, line)
        assert cold == warm == bare
        assert (first.reused_tokens, first.prefilled_tokens) == (0, first.prompt_tokens)
        assert second.prompt_tokens == first.prompt_tokens > 300
        assert second.prefilled_tokens <= len(line) + 12
        assert second.reused_tokens + second.prefilled_tokens == second.prompt_tokens


def test_a_short_beginning_is_not_worth_a_file(shipped_model: Path, tmp_path: Path) -> None:
    start(shipped_model, tmp_path / "states", system="You are a helpful assistant.")
    assert not (tmp_path / "states").exists()


PLACES = (0, 3, 4, 9, 40, 2000, -4096, -1)


@pytest.mark.parametrize("act", ["cut", "flip", "foreign", "newer"])
def test_a_file_that_is_not_ours_is_replaced(act: str, shipped_model: Path, tmp_path: Path) -> None:
    states = tmp_path / "states"
    text, first = start(shipped_model, states)
    path = only_file(states)
    data = path.read_bytes()
    damaged = {
        "cut": [data[:place] for place in PLACES],
        "flip": [data[:place] + bytes([data[place] ^ 0x80]) + data[place:][1:] for place in PLACES],
        "foreign": [b"", b"{}", os.urandom(4096), shipped_model.read_bytes()],
        "newer": [data[:4] + b"\x63" + data[5:], data + b"more"],
    }[act]
    for content in damaged:
        only_file(states).write_bytes(content)
        assert start(shipped_model, states)[0] == text
        assert only_file(states).read_bytes() != content
    assert start(shipped_model, states)[1].prefilled_tokens < 30 < first.prefilled_tokens


def test_a_state_that_llama_cpp_turns_down_is_removed(shipped_model: Path, tmp_path: Path) -> None:
    """Nothing but a fault of ours can bring one, since it was checked; the engine is of use afterwards."""
    engine, tokens = load(shipped_model, 1024), list(range(5, 405))
    states = LlamaStates(tmp_path, shipped_model, engine)
    engine.read(tokens)
    assert states.save(tokens)
    whole = only_file(tmp_path).read_bytes()
    files = Beginnings(tmp_path, shipped_model, describe(engine))
    for content in (whole[: len(whole) // 2], b"no state at all", whole[:12] + whole[16:20] + whole[16:]):
        assert files.save(tokens, partial(write_whole, content))
        assert not states.load(tokens)
        assert engine.n_tokens == 0 and list(tmp_path.iterdir()) == []
        engine.read(tokens)
        assert states.save(tokens) and states.load(tokens)
        assert engine.count_same(tokens) == len(tokens)
    engine.close()


def write_whole(content: bytes, path: Path) -> bool:
    return path.write_bytes(content) == len(content)


def test_another_model_template_context_or_system_text_has_its_own(shipped_model: Path, tmp_path: Path) -> None:
    states = tmp_path / "states"
    start(shipped_model, states)
    copied, altered = tmp_path / "copy.gguf", tmp_path / "altered.gguf"
    copyfile(shipped_model, copied)
    altered.write_bytes(with_template(shipped_model.read_bytes(), TEMPLATE))
    others: Sequence[dict[str, Any]] = (
        {"model": copied},
        {"model": altered},
        {"context": 1024},
        {"system": SYSTEM + "Be short."},
    )
    for other in others:
        _, first = start(**{"model": shipped_model, "states": states, **other})
        assert first.reused_tokens == 0, other
        _, second = start(**{"model": shipped_model, "states": states, **other})
        assert second.prefilled_tokens < 40, other


TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}:\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant:\n"
)


def ask(program: Run, *arguments: str) -> dict[str, Any]:
    """One turn of the real program with the board's tools."""
    asked = ("-p", "What is 12 * 34?", "--output-format", "json", "--temperature", "0")
    result: dict[str, Any] = json.loads(program(*asked, *arguments).stdout)["result"]
    return result


@pytest.fixture
def all_tools_first(folder: Path) -> None:
    """All tools at the beginning of a prompt, which are worth a file."""
    (folder / "mcp_config.toml").write_text("[chat]\ntools_share = 1\n", encoding="utf-8")


@pytest.mark.usefixtures("all_tools_first")
def test_the_programs_second_start_reads_its_tools_from_a_file(program: Run, environment: dict[str, str]) -> None:
    states = Path(environment["HOME"]) / ".local/state/rkllm-chat/prompt-caches"
    cold, warm = ask(program), ask(program)
    assert cold["text"] == warm["text"]
    first, second = (turn["usage"]["model_calls"][0] for turn in (cold, warm))
    assert (first["reused_tokens"], first["prefilled_tokens"]) == (0, first["prompt_tokens"])
    assert second["prefilled_tokens"] < 30 < 300 < second["reused_tokens"]
    one = only_file(states)
    assert (one.stat().st_mode & 0o777, states.stat().st_mode & 0o777) == (0o600, 0o700)
    fewer = ask(program, "--no-servers", "--system", SYSTEM)["usage"]["model_calls"][0]
    assert fewer["reused_tokens"] == 0
    assert len(list(states.iterdir())) == 2


def test_it_can_be_switched_off(program: Run, environment: dict[str, str], folder: Path) -> None:
    (folder / "mcp_config.toml").write_text("[chat]\nkeep_prefix = false\n", encoding="utf-8")
    assert ask(program)["usage"]["model_calls"][0]["reused_tokens"] == 0
    assert not (Path(environment["HOME"]) / ".local/state/rkllm-chat/prompt-caches").exists()


@pytest.mark.usefixtures("all_tools_first")
def test_two_starts_at_once_leave_one_file_that_is_good(environment: dict[str, str], folder: Path) -> None:
    command = [*PROGRAM, "-p", "What is 12 * 34?", "--output-format", "json", "--temperature", "0"]
    running = [
        subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        for _ in range(2)
    ]
    texts = [json.loads(one.communicate(timeout=60)[0])["result"]["text"] for one in running]
    assert texts[0] == texts[1] and "408" in texts[0]
    states = Path(environment["HOME"]) / ".local/state/rkllm-chat/prompt-caches"
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, timeout=60, check=True)
    assert json.loads(done.stdout)["result"]["usage"]["model_calls"][0]["prefilled_tokens"] < 30
    assert len(list(states.iterdir())) == 1


@pytest.mark.usefixtures("all_tools_first")
def test_a_full_disk_costs_the_file_and_nothing_else(environment: dict[str, str], folder: Path) -> None:
    command = [*PROGRAM, "-p", "What is 12 * 34?", "--output-format", "json", "--temperature", "0"]
    most = 1 << 20  # of any file; the state is twice as large
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    assert "408" in json.loads(done.stdout)["result"]["text"]
    states = Path(environment["HOME"]) / ".local/state/rkllm-chat/prompt-caches"
    assert states.is_dir() and list(states.iterdir()) == []


def test_a_state_folder_that_cannot_be_written_costs_nothing(program: Run, environment: dict[str, str]) -> None:
    states = Path(environment["HOME"]) / ".local/state/rkllm-chat/prompt-caches"
    states.parent.mkdir(parents=True)
    states.symlink_to("/proc/1/fdinfo")
    assert "408" in ask(program)["text"]
    states.unlink()
    states.write_text("in the way", encoding="utf-8")
    assert "408" in ask(program)["text"]
    assert states.read_text(encoding="utf-8") == "in the way"
