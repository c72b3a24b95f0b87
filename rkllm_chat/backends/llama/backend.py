"""llama.cpp through llama-cpp-python: a GGUF on the CPU or on whatever the package was built for.

The model runs on a thread of its own. The KV cache is kept between requests, so a prompt that grows at its end costs
only its new tokens. Text from users, tools and models is tokenized as plain text: a `<|im_end|>` in it ends nothing.
"""

from __future__ import annotations

import codecs
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...calls.grammar import CallGrammar, NoCalls
from ...calls.grammar.trigger import CallDetector
from ...calls.model_families import find_family
from ...config.loader import state_folder
from ...config.settings import Generation, Settings, Thinking
from ...core.errors import GenerationError, ModelError, NotSupportedError, prompt_too_long
from ...core.events import Reading, Sentence, Usage
from ...core.messages import MediaKind, Message, Tool
from ...prompt.pieces import Piece, find_reply_prefix
from ..base import Item, MessageScore, ModelStream, StoppableStream, StreamItem, TextEmbedding
from ..shared.model_files import find_projector, resolve_model
from ..shared.prompt_tokens import PromptTokenizer, common_prefix
from ..shared.reply_tokens import read_replies, write_replies
from ..shared.stop_sequences import end_reply
from ..shared.thread_stream import Emit, PrefillRequest, stream_from_thread, unloaded
from .context_size import fit_context
from .cores import bind_thread, choose_cores, count_free_threads, count_threads
from .embedder import LlamaEmbedder
from .engine import (
    BATCH_TOKENS,
    check_library,
    count_parameters,
    describe_missing_template,
    describe_reduced_engine,
    has_kv_cache,
    install_abort_callback,
    load_engine,
    make_end_test,
    read_chat_template,
    read_infill_markers,
    read_model_names,
    read_token_text,
    render_or_reject,
    score_token,
)
from .gguf_header import GgufHeader
from .grammar_sampler import CallConstraint, CallProhibition, Constraint, read_vocabulary
from .kept_prompts import MIN_PREFILL_TOKENS, KeptPrompts
from .message_scorer import LlamaMessageScorer, ScoredPrompt
from .trial_load import EngineParameters, Trial, try_model

if TYPE_CHECKING:
    from .media_projector import MediaProjector

_FALLBACK_TEMPERATURE, _MAX_TEMPERATURE = 0.6, 100
_RANDOM_SEED = 0xFFFFFFFF  # LLAMA_DEFAULT_SEED
_MARKUP = re.compile(r"</?\w+>")
_PICTURE_BATCH_TOKENS = 512
"""Maximum number of tokens to evaluate at once with a projector: Gemma 3 and 4 evaluate a picture in one batch."""


@dataclass
class _Reply:
    """One reply while it is generated. `max_tokens`: maximum number of tokens. Times are of the monotonic clock."""

    prompt_tokens: int
    reused_tokens: int
    max_tokens: int
    token_ids: list[int] = field(default_factory=list[int])
    text: list[str] = field(default_factory=list[str])
    has_ended: bool = False
    started_at: float = field(default_factory=time.monotonic)
    first_token_at: float = 0.0

    def make_usage(self, stopped: bool) -> Usage:
        """Return the cost up to now."""
        now = time.monotonic()
        first_token_at = self.first_token_at or now
        return Usage(
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused_tokens,
            prefilled_tokens=self.prompt_tokens - self.reused_tokens,
            generated_tokens=len(self.token_ids),
            prefill_s=first_token_at - self.started_at,
            generate_s=now - first_token_at,
            first_token_s=first_token_at - self.started_at,
            hit_limit=not self.has_ended and not stopped,
        )


