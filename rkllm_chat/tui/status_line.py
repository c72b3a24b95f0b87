"""Format token counts, times, progress bars and the status line. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..chat.prefill import CostEstimate
from ..config.policy import SessionMode
from ..core.i18n import Words
from ..core.sanitize import sanitize_line, shorten_line

_FULL, EMPTY = "█", "░"
SEPARATOR = " · "
_MIN_MEASURED_S = 0.01
_MIN_NAME = 16


@dataclass(frozen=True)
class StatusValues:
    """The values of the status line; 0 and 0.0 mean unknown.

    Attributes:
        mode: The approval mode.
        npu: Load in percent.
        celsius: Temperature of the warmest sensor.
        cost: Cost estimate of the input line; it replaces the model and the context.
        is_context_assumed: Whether `context_tokens` is an assumption.
    """

    model: str = ""
    servers_up: int = 0
    servers: int = 0
    tools: int = 0
    used_tokens: int = 0
    context_tokens: int = 0
    tokens_per_s: float = 0.0
    npu: int | None = None
    celsius: float | None = None
    cost: CostEstimate | None = None
    mode: SessionMode | Literal["none", ""] = ""
    is_context_assumed: bool = False


def format_status(status: StatusValues, words: Words, width: int) -> str:
    """Return the status in at most `width` cells: the name of the model is shortened, then later parts are dropped.

    >>> from rkllm_chat.core.i18n import load
    >>> format_status(StatusValues("tiny.gguf", 1, 1, 9, 3100, 8192, 23.4), load(), 100)
    'tiny.gguf · ctx 3.1k / 8.2k (38%) · 23.4 tok/s · 1/1 server · 9 tools'
    >>> format_status(StatusValues("x", used_tokens=3100, context_tokens=4096, is_context_assumed=True), load(), 99)
    'x · ctx 3.1k / 4.1k?'
    >>> format_status(StatusValues("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 1, 1, 9, 0, 8192), load(), 60)
    'qwen2.5-coder-0.… · ctx 0 / 8.2k (0%) · 1/1 server · 9 tools'
    """
    from rich.cells import cell_len

    parts = [words(f"modes.{status.mode}")] if status.mode else []
    if status.cost:
        room = width - sum(cell_len(part) + len(SEPARATOR) for part in parts)
        cost = format_cost(status.cost, words, room)
        parts = [*parts, cost] if cell_len(cost) <= room else [format_cost(status.cost, words, width)]
    else:
        parts.append(sanitize_line(status.model))
    if status.context_tokens and not status.cost:
        used, whole = format_tokens(status.used_tokens), format_tokens(status.context_tokens)
        share = min(100, round(100 * status.used_tokens / status.context_tokens))  # a refused message may be larger
        key = "status.context_assumed" if status.is_context_assumed else "status.context"
        parts.append(words(key, used=used, whole=whole, share=share))
    if status.tokens_per_s:
        parts.append(words("status.speed", tokens=format_rate(status.tokens_per_s)))
    if status.npu is not None:
        parts.append(f"NPU {status.npu}%")
    if status.celsius is not None:
        parts.append(f"{status.celsius:.0f} °C")
    if status.servers:
        parts.append(words("status.servers", up=status.servers_up, all=status.servers))
        parts.append(words("status.tools", count=status.tools))
    excess = cell_len(SEPARATOR.join(filter(None, parts))) - width
    if excess > 0 and not status.cost:
        parts[1 if status.mode else 0] = shorten_line(status.model, max(_MIN_NAME, len(status.model) - excess))
    return join_fitting(parts, width)


def format_cost(cost: CostEstimate, words: Words, width: int | None = None) -> str:
    """Format a cost estimate; its first parts are dropped until it has at most `width` cells or one part is left.

    >>> from rkllm_chat.core.i18n import load
    >>> [format_cost(CostEstimate(1840, 4096, 1510, 3.2), load(), width) for width in (60, 30, 12)]
    ['1,840 tokens, 1,510 cached, 330 new, about 3 s', '330 new, about 3 s', 'about 3 s']
    """
    from rich.cells import cell_len

    total = f"{cost.total_tokens:,}"
    if not cost.is_within_budget:
        return words("price.over", total=total, room=f"{cost.budget_tokens:,}")
    parts = [words("price.time", time=_format_estimate(cost.prefill_s))] if cost.prefill_s else []
    if cost.new_tokens is not None:
        parts += [
            words("price.new", new=f"{cost.new_tokens:,}"),
            words("price.cached", cached=f"{cost.cached_tokens:,}"),
        ]
    line, *others = [*parts, words("price.total", total=total)]
    for part in others:
        longer = words("price.pair", first=part, second=line)
        if width is not None and cell_len(longer) > width:
            break
        line = longer
    return line


def join_fitting(parts: Sequence[str], width: int) -> str:
    """Join as many leading parts as fit into `width` cells."""
    from rich.cells import cell_len, set_cell_size

    line = ""
    for part in filter(None, parts):
        longer = f"{line}{SEPARATOR}{part}" if line else part
        if cell_len(longer) > width:
            break
        line = longer
    return line or set_cell_size(next(iter(parts), ""), max(0, width)).rstrip()


def format_tokens(tokens: int) -> str:
    """Format a token count: `980`, `3.1k`, `12k`."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 10_000 else f"{tokens / 1000:.0f}k"


def find_rate(tokens: int, time_s: float) -> float:
    """Return tokens per second; 0.0 if the time is too short to be measured.

    >>> find_rate(12, 0.5), find_rate(12, 0.0002), find_rate(0, 0.0)
    (24.0, 0.0, 0.0)
    """
    return tokens / time_s if time_s >= _MIN_MEASURED_S else 0.0


def format_rate(tokens_per_s: float) -> str:
    """Format a speed in tokens per second: `3.42`, `23.4`, `1,150`."""
    return f"{tokens_per_s:.3g}" if tokens_per_s < 100 else f"{tokens_per_s:,.0f}"


def format_seconds(time_s: float) -> str:
    """Format a measured time: `0.02 s`, `3.4 s`, `75 s`, `12 min`."""
    if time_s < 1:
        return f"{time_s:.2f} s"
    if time_s < 10:
        return f"{time_s:.1f} s"
    return f"{time_s:.0f} s" if time_s < 120 else f"{time_s / 60:.0f} min"


def _format_estimate(time_s: float) -> str:
    """Format an estimated time: `0.1 s`, `3 s`, `75 s`, `12 min`."""
    if time_s < 0.95:
        return f"{max(0.1, time_s):.1f} s"
    return f"{time_s:.0f} s" if time_s < 120 else f"{time_s / 60:.0f} min"


def progress_bar(done: float, total: float, width: int = 10) -> str:
    """Return a progress bar of `width` cells; full only when `done` reaches `total`.

    >>> progress_bar(3, 10)
    '███░░░░░░░'
    """
    share = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
    full = int(share * width)
    return _FULL * full + EMPTY * (width - full)
