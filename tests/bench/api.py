"""The API server beside llama-cpp-python's own, with one model: first byte, speed of writing; and what it keeps.

Both servers run with the defaults of their programs and are asked in turn by one client, over HTTP, as a stream. Each
request begins with words of its own, so that neither finds it in its cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from rkllm_chat.backends.shared.model_files import find_shipped_model

from .figures import Figure, Goal
from .random_model import write_random_model
from .timing import in_turn

RUNS, TOKENS, PROMPT_WORDS = 7, 64, 150
REQUESTS, WARM_UP = 1000, 300
CONTEXT, LIMIT_S = 1024, 120.0
PREFILL_WORDS = 220
"""Of four tokens each, which fit into the context."""
HOT: dict[str, Any] = {"temperature": 2, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""So that a reply of random weights comes to no end."""
KEPT = ("--states-mb", "4")
"""States of other conversations are bounded by an option; here so that they are full before memory is measured."""


@dataclass(frozen=True)
class Streamed:
    """A streamed reply: seconds to its first text, and tokens a second behind that."""

    first_s: float
    speed: float


def api_speed() -> list[Figure]:
    """First byte and tokens a second of `serve openai` beside llama-cpp-python's server, 205 M random weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.gguf"
        write_random_model(find_shipped_model(), path)
        with ours(path, Path(folder), "--max-waiting", "0") as own, theirs(path) as other:
            found = in_turn({"ours": Asker(own.url), "theirs": Asker(other.url)}, RUNS)
            freed_s = median(time_release(own.url, number) for number in range(RUNS))
    first, speed = (
        [median(getattr(run, name) for run in found[way]) for way in ("ours", "theirs")]
        for name in ("first_s", "speed")
    )
    against = "llama-cpp-python's server"
    return [
        Figure("API, 205 M random weights: first byte", first[0], "s", first[1], against, Goal(1.0, "ratio")),
        Figure("API, 205 M random weights: speed", speed[0], "/s", speed[1], against, Goal(1.0, "ratio", least=True)),
        Figure("API: the model is free after a client left in prefill", freed_s, "s", goal=Goal(0.3)),
    ]


def api_memory() -> list[Figure]:
    """What a thousand requests leave in the memory of the server, and what the second turn of a talk evaluates."""
    with tempfile.TemporaryDirectory() as folder, ours(find_shipped_model(), Path(folder), *KEPT) as own:
        for number in range(WARM_UP):
            chat(own.url, [f"{number} is a number."])
        before = own.read_memory()
        for number in range(WARM_UP, WARM_UP + REQUESTS):
            chat(own.url, [f"{number} is a number."])
        growth = own.read_memory() - before
        first = chat(own.url, ["Tell me about the sea. " * 20])
        answer = first["choices"][0]["message"]["content"]
        second = chat(own.url, ["Tell me about the sea. " * 20, answer, "And about ships. " * 20])
    usage = second["usage"]
    evaluated = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
    new = usage["prompt_tokens"] - first["usage"]["total_tokens"]
    return [
        Figure(f"API: memory that {REQUESTS} requests leave", growth / 1e6, "MB", goal=Goal(5)),
        Figure("API, second turn: tokens prefilled", evaluated, "", new, "tokens that are new", Goal(1.05, "ratio")),
    ]


@dataclass(frozen=True)
class Server:
    """A server that listens."""

    process: subprocess.Popen[str]
    url: str

    def read_memory(self) -> int:
        """Bytes of memory that the process has now."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def ours(model: Path, home: Path, *options: str) -> Any:
    command = [
        sys.executable,
        "-m",
        "rkllm_chat",
        "serve",
        "openai",
        "--no-token",
        "--model",
        str(model),
        "--context",
        str(CONTEXT),
    ]
    return serving([*command, "--port", "0", *options], "listens at", HOME=str(home))


def theirs(model: Path) -> Any:
    options = ["--model", str(model), "--n_ctx", str(CONTEXT), "--port", "0", "--verbose", "false"]
    return serving([sys.executable, "-m", "llama_cpp.server", *options], "Uvicorn running on")


@contextmanager
def serving(command: Sequence[str], listens: str, **variables: str) -> Iterator[Server]:
    """Run a server that says on standard error where it listens."""
    with subprocess.Popen(
        command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        try:
            line = next(line for line in process.stderr if listens in line)
            url = next(word for word in line.split() if word.startswith("http://"))
            yield Server(process, url.removesuffix("/v1"))
        finally:
            process.kill()


class Asker:
    """Asks a server for a streamed reply; each call has other words."""

    def __init__(self, url: str) -> None:
        self._url, self._number = url, 0

    def __call__(self) -> Streamed:
        self._number += 1
        message = {"role": "user", "content": f"{self._number} " * PROMPT_WORDS}
        body = {"messages": [message], "stream": True, "max_tokens": TOKENS, "seed": self._number, **HOT}
        begun, times, reason = time.perf_counter(), [], ""
        with httpx.stream("POST", f"{self._url}/v1/chat/completions", json=body, timeout=LIMIT_S) as response:
            for line in response.iter_lines():
                choice = json.loads(line.removeprefix("data: "))["choices"][0] if line.startswith("data: {") else {}
                if choice.get("finish_reason") or choice.get("delta", {}).get("content"):
                    times.append(time.perf_counter())
                    reason = choice["finish_reason"]
        assert reason == "length", "the reply ended by itself"
        return Streamed(times[0] - begun, (TOKENS - 1) / (times[-1] - times[0]))


def time_release(url: str, number: int) -> float:
    """Seconds from the end of a client, whose prompt is being evaluated, to a request that is not refused."""
    body = {"messages": [{"role": "user", "content": f"{number + 100} " * PREFILL_WORDS}], "max_tokens": 1}
    with httpx.Client(base_url=url, timeout=LIMIT_S) as client:
        try:
            answer = client.post("/v1/chat/completions", json=body, timeout=0.2)
        except httpx.TimeoutException:  # by then a refusal would have been answered
            pass
        else:
            raise AssertionError(f"the prompt was not being evaluated any more: {answer.text}")
        left = time.perf_counter()
        while True:
            begun = time.perf_counter()
            with client.stream("POST", "/v1/completions", json={"prompt": "x", "max_tokens": 1}) as response:
                if response.status_code != 429:
                    return begun - left


def chat(url: str, texts: Sequence[str]) -> Any:
    """A reply that is not streamed; users and assistants alternate."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    body = {"messages": messages, "max_tokens": 8, "temperature": 0}
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=LIMIT_S).json()
