"""The Rockchip NPU: a `.rkllm` model through librkllmrt.so, which lives in a child process. It knows no tools.

The conversation is rendered by us and the runtime's own template is switched off, so that what the engine holds can be
reused to the token; `template = "runtime"` and native tools are the exceptions (see rkllm_prompts.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

from ..config import Generation, Settings
from ..discover import state_folder
from ..errors import GenerationError, ModelError, too_long
from ..events import Reading, Sentence, Usage
from ..families import find_family
from ..grammar import CallGrammar
from ..messages import Message, Tool
from ..templates import Template, join_text
from .beginnings import Beginnings
from .push import Ahead, Emit, stream_pushed
from .rkllm_abi import find_library, read_release
from .rkllm_layouts import RELEASES
from .rkllm_link import StoppedError
from .rkllm_options import check_release, choose_history, find_template, fixed_options, read_source, sampling_of
from .rkllm_prompts import Plan, Rendered, Roles
from .rkllm_runtime import Runtime, Start
from .stops import Stops
from .tokens import PromptTokens, read_tokenizer

CONTEXT_TOKENS = 4096
THOUGHT = "<think>\n"

Item = str | Usage | Sentence | Reading

LEAST_READ = 32
"""Fewer tokens than this say nothing about the speed of reading."""
FEWEST_AHEAD = 16
"""Fewer tokens are not worth a run of their own, which writes one token for nothing."""

log = logging.getLogger(__name__)


@dataclass
class Reply:
    """One reply while it is written. Times are of the monotonic clock."""

    plan: Plan
    room: int
    stops: Stops
    text: list[str] = field(default_factory=list[str])
    ids: list[int] = field(default_factory=list[int])
    begun: float = field(default_factory=time.monotonic)
    first: float = 0.0
    is_cut: bool = False

    def take(self, text: str, token: int | None) -> str:
        """Notes a token; gives what of its text may be shown."""
        self.first = self.first or time.monotonic()
        had_ended = bool(self.stops.ending)
        shown = self.stops.feed(text)
        self.text.append(shown)
        if token is not None and not had_ended and self.stops.ending != "said":
            self.ids.append(token)
        return shown

    def close(self) -> str:
        """What was held back as a possible end."""
        self.text.append(self.stops.close())
        return self.text[-1]

    def usage(self, done: dict[str, Any], stopped: bool) -> Usage:
        """The runtime's own figures where the release gives them, else what was counted and timed here."""
        figures, now = done.get("figures") or {}, time.monotonic()
        first = self.first or now
        prompt, prefilled = self.plan.tokens, int(figures.get("prefill_tokens", self.plan.tokens))
        if isinstance(self.plan.prompt, str) and done.get("held") is not None:
            prompt = max(prefilled, done["held"] - len(self.ids))
        prefilled = min(prompt, prefilled)
        return Usage(
            prompt_tokens=prompt,
            reused_tokens=prompt - prefilled,
            prefilled_tokens=prefilled,
            generated_tokens=len(self.ids),
            prefill_s=figures.get("prefill_time_ms", 1000 * (first - self.begun)) / 1000,
            generate_s=figures.get("generate_time_ms", 1000 * (now - first)) / 1000,
            first_token_s=first - self.begun,
            hit_limit=not stopped and (self.is_cut or self.stops.ending == "circle"),
        )


