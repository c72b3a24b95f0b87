"""Checks of what runs on the board: configuration, library, model file, memory, tokenizer, the servers' programs.

A .rkllm file cannot be read by anybody but the runtime, so what is said of one comes from its name and its size.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ..backends import choose
from ..backends.rkllm import CONTEXT_TOKENS
from ..backends.rkllm_abi import LIBRARY, PLACES, find_library, read_release
from ..backends.rkllm_layouts import RELEASES
from ..backends.rkllm_options import read_source
from ..families import AUTO, find_family
from ..places import find_exposed
from ..templates import TEMPLATES, choose_template
from .board import Board, Line, size_text
from .machine import find_soc

GGUF_MAGIC = b"GGUF"
# What is downloaded in place of a model when it goes wrong.
POINTER = b"version https://git-lfs"
PAGES = (b"<!doctype", b"<html")

MOST_CONTEXT = 16384  # of the converter, and a multiple of 32 (RKLLM manual 1.3.0, section 3.1.3)
CONTEXT_STEP = 32
# Of Qwen3 0.6B and 1.7B: 28 layers, 8 heads of 128, keys and values of two bytes. The file does not say its own.
CACHE_BYTES_PER_TOKEN = 28 * 8 * 128 * 2 * 2
DOMAIN_BYTES = 4e9  # about what one IOMMU domain of the NPU spans

QUANTIZATION = re.compile(r"w[48]a(?:8|16)(?:[_-]?g\d+)?", re.IGNORECASE)
PLATFORM = re.compile(r"rk3588|rk3576|rk3562|rv1126b", re.IGNORECASE)


def check_configuration(board: Board) -> Iterator[Line]:
    if board.trouble:
        yield Line("configuration", "wrong", board.trouble, "The rest is looked at as if there were no configuration.")
    else:
        yield Line("configuration", "ok", ", ".join(board.found) or "no file: everything by default")
        for path in board.found if board.is_here else ():
            for key in find_exposed(path):
                advice = f"Write ${{NAME}} for an environment variable, or close the file: chmod 600 {path}"
                yield Line("configuration", "look", f"{path} holds a secret that others can read: {key}", advice)


def check_library(board: Board) -> Iterator[Line]:
    """The runtime, its release, and the libomp.so that some builds of it need."""
    if not find_soc(board):
        return
    named = board.settings.rkllm.library
    library = find_library(str(board.place(named)) if named else "", board.root)
    if library is None:
        yield missing_library(named)
        return
    release = read_release(library)
    if release in RELEASES:
        yield Line("library", "ok", f"{board.show(library)}, release {release}")
    else:
        says = f"release {release} is not known here" if release else "it does not name its release"
        advice = f"Known are {', '.join(RELEASES)}. A wrong layout crashes, so others are not used."
        yield Line("library", "wrong", f"{board.show(library)}: {says}", advice)
    if names_libomp(library) and not find_libomp(board, library):
        advice = f"If it does not load: put the libomp.so of an aarch64 cross toolchain beside {LIBRARY}."
        yield Line("libomp", "look", f"{LIBRARY} names libomp.so, which is in none of the usual places", advice)


def missing_library(named: str) -> Line:
    advice = (
        f"Copy {LIBRARY} (airockchip/rknn-llm, rkllm-runtime/Linux/librkllm_api/aarch64) to /usr/lib,"
        ' or name it: [rkllm] library = "PATH".'
    )
    return Line("library", "wrong", f"{named} is not there" if named else f"no {LIBRARY}", advice)


def names_libomp(library: Path) -> bool:
    """Whether the file holds the name of libomp.so, as a library that needs it does."""
    with library.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(b"libomp.so") >= 0


def find_libomp(board: Board, library: Path) -> bool:
    """By its very name: the libomp.so.5 of a distribution is another to the loader."""
    folders = [library.parent, *(board.root / place for place in PLACES)]
    return any((folder / "libomp.so").exists() for folder in folders)


@dataclass(frozen=True)
class ModelFile:
    """The model of the settings. `name` is how it is shown; `size_bytes` is 0 where it is no plain file."""

    path: Path
    name: str
    size_bytes: int
    is_for_npu: bool


def find_model(board: Board) -> ModelFile | None:
    """The model's file; None where there is none to look at: a script, a model behind a URL, an NPU without one."""
    from ..backends.llama import find_shipped_model

    model, backend = board.settings.model, choose(board.settings)
    if "://" in model or backend == "scripted" or (backend == "rkllm" and not model):
        return None
    path = board.place(model) if model else find_shipped_model()
    name = board.show(path) if model else path.name
    try:
        entry = path.stat()
    except OSError:
        return ModelFile(path, name, 0, backend == "rkllm")
    return ModelFile(path, name, entry.st_size if stat.S_ISREG(entry.st_mode) else 0, backend == "rkllm")


