"""What installing needs: `python -m rkllm_chat doctor` in a checkout, before the five minutes of compiling.

Nothing but the standard library is there, and no dependency of the program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.hardware import read_memory

_MODULES = """
    anyio h11 httpx2 jinja2 jwt llama_cpp llguidance markdown_it mcp mcp_types numpy prompt_toolkit pydantic pygments
    rich snowballstemmer starlette tomli typing_extensions uvicorn websockets yaml
"""
"""Top modules of the packages in `dependencies` of pyproject.toml."""
_VERSIONS = ((3, 10), (3, 14))
_COMPILERS = ("c++", "g++", "clang++")
_COMPILER_BYTES, _DISK_BYTES = 700 << 20, 2 << 30
"""Memory of one compiler of llama.cpp, of which one runs on each processor, and space for what it writes."""
_TRY_S = 20.0
_WITHOUT = "The NPU and models of a service work without it: models/README.md, Without a compiler."


class _Row(NamedTuple):
    state: str
    name: str
    value: str
    advice: str = ""


def explain_missing(error: ModuleNotFoundError, arguments: Sequence[str]) -> int:
    """Say that the program is not installed, or with `doctor` what installing needs; return the exit code.

    Args:
        error: What was not found.
        arguments: The command line.

    Raises:
        ModuleNotFoundError: It is no dependency of the program.
    """
    if (error.name or "").partition(".")[0] not in _MODULES.split():
        raise error
    if "doctor" not in arguments:
        text = (
            f'rkllm-chat: the package of the module "{error.name}" is not installed. Install the program: pip install .'
        )
        print(f"{text}\n`python3 -m rkllm_chat doctor` says what is missing for that.", file=sys.stderr)
        return 5
    rows = list(_check())
    for row in rows:
        print(f"{row.state:<6}{row.name:<10}{row.value}")
        if row.advice:
            print(f"{'':<16}{row.advice}")
    return int(any(row.state == "wrong" for row in rows))


def _check() -> Iterator[_Row]:
    yield _Row(
        "warn", "packages", "the program is not installed", "pip install .   (compiles llama.cpp: 5 to 10 minutes)"
    )
    yield _check_python()
    yield _check_environment()
    yield _check_compiler()
    yield _check_memory()
    free = shutil.disk_usage(tempfile.gettempdir()).free
    value = f"{free / (1 << 30):.1f} GB free in {tempfile.gettempdir()}"
    yield (
        _Row("ok", "disk", value)
        if free >= _DISK_BYTES
        else _Row("warn", "disk", value, "llama.cpp is compiled there; TMPDIR names another folder.")
    )


def _check_python() -> _Row:
    least, most = (".".join(map(str, version)) for version in _VERSIONS)
    value = f"{sys.version.partition(' ')[0]}, {sys.executable}"
    if _VERSIONS[0] <= sys.version_info[:2] <= _VERSIONS[1]:
        return _Row("ok", "Python", value)
    state = "wrong" if sys.version_info[:2] < _VERSIONS[0] else "warn"
    return _Row(state, "Python", value, f"Tested are {least} to {most}.")


def _check_environment() -> _Row:
    """Report whether pip may install here: Debian's Python takes packages only into a virtual environment."""
    in_environment = sys.prefix != sys.base_prefix
    is_managed = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()
    if in_environment or not is_managed:
        return _Row("ok", "pip", f"installs into {sys.prefix}")
    advice = "sudo apt install python3-venv; python3 -m venv ~/rkllm && source ~/rkllm/bin/activate"
    return _Row("wrong", "pip", "this Python takes packages only into a virtual environment", advice)


def _check_compiler() -> _Row:
    """Compile a line of C++, which also needs the headers of the standard library."""
    named = os.environ.get("CXX", "").split()[:1]
    compiler = next(filter(None, map(shutil.which, named or _COMPILERS)), None)
    advice = f"sudo apt install build-essential. {_WITHOUT}"
    if compiler is None:
        return _Row("wrong", "compiler", "there is no C++ compiler", advice)
    command = [compiler, "-x", "c++", "-fsyntax-only", "-"]
    try:
        done = subprocess.run(command, input=b"#include <vector>\n", capture_output=True, timeout=_TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Row("wrong", "compiler", f"{compiler} does not run: {error}", advice)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[:1]
        return _Row("wrong", "compiler", f"{compiler} does not compile: {''.join(said)}", advice)
    return _Row("ok", "compiler", f"{compiler} compiles")


def _check_memory() -> _Row:
    memory = read_memory(Path("/"))
    if memory is None:
        return _Row("ok", "memory", "unknown")
    cores = os.cpu_count() or 1
    value = f"{memory.available / (1 << 30):.1f} GB free for the compilers of {cores} processors"
    if memory.available >= cores * _COMPILER_BYTES:
        return _Row("ok", "memory", value)
    if memory.available + memory.swap_free < _COMPILER_BYTES:
        return _Row("wrong", "memory", value, f"One takes up to 0.7 GB. {_WITHOUT}")
    fitting = max(1, memory.available // _COMPILER_BYTES)
    return _Row("warn", "memory", value, f"Let fewer run: CMAKE_BUILD_PARALLEL_LEVEL={fitting} pip install .")