class LlamaBackend:
    """A loaded GGUF.

    Attributes:
        name: Name of the file.
        template: Name of the chat template.
        family: Model family, from the names and the template.
        profile: The row of PROFILES that the metadata names; "" if they name none.
        context_tokens: Size of the context window: prompt and reply together.
        header: Header of the GGUF.
        media_kinds: Kinds of media that the model understands, by its projector.
        projector: Its projector; None if it understands only text.
        is_running: Whether the engine is evaluating or generating.
        load_notices: What the user should know of the file: that it has no chat template.
        parameter_count: Number of parameters of the model.
    """

    native_tools = False
    supports_grammar = True

    def __init__(
        self,
        path: Path,
        context_tokens: int,
        thinking: bool | None = None,
        states: Path | None = None,
        cores: tuple[int, ...] = (),
        library: str = "",
        mmproj: str = "",
        family: str = "",
        gpu_layers: int = 0,
        threads: int = 0,
        extra_buffers: bool | None = None,
    ) -> None:
        """Load a GGUF.

        Args:
            path: The file.
            context_tokens: Size of the context window; 0 for the model's own.
            thinking: Whether the model may think; None to leave it to the template.
            states: Folder for evaluated prompt beginnings; None to keep none.
            cores: Cores that run one thread each; none for the scheduler's choice.
            library: Path of another libllama; "" for the one of llama-cpp-python.
            mmproj: Path of the projector for pictures, "none", or "" to look for it beside the model.
            family: What the model is; "" if its name and its metadata say it.
            gpu_layers: Layers that a GPU computes; -1 for all.
            threads: Number of threads; 0 for as many as are fastest on the cores.
            extra_buffers: As for `load_engine`.

        Raises:
            ModelError: A file cannot be loaded, or the projector is the one of another model.
        """
        projector = find_projector(path, mmproj)
        batch_tokens = _PICTURE_BATCH_TOKENS if projector else BATCH_TOKENS
        threads = threads or count_threads(cores)
        self._engine: Any = load_engine(path, context_tokens, threads, library, batch_tokens, gpu_layers, extra_buffers)
        self.header: GgufHeader = self._engine.header
        self._kept_prompts = KeptPrompts(self._engine, path, states)
        self._embedder: LlamaEmbedder | None = None
        self._scorer: LlamaMessageScorer | None = None
        self._scored_files = path, states / "tools" if states else None
        self._prefill: PrefillRequest | None = None
        self.prefill_threads: int = self._engine.n_threads_batch
        self.decode_threads: int = self._engine.n_threads
        self.name = path.name
        names = [family, *read_model_names(path, self.header.metadata)]
        self.profile: str = self.header.get_text("rkllm_chat.profile")
        self.context_tokens: int = self._engine.n_ctx()
        found = read_chat_template(self._engine, names)
        template, self.template = found.template, found.name
        self.family = find_family(names, found.source, partial(render_or_reject, found.source))
        self._template = partial(template, thinking=thinking)
        self._thread = ThreadPoolExecutor(1, "llama", bind_thread, (cores,))
        self._vocabulary_lock, self._is_closed = threading.Lock(), False
        self._report_progress: Callable[[], None] = lambda: None
        self._stop = threading.Event()
        self.is_running = False
        self.projector = self._load_projector(projector) if projector else None
        self.media_kinds: frozenset[MediaKind] = self.projector.kinds if self.projector else frozenset()
        self._tokenizer = PromptTokenizer(self._encode, template, self.projector.encode if self.projector else None)
        self._abort = install_abort_callback(self._engine, self._is_stopped)
        self._is_end_token = make_end_test(self._engine)
        self._stop_sequences = [text for text in template.stop_sequences if not self._is_ended_by_token(text)]
        self._can_generate = has_kv_cache(self._engine)
        has_template = bool(found.source) or not self._can_generate
        self.load_notices: Sequence[Sentence] = (
            *(() if has_template else (describe_missing_template(path.name, names, found.problem),)),
            *(() if self._engine.extra_buffers else (describe_reduced_engine(library),)),
        )
        self.parameter_count = count_parameters(self._engine)
        self._scored_tokens: int | None = None
        self._vocabulary = cache(partial(read_vocabulary, self._engine))

    def set_thinking(self, thinking: Thinking) -> None:
        """Switch reasoning from the next reply on, if the template of the model has the switch."""
        self._template.keywords["thinking"] = {"on": True, "off": False}.get(thinking)

    def score_tokens(self, number: int | None) -> None:
        """Yield a TokenScore before the text of each token, from the next reply on; None for none."""
        self._scored_tokens = number

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        _tools: Sequence[Tool] = (),
        grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Generate a reply: yield text chunks, then its Usage; also Readings while a long prompt is evaluated.

        Closing the stream stops the engine, also while it evaluates the prompt, and waits for it.

        Raises:
            GenerationError: The prompt leaves no room, or the engine failed.
        """
        return end_reply(self._reply(prompt, generation, grammar, self._scored_tokens), self._stop_sequences)

    def score_first_token(self, prompt: Sequence[Message], number: int) -> ModelStream:
        """Yield a TokenScore of the likeliest first token of a reply, which names `number` of them, then its Usage.

        Raises:
            GenerationError: The prompt leaves no room, or the engine failed.
        """
        return self._reply(prompt, Generation(max_tokens=1, temperature=0.0), None, number)

    def _reply(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        grammar: CallGrammar | NoCalls | None,
        scored_tokens: int | None,
    ) -> ModelStream:
        request = self._prefill or PrefillRequest(())
        request.yield_to_prompt(prompt)

        def generate(emit: Emit[StreamItem]) -> None:
            self._generate(partial(self._template, prompt), prompt, generation, emit, grammar, scored_tokens)

        return self._run(generate, request)

    def complete(self, text: str, generation: Generation) -> ModelStream:
        """Continue a text as it is, without the chat template; control tokens in it count as such.

        Raises:
            GenerationError: The text leaves no room, or the engine failed.
        """
        return self._continue([Piece(text, special=True)], generation)

    def fill_middle(self, prefix: str, suffix: str, generation: Generation) -> ModelStream:
        """Write the text between two; control tokens in them count as plain text.

        Raises:
            NotSupportedError: The vocabulary lacks the control tokens for it.
            GenerationError: The texts leave no room, or the engine failed.
        """
        with self._use_vocabulary():
            markers = read_infill_markers(self._engine)
        if not all(markers):
            raise NotSupportedError("The model was not trained to write what stands between two texts.")
        before_prefix, before_suffix, before_middle = (Piece(marker, special=True) for marker in markers)
        pieces = [
            before_prefix,
            Piece(prefix, special=False),
            before_suffix,
            Piece(suffix, special=False),
            before_middle,
        ]
        return self._continue([piece for piece in pieces if piece.text], generation)

    def _continue(self, pieces: Sequence[Piece], generation: Generation) -> ModelStream:
        def generate(emit: Emit[StreamItem]) -> None:
            self._generate(lambda: pieces, (), generation, emit, None, self._scored_tokens)

        return self._run(generate, PrefillRequest(()))

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text, in which control tokens count as plain text."""
        with self._use_vocabulary():
            return self._encode(Piece(text, special=False))

    def embed(self, texts: Sequence[str]) -> StoppableStream[TextEmbedding]:
        """Yield the embedding of each text, in order; the KV cache of the chat stays as it is.

        Raises:
            NotSupportedError: The model has no pooling.
            GenerationError: A text does not fit, or the engine failed.
        """

        def compute(emit: Emit[TextEmbedding]) -> None:
            self._report_progress = lambda: None
            self._embedder = self._embedder or LlamaEmbedder(self._engine, self._abort)
            self._embedder.embed(texts, emit, self._is_stopped)

        return self._run(compute, PrefillRequest(()))

    def score_messages(self, prompts: Sequence[Sequence[Message]]) -> StoppableStream[MessageScore]:
        """Yield a score of the last message of each prompt, in order; the KV cache of the chat stays as it is.

        Raises:
            GenerationError: A prompt is too long, or the engine failed.
        """

        def compute(emit: Emit[MessageScore]) -> None:
            self._score(prompts, emit, self._is_stopped)

        return self._run(compute, PrefillRequest(()))

    async def prepare_scores(self, prompts: Sequence[Sequence[Message]]) -> None:
        """Evaluate the prompts before their last messages, of which some will be scored.

        A stream that starts meanwhile ends it after the current prompt, cancellation at once.

        Raises:
            GenerationError: A prompt is too long, or the engine failed.
        """
        request = self._prefill = PrefillRequest(())

        def compute(_emit: Emit[MessageScore]) -> None:
            self._stop = request.stop_now
            empty = [[*prompt[:-1], replace(prompt[-1], text="")] for prompt in prompts]
            self._score(empty, lambda _: None, lambda: request.is_stopped)

        async with aclosing(self._run(compute, request)) as items:
            async for _ in items:
                pass

    def _score(
        self, prompts: Sequence[Sequence[Message]], emit: Emit[MessageScore], is_stopped: Callable[[], bool]
    ) -> None:
        """Score messages, on the engine's thread."""
        self._require_text()
        self._report_progress = lambda: None
        self._scorer = self._scorer or LlamaMessageScorer(self._engine, self._abort, *self._scored_files)
        self._scorer.use_threads(count_free_threads(self.decode_threads))
        self._scorer.score([self._split(prompt) for prompt in prompts], emit, is_stopped)

    def _split(self, prompt: Sequence[Message]) -> ScoredPrompt:
        """Return the tokens of a prompt before its last message, and of that."""
        tokens = self._tokenize(self._template(prompt), is_new=True)
        with_other = [*prompt[:-1], replace(prompt[-1], text="" if prompt[-1].text else "a")]
        other = self._tokenize(self._template(with_other), is_new=True)
        start = len(common_prefix(tokens, other))
        end = len(common_prefix(tokens[::-1], other[::-1]))
        return ScoredPrompt(tuple(tokens[:start]), tuple(tokens[start : max(start, len(tokens) - end)]))

    def _run(self, compute: Callable[[Emit[Item]], None], request: PrefillRequest) -> StoppableStream[Item]:
        """Compute on the engine's thread; a failure of the engine is none where it was stopped."""

        def work(emit: Emit[Item], stop: threading.Event) -> None:
            # here and not where the stream is made: until its turn comes, the reply before it asks for its own event
            self._stop = stop
            self.is_running = True
            try:
                # counted for each reply, since other programs come and go
                self._engine.use_threads(count_free_threads(self.decode_threads))
                compute(emit)
            # llama-cpp-python 0.3.36 says only "llama_decode returned N", for an abort as for a failure
            except RuntimeError as error:
                if not self._stop.is_set():
                    raise GenerationError(f"The engine failed: {error}.") from error
            finally:
                self.is_running = False

        return stream_from_thread(work, self._thread, on_stop=request.stop_now.set)

    async def prefill(self, prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Evaluate the part of a prompt that does not depend on the next user message.

        A stream that starts meanwhile ends it after the current batch and continues from there; cancellation stops the
        engine within the batch.

        Returns:
            Number of evaluated tokens.

        Raises:
            GenerationError: The engine failed.
        """
        request = self._prefill = PrefillRequest(prompt)

        def compute(_emit: Emit[StreamItem]) -> None:
            # in place of the stream's own event: a prompt that arrives meanwhile sets this one, and closes no stream
            self._stop = request.stop_now
            self._run_prefill(request)

        async with aclosing(self._run(compute, request)) as items:
            async for _ in items:
                pass
        return request.evaluated_tokens

    def keep_states(self, limit_bytes: int) -> None:
        """Keep the states of several conversations in memory. No stream may be open."""
        self._kept_prompts.limit_memory(limit_bytes)

    def resume_conversation(self, folder: Path) -> None:
        """Use the state in a folder for the next prompt that begins with it."""
        size: int = self._engine.n_vocab()
        for text, ids in read_replies(folder).items():
            if max(ids, default=size) < size and self._engine.detokenize(ids, special=True) == text.encode():
                self._tokenizer.remember_reply("", text, ids)
        self._kept_prompts.resume(folder)

    async def keep_conversation(self, folder: Path, prompt: Sequence[Message]) -> None:
        """Keep the state of a prompt in a folder, where it is loaded faster than evaluated.

        Raises:
            GenerationError: The engine failed.
        """

        def compute(_emit: Emit[StreamItem]) -> None:
            if self._can_generate and not self.projector:
                self._report_progress = lambda: None
                if self._kept_prompts.keep_conversation(folder, render):
                    write_replies(folder, self._tokenizer.list_replies(self._template(prompt)))

        def render() -> tuple[list[int], list[int]]:
            return self._stable_prefix(prompt), self._render_beginning(prompt)

        async with aclosing(self._run(compute, PrefillRequest(()))) as items:
            async for _ in items:
                pass

    @property
    def loses_conversation(self) -> bool:
        """Whether the state of the last prompt is not kept when another one replaces it, or not all of it."""
        return self._kept_prompts.loses_current

    @property
    def cached_tokens(self) -> int:
        """Number of tokens in the KV cache, also while the engine is running."""
        return int(self._engine.n_tokens)

    def render_request(self, prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> str:
        """Return the rendered prompt with its control tokens; pictures and sounds by their placeholders."""
        pieces = self._template(prompt)
        text = "".join(piece.media.placeholder if piece.media else piece.text for piece in pieces)
        with self._use_vocabulary():
            return (read_token_text(self._engine, self._engine.token_bos()) if self._adds_bos(pieces) else "") + text

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Return the length of the prompt in tokens, template included."""
        pieces = self._template(prompt)
        with self._use_vocabulary():
            return len(self._tokenize(pieces))

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int:
        """Return how many tokens of the prompt are in the KV cache."""
        pieces = self._template(prompt)
        with self._use_vocabulary():
            return self._kept_prompts.count_cached(self._tokenize(pieces))

    @contextmanager
    def _use_vocabulary(self) -> Iterator[None]:
        """Keep the engine from being freed inside the context.

        Everything else of the engine is used on its own thread. Its vocabulary never changes, and llama.cpp reads it
        from several threads at once; a count that waited for the evaluation of a prompt would delay the keyboard.

        Raises:
            GenerationError: The model was unloaded.
        """
        with self._vocabulary_lock:
            if self._is_closed:
                raise unloaded()
            yield

    async def aclose(self) -> None:
        """End the thread and free the engine."""
        self._stop.set()
        if self._prefill:
            self._prefill.stop_now.set()
        # In this order: the thread uses everything below, so it ends first. Counts of other threads read the vocabulary
        # under the lock; a count that outlived its model ended the API server with SIGSEGV. The projector
        # and the other contexts use the model's weights.
        self._thread.shutdown(wait=True)
        with self._vocabulary_lock:
            self._is_closed = True
        if self.projector:
            self.projector.close()
        for context in (self._embedder, self._scorer):
            if context:
                context.close()
        self._engine.close()

    def _load_projector(self, path: Path) -> MediaProjector:
        from .media_projector import MediaProjector

        try:
            projector = MediaProjector(path, self._engine, self._is_stopped)
        except ModelError:
            self._engine.close()
            raise
        self._engine.projector = projector
        return projector

    def _is_stopped(self) -> bool:
        """Return whether to abort; llama.cpp asks this again and again while it evaluates."""
        self._report_progress()
        return self._stop.is_set()

    def _progress_reporter(self, reply: _Reply, emit: Emit[StreamItem]) -> Callable[[], None]:
        """Return a function that reports each evaluated batch of the prompt; `engine.n_tokens` counts them."""
        reported, total = reply.reused_tokens, reply.prompt_tokens - reply.reused_tokens

        def report() -> None:
            nonlocal reported
            if reported < self._engine.n_tokens < reply.prompt_tokens:
                reported = self._engine.n_tokens
                done = reported - reply.reused_tokens
                emit(Reading(done, total, done / (time.monotonic() - reply.started_at)))

        return report

    def _run_prefill(self, request: PrefillRequest) -> None:
        """Prefill, on the engine's thread."""
        if not self._can_generate:
            return
        self._report_progress = lambda: None
        tokens = self._stable_prefix(request.prompt)
        if len(tokens) >= self.context_tokens or request.is_stopped:
            return
        kept = self._kept_prompts
        unsaved_beginning = kept.restore(tokens, partial(self._render_beginning, request.prompt))
        cached = kept.count_cached(tokens)
        if len(tokens) - cached < MIN_PREFILL_TOKENS:
            return
        started_at = time.monotonic()
        try:
            kept.save_beginning(unsaved_beginning, lambda: request.is_stopped)
            self._engine.evaluate_prompt(tokens, lambda: request.is_stopped)
        finally:
            request.evaluated_tokens = max(0, self._engine.n_tokens - cached)
            kept.record_speed(request.evaluated_tokens, time.monotonic() - started_at)

    def _stable_prefix(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of messages that no next user message changes; empty if no user message may follow."""
        try:
            # rendered, not computed: only the template knows what it writes before a question, and only the tokenizer
            # where a token ends that the question would change
            one, other = (self._tokenize(self._template([*messages, Message("user", text)])) for text in "ab")
        except ModelError:
            return []
        return common_prefix(one, other)

    def _render_beginning(self, prompt: Sequence[Message]) -> list[int]:
        """Return the tokens of the system text and tools of a prompt."""
        return self._stable_prefix([message for message in prompt[:1] if message.role == "system"])

    def _generate(
        self,
        render: Callable[[], Sequence[Piece]],
        prompt: Sequence[Message],
        generation: Generation,
        emit: Emit[StreamItem],
        grammar: CallGrammar | NoCalls | None,
        scored_tokens: int | None,
    ) -> None:
        """Generate one reply, on the engine's thread. `render` returns the prompt in pieces."""
        self._require_text()
        started_at = time.monotonic()
        pieces = render()
        tokens = self._tokenize(pieces)
        max_tokens = min(generation.max_tokens, self.context_tokens - len(tokens))
        if max_tokens <= 0:
            raise prompt_too_long(len(tokens), self.context_tokens)
        if not tokens:
            raise GenerationError("The prompt has no tokens in the vocabulary of the model.", "Use another model.")
        kept = self._kept_prompts
        unsaved_beginning = kept.restore(tokens, partial(self._render_beginning, prompt) if prompt else None)
        reply = _Reply(
            prompt_tokens=len(tokens),
            reused_tokens=kept.count_cached(tokens),
            max_tokens=max_tokens,
            started_at=started_at,
        )
        evaluated_from = time.monotonic()
        reply_prefix = find_reply_prefix(pieces)
        if reply_prefix:
            emit(reply_prefix)
        self._report_progress = self._progress_reporter(reply, emit)
        temperature = self._choose_temperature(generation)
        constraint = self._make_constraint(grammar, pieces) if grammar else None
        try:
            kept.save_beginning(unsaved_beginning)
            draft = self._expect_reply(prompt, grammar) if scored_tokens is None else []
            sampled = self._sample_tokens(tokens, generation, temperature, constraint, draft)
            self._emit_tokens(sampled, reply, emit, constraint, scored_tokens)
        except RuntimeError:
            if not self._stop.is_set():
                raise
        finally:
            if constraint:
                constraint.close()
        # also a reply that was stopped: what there is of it stays in the conversation
        self._tokenizer.remember_reply(reply_prefix, "".join(reply.text), reply.token_ids)
        kept.record_speed(reply.prompt_tokens - reply.reused_tokens, reply.first_token_at - evaluated_from)
        kept.measure_current()
        emit(reply.make_usage(stopped=self._stop.is_set()))

    def _require_text(self) -> None:
        """Raise NotSupportedError if the model generates no text."""
        if not self._can_generate:
            hint = "Use a model that generates text; rkllm-chat serve openai offers the embeddings of this one."
            raise NotSupportedError("The model generates no text: it only computes embeddings.", hint)

    def _expect_reply(self, prompt: Sequence[Message], grammar: CallGrammar | NoCalls | None) -> list[int]:
        """Return the tokens of the call whose results the prompt ends with: small models often write it once more.

        35 % of what Qwen2.5-Coder 0.5B generated in tool turns were such repetitions, 17 % of the 1.5B's.
        """
        if not isinstance(grammar, CallGrammar):
            return []
        said = [message.text for message in prompt if message.role == "assistant"]
        if not said or prompt[-1].role == "assistant" or not CallDetector(grammar).feed(said[-1]):
            return []
        return self._tokenizer.encode([Piece(said[-1], special=False)])

    def _make_constraint(self, grammar: CallGrammar | NoCalls, pieces: Sequence[Piece]) -> Constraint:
        if isinstance(grammar, NoCalls):
            return CallProhibition(self._engine, grammar, find_reply_prefix(pieces))
        end = pieces[-1].text if pieces[-1].special else ""
        opened = next((marker for marker in grammar.triggers if end.endswith(marker)), "")
        return CallConstraint(self._engine, self._vocabulary, grammar, find_reply_prefix(pieces), opened)

    def _emit_tokens(
        self,
        sampled: Iterator[int],
        reply: _Reply,
        emit: Emit[StreamItem],
        constraint: Constraint | None,
        scored_tokens: int | None,
    ) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in sampled:
            reply.first_token_at = reply.first_token_at or time.monotonic()
            reply.has_ended = self._is_end_token(token)
            # control tokens are included: in some families one opens a call, and only the last one ends the reply
            data = b"" if reply.has_ended else self._engine.detokenize([token], special=True)
            text = decoder.decode(data, final=reply.has_ended)
            if scored_tokens is not None and not reply.has_ended:
                emit(score_token(self._engine, token, scored_tokens))
            if text:
                reply.text.append(text)
                emit(text)
            if reply.has_ended:
                break
            reply.token_ids.append(token)
            if constraint:
                constraint.add_token(token, text)
            # a single token is evaluated without asking whether to abort (see `eval`), so a stop is seen here
            if len(reply.token_ids) >= reply.max_tokens or self._stop.is_set():
                break

    def _choose_temperature(self, generation: Generation) -> float:
        temperature = generation.temperature
        if temperature is None:
            temperature = self.header.get_figure("general.sampling.temp", 0, _MAX_TEMPERATURE)
        return _FALLBACK_TEMPERATURE if temperature is None else temperature

    def _sample_tokens(
        self,
        tokens: list[int],
        generation: Generation,
        temperature: float,
        constraint: Constraint | None,
        draft: Sequence[int],
    ) -> Iterator[int]:
        # for each reply: the engine keeps a seed, and the next client's request would continue with it
        self._engine.set_seed(_RANDOM_SEED if generation.seed is None else generation.seed)
        sampled: Iterator[int] = self._engine.generate(
            tokens,
            draft,
            temp=temperature,
            top_k=generation.top_k,
            top_p=generation.top_p,
            min_p=generation.min_p,
            repeat_penalty=generation.repeat_penalty,
            logits_processor=[constraint.mask_logits] if constraint else None,
        )
        return sampled

    def _tokenize(self, pieces: Sequence[Piece], is_new: bool = False) -> list[int]:
        tokens = self._tokenizer.encode(pieces, is_new)
        return [self._engine.token_bos(), *tokens] if self._adds_bos(pieces) else tokens

    def _adds_bos(self, pieces: Sequence[Piece]) -> bool:
        """Return whether the tokenizer puts a BOS token before a prompt, which the template does not begin with."""
        wants_bos = self.header.get_flag("tokenizer.ggml.add_bos_token")
        return bool(wants_bos) and self._tokenizer.encode(pieces[:1])[:1] != [self._engine.token_bos()]

    def _is_ended_by_token(self, stop_sequence: str) -> bool:
        """Return whether a stop sequence is also ordinary text, as `</s>`, and the vocabulary ends replies with it."""
        tokens = self._encode(Piece(stop_sequence, special=True))
        return bool(_MARKUP.fullmatch(stop_sequence)) and len(tokens) == 1 and self._is_end_token(tokens[0])

    def _encode(self, piece: Piece) -> list[int]:
        data = piece.text.encode("utf-8", errors="replace")
        tokens: list[int] = self._engine.tokenize(data, add_bos=False, special=piece.special)
        return tokens


@dataclass(frozen=True)
class CheckedModel:
    """A GGUF that can be loaded.

    Attributes:
        path: The file.
        context_tokens: Its context tokens; 0 for the model's own.
        trial: How it ran in a process of its own.
        notices: What the user should know of them.
    """

    path: Path
    context_tokens: int
    trial: Trial
    notices: Sequence[Sentence]


def check_llama(settings: Settings) -> CheckedModel:
    """Try the GGUF of the settings, by default the small model that ships; blocks while a new one is tried.

    Raises:
        ModelError: It cannot be loaded, or llama.cpp is missing.
    """
    path = resolve_model(settings.model)
    check_library(settings.llama_library, path.name)
    context_tokens, reduced = fit_context(settings, path)
    threads = count_threads(choose_cores())
    parameters = EngineParameters(settings.context_tokens, settings.llama_library, threads, settings.gpu_layers)
    trial = try_model(path, parameters, find_projector(path, settings.mmproj), context_tokens)
    return CheckedModel(path, context_tokens, trial, (reduced,) if reduced else ())


def open_llama(settings: Settings) -> LlamaBackend:
    """Load the GGUF of the settings.

    Raises:
        ModelError: It cannot be loaded.
    """
    model = check_llama(settings)
    states = state_folder() / "prompt-caches" if settings.keep_prefix else None
    backend = LlamaBackend(
        model.path,
        model.context_tokens,
        {"on": True, "off": False}.get(settings.thinking),
        states,
        choose_cores(),
        settings.llama_library,
        settings.mmproj,
        settings.family,
        settings.gpu_layers,
        extra_buffers=model.trial.extra_buffers,
    )
    backend.load_notices = (*backend.load_notices, *model.notices)
    return backend
