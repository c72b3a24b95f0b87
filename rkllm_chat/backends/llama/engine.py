"""Load a GGUF into llama.cpp and read its metadata: template, names, end tokens."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...config.trust_rules import MAX_DEFAULT_CONTEXT_TOKENS
from ...core.errors import ModelError
from ...core.events import Sentence
from ...core.sanitize import sanitize_line
from ...prompt.chat_templates import TEMPLATES, find_family_template, is_named_as_answering
from ...prompt.jinja_template import InvalidTemplateError, compile_usable_template
from ...prompt.pieces import Template
from ...prompt.template_renderer import TemplateLimitError, TemplateRejectedError, render_template, start_renderer
from ...storage.session_records import hash_text
from ..base import TokenScore
from .cores import count_threads
from .gguf_header import GgufHeader, read_gguf_header
from .library import LIBRARY_NAME, find_llama_library, import_llama
from .processor import AMX
from .trial_load import identify_build, try_build

TEMPLATE_KEY = "tokenizer.chat_template"
_FALLBACK_ROW = "chatml"
_NAME_KEYS = ("name", "basename", "finetune", "architecture")
BATCH_TOKENS = 256  # small, so that a stop during prefill is seen soon even between the engine's own checks
_CONTEXT_STEP = 256

log = logging.getLogger(__name__)


def check_library(library: str, model: str) -> None:
    """Raise ModelError if llama-cpp-python, or the build of llama.cpp that the settings name, is not installed."""
    if not find_spec("llama_cpp"):
        hint = (
            "Install it with: pip install llama-cpp-python (it is compiled, which takes minutes and needs a compiler: "
            "sudo apt install build-essential cmake)."
        )
        raise ModelError(f"llama-cpp-python is needed for {model} and is not installed.", hint)
    if library and find_llama_library(library) is None:
        raise ModelError(f"llama_library: there is no {LIBRARY_NAME} at {library}.", "Correct it in [expert].")


def load_engine(
    path: Path,
    context_tokens: int,
    threads: int = 0,
    library: str = "",
    batch_tokens: int = BATCH_TOKENS,
    gpu_layers: int = 0,
    extra_buffers: bool | None = None,
) -> Any:
    """Load the engine. Its log goes to our log, never to the terminal.

    Args:
        path: The GGUF.
        context_tokens: Size of the context window; 0 for the model's own, at most 8192.
        threads: Number of threads; 0 for one on each physical core.
        library: Path of another libllama; "" for the one of the package.
        batch_tokens: Maximum number of tokens to evaluate at once.
        gpu_layers: Layers that a GPU computes; -1 for all.
        extra_buffers: Whether llama.cpp may rearrange weights for the processor; None for what works, as a trial of
            this build has shown.

    Raises:
        ModelError: llama-cpp-python is missing or cannot load the file, or this build does not run here.
    """
    check_library(library, path.name)
    threads = threads or count_threads()
    if extra_buffers is None:
        extra_buffers = try_build(library, threads, gpu_layers).extra_buffers
    import_llama(library)
    import llama_cpp

    from .abortable import AbortableLlama

    llama_cpp.llama_log_set(get_log_callback(), ctypes.c_void_p(0))
    # `Llama` compiles the file's templates in this process, without limits, for chat functions that are not used here
    llama_cpp.llama_chat_format.Jinja2ChatFormatter = _UncompiledFormatter
    # meanwhile it would send to /dev/null what other threads write, such as that a time limit has passed
    for module in (llama_cpp.llama, llama_cpp._internals):  # noqa: SLF001 - the package has no switch for it
        module.suppress_stdout_stderr = _keep_output
    start_renderer()
    header = read_gguf_header(path)
    try:
        # llama.cpp rounds n_ctx up to a multiple of this; llama-cpp-python does not, and its array would be too short
        context = -(-(context_tokens or choose_context(header)) // _CONTEXT_STEP) * _CONTEXT_STEP
        options = {"n_threads": threads, "n_threads_batch": threads, "n_gpu_layers": gpu_layers}
        engine = AbortableLlama(extra_buffers, str(path), n_ctx=context, n_batch=batch_tokens, verbose=False, **options)
    except (ValueError, RuntimeError, OSError, AssertionError) as error:
        hint = "llama.cpp may be too old for the model; with --log-file FILE its own message is in the log."
        raise ModelError(f"{path}: llama.cpp cannot load it: {error}.", hint, path=str(path)) from error
    engine.header = header  # that of the package has only texts, and none where one of them is not UTF-8
    return engine


def choose_context(header: GgufHeader) -> int:
    """Return the size of the context window of a model for which the settings name none."""
    own = header.get_number("context_length")
    return min(own, MAX_DEFAULT_CONTEXT_TOKENS) if own and own > 0 else MAX_DEFAULT_CONTEXT_TOKENS


def _keep_output(**_: Any) -> AbstractContextManager[None]:
    """Take the place of the package's redirection of standard output and error; the log goes to our callback."""
    return nullcontext()


