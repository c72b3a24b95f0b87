"""SVG charts of a conversation: time per turn, use of the context window, use of tools. Colours come from the page.

A chart is 400 units wide, about the width of a phone, so that its text is readable there without zooming.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from ...core.events import Usage
from ...core.i18n import Words
from ...core.messages import Status, ToolResult
from ...core.sanitize import sanitize_line, truncate
from .turns import ExportedConversation

_WIDTH = 400
_MAX_TURNS = 40
_MAX_REPLIES = 120
_MAX_TOOLS = 15
_MAX_NAME_LENGTH = 40
_ROW_HEIGHT = 22
_TOP, _BOTTOM = 18, 16
_CHART_HEIGHT = 150


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        name: Prefix of element ids.
        title: Heading.
        description: One sentence that describes the content.
        legend: Legend: CSS class and label.
        height: Height in SVG units.
        shapes: SVG elements.
    """

    name: str
    title: str
    description: str
    legend: Sequence[tuple[str, str]]
    height: int
    shapes: Sequence[str]

    def render_svg(self) -> str:
        """Return the SVG element, with title and description for screen readers."""
        return (
            f'<svg viewBox="0 0 {_WIDTH} {self.height}" role="img" '
            f'aria-labelledby="{self.name}-title {self.name}-text">'
            f'<title id="{self.name}-title">{_escape_line(self.title)}</title>'
            f'<desc id="{self.name}-text">{_escape_line(self.description)}</desc>{"".join(self.shapes)}</svg>'
        )


def draw_charts(conversation: ExportedConversation, words: Words) -> list[Chart]:
    """Draw all charts that have data."""
    charts = (_draw_times(conversation, words), _draw_context(conversation, words), _draw_tools(conversation, words))
    return [chart for chart in charts if chart]


def _draw_times(conversation: ExportedConversation, words: Words) -> Chart | None:
    """Draw a bar per turn: prefill, generation, tools."""
    kinds = ("read", "write", "run")
    times = [(turn.prefill_s, turn.generate_s, turn.tools_s) for turn in conversation.turns]
    longest = max((sum(duration) for duration in times), default=0.0)
    if not longest:
        return None
    first = max(0, len(times) - _MAX_TURNS)
    shapes: list[str] = []
    for row, spent in enumerate(times[first:]):
        number, y = first + row + 1, row * _ROW_HEIGHT + 4
        shapes.append(_label(22, y + 12, str(number), "end"))
        parts = [
            (kind, duration, f"{words(f'export.{kind}')}: {format_seconds(duration)}")
            for kind, duration in zip(kinds, spent, strict=True)
        ]
        shapes += _bar(28, y, 300, longest, parts)
        shapes.append(_label(_WIDTH - 2, y + 12, format_seconds(sum(spent)), "end"))
    total = [format_seconds(sum(column)) for column in zip(*times, strict=True)]
    text = words("export.times_text", turns=len(times), read=total[0], write=total[1], tools=total[2])
    key = [(kind, words(f"export.{kind}")) for kind in kinds]
    return Chart("times", words("export.times"), text, key, (len(times) - first) * _ROW_HEIGHT + 4, shapes)


def _draw_context(conversation: ExportedConversation, words: Words) -> Chart | None:
    """Draw a column per model request: reused, prefilled and generated tokens."""
    costs = [cost for turn in conversation.turns for cost in turn.costs if cost.prompt_tokens][-_MAX_REPLIES:]
    if not costs:
        return None
    fullest = max(cost.prompt_tokens + cost.generated_tokens for cost in costs)
    limit_tokens = max(conversation.setup.context_tokens, fullest)
    kinds = ("held", "read", "write")
    column_width = min(24.0, (_WIDTH - 4) / len(costs))
    shapes = [
        f'<line class="limit" x1="0" x2="{_WIDTH}" y1="{_TOP}" y2="{_TOP}"/>',
        f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{_TOP + _CHART_HEIGHT}" y2="{_TOP + _CHART_HEIGHT}"/>',
        _label(_WIDTH - 2, _TOP - 5, words("export.context", tokens=limit_tokens), "end"),
    ]
    for column, cost in enumerate(costs):
        shapes += _column(2 + column * column_width, column_width, limit_tokens, cost, words)
    shapes.append(_label(2, _TOP + _CHART_HEIGHT + 13, words("export.replies", count=len(costs)), "start"))
    text = words("export.filled_text", tokens=fullest, room=limit_tokens, percent=round(100 * fullest / limit_tokens))
    key = [(kind, words(f"export.tokens_{kind}")) for kind in kinds]
    return Chart("filled", words("export.filled"), text, key, _TOP + _CHART_HEIGHT + _BOTTOM, shapes)


