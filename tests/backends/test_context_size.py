"""A context window is not larger than the free memory, and the user is told so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rkllm_chat.backends.llama.context_size import count_fitting_tokens
from rkllm_chat.backends.llama.gguf_header import GgufHeader

GB = 1024**3
QWEN = {"block_count": 24, "embedding_length": 896, "attention.head_count": 14, "attention.head_count_kv": 2}


@pytest.mark.parametrize(
    ("numbers", "free_bytes", "expected"),
    [
        (QWEN, 4 * GB, 262_144),  # 200,000 tokens took 2.3 GB: 12,288 bytes each
        ({**QWEN, "attention.head_count_kv": 14}, 4 * GB, 36_864),
        ({**QWEN, "attention.key_length": 128, "attention.value_length": 128}, 4 * GB, 131_072),
        (QWEN, GB // 100, 2048),
        (QWEN, -GB, 2048),
        ({**QWEN, "attention.sliding_window": 512}, GB // 100, None),
        ({"block_count": 24}, GB, None),
        ({**QWEN, "block_count": -1}, GB, None),
    ],
)
def test_as_many_tokens_fit_as_the_header_says(numbers: dict[str, int], free_bytes: int, expected: int | None) -> None:
    header = GgufHeader({"general.architecture": "qwen2", **{f"qwen2.{key}": value for key, value in numbers.items()}})
    assert count_fitting_tokens(header, free_bytes) == expected


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not enforce a limit of the address space")
def test_a_context_for_which_memory_is_missing_is_made_smaller(environment: dict[str, str], folder: Path) -> None:
    """The limit is one of the address space: a million tokens of the small model take 8 GB."""
    command = [sys.executable, "-m", "rkllm_chat", "--set", "context_tokens=1000000", "--no-servers", "-p", "Hello"]
    limited = ["bash", "-c", 'ulimit -v 4000000; exec "$@"', "bash", *command]
    done = subprocess.run(limited, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout, done.stderr
    assert "instead of 1000000: more does not fit into the free memory" in done.stderr
