"""How fast the chat runs a real model, beside bare loops over the same engine with each number of threads.

RKLLM_CHAT_BENCH_MODEL names the GGUF. What is compared runs in turn, a bare loop with each number of threads that there
are cores.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.engine import BATCH_TOKENS
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message

from .figures import Figure, Goal, in_turn

MODEL_VARIABLE = "RKLLM_CHAT_BENCH_MODEL"
RUNS, TOKENS, CONTEXT = 5, 32, 512
WORDS = 160
QUESTION = "Write a long story about a harbour in winter."
GOAL = Goal(0.97, "ratio", least=True)


@dataclass(frozen=True)
class Speed:
    """Tokens a second: of the prompt, and of the reply behind its first token."""

    prefill: float
    decode: float


def real_model_speed() -> list[Figure]:
    """Prefill and decode of a real model beside the best number of threads; RKLLM_CHAT_BENCH_MODEL names it."""
    path = os.environ.get(MODEL_VARIABLE, "")
    if not path:
        note = f"not measured: {MODEL_VARIABLE} names no model"
        return [Figure(f"a real model: {what}", 0.0, "/s", goal=GOAL, note=note) for what in ("prefill", "decode")]
    return asyncio.run(measure(Path(path)))


async def measure(path: Path) -> list[Figure]:
    import llama_cpp

    backend = LlamaBackend(path, CONTEXT)
    bare = llama_cpp.Llama(str(path), n_ctx=CONTEXT, n_batch=BATCH_TOKENS, verbose=False)
    loop = asyncio.get_running_loop()
    seeds = iter(range(1, 1000))

    async def run_ours() -> Speed:
        usage = Usage()
        prompt = [Message("user", f"{next(seeds)}{' stone' * WORDS}\n{QUESTION}")]
        async with aclosing(backend.stream(prompt, Generation(temperature=0, max_tokens=TOKENS))) as items:
            async for item in items:
                usage = item if isinstance(item, Usage) else usage
        return Speed(usage.prefilled_tokens / usage.prefill_s, (usage.generated_tokens - 1) / usage.generate_s)

    def run_bare(threads: int) -> Speed:
        """What anybody writes first: evaluate the prompt, then take the most likely token."""
        llama_cpp.llama_set_n_threads(bare.ctx, threads, threads)
        text = f"<|im_start|>user\n{next(seeds)}{' stone' * WORDS}\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
        prompt = bare.tokenize(text.encode(), add_bos=False, special=True)
        bare.reset()
        started_at, first_at, count = time.perf_counter(), 0.0, 0
        for token in bare.generate(prompt, temp=0.0):
            first_at = first_at or time.perf_counter()
            count += 1
            if count >= TOKENS or token == bare.token_eos():
                break
            bare.detokenize([token])
        return Speed(len(prompt) / (first_at - started_at), (count - 1) / (time.perf_counter() - first_at))

    try:
        ways: dict[int, Callable[[], Speed]] = {0: lambda: asyncio.run_coroutine_threadsafe(run_ours(), loop).result()}
        ways |= {threads: partial(run_bare, threads) for threads in range(1, (os.cpu_count() or 1) + 1)}
        found = await asyncio.to_thread(in_turn, ways, RUNS, warms_up=False)
    finally:
        await backend.aclose()
        bare.close()
    ours = found.pop(0)
    return [figure for kind in ("prefill", "decode") for figure in compare(kind, backend.decode_threads, ours, found)]


def compare(kind: str, threads: int, ours: list[Speed], others: dict[int, list[Speed]]) -> Iterator[Figure]:
    """Ours beside the bare loop with each number of threads; the goal counts for the one that is the fastest here."""

    def middle(runs: list[Speed]) -> float:
        return median(run.prefill if kind == "prefill" else run.decode for run in runs)

    best = max(others, key=lambda count: middle(others[count]))
    for count, runs in others.items():
        what, against = f"a real model, threads: {threads}, {kind}", f"bare loop, threads: {count}"
        yield Figure(what, middle(ours), "/s", middle(runs), against, GOAL if count == best else None)
