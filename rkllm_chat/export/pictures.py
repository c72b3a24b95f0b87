"""Pictures of a talk as SVG: what took how long, how the context filled, which tools were used. Colours are the page's.

A drawing is WIDTH units wide, about a phone's width, so that its writing is readable there without zooming.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from ..clean import clean_line
from ..events import Usage
from ..language import Words
from ..messages import Status, ToolResult
from .turns import Told

WIDTH = 400
MOST_TURNS = 40
MOST_REPLIES = 120
MOST_TOOLS = 15
LONGEST_NAME = 40
ROW = 22
TOP, BOTTOM = 18, 16
HIGH = 150


@dataclass(frozen=True)
class Picture:
    """A drawing with its title, the classes and words of its key, and one sentence that says what it shows."""

    name: str
    title: str
    text: str
    key: Sequence[tuple[str, str]]
    height: int
    shapes: Sequence[str]

    def svg(self) -> str:
        """The drawing, its title and sentence within it for those who do not see it."""
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-labelledby="{self.name}-title {self.name}-text">'
            f'<title id="{self.name}-title">{safe(self.title)}</title>'
            f'<desc id="{self.name}-text">{safe(self.text)}</desc>{"".join(self.shapes)}</svg>'
        )


def draw(told: Told, words: Words) -> list[Picture]:
    """The pictures that there is something to draw for."""
    pictures = (draw_times(told, words), draw_context(told, words), draw_tools(told, words))
    return [picture for picture in pictures if picture]


def draw_times(told: Told, words: Words) -> Picture | None:
    """A bar for each turn: reading the prompt, writing the answer, tools."""
    kinds = ("read", "write", "run")
    times = [(turn.prefill_s, turn.generate_s, turn.tools_s) for turn in told.turns]
    most = max((sum(one) for one in times), default=0.0)
    if not most:
        return None
    first = max(0, len(times) - MOST_TURNS)
    shapes: list[str] = []
    for row, spent in enumerate(times[first:]):
        number, y = first + row + 1, row * ROW + 4
        shapes.append(label(22, y + 12, str(number), "end"))
        parts = [
            (kind, one, f"{words(f'export.{kind}')}: {seconds(one)}") for kind, one in zip(kinds, spent, strict=True)
        ]
        shapes += bars(28, y, 300, most, parts)
        shapes.append(label(WIDTH - 2, y + 12, seconds(sum(spent)), "end"))
    total = [seconds(sum(column)) for column in zip(*times, strict=True)]
    text = words("export.times_text", turns=len(times), read=total[0], write=total[1], tools=total[2])
    key = [(kind, words(f"export.{kind}")) for kind in kinds]
    return Picture("times", words("export.times"), text, key, (len(times) - first) * ROW + 4, shapes)


def draw_context(told: Told, words: Words) -> Picture | None:
    """A column for each reply: what was held already, what was read anew, what was written."""
    costs = [cost for turn in told.turns for cost in turn.costs if cost.prompt_tokens][-MOST_REPLIES:]
    if not costs:
        return None
    fullest = max(cost.prompt_tokens + cost.generated_tokens for cost in costs)
    room = max(told.setup.context_tokens, fullest)
    kinds = ("held", "read", "write")
    wide = min(24.0, (WIDTH - 4) / len(costs))
    shapes = [
        f'<line class="limit" x1="0" x2="{WIDTH}" y1="{TOP}" y2="{TOP}"/>',
        f'<line class="axis" x1="0" x2="{WIDTH}" y1="{TOP + HIGH}" y2="{TOP + HIGH}"/>',
        label(WIDTH - 2, TOP - 5, words("export.context", tokens=room), "end"),
    ]
    for column, cost in enumerate(costs):
        shapes += columns(2 + column * wide, wide, room, cost, words)
    shapes.append(label(2, TOP + HIGH + 13, words("export.replies", count=len(costs)), "start"))
    text = words("export.filled_text", tokens=fullest, room=room, percent=round(100 * fullest / room))
    key = [(kind, words(f"export.tokens_{kind}")) for kind in kinds]
    return Picture("filled", words("export.filled"), text, key, TOP + HIGH + BOTTOM, shapes)


def columns(x: float, wide: float, room: int, cost: Usage, words: Words) -> list[str]:
    """What one reply's prompt and text took of the context, from the bottom up."""
    shapes: list[str] = []
    bottom = float(TOP + HIGH)
    gap = 1.5 if wide > 6 else 0.0
    for kind, tokens in (
        ("held", cost.reused_tokens),
        ("read", cost.prefilled_tokens),
        ("write", cost.generated_tokens),
    ):
        high = HIGH * tokens / room
        bottom -= high
        if tokens:
            told = f"{words(f'export.tokens_{kind}')}: {tokens}"
            shapes.append(box(kind, x, bottom, wide - gap, high, told))
    return shapes