class Rkllm:
    """A model on the NPU. `name` is its file's name; `context_tokens` holds prompt and answer.

    `history` is "client" (all is sent, the runtime reuses the beginning), "runtime" (only what is new is sent) or
    "whole" (all is sent and evaluated: releases 1.1.x have neither).
    """

    prompt_language = ""
    tools_share: float | None = None
    few_tools: bool | None = None
    constrains = False

    def __init__(self, settings: Settings, library: Path, model: Path) -> None:
        self.name = model.name
        self.template = Path(settings.rkllm.template).name
        self.family = find_family([model.stem], read_source(settings.rkllm.template))
        self.context_tokens = settings.context_tokens or CONTEXT_TOKENS
        self.native_tools = settings.rkllm.native_tools
        self._thinking = settings.thinking != "off"
        release = read_release(library)
        family = RELEASES.get(release, "")
        check_release(settings, release, family)
        self.history = choose_history(settings, family, model.name)
        by_roles = self.native_tools or settings.rkllm.template == "runtime"
        if by_roles:
            self._ends: Sequence[str] = ()
            opens_thought = self.family.opens_thought and self._thinking
            self._way: Rendered | Roles = Roles(self.native_tools, THOUGHT if opens_thought else "")
        else:
            template = find_template(settings, model)
            self._ends = template.ends
            self._way = self._render(template, settings, model)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rkllm")
        start = Start(
            library,
            model,
            state_folder() / "logs" / "rkllm.log",
            fixed_options(settings, self.context_tokens),
            settings.rkllm.lora,
            settings.rkllm.lora_scale,
            template_off=not by_roles,
            silence_s=settings.rkllm.timeout_s,
        )
        self._uses_lora = bool(settings.rkllm.lora)
        self._runtime = self._load(start, settings, family)
        keeps = settings.rkllm.prompt_cache and self.history == "client" and isinstance(self._way, Rendered)
        maker = f"rkllm {self._runtime.release} {self.context_tokens} {settings.rkllm.lora} {settings.rkllm.lora_scale}"
        self._files = Beginnings(state_folder() / "prompt-caches", model, maker) if keeps else None
        self._ahead: Ahead | None = None
        self._warmed: str | list[int] = ""
        self._held_tokens, self._speed = 0, 0.0

    def _load(self, start: Start, settings: Settings, family: str) -> Runtime:
        """The runtime; where nobody asked for a context and ours is more than the model has, with the model's."""
        options = self._options(settings.generation, family)
        try:
            return Runtime(start, options, self._lose)
        except ModelError as error:
            limit = int((error.details.get("figures") or (0, 0))[-1])
            if settings.context_tokens or not 0 < limit < self.context_tokens:
                raise
            self.context_tokens = limit
            fixed = {**start.fixed, "max_context_len": limit}
            return Runtime(replace(start, fixed=fixed), options, self._lose)

    def _lose(self) -> None:
        """The runtime holds nothing any more."""
        self._way.forget()
        self._held_tokens, self._warmed = 0, ""

    def _render(self, template: Template, settings: Settings, model: Path) -> Rendered:
        thinking = {"on": True, "off": False}.get(settings.thinking)
        encode = read_tokenizer(model.with_name("tokenizer.json"))
        return Rendered(
            lambda messages: template(messages, thinking),
            lambda pieces: join_text(pieces, template),
            PromptTokens(encode, template) if encode else None,
            only_new=self.history == "runtime",
        )

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        _grammar: CallGrammar | None = None,
    ) -> AsyncGenerator[Item, bool | None]:
        """Pieces of the reply as they are written, then its Usage; a Sentence where something takes its time.

        Raises GenerationError when the runtime fails. Closing the stream asks the runtime to end; it cannot while it
        reads the prompt, so then the next run waits for it, and says so.
        """

        def work(emit: Emit[Item], stop: Event) -> None:
            try:
                self._write(prompt, generation, tools, emit, stop)
            except StoppedError:
                return

        ahead = self._ahead or Ahead(prompt)
        first = [Sentence("npu.waiting")] if self._ahead else []
        return stream_pushed(work, self._thread, lambda: self._halt(ahead), first)

    async def prefill(self, prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Has the runtime read of a prompt what stays whatever a user says next, where it reuses beginnings.

        Gives how many tokens it evaluated. It cannot be ended in the middle: a stream that comes meanwhile waits for
        it, since it needs the same; cancelling it leaves the runtime to end it alone. Raises GenerationError.
        """
        ahead = self._ahead = Ahead(prompt)

        def work(_emit: Emit[Item], _stop: Event) -> None:
            try:
                ahead.evaluated = self._read_ahead(ahead)
            except StoppedError:
                return

        try:
            async with aclosing(stream_pushed(work, self._thread, on_stop=lambda: self._halt(ahead))) as pushed:
                async for _ in pushed:
                    pass
        finally:
            self._ahead = None
        return ahead.evaluated

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """How many tokens the prompt is; without a tokenizer an estimate that learns from the runtime's figures."""
        return self._way.count(prompt)

    def count_held(self, prompt: Sequence[Message]) -> int | None:
        """How many tokens of the prompt the runtime holds; releases that reuse nothing hold nothing."""
        return 0 if self.history == "whole" else self._way.count_held(prompt)

    async def aclose(self) -> None:
        """Ends the worker. Streams must be closed before."""
        self._thread.shutdown(wait=True)
        self._runtime.close()

    def _write(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool],
        emit: Emit[Item],
        stopping: Event,
    ) -> None:
        """One reply, on the thread that talks to the worker."""
        for key in self._runtime.prepare(self._options(generation, self._runtime.family), stopping):
            emit(Sentence(f"npu.{key}"))
        plan = self._way.plan(prompt, tools)
        room = min(generation.max_tokens, self.context_tokens - plan.tokens)
        if room <= 0:
            raise too_long(plan.tokens, self.context_tokens)
        if plan.clear and self._runtime.family != "C":
            self._runtime.ask("clear")
        if plan.tools:
            self._runtime.ask("set_tools", system=plan.tools[0], tools=plan.tools[1], tag="tool_response")
        self._warm(prompt, stopping)
        if plan.thought:
            emit(plan.thought)
        self._take(Reply(plan, room, Stops(self._ends)), generation, emit, stopping)

    def _halt(self, ahead: Ahead) -> None:
        ahead.aborted.set()
        self._runtime.wake()

    def _read_ahead(self, ahead: Ahead) -> int:
        """On the thread that talks to the worker; gives how many tokens were evaluated."""
        way = self._way
        if not (isinstance(way, Rendered) and self.history == "client" and self._runtime.is_ready):
            return 0
        lasting = way.lasting(ahead.prompt)
        tokens = way.count_new(lasting)
        if ahead.is_ended or not FEWEST_AHEAD <= tokens < self.context_tokens:
            return 0
        evaluated = self._warm(ahead.prompt, ahead.aborted)
        if lasting != self._warmed:
            evaluated += self._evaluate(lasting, ahead.aborted, tokens) or 0
        if self._runtime.is_ready and not ahead.is_ended:
            way.was_read(lasting)
            self._held_tokens = len(lasting) if isinstance(lasting, list) else tokens
        return evaluated

    def _evaluate(self, beginning: str | list[int], stopping: Event, tokens: int, save_cache: str = "") -> int | None:
        """Has the runtime hold a prompt's beginning, of which so many tokens are new, as far as we know.

        Gives how many it evaluated, None if it was stopped.
        """
        done = self._runtime.run(
            len(beginning),
            lambda *_: True,
            stopping,
            prompt=beginning,
            lora=self._uses_lora,
            max_new_tokens=1,
            save_cache=save_cache,
        )
        return None if done is None or stopping.is_set() else int(done["figures"].get("prefill_tokens", tokens))

    def _warm(self, prompt: Sequence[Message], stopping: Event) -> int:
        """Brings the prompt's beginning into the runtime from a file, or evaluates it and writes the file.

        Gives how many tokens were evaluated.
        """
        if self._files is None:
            return 0
        way = self._way
        assert isinstance(way, Rendered)
        beginning, evaluated = way.beginning(prompt), 0
        if beginning == self._warmed:
            return 0

        def write(path: Path) -> bool:
            nonlocal evaluated
            tokens = self._evaluate(beginning, stopping, way.count_new(beginning), str(path))
            evaluated = tokens or 0
            return tokens is not None

        path = self._files.find(beginning)
        try:
            if path:
                self._runtime.ask("load_cache", path=str(path))
            else:
                self._files.save(beginning, write)
            self._warmed = "" if stopping.is_set() else beginning
        except GenerationError as error:  # it only saves time; the talk goes on without
            log.warning("prompt cache %s: %s", path, error)
            if path:
                self._files.remove(path)
            self._files = None
        return evaluated

    def _take(self, reply: Reply, generation: Generation, emit: Emit[Item], stopping: Event) -> None:
        """Runs a planned reply to its end."""
        plan = reply.plan

        def on_piece(text: str, token: int | None) -> bool:
            had_ended = bool(reply.stops.ending)
            if shown := reply.take(text, token):
                emit(shown)
            reply.is_cut = len(reply.ids) >= reply.room
            # a token behind the end: the engine missed it; a circle or a full reply: it would go on
            return had_ended or reply.is_cut or reply.stops.ending == "circle"

        emit(Reading(0, max(1, plan.tokens - self._held_tokens), self._speed))
        done = self._runtime.run(
            plan.tokens,
            on_piece,
            stopping,
            prompt=plan.prompt,
            role=plan.role,
            thinking=self._thinking,
            keep_history=plan.keep_history,
            lora=self._uses_lora,
            max_new_tokens=reply.room,
            sampling=sampling_of(generation),
        )
        stopped = stopping.is_set()
        if rest := reply.close():
            emit(rest)
        ended = not (stopped or reply.is_cut or reply.stops.ending == "circle")
        self._way.answered(plan, "".join(reply.text), reply.ids, whole=ended)
        if done is not None and not done["finished"] and not stopped:
            self._way.forget()
            raise GenerationError("The NPU runtime came back without having ended its reply.", "Try it again.")
        usage = reply.usage(done or {}, stopped)
        if done and "prefill_tokens" in done["figures"]:
            self._way.learn(usage.prompt_tokens)
        self._note(usage)
        if reply.stops.ending == "circle":
            emit(Sentence("chat.circle"))
        emit(usage)

    def _note(self, usage: Usage) -> None:
        """Learns what the runtime holds now, and how fast it reads."""
        self._held_tokens = usage.prompt_tokens + usage.generated_tokens
        if usage.prefilled_tokens >= LEAST_READ and usage.prefill_s:
            self._speed = usage.prefilled_tokens / usage.prefill_s

    def _options(self, generation: Generation, family: str) -> dict[str, Any]:
        """What is fixed when the model is loaded; from 1.3.0 on sampling is told with each run instead."""
        return {} if family == "G" else {**sampling_of(generation), "max_new_tokens": generation.max_tokens}


def open_rkllm(settings: Settings) -> Rkllm:
    """Loads the `.rkllm` model of the settings. Raises ModelError or ConfigError."""
    model = Path(settings.model).expanduser()
    if not settings.model:
        raise ModelError("The NPU needs a model of its own.", "Name a .rkllm file with --model.")
    try:
        empty = not model.stat().st_size
        model.open("rb").close()
    except OSError as error:
        raise ModelError(f"{model}: {error.strerror}.", "Give a .rkllm file with --model.", path=str(model)) from None
    if empty:
        raise ModelError(f"{model}: the file is empty.", "Was it downloaded to its end?", path=str(model))
    library = find_library(settings.rkllm.library)
    if library is None:
        where = settings.rkllm.library or "the usual places"
        hint = "Name librkllmrt.so as library under [rkllm] in the configuration; rkllm-chat doctor tells more."
        raise ModelError(f"librkllmrt.so is not in {where}.", hint)
    return Rkllm(settings, library.absolute(), model.absolute())  # not resolved: what lies beside a link counts
