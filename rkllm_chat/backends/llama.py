"""llama.cpp through llama-cpp-python: a GGUF on the CPU or whatever it was built for. It does not know what a tool is.

The model runs on one thread of its own. What the engine has evaluated is kept between calls, so a prompt that grows
at its end costs its new tokens only. Text that users, tools and models wrote is tokenized as plain text: a
`<|im_end|>` in it ends nothing.
"""

from __future__ import annotations

import codecs
import ctypes
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any

from ..config import Generation, Settings
from ..errors import GenerationError, ModelError
from ..events import Reading, Usage
from ..messages import Message, Tool
from ..records import hash_text
from ..templates import TEMPLATES, Piece, Template, jinja_template, opened_thought
from .push import Emit, stream_pushed
from .tokens import PromptTokens

MAGIC = b"GGUF"
BATCH_TOKENS = 256  # small, so that a stop during prefill is seen soon even between the engine's own checks
FALLBACK_TEMPERATURE = 0.6
LARGEST_CONTEXT = 8192

Item = str | Usage | Reading

log = logging.getLogger(__name__)


@dataclass
class Reply:
    """One reply while it is written; `room` is how many tokens it may have. Times are of the monotonic clock."""

    prompt_tokens: int
    reused_tokens: int
    room: int
    said: list[int] = field(default_factory=list[int])
    text: list[str] = field(default_factory=list[str])
    ended: bool = False
    begun: float = field(default_factory=time.monotonic)
    first: float = 0.0

    def usage(self, stopped: bool) -> Usage:
        """What it cost until now."""
        now = time.monotonic()
        first = self.first or now
        return Usage(
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused_tokens,
            prefilled_tokens=self.prompt_tokens - self.reused_tokens,
            generated_tokens=len(self.said),
            prefill_s=first - self.begun,
            generate_s=now - first,
            first_token_s=first - self.begun,
            hit_limit=not self.ended and not stopped,
        )


class Llama:
    """A loaded GGUF. `name` is the file's name; `context_tokens` how much the engine holds, prompt and answer.

    `is_running`: the engine is at work on a prompt or a reply. `metadata`: what the GGUF says of itself.
    """

    native_tools = False

    def __init__(self, path: Path, context_tokens: int, thinking: bool | None = None) -> None:
        self._engine: Any = load(path, context_tokens)
        self.name = path.name
        self.template = name_template(self._engine)
        self.prompt_language: str = self._engine.metadata.get("rkllm_chat.prompt_language", "")
        self.context_tokens: int = self._engine.n_ctx()
        self._template = partial(template_of(self._engine), thinking=thinking)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llama")
        self._stop = threading.Event()
        self.metadata: dict[str, str] = self._engine.metadata
        self.is_running = False
        self._tokens = PromptTokens(self._tokens_of)
        self._note_reading: Callable[[], None] = lambda: None
        self._abort = watch(self._engine, self._is_stopped)
        self._ends = end_test(self._engine)

    async def stream(
        self, prompt: Sequence[Message], generation: Generation, _tools: Sequence[Tool] = ()
    ) -> AsyncGenerator[Item, None]:
        """Pieces of the reply as they are written, then its Usage; Readings while a long prompt is read.

        Raises GenerationError when the prompt leaves no room or the engine fails. Closing the stream stops the
        engine, also in the middle of the prompt, and waits for it.
        """

        def work(emit: Emit[Item], stop: threading.Event) -> None:
            self._stop = stop
            self.is_running = True
            try:
                self._write(prompt, generation, emit)
            finally:
                self.is_running = False

        async with aclosing(stream_pushed(work, self._thread)) as pushed:
            async for item in pushed:
                yield item

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """How many tokens the prompt is, template included."""
        return len(self._tokenize(self._template(prompt)))

    async def aclose(self) -> None:
        """Ends the thread and frees the engine."""
        self._stop.set()
        self._thread.shutdown(wait=True)
        self._engine.close()

    def _is_stopped(self) -> bool:
        """Asked by llama.cpp again and again while it evaluates."""
        self._note_reading()
        return self._stop.is_set()

    def _tell_reading(self, reply: Reply, emit: Emit[Item]) -> Callable[[], None]:
        """Tells of each batch of the prompt that has been evaluated; `engine.n_tokens` counts them."""
        told, total = reply.reused_tokens, reply.prompt_tokens - reply.reused_tokens

        def note() -> None:
            nonlocal told
            if told < self._engine.n_tokens < reply.prompt_tokens:
                told = self._engine.n_tokens
                done = told - reply.reused_tokens
                emit(Reading(done, total, done / (time.monotonic() - reply.begun)))

        return note

    def _write(self, prompt: Sequence[Message], generation: Generation, emit: Emit[Item]) -> None:
        """One reply, on the engine's thread."""
        pieces = self._template(prompt)
        tokens = self._tokenize(pieces)
        room = min(generation.max_tokens, self.context_tokens - len(tokens))
        if room <= 0:
            need = f"The prompt is {len(tokens)} tokens long, the context holds {self.context_tokens}."
            raise GenerationError(need, "Start anew with /clear, or use fewer tools.")
        reply = Reply(prompt_tokens=len(tokens), reused_tokens=self._count_held(tokens), room=room)
        thought = opened_thought(pieces)
        if thought:
            emit(thought)
        self._note_reading = self._tell_reading(reply, emit)
        try:
            self._write_tokens(self._sample(tokens, generation), reply, emit)
        except RuntimeError as error:
            if not self._stop.is_set():
                raise GenerationError(f"The engine failed: {error}.") from error
        self._tokens.remember(thought, "".join(reply.text), reply.said)
        emit(reply.usage(stopped=self._stop.is_set()))

    def _write_tokens(self, sampled: Iterator[int], reply: Reply, emit: Emit[Item]) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in sampled:
            reply.first = reply.first or time.monotonic()
            reply.ended = self._ends(token)
            text = decoder.decode(b"" if reply.ended else self._engine.detokenize([token]), final=reply.ended)
            if text:
                reply.text.append(text)
                emit(text)
            if reply.ended:
                break
            reply.said.append(token)
            if len(reply.said) >= reply.room or self._stop.is_set():
                break

    def _sample(self, tokens: list[int], generation: Generation) -> Iterator[int]:
        temperature = generation.temperature
        if temperature is None:
            asked = self.metadata.get("general.sampling.temp")
            temperature = FALLBACK_TEMPERATURE if asked is None else float(asked)
        if generation.seed is not None:
            self._engine.set_seed(generation.seed)
        sampled: Iterator[int] = self._engine.generate(
            tokens,
            temp=temperature,
            top_k=generation.top_k,
            top_p=generation.top_p,
            min_p=generation.min_p,
            repeat_penalty=generation.repeat_penalty,
        )
        return sampled

    def _count_held(self, tokens: list[int]) -> int:
        """How many tokens of the prompt the engine has evaluated already; the last one is always evaluated anew."""
        held = self._engine.input_ids[: self._engine.n_tokens]
        same = 0
        for ours, theirs in zip(tokens[:-1], held, strict=False):
            if ours != theirs:
                break
            same += 1
        return same

    def _tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        tokens = self._tokens.of(pieces)
        wants_bos = self.metadata.get("tokenizer.ggml.add_bos_token") == "true"
        bos = self._engine.token_bos()
        return [bos, *tokens] if wants_bos and tokens[:1] != [bos] else tokens

    def _tokens_of(self, piece: Piece) -> list[int]:
        data = piece.text.encode("utf-8", errors="replace")
        tokens: list[int] = self._engine.tokenize(data, add_bos=False, special=piece.special)
        return tokens