@dataclass
class Uses:
    """How often a tool was called, by how that ended, and how long it took in all."""

    ends: dict[Status, int] = field(default_factory=dict[Status, int])
    seconds: float = 0.0

    def add(self, result: ToolResult) -> None:
        self.ends[result.status] = self.ends.get(result.status, 0) + 1
        self.seconds += result.seconds

    @property
    def count(self) -> int:
        return sum(self.ends.values())


def draw_tools(told: Told, words: Words) -> Picture | None:
    """A bar for each tool, the most used first."""
    uses: dict[str, Uses] = {}
    for result in (result for turn in told.turns for result in turn.results):
        uses.setdefault(clean_line(result.tool), Uses()).add(result)
    if not uses:
        return None
    ranked = sorted(uses.items(), key=lambda one: (-one[1].count, one[0]))[:MOST_TOOLS]
    ends: tuple[Status, ...] = ("completed", "failed", "declined", "stopped")
    shapes: list[str] = []
    for row, (name, use) in enumerate(ranked):
        y = row * ROW * 2
        shapes.append(label(2, y + 14, name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…", "start"))
        shapes.append(label(WIDTH - 2, y + 14, f"{use.count} × · {seconds(use.seconds)}", "end"))
        parts = [
            (end, float(use.ends.get(end, 0)), f"{words(f'export.{end}')}: {use.ends.get(end, 0)}") for end in ends
        ]
        shapes += bars(2, y + 20, WIDTH - 4, ranked[0][1].count, parts)
    text = words("export.tools_text", calls=sum(use.count for use in uses.values()), tools=len(uses))
    key = [(end, words(f"export.{end}")) for end in ends if any(end in use.ends for use in uses.values())]
    return Picture("tools", words("export.used"), text, key, len(ranked) * ROW * 2, shapes)


def bars(x: float, y: float, wide: float, most: float, parts: Iterable[tuple[str, float, str]]) -> list[str]:
    """Parts (class, amount, words) one behind the other; `most` is as long as `wide`."""
    shapes: list[str] = []
    for kind, amount, told in parts:
        if amount:
            length = wide * amount / most
            shapes.append(box(kind, x, y, length, ROW - 8, told))
            x += length
    return shapes


def box(kind: str, x: float, y: float, wide: float, high: float, told: str) -> str:
    shape = f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(wide, 0.5):.1f}" height="{max(high, 0.5):.1f}">'
    return f"{shape}<title>{safe(told)}</title></rect>"


def label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{safe(text)}</text>'


def seconds(spent: float) -> str:
    """`6 ms`, `0.4 s`, `75 s`, `12 min`."""
    if 0 < spent < 0.1:
        return f"{spent * 1000:.0f} ms"
    if spent >= 600:
        return f"{spent / 60:.0f} min"
    return f"{spent:.0f} s" if spent >= 60 else f"{spent:.1f} s"


def safe(text: str) -> str:
    return escape(clean_line(text))
