"""One question to a real model through `-p`, as a user asks it."""

from __future__ import annotations

import json
import os
import re
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
    assert [(call["reused_tokens"], call["prefilled_tokens"]) for call in usage["model_calls"]] == [
        (0, usage["prompt_tokens"])
    ]
    assert 0 < usage["prefilled_tokens"] < 200
    assert usage["prefill_s"] > 0


def test_qwen_answers_the_question_of_the_readme_from_a_real_server(ask: Ask) -> None:
    """With nothing configured: the bundled server, in a process of its own."""
    result = ask(QWEN, "What time is it in Tokyo?")
    (call,) = result["calls"]
    assert (call["server"], call["tool"], call["arguments"]) == ("board", "get_time", {"place": "Tokyo"})
    assert call["status"] == "completed" and "Asia/Tokyo" in call["text"]
    shown = re.search(r"\d{1,2}:\d\d", call["text"])
    assert shown and shown[0] in result["text"]
    assert (result["reason"], result["answered_by"]) == ("answered", "forced")
    assert "{" not in result["text"]


def test_qwen_answers_it_through_the_npu_runtime_too(
    ask: Ask, compiled: Callable[[str], Path], folder: Path, tmp_path: Path
) -> None:
    """Through our stand-in for the runtime, which has no grammar: the answer is asked for without tools."""
    model = tmp_path / "Qwen2.5-Coder-0.5B-Instruct-rk3588.rkllm"
    model.symlink_to(Path(os.environ[REAL_MODELS], QWEN))
    (folder / "npu.toml").write_text(f"[rkllm]\nlibrary = {json.dumps(str(compiled('G')))}\n", encoding="utf-8")
    result = ask(str(model), "What time is it in Tokyo?", "--config", "npu.toml", "--server", "board")
    assert {(call["tool"], call["status"]) for call in result["calls"]} == {("get_time", "completed")}
    shown = re.search(r"\d{1,2}:\d\d", result["calls"][0]["text"])
    assert shown and shown[0] in result["text"]
    assert (result["reason"], result["answered_by"]) == ("answered", "forced")


def test_qwen_leaves_tools_alone_where_none_is_needed(ask: Ask) -> None:
    result = ask(QWEN, "Hello!", "--max-tokens", "60")
    assert result["calls"] == [] and result["text"]
