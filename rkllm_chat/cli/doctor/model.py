"""Check what the chat would use: configuration, RKLLM library, model file, memory, tokenizer and chat template.

Only the RKLLM runtime can read a .rkllm file, so the checks use the name and size of one.
"""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from ...backends import BACKENDS, choose_backend, find_engine
from ...backends.llama.cores import describe_cores, find_big_cores
from ...backends.llama.engine import TEMPLATE_KEY, describe_missing_template, read_model_names
from ...backends.llama.gguf_header import MAGIC, read_gguf_header
from ...backends.llama.library import find_llama_library, read_instruction_sets
from ...backends.llama.processor import (
    AMX,
    REBUILD,
    describe_processor,
    explain_illegal_instruction,
    find_present_sets,
    find_unused_sets,
)
from ...backends.rkllm.abi import LIBRARY_FOLDERS, LIBRARY_NAME, find_library, read_release
from ...backends.rkllm.backend import CONTEXT_TOKENS
from ...backends.rkllm.layouts import LAYOUT_OF_RELEASE
from ...backends.rkllm.model_file import CONFIG_FILE, find_model_template, read_toolkit_release
from ...backends.rkllm.options import name_by_family
from ...backends.rkllm.vision_families import find_encoder
from ...backends.shared.model_files import (
    BEGINNING_BYTES,
    PROJECTOR_HINT,
    SHIPPED_NAME,
    find_mistaken_download,
    find_projector,
    find_shipped_model,
)
from ...backends.shared.prompt_tokens import load_tokenizer
from ...config.files import find_secrets_in_file
from ...core import i18n
from ...core.errors import ChatError, ConfigError, ModelError
from ...prompt.chat_templates import TEMPLATES, choose_template
from ...prompt.jinja_template import InvalidTemplateError, compile_usable_template
from .board import Board, Finding, format_size, ok, untried, warn, wrong
from .machine import find_soc, read_architecture

_MAX_CONTEXT_TOKENS = 16384  # the converter's maximum, a multiple of 32 (RKLLM manual 1.3.0, section 3.1.3)
_CONTEXT_STEP = 32
# Of Qwen3 0.6B and 1.7B: 28 layers, 8 heads of 128, keys and values of two bytes. The file does not show its own.
_CACHE_BYTES_PER_TOKEN = 28 * 8 * 128 * 2 * 2
_DOMAIN_BYTES = 4e9  # about what one IOMMU domain of the NPU spans

_QUANTIZATION = re.compile(r"w[48]a(?:8|16)(?:[_-]?g\d+)?", re.IGNORECASE)
_PLATFORM = re.compile(r"rk3588|rk3576|rk3562|rv1126b", re.IGNORECASE)


def check_configuration(board: Board) -> Iterator[Finding]:
    """Report the configuration files, errors in them, refused settings and secrets that other users can read."""
    if board.config_error:
        yield wrong(board.config_error, "Correct the file; the other checks use the default settings.")
    else:
        yield ok(", ".join(board.config_files) or "no file, default settings")
        for path, key in board.settings.ignored:
            advice = "A folder's file cannot set it: write it to ~/.config/rkllm-chat/config.toml, or pass --config."
            yield warn(f"{path}: {key} is ignored", advice)
        for path in board.config_files if board.is_this_machine else ():
            for key in find_secrets_in_file(path):
                advice = f"Use an environment variable as ${{NAME}}, or restrict access: chmod 600 {path}"
                yield warn(f"{path} contains a secret that other users can read: {key}", advice)


def check_library(board: Board) -> Iterator[Finding]:
    """Report the RKLLM library, its release, and the libomp.so that some of its builds need."""
    if not find_soc(board):
        return
    configured = board.settings.rkllm.library
    library = find_library(str(board.map_path(configured)) if configured else "", board.root)
    if library is None:
        yield _missing_library(configured)
        return
    if mismatch := _find_elf_mismatch(board, library):
        advice = f"Use the {LIBRARY_NAME} of the folder for {mismatch[1]} in rkllm-runtime/Linux/librkllm_api."
        yield wrong(f"{board.unmap_path(library)} is a library for {mismatch[0]}", advice)
        return
    release = read_release(library)
    if release in LAYOUT_OF_RELEASE:
        yield untried(f"{board.unmap_path(library)}, release {release}")
    elif assumed := LAYOUT_OF_RELEASE.get(board.settings.rkllm.layout):
        text = f"{board.unmap_path(library)}: release {release or 'unknown'}, used with layout {assumed} as configured"
        yield warn(text, "It is not verified that this release has this layout.")
    else:
        problem = f"release {release} is not supported" if release else "its release cannot be determined"
        advice = (
            f"Supported: {', '.join(LAYOUT_OF_RELEASE)}. Others are not loaded, because a wrong struct layout crashes."
        )
        yield wrong(f"{board.unmap_path(library)}: {problem}", advice)


