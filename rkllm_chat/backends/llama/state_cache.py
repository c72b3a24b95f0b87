"""Save what llama.cpp has evaluated of a prompt's beginning, and load it at the next start of the program.

The file is llama.cpp's own, tokens included, and a mark at its end; `shared/prompt_cache_files.py` ensures that only
files written here are read.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any

from ..shared.prompt_cache_files import PromptCacheFiles

_TOKEN_BYTES = 4
_ASSUMED_BYTES_PER_S = 200e6
"""Speed of writing and of reading a state, until one is measured; here 270 to 380 MB/s, hash included."""
_MIN_MEASURED_BYTES = 1 << 20
_MIN_SAVED_S = 0.1
"""A conversation that is evaluated in less time is not worth a file."""
_END_MARK = b"complete"
"""Last bytes of a file: with flash attention, llama.cpp 0.3.36 aborts the process on a state that is cut off."""


class LlamaStateCache:
    """The state files of one engine: one for each beginning of prompts, and one for each conversation in its folder.

    Attributes:
        bytes_per_s: Speed of writing and reading files, hashes included, as measured last.
    """

    def __init__(self, folder: Path, model: Path, engine: Any) -> None:
        self._engine = engine
        self._model, self._description = model, describe_engine(engine)
        self._files = PromptCacheFiles(folder, model, self._description)
        self.bytes_per_s = _ASSUMED_BYTES_PER_S

    def load(self, prefix: list[int]) -> bool:
        """Load the state of exactly these tokens into the KV cache; return False if there is no valid file."""
        started_at = time.monotonic()
        path = self._files.find(prefix)
        return path is not None and self._read(self._files, path, prefix, started_at)

    def load_conversation(self, folder: Path, prompt: list[int], least: int) -> bool:
        """Load what a folder has of a prompt into the KV cache, if it has at least so many tokens of it."""
        started_at, files = time.monotonic(), self._find_conversation(folder)
        path, length = files.find_longest(prompt)
        return path is not None and length >= least and self._read(files, path, prompt[:length], started_at)

    def save(self, prefix: list[int]) -> bool:
        """Save the KV cache, which must contain exactly these tokens; return whether that succeeded."""
        return self._write(self._files, prefix)

    def save_conversation(self, folder: Path, prefix: list[int], evaluation_s: float) -> bool:
        """Save the KV cache, which must contain exactly these tokens, if that is worth it.

        Args:
            folder: The folder of the conversation; it has one file.
            prefix: The tokens.
            evaluation_s: How long their evaluation takes that the file saves.

        Returns:
            Whether the folder has them now.
        """
        files = self._find_conversation(folder)
        needed_s = 2 * self.measure_size(prefix) / self.bytes_per_s  # it is written, and read again
        if evaluation_s < max(_MIN_SAVED_S, needed_s):
            return False
        return files.find(prefix) is not None or self._write(files, prefix)

    def measure_size(self, prefix: list[int]) -> int:
        """Return the size of the file for what is in the KV cache, in bytes."""
        import llama_cpp

        return int(_TOKEN_BYTES * len(prefix) + llama_cpp.llama_state_seq_get_size(self._engine.ctx, 0))

    def _find_conversation(self, folder: Path) -> PromptCacheFiles:
        return PromptCacheFiles(folder, self._model, self._description, max_files=1)

    def _read(self, files: PromptCacheFiles, path: Path, prefix: list[int], started_at: float) -> bool:
        size = path.stat().st_size
        if _read_state(self._engine, path, prefix):
            self._record_speed(size, started_at)
            return True
        files.remove(path)
        return False

    def _write(self, files: PromptCacheFiles, prefix: list[int]) -> bool:
        started_at, size = time.monotonic(), self.measure_size(prefix)
        is_written = files.save(prefix, lambda path: _write_state(self._engine, path, prefix), size)
        if is_written:
            self._record_speed(size, started_at)
        return is_written

    def _record_speed(self, size: int, started_at: float) -> None:
        seconds = time.monotonic() - started_at
        if size >= _MIN_MEASURED_BYTES and seconds > 0:
            self.bytes_per_s = size / seconds


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
    mark_complete(path)
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


def mark_complete(path: Path, data: bytes | memoryview = b"") -> None:
    """Write the mark of a complete state at the end of a file, behind more data of it. Raises OSError."""
    with path.open("ab") as file:
        file.write(data)
        file.write(_END_MARK)


def read_complete(path: Path) -> bytes:
    """Return the data of a file before the mark of a complete state; nothing without a mark, or without the file."""
    try:
        data = path.read_bytes()
    except OSError:  # another program has just removed it, to stay within the limits
        return b""
    return data.removesuffix(_END_MARK) if data.endswith(_END_MARK) else b""


def _is_complete(path: Path) -> bool:
    """Return whether a file ends with the mark of a complete state."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(_END_MARK)))
        return file.read() == _END_MARK
