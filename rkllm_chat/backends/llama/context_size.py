"""Choose the size of a context window that fits into the free memory."""

from __future__ import annotations

import logging
import resource
from pathlib import Path

from ...config.settings import Settings
from ...core.events import Sentence
from ...core.hardware import read_memory
from .engine import choose_context
from .gguf_header import GgufHeader, read_gguf_header

_STEP_TOKENS = 1024
_MIN_TOKENS = 2048
"""A context window is not made smaller than this: llama.cpp says what is missing then."""
_USED_FRACTION = 3 / 4
"""Share of the free memory that a context may take; buffers for evaluation and other programs need some, too."""
_NUMBER_BYTES = 2
_DEVIATING_KEYS = ("attention.sliding_window", "attention.kv_lora_rank", "ssm.state_size", "ssm.inner_size")
"""Metadata of models whose KV cache is smaller than that of plain attention."""

log = logging.getLogger(__name__)


def fit_context(settings: Settings, path: Path) -> tuple[int, Sentence | None]:
    """Return the context tokens that a GGUF is loaded with, and what the user is told if they are fewer than wanted.

    0 stands for the model's own, as in the settings.

    Raises:
        ModelError: The file cannot be read or is no GGUF.
    """
    header, free_bytes = read_gguf_header(path), find_free_bytes()
    wanted = settings.context_tokens or choose_context(header)
    # layers on a GPU, and their part of the KV cache, are in its own memory, whose size is not known here
    if settings.gpu_layers or free_bytes is None:
        return settings.context_tokens, None
    fitting = count_fitting_tokens(header, free_bytes - path.stat().st_size)
    if fitting is None or wanted <= fitting:
        return settings.context_tokens, None
    sentence = Sentence("chat.context_reduced", {"tokens": fitting, "wanted": wanted})
    log.warning("%s: the context has %d tokens instead of %d, for lack of memory.", path, fitting, wanted)
    return fitting, sentence


def count_fitting_tokens(header: GgufHeader, free_bytes: int) -> int | None:
    """Return how many tokens of KV cache fit into free memory; None for a model of unknown needs."""
    token_bytes = _count_token_bytes(header)
    if token_bytes <= 0:
        return None
    tokens = int(free_bytes * _USED_FRACTION / token_bytes)
    return max(_MIN_TOKENS, tokens // _STEP_TOKENS * _STEP_TOKENS)


def _count_token_bytes(header: GgufHeader) -> int:
    """Return the bytes of the KV cache for each token; 0 if unknown."""
    get = header.get_number
    layers, width, heads = get("block_count"), get("embedding_length"), get("attention.head_count")
    if not (layers and width and heads) or any(get(key) for key in _DEVIATING_KEYS):
        return 0
    length = width // heads
    numbers = (get("attention.key_length") or length) + (get("attention.value_length") or length)
    return layers * (get("attention.head_count_kv") or heads) * numbers * _NUMBER_BYTES


def find_free_bytes() -> int | None:
    """Return the memory that this process can still take, also by a limit of its address space; None if unknown."""
    memory = read_memory()
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    free = [memory.available] if memory else []
    if limit != resource.RLIM_INFINITY and (pages := Path("/proc/self/statm")).exists():
        free.append(limit - int(pages.read_text(encoding="ascii").split()[0]) * resource.getpagesize())
    return max(0, min(free)) if free else None
