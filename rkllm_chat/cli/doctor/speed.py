"""Measure how fast the configured model runs: `rkllm-chat doctor --speed`.

Each measurement runs through the backend of the chat, so it includes what the program adds to the engine. Prompts begin
differently, so that none is found in the KV cache. The reply is generated behind the prompt that was just evaluated:
its speed is that at this depth, as llama-bench's `-d`.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from ...backends import Backend, choose_backend, find_engine_of, open_backend
from ...config.loader import load_settings
from ...config.named_settings import replace_setting
from ...config.settings import Settings
from ...core.errors import ChatError, UsageError
from ...core.events import Usage
from ...core.messages import Message
from ...core.sanitize import sanitize_line
from ...core.version import __version__
from ..output import write_output, write_result
from .board import Board, format_size
from .machine import read_conditions, read_machine_name

PROMPT_TOKENS = (128, 1024, 4096)
REPLY_TOKENS = 64
_CONTEXT_TOKENS = 4096 + 128  # the longest prompt and its reply; a multiple of 32, as the NPU requires
_WARM_UP_TOKENS = 32
_MIN_SHARE = 0.75
"""A prompt that the context shortens to less than this share of the intended length is not measured."""
_MEASURED_S, _MAX_RUNS = 2.0, 5
"""A prompt length is measured until so much time is measured, at most so often."""
_MAX_REPLIES = 8
"""Maximum number of replies behind one prompt, where the model ends them early."""
_WORD = " stone"
_THREADS = ("prefill_threads", "decode_threads")  # attributes of the backend of llama.cpp


@dataclass(frozen=True)
class Row:
    """Speed at one prompt length.

    Attributes:
        intended_tokens: Intended length of the prompt.
        prompt_tokens: Its length; 0 if it was not measured.
        prefill_tokens_per_s: Evaluated tokens per second, the median of the runs.
        decode_tokens_per_s: Generated tokens per second behind this prompt; None if all replies ended at once.
        first_token_s: Seconds to the first token, the median of the runs.
        runs: Number of runs.
        problem: Why it was not measured; "" if it was.
    """

    intended_tokens: int
    prompt_tokens: int = 0
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    first_token_s: float | None = None
    runs: int = 0
    problem: str = ""


@dataclass(frozen=True)
class EngineReport:
    """Measurements of one engine.

    Attributes:
        backend: Row of BACKENDS.
        engine: Name and release of the engine.
        model: Name of the model file.
        size_bytes: Size of the model file; 0 if there is none.
        before: State of the machine before the model was loaded.
        after: State of the machine after the last measurement, with the model loaded.
        context_tokens: Size of the context window; 0 if the model was not loaded.
        rows: One per prompt length.
        prefill_threads: Threads that evaluate a prompt; 0 if the engine does not report them, as the NPU's.
        decode_threads: Threads that generate tokens.
        problem: Why the engine was not measured; "" if it was.
    """

    backend: str
    engine: str
    model: str
    size_bytes: int
    before: Mapping[str, str]
    after: Mapping[str, str] = field(default_factory=dict[str, str])
    context_tokens: int = 0
    rows: tuple[Row, ...] = ()
    prefill_threads: int = 0
    decode_threads: int = 0
    problem: str = ""


def measure_speed(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Measure, print the table or the document and return the exit code. Raises ChatError if no model is measured."""
    settings = load_settings(options.config, environment)
    chosen = [replace_setting(settings, "model", model) for model in options.model or ()]
    jobs = [_prepare(variant) for variant in chosen or [settings]]
    board = Board(Path("/"), settings, environment)
    machine = read_machine_name(board)
    is_quiet = options.output == "json" and not sys.stderr.isatty()
    results = _measure_engines(jobs, board, _ignore if is_quiet else _print_progress)
    if options.output == "json":
        write_result({"program": __version__, "machine": machine, "engines": [asdict(result) for result in results]})
    else:
        write_output(_format_table(machine, results))
    return 0


def _prepare(settings: Settings) -> Settings:
    """Return the settings for a measurement. Raises UsageError."""
    if not find_engine_of(settings).describe(settings):
        hint = "Give a .gguf or .rkllm file with --model."
        raise UsageError(f"doctor --speed measures a model file, not {settings.model}.", hint)
    return replace(
        settings,
        context_tokens=settings.context_tokens or _CONTEXT_TOKENS,
        keep_prefix=False,
        rkllm=replace(settings.rkllm, prompt_cache=False),
        generation=replace(settings.generation, max_tokens=REPLY_TOKENS),
    )


def _measure_engines(jobs: Sequence[Settings], board: Board, report: Callable[[str], None]) -> list[EngineReport]:
    """Measure each engine; the report of one that fails says why. Raises ChatError if all fail."""
    results: list[EngineReport] = []
    errors: list[ChatError] = []
    for job in jobs:
        engine = find_engine_of(job)
        model = engine.identify(job)
        size_bytes = model.file.stat().st_size if model.file and model.file.is_file() else 0
        name = choose_backend(job)
        result = EngineReport(name, engine.describe(job), model.name, size_bytes, read_conditions(board))
        if size_bytes:
            report(f"loading {model.name}")
        try:
            result = asyncio.run(_measure_engine(job, board, result, report))
        except ChatError as error:
            errors.append(error)
            result = replace(result, after=read_conditions(board), problem=str(error))
        report("")
        results.append(result)
    if len(errors) == len(jobs):
        raise errors[0]
    return results