class _UncompiledFormatter:
    """Takes the place of the package's formatter and does nothing."""

    def __init__(self, **_: Any) -> None: ...

    def to_chat_handler(self) -> None:
        """Return no handler."""


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template that a GGUF is used with.

    Attributes:
        template: The template.
        source: Its text in the GGUF; "" if it is that of the model's family.
        name: Its name; equal templates have equal names.
        problem: Why that of the GGUF is not used; "" if it is, or there is none.
    """

    template: Template
    source: str
    name: str
    problem: str = ""


def read_chat_template(engine: Any, names: Sequence[str]) -> ChatTemplate:
    """Return the chat template of the GGUF, or that of its family if it has none or one with a syntax error.

    Args:
        engine: The engine.
        names: What the model is called, from `read_model_names`.

    Raises:
        ModelError: The template exceeds the limits of time and memory.
    """
    source, row, problem = engine.header.get_text(TEMPLATE_KEY), _choose_row(names), ""
    if source:
        tokens = {name: read_token_text(engine, getattr(engine, f"token_{name}")()) for name in ("bos", "eos")}
        try:
            # the date is read once: a prompt whose beginning changes at midnight would have to be evaluated again
            template = compile_usable_template(source, bos=tokens["bos"], eos=tokens["eos"], today=date.today())
            return ChatTemplate(template, source, f"gguf:{hash_text(source)}")
        except InvalidTemplateError as error:
            problem = error.message
    return ChatTemplate(TEMPLATES[row], "", row, problem)


def render_or_reject(source: str, variables: Mapping[str, Any]) -> str:
    """Render a template to see how it writes calls; "" if it cannot."""
    try:
        return render_template(source, variables, "2026-01-01")
    except (TemplateRejectedError, TemplateLimitError):
        return ""


def _choose_row(names: Sequence[str]) -> str:
    return find_family_template(names) or _FALLBACK_ROW


def describe_missing_template(name: str, names: Sequence[str], problem: str = "") -> Sentence:
    """Return what a model without a chat template does: answer in the template of its family, or continue texts.

    Args:
        name: Name of the file.
        names: What the model is called, from `read_model_names`.
        problem: Why the template that it has is not used.
    """
    if problem:
        values = {"model": name, "template": _choose_row(names), "problem": sanitize_line(problem)}
        return Sentence("chat.bad_template", values)
    if is_named_as_answering(names[:-1]):  # models of one architecture do either
        return Sentence("chat.no_template", {"model": name, "template": _choose_row(names)})
    return Sentence("chat.base_model", {"model": name})


def describe_reduced_engine(library: str) -> Sentence:
    """Return what it means that a build of llama.cpp runs here only without extra buffers.

    Args:
        library: Path of another libllama; "" for the one of the package.
    """
    import llama_cpp

    report = llama_cpp.llama_print_system_info().decode()
    key = "chat.without_amx" if f"{AMX} = 1" in report else "chat.without_repacking"
    return Sentence(key, once=identify_build(library))


def read_model_names(path: Path, metadata: Mapping[str, object]) -> list[str]:
    """Return what the file and its metadata call the model, most specific first, architecture last."""
    return [path.stem, *(str(metadata.get(f"general.{key}", "")) for key in _NAME_KEYS)]


def read_token_text(engine: Any, token: int) -> str:
    """Return the text of a token, control tokens included; "" for a token that the vocabulary lacks."""
    data: bytes = engine.detokenize([token], special=True) if token >= 0 else b""
    return data.decode("utf-8", errors="replace")


def count_parameters(engine: Any) -> int:
    """Return the number of parameters of the model."""
    import llama_cpp

    return int(llama_cpp.llama_model_n_params(engine.model))


def has_kv_cache(engine: Any) -> bool:
    """Return whether the model generates text; encoders such as BERT have no KV cache and only compute embeddings."""
    import llama_cpp

    return llama_cpp.llama_get_memory(engine.ctx) is not None


def make_end_test(engine: Any) -> Callable[[int], bool]:
    """Return a function that returns whether a token ends a reply, by the vocabulary.

    A family may have several such tokens.
    """
    import llama_cpp

    vocab = llama_cpp.llama_model_get_vocab(engine.model)
    return lambda token: bool(llama_cpp.llama_vocab_is_eog(vocab, token))


def read_infill_markers(engine: Any) -> tuple[str, ...]:
    """Return the control tokens before a prefix, a suffix and what is between them; "" for what the model lacks."""
    import llama_cpp

    vocab = llama_cpp.llama_model_get_vocab(engine.model)
    names = (llama_cpp.llama_vocab_fim_pre, llama_cpp.llama_vocab_fim_suf, llama_cpp.llama_vocab_fim_mid)
    return tuple(read_token_text(engine, find(vocab)) for find in names)


def score_token(engine: Any, token: int, number: int) -> TokenScore:
    """Return how probable the token was that has just been sampled, with so many of the likeliest."""
    import llama_cpp
    import numpy

    found = llama_cpp.llama_get_logits_ith(engine.ctx, -1)
    logits = numpy.ctypeslib.as_array(found, (engine.n_vocab(),)).astype(numpy.float64)
    logprobs = logits - logits.max()
    logprobs -= numpy.log(numpy.exp(logprobs).sum())
    best = numpy.argpartition(-logprobs, number)[:number]

    def describe(token: int) -> TokenScore:
        return TokenScore(engine.detokenize([token], special=True), float(logprobs[token]))

    ranked = sorted(best.tolist(), key=lambda token: -logprobs[token])
    return replace(describe(token), likeliest=tuple(map(describe, ranked)))


def install_abort_callback(engine: Any, is_stopped: Callable[[], bool]) -> Any:
    """Let llama.cpp ask whether to abort, also inside a batch.

    Returns:
        The callback, which must live as long as the engine.
    """
    import llama_cpp

    callback = llama_cpp.ggml_abort_callback(lambda _: is_stopped())
    engine.set_abort_callback(callback)
    return callback


@cache
def get_log_callback() -> Any:
    """Return the callback for llama.cpp's log lines; cached for the whole process, because the library keeps it."""
    import llama_cpp

    def pass_on(level: int, text: bytes, _data: Any) -> None:
        log.debug("llama.cpp %d: %s", level, text.decode("utf-8", errors="replace").rstrip())

    return llama_cpp.llama_log_callback(pass_on)
