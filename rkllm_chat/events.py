"""What happens during a turn, in the order it happens. It does not know who looks on.

A turn is a stream of these; a face shows them, a script reads them as JSON, a test compares them whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .messages import ToolCall, ToolResult

Reason = Literal["answered", "steps", "stopped", "length"]
Fault = Literal["bad_json", "bad_xml", "bad_python", "truncated", "too_large", "call_in_thinking"]


@dataclass(frozen=True)
class Usage:
    """What one call of the model cost. Prompt tokens = reused (held in the cache) + prefilled (evaluated)."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    prefilled_tokens: int = 0
    generated_tokens: int = 0
    prefill_s: float = 0.0
    generate_s: float = 0.0
    first_token_s: float = 0.0
    hit_limit: bool = False


@dataclass(frozen=True)
class Text:
    """A piece of the answer, to be shown at once."""

    text: str


@dataclass(frozen=True)
class Thought:
    """A piece of the model's thinking; nothing in it is ever run."""

    text: str


@dataclass(frozen=True)
class CallFound:
    """The model wrote a whole tool call. `raw` is what it wrote, with the first call of a region for all of them."""

    call: ToolCall
    raw: str = field(default="", compare=False)


@dataclass(frozen=True)
class CallGarbled:
    """The model began a call that cannot be read; it is never run. `raw` is what was written."""

    fault: Fault
    detail: str
    raw: str


@dataclass(frozen=True)
class CallsDetected:
    """A reply has ended and holds this many calls."""

    count: int


@dataclass(frozen=True)
class ToolStarted:
    """A call was allowed and is on its way; `call` has the checked arguments."""

    server: str
    tool: str
    call: ToolCall


@dataclass(frozen=True)
class ToolProgress:
    """A running tool reports; `total` is None when it does not know."""

    server: str
    tool: str
    progress: float
    total: float | None
    message: str


@dataclass(frozen=True)
class ToolFinished:
    """A call came to its end, well or not."""

    result: ToolResult


@dataclass(frozen=True)
class Reading:
    """The model reads its prompt: `done` of `total` tokens that are new to it, at `tokens_per_s` (0: not yet known)."""

    done: int
    total: int
    tokens_per_s: float = 0.0


@dataclass(frozen=True)
class Loading:
    """A model is being loaded; `expected_s` is what it took the last time, 0 where that is not known."""

    model: str
    expected_s: float = 0.0


@dataclass(frozen=True)
class Notice:
    """Something worth one line to whoever looks on."""

    text: str


@dataclass(frozen=True)
class Sentence:
    """A notice by its key in the language file: who gives it does not know which language is spoken."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head, for commands that list things."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Page:
    """Text of several lines that is shown as it is: a preview, a schema, a log."""

    text: str


@dataclass(frozen=True)
class Draft:
    """Text for the line that is typed next; `in_editor`: to be opened in the user's editor."""

    text: str
    in_editor: bool = False


@dataclass(frozen=True)
class Copied:
    """Text for the clipboard of whoever looks on."""

    text: str


@dataclass(frozen=True)
class Shown:
    """Whether thoughts are shown whole from now on."""

    thoughts: bool


@dataclass(frozen=True)
class Leave:
    """The user wants to go."""


@dataclass(frozen=True)
class TurnEnded:
    """The last event of a turn. `usage` has one entry per call of the model, in order."""

    reason: Reason
    usage: tuple[Usage, ...] = ()


Event = (
    Text
    | Thought
    | CallFound
    | CallGarbled
    | CallsDetected
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | Reading
    | Loading
    | Notice
    | Table
    | Page
    | Draft
    | Copied
    | Shown
    | Leave
    | TurnEnded
)
