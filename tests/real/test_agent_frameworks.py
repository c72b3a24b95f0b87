"""Agent frameworks of others complete a tool task with the model that ships, through the API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_servers.serving import Served, serve

from .servers import find_place

PROGRAM = Path(__file__).with_name("agent_programs.py")
NAMES = (
    "agents",
    "agents streamed",
    "agents responses",
    "agents responses streamed",
    "langchain-openai",
    "langchain-ollama",
)


@pytest.fixture
def api(environment: dict[str, str], folder: Path) -> Iterator[Served]:
    with serve("openai", "--no-token", port_option="--port", env=environment, cwd=folder) as served:
        yield served


@pytest.mark.real
@pytest.mark.model
@pytest.mark.timeout(180)
def test_a_tool_task_is_completed(api: Served, environment: dict[str, str], folder: Path) -> None:
    python = find_place() / "agents/bin/python"
    for name in NAMES:
        command = [str(python), str(PROGRAM), name, api.url, "tiny-tools"]
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, encoding="utf-8", timeout=60, check=False
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        result = json.loads(done.stdout.splitlines()[-1])
        assert result["calls"] == ["12 * 34"] and "408" in result["answer"], name
