"""What llama.cpp has evaluated of a prompt's beginning goes into a file and comes back at the next start.

The file is llama.cpp's own, tokens included; `beginnings.py` sees to it that only what was written here is read.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from .beginnings import Beginnings

TOKEN_BYTES = 4


class LlamaStates:
    """The files of one engine. Give it the engine itself each time, because only that knows what it holds."""

    def __init__(self, folder: Path, model: Path, engine: Any) -> None:
        self._engine = engine
        self._files = Beginnings(folder, model, describe(engine))

    def load(self, beginning: list[int]) -> bool:
        """Has the engine hold these tokens and nothing else, if there is a file of them."""
        path = self._files.find(beginning)
        if path is None:
            return False
        if read_state(self._engine, path, beginning):
            return True
        self._files.remove(path)
        return False

    def save(self, beginning: list[int]) -> bool:
        """Writes what the engine holds, which is these tokens."""
        import llama_cpp

        size = TOKEN_BYTES * len(beginning) + llama_cpp.llama_state_seq_get_size(self._engine.ctx, 0)
        return self._files.save(beginning, lambda path: write_state(self._engine, path, beginning), size)


def describe(engine: Any) -> str:
    """What a state depends on beside the model: the build of llama.cpp, and the shape of the context.

    The context's size is part of it: some models (Phi-3) turn positions otherwise where it is large.
    """
    import llama_cpp

    package, asked = Path(llama_cpp.__file__), engine.context_params
    build = f"{llama_cpp.__version__} {llama_cpp.llama_version().decode()} {package.stat().st_mtime_ns}"
    shape = [getattr(asked, name) for name in ("flash_attn_type", "type_k", "type_v", "swa_full", "kv_unified")]
    return f"llama.cpp {build} {engine.n_ctx()} {shape}"


def write_state(engine: Any, path: Path, tokens: list[int]) -> bool:
    """Whether all was written; that the last of it found a full disk llama.cpp does not tell."""
    import llama_cpp

    held = (llama_cpp.llama_token * len(tokens))(*tokens)
    size: int = llama_cpp.llama_state_seq_save_file(engine.ctx, os.fsencode(path), 0, held, len(tokens))
    return 0 < size == path.stat().st_size


def read_state(engine: Any, path: Path, tokens: list[int]) -> bool:
    """Whether the engine holds these tokens now; it holds none otherwise."""
    import llama_cpp

    found, count = (llama_cpp.llama_token * len(tokens))(), ctypes.c_size_t()
    engine.forget()
    size = llama_cpp.llama_state_seq_load_file(
        engine.ctx, os.fsencode(path), 0, found, len(tokens), ctypes.byref(count)
    )
    if size and list(found[: count.value]) == tokens:
        engine.hold(tokens)
        return True
    engine.forget()
    return False