def check_other_libraries(board: Board) -> Iterator[Finding]:
    """Report libraries that are installed beside the one in use, where none is configured."""
    if not find_soc(board) or board.settings.rkllm.library:
        return
    places = [board.root / folder / LIBRARY_NAME for folder in LIBRARY_FOLDERS]
    distinct = {path.resolve(): path for path in reversed(places) if path.is_file()}
    used = find_library("", board.root)
    others = [path for real, path in reversed(distinct.items()) if used and real != used.resolve()]
    if others:
        names = ", ".join(f"{board.unmap_path(path)} ({read_release(path) or 'unknown release'})" for path in others)
        advice = "The first one is used. Remove the others, or set [rkllm] library, so that none is taken by mistake."
        yield warn(f"also installed: {names}", advice)


# ELF class and machine (elf.h) -> architecture, as the kernel and the vendor's folders name it.
_ELF_TARGETS = {
    (2, 183): ("64-bit ARM", "aarch64"),
    (1, 40): ("32-bit ARM", "armhf"),
    (2, 62): ("64-bit x86", "x86_64"),
    (1, 3): ("32-bit x86", "i386"),
}
_ELF_OF_KERNEL = {"aarch64": "aarch64", "armv7l": "armhf", "armv8l": "armhf", "x86_64": "x86_64"}


def _find_elf_mismatch(board: Board, library: Path) -> tuple[str, str] | None:
    """Return for what a library was built and for what it should be; None if a program here can load it.

    A 64-bit program loads no 32-bit library, whatever the kernel supports.
    """
    head = board.read_head(library, 20)
    built_for = _ELF_TARGETS.get((head[4], int.from_bytes(head[18:20], "little"))) if head[:4] == b"\x7fELF" else None
    wanted = _ELF_OF_KERNEL.get(read_architecture(board), "")
    if board.is_this_machine and wanted == "aarch64" and sys.maxsize < 2**32:
        wanted = "armhf"
    return (built_for[0], wanted) if built_for and wanted and built_for[1] != wanted else None


def _missing_library(configured: str) -> Finding:
    """Build the line of a missing RKLLM library."""
    advice = (
        f"Copy {LIBRARY_NAME} (airockchip/rknn-llm, rkllm-runtime/Linux/librkllm_api/aarch64) to /usr/lib,"
        ' or set its path: [rkllm] library = "PATH".'
    )
    return wrong(f"{configured} does not exist" if configured else f"no {LIBRARY_NAME}", advice)


@dataclass(frozen=True)
class _ModelFile:
    """The model file of the settings.

    Attributes:
        path: Its path on this machine.
        name: Its name for the report.
        size_bytes: Its size; 0 if it is missing or not a regular file.
        is_for_npu: Whether the RKLLM backend loads it.
    """

    path: Path
    name: str
    size_bytes: int
    is_for_npu: bool


def _find_model(board: Board) -> _ModelFile | None:
    """Return the model file, or None if there is none to check.

    There is none where the engine has no file, and a plugin's engine checks its own.
    """
    model, backend = board.settings.model, choose_backend(board.settings)
    model = "" if model == SHIPPED_NAME else model
    if backend not in BACKENDS or BACKENDS[backend].identify(board.settings).file is None:
        return None
    path = board.map_path(model) if model else find_shipped_model()
    name = board.unmap_path(path) if model else path.name
    try:
        entry = path.stat()
    except OSError:
        return _ModelFile(path, name, 0, backend == "rkllm")
    return _ModelFile(path, name, entry.st_size if stat.S_ISREG(entry.st_mode) else 0, backend == "rkllm")


