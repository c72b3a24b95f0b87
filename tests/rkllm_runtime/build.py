"""Compiles the stand-in for librkllmrt.so, and asks the compiler for the layouts of its header. It runs neither."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SOURCES = ("runtime.c", "run.c", "prompt.c", "tokens.c", "faults.c")
FLAGS = ("-std=gnu11", "-O0", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-pthread")
LIMIT_S = 60
HERE = Path(__file__).parent
TABLE: dict[str, Any] = json.loads((HERE.parent / "backends/rkllm_abi.json").read_text(encoding="utf-8"))
"""Layout's letter -> what a compiler said of its header, and its releases."""
RELEASES = {layout: str(header["releases"][-1]) for layout, header in TABLE.items()}


def build_runtime(family: str, folder: Path, release: str = "", *, with_llama: bool = True) -> Path:
    """`librkllmrt.so` in the folder, of that ABI family. Raises RuntimeError with the compiler's words.

    `release`: the version it says it is, by default the family's in RELEASES.
    `with_llama`: it runs a GGUF; else it says one sentence, and needs no library.
    """
    if not with_llama:
        return compile_library(family, folder, release, *SOURCES, "model_fixed.c")
    engine = find_engine()
    from engine_fault import has_extra_buffers

    buffers = f"-DEXTRA_BUFFERS={int(has_extra_buffers())}"
    options = (buffers, "-I", str(find_headers()), "-L", str(engine), f"-Wl,-rpath,{engine}", "-lllama")
    return compile_library(family, folder, release, *SOURCES, "model.c", options=options)


def build_encoder(folder: Path) -> Path:
    """`librknnrt.so` in the folder: an encoder of pictures that computes what a test can compute (see rknn.c)."""
    library = folder / "librknnrt.so"
    if not library.exists():
        compile_c("-shared", "-fPIC", "-o", str(library), str(HERE / "rknn.c"))
    return library


def build_echo(family: str, folder: Path) -> Path:
    """A `librkllmrt.so` that runs nothing: it writes down what it is called with (see echo.c)."""
    return compile_library(family, folder, "", "echo.c")


def compile_library(family: str, folder: Path, release: str, *sources: str, options: Sequence[str] = ()) -> Path:
    library = folder / "librkllmrt.so"
    paths = [str(HERE / source) for source in sources]
    compile_c(*family_flags(family, release), "-shared", "-fPIC", "-o", str(library), *paths, *options)
    return library


def layouts_of(family: str, folder: Path) -> dict[str, Any]:
    """What the compiler makes of rkllm.h: {"structs": {name: {"size", "fields": {field: [offset, size]}}}, "enums"}."""
    program = folder / f"layouts-{family}"
    compile_c(*family_flags(family), "-o", str(program), str(HERE / "layouts.c"))
    printed = subprocess.run([program], capture_output=True, encoding="utf-8", timeout=LIMIT_S, check=True).stdout
    layouts: dict[str, Any] = json.loads(printed)
    return layouts


def family_flags(family: str, release: str = "") -> Sequence[str]:
    return (f"-DRKLLM_FAMILY='{family}'", f'-DRKLLM_RELEASE="{release or RELEASES[family]}"')


def compile_c(*arguments: str) -> None:
    command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stderr}")


def find_package() -> Path:
    """Where llama_cpp is installed; it is not imported, because that loads the engine."""
    found = importlib.util.find_spec("llama_cpp")
    if not found or not found.origin:
        raise RuntimeError("llama-cpp-python is not installed: pip install -e '.[test]'")
    return Path(found.origin).parent


def find_engine() -> Path:
    """The folder of libllama.so."""
    return find_package() / "lib"


def find_headers() -> Path:
    """The folder of llama.h: the wheel puts it beside the package."""
    beside, inside = find_package().parent / "include", find_package() / "include"
    return beside if (beside / "llama.h").is_file() else inside
