"""What may be asked of the claude server that a shell, a command line or a careless reader would get wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from claude_stage import Stage, Talk, run_shape, timeless


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


PROMPTS = {
    "like an option": "--version",
    "a dash": "-",
    "a command for a shell": "$(touch owned); `touch owned` | touch owned",
    "quotes and newlines": "\"one\"\n'two'\r\n\tthree \\ four",
    "200 kB": "word " * 40_000,
    "other scripts": "東京 🗼 \u200f שלום",
}


def test_a_prompt_reaches_the_cli_as_it_is_whatever_it_looks_like(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        for prompt in PROMPTS.values():
            assert (await call("execute_claude", prompt=prompt))["response"] == f"You said: {prompt}"

    stage.talk(play)
    assert [one["prompt"] for one in stage.calls] == list(PROMPTS.values())
    assert not any(prompt in one["arguments"] for one in stage.calls for prompt in PROMPTS.values())
    assert not list(stage.work.iterdir())


@pytest.mark.parametrize(
    ("prompt", "error"),
    [
        ("", "The prompt is empty."),
        (" \n", "The prompt is empty."),
        ("a\0b", "The prompt holds a NUL character."),
    ],
)
def test_a_prompt_that_is_none_starts_nothing(prompt: str, error: str, stage: Stage) -> None:
    async def play(call: Talk) -> None:
        assert timeless(await call("execute_claude", prompt=prompt)) == run_shape(prompt, None, error)

    stage.talk(play)
    assert not (stage.home / "calls.jsonl").exists()


def test_no_file_takes_time_memory_or_a_way_out(stage: Stage) -> None:
    keys = stage.home / ".ssh"
    keys.mkdir()
    (keys / "id_rsa").write_text("-----BEGIN PRIVATE KEY-----", encoding="utf-8")
    (stage.work / "key").symlink_to(keys / "id_rsa")
    (stage.work / "zeros").symlink_to("/dev/zero")
    os.mkfifo(stage.work / "pipe")
    with (stage.work / "huge.txt").open("wb") as file:
        file.truncate(1 << 30)
    outside = f"is outside the folders {stage.work}."
    refused = {
        str(keys / "id_rsa"): f"'{keys / 'id_rsa'}' {outside}",
        "~/.ssh/id_rsa": f"'~/.ssh/id_rsa' {outside}",
        "key": f"'key' {outside}",
        "/dev/zero": f"'/dev/zero' {outside}",
        "zeros": f"'zeros' {outside}",
        "/proc/self/environ": f"'/proc/self/environ' {outside}",
        "pipe": "'pipe' is not a file.",
        "huge.txt": "'huge.txt' is too large: at most 512 KB are read.",
    }

    async def play(call: Talk) -> None:
        for path, error in refused.items():
            answer = await call("execute_claude_with_context", prompt="Read.", file_path=path)
            assert timeless(answer) == run_shape("Read.", None, error, context_file=path)
            assert answer["execution_time"] < 5
        (stage.work / "open.txt").write_text("open", encoding="utf-8")
        assert (await call("execute_claude_with_context", prompt="Read.", file_path="open.txt"))["success"]

    stage.talk(play)
    assert len(stage.calls) == 1 and "open" in stage.calls[0]["prompt"]