async def _measure_engine(
    settings: Settings, board: Board, result: EngineReport, report: Callable[[str], None]
) -> EngineReport:
    """Load a model and measure it at each prompt length. Raises ChatError."""
    backend = _open(settings)
    try:
        seeds = count(1)
        await _run(backend, settings, _make_prompt(backend, _WARM_UP_TOKENS, next(seeds)))
        rows: list[Row] = []
        for tokens in PROMPT_TOKENS:
            report(f"{result.model}: {tokens} tokens")
            try:
                rows.append(await _measure_length(backend, settings, tokens, seeds))
            except ChatError as error:
                rows.append(Row(tokens, problem=str(error)))
        threads: dict[str, Any] = {name: getattr(backend, name, 0) for name in _THREADS}
        return replace(
            result, context_tokens=backend.context_tokens, rows=tuple(rows), after=read_conditions(board), **threads
        )
    finally:
        await backend.aclose()


def _open(settings: Settings) -> Backend:
    """Load the model; if it was converted for less context, with as much as it has."""
    from ...backends.rkllm.runtime import ContextLimitError

    try:
        return open_backend(settings)
    except ContextLimitError as error:
        return open_backend(replace(settings, context_tokens=error.limit_tokens))


async def _measure_length(backend: Backend, settings: Settings, intended: int, seeds: Iterable[int]) -> Row:
    """Measure prefill and decode at one prompt length."""
    tokens = min(intended, backend.context_tokens - REPLY_TOKENS)
    if tokens < _MIN_SHARE * intended:
        return Row(intended, problem=f"the context holds {backend.context_tokens} tokens")
    runs: list[Usage] = []
    replies: list[Usage] = []
    for seed in seeds:
        prompt = _make_prompt(backend, tokens, seed)
        runs.append(await _run(backend, settings, prompt))
        replies.append(runs[-1])
        for _ in range(_MAX_REPLIES):
            if sum(map(_count_steps, replies)) >= REPLY_TOKENS - 1:
                break
            replies.append(await _run(backend, settings, prompt))
        if sum(run.prefill_s for run in runs) >= _MEASURED_S or len(runs) == _MAX_RUNS:
            break
    steps, seconds = sum(map(_count_steps, replies)), sum(reply.generate_s for reply in replies if _count_steps(reply))
    return Row(
        intended,
        runs[-1].prompt_tokens,
        median(run.prefilled_tokens / run.prefill_s if run.prefill_s else 0.0 for run in runs),
        steps / seconds if steps and seconds else None,
        median(run.first_token_s for run in runs),
        len(runs),
    )


def _count_steps(usage: Usage) -> int:
    """Return the tokens that were generated in `generate_s`, which begins with the first token."""
    return max(0, usage.generated_tokens - 1)


def _make_prompt(backend: Backend, tokens: int, seed: int) -> list[Message]:
    """Return a prompt of at most so many tokens, as long as whole words allow, that begins with a number of its own."""
    low, high = 0, tokens

    def make(words: int) -> list[Message]:
        return [Message("user", f"{seed}{_WORD * words}")]

    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if backend.count_tokens(make(middle)) <= tokens else (low, middle - 1)
    return make(low)


async def _run(backend: Backend, settings: Settings, prompt: Sequence[Message]) -> Usage:
    """Generate one reply and return its cost. Raises GenerationError."""
    usage = Usage()
    async with aclosing(backend.stream(prompt, settings.generation)) as stream:
        async for item in stream:
            if isinstance(item, Usage):
                usage = item
    return usage


def _format_table(machine: str, results: Sequence[EngineReport]) -> str:
    """Format the measurements as text, with the state of the machine below each engine."""
    lines = [f"rkllm-chat {__version__} on {sanitize_line(machine)}, Python {platform.python_version()}"]
    for result in results:
        what = f"{sanitize_line(result.engine)}: {sanitize_line(result.model)}"
        lines += ["", f"{what}, {format_size(result.size_bytes)}" if result.size_bytes else what]
        if result.problem:
            lines.append(f"  not measured: {sanitize_line(result.problem)}")
        else:
            lines.append(f"{'prompt':>8} {'prefill/s':>10} {'decode/s':>10} {'first token':>12}")
        lines += [_format_row(row) for row in result.rows]
        if result.decode_threads:
            lines.append(f"  threads: {result.prefill_threads} for prefill, {result.decode_threads} for decode")
        for name in dict.fromkeys((*result.before, *result.after)):
            before, after = (sanitize_line(state.get(name, "-")) for state in (result.before, result.after))
            lines.append(f"  {name}: {before} before, {after} after")
    return "\n".join(lines) + "\n"


def _format_row(row: Row) -> str:
    """Format the speed at one prompt length."""
    if row.problem:
        return f"{row.intended_tokens:>8} not measured: {sanitize_line(row.problem)}"
    decode = "-" if row.decode_tokens_per_s is None else f"{row.decode_tokens_per_s:.1f}"
    return f"{row.prompt_tokens:>8} {row.prefill_tokens_per_s:>10.1f} {decode:>10} {row.first_token_s:>10.2f} s"


def _ignore(_text: str) -> None:
    """Show nothing."""


def _print_progress(text: str) -> None:
    """Show what is being measured: in one line of a terminal, else a line each."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{sanitize_line(text)}")
    elif text:
        sys.stderr.write(f"{sanitize_line(text)}\n")
    sys.stderr.flush()
