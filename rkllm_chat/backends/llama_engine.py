"""A GGUF becomes an engine of llama.cpp, and what is known of it is read: template, names, ends. It writes nothing."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..records import hash_text
from ..templates import TEMPLATES, Template, jinja_template

MAGIC = b"GGUF"
TEMPLATE_KEY = "tokenizer.chat_template"
NAME_KEYS = ("name", "basename", "finetune", "architecture")
BATCH_TOKENS = 256  # small, so that a stop during prefill is seen soon even between the engine's own checks
LARGEST_CONTEXT = 8192

log = logging.getLogger(__name__)


def check_file(path: Path) -> None:
    """Turns away what cannot be a GGUF before native code sees it."""
    hint = "Give a .gguf file with --model."
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}.", hint, path=str(path)) from None
    if not magic:
        raise ModelError(f"{path}: the file is empty.", "Was it downloaded to its end?", path=str(path))
    if magic != MAGIC:
        raise ModelError(f"{path}: not a GGUF file (it begins with {magic!r}).", hint, path=str(path))


def load(path: Path, context_tokens: int) -> Any:
    """The engine. Its own log goes to our log and never to the terminal."""
    try:
        import llama_cpp

        from .llama_drafts import DraftingLlama
    except ImportError as error:
        hint = "Install it with: pip install llama-cpp-python (it is compiled, and takes minutes)."
        raise ModelError(f"llama-cpp-python is needed for {path.name} and is not installed.", hint) from error
    llama_cpp.llama_log_set(log_callback(), ctypes.c_void_p(0))
    try:
        known = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        trained = int(known.metadata.get(f"{known.metadata.get('general.architecture')}.context_length", 0))
        known.close()
        context = context_tokens or min(trained or LARGEST_CONTEXT, LARGEST_CONTEXT)
        return DraftingLlama(str(path), n_ctx=context, n_batch=BATCH_TOKENS, verbose=False)
    except (ValueError, RuntimeError, OSError, AssertionError) as error:
        hint = "Is it whole, and is it a model that llama.cpp knows? The log file says more."
        raise ModelError(f"{path}: llama.cpp cannot load it: {error}.", hint, path=str(path)) from error


def template_of(engine: Any) -> Template:
    """The chat template inside the GGUF, or ChatML where there is none."""
    source = engine.metadata.get(TEMPLATE_KEY)
    if not source:
        return TEMPLATES["chatml"]
    words = {name: token_text(engine, getattr(engine, f"token_{name}")()) for name in ("bos", "eos")}
    # the day is read once: a prompt whose beginning changes at midnight would be evaluated anew
    return jinja_template(source, bos=words["bos"], eos=words["eos"], today=date.today())


def name_template(engine: Any) -> str:
    source = engine.metadata.get(TEMPLATE_KEY)
    return f"gguf:{hash_text(source)}" if source else "chatml"


def names_of(path: Path, engine: Any) -> list[str]:
    """What the file and its metadata call the model, from the most telling to the name of its architecture."""
    return [path.stem, *(engine.metadata.get(f"general.{key}", "") for key in NAME_KEYS)]


def share_of(text: str) -> float | None:
    """A share in a GGUF's metadata; None where it is none."""
    with suppress(ValueError):
        share = float(text)
        return share if 0 <= share <= 1 else None
    return None


def switch_of(text: str) -> bool | None:
    """A switch in a GGUF's metadata; None where it is none."""
    return {"true": True, "false": False}.get(text.strip())


def token_text(engine: Any, token: int) -> str:
    data: bytes = engine.detokenize([token], special=True) if token >= 0 else b""
    return data.decode("utf-8", errors="replace")


def end_test(engine: Any) -> Callable[[int], bool]:
    """Whether a token ends a reply, as the GGUF's vocabulary says (a family may have several)."""
    import llama_cpp

    vocabulary = llama_cpp.llama_model_get_vocab(engine.model)
    return lambda token: bool(llama_cpp.llama_vocab_is_eog(vocabulary, token))


def watch(engine: Any, is_stopped: Callable[[], bool]) -> Any:
    """Lets llama.cpp ask whether to go on, also inside a batch. The callback must live as long as the engine."""
    import llama_cpp

    callback = llama_cpp.ggml_abort_callback(lambda _: is_stopped())
    engine.heed(callback)
    return callback


@cache
def log_callback() -> Any:
    """What llama.cpp calls with each line of its log; kept for ever, because the library keeps it."""
    import llama_cpp

    def pass_on(level: int, text: bytes, _data: Any) -> None:
        log.debug("llama.cpp %d: %s", level, text.decode("utf-8", errors="replace").rstrip())

    return llama_cpp.llama_log_callback(pass_on)
