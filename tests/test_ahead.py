"""While the person reads or types, the prompt is read: the real program with the small model, by what it counts."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.events import Usage
from rkllm_chat.journal import read_session
from stage import Screen

pytestmark = pytest.mark.model
OpenScreen = Callable[..., Screen]
LOG = ("-v", "--log-file", "log.jsonl")
FEW = 30


def counts(folder: Path) -> list[int]:
    """How many tokens were read ahead, each time."""
    log = folder / "log.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    found = (re.fullmatch(r"Read ahead: (\d+) tokens\.", json.loads(line).get("message", "")) for line in lines)
    return [int(match[1]) for match in found if match]


def wait_for_counts(folder: Path, number: int) -> list[int]:
    limit = time.monotonic() + 30
    while len(found := counts(folder)) < number:
        assert time.monotonic() < limit
    return found


def open_chat(open_screen: OpenScreen, folder: Path, *arguments: str) -> Screen:
    """The chat, once it has read ahead what it can: one count more than chats before it in this folder left."""
    before = len(counts(folder))
    screen = open_screen(*LOG, "--temperature", "0", *arguments, size=(120, 40))
    screen.wait_for("lists the commands", 30)
    screen.wait_for_prompt()
    wait_for_counts(folder, before + 1)
    return screen


def say(screen: Screen, line: str, answer: str) -> None:
    screen.type(f"{line}\r")
    screen.wait_for(answer, 30)
    screen.wait_for_prompt(30)


@pytest.fixture
def state(environment: dict[str, str]) -> Path:
    return Path(environment["HOME"]) / ".local/state/rkllm-chat"


def costs(state: Path) -> list[Usage]:
    (path,) = (state / "sessions").glob("*.jsonl")
    return [entry.record for entry in read_session(path) if isinstance(entry.record, Usage)]


def test_the_tools_are_read_before_the_first_line_is_typed(open_screen: OpenScreen, folder: Path, state: Path) -> None:
    screen = open_chat(open_screen, folder)
    (read,) = counts(folder)
    assert read > 100
    say(screen, "Hello!", "◆ Hello!")
    say(screen, "/context cache", f"{read} tokens were read ahead")
    (first,) = costs(state)
    assert first.reused_tokens == read and first.prefilled_tokens < FEW
    assert any(
        re.search(rf"1 +{first.prompt_tokens} +{read} +{first.prefilled_tokens} ", line) for line in screen.lines()
    )
    screen.type("\x04")
    assert screen.wait_for_end() == 0


def test_a_prompt_that_was_changed_is_read_again_and_one_that_was_not_is_not(
    open_screen: OpenScreen, folder: Path, state: Path
) -> None:
    screen = open_chat(open_screen, folder)
    say(screen, "Hello!", "◆ Hello!")
    wait_for_counts(folder, 2)  # a command that comes before would stop it
    say(screen, "/usage", "read anew")
    assert wait_for_counts(folder, 3)[1:] == [0, 0], "what was said was read already"
    say(screen, "/system You are a harbour master.", "is read anew")
    *_, again = wait_for_counts(folder, 4)
    assert again > 100
    screen.type("Hello!\r")
    wait_for_counts(folder, 5)
    _, second = costs(state)
    assert second.prefilled_tokens < FEW


def test_the_second_chat_reads_the_file_of_the_first(open_screen: OpenScreen, folder: Path, state: Path) -> None:
    (folder / "mcp_config.toml").write_text("[chat]\ntools_share = 1\n", encoding="utf-8")  # enough for a file
    for number in range(2):
        screen = open_chat(open_screen, folder)
        screen.type("\x04")
        assert screen.wait_for_end() == 0
        assert (counts(folder)[-1] == 0) == (number == 1)
    open_chat(open_screen, folder)
    assert counts(folder)[-1] == 0
    assert len(list((state / "prompt-caches").iterdir())) == 1


def test_it_can_be_switched_off(open_screen: OpenScreen, folder: Path, state: Path) -> None:
    text = "[chat]\nprefill_ahead = false\nkeep_prefix = false\n"
    (folder / "mcp_config.toml").write_text(text, encoding="utf-8")
    screen = open_screen(*LOG, "--temperature", "0")
    screen.wait_for("lists the commands", 30)
    say(screen, "Hello!", "◆ Hello!")
    (first,) = costs(state)
    assert first.reused_tokens == 0
    assert counts(folder) == []


def test_scripts_read_nothing_ahead(program: Callable[..., subprocess.CompletedProcess[str]], folder: Path) -> None:
    program("-p", "Hello!", *LOG)
    assert counts(folder) == []
    assert "llama.cpp" in (folder / "log.jsonl").read_text(encoding="utf-8")


def test_whoever_leaves_while_it_reads_does_not_wait(open_screen: OpenScreen, folder: Path) -> None:
    system = "You are a helpful assistant. " * 250  # 2,500 tokens of 4,096
    (folder / "mcp_config.toml").write_text(f'[chat]\ncontext_tokens = 4096\nsystem = "{system}"\n', encoding="utf-8")
    screen = open_screen(*LOG)
    screen.wait_for("lists the commands", 30)
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert counts(folder) == [], "it was read to its end"
