"""What our layer costs above the NPU runtime: process, pipe and scanner against the same loop in one process.

The stand-in of the runtime gives words at a set pace without computing them, so only what lies above it is measured.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rkllm_chat.backends.rkllm.abi import Library, Model
from rkllm_chat.backends.rkllm.backend import RkllmBackend, open_rkllm
from rkllm_chat.backends.rkllm.options import make_fixed_options
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.config import settings as config
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core.messages import Message
from rkllm_runtime.build import build_runtime

from .figures import Figure, Goal

TOKENS = 200
FASTEST = 33  # tokens a second: Qwen3 0.6B on RK3588, the fastest of the models that call tools (vendor's benchmark)


def npu_costs() -> list[Figure]:
    """Microseconds a token at full speed, and tokens a second at the pace of a board."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = build_runtime("G", folder)
        model = folder / "tiny-tools.rkllm"
        model.symlink_to(find_shipped_model())
        os.environ["XDG_STATE_HOME"] = name
        with paced(1_000_000):
            ours, bare = (
                min(through_chat(library, model) for _ in range(5)),
                min(alone(library, model) for _ in range(5)),
            )
        what = "NPU: a token through callback, pipe and scanner"
        rows = [Figure(what, 1e6 * ours / TOKENS, "us", 1e6 * bare / TOKENS, "callback alone")]
        with paced(FASTEST):
            ours, bare = through_chat(library, model), alone(library, model)
        what = f"NPU: speed of a runtime paced at {FASTEST}/s"
        goal = Goal(0.97, "ratio", least=True)
        rows.append(Figure(what, TOKENS / ours, "/s", TOKENS / bare, "one process", goal))
        return rows


@contextmanager
def paced(tokens_per_second: int) -> Iterator[None]:
    os.environ["RKLLM_STANDIN_PACE"] = str(tokens_per_second)
    try:
        yield
    finally:
        del os.environ["RKLLM_STANDIN_PACE"]


def through_chat(library: Path, model: Path) -> float:
    """Seconds for a reply through the backend and the scanner, from the asking on."""

    async def listen(backend: RkllmBackend) -> float:
        begun = time.perf_counter()
        scanner = Scanner()
        async for item in backend.stream([Message("user", "Go.")], Generation(temperature=0, max_tokens=TOKENS)):
            if isinstance(item, str):
                scanner.feed(item)
        spent = time.perf_counter() - begun
        await backend.aclose()
        return spent

    rkllm = config.Rkllm(library=str(library))
    return asyncio.run(listen(open_rkllm(Settings(model=str(model), rkllm=rkllm, context_tokens=2048))))


def alone(library: Path, model: Path) -> float:
    """Seconds for the same reply with nothing above the callback."""
    said: list[bytes] = []
    options = {"model_path": str(model), **make_fixed_options(Settings(), 2048)}
    loaded = Model(Library(library), options, lambda _state, text, _token, _figures: said.append(text))
    begun = time.perf_counter()
    loaded.run("Go.", max_new_tokens=TOKENS)
    spent = time.perf_counter() - begun
    loaded.close()
    assert len(said) >= TOKENS
    return spent
