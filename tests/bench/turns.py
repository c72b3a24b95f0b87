"""How fast a turn of the chat writes, beside a bare loop over the same engine and beside llama.cpp's own llama-bench.

The chat's side is the whole path: history, template, backend and its thread, scanner, events. What is timed on each
side is the writing, from the first token that has come out to the last.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.engine import BATCH_TOKENS
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.chat.context import count_tokens
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import Text, TurnEnded
from rkllm_chat.mcp_client.toolbox import Toolbox

from .figures import Figure, Goal, in_turn
from .llama_source import NotBuiltError, find_llama_bench, generate
from .random_model import write_random_model

RUNS, SMALL_RUNS = 7, 15
TOKENS, SMALL_TOKENS = 64, 400
CONTEXT = 1024
FLASH = {"llama-bench": "auto", "llama-bench -fa 0": "0"}
"""With flash attention where the engine supports it, its own default and ours, and without."""
HOT: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""So that a reply comes to no end: all tokens are nearly as likely."""
TEMPERATURE = 5.0


@dataclass(frozen=True)
class Written:
    """Tokens that were written behind the first; seconds of the clock and of this process for them."""

    tokens: int
    seconds: float
    cpu_s: float


@dataclass(frozen=True)
class Median:
    """Of several runs: tokens a second, and microseconds of CPU a token."""

    speed: float
    cpu_us: float


def turn_speed() -> list[Figure]:
    """Tokens a second of a chat turn beside a bare loop and llama-bench, 205 M random weights; what the chat adds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.gguf"
        write_random_model(find_shipped_model(), path)
        large = measure_larger(path)
    return [*large, *measure_small()]


def measure_larger(path: Path) -> list[Figure]:
    with Bench(path, TOKENS) as bench:
        ways: dict[str, Callable[[], Written]] = {"ours": bench.turn, "bare loop": bench.bare}
        note = ""
        try:
            program = find_llama_bench()
            ways |= {name: partial(theirs_of, program, path, bench, flash) for name, flash in FLASH.items()}
        except NotBuiltError as error:
            note = f"not measured: {error}"
        found = medians_of(ways, RUNS)
    return list(compare(found, note))


def compare(found: Mapping[str, Median], note: str) -> Iterator[Figure]:
    """Ours beside each, by the clock, and by the processor's time, which others on the machine disturb less."""
    ours, what = found["ours"], "chat turn, 205 M random weights"
    goal = Goal(0.97, "ratio", least=True)
    for name in ("bare loop", *FLASH):
        other = found.get(name)
        beside, cpu_ms = (other.speed, other.cpu_us / 1e3) if other else (None, None)
        yield Figure(f"{what}: speed", ours.speed, "/s", beside, name, goal, "" if other else note)
        yield Figure(f"{what}: CPU a token", ours.cpu_us / 1e3, "ms", cpu_ms, name, note="" if other else note)


def theirs_of(program: Path, path: Path, bench: Bench, flash: str) -> Written:
    return Written(TOKENS, *generate(program, path, TOKENS, bench.depth, bench.threads, flash))


def measure_small() -> list[Figure]:
    with Bench(find_shipped_model(), SMALL_TOKENS) as bench:
        found = medians_of({"ours": bench.turn, "bare loop": bench.bare}, SMALL_RUNS)
    ours, bare = found["ours"], found["bare loop"]
    what = "chat turn, the small model"
    return [
        Figure(f"{what}: a token", 1e6 / ours.speed, "us", 1e6 / bare.speed, "bare loop"),
        Figure(f"{what}: the chat adds to a token", 1e6 / ours.speed - 1e6 / bare.speed, "us"),
        Figure(f"{what}: CPU that it adds to a token", ours.cpu_us - bare.cpu_us, "us"),
    ]


def medians_of(ways: Mapping[str, Callable[[], Written]], runs: int) -> dict[str, Median]:
    return {name: median_of(found) for name, found in in_turn(ways, runs).items()}


def median_of(runs: list[Written]) -> Median:
    speed = median(run.tokens / run.seconds for run in runs)
    return Median(speed, 1e6 * median(run.cpu_s / run.tokens for run in runs))


class Bench:
    """One model, open in the chat's backend and beside it as it comes from llama-cpp-python."""

    def __init__(self, path: Path, tokens: int) -> None:
        import llama_cpp

        self._tokens = tokens
        self._loop = asyncio.new_event_loop()
        self._backend = LlamaBackend(path, CONTEXT)
        self.threads = self._backend.decode_threads
        options = {"n_threads": self.threads, "n_threads_batch": self.threads, "verbose": False}
        self._bare = llama_cpp.Llama(str(path), n_ctx=CONTEXT, n_batch=BATCH_TOKENS, **options)
        self.depth = count_tokens(self._new_chat())

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._backend.aclose())
        self._loop.close()
        self._bare.close()

    def _new_chat(self) -> Conversation:
        wanted = Generation(temperature=TEMPERATURE, max_tokens=self._tokens, seed=1, **HOT)
        return Conversation(self._backend, Toolbox(()), Settings(generation=wanted), language.load())

    def turn(self) -> Written:
        return self._loop.run_until_complete(self._listen())

    async def _listen(self) -> Written:
        begun = begun_cpu = 0.0
        tokens = 0
        async with aclosing(Turn(self._new_chat()).run("Tell me of the harbour.")) as turn:
            async for event in turn:
                if isinstance(event, Text) and not begun:
                    begun, begun_cpu = time.perf_counter(), time.process_time()
                if isinstance(event, TurnEnded):
                    tokens = sum(usage.generated_tokens for usage in event.usage)
        return Written(tokens - 1, time.perf_counter() - begun, time.process_time() - begun_cpu)

    def bare(self) -> Written:
        """What anybody writes first: generate, and print the text of each token."""
        self._bare.set_seed(1)
        begun = begun_cpu = 0.0
        said: list[bytes] = []
        prompt = list(range(5, 5 + self.depth))
        for token in self._bare.generate(prompt, temp=TEMPERATURE, **HOT):
            if not begun:
                begun, begun_cpu = time.perf_counter(), time.process_time()
            if token == self._bare.token_eos():
                break
            said.append(self._bare.detokenize([token]))
            if len(said) >= self._tokens:
                break
        return Written(len(said) - 1, time.perf_counter() - begun, time.process_time() - begun_cpu)