def check_model(board: Board) -> Iterator[Finding]:
    """Report the model file; a GGUF is tried with the parameters of the chat, unless that is known already."""
    model = _find_model(board)
    for finding in check_model_file(board):
        if not model or finding.state == "wrong":
            yield finding
        elif model.is_for_npu or not board.is_this_machine or find_spec("llama_cpp") is None:
            yield replace(finding, value=untried(finding.value).value)
        else:
            yield _try_gguf(board, finding)


def _try_gguf(board: Board, finding: Finding) -> Finding:
    """Let the model answer in a process of its own, and return what that shows beside what is known of its file."""
    from ...backends.llama.backend import check_llama

    try:
        trial = check_llama(board.settings).trial
    except ModelError as error:
        return wrong(error.message, error.hint)
    if trial.problem:
        return wrong(f"{finding.value}: it neither answers nor computes embeddings: {trial.problem}")
    if trial.extra_buffers:
        return replace(finding, value=f"{finding.value}, answers")
    used = read_instruction_sets(board.settings.llama_library)
    what = AMX if AMX in used else "weights that are rearranged for the processor"
    value = f"{finding.value}, runs only without {what}, with which this build of llama.cpp fails here"
    advice = explain_illegal_instruction(used, find_present_sets(describe_processor()))[1]
    return warn(f"{value}: prompts may be read more slowly", advice)


def check_model_file(board: Board) -> Iterator[Finding]:
    """Report the model file, which is only looked at."""
    model = _find_model(board)
    if not model:
        yield _absent_model_line(board)
        return
    size = f"{model.name}, {format_size(model.size_bytes)}"
    if fault := _find_file_error(board, model):
        yield wrong(*fault)
    elif model.is_for_npu:
        yield _npu_model_line(board, model, size)
    elif not board.settings.model and find_soc(board):
        advice = "To use the NPU, select a .rkllm file: --model PATH, or model in [chat]."
        yield warn(f"{size}: the bundled small model, which runs on the CPU", advice)
    else:
        yield ok(size)


def check_engine(board: Board) -> Iterator[Finding]:
    """Report whether llama.cpp is installed, the libllama that is configured for it, and the cores that it uses."""
    model, configured = _find_model(board), board.settings.llama_library
    if not model or model.is_for_npu:
        return
    if board.is_this_machine and find_spec("llama_cpp") is None:
        advice = "Install it with pip install llama-cpp-python (compiling takes minutes)."
        yield wrong("llama-cpp-python, which runs .gguf files, is not installed", advice)
    if configured and find_llama_library(configured, board.root) is None:
        advice = "Correct llama_library in [expert]; it names libllama.so or its folder."
        yield wrong(f"llama_library {configured} does not exist", advice)
    elif facts := [*map(describe_cores, filter(None, [find_big_cores(board.root)])), *filter(None, [configured])]:
        yield ok(f"llama.cpp, {', '.join(facts)}")


def check_instructions(board: Board) -> Iterator[Finding]:
    """Report instruction sets that would make llama.cpp faster and that its build does not use.

    Whether it runs with those that it uses is shown by the row of the model.
    """
    model = _find_model(board)
    if not board.is_this_machine or not model or model.is_for_npu or find_spec("llama_cpp") is None:
        return
    used = read_instruction_sets(board.settings.llama_library)
    if unused := find_unused_sets(used, find_present_sets(describe_processor(board.root))) if used else []:
        sets = ", ".join(unused)
        yield warn(f"the processor has {sets}; llama.cpp was built without", f"Build it on this machine: {REBUILD}")


def check_media(board: Board) -> Iterator[Finding]:
    """Report the file with which the model sees pictures or hears; nothing if it has none."""
    model = _find_model(board)
    if not model or not model.size_bytes:
        return
    try:
        file = find_media_file(board, model.path)
    except ModelError as error:
        yield wrong(str(error), error.hint)
        return
    if file and not file.is_file():
        yield wrong(f"{board.unmap_path(file)} does not exist", PROJECTOR_HINT)
    elif file:
        value = f"{board.unmap_path(file)}, {format_size(file.stat().st_size)}"
        yield untried(value) if model.is_for_npu or not board.is_this_machine else ok(f"{value}, tried with the model")