def open_llama(settings: Settings) -> Llama:
    """Loads the GGUF of the settings, by default the small model that ships."""
    path = Path(settings.model).expanduser() if settings.model else find_shipped_model()
    check_file(path)
    return Llama(path, settings.context_tokens, {"on": True, "off": False}.get(settings.thinking))


def find_shipped_model() -> Path:
    """The small model: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    places = (package / "tiny-tools.gguf", package.parent / "models/tiny-tools/tiny-tools.gguf")
    return next((place for place in places if place.is_file()), places[0])


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
    except ImportError as error:
        hint = "Install it with: pip install llama-cpp-python (it is compiled, and takes minutes)."
        raise ModelError(f"llama-cpp-python is needed for {path.name} and is not installed.", hint) from error
    llama_cpp.llama_log_set(log_callback(), ctypes.c_void_p(0))
    try:
        known = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        trained = int(known.metadata.get(f"{known.metadata.get('general.architecture')}.context_length", 0))
        known.close()
        context = context_tokens or min(trained or LARGEST_CONTEXT, LARGEST_CONTEXT)
        return llama_cpp.Llama(str(path), n_ctx=context, n_batch=BATCH_TOKENS, verbose=False)
    except (ValueError, RuntimeError, OSError, AssertionError) as error:
        hint = "Is it whole, and is it a model that llama.cpp knows? The log file says more."
        raise ModelError(f"{path}: llama.cpp cannot load it: {error}.", hint, path=str(path)) from error


def template_of(engine: Any) -> Template:
    """The chat template inside the GGUF, or ChatML where there is none."""
    source = engine.metadata.get("tokenizer.chat_template")
    if not source:
        return TEMPLATES["chatml"]
    words = {name: token_text(engine, getattr(engine, f"token_{name}")()) for name in ("bos", "eos")}
    # the day is read once: a prompt whose beginning changes at midnight would be evaluated anew
    return jinja_template(source, bos=words["bos"], eos=words["eos"], today=date.today())


def name_template(engine: Any) -> str:
    source = engine.metadata.get("tokenizer.chat_template")
    return f"gguf:{hash_text(source)}" if source else "chatml"


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
    llama_cpp.llama_set_abort_callback(engine.ctx, callback, None)
    return callback


@cache
def log_callback() -> Any:
    """What llama.cpp calls with each line of its log; kept for ever, because the library keeps it."""
    import llama_cpp

    def pass_on(level: int, text: bytes, _data: Any) -> None:
        log.debug("llama.cpp %d: %s", level, text.decode("utf-8", errors="replace").rstrip())

    return llama_cpp.llama_log_callback(pass_on)
