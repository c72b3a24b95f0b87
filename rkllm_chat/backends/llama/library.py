"""Import llama-cpp-python, with its own libllama or with another build of it, such as one for an NPU or a GPU."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ...core.errors import ModelError
from ...core.run_module import run_module
from ...core.user_paths import expand_home

LIBRARY_NAME = "libllama.so"
_FOLDER_VARIABLE = "LLAMA_CPP_LIB_PATH"  # read by llama-cpp-python when it is imported
_LOAD_S = 60.0
_SPIN_VARIABLE = "GOMP_SPINCOUNT"
_LIBRARIES = ("libggml*", "libllama*", "libmtmd*")
_DEPENDENCIES = ("libggml-base.so", "libggml-cpu.so", "libggml.so")


def find_llama_library(named: str, root: Path = Path("/")) -> Path | None:
    """Return the library that the settings name, a file or its folder; None if it does not exist."""
    path = expand_home(named)
    path = root / path.relative_to(path.anchor) if path.is_absolute() else path
    path = path / LIBRARY_NAME if path.is_dir() else path
    return path.absolute() if path.is_file() else None


def describe_build(named: str) -> str:
    """Return what identifies a build of llama.cpp: path, size and time of its libraries.

    Nothing is imported: a build for another processor may end the process already while it is loaded.

    Args:
        named: The library of the settings; "" for the one of the package.
    """
    library = find_llama_library(named) if named else None
    package = find_spec("llama_cpp")
    folders = {Path((package and package.origin) or "").parent / "lib"}  # its libggml is loaded in any case
    if library or os.environ.get(_FOLDER_VARIABLE):
        folders.add(library.parent if library else Path(os.environ[_FOLDER_VARIABLE]).absolute())
    found = {file for folder in folders for pattern in _LIBRARIES for file in folder.glob(pattern)}
    files = sorted(filter(Path.is_file, found))
    return "\n".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)


def read_instruction_sets(named: str) -> frozenset[str]:
    """Return the instruction sets that a libllama uses, as it names them ("DOTPROD"); empty if it does not load.

    It is loaded in a process of its own: with instructions that the processor lacks it may die.
    """
    command = run_module(__name__, named)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LOAD_S, check=False)
    return frozenset(re.findall(r"(\w+) = 1", done.stdout.decode(errors="replace")))


def import_llama(named: str) -> None:
    """Import llama-cpp-python with the named libllama, or with its own one for "".

    Raises:
        ImportError: llama-cpp-python is not installed.
        ModelError: The library is missing, does not fit llama-cpp-python, or another one is loaded already.
    """
    with _variables(_limit_spinning()):
        _import_llama(named)


def _limit_spinning() -> dict[str, str]:
    """Return what keeps threads that wait for each other from taking a whole time slice; the user's own word counts.

    Such a wait is some microseconds where every thread has a core. Where other programs run, a thread that spins keeps
    the one that it waits for from running: on two cores that were seven times overloaded, two threads wrote 4 tokens/s
    of the small model with the default of libgomp and 58 with 1000 turns; undisturbed, 26 of Qwen2.5 0.5B with either.
    A turn takes longer on some processors: on a newer one (AMD EPYC) two threads on one core took 22 times as long as
    one with 1000 turns, 7 with 200; at a load of 3.5 on two cores, the 0.5B wrote 25 tokens/s and 36 (n = 3). The pause
    of processors other than x86-64 is shorter (not measured).
    """
    if any(name in os.environ for name in (_SPIN_VARIABLE, "OMP_WAIT_POLICY")):
        return {}
    return {_SPIN_VARIABLE: "200" if os.uname().machine == "x86_64" else "20000"}


@contextmanager
def _variables(changed: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that libraries read while they are loaded; programs started later do not get them."""
    inherited = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in inherited.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _import_llama(named: str) -> None:
    if not named:
        import_module("llama_cpp")
        return
    library = find_llama_library(named)
    if library is None:
        raise ModelError(f"llama_library: there is no {LIBRARY_NAME} at {named}.", "Correct llama_library in [expert].")
    try:
        with _variables({_FOLDER_VARIABLE: str(library.parent)}):
            # before the package loads its own libraries of the same names, which would satisfy those of this one
            for dependency in (*(library.with_name(name) for name in _DEPENDENCIES), library):
                if dependency.is_file():
                    ctypes.CDLL(str(dependency))
            module = import_module("llama_cpp.llama_cpp")
    except (OSError, AttributeError, RuntimeError) as error:
        hint = "Build it from the release of llama.cpp that llama-cpp-python contains, as shared libraries."
        raise ModelError(f"{library} does not work with llama-cpp-python: {error}.", hint) from error
    if Path(vars(module)["_base_path"]) != library.parent:  # it was imported before
        raise ModelError(f"{library} cannot be loaded, because another libllama is.", "Restart rkllm-chat.")


if __name__ == "__main__":
    import_llama(sys.argv[1])
    sys.stdout.write(import_module("llama_cpp").llama_print_system_info().decode())
