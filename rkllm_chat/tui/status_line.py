"""Format token counts, times, progress bars and the status line. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..chat.prefill import CostEstimate
from ..core.i18n import Words
from ..core.sanitize import shorten_line

_FULL, EMPTY = "█", "░"
SEPARATOR = " · "
_MIN_MEASURED_S = 0.01
_MIN_NAME = 16


def format_context(used_tokens: int, context_tokens: int, is_assumed: bool, words: Words) -> tuple[str, str]:
    """Format how much of the context is used, in full and short; the size may be an assumption.

    >>> from rkllm_chat.core.i18n import load
    >>> format_context(3100, 8192, False, load()), format_context(3100, 4096, True, load())
    (('ctx 3.1k / 8.2k (38%)', 'ctx 38%'), ('ctx 3.1k / 4.1k?', 'ctx 76%?'))
    """
    used, whole = format_tokens(used_tokens), format_tokens(context_tokens)
    share = min(100, round(100 * used_tokens / context_tokens))  # a refused message may be larger
    key = "status.context_assumed" if is_assumed else "status.context"
    short = words("status.context_short", share=share) + ("?" if is_assumed else "")
    return words(key, used=used, whole=whole, share=share), short


def join_shortened(parts: Mapping[str, str], steps: Iterable[tuple[str, str]], width: int) -> str:
    """Join the parts in at most `width` cells: the name is shortened, then one step after another is taken.

    Args:
        parts: The parts by what they are, in the order in which they are shown; "" for none. One is the `name`.
        steps: A part and what is shown instead of it, "" for nothing.
        width: The width.

    >>> parts = {"name": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "context": "ctx 0 / 8.2k (0%)", "tools": "9 tools"}
    >>> steps = [("tools", ""), ("name", ""), ("context", "ctx 0%")]
    >>> for width in (48, 40, 20, 8):
    ...     print(join_shortened(parts, steps, width))
    qwen2.5-coder-0.5… · ctx 0 / 8.2k (0%) · 9 tools
    qwen2.5-coder-0… · ctx 0 / 8.2k (0%)
    ctx 0 / 8.2k (0%)
    ctx 0%
    """
    from rich.cells import cell_len, set_cell_size

    shown = dict(parts)
    line = SEPARATOR.join(filter(None, shown.values()))
    name = parts["name"]
    shortened = shorten_line(name, max(_MIN_NAME, len(name) - (cell_len(line) - width)))
    for part, text in (("name", shortened), *steps):
        if cell_len(line) <= width:
            break
        shown[part] = text if shown[part] else ""
        line = SEPARATOR.join(filter(None, shown.values()))
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width)).rstrip()


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
