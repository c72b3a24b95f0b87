"""Amounts in few characters: tokens, seconds, bars, and the status line of a sitting. Pure: it measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .clean import clean_line
from .forecast import Forecast
from .language import Words

FULL, EMPTY = "█", "░"
SEPARATOR = " · "


@dataclass(frozen=True)
class Status:
    """What the status line tells. Tokens are 0 and speeds 0.0 where nothing is known; `npu` is in percent.

    `price` is what the line that is typed would cost; it takes the place of the model and the context.
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
    price: Forecast | None = None


def status_line(status: Status, words: Words, width: int) -> str:
    """The status in at most `width` cells; what comes last is left out first.

    >>> from rkllm_chat.language import load
    >>> status_line(Status("tiny.gguf", 1, 1, 9, 3100, 8192, 23.4), load(), 100)
    'tiny.gguf · ctx 3.1k / 8.2k (38%) · 23.4 tok/s · 1/1 servers · 9 tools'
    """
    parts = [describe_price(status.price, words, width)] if status.price else [clean_line(status.model)]
    if status.context_tokens and not status.price:
        used, whole = thousands(status.used_tokens), thousands(status.context_tokens)
        share = round(100 * status.used_tokens / status.context_tokens)
        parts.append(words("status.context", used=used, whole=whole, share=share))
    if status.tokens_per_s:
        parts.append(words("status.speed", tokens=rate(status.tokens_per_s)))
    if status.npu is not None:
        parts.append(f"NPU {status.npu}%")
    if status.celsius is not None:
        parts.append(f"{status.celsius:.0f} °C")
    if status.servers:
        parts.append(words("status.servers", up=status.servers_up, all=status.servers))
        parts.append(words("status.tools", count=status.tools))
    return fit(parts, width)


def describe_price(price: Forecast, words: Words, width: int) -> str:
    """What a prompt costs, in as many words as there is room for.

    >>> from rkllm_chat.language import load
    >>> [describe_price(Forecast(1840, 4096, 1510, 3.2), load(), width) for width in (60, 30, 12)]
    ['1,840 tokens, 1,510 cached, 330 new, about 3 s', '330 new, about 3 s', 'about 3 s']
    """
    from rich.cells import cell_len

    forms = price_forms(price, words)
    return next((form for form in forms if cell_len(form) <= width), forms[-1])


def price_forms(price: Forecast, words: Words) -> list[str]:
    """The same in fewer and fewer words."""
    total = words("price.total", total=f"{price.total:,}")
    if not price.fits:
        return [words("price.over", total=f"{price.total:,}", room=f"{price.room:,}"), total]
    if price.new is None:
        return [total]
    new = words("price.new", new=f"{price.new:,}")
    whole = words("price.whole", total=f"{price.total:,}", cached=f"{price.cached:,}", new=f"{price.new:,}")
    if not price.seconds:
        return [whole, new]
    time = words("price.time", time=roughly(price.seconds))
    timed = [words("price.timed", price=form, time=time) for form in (whole, new)]
    return [*timed, time]


def fit(parts: Sequence[str], width: int) -> str:
    """As many of the parts as there is room for, the first ones first."""
    from rich.cells import cell_len, set_cell_size

    line = ""
    for part in filter(None, parts):
        longer = f"{line}{SEPARATOR}{part}" if line else part
        if cell_len(longer) > width:
            break
        line = longer
    return line or set_cell_size(next(iter(parts), ""), max(0, width)).rstrip()


def thousands(tokens: int) -> str:
    """`980`, `3.1k`, `12k`."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 10_000 else f"{tokens / 1000:.0f}k"


def rate(tokens_per_s: float) -> str:
    """`3.42`, `23.4`, `1,150`."""
    return f"{tokens_per_s:.3g}" if tokens_per_s < 100 else f"{tokens_per_s:,.0f}"


def seconds(time_s: float) -> str:
    """`0.02 s`, `3.4 s`, `75 s`, `12 min`."""
    if time_s < 1:
        return f"{time_s:.2f} s"
    if time_s < 10:
        return f"{time_s:.1f} s"
    return f"{time_s:.0f} s" if time_s < 120 else f"{time_s / 60:.0f} min"


def roughly(time_s: float) -> str:
    """A time that is foretold: `0.1 s`, `3 s`, `75 s`, `12 min`."""
    if time_s < 0.95:
        return f"{max(0.1, time_s):.1f} s"
    return f"{time_s:.0f} s" if time_s < 120 else f"{time_s / 60:.0f} min"


def bar(done: float, total: float, width: int = 10) -> str:
    """How much is done, in `width` cells; it never says all before it is.

    >>> bar(3, 10)
    '███░░░░░░░'
    """
    share = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
    full = int(share * width)
    return FULL * full + EMPTY * (width - full)
