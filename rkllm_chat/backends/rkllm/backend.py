"""The Rockchip NPU: a `.rkllm` model run by librkllmrt.so in a child process.

The conversation is rendered here and the runtime's own template is disabled, so that the KV cache can be reused up to
an exact token; `template = "runtime"` and native tools are the exceptions (see `prompt_planners.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from threading import Event
from typing import Any

from ...calls.grammar import CallGrammar, NoCalls
from ...calls.model_families import find_family
from ...config.loader import state_folder
from ...config.settings import Generation, Settings, Thinking
from ...core.errors import GenerationError, ModelError, NotSupportedError, prompt_too_long
from ...core.events import Reading, Sentence, Usage
from ...core.messages import MediaKind, Message, Tool
from ...core.user_paths import expand_home
from ...prompt.pieces import Piece, join_text
from ...prompt.profiles import select_profile
from ..base import ModelStream, StoppableStream, StreamItem, TextEmbedding
from ..shared.model_files import read_beginning, read_parameter_count
from ..shared.prompt_tokens import PromptTokenizer, load_tokenizer
from ..shared.stop_sequences import Ending, StopDetector
from ..shared.thread_stream import Emit, PrefillRequest, stream_from_thread
from .abi import LIBRARY_SOURCE, find_encoder_library, find_layout, find_library, read_release
from .kept_prompts import KeptPrompts
from .layouts import LAYOUT_OF_RELEASE
from .model_file import TOKENIZER_FILE
from .options import (
    check_release,
    choose_history,
    find_template,
    make_fixed_options,
    make_sampling_parameters,
    name_by_family,
    read_model_template,
)
from .prompt_planners import RenderedPromptPlanner, RolePromptPlanner, RunPlan, keep_newest_pictures
from .runtime import ContextLimitError, PromptLengthError, RunSummary, Runtime, WorkerConfig, WorkerLostError
from .vision_families import PICTURE_TAG, find_encoder
from .worker_client import StoppedError

CONTEXT_TOKENS = 4096
"""Context window if the settings name none."""
_FIRST_WITH_STATES = "1.2.3"
"""First release whose last hidden layer is used."""
_WITHOUT_STATES = tuple(takewhile(lambda release: release != _FIRST_WITH_STATES, LAYOUT_OF_RELEASE))
_OPENED_THOUGHT = "<think>\n"
_MARKER_TOKENS = 2
"""Number of tokens around a picture where no tokenizer counts them."""
_MIN_MEASURED_TOKENS = 32
"""Minimum number of prefilled tokens for a measurement of speed."""
_MIN_PREFILL_TOKENS = 16
"""Minimum number of tokens to prefill; a run for fewer is not worth the extra token that it generates."""

log = logging.getLogger(__name__)


@dataclass
class _Reply:
    """One reply while it is generated. Times are of the monotonic clock."""

    plan: RunPlan
    max_tokens: int
    stop_detector: StopDetector
    text: list[str] = field(default_factory=list[str])
    token_ids: list[int] = field(default_factory=list[int])
    started_at: float = field(default_factory=time.monotonic)
    first_token_at: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the reply has its maximum length."""
        return len(self.token_ids) >= self.max_tokens

    @property
    def is_repeating(self) -> bool:
        """Whether the reply repeats itself and has to end."""
        return self.stop_detector.is_repeating

    def add_token(self, text: str, token: int | None) -> str:
        """Record a token and return the text that may be shown."""
        self.first_token_at = self.first_token_at or time.monotonic()
        had_ended = self.stop_detector.ending is not None
        shown = self.stop_detector.feed(text)
        self.text.append(shown)
        if token is not None and not had_ended and self.stop_detector.ending is not Ending.STOP_SEQUENCE:
            self.token_ids.append(token)
        return shown

    def finish(self) -> str:
        """Return the text that was delayed as a possible stop sequence."""
        self.text.append(self.stop_detector.close())
        return self.text[-1]

    def make_usage(self, summary: RunSummary, is_stopped: bool) -> Usage:
        """Return the runtime's figures if the release reports them, else what was counted and measured here."""
        figures, now = summary.figures, time.monotonic()
        first_token_at = self.first_token_at or now
        prompt, prefilled = self.plan.prompt_tokens, int(figures.get("prefill_tokens", self.plan.prompt_tokens))
        if isinstance(self.plan.prompt, str) and summary.cached_tokens is not None:
            evaluated = len(self.token_ids)
            if is_stopped or self.is_full or self.is_repeating:
                # it may have generated more than was received; its count is without the last token, which is not cached
                evaluated = int(figures.get("generate_tokens", evaluated))
            prompt = max(prefilled, summary.cached_tokens - evaluated)
        prefilled = min(prompt, prefilled)
        return Usage(
            prompt_tokens=prompt,
            reused_tokens=prompt - prefilled,
            prefilled_tokens=prefilled,
            generated_tokens=len(self.token_ids),
            prefill_s=figures.get("prefill_time_ms", 1000 * (first_token_at - self.started_at)) / 1000,
            generate_s=figures.get("generate_time_ms", 1000 * (now - first_token_at)) / 1000,
            first_token_s=first_token_at - self.started_at,
            hit_limit=not is_stopped and self.is_full and not self.is_repeating,
            was_repeating=not is_stopped and self.is_repeating,
        )


