"""Fixtures of the terminal tests: a chat at its prompt, and a server with tools, resources and prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stage import Screen

from .server_configs import write_harbour


@pytest.fixture
def open_chat(open_screen: Callable[..., Screen], script: Callable[..., str]) -> Callable[..., Screen]:
    """Open `rkllm-chat` with scripted replies (none: the small model) and arguments, and wait for its prompt."""

    def open_one(arguments: str = "", *replies: str | dict[str, Any], **options: Any) -> Screen:
        model = ["--model", script(*replies)] if replies else []
        screen = open_screen(*model, *arguments.split(), **options)
        screen.wait_for("Ctrl+D")
        screen.wait_for_prompt()
        return screen

    return open_one


@pytest.fixture
def harbour(folder: Path) -> Path:
    """A folder with `harbour.toml`, which names the server of `harbour.py`."""
    write_harbour(folder)
    return folder
