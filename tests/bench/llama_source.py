"""llama.cpp's own `llama-bench`, built from the source that the installed llama-cpp-python ships. Built once, kept.

Needs pip's index (77 MB), cmake and a C++ compiler, and some minutes; the processor is left to whoever else wants it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

FOLDER_VARIABLE = "RKLLM_CHAT_LLAMA_BENCH"
NAME = "llama-bench"
LIMIT_S = 3600
LEFT_OUT = ("BUILD_SHARED_LIBS", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_SERVER", "LLAMA_BUILD_APP")


class NotBuiltError(Exception):
    """Why there is no llama-bench here."""


def find_llama_bench() -> Path:
    """The program, of the very llama.cpp that is measured; built where it is not there. Raises NotBuiltError."""
    if not (named := os.environ.get(FOLDER_VARIABLE)):
        raise NotBuiltError("no --llama-bench FOLDER")
    import llama_cpp

    folder = Path(named).expanduser().absolute()
    program = folder / f"{NAME}-{llama_cpp.__version__}"
    if not program.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        build(llama_cpp.__version__, program)
    return program


def build(version: str, program: Path) -> None:
    missing = [tool for tool in ("cmake", "c++") if not shutil.which(tool)]
    if missing:
        raise NotBuiltError(f"no {' and no '.join(missing)}")
    with tempfile.TemporaryDirectory(dir=program.parent) as name:
        work = Path(name)
        wanted = f"llama-cpp-python=={version}"
        download = ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python", "-d", name, wanted]
        run([sys.executable, *download], "the source could not be had")
        with tarfile.open(next(work.glob("*.tar.gz"))) as archive:
            archive.extractall(work)
        source = next(work.glob("*/vendor/llama.cpp"))
        made = work / "made"
        options = [f"-D{option}=OFF" for option in (*LEFT_OUT, "LLAMA_OPENSSL")]
        run(["cmake", "-S", str(source), "-B", str(made), "-DCMAKE_BUILD_TYPE=Release", *options], "cmake failed")
        run(["nice", "cmake", "--build", str(made), "--target", NAME, "-j", str(os.cpu_count())], "it did not build")
        shutil.copy(made / "bin" / NAME, program)


def run(command: Sequence[str], failed: str) -> None:
    """Runs it, what it writes to standard error. Raises NotBuiltError with `failed`."""
    try:
        done = subprocess.run(command, stdout=sys.stderr, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotBuiltError(f"{failed}: {error}") from error
    if done.returncode:
        raise NotBuiltError(failed)


def generate(program: Path, model: Path, tokens: int, depth: int, threads: int, flash: str) -> tuple[float, float]:
    """Seconds of the clock and of the processor for so many tokens behind a prompt of `depth`; `flash`: its `-fa`.

    The clock is llama-bench's own; the processor's time is what twice as many tokens take more, without the loading.
    """
    once, twice = (measure(program, model, count, depth, threads, flash) for count in (tokens, 2 * tokens))
    return once[0], twice[1] - once[1]


def measure(program: Path, model: Path, tokens: int, depth: int, threads: int, flash: str) -> tuple[float, float]:
    """Seconds for the tokens, by llama-bench; seconds of the processor for all that it did."""
    numbers = {"-p": 0, "-n": tokens, "-d": depth, "-t": threads, "-r": 1, "-fa": flash}
    options = [str(part) for pair in numbers.items() for part in pair]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(program), "-m", str(model), *options, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return tokens / float(json.loads(done.stdout)[0]["avg_ts"]), spent
