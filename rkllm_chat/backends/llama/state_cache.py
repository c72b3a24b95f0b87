"""Save what llama.cpp has evaluated of a prompt's beginning, and load it at the next start of the program.

The file is llama.cpp's own, tokens included, and a mark at its end; `shared/prompt_cache_files.py` ensures that only
files written here are read.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from ..shared.prompt_cache_files import PromptCacheFiles

_TOKEN_BYTES = 4
_END_MARK = b"complete"
"""Last bytes of a file: with flash attention, llama.cpp 0.3.36 aborts the process on a state that is cut off."""


class LlamaStateCache:
    """The state files of one engine."""

    def __init__(self, folder: Path, model: Path, engine: Any) -> None:
        self._engine = engine
        self._files = PromptCacheFiles(folder, model, describe_engine(engine))

    def load(self, prefix: list[int]) -> bool:
        """Load the state of exactly these tokens into the KV cache; return False if there is no valid file."""
        path = self._files.find(prefix)
        if path is None:
            return False
        if _read_state(self._engine, path, prefix):
            return True
        self._files.remove(path)
        return False

    def save(self, prefix: list[int]) -> bool:
        """Save the KV cache, which must contain exactly these tokens; return whether that succeeded."""
        import llama_cpp

        size = _TOKEN_BYTES * len(prefix) + llama_cpp.llama_state_seq_get_size(self._engine.ctx, 0)
        return self._files.save(prefix, lambda path: _write_state(self._engine, path, prefix), size)


def describe_engine(engine: Any) -> str:
    """Describe what a state depends on besides the model: the build of llama.cpp, and the shape of the context.

    The size of the context is part of it: some models (Phi-3) encode positions differently in a large one.
    """
    import llama_cpp

    package, parameters = Path(llama_cpp.__file__), engine.context_params
    build = f"{llama_cpp.__version__} {llama_cpp.llama_version().decode()} {package.stat().st_mtime_ns}"
    shape = [getattr(parameters, name) for name in ("flash_attn_type", "type_k", "type_v", "swa_full", "kv_unified")]
    return f"llama.cpp {build} {engine.n_ctx()} {shape}"


def _write_state(engine: Any, path: Path, tokens: list[int]) -> bool:
    """Save a state; return whether it was written completely.

    llama.cpp does not report that the disk was full at the end of the file.
    """
    import llama_cpp

    array = (llama_cpp.llama_token * len(tokens))(*tokens)
    size: int = llama_cpp.llama_state_seq_save_file(engine.ctx, os.fsencode(path), 0, array, len(tokens))
    if not 0 < size == path.stat().st_size:
        return False
    with path.open("ab") as file:
        file.write(_END_MARK)
    return True


def _read_state(engine: Any, path: Path, tokens: list[int]) -> bool:
    """Load a state; return whether the KV cache contains these tokens now. Otherwise it is empty."""
    import llama_cpp

    array, count = (llama_cpp.llama_token * len(tokens))(), ctypes.c_size_t()
    engine.clear_kv_cache()
    if not _is_complete(path):
        return False
    size = llama_cpp.llama_state_seq_load_file(
        engine.ctx, os.fsencode(path), 0, array, len(tokens), ctypes.byref(count)
    )
    if size and list(array[: count.value]) == tokens:
        engine.set_cached_tokens(tokens)
        return True
    engine.clear_kv_cache()
    return False


def _is_complete(path: Path) -> bool:
    """Return whether a file ends with the mark of a complete state."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(_END_MARK)))
        return file.read() == _END_MARK
