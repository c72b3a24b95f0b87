"""llama.cpp runs on the big cores of a chip with two clusters, and with another libllama where one is configured."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.cores import count_cores, count_free_threads, find_big_cores, read_cpu_quota
from rkllm_chat.backends.llama.engine import load_engine
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.messages import Message
from stage import Run, write_files


def write_capacities(root: Path, *capacities: str) -> Path:
    return write_files(
        root, {f"sys/devices/system/cpu/cpu{i}/cpu_capacity": capacity for i, capacity in enumerate(capacities)}
    )


def write_siblings(root: Path, *siblings: str, name: str = "core_cpus_list") -> Path:
    """The logical cores, of which each names those of its physical core."""
    files = {f"sys/devices/system/cpu/cpu{i}/topology/{name}": text for i, text in enumerate(siblings)}
    return write_files(root, {"sys/devices/system/cpu/online": f"0-{len(siblings) - 1}", **files})


def test_the_big_cluster_is_found_by_the_capacity_of_its_cores(tmp_path: Path) -> None:
    board = write_capacities(tmp_path / "board", *4 * ["530"], *4 * ["1024"])
    assert find_big_cores(board) == (4, 5, 6, 7)
    assert find_big_cores(board, frozenset({0, 1, 5})) == (5,)
    assert find_big_cores(board, frozenset({0, 1})) == ()
    equal = write_capacities(tmp_path / "equal", *4 * ["1024"])
    assert find_big_cores(equal) == () == find_big_cores(tmp_path)
    # an RK3588 whose big clusters are rated differently; a chip with six big cores and an offline one
    assert find_big_cores(write_capacities(tmp_path / "a", *4 * ["530"], *2 * ["1010"], *2 * ["1024"])) == (4, 5, 6, 7)
    assert find_big_cores(write_capacities(tmp_path / "b", "", "300", *6 * ["1024"])) == (2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize(
    ("loadavg", "most", "cores", "free"),
    [
        ("0.10 0.20 0.30 1/300 4711", 2, 2, 2),
        ("2.00 2.00 2.00 3/300 4711", 2, 2, 2),  # so does a reply of our own
        ("2.60 2.00 2.00 1/300 4711", 2, 2, 2),  # the load is over
        ("2.60 2.00 2.00 2/300 4711", 2, 2, 1),
        ("17.50 9.00 3.00 18/300 4711", 2, 2, 1),
        ("9.00 9.00 3.00 4/300 4711", 4, 8, 4),  # the small cores are free for the others
        ("9.00 9.00 3.00 7/300 4711", 4, 8, 2),
        ("9.00 9.00 3.00 30/300 4711", 4, 8, 1),
    ],
)
def test_where_others_run_there_are_fewer_threads(
    tmp_path: Path, loadavg: str, most: int, cores: int, free: int
) -> None:
    root = write_files(tmp_path, {"proc/loadavg": loadavg})
    assert count_free_threads(most, root, cores) == free
    assert count_free_threads(most, tmp_path / "macos", cores) == most


def test_hyperthreads_of_one_core_are_counted_once(tmp_path: Path) -> None:
    adjacent = write_siblings(tmp_path / "a", "0-1", "0-1", "2-3", "2-3")
    spread = write_siblings(tmp_path / "b", "0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7")
    old = write_siblings(tmp_path / "c", "0,2", "1,3", "0,2", "1,3", name="thread_siblings_list")
    assert [count_cores(root) for root in (adjacent, spread, old)] == [2, 4, 2]
    assert [count_cores(spread, frozenset(cores)) for cores in ({0, 4}, {4, 5, 6}, {1, 2, 5, 6}, {99})] == [1, 3, 2, 1]
    assert count_cores(write_siblings(tmp_path / "d", "0", "1")) == 2
    # a PC with two fast cores of two threads each and four slow ones
    mixed = write_siblings(tmp_path / "e", "0-1", "0-1", "2-3", "2-3", "4", "5", "6", "7")
    assert find_big_cores(write_files(mixed, {"sys/devices/cpu_core/cpus": "0-3"})) == (0, 2)


QUOTAS: dict[str, tuple[Mapping[str, str], float]] = {
    "none": ({}, math.inf),
    "no limit": ({"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/cpu.max": "max 100000"}, math.inf),
    "v2, in a container": ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
    "v2, of a group above": (
        {
            "proc/self/cgroup": "0::/a/b/c",
            "sys/fs/cgroup/a/b/cpu.max": "300000 100000",
            "sys/fs/cgroup/a/cpu.max": "200000 100000",
        },
        2.0,
    ),
    "v1": (
        {
            "proc/self/cgroup": "4:memory:/a\n2:cpu,cpuacct:/docker/b\n0::/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
        0.5,
    ),
    "v1, no limit": (
        {
            "proc/self/cgroup": "1:cpu:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
        math.inf,
    ),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_the_quota_of_a_control_group_is_that_of_the_strictest_one_above(case: str, tmp_path: Path) -> None:
    files, quota = QUOTAS[case]
    assert read_cpu_quota(write_files(tmp_path, files)) == quota


COUNT = """
import sys
from pathlib import Path
from rkllm_chat.backends.llama.backend import LlamaBackend
backend = LlamaBackend(Path(sys.argv[1]), 256)
print(backend.prefill_threads, backend.decode_threads, flush=True)
"""


@pytest.mark.model
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be bound to cores")
@pytest.mark.parametrize("limit", [1, None])
def test_the_engine_has_a_thread_for_each_core_that_it_may_use(limit: int | None, shipped_model: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))[:limit]
    command = [sys.executable, "-c", COUNT, str(shipped_model)]  # a process of its own, which nothing else limits
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    cores = find_big_cores(allowed=frozenset(allowed))
    expected = min(len(cores) or count_cores(allowed=frozenset(allowed)), int(max(1, min(read_cpu_quota(), 1000))))
    assert done.stdout.split() == 2 * [str(expected)]


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
                thread = next(thread for thread in threading.enumerate() if thread.name.startswith("llama"))
                return os.sched_getaffinity(thread.native_id or 0)
        raise AssertionError("nothing was generated")

    bound, free = open_llama(cores=(core,)), open_llama()
    assert asyncio.run(find_affinity(bound)) == {core}
    asyncio.run(bound.aclose())
    assert asyncio.run(find_affinity(free)) == os.sched_getaffinity(0)


CONTEND = """
import os, sys, time
from pathlib import Path
from rkllm_chat.backends.llama.engine import load_engine
engines = [load_engine(Path(sys.argv[1]), 256, threads) for threads in (1, 2)]
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # later than OpenMP looks how many cores there are
for engine in engines:
    engine.eval(list(range(5, 25)))
    started = time.process_time()
    for token in range(20):
        engine.eval([30 + token])
    print(time.process_time() - started, flush=True)
"""


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be bound to cores")
def test_threads_that_share_a_core_do_not_spin_through_each_others_time(shipped_model: Path) -> None:
    command = [sys.executable, "-c", CONTEND, str(shipped_model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    one, two = map(float, done.stdout.split())
    assert two < 12 * one  # 5 times; without a limit of spinning 36 times


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