def _column(x: float, column_width: float, limit_tokens: int, cost: Usage, words: Words) -> list[str]:
    """Draw what the prompt and the reply of one request take of the context, from the bottom up."""
    shapes: list[str] = []
    bottom = float(_TOP + _CHART_HEIGHT)
    gap = 1.5 if column_width > 6 else 0.0
    for kind, tokens in (
        ("held", cost.reused_tokens),
        ("read", cost.prefilled_tokens),
        ("write", cost.generated_tokens),
    ):
        height = _CHART_HEIGHT * tokens / limit_tokens
        bottom -= height
        if tokens:
            tooltip = f"{words(f'export.tokens_{kind}')}: {tokens}"
            shapes.append(_rect(kind, x, bottom, column_width - gap, height, tooltip))
    return shapes


@dataclass
class _ToolUse:
    """Calls of a tool by their outcome, and the total time."""

    ends: dict[Status, int] = field(default_factory=dict[Status, int])
    seconds: float = 0.0

    def add(self, result: ToolResult) -> None:
        """Count a result."""
        self.ends[result.status] = self.ends.get(result.status, 0) + 1
        self.seconds += result.seconds

    @property
    def count(self) -> int:
        """Total number of calls."""
        return sum(self.ends.values())


def _draw_tools(conversation: ExportedConversation, words: Words) -> Chart | None:
    """Draw a bar per tool, most used first."""
    uses: dict[str, _ToolUse] = {}
    for result in (result for turn in conversation.turns for result in turn.results):
        uses.setdefault(sanitize_line(result.tool), _ToolUse()).add(result)
    if not uses:
        return None
    ranked = sorted(uses.items(), key=lambda item: (-item[1].count, item[0]))[:_MAX_TOOLS]
    ends: tuple[Status, ...] = ("completed", "failed", "declined", "stopped")
    shapes: list[str] = []
    for row, (name, use) in enumerate(ranked):
        y = row * _ROW_HEIGHT * 2
        shapes.append(_label(2, y + 14, truncate(name, _MAX_NAME_LENGTH), "start"))
        shapes.append(_label(_WIDTH - 2, y + 14, f"{use.count} × · {format_seconds(use.seconds)}", "end"))
        parts = [
            (end, float(use.ends.get(end, 0)), f"{words(f'export.{end}')}: {use.ends.get(end, 0)}") for end in ends
        ]
        shapes += _bar(2, y + 20, _WIDTH - 4, ranked[0][1].count, parts)
    text = words("export.tools_text", calls=sum(use.count for use in uses.values()), tools=len(uses))
    key = [(end, words(f"export.{end}")) for end in ends if any(end in use.ends for use in uses.values())]
    return Chart("tools", words("export.used"), text, key, len(ranked) * _ROW_HEIGHT * 2, shapes)


def _bar(x: float, y: float, width: float, longest: float, parts: Iterable[tuple[str, float, str]]) -> list[str]:
    """Draw parts (CSS class, amount, tooltip) end to end; an amount of `longest` is `width` units long."""
    shapes: list[str] = []
    for kind, amount, tooltip in parts:
        if amount:
            length = width * amount / longest
            shapes.append(_rect(kind, x, y, length, _ROW_HEIGHT - 8, tooltip))
            x += length
    return shapes


def _rect(kind: str, x: float, y: float, width: float, height: float, tooltip: str) -> str:
    shape = (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}">'
    )
    return f"{shape}<title>{_escape_line(tooltip)}</title></rect>"


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{_escape_line(text)}</text>'


def format_seconds(spent: float) -> str:
    """Format a duration: `6 ms`, `0.4 s`, `75 s`, `12 min`."""
    if 0 < spent < 0.1:
        return f"{spent * 1000:.0f} ms"
    if spent >= 600:
        return f"{spent / 60:.0f} min"
    return f"{spent:.0f} s" if spent >= 60 else f"{spent:.1f} s"


def _escape_line(text: str) -> str:
    return escape(sanitize_line(text))
