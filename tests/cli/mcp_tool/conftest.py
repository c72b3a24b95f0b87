"""A user's folder with servers that record what they are sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.flag_rows import INTEGER, TEXT
from cli.mcp_tool.stage import Stage

ECHO = {"name": "echo", "inputSchema": {"type": "object", "properties": {"x": TEXT, "n": INTEGER}}}
BEHAVIORS = ("fail", "die", "hang", "see", "nothing", "picture", "people", "large", "error")


@pytest.fixture
def stage(folder: Path, environment: dict[str, str]) -> Stage:
    return Stage(folder, environment)


@pytest.fixture
def box(stage: Stage) -> Stage:
    """One server, `box`, with a tool for everything that is tried here."""
    tools = [{"name": behavior, "does": behavior, "description": f"Does {behavior}."} for behavior in BEHAVIORS]
    stage.add("box", [ECHO, {**ECHO, "name": "say", "does": "say"}, *tools])
    return stage