class RkllmBackend:
    """A model on the NPU.

    Attributes:
        name: Name of the model file.
        template: Name of the chat template.
        family: Model family, from the file name and the template.
        parameter_count: Number of parameters that the file name states; 0 if none.
        context_tokens: Size of the context window: prompt and reply together.
        native_tools: Whether tools are passed to the runtime's own template.
        history: "client": the whole prompt is sent and the runtime reuses its beginning; "runtime": only new text is
            sent; "whole": the whole prompt is sent and evaluated (releases 1.1.x can do neither).
        media_kinds: "image" if there is a vision encoder.
    """

    profile = ""
    supports_grammar = False

    def __init__(self, settings: Settings, library: Path, model: Path) -> None:
        """Load a model.

        Args:
            settings: The settings.
            library: Path of librkllmrt.so.
            model: Path of the `.rkllm` file.

        Raises:
            ModelError: The model cannot be loaded.
            ConfigError: The settings are invalid.
        """
        release = read_release(library)
        layout = find_layout(release, settings.rkllm.layout)
        check_release(settings, release, layout)
        self.name = model.name
        self.parameter_count = read_parameter_count(model.name)
        self.template = Path(settings.rkllm.template).name
        named = name_by_family(settings, model)
        self.family = find_family([named.stem], read_model_template(settings.rkllm.template, named))
        self.context_tokens = settings.context_tokens or CONTEXT_TOKENS
        self.native_tools = settings.rkllm.native_tools
        self.history = choose_history(settings, layout, named.name)
        self._thinking = settings.thinking
        self._uses_lora = bool(settings.rkllm.lora)
        self._has_warned = False
        self._encoder = find_encoder(model, settings.rkllm.encoder)
        # releases 1.1.x and 1.2.0 take one picture in a run
        self._max_pictures = 1 if layout < "E" else None
        self._planner, self._stop_sequences = self._make_planner(settings, model)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rkllm")
        self._prefill: PrefillRequest | None = None
        self._kept: KeptPrompts | None = None
        self._cached_tokens, self._prefill_tokens_per_s = 0, 0.0
        self._runtime = self._load(self._make_config(settings, library, model), settings, layout)
        self.media_kinds: frozenset[MediaKind] = frozenset(("image",) if self._runtime.image_tokens else ())
        self._planner.picture_tokens = self._runtime.image_tokens + self._marker_tokens
        if self.history == "client" and isinstance(self._planner, RenderedPromptPlanner):
            rkllm = settings.rkllm
            engine = f"rkllm {self._runtime.release} {self.context_tokens} {rkllm.lora} {rkllm.lora_scale}"
            self._kept = KeptPrompts(
                self._runtime, self._planner, model, engine, self._uses_lora, is_on=rkllm.prompt_cache
            )

    def _make_planner(
        self, settings: Settings, model: Path
    ) -> tuple[RenderedPromptPlanner | RolePromptPlanner, Sequence[str]]:
        """Return the planner of prompts and the stop sequences of its template."""
        family = self._encoder[1] if self._encoder else None
        controls = family.controls if family else ()
        self._marker_tokens = _MARKER_TOKENS
        if self.native_tools or settings.rkllm.template == "runtime":
            return RolePromptPlanner(self.native_tools, self._choose_reply_prefix(), controls), ()
        template = find_template(settings, name_by_family(settings, model))
        encode = load_tokenizer(model.with_name(TOKENIZER_FILE))
        if family and encode:
            self._marker_tokens = sum(len(encode(Piece(text, special=True))) for text in (family.start, family.end))
        planner = RenderedPromptPlanner(
            lambda messages: template(messages, {"on": True, "off": False}.get(self._thinking)),
            lambda pieces: join_text(map(_write_tag, pieces), template, more_controls=controls),
            PromptTokenizer(encode, template) if encode else None,
            only_new=self.history == "runtime",
        )
        return planner, template.stop_sequences

    def _choose_reply_prefix(self) -> str:
        """Return the beginning of each reply that the runtime's own template is assumed to write."""
        return _OPENED_THOUGHT if self.family.starts_in_thought and self._thinking != "off" else ""

    def set_thinking(self, thinking: Thinking) -> None:
        """Switch reasoning from the next reply on: it is a part of each prompt, or of rkllm's input."""
        self._thinking = thinking
        if isinstance(self._planner, RolePromptPlanner):
            self._planner.reply_prefix = self._choose_reply_prefix()

    def _make_config(self, settings: Settings, library: Path, model: Path) -> WorkerConfig:
        path, family = self._encoder or (None, None)
        return WorkerConfig(
            library,
            settings.rkllm.layout,
            model,
            state_folder() / "logs" / "rkllm.log",
            make_fixed_options(settings, self.context_tokens, family),
            settings.rkllm.lora,
            settings.rkllm.lora_scale,
            disables_template=isinstance(self._planner, RenderedPromptPlanner),
            timeout_s=settings.rkllm.timeout_s,
            encoder=path,
            encoder_library=find_encoder_library(library) if path else None,
            markers=(family.start, family.end, family.content) if family else ("", "", ""),
        )

    def _load(self, config: WorkerConfig, settings: Settings, layout: str) -> Runtime:
        """Load the model; if it has less context than the default, and none is set, load it with its own.

        Releases before 1.3.0 sample as they were loaded: as with tools, so that the first turn does not load it again.
        """
        profile = select_profile(settings.prompt_profile, self.profile, self.family)
        sampling = profile.select_sampling(bool(settings.servers) and not self.native_tools, settings.origins)
        options = self._make_options(replace(settings.generation, **sampling), layout)
        try:
            return Runtime(config, options, self._record_cache_loss)
        except ContextLimitError as error:
            if settings.context_tokens or not 0 < error.limit_tokens < self.context_tokens:
                raise
            self.context_tokens = error.limit_tokens
            fixed_options = {**config.fixed_options, "max_context_len": error.limit_tokens}
            return Runtime(replace(config, fixed_options=fixed_options), options, self._record_cache_loss)

    def _record_cache_loss(self) -> None:
        """Record that the KV cache is empty."""
        self._planner.record_cache_loss()
        self._cached_tokens = 0
        if self._kept:
            self._kept.forget_loaded()

    def resume_conversation(self, folder: Path) -> None:
        """Use the prompt cache in a folder for the next prompt that begins with it."""
        if self._kept:
            self._kept.resume_conversation(folder)

    async def keep_conversation(self, folder: Path, prompt: Sequence[Message]) -> None:
        """Let the runtime write what it has evaluated of a prompt into a folder, where that saves time.

        Raises:
            GenerationError: The runtime failed.
        """

        def work(_emit: Emit[StreamItem], stop: Event) -> None:
            if self._kept:
                self._kept.keep_conversation(folder, prompt, stop, self._prefill_tokens_per_s)

        async with aclosing(stream_from_thread(work, self._thread, self._runtime.wake)) as items:
            async for _ in items:
                pass

    @property
    def loses_conversation(self) -> bool:
        """Whether another prompt replaces what is in the KV cache; releases that reuse nothing have nothing to lose."""
        return self.history != "whole"

    def keep_beginnings(self) -> None:
        """Keep system text and tools of several conversations in files, as soon as they return."""
        if self._kept:
            self._kept.keep_beginnings()

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        _grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Generate a reply: yield text chunks, then its Usage; also a Sentence before something that takes long.

        Closing the stream asks the runtime to end. While the runtime evaluates the prompt it cannot; the next run
        waits for it then and says so.

        Raises:
            GenerationError: The runtime failed, or the prompt leaves no room.
        """

        def work(emit: Emit[StreamItem], stop: Event) -> None:
            try:
                self._generate(prompt, generation, tools, emit, stop)
            except StoppedError:
                return
            except WorkerLostError as error:
                # what is on the screen cannot be taken back, and a second attempt would be another reply
                if error.details.get("has_text"):
                    raise
                log.warning("The NPU runtime died before its first token; trying once more: %s", error)
                self._generate(prompt, generation, tools, emit, stop)

        prefill = self._prefill or PrefillRequest(prompt)
        # said at once: the runtime cannot be interrupted while it evaluates, so this waits for the prefill to end
        first = [Sentence("npu.waiting")] if self._prefill else []
        return stream_from_thread(work, self._thread, lambda: self._abort_prefill(prefill), first)

    async def prefill(self, prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Evaluate the part of a prompt that does not depend on the next user message, if the runtime reuses it.

        It cannot be interrupted: a stream that starts meanwhile waits, since it needs the same tokens; after
        cancellation the runtime finishes on its own.

        Returns:
            Number of evaluated tokens.

        Raises:
            GenerationError: The runtime failed.
        """
        prefill = self._prefill = PrefillRequest(prompt)

        def work(_emit: Emit[StreamItem], _stop: Event) -> None:
            try:
                prefill.evaluated_tokens = self._run_prefill(prefill)
            except StoppedError:
                return

        try:
            stream = stream_from_thread(work, self._thread, on_stop=lambda: self._abort_prefill(prefill))
            async with aclosing(stream) as items:
                async for _ in items:
                    pass
        finally:
            self._prefill = None
        return prefill.evaluated_tokens

    def embed(self, texts: Sequence[str]) -> StoppableStream[TextEmbedding]:
        """Yield the hidden state of the last token of each text, in order; the KV cache of the chat is lost.

        Raises:
            NotSupportedError: The release has no hidden states, or texts reach it only through its own template.
            GenerationError: A text does not fit, or the runtime failed.
        """

        def work(emit: Emit[TextEmbedding], stop: Event) -> None:
            planner, release = self._planner, self._runtime.release
            if self._runtime.layout < "F" or release in _WITHOUT_STATES:
                message = f"Release {release} of the NPU runtime has no embeddings."
                raise NotSupportedError(message, f"Use release {_FIRST_WITH_STATES} or a newer one.")
            if not isinstance(planner, RenderedPromptPlanner):
                message = "The runtime's own chat template, which the settings name, changes texts."
                raise NotSupportedError(message, "Set another template under [rkllm] for embeddings.")
            try:
                for _ in self._runtime.prepare(self._runtime.options, stop):
                    pass  # a notice for a chat
                for index, text in enumerate(texts):
                    emit(self._embed(planner, text, index, stop))
            except StoppedError:
                return
            finally:
                self._record_cache_loss()
                if self._runtime.is_ready:
                    self._runtime.execute_command("clear")

        return stream_from_thread(work, self._thread, self._runtime.wake)

    def _embed(self, planner: RenderedPromptPlanner, text: str, index: int, stop: Event) -> TextEmbedding:
        """Compute the embedding of one text, on the thread that communicates with the worker."""
        prompt, tokens = planner.write_text(text)
        if isinstance(prompt, list) and tokens > self.context_tokens:
            raise _text_too_long(index, tokens, self.context_tokens)
        self._runtime.execute_command("clear")  # of tokens that are in the KV cache no states are computed
        try:
            summary = self._runtime.run(
                tokens, lambda *_: False, stop, prompt=prompt, lora=self._uses_lora, embeds=True
            )
        except PromptLengthError as error:
            raise _text_too_long(index, *map(int, error.details["figures"])) from None
        if summary is None or stop.is_set():
            raise StoppedError
        if not summary.last_state:
            raise GenerationError("The NPU runtime returned no hidden states.", "Try another release of it.")
        return TextEmbedding(summary.last_state, summary.state_tokens)

    def render_request(self, prompt: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        """Return the rendered prompt with its control tokens, or what the runtime's own template is given, as JSON."""
        return self._planner.render(self._limit_pictures(prompt), tools)

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Return the length of the prompt in tokens.

        Without a tokenizer, it is an estimate that adapts to the runtime's figures.
        """
        return self._planner.count_tokens(self._limit_pictures(prompt))

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int | None:
        """Return how many tokens of the prompt are in the KV cache; 0 for releases that cannot reuse it."""
        return 0 if self.history == "whole" else self._planner.count_cached_tokens(self._limit_pictures(prompt))

    def _limit_pictures(self, prompt: Sequence[Message]) -> Sequence[Message]:
        """Keep as many pictures as the release takes in one run: the newest one before 1.2.1b1, else all."""
        return prompt if self._max_pictures is None else keep_newest_pictures(prompt, self._max_pictures)

    async def aclose(self) -> None:
        """End the worker. Streams must be closed before."""
        # first, since a run on it still talks to the worker
        self._thread.shutdown(wait=True)
        self._runtime.close()

    def _abort_prefill(self, prefill: PrefillRequest) -> None:
        prefill.stop_now.set()
        self._runtime.wake()

    def _generate(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool],
        emit: Emit[StreamItem],
        stop: Event,
    ) -> None:
        """Generate one reply, on the thread that communicates with the worker."""
        # before the plan, which counts on the KV cache: a new worker has an empty one
        for notice in self._runtime.prepare(self._make_options(generation, self._runtime.layout), stop):
            emit(notice)
        if self._runtime.has_old_driver and not self._has_warned:
            self._has_warned = True
            emit(Sentence("npu.old_driver"))
        plan = self._planner.plan(self._limit_pictures(prompt), tools)
        max_tokens = min(generation.max_tokens, self.context_tokens - plan.prompt_tokens)
        if max_tokens <= 0:
            raise prompt_too_long(plan.prompt_tokens, self.context_tokens)
        self._prepare_cache(plan, prompt, stop)
        if plan.reply_prefix:
            emit(plan.reply_prefix)
        reply = _Reply(plan, max_tokens, StopDetector(self._stop_sequences))
        emit(Reading(0, max(1, plan.prompt_tokens - self._cached_tokens), self._prefill_tokens_per_s))
        try:
            summary = self._run_plan(reply, generation, emit, stop)
        except WorkerLostError as error:
            error.details["has_text"] = bool(reply.text)
            raise
        if rest := reply.finish():
            emit(rest)
        is_stopped = stop.is_set()
        self._record_reply(reply, summary, is_stopped)
        usage = reply.make_usage(summary or RunSummary(), is_stopped)
        self._record_usage(usage, is_measured=summary is not None and "prefill_tokens" in summary.figures)
        if reply.is_repeating:
            is_garbage = reply.stop_detector.ending is Ending.GARBAGE
            emit(Sentence("npu.garbage" if is_garbage else "chat.circle"))
        emit(usage)

    def _prepare_cache(self, plan: RunPlan, prompt: Sequence[Message], stop: Event) -> None:
        """Bring the KV cache and the tools of the runtime into the state that a plan assumes."""
        # releases 1.1.x keep no cache that could be cleared
        if plan.clears_cache and self._runtime.layout != "C":
            self._runtime.execute_command("clear")
            if self._kept:
                self._kept.forget_loaded()
        if plan.tools:
            self._runtime.execute_command("set_tools", system=plan.tools[0], tools=plan.tools[1], tag="tool_response")
        if self._kept:
            self._kept.load_prefix(prompt, stop, self._prefill_tokens_per_s)

    def _run_plan(
        self, reply: _Reply, generation: Generation, emit: Emit[StreamItem], stop: Event
    ) -> RunSummary | None:
        """Run a planned prompt and emit the text of its reply."""

        def on_token(text: str, token: int | None) -> bool:
            had_ended = reply.stop_detector.ending is not None
            if shown := reply.add_token(text, token):
                emit(shown)
            # the engine missed the end of the reply, or would continue a repetition or a reply that is full
            return had_ended or reply.is_full or reply.is_repeating

        plan = reply.plan
        return self._runtime.run(
            plan.prompt_tokens,
            on_token,
            stop,
            prompt=plan.prompt,
            role=plan.role,
            thinking=self._thinking != "off",
            keep_history=plan.keep_history,
            lora=self._uses_lora,
            max_new_tokens=reply.max_tokens,
            sampling=make_sampling_parameters(generation),
            pictures=[{"path": media.path, "sha256": media.sha256} for media in plan.pictures],
        )

    def _record_reply(self, reply: _Reply, summary: RunSummary | None, is_stopped: bool) -> None:
        """Record what the KV cache contains after a run. Raises GenerationError if the run did not finish."""
        is_complete = not (is_stopped or reply.is_full or reply.is_repeating)
        self._planner.record_reply(reply.plan, "".join(reply.text), reply.token_ids, is_complete)
        # rkllm_run has returned without FINISH: what its cache has now is not known
        if summary is not None and not summary.is_finished and not is_stopped:
            self._planner.record_cache_loss()
            raise GenerationError("The NPU runtime returned before its reply was complete.", "Try it again.")

    def _record_usage(self, usage: Usage, *, is_measured: bool) -> None:
        """Record the size of the KV cache and the speed of prefill; `is_measured`: the runtime counted the prompt."""
        if is_measured:
            self._planner.calibrate(usage.prompt_tokens)
        self._cached_tokens = usage.prompt_tokens + usage.generated_tokens
        if usage.prefilled_tokens >= _MIN_MEASURED_TOKENS and usage.prefill_s:
            self._prefill_tokens_per_s = usage.prefilled_tokens / usage.prefill_s

    def _run_prefill(self, prefill: PrefillRequest) -> int:
        """Prefill, on the thread that communicates with the worker; return the number of evaluated tokens."""
        planner, kept = self._planner, self._kept
        if not (isinstance(planner, RenderedPromptPlanner) and kept and self._runtime.is_ready):
            return 0
        prefix = planner.stable_prefix(prefill.prompt)
        new_tokens = planner.count_new_tokens(prefix)
        if prefill.is_stopped or not _MIN_PREFILL_TOKENS <= new_tokens < self.context_tokens:
            return 0
        evaluated = kept.load_prefix(prefill.prompt, prefill.stop_now, self._prefill_tokens_per_s)
        if missing_tokens := planner.count_new_tokens(prefix):
            evaluated += kept.evaluate(prefix, prefill.stop_now, missing_tokens) or 0
        if self._runtime.is_ready and not prefill.is_stopped:
            planner.record_prefill(prefix)
            self._cached_tokens = len(prefix) if isinstance(prefix, list) else new_tokens
        return evaluated

    def _make_options(self, generation: Generation, layout: str) -> dict[str, Any]:
        """Return sampling options set at load time; from release 1.3.0 on they are passed with each run instead."""
        if layout >= "G":
            return {}
        return {**make_sampling_parameters(generation), "max_new_tokens": generation.max_tokens}


def _text_too_long(index: int, tokens: int, room: int) -> GenerationError:
    message = f"Text {index} is {tokens} tokens long, the context holds {room}."
    return GenerationError(message, index=index, needed=tokens, available=room)


def _write_tag(piece: Piece) -> Piece:
    """Return the tag of a picture; any other piece as it is."""
    return Piece(PICTURE_TAG, special=True) if piece.media else piece


def check_rkllm(settings: Settings) -> tuple[Path, Path]:
    """Return the library and the model of the settings, without loading either.

    Raises:
        ModelError: One is missing or cannot be used.
        ConfigError: The settings are invalid, or nothing says which template the model needs.
    """
    model = expand_home(settings.model)
    if not settings.model:
        raise ModelError("The NPU backend needs a model.", "Give a .rkllm file with --model.")
    read_beginning(model, "Give a .rkllm file with --model.")
    library = find_library(settings.rkllm.library)
    if library is None:
        places = settings.rkllm.library or "the usual places"
        hint = (
            f"It is published at {LIBRARY_SOURCE}; take release 1.2.2 or 1.3.1. Set library under [rkllm] to its path; "
            "rkllm-chat doctor shows more."
        )
        raise ModelError(f"librkllmrt.so was not found in {places}.", hint)
    release = read_release(library)
    check_release(settings, release, find_layout(release, settings.rkllm.layout))
    if not settings.rkllm.native_tools and settings.rkllm.template != "runtime":
        find_template(settings, name_by_family(settings, model))
    return library.absolute(), model.absolute()  # links are not resolved: files beside a link count


def open_rkllm(settings: Settings) -> RkllmBackend:
    """Load the `.rkllm` model of the settings.

    Raises:
        ModelError: The model or the library is missing or cannot be loaded.
        ConfigError: The settings are invalid.
    """
    return RkllmBackend(settings, *check_rkllm(settings))