def find_media_file(board: Board, model: Path) -> Path | None:
    """Return the file with which a model sees pictures or hears: a projector, or a vision encoder for the NPU.

    Raises:
        ModelError: The vision encoder of the settings cannot be used.
    """
    is_for_npu = choose_backend(board.settings) == "rkllm"
    setting = board.settings.rkllm.encoder if is_for_npu else board.settings.mmproj
    path = str(board.map_path(setting)) if "/" in setting else setting
    if not is_for_npu:
        return find_projector(model, path)
    encoder = find_encoder(model, path)
    return encoder[0] if encoder else None


def _absent_model_line(board: Board) -> Finding:
    """Build the line for settings without a model file."""
    backend = choose_backend(board.settings)
    if backend not in BACKENDS:
        return _plugin_line(board, backend)
    if backend == "rkllm":
        return wrong("none, but the NPU needs a model file", "Select a .rkllm file: --model PATH.")
    return ok(f"{board.settings.model or 'a script'}: no file to check")


def _plugin_line(board: Board, name: str) -> Finding:
    """Build the line of a plugin's engine: what it says itself."""
    if not board.is_this_machine:
        return ok(f"engine {name}, of a plugin: not checked on another machine")
    try:
        engine = find_engine(name)
        facts = [f"engine {name}", engine.identify(board.settings).name, *engine.check(board.settings)]
    except ChatError as error:
        return wrong(error.message, error.hint)
    return ok(", ".join(dict.fromkeys(filter(None, facts))))


def _find_file_error(board: Board, model: _ModelFile) -> tuple[str, str] | None:
    """Return what is wrong with a model file and the advice for it, or None."""
    try:
        head = board.read_head(model.path, BEGINNING_BYTES)
    except OSError as error:
        return f"{model.name}: {error.strerror}", "Check the path and the permissions of the file."
    if not head:
        return f"{model.name}: the file is empty", "Download it again."
    if mistaken := find_mistaken_download(head):
        return f"{model.name}: {mistaken[0]}, not the model", mistaken[1]
    if not model.is_for_npu and not head.startswith(MAGIC):
        return (
            f"{model.name}: neither .rkllm nor a GGUF file (it begins with {repr(head[:4])[1:]})",
            "Select a model file.",
        )
    return None


def _npu_model_line(board: Board, model: _ModelFile, size: str) -> Finding:
    """Build the line of a .rkllm file from its name, where converters usually state chip and quantization."""
    soc = find_soc(board)
    if not soc:
        return wrong(f"{size}: .rkllm runs only on a Rockchip NPU", "Select a .gguf file.")
    platforms, quantization = _read_name(model.path.name)
    stated = read_stated_target(model.path.name)
    size += f", by its name {stated}" if stated else ", its name states no chip"
    if platforms and soc.name not in platforms:
        advice = f"A model runs only on the chip that it was converted for: use one for {soc.name}."
        return wrong(f"{size}, but this is {soc.name}", advice)
    if quantization and quantization not in soc.quantizations:
        advice = f"{soc.name} supports {', '.join(soc.quantizations)}."
        return wrong(f"{size}, but {soc.name} does not support {quantization}", advice)
    if soc.name == "rk3588" and "_g" in quantization:
        advice = (
            "Groups are slower on this chip: about half (g128) to four fifths (g512) of the published speed of w8a8."
        )
        return warn(size, advice)
    return ok(size)


def _read_name(name: str) -> tuple[list[str], str]:
    """Return the chips and the quantization that the name of a .rkllm file states."""
    match = _QUANTIZATION.search(name)
    quantization = re.sub("[_-]?g", "_g", match[0].lower()) if match else ""
    return [platform.lower() for platform in _PLATFORM.findall(name)], quantization


def read_stated_target(name: str) -> str:
    """Return chip and quantization that the name of a .rkllm file states; "" if it states none."""
    platforms, quantization = _read_name(name)
    return " ".join(dict.fromkeys([*platforms, *([quantization] if quantization else [])]))


@dataclass(frozen=True)
class _BadPair:
    """A runtime and a model that are reported not to work together.

    Attributes:
        runtime: Pattern of the library's release.
        toolkit: Pattern of the release that converted the model; "" matches a file that does not name it.
        model: Pattern of the model's file name.
        effect: What happens.
        advice: What to do.
    """

    runtime: str
    toolkit: str
    model: str
    effect: str
    advice: str


