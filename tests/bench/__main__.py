"""`python -m tests.bench`: figures of this machine, each beside its reference in the same run.

Nothing here passes or fails. The tests check counts; this measures time.
"""

from __future__ import annotations

import asyncio
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

from rkllm_chat.backends.llama import Llama, find_shipped_model
from rkllm_chat.config import Generation
from rkllm_chat.events import Usage
from rkllm_chat.messages import Message
from rkllm_chat.scanner import Scanner

from .npu import npu_costs
from .terminal import markdown_speed

Row = tuple[str, str, str, str]
CALL = '[TOOL_CALL]\n{"name": "get_time", "arguments": {"place": "Tokyo"}}\n[END_TOOL_CALL]\n'
SKETCH = re.compile(r"\[TOOL_CALL\]\s*(\{[\s\S]*?\})\s*\[END_TOOL_CALL\]")


def main() -> None:
    rows = [
        help_cost(),
        *bad_model_costs(),
        *scanner_speed(),
        *asyncio.run(llama_costs()),
        *npu_costs(),
        *markdown_speed(),
    ]
    for what, ours, reference, ratio in [("what", "ours", "reference", "ratio"), *rows]:
        print(f"{what:<52} {ours:>14} {reference:>26} {ratio:>8}")


def cpu_of(arguments: Sequence[str]) -> float:
    """Seconds of CPU that a Python process takes; the least of five runs."""
    spent: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def help_cost() -> Row:
    ours, bare = cpu_of(["-m", "rkllm_chat", "--help"]), cpu_of(["-c", "pass"])
    return (
        "CPU of rkllm-chat --help (goal: under 0.2 s)",
        f"{ours:.3f} s",
        f"{bare:.3f} s (python -c pass)",
        f"{ours / bare:.1f}",
    )


def bad_model_costs() -> list[Row]:
    """How soon a file that is no model is turned away; in a process of its own, the engine's import included."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (
            ("empty", b""),
            ("of other magic", b"PK\3\4"),
            ("cut off", find_shipped_model().read_bytes()[:65536]),
        ):
            path = Path(folder) / "some.gguf"
            path.write_bytes(content)
            opened = f"open_backend(Settings(model={str(path)!r}))"
            code = f"from rkllm_chat.backends import *; from rkllm_chat.config import *; {opened}"
            arguments = [sys.executable, "-c", code]
            spent = seconds(partial(subprocess.run, arguments, stderr=subprocess.DEVNULL, check=False))
            rows.append((f"a model file that is {name} is an error (goal: 0.5 s)", f"{spent:.3f} s", "", ""))
    return rows


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def scan(text: str, size: int) -> None:
    scanner = Scanner()
    for start in range(0, len(text), size):
        scanner.feed(text[start : start + size])
    scanner.close()


def scanner_speed() -> list[Row]:
    """Streamed in pieces of four characters; the sketch of the design searches the whole text again for each piece."""
    rows: list[Row] = []
    cases = {"prose": "It is a fine day. " * 600, "calls": CALL * 130, "hostile openers": "[TOOL_CALL]{" * 900}
    for name, text in cases.items():
        ours = seconds(partial(scan, text, 4))
        short = text[:2048]
        sketch = seconds(partial(search_again, short))
        per_second = len(text) / ours / 1e6, len(short) / sketch / 1e6
        what = f"scanner, {name}, {len(text) // 1024} kB (regex: 2 kB)"
        ratio = f"{per_second[0] / per_second[1]:.1f}"
        rows.append((what, f"{per_second[0]:.2f} MB/s", f"{per_second[1]:.3f} MB/s (regex)", ratio))
    for size in (64, 256):
        text = ("word " * 200 + CALL) * (size * 1024 // 1080)
        rows.append((f"scanner, {size} KiB in pieces of 4", f"{seconds(partial(scan, text, 4)):.2f} s", "", ""))
    return rows


def search_again(text: str) -> None:
    for end in range(0, len(text), 4):
        SKETCH.findall(text[:end])


async def llama_costs() -> list[Row]:
    backend = Llama(find_shipped_model(), 8192)
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
    return [
        ("second turn: tokens prefilled, of the whole prompt", f"{warm.prefilled_tokens}", f"{warm.prompt_tokens}", ""),
        (
            "second turn: time to the first token",
            f"{warm.first_token_s * 1e3:.1f} ms",
            f"{cold.first_token_s * 1e3:.1f} ms (first turn)",
            f"{warm.first_token_s / cold.first_token_s:.2f}",
        ),
        ("stop in the middle of a prefill (goal: 0.3 s)", f"{late:.3f} s", "", ""),
    ]


async def stop_during_prefill(backend: Llama) -> float:
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


main()
