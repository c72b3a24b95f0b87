"""Try a model before llama.cpp reads it in this process, which it ends on some faults of a file, a build or a compiler.

The headers of a GGUF are read in Python and their numbers are compared with its tensors. What passes is used once in a
process of its own (`trial.py`), as it will be used here; if that dies, it is tried without llama.cpp's extra buffers,
and if that dies too, its death becomes an error. What llama.cpp aborts on is in the headers, not in the weights; the
instructions that it executes depend on its build and on the processor. So the result is kept for these.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from ...config.loader import state_folder
from ...core.errors import ModelError
from ...core.file_writes import replace_file
from ...core.private_files import make_folder, read_private
from ...core.programs import describe_exit
from ...core.run_module import run_module
from ...storage.session_records import hash_text
from ..shared.model_files import NO_PROJECTOR, PROJECTOR_HINT, find_parts, find_shipped_model
from .cores import choose_cores, count_threads
from .gguf_header import GgufHeader, read_gguf_header
from .library import describe_build, read_instruction_sets
from .processor import describe_processor, explain_illegal_instruction, find_present_sets

_MAX_LAYERS = 512  # LLAMA_MAX_LAYERS; more end the process
_MAX_NUMBER = 1 << 31
"""llama.cpp keeps sizes in signed integers of 32 bits."""
_MAX_KNOWN = 256
_LAYER = re.compile(r"blk\.(\d+)\.")
_ASSERTION = re.compile(r"[\w.-]+:\d+: GGML_ASSERT.*|GGML_ABORT.*|GGML_ASSERT.*")
"""What llama.cpp writes before it aborts, without the folder that it was compiled in."""
_HINT = "Download the file again, or use another one; llama-cpp-python may also be too old for the model."
_HINTS = {
    -signal.SIGALRM: "It took more than ten minutes: use a smaller model, or copy it to faster storage.",
    -signal.SIGKILL: "The memory was probably too small: use a smaller model, or context_tokens = 2048 in [chat].",
}
"""What to try, by the exit code of the trial."""
_FAULTS = frozenset({-signal.SIGILL, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGABRT})
"""Exit codes with which the trial is repeated without extra buffers."""
_TRIAL = f"{__package__}.trial"
_FOLDER = "loaded-models"
_MAX_RECORD_BYTES = 4096

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineParameters:
    """With what llama.cpp is opened, beside the model; a trial holds for the same ones only.

    Attributes:
        context_tokens: Size of the context window; 0 for the model's own.
        library: Path of another libllama; "" for the one of the package.
        threads: Number of threads; 0 for one on each physical core.
        gpu_layers: Layers that a GPU computes; -1 for all.
    """

    context_tokens: int = 0
    library: str = ""
    threads: int = 0
    gpu_layers: int = 0


@dataclass(frozen=True)
class Trial:
    """How a model ran in a process of its own.

    Attributes:
        extra_buffers: Whether it runs with llama.cpp's extra buffers: weights arranged for the instruction sets of the
            processor. If not, it ran without them, and a prompt may be read more slowly.
        problem: Why it neither answered nor computed an embedding; "" if it did.
    """

    extra_buffers: bool
    problem: str = ""


def try_model(
    path: Path, parameters: EngineParameters, projector: Path | None = None, fitting_tokens: int = 0
) -> Trial:
    """Check a GGUF with its other parts and its projector; what is new is used in another process first.

    What is known belongs to the headers, the build of llama.cpp, the processor and the parameters.

    Args:
        path: The file.
        parameters: With what it will be opened.
        projector: The projector that will be loaded with it; None for none.
        fitting_tokens: Size of the context window for which there is memory now; 0 for that of the parameters. It
            changes from start to start, so a trial holds for all of them.

    Raises:
        ModelError: A header is damaged or contradicts its tensors, or llama.cpp cannot use the files, or ends while it
            uses them.
    """
    headers = _check_headers(path, projector)
    threads = parameters.threads or count_threads(choose_cores())
    parameters = replace(parameters, threads=threads)
    where = [describe_build(parameters.library), describe_processor(), str(parameters)]
    record = state_folder() / _FOLDER / hash_text("\n".join([*headers, *where]))
    trial = _read_record(record)
    if trial is None:
        try:
            fitting = replace(parameters, context_tokens=fitting_tokens or parameters.context_tokens)
            trial = _use_elsewhere(path, fitting, projector)
        except OSError as error:  # no process can be started; it is tried again next time
            log.warning("the trial of %s: %s", path, error)
            return Trial(extra_buffers=True)
        _write_record(record, trial)
    return trial


@cache
def try_build(library: str, threads: int, gpu_layers: int) -> Trial:
    """Try a build of llama.cpp with the small model that ships. Raises ModelError as `try_model`."""
    return try_model(find_shipped_model(), EngineParameters(0, library, threads, gpu_layers))


def identify_build(library: str) -> str:
    """Return a hash of a build of llama.cpp and the processor."""
    return hash_text(f"{describe_build(library)}\n{describe_processor()}")


def _read_record(record: Path) -> Trial | None:
    try:
        document = json.loads(read_private(record, _MAX_RECORD_BYTES))
        return Trial(document["extra_buffers"] is True, str(document["problem"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _write_record(record: Path, trial: Trial) -> None:
    try:
        make_folder(record.parent)
        for stale in sorted(record.parent.iterdir(), key=os.path.getmtime)[:-_MAX_KNOWN]:
            stale.unlink()
        replace_file(record, json.dumps(asdict(trial)).encode(), is_durable=False)
    except OSError as error:  # it is tried again next time
        log.info("the trial of a model is not recorded: %s", error)


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


def _use_elsewhere(path: Path, parameters: EngineParameters, projector: Path | None) -> Trial:
    """Use files in a process of its own, once more without extra buffers if it dies of a fault. Raises ModelError."""
    arguments = [str(path.absolute()), str(projector or NO_PROJECTOR), json.dumps(asdict(parameters))]
    for extra_buffers in (True, False):
        command = run_module(_TRIAL, *arguments, "on" if extra_buffers else "off")
        # without a limit here: the trial ends itself by SIGALRM, and with this process by PR_SET_PDEATHSIG
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode not in _FAULTS:
            break
    if done.returncode:
        raise _explain_death(done.returncode, done.stderr, path, parameters.library, projector)
    outcome = json.loads(done.stdout.splitlines()[-1])
    if "error" in outcome:
        message, hint = outcome["error"]
        raise ModelError(message, hint, path=str(path))
    return Trial(extra_buffers, outcome["problem"])


def _explain_death(code: int, stderr: bytes, path: Path, library: str, projector: Path | None) -> ModelError:
    """Return the error for a trial that did not end by itself or took too long."""
    cause, hint = "", _HINTS.get(code, PROJECTOR_HINT if projector else _HINT)
    if code == -signal.SIGILL:
        used = read_instruction_sets(library)
        cause, hint = explain_illegal_instruction(used, find_present_sets(describe_processor()))
    elif assertion := _ASSERTION.search(stderr.decode("utf-8", errors="replace")):
        cause = assertion[0][:200]
    files = f"it with {projector.name}" if projector else "this file"
    text = f"{path}: llama.cpp {describe_exit(code)} while it loaded {files}{f': {cause}' if cause else ''}."
    return ModelError(text, hint, path=str(path))
