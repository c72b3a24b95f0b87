"""llama.cpp through llama-cpp-python: a GGUF on the CPU or whatever it was built for. It does not know what a tool is.

The model runs on one thread of its own. What the engine has evaluated is kept between calls, so a prompt that grows
at its end costs its new tokens only. Text that users, tools and models wrote is tokenized as plain text: a
`<|im_end|>` in it ends nothing.
"""

from __future__ import annotations

import codecs
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from ..config import Generation, Settings
from ..discover import state_folder
from ..errors import GenerationError, ModelError, too_long
from ..events import Reading, Usage
from ..families import find_family
from ..grammar import CallGrammar
from ..messages import Message, Tool
from ..templates import Piece, opened_thought
from .beginnings import FEWEST_TOKENS
from .llama_calls import CallGuard, read_vocabulary
from .llama_engine import (
    TEMPLATE_KEY,
    check_file,
    end_test,
    load,
    name_template,
    names_of,
    share_of,
    switch_of,
    template_of,
    watch,
)
from .llama_lookup import Lookup, Pace
from .llama_states import LlamaStates
from .push import Ahead, Emit, stream_pushed
from .tokens import PromptTokens, common

FALLBACK_TEMPERATURE = 0.6
FEWEST_AHEAD = 16
"""Tokens; fewer are not worth to wake the cores for."""

