"""What tests are handed: a user of his own, the program as a process, scripts, screens, the shipped model."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.llama import find_shipped_model
from stage import PROGRAM, Screen

LIMIT_S = 30

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user of his own, with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder to work in."""
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def program(environment: dict[str, str], folder: Path) -> Run:
    """Runs `rkllm-chat` with arguments to its end."""

    def run(*arguments: str, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=environment,
            cwd=folder,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def script(folder: Path) -> Callable[..., str]:
    """Writes replies for the scripted backend; gives the file's name."""

    def write(*replies: str | dict[str, Any]) -> str:
        (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
        return "replies.json"

    return write


@pytest.fixture(scope="session")
def shipped_model() -> Path:
    """The small GGUF; without it nothing here is proved, so its absence is a failure."""
    path = find_shipped_model()
    assert path.is_file(), f"the shipped model is missing: {path}"
    return path


@pytest.fixture
def open_screen(environment: dict[str, str], folder: Path) -> Iterator[Callable[..., Screen]]:
    """Starts `rkllm-chat` on a terminal of its own; ends it with the test."""
    screens: list[Screen] = []

    def start(*arguments: str) -> Screen:
        screens.append(Screen(arguments, environment, folder))
        return screens[-1]

    yield start
    for screen in screens:
        screen.close()
