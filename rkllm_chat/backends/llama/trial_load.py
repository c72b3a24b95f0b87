"""Check a GGUF before llama.cpp reads it in this process, which it ends on some faults of a header.

The header is read in Python and its numbers are compared with its tensors. What passes is used once in a process of
its own (`trial.py`); its death becomes an error, also where llama.cpp was built for another processor. The headers that
have passed together are known from then on: what makes llama.cpp abort is there, not in the weights.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
from importlib.metadata import distribution
from pathlib import Path

from ...core.errors import ModelError
from ...core.private_files import make_folder, open_private
from ...core.programs import describe_exit
from ...core.run_module import run_module
from ...storage.session_records import hash_text
from ..shared.model_files import NO_PROJECTOR, PROJECTOR_HINT, find_parts
from .gguf_header import GgufHeader, read_gguf_header

_MAX_LAYERS = 512  # LLAMA_MAX_LAYERS; more end the process
_MAX_NUMBER = 1 << 31
"""llama.cpp keeps sizes in signed integers of 32 bits."""
_MAX_KNOWN = 256
_LAYER = re.compile(r"blk\.(\d+)\.")
_ASSERTION = re.compile(r"[\w.-]+:\d+: GGML_ASSERT.*|GGML_ABORT.*|GGML_ASSERT.*")
"""What llama.cpp writes before it aborts, without the folder that it was compiled in."""
_HINT = "Download the file again, or use another one; llama-cpp-python may also be too old for the model."
_HINTS = {
    -signal.SIGILL: "llama.cpp was built with instructions that do not work here. Build it without them: CMAKE_ARGS="
    "-DGGML_NATIVE=OFF pip install --force-reinstall --no-cache-dir --no-deps llama-cpp-python",
    -signal.SIGALRM: "It took more than ten minutes: use a smaller model, or copy it to faster storage.",
    -signal.SIGKILL: "The memory was probably too small: use a smaller model, or context_tokens = 2048 in [chat].",
}
"""What to try, by the exit code of the trial."""
_TRIAL = f"{__package__}.trial"

log = logging.getLogger(__name__)


def check_model_file(path: Path, context_tokens: int, library: str, known: Path, projector: Path | None) -> None:
    """Check a GGUF with its other parts and its projector; with a new header they are used in another process first.

    Args:
        path: The file.
        context_tokens: Size of the context window that will be used; 0 for the model's own.
        library: Path of another libllama; "" for the one of the package.
        known: Folder that names what has passed.
        projector: The projector that will be loaded with it; None for none.

    Raises:
        ModelError: A header is damaged or contradicts its tensors, or llama.cpp ends while it uses the files.
    """
    package = distribution("llama-cpp-python")
    installed = Path(str(package.locate_file("llama_cpp"))).stat().st_mtime_ns  # builds differ in instructions
    engine = f"{package.version} {installed} {library} {context_tokens}"
    passed = known / hash_text(" ".join([*_check_headers(path, projector), engine]))
    if passed.exists():
        return
    try:
        _use_elsewhere(path, context_tokens, library, projector)
        make_folder(known)
        for stale in sorted(known.iterdir(), key=os.path.getmtime)[:-_MAX_KNOWN]:
            stale.unlink()
        os.close(open_private(passed))
    except OSError as error:  # it is tried again next time
        log.warning("the trial of %s: %s", path, error)


def _check_headers(path: Path, projector: Path | None) -> list[str]:
    """Check the headers of the files; return the size and the beginning of each, as texts."""
    header = read_gguf_header(path)
    files = [path, *(find_parts(path) if header.metadata.get("split.count") else ())]
    read = {file: header if file == path else read_gguf_header(file) for file in files}
    if projector:
        read[projector] = read_gguf_header(projector, PROJECTOR_HINT)
    for file, header in read.items():
        size, least = file.stat().st_size, header.least_bytes
        gap = f"it is incomplete: {size / 1e6:,.0f} MB of at least {least / 1e6:,.0f} MB" if size <= least else ""
        if problem := gap or find_contradiction(header):
            hint = PROJECTOR_HINT if file == projector else _HINT
            raise ModelError(f"{file}: damaged GGUF: {problem}.", hint, path=str(file))
    return [f"{file.stat().st_size} {header.digest}" for file, header in read.items()]


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


def _use_elsewhere(path: Path, context_tokens: int, library: str, projector: Path | None) -> None:
    """Use files in a process of its own. Raises ModelError if that ends by itself or takes too long."""
    command = run_module(_TRIAL, str(path.absolute()), str(context_tokens), library, str(projector or NO_PROJECTOR))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        cause = _ASSERTION.search(done.stderr.decode("utf-8", errors="replace"))
        said = f": {cause[0][:200]}" if cause else ""
        files = f"it with {projector.name}" if projector else "this file"
        text = f"{path}: llama.cpp {describe_exit(done.returncode)} while it loaded {files}{said}."
        raise ModelError(text, _HINTS.get(done.returncode, PROJECTOR_HINT if projector else _HINT), path=str(path))
