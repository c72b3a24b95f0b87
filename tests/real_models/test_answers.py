"""One question to a real model through `-p`, as a user asks it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from real_models import QWEN, REAL_MODELS, SMOLLM2
from stage import PROGRAM

LIMIT_S = 100
Ask = Callable[..., dict[str, Any]]

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(LIMIT_S + 20)]  # an answer takes up to half a minute of CPU


@pytest.fixture
def ask(environment: dict[str, str], folder: Path) -> Ask:
    """Ask a model one question in a new process; return the result of `-p`."""

    def run(model: str, question: str, *options: str) -> dict[str, Any]:
        path = Path(os.environ[REAL_MODELS], model)
        assert path.is_file(), f"run .ci/real_models {path.parent}"
        command = [*PROGRAM, "-p", question, "--model", str(path), "--temperature", "0", "--output-format", "json"]
        done = subprocess.run(
            [*command, *options],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT_S,
            check=False,
        )
        document = json.loads(done.stdout)
        assert "result" in document, document
        result: dict[str, Any] = document["result"]
        return result

    return run


@pytest.mark.parametrize("model", [SMOLLM2, QWEN])
def test_a_real_model_answers_a_greeting_after_one_prefill(model: str, ask: Ask) -> None:
    result = ask(model, "Hello!", "--no-servers", "--max-tokens", "60")
    usage = result["usage"]
    assert "hello" in result["text"].lower()
    assert [(one["reused_tokens"], one["prefilled_tokens"]) for one in usage["model_calls"]] == [
        (0, usage["prompt_tokens"])
    ]
    assert 0 < usage["prefilled_tokens"] < 200
    assert usage["prefill_s"] > 0


def test_qwen_calls_a_tool_of_a_real_server(ask: Ask) -> None:
    """With nothing configured: the bundled server, in a process of its own."""
    result = ask(QWEN, "What time is it in Tokyo?", "--max-steps", "1")
    call = result["calls"][0]
    assert (call["server"], call["tool"], call["arguments"]) == ("board", "get_time", {"place": "Tokyo"})
    assert call["status"] == "completed"
    assert "Asia/Tokyo" in call["text"]
