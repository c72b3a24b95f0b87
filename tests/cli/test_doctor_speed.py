"""`rkllm-chat doctor --speed`: the speed of a model file, through the engine that the chat would use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.llama.cores import choose_cores, count_threads
from rkllm_chat.cli.doctor.speed import REPLY_TOKENS
from stage import Run

pytestmark = [pytest.mark.model, pytest.mark.slow]  # a model is loaded and evaluates thousands of tokens
CONTEXT = 256


@pytest.fixture
def models(compiled: Callable[[str], Path], folder: Path, shipped_model: Path) -> Path:
    """A folder with the same model for both engines, and a configuration for the stand-in of the NPU."""
    place = folder / "models"
    place.mkdir()
    for name in ("Qwen3-0.6B-Q4_0.gguf", "qwen3_0.6b_w8a8_rk3588.rkllm"):
        (place / name).symlink_to(shipped_model)
    library = json.dumps(str(compiled("G")))
    (folder / "bench.toml").write_text(
        f"[chat]\ncontext_tokens = {CONTEXT}\n[rkllm]\nlibrary = {library}\n", encoding="utf-8"
    )
    return place


def measure(program: Run, *arguments: str) -> list[dict[str, Any]]:
    document = json.loads(program("doctor", "--speed", "--json", "--config", "bench.toml", *arguments).stdout)
    assert document["ok"]
    engines: list[dict[str, Any]] = document["result"]["engines"]
    return engines


def two_models(models: Path) -> tuple[str, ...]:
    npu, cpu = (str(models / name) for name in ("qwen3_0.6b_w8a8_rk3588.rkllm", "Qwen3-0.6B-Q4_0.gguf"))
    return "--model", npu, "--model", cpu


def test_both_engines_are_measured_and_what_does_not_fit_the_context_is_named(program: Run, models: Path) -> None:
    engines = measure(program, *two_models(models))
    assert [(engine["backend"], engine["model"], engine["context_tokens"]) for engine in engines] == [
        ("rkllm", "qwen3_0.6b_w8a8_rk3588.rkllm", CONTEXT),
        ("llama", "Qwen3-0.6B-Q4_0.gguf", CONTEXT),
    ]
    assert engines[0]["engine"] == "RKLLM 1.3.0" and engines[1]["engine"].startswith("llama.cpp of llama-cpp-python")
    threads = count_threads(choose_cores())
    assert [(engine["prefill_threads"], engine["decode_threads"]) for engine in engines] == [(0, 0), (threads, threads)]
    for engine in engines:
        first, *others = engine["rows"]
        assert 100 <= first["prompt_tokens"] <= 128 < CONTEXT - REPLY_TOKENS
        assert first["prefill_tokens_per_s"] > 0 and first["decode_tokens_per_s"] > 0 and first["first_token_s"] > 0
        assert [(row["intended_tokens"], row["prompt_tokens"]) for row in others] == [(1024, 0), (4096, 0)]
        assert {row["problem"] for row in others} == {f"the context holds {CONTEXT} tokens"}
        assert "free memory" in engine["before"] and "free memory" in engine["after"]


def test_the_table_has_a_row_for_each_length_and_the_state_of_the_machine(
    program: Run, folder: Path, environment: dict[str, str]
) -> None:
    (folder / "bench.toml").write_text(f"[chat]\ncontext_tokens = {CONTEXT}\n", encoding="utf-8")
    done = program("doctor", "--speed", "--config", "bench.toml")
    steps = [f"tiny-tools.gguf: {tokens} tokens" for tokens in (128, 1024, 4096)]
    assert done.stderr.splitlines() == ["loading tiny-tools.gguf", *steps]
    head, _, engine, columns, *rows = done.stdout.splitlines()
    assert head.startswith("rkllm-chat ") and "tiny-tools.gguf" in engine
    assert columns.split() == ["prompt", "prefill/s", "decode/s", "first", "token"]
    assert len(rows[0].split()) == 5 and float(rows[0].split()[1]) > 0
    assert [row.split()[:3] for row in rows[1:3]] == [["1024", "not", "measured:"], ["4096", "not", "measured:"]]
    assert rows[3].startswith("  threads: ") and " for prefill, " in rows[3]
    assert any(row.startswith("  free memory: ") and " before, " in row for row in rows[4:])
    assert not list(Path(environment["HOME"]).rglob("prompt-caches/*"))


def test_a_model_with_less_context_is_measured_with_what_it_has(program: Run, models: Path, folder: Path) -> None:
    text = (folder / "bench.toml").read_text(encoding="utf-8").replace(f"context_tokens = {CONTEXT}", "")
    (folder / "bench.toml").write_text(text, encoding="utf-8")
    (engine,) = measure(program, "--model", str(models / "qwen3_0.6b_w8a8_rk3588.rkllm"))
    assert engine["context_tokens"] == 2048
    assert [bool(row["prompt_tokens"]) for row in engine["rows"]] == [True, True, False]


def test_an_engine_that_fails_does_not_lose_the_figures_of_the_other(
    program: Run, models: Path, environment: dict[str, str]
) -> None:
    environment["RKLLM_STANDIN_FAULT"] = "init_fails"
    arguments = two_models(models)
    npu, cpu = measure(program, *arguments)
    assert "does not have enough memory" in npu["problem"] and (npu["rows"], npu["context_tokens"]) == ([], 0)
    assert cpu["problem"] == "" and cpu["rows"][0]["decode_tokens_per_s"] > 0
    lines = program("doctor", "--speed", "--config", "bench.toml", *arguments).stdout.splitlines()
    assert sum("not measured: The NPU does not have enough memory" in line for line in lines) == 1
    assert sum(line.split()[:1] == ["prompt"] for line in lines) == 1
    failed = program("doctor", "--speed", "--config", "bench.toml", *arguments[:2], code=5)
    assert "enough memory" in failed.stderr


def test_a_model_that_is_missing_is_one_line(program: Run) -> None:
    failed = program("bench", "--model", "missing.rkllm", code=5)  # the former word
    assert failed.stderr.startswith("rkllm-chat: missing.rkllm: No such file") and failed.stderr.count("\n") == 1


def test_a_service_is_a_usage_error(program: Run) -> None:
    arguments = ("--model", "http://localhost:1/v1")
    failed = program("doctor", "--speed", *arguments, code=2)
    assert failed.stdout == "" and "doctor --speed measures a model file" in failed.stderr
    document = json.loads(program("doctor", "--speed", "--json", *arguments, code=2).stdout)
    assert (document["ok"], document["error"]["type"]) == (False, "UsageError")