_BAD_PAIRS = (
    _BadPair(
        r"1\.2\.3",
        r".*",
        r".*deepseek.*(?:r1|distill).*|.*r1[-_]distill.*",
        "writes only [PAD...], & or ! with some models",
        "Use library 1.2.2 or 1.3.1 (airockchip/rknn-llm#424).",
    ),
    _BadPair(
        r"1\.3\.0",
        r"1\.2\.2",
        r".*",
        "does not recognize the end of a reply",
        "Convert the model with toolkit 1.3.0 or later, or use library 1.2.2 (airockchip/rknn-llm#534).",
    ),
    _BadPair(
        r"1\.3\.0",
        r".*",
        r".*qwen[-_]?3[-._]5(?![\d.]*[bm]).*",
        "takes about 2 MB more memory with every turn of this model",
        "Restart the chat when memory is short (airockchip/rknn-llm#529).",
    ),
)


def check_pair(board: Board) -> Iterator[Finding]:
    """Report the toolkit that converted a model, and a library with which such models are known to fail."""
    model = _find_model(board)
    if not model or not model.is_for_npu or not model.size_bytes or not find_soc(board):
        return
    configured = board.settings.rkllm.library
    library = find_library(str(board.map_path(configured)) if configured else "", board.root)
    toolkit, release = read_toolkit_release(model.path), read_release(library) if library else ""
    name = f"library {release or 'of unknown release'}, model" + (f" of toolkit {toolkit}" if toolkit else "")
    for pair in _BAD_PAIRS:
        values = ((pair.runtime, release), (pair.toolkit, toolkit), (pair.model, model.path.name))
        if all(re.fullmatch(pattern, value, re.IGNORECASE) for pattern, value in values):
            yield warn(f"{name}: this library {pair.effect}", pair.advice)
            return
    if toolkit:
        yield untried(name)


def check_context(board: Board) -> Iterator[Finding]:
    """Compare the requested context with the model's limit, where it is known."""
    model, requested = _find_model(board), board.settings.context_tokens
    if not model or not model.size_bytes:
        return
    if not model.is_for_npu:
        trained_tokens = read_trained_context(model.path)
        if requested > trained_tokens > 0:
            advice = "Beyond its training length, a model writes nonsense: reduce context_tokens."
            yield warn(f"{requested} tokens requested, the model was trained on {trained_tokens}", advice)
        else:
            value = f"{requested} tokens requested" if requested else "the default"
            yield ok(value + (f"; the model was trained on {trained_tokens}" if trained_tokens else ""))
    elif requested > _MAX_CONTEXT_TOKENS:
        advice = f"No model is converted for more than {_MAX_CONTEXT_TOKENS} tokens: set context_tokens in [chat]."
        yield wrong(f"{requested} tokens requested", advice)
    elif requested % _CONTEXT_STEP:
        usable = requested // _CONTEXT_STEP * _CONTEXT_STEP
        yield warn(f"{requested} tokens requested", f"Models have multiples of {_CONTEXT_STEP}: use {usable}.")
    else:
        value = f"{requested} tokens requested" if requested else f"{CONTEXT_TOKENS} tokens, the default"
        yield ok(f"{value}; the file's own limit is known once it is loaded")


def read_trained_context(path: Path) -> int:
    """Return the context that a GGUF was trained on, in tokens; 0 if it is not told."""
    try:
        return read_gguf_header(path).get_number("context_length") or 0
    except ModelError:
        return 0


def check_memory(board: Board) -> Iterator[Finding]:
    """Compare the free memory with the size of the model and an estimate of its context cache."""
    figures = {name: int(kib) * 1024 for name, kib in re.findall(r"(\w+):\s+(\d+) kB", board.read("proc/meminfo"))}
    if "MemTotal" not in figures:
        raise ValueError("/proc/meminfo has no MemTotal")
    total, free = figures["MemTotal"], figures.get("MemAvailable", figures.get("MemFree", 0))
    value = f"{format_size(free)} free of {format_size(total)}"
    model = _find_model(board)
    if not model or not model.size_bytes:
        yield ok(value)
        return
    cache = _CACHE_BYTES_PER_TOKEN * (board.settings.context_tokens or CONTEXT_TOKENS) if model.is_for_npu else 0
    need = model.size_bytes + cache
    value += f"; the model needs about {format_size(need)}"
    if total < model.size_bytes:
        yield wrong(value, "The model does not fit into the memory of this machine: use a smaller one.")
    elif free < need:
        yield warn(value, "End other programs, reduce context_tokens, or use a smaller model.")
    else:
        yield ok(value)