def check_model(board: Board) -> Iterator[Line]:
    model = find_model(board)
    if not model:
        yield absent_model_line(board)
        return
    size = f"{model.name}, {size_text(model.size_bytes)}"
    if fault := fault_of_file(board, model):
        yield Line("model", "wrong", *fault)
    elif model.is_for_npu:
        yield npu_model_line(board, model, size)
    elif not board.settings.model and find_soc(board):
        advice = "For the NPU give a .rkllm file: --model PATH, or model in [chat]."
        yield Line("model", "look", f"{size}: the small one that ships, which runs on the CPU", advice)
    else:
        yield Line("model", "ok", size)
    if not model.is_for_npu and board.is_here and find_spec("llama_cpp") is None:
        advice = "Install it with: pip install llama-cpp-python (it is compiled, and takes minutes)."
        yield Line("engine", "wrong", "llama-cpp-python, which runs .gguf files, is not installed", advice)


def absent_model_line(board: Board) -> Line:
    if choose(board.settings) == "rkllm":
        return Line("model", "wrong", "none, and the NPU needs one of its own", "Name a .rkllm file: --model PATH.")
    return Line("model", "ok", f"{board.settings.model or 'a script'}: no file to look at")


def fault_of_file(board: Board, model: ModelFile) -> tuple[str, str] | None:
    """What is wrong with the file itself, and what to do."""
    try:
        head = board.read_head(model.path, 64)
    except OSError as error:
        return f"{model.name}: {error.strerror}", "Is the path right, and may this user read it?"
    if not head:
        return f"{model.name}: the file is empty", "Was it downloaded to its end?"
    if head.startswith(POINTER):
        return f"{model.name}: a Git LFS pointer, not the model", "Fetch the file itself: git lfs pull."
    if head.lstrip().lower().startswith(PAGES):
        return f"{model.name}: a web page, not the model", "Download the file itself."
    if not model.is_for_npu and not head.startswith(GGUF_MAGIC):
        return f"{model.name}: neither .rkllm nor a GGUF file (it begins with {head[:4]!r})", "Give a model file."
    return None


def npu_model_line(board: Board, model: ModelFile, size: str) -> Line:
    """A .rkllm file by its name, which is all that can be known of it; names are a habit, not a rule."""
    soc = find_soc(board)
    if not soc:
        return Line("model", "wrong", f"{size}: .rkllm runs on a Rockchip NPU only", "Give a .gguf file here.")
    platforms = [found.lower() for found in PLATFORM.findall(model.path.name)]
    found = QUANTIZATION.search(model.path.name)
    quantization = re.sub("[_-]?g", "_g", found[0].lower()) if found else ""
    said = " ".join(dict.fromkeys([*platforms, *([quantization] if quantization else [])]))
    size += f", by its name {said}" if said else ", its name does not say for which chip"
    if platforms and soc.name not in platforms:
        advice = f"A model runs on the chip it was converted for: take one for {soc.name}."
        return Line("model", "wrong", f"{size}, but this is {soc.name}", advice)
    if quantization and quantization not in soc.quantizations:
        advice = f"{soc.name} runs {', '.join(soc.quantizations)}."
        return Line("model", "wrong", f"{size}, but {soc.name} cannot run {quantization}", advice)
    if soc.name == "rk3588" and "_g" in quantization:
        advice = "Groups cost speed here: published are about half (g128) to four fifths (g512) of plain w8a8."
        return Line("model", "look", size, advice)
    return Line("model", "ok", size)


def check_context(board: Board) -> Iterator[Line]:
    """The context asked for against what the file allows, as far as that can be known."""
    model, asked = find_model(board), board.settings.context_tokens
    if not model or not model.size_bytes:
        return
    if not model.is_for_npu:
        trained = read_number(board.read_head(model.path), "context_length")
        if asked > trained > 0:
            advice = "Beyond what it was trained on, a model writes nonsense: ask for less."
            yield Line("context", "look", f"{asked} tokens asked for, the model has {trained}", advice)
        else:
            value = f"{asked} tokens asked for" if asked else "the default"
            yield Line("context", "ok", value + (f"; the model has {trained}" if trained else ""))
    elif asked > MOST_CONTEXT:
        advice = f"No model is converted for more than {MOST_CONTEXT} tokens: set context_tokens in [chat]."
        yield Line("context", "wrong", f"{asked} tokens asked for", advice)
    elif asked % CONTEXT_STEP:
        advice = f"Models are converted for multiples of {CONTEXT_STEP}: try {asked // CONTEXT_STEP * CONTEXT_STEP}."
        yield Line("context", "look", f"{asked} tokens asked for", advice)
    else:
        value = f"{asked} tokens asked for" if asked else f"{CONTEXT_TOKENS} tokens, the default"
        yield Line("context", "ok", f"{value}; the file's own limit shows when it is loaded")


