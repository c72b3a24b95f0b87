"""The second start of a model, whose system text and tools were read by the first: each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.engine import load_engine
from rkllm_chat.backends.llama.state_cache import LlamaStateCache
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.messages import Message

from .figures import Figure, Goal, in_turn, seconds
from .random_model import write_random_model

TOKENS = 1500  # of system text and tools
CONTEXT = 4096
RUNS = 3
GOAL = Goal(0.3, "ratio")


def second_start() -> list[Figure]:
    """How late the first word of a second start comes, from a file of what the first one evaluated."""
    rows = of_model("tiny-tools", find_shipped_model(), RUNS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.gguf"
        write_random_model(find_shipped_model(), path)
        return rows + of_model("200 M random weights", path, 1)


def of_model(name: str, model: Path, runs: int) -> list[Figure]:
    """First and second starts in turn, each first one with an empty folder; then the file by itself."""
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append((start(model, folder), start(model, folder)))
    first, second = ([pair[side]["first_s"] for pair in pairs] for side in (0, 1))
    prefilled = pairs[0][1]["prefilled"]
    size, save_s, load_s = time_file(model)
    return [
        Figure(f"{name}: first word of the second start", median(second), "s", median(first), "the first", GOAL),
        Figure(f"{name}: tokens that it evaluates", prefilled, "", pairs[0][0]["prefilled"], "the first"),
        Figure(f"{name}: writing the file", 1e3 * save_s, "ms"),
        Figure(f"{name}: checking and reading it", 1e3 * load_s, "ms"),
        Figure(f"{name}: its size", size / 1e6, "MB"),
    ]


def start(model: Path, folder: str) -> dict[str, Any]:
    """One start, in a process: seconds from the question to the first word, and tokens evaluated for it."""
    command = [sys.executable, "-m", "tests.bench.warm", str(model), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def time_file(model: Path) -> tuple[int, float, float]:
    """Bytes of a file of so many tokens; seconds of writing and of reading it, hashes included, the least of three."""
    engine, tokens = load_engine(model, CONTEXT), [5 + number % 900 for number in range(TOKENS)]
    engine.evaluate_prompt(tokens)
    with tempfile.TemporaryDirectory() as folder:
        states = LlamaStateCache(Path(folder), model, engine)
        steps = {step: partial(seconds, partial(step, tokens)) for step in (states.save, states.load)}
        saves, loads = in_turn(steps, 3, warms_up=False).values()
        assert states.load(tokens)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    engine.close()
    return size, min(saves), min(loads)


async def ask(model: Path, states: Path) -> dict[str, Any]:
    backend = LlamaBackend(model, CONTEXT, states=states)
    text = "You are a helpful assistant. "
    while backend.count_tokens([Message("system", text)]) < TOKENS:
        text += "You are a helpful assistant. "
    prompt = [Message("system", text), Message("user", "Hello!")]
    begun = time.perf_counter()
    first_s, prefilled = 0.0, 0
    async for item in backend.stream(prompt, Generation(temperature=0, max_tokens=4)):
        if isinstance(item, str):
            first_s = first_s or time.perf_counter() - begun
        prefilled = getattr(item, "prefilled_tokens", prefilled)
    await backend.aclose()
    return {"first_s": first_s, "prefilled": prefilled}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ask(Path(sys.argv[1]), Path(sys.argv[2])))))