def check_domain(board: Board) -> Iterator[Finding]:
    """Report a model that may exceed one IOMMU address space of the NPU, where loading it would fail."""
    model = _find_model(board)
    if not model or not model.is_for_npu or not find_soc(board) or model.size_bytes <= _DOMAIN_BYTES:
        return
    value = f"{format_size(model.size_bytes)} in domain {board.settings.rkllm.base_domain_id}, which spans about 4 GB"
    advice = (
        'If loading says "failed to malloc npu memory": [rkllm] base_domain_id = 1 (0 to 15), or use a smaller model.'
    )
    yield warn(value, advice)


def check_tokenizer(board: Board) -> Iterator[Finding]:
    """Report whether a tokenizer is available.

    With one, prompts are sent as token ids, and prefixes that were evaluated before are reused.
    """
    model = _find_model(board)
    if not model or not model.is_for_npu:
        return
    file = model.path.with_name("tokenizer.json")
    why = "Without it, prompts are sent as text, and the shared prefix of a long chat may be evaluated again."
    if not file.is_file():
        yield warn("no tokenizer.json next to the model", f"{why} It comes with the original model.")
    elif not board.is_this_machine:
        yield untried(str(board.unmap_path(file)))
    elif find_spec("tokenizers") is None:
        advice = f"pip install tokenizers. {why}"
        yield warn(f"{board.unmap_path(file)}, but the package tokenizers is not installed", advice)
    else:
        yield _try_tokenizer(file, why)


def _try_tokenizer(file: Path, why: str) -> Finding:
    try:
        encode = load_tokenizer(file)
    except ModelError as error:
        return wrong(error.message, error.hint)
    if encode:
        return ok(f"{file}, which the package tokenizers reads")
    return warn(f"{file} puts a blank before every text, so it is not used", why)


def check_template(board: Board) -> Iterator[Finding]:
    """Report the chat template for the NPU, where the runtime's own is disabled, and a GGUF without one."""
    model, options = _find_model(board), board.settings.rkllm
    if model and not model.is_for_npu and not _find_file_error(board, model):
        yield from _check_gguf_template(model)
    if not model or not model.is_for_npu:
        return
    try:
        named = name_by_family(board.settings, model.path)
    except ConfigError as error:
        yield wrong(error.message, error.hint)
        return
    selected = choose_template(options.template, named.name)
    if options.native_tools or options.template == "runtime":
        yield untried("that of the runtime, built into the model")
    elif row := next((name for name, template in TEMPLATES.items() if template is selected), ""):
        by = "the model's name" if named == model.path else named.stem
        why = f"by {by}" if options.template == "auto" else "as set"
        yield untried(f"{row}, {why}")
    elif board.map_path(options.template).is_file():
        yield untried(options.template)
    elif options.template == "auto" and (beside := find_model_template(model.path)):
        yield untried(f"that of {board.unmap_path(beside.path)}")
    else:
        is_configured = options.template != "auto"
        value = f"no template is named {options.template}" if is_configured else "unknown by the model's name"
        rows = ", ".join(TEMPLATES)
        advice = (
            f"Which model is {model.path.name}? Set family in [chat] to its published name, such as qwen2.5-1.5b, or"
            f" put its {CONFIG_FILE} beside it, or set template under [rkllm]: {rows}, a Jinja file, or runtime."
        )
        yield wrong(value, advice)


def _check_gguf_template(model: _ModelFile) -> Iterator[Finding]:
    """Report a GGUF that has no usable chat template; models for embeddings need none."""
    try:
        header = read_gguf_header(model.path)
    except ModelError as error:
        yield wrong(error.message, error.hint)
        return
    if header.get_number("pooling_type") is not None:
        return
    problem = ""
    if source := header.get_text(TEMPLATE_KEY):
        try:
            compile_usable_template(source)
            return
        except InvalidTemplateError as error:
            problem = error.message
        except ModelError as error:  # it exceeds its limits
            yield wrong(error.message, error.hint)
            return
    sentence = describe_missing_template(model.path.name, read_model_names(model.path, header.metadata), problem)
    advice = "Use an instruct model, or convert it again with its chat template."
    yield warn(i18n.load("en")(sentence.key, **sentence.values), advice)