Item = str | Usage | Reading


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
    `looks_up`: tokens are drafted from what was written before, where that is faster; `lookup` counts those of the
    last reply. `states` is a folder where the evaluated beginning of a prompt is kept for the next start.
    """

    native_tools = False
    constrains = True
    looks_up = True

    def __init__(
        self, path: Path, context_tokens: int, thinking: bool | None = None, states: Path | None = None
    ) -> None:
        self._engine: Any = load(path, context_tokens)
        self._states = LlamaStates(states, path, self._engine) if states else None
        self._ahead: Ahead | None = None
        self.name = path.name
        self.template = name_template(self._engine)
        self.family = find_family(names_of(path, self._engine), self._engine.metadata.get(TEMPLATE_KEY, ""))
        self.prompt_language: str = self._engine.metadata.get("rkllm_chat.prompt_language", "")
        self.tools_share = share_of(self._engine.metadata.get("rkllm_chat.tools_share", ""))
        self.few_tools = switch_of(self._engine.metadata.get("rkllm_chat.few_tools", ""))
        self.context_tokens: int = self._engine.n_ctx()
        template = template_of(self._engine)
        self._template = partial(template, thinking=thinking)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llama")
        self._stop = threading.Event()
        self.metadata: dict[str, str] = self._engine.metadata
        self.is_running = False
        self.lookup: Lookup | None = None
        self.pace = Pace()
        self._tokens = PromptTokens(self._tokens_of, template)
        self._note_reading: Callable[[], None] = lambda: None
        self._abort = watch(self._engine, self._is_stopped)
        self._ends = end_test(self._engine)
        self._vocabulary = cache(partial(read_vocabulary, self._engine))

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        _tools: Sequence[Tool] = (),
        grammar: CallGrammar | None = None,
    ) -> AsyncGenerator[Item, bool | None]:
        """Pieces of the reply as they are written, then its Usage; Readings while a long prompt is read.

        Raises GenerationError when the prompt leaves no room or the engine fails. Closing the stream stops the
        engine, also in the middle of the prompt, and waits for it.
        """

        def work(emit: Emit[Item], stop: threading.Event) -> None:
            self._stop = stop
            self.is_running = True
            try:
                self._write(prompt, generation, emit, grammar)
            finally:
                self.is_running = False

        ahead = self._ahead or Ahead(())
        ahead.make_way(prompt)
        return stream_pushed(work, self._thread, on_stop=ahead.aborted.set)

    async def prefill(self, prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Evaluates of a prompt what stays whatever a user says next; gives how many tokens it was.

        Raises GenerationError when the engine fails. A stream that comes meanwhile ends it behind its batch and goes on
        from there; cancelling it stops the engine within the batch.
        """
        ahead = self._ahead = Ahead(prompt)

        def work(_emit: Emit[Item], _stop: threading.Event) -> None:
            self._stop = ahead.aborted
            self.is_running = True
            try:
                self._read_ahead(ahead)
            finally:
                self.is_running = False

        async with aclosing(stream_pushed(work, self._thread, on_stop=ahead.aborted.set)) as pushed:
            async for _ in pushed:
                pass
        return ahead.evaluated

    @property
    def held_tokens(self) -> int:
        """How many tokens of the last prompt and reply are evaluated, also while that goes on."""
        return int(self._engine.n_tokens)

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """How many tokens the prompt is, template included."""
        return len(self._tokenize(self._template(prompt)))

    def count_held(self, prompt: Sequence[Message]) -> int:
        """How many tokens of the prompt the engine has evaluated already."""
        return self._count_held(self._tokenize(self._template(prompt)))

    async def aclose(self) -> None:
        """Ends the thread and frees the engine."""
        self._stop.set()
        if self._ahead:
            self._ahead.aborted.set()
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

    def _read_ahead(self, ahead: Ahead) -> None:
        """On the engine's thread."""
        self._note_reading = lambda: None
        tokens = self._lasting(ahead.prompt)
        if len(tokens) >= self.context_tokens or ahead.is_ended:
            return
        fresh = self._load_beginning(ahead.prompt, tokens)
        held = self._count_held(tokens)
        if len(tokens) - held < FEWEST_AHEAD:
            return
        try:
            self._keep_beginning(fresh, lambda: ahead.is_ended)
            self._engine.read(tokens, lambda: ahead.is_ended)
        except RuntimeError as error:
            if not ahead.aborted.is_set():
                raise GenerationError(f"The engine failed: {error}.") from error
        ahead.evaluated = max(0, self._engine.n_tokens - held)

    def _lasting(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of messages that stay, whatever a user says next; none where no user may speak."""
        try:
            one, other = (self._tokenize(self._template([*messages, Message("user", text)])) for text in "ab")
        except ModelError:
            return []
        return common(one, other)

    def _load_beginning(self, prompt: Sequence[Message], tokens: list[int]) -> list[int]:
        """Has the engine hold system text and tools from a file, where that is much more than it holds.

        Gives their tokens where there is no file and should be one.
        """
        held = self._count_held(tokens)
        if self._states is None or len(tokens) - held < FEWEST_TOKENS:
            return []
        beginning = self._lasting([message for message in prompt[:1] if message.role == "system"])
        if len(beginning) - held < FEWEST_TOKENS or tokens[: len(beginning)] != beginning:
            return []
        return [] if self._states.load(beginning) else beginning

    def _keep_beginning(self, beginning: list[int], is_ended: Callable[[], bool] = lambda: False) -> None:
        """Evaluates a beginning and writes it into a file. Raises RuntimeError when the engine is stopped."""
        if self._states and beginning:
            self._engine.read(beginning, is_ended)
            if self._engine.n_tokens == len(beginning):
                self._states.save(beginning)

    def _write(
        self, prompt: Sequence[Message], generation: Generation, emit: Emit[Item], grammar: CallGrammar | None
    ) -> None:
        """One reply, on the engine's thread."""
        begun = time.monotonic()
        pieces = self._template(prompt)
        tokens = self._tokenize(pieces)
        room = min(generation.max_tokens, self.context_tokens - len(tokens))
        if room <= 0:
            raise too_long(len(tokens), self.context_tokens)
        fresh = self._load_beginning(prompt, tokens)
        reply = Reply(prompt_tokens=len(tokens), reused_tokens=self._count_held(tokens), room=room, begun=begun)
        thought = opened_thought(pieces)
        if thought:
            emit(thought)
        self._note_reading = self._tell_reading(reply, emit)
        temperature = self._temperature(generation)
        guard = self._guard(grammar, generation, temperature, thought) if grammar else None
        self.lookup = Lookup() if self.looks_up else None
        self._engine.draft_with(self.lookup, self.pace, len(tokens) + room)
        try:
            self._keep_beginning(fresh)
            self._write_tokens(self._sample(tokens, generation, temperature, guard), reply, emit, guard)
        except RuntimeError as error:
            if not self._stop.is_set():
                raise GenerationError(f"The engine failed: {error}.") from error
        finally:
            # the token that reached a limit has not been evaluated, a draft behind it may be
            self._engine.keep(len(tokens) + len(reply.said) - (not reply.ended))
            if guard:
                guard.close()
        self._tokens.remember(thought, "".join(reply.text), reply.said)
        emit(reply.usage(stopped=self._stop.is_set()))

    def _guard(self, grammar: CallGrammar, wanted: Generation, temperature: float, thought: str) -> CallGuard:
        return CallGuard(self._engine, self._vocabulary, grammar, wanted, temperature, thought)

    def _write_tokens(self, sampled: Iterator[int], reply: Reply, emit: Emit[Item], guard: CallGuard | None) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in sampled:
            reply.first = reply.first or time.monotonic()
            reply.ended = self._ends(token)
            # control tokens too: in some families one opens a call, and none but the last ends the reply
            data = b"" if reply.ended else self._engine.detokenize([token], special=True)
            text = decoder.decode(data, final=reply.ended)
            if text:
                reply.text.append(text)
                emit(text)
            if reply.ended:
                break
            reply.said.append(token)
            if guard:
                guard.note(token, text)
            if len(reply.said) >= reply.room or self._stop.is_set():
                break

    def _temperature(self, generation: Generation) -> float:
        asked = self.metadata.get("general.sampling.temp") if generation.temperature is None else generation.temperature
        return FALLBACK_TEMPERATURE if asked is None else float(asked)

    def _sample(
        self, tokens: list[int], generation: Generation, temperature: float, guard: CallGuard | None
    ) -> Iterator[int]:
        if generation.seed is not None:
            self._engine.set_seed(generation.seed)
        sampled: Iterator[int] = self._engine.generate(
            tokens,
            temp=temperature,
            top_k=generation.top_k,
            top_p=generation.top_p,
            min_p=generation.min_p,
            repeat_penalty=generation.repeat_penalty,
            logits_processor=[guard.mask] if guard else None,
        )
        return sampled

    def _count_held(self, tokens: list[int]) -> int:
        """How many tokens of the prompt the engine has evaluated already; the last one is always evaluated anew."""
        same: int = self._engine.count_same(tokens[:-1])
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
    states = state_folder() / "prompt-caches" if settings.keep_prefix else None
    return Llama(path, settings.context_tokens, {"on": True, "off": False}.get(settings.thinking), states)


def find_shipped_model() -> Path:
    """The small model: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    places = (package / "tiny-tools.gguf", package.parent / "models/tiny-tools/tiny-tools.gguf")
    return next((place for place in places if place.is_file()), places[0])
