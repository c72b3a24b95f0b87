"""Editors ask a real model what stands between two texts, through every API that has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import ollama
import openai
import pytest

from mcp_servers.serving import Served, serve
from real_models import QWEN, REAL_MODELS

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(120)]
PREFIX, SUFFIX = "def add(a, b):\n    return ", "\n\n\nprint(add(1, 2))\n"


@pytest.fixture
def qwen(environment: dict[str, str], folder: Path) -> Iterator[Served]:
    """A server of Qwen2.5-Coder."""
    model = str(Path(os.environ[REAL_MODELS], QWEN))
    with serve("openai", "--model", model, port_option="--port", env=environment, cwd=folder) as served:
        yield served


def test_qwen_fills_in_an_expression_for_every_client(qwen: Served) -> None:
    key = qwen.headers["Authorization"].removeprefix("Bearer ")
    with openai.OpenAI(base_url=qwen.url, api_key=key, max_retries=0, timeout=60) as client:
        completion = client.completions.create(
            model=QWEN, prompt=PREFIX, suffix=SUFFIX, max_tokens=6, temperature=0, stop="\n"
        )
    root = qwen.url.removesuffix("/v1")
    with ollama.Client(host=root, headers=qwen.headers, timeout=60) as other:
        options = {"num_predict": 6, "temperature": 0, "stop": ["\n"]}
        generated = other.generate(QWEN, PREFIX, suffix=SUFFIX, options=options)
    assert [completion.choices[0].text, generated.response] == ["a + b"] * 2
