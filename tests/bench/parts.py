"""What the small model and the things around it cost: the program's start, bad files, llama.cpp."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message

from .figures import Figure, Goal, seconds


def cpu_of(arguments: Sequence[str]) -> float:
    """Seconds of CPU that a Python process takes; the least of five runs."""
    spent: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def help_cost() -> list[Figure]:
    """What `--help` takes, in seconds of CPU."""
    ours, bare = cpu_of(["-m", "rkllm_chat", "--help"]), cpu_of(["-c", "pass"])
    return [Figure("CPU of rkllm-chat --help", ours, "s", bare, "python -c pass", Goal(0.2))]


def bad_model_costs() -> list[Figure]:
    """How soon a file that is no model is turned away; in a process of its own, the engine's import included."""
    rows: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (
            ("empty", b""),
            ("of other magic", b"PK\3\4"),
            ("cut off", find_shipped_model().read_bytes()[:65536]),
        ):
            path = Path(folder) / "some.gguf"
            path.write_bytes(content)
            opened = f"open_backend(Settings(model={str(path)!r}))"
            imports = "from rkllm_chat.backends import open_backend; from rkllm_chat.config.settings import Settings"
            arguments = [sys.executable, "-c", f"{imports}; {opened}"]
            spent = seconds(partial(subprocess.run, arguments, stderr=subprocess.DEVNULL, check=False))
            rows.append(Figure(f"a model file that is {name} is an error", spent, goal=Goal(0.5)))
    return rows


def llama_costs() -> list[Figure]:
    """What a second turn saves, and how soon a prefill stops."""
    return asyncio.run(measure_llama())


async def measure_llama() -> list[Figure]:
    backend = LlamaBackend(find_shipped_model(), 8192)
    prompt = [Message("system", "You are a helpful assistant. " * 100), Message("user", "Hello!")]

    async def usage_of(messages: list[Message]) -> Usage:
        last = Usage()
        async for item in backend.stream(messages, Generation(temperature=0, max_tokens=16)):
            last = item if isinstance(item, Usage) else last
        return last

    cold = await usage_of(prompt)
    grown = [*prompt, Message("assistant", "Hi."), Message("user", "And now?")]
    warm = await usage_of(grown)
    late = await stop_during_prefill(backend)
    await backend.aclose()
    tokens, whole = warm.prefilled_tokens, warm.prompt_tokens
    first, second = (1e3 * usage.first_token_s for usage in (cold, warm))
    return [
        Figure("second turn: tokens prefilled, of the whole prompt", tokens, "", whole, "whole"),
        Figure("second turn: time to the first token", second, "ms", first, "first turn"),
        Figure("stop in the middle of a prefill", late, goal=Goal(0.3)),
    ]


async def stop_during_prefill(backend: LlamaBackend) -> float:
    """Seconds from the wish to the free engine, in a prompt of 7,000 tokens."""

    async def listen() -> None:
        async with aclosing(backend.stream([Message("user", "w " * 3500)], Generation())) as pieces:
            async for _ in pieces:
                pass

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.5)
    begun = time.perf_counter()
    listening.cancel()
    await asyncio.wait([listening])
    return time.perf_counter() - begun
