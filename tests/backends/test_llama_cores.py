"""llama.cpp runs on the big cores of a chip with two clusters, and with another libllama where one is configured."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.cores import find_big_cores
from rkllm_chat.backends.llama.engine import load_engine
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.messages import Message

TREES = Path(__file__).parents[1] / "trees"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def write_capacities(root: Path, *capacities: str) -> Path:
    for number, capacity in enumerate(capacities):
        file = root / f"sys/devices/system/cpu/cpu{number}/cpu_capacity"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(capacity, encoding="ascii")
    return root


def test_the_big_cluster_is_found_by_the_capacity_of_its_cores(tmp_path: Path) -> None:
    assert find_big_cores(TREES / "mainline_rknpu") == (4, 5, 6, 7)
    assert find_big_cores(TREES / "mainline_rknpu", frozenset({0, 1, 5})) == (5,)
    assert find_big_cores(TREES / "mainline_rknpu", frozenset({0, 1})) == ()
    assert find_big_cores(TREES / "rv1126b") == () == find_big_cores(TREES / "laptop")
    # an RK3588 whose big clusters are rated differently; a chip with more than four big cores, and an offline one
    assert find_big_cores(write_capacities(tmp_path / "a", *4 * ["530"], *2 * ["1010"], *2 * ["1024"])) == (4, 5, 6, 7)
    assert find_big_cores(write_capacities(tmp_path / "b", "", "300", *6 * ["1024"])) == (2, 3, 4, 5)


@pytest.mark.model
def test_prompts_and_replies_use_the_given_number_of_threads(shipped_model: Path) -> None:
    with closing(load_engine(shipped_model, 256, threads=3)) as engine:
        assert (engine.n_threads, engine.n_threads_batch) == (3, 3)


@pytest.mark.model
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be bound to cores")
def test_the_engine_runs_on_its_cores_only(open_llama: Callable[..., LlamaBackend]) -> None:
    core = max(os.sched_getaffinity(0))

    async def find_affinity(backend: LlamaBackend) -> set[int]:
        """The cores of the engine's thread, and so of the threads that it starts, while it generates."""
        stream = backend.stream([Message("user", "Hello!")], Generation(max_tokens=2))
        async with aclosing(stream) as items:
            async for _ in items:
                thread = next(one for one in threading.enumerate() if one.name.startswith("llama"))
                return os.sched_getaffinity(thread.native_id or 0)
        raise AssertionError("nothing was generated")

    bound, free = open_llama(cores=(core,)), open_llama()
    assert asyncio.run(find_affinity(bound)) == {core}
    asyncio.run(bound.aclose())
    assert asyncio.run(find_affinity(free)) == os.sched_getaffinity(0)


MAPPED = """
import asyncio, sys
from rkllm_chat.cli.main import main
code = main(sys.argv[1:])
print(*{line.split()[-1] for line in open("/proc/self/maps") if "libllama" in line or "libggml" in line}, sep="\\n")
sys.exit(code)
"""


@pytest.mark.model
@pytest.mark.slow
def test_another_libllama_is_loaded_with_its_own_ggml(
    tmp_path: Path, folder: Path, environment: dict[str, str]
) -> None:
    import llama_cpp

    other = shutil.copytree(Path(llama_cpp.__file__).parent / "lib", tmp_path / "other")
    (folder / "own.toml").write_text(f'[chat]\nllama_library = "{other}"\n', encoding="utf-8")
    command = [sys.executable, "-c", MAPPED, "--config", "own.toml", "--no-servers", "-p", "Hello!"]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    reply, *mapped = done.stdout.splitlines()
    assert reply and {Path(name).name.partition(".")[0] for name in mapped if name.startswith(str(other))} == {
        "libllama",
        "libggml",
        "libggml-base",
        "libggml-cpu",
    }


@pytest.mark.parametrize("content", [None, "not a library"])
def test_a_libllama_that_cannot_be_used_is_an_error_with_its_path(
    content: str | None, program: Run, folder: Path
) -> None:
    library = folder / "libllama.so"
    if content is not None:
        library.write_text(content, encoding="utf-8")
    (folder / "own.toml").write_text(f'[chat]\nllama_library = "{library}"\n', encoding="utf-8")
    failed = program("--config", "own.toml", "--no-servers", "-p", "Hello!", code=5)
    assert failed.stderr.count("\n") == 1 and str(library) in failed.stderr