def read_number(head: bytes, key: str) -> int:
    """A whole number from the beginning of a GGUF, by the end of its key; 0 where it is not there.

    Behind a key stand its type, 4 for 32 bits and 10 for 64, and the value, little-endian (ggml's gguf.md, version 3).
    """
    found = re.search(rb"\.%b(\x04\0{3}.{4}|\x0a\0{3}.{8})" % re.escape(key.encode()), head, re.DOTALL)
    return int.from_bytes(found[1][4:], "little") if found else 0


def check_memory(board: Board) -> Iterator[Line]:
    """What is free against the file and a guess of what the context takes."""
    figures = {name: int(kib) * 1024 for name, kib in re.findall(r"(\w+):\s+(\d+) kB", board.read("proc/meminfo"))}
    if "MemTotal" not in figures:
        raise ValueError("/proc/meminfo does not say MemTotal")
    total, free = figures["MemTotal"], figures.get("MemAvailable", figures.get("MemFree", 0))
    value = f"{size_text(free)} free of {size_text(total)}"
    model = find_model(board)
    if not model or not model.size_bytes:
        yield Line("memory", "ok", value)
        return
    cache = CACHE_BYTES_PER_TOKEN * (board.settings.context_tokens or CONTEXT_TOKENS) if model.is_for_npu else 0
    need = model.size_bytes + cache
    value += f"; the model needs about {size_text(need)}"
    if total < model.size_bytes:
        yield Line("memory", "wrong", value, "This model does not fit into this machine: take a smaller one.")
    elif free < need:
        yield Line("memory", "look", value, "End other programs, ask for less context, or take a smaller model.")
    else:
        yield Line("memory", "ok", value)


def check_domain(board: Board) -> Iterator[Line]:
    """Only a large model meets the limit of one address space of the NPU, and only on loading does it show."""
    model = find_model(board)
    if not model or not model.is_for_npu or not find_soc(board) or model.size_bytes <= DOMAIN_BYTES:
        return
    value = f"{size_text(model.size_bytes)} in domain {board.settings.rkllm.base_domain_id}, which spans about 4 GB"
    advice = 'If loading says "failed to malloc npu memory": [rkllm] base_domain_id = 1 (0 to 15), or a smaller model.'
    yield Line("domain", "look", value, advice)


def check_tokenizer(board: Board) -> Iterator[Line]:
    """With a tokenizer the prompt is sent as token ids, so that what was evaluated before is used again."""
    model = find_model(board)
    if not model or not model.is_for_npu:
        return
    file = model.path.with_name("tokenizer.json")
    why = "Without it prompts are sent as text: it runs, but what a long talk has in common may be evaluated anew."
    if not file.is_file():
        yield Line(
            "tokenizer", "look", "no tokenizer.json beside the model", f"{why} It comes with the original model."
        )
    elif not board.is_here:
        yield Line("tokenizer", "ok", f"{board.show(file)}; the package tokenizers of that machine was not asked for")
    elif find_spec("tokenizers") is None:
        advice = f"pip install tokenizers. {why}"
        yield Line("tokenizer", "look", f"{board.show(file)}, but the package tokenizers is not installed", advice)
    else:
        yield Line("tokenizer", "ok", f"{board.show(file)}, and the package tokenizers")


def check_template(board: Board) -> Iterator[Line]:
    """How the prompt is written for the NPU, where the runtime's own template is switched off."""
    model, options = find_model(board), board.settings.rkllm
    if not model or not model.is_for_npu:
        return
    chosen = choose_template(options.template, model.path.name)
    if options.native_tools or options.template == "runtime":
        yield Line("template", "ok", "the model's own, known to the runtime alone")
    elif row := next((name for name, template in TEMPLATES.items() if template is chosen), ""):
        why = "by the model's name" if options.template == "auto" else "as set"
        yield Line("template", "ok", f"{row}, {why}")
    elif board.place(options.template).is_file():
        yield Line("template", "ok", options.template)
    else:
        named = options.template != "auto"
        value = f"there is none called {options.template}" if named else "the model's name does not tell it"
        advice = f"Set template under [rkllm]: {', '.join(TEMPLATES)}, a Jinja file, or runtime."
        yield Line("template", "wrong", value, advice)


def check_calls(board: Board) -> Iterator[Line]:
    """How a model of the NPU is asked for its calls. What a GGUF is asked for depends on what is in it, too."""
    model, options = find_model(board), board.settings.rkllm
    if not model or not model.is_for_npu:
        return
    source = str(board.place(options.template)) if options.template else ""
    family = find_family([model.path.stem], read_source(source))
    asked = board.settings.tool_format
    how = f"{family.asks}, by the family {family.name}" if asked == AUTO else f"{asked}, as set"
    yield Line("calls", "ok", "in the model's own way" if options.native_tools else f"asked for as {how}")
