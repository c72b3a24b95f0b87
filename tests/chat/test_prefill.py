"""The prompt is prefilled while the user reads or types: the real program with the small model."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.core.events import Usage
from rkllm_chat.storage.session_files import SessionDirectory
from shell import wait_until
from stage import Screen

pytestmark = pytest.mark.model
OpenChat = Callable[..., Screen]
LOG = "-v --log-file log.jsonl --temperature 0"
HARBOUR = f"{LOG} --config harbour.toml"
FEW = 30


def counts(folder: Path) -> list[int]:
    """How many tokens each idle-time prefill had."""
    log = folder / "log.jsonl"
    whole_lines = log.read_text(encoding="utf-8").rpartition("\n")[0] if log.exists() else ""
    messages = (json.loads(line).get("message", "") for line in whole_lines.splitlines())
    found = (re.fullmatch(r"Prefilled (\d+) tokens while idle\.", message) for message in messages)
    return [int(match[1]) for match in found if match]


def wait_for_counts(folder: Path, number: int) -> list[int]:
    wait_until(lambda: len(counts(folder)) >= number)
    return counts(folder)


@pytest.fixture
def state(environment: dict[str, str]) -> Path:
    return Path(environment["HOME"]) / ".local/state/rkllm-chat"


def costs(state: Path) -> list[Usage]:
    shelf = SessionDirectory(state / "sessions")
    (name,) = shelf.list_ids()
    return [entry.record for entry in shelf.read(name).entries if isinstance(entry.record, Usage)]


@pytest.mark.slow
def test_the_tools_are_prefilled_before_the_first_line_and_again_when_the_prompt_changes(
    open_chat: OpenChat, harbour: Path, state: Path
) -> None:
    screen = open_chat(HARBOUR, size=(120, 40))
    (read,) = wait_for_counts(harbour, 1)
    assert read > 100
    screen.say("Hello!", "new, about")  # its time is known from that prefill
    screen.enter("", "◆ Hello!")
    wait_for_counts(harbour, 2)  # a command that comes before would stop it
    screen.enter("/context cache", f"{read} tokens were prefetched while idle")
    (first,) = costs(state)
    assert first.reused_tokens == read and first.prefilled_tokens < FEW
    row = rf"1 +{first.prompt_tokens} +{read} +{first.prefilled_tokens} "
    assert any(re.search(row, line) for line in screen.lines())
    assert wait_for_counts(harbour, 3)[1:] == [0, 0], "the turns were prefilled already"
    screen.enter("/system You are a harbour master.", "the prompt will be reprocessed")
    assert wait_for_counts(harbour, 4)[-1] > 100
    screen.type("Hello!\r")
    wait_for_counts(harbour, 5)
    _, second = costs(state)
    assert second.prefilled_tokens < FEW


@pytest.mark.slow
def test_the_second_chat_loads_the_prompt_cache_file_of_the_first(
    open_chat: OpenChat, harbour: Path, state: Path
) -> None:
    config = harbour / "harbour.toml"
    config.write_text(
        f'[chat]\nprompt_profile = "default"\n{config.read_text("utf-8")}', encoding="utf-8"
    )  # enough for a file
    for number in range(2):
        screen = open_chat(HARBOUR)
        found = wait_for_counts(harbour, number + 1)
        assert (found[-1] == 0) == (number == 1)
        screen.leave()
    assert len(list((state / "prompt-caches").iterdir())) == 1


def test_it_can_be_switched_off(open_chat: OpenChat, folder: Path, state: Path) -> None:
    text = "[chat]\nprefill_ahead = false\nkeep_prefix = false\n"
    (folder / "mcp_config.toml").write_text(text, encoding="utf-8")
    screen = open_chat(f"{LOG} --no-servers")
    screen.enter("Hello!", "◆ Hello!")
    (first,) = costs(state)
    assert first.reused_tokens == 0
    assert counts(folder) == []


def test_scripts_prefill_nothing_while_idle(
    program: Callable[..., subprocess.CompletedProcess[str]], folder: Path
) -> None:
    program("-p", "Hello!", *LOG.split(), "--no-servers")
    assert counts(folder) == []
    assert "llama.cpp" in (folder / "log.jsonl").read_text(encoding="utf-8")


def test_leaving_during_a_prefill_does_not_wait(open_screen: Callable[..., Screen], folder: Path) -> None:
    system = "You are a helpful assistant. " * 250  # 2,500 tokens of 4,096
    (folder / "mcp_config.toml").write_text(f'[chat]\ncontext_tokens = 4096\nsystem = "{system}"\n', encoding="utf-8")
    screen = open_screen(*LOG.split(), "--no-servers")
    screen.wait_for("for commands, Ctrl+D to exit", 30)
    screen.leave()
    assert counts(folder) == [], "it was read to its end"
