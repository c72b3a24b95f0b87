"""Check a GGUF before llama.cpp reads it in this process, which it ends on some faults of a header.

The header is read in Python and its numbers are compared with its tensors. What passes is loaded once in a process of
its own, with one token evaluated; its death becomes an error, also where llama.cpp was built for another processor. A
header that has passed is known from then on: what makes llama.cpp abort stands there, not in the weights.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path

from ...core.errors import ModelError
from ...core.private_files import make_folder, open_private
from ...core.programs import describe_exit
from ...core.run_module import run_module
from ...storage.session_records import hash_text
from .gguf_header import GgufHeader, read_gguf_header

_MAX_LAYERS = 512  # LLAMA_MAX_LAYERS; more end the process
_MAX_NUMBER = 1 << 31
"""llama.cpp keeps sizes in signed integers of 32 bits."""
_TRIAL_S = 600.0
"""A model of 8 GB is read from a slow card at 15 MB/s."""
_MAX_KNOWN = 256
_LAYER = re.compile(r"blk\.(\d+)\.")
_ASSERTION = re.compile(r"[\w.-]+:\d+: GGML_ASSERT.*|GGML_ABORT.*|GGML_ASSERT.*")
"""What llama.cpp writes before it aborts, without the folder that it was compiled in."""
_HINT = "Download the file again, or use another one; llama-cpp-python may also be too old for the model."
_HINTS = {
    -signal.SIGILL: "llama.cpp was built with instructions that do not work here. Build it without them: CMAKE_ARGS="
    "-DGGML_NATIVE=OFF pip install --force-reinstall --no-cache-dir --no-deps llama-cpp-python",
    -signal.SIGKILL: "The memory was probably too small: use a smaller model, or context_tokens = 2048 in [chat].",
}
"""What to try, by the exit code of the trial."""

log = logging.getLogger(__name__)


def check_model_file(path: Path, context_tokens: int, library: str, known: Path) -> None:
    """Check a GGUF; one whose header is new is loaded in a process of its own first.

    Args:
        path: The file.
        context_tokens: Size of the context window that will be used; 0 for the model's own.
        library: Path of another libllama; "" for the one of the package.
        known: Folder that names what has passed.

    Raises:
        ModelError: The header is damaged or contradicts its tensors, or llama.cpp ends while it loads the file.
    """
    header = read_gguf_header(path)
    if problem := find_contradiction(header):
        raise ModelError(f"{path}: damaged GGUF: {problem}.", _HINT, path=str(path))
    package = distribution("llama-cpp-python")
    installed = Path(str(package.locate_file("llama_cpp"))).stat().st_mtime_ns  # builds differ in instructions
    engine = f"{package.version} {installed} {library} {context_tokens} {path.stat().st_size}"
    passed = known / hash_text(f"{header.digest} {engine}")
    if passed.exists():
        return
    _load_elsewhere(path, context_tokens, library)
    try:
        make_folder(known)
        for stale in sorted(known.iterdir(), key=os.path.getmtime)[:-_MAX_KNOWN]:
            stale.unlink()
        os.close(open_private(passed))
    except OSError as error:  # it is loaded twice again next time
        log.warning("%s: %s", known, error.strerror)


def find_contradiction(header: GgufHeader) -> str:
    """Return which number of a header cannot be right; "" if none is known to be wrong."""
    own = f"{header.get_text('general.architecture')}."
    for key, value in header.metadata.items():
        if key.startswith(own) and isinstance(value, int) and value >= _MAX_NUMBER:
            return f"its {key.removeprefix(own)} is {value}"
    layers = header.get_number("block_count")
    named = {int(match[1]) for name in header.tensors if (match := _LAYER.match(name))}
    if layers is not None and not 0 < layers <= _MAX_LAYERS:
        return f"it claims {layers} layers"
    if layers is not None and named and not header.metadata.get("split.count") and layers > max(named) + 1:
        return f"it claims {layers} layers and has tensors of {max(named) + 1}"
    width, heads = header.get_number("embedding_length"), header.get_number("attention.head_count")
    if width is not None and not 0 < width < 1 << 24:
        return f"it claims embeddings of {width} numbers"
    has_own_length = header.get_number("attention.key_length") is not None
    if width and heads and not has_own_length and (heads > width or width % heads):
        return f"it claims {heads} heads for embeddings of {width} numbers"
    return ""


def _load_elsewhere(path: Path, context_tokens: int, library: str) -> None:
    """Load a file in a process of its own. Raises ModelError if that ends by itself or takes too long."""
    command = run_module(__name__, str(path.absolute()), str(context_tokens), library)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_S, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError(f"{path}: llama.cpp did not load it within {_TRIAL_S:g} s.", _HINT, path=str(path)) from None
    except OSError as error:
        log.warning("the trial of %s did not start: %s", path, error.strerror)
        return
    if done.returncode:
        cause = _ASSERTION.search(done.stderr.decode("utf-8", errors="replace"))
        said = f": {cause[0][:200]}" if cause else ""
        text = f"{path}: llama.cpp {describe_exit(done.returncode)} while it loaded this file{said}."
        raise ModelError(text, _HINTS.get(done.returncode, _HINT), path=str(path))


def main(path: str, context_tokens: str, library: str) -> None:
    """Load a file and evaluate one token; what raises an exception does so in the other process, too."""
    _end_with_parent()
    with suppress(Exception):
        from .engine import has_kv_cache, load_engine

        engine = load_engine(Path(path), int(context_tokens), library=library)
        if has_kv_cache(engine):
            engine.eval([max(0, engine.token_bos())])
    os._exit(0)  # nothing of the library has to be put in order


def _end_with_parent() -> None:
    """Leave no core dump, and end with the process that waits for this one (Linux)."""
    import ctypes
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    main(*sys.argv[1:])
