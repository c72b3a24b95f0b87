"""Import llama-cpp-python, with its own libllama or with another build of it, such as one for an NPU or a GPU."""

from __future__ import annotations

import ctypes
import os
from importlib import import_module
from pathlib import Path

from ...core.errors import ModelError
from ...core.user_paths import expand_home

LIBRARY_NAME = "libllama.so"
_FOLDER_VARIABLE = "LLAMA_CPP_LIB_PATH"  # read by llama-cpp-python when it is imported
_DEPENDENCIES = ("libggml-base.so", "libggml-cpu.so", "libggml.so")


def find_llama_library(named: str, root: Path = Path("/")) -> Path | None:
    """Return the library that the settings name, a file or its folder; None if it does not exist."""
    path = expand_home(named)
    path = root / path.relative_to(path.anchor) if path.is_absolute() else path
    path = path / LIBRARY_NAME if path.is_dir() else path
    return path.absolute() if path.is_file() else None


def import_llama(named: str) -> None:
    """Import llama-cpp-python with the named libllama, or with its own one for "".

    Raises:
        ImportError: llama-cpp-python is not installed.
        ModelError: The library is missing, does not fit llama-cpp-python, or another one is loaded already.
    """
    if not named:
        import_module("llama_cpp")
        return
    library = find_llama_library(named)
    if library is None:
        raise ModelError(f"llama_library: there is no {LIBRARY_NAME} at {named}.", "Correct llama_library in [chat].")
    inherited = os.environ.get(_FOLDER_VARIABLE)
    os.environ[_FOLDER_VARIABLE] = str(library.parent)
    try:
        # before the package loads its own libraries of the same names, which would satisfy those of this one
        for dependency in (*(library.with_name(name) for name in _DEPENDENCIES), library):
            if dependency.is_file():
                ctypes.CDLL(str(dependency))
        module = import_module("llama_cpp.llama_cpp")
    except (OSError, AttributeError, RuntimeError) as error:
        hint = "Build it from the release of llama.cpp that llama-cpp-python contains, as shared libraries."
        raise ModelError(f"{library} does not work with llama-cpp-python: {error}.", hint) from error
    finally:
        if inherited is None:
            del os.environ[_FOLDER_VARIABLE]
        else:
            os.environ[_FOLDER_VARIABLE] = inherited
    if Path(vars(module)["_base_path"]) != library.parent:  # it was imported before
        raise ModelError(f"{library} cannot be loaded, because another libllama is.", "Restart rkllm-chat.")
