"""Events of a turn, in the order in which they happen.

A turn is a stream of these events: a front end renders them, a script reads them as JSON, tests compare them whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .messages import Media, ToolCall, ToolResult

Reason = Literal["answered", "steps", "stopped", "length", "repetition"]
AnsweredBy = Literal["model", "forced", "result"]
"""Who wrote an answer: the model, the model when calls were impossible, or the program: it is the last result, or asks
back for what a call needs."""
NoticeLevel = Literal["info", "warning", "error"]
Fault = Literal["bad_json", "bad_xml", "bad_python", "truncated", "too_large", "call_in_thinking", "bare_name"]


@dataclass(frozen=True)
class Usage:
    """Token counts and times of one model request.

    Attributes:
        prompt_tokens: Length of the prompt: reused plus prefilled tokens.
        reused_tokens: Prompt tokens found in the KV cache.
        prefilled_tokens: Prompt tokens that were evaluated.
        generated_tokens: Tokens of the reply.
        prefill_s: Seconds spent on prefill.
        generate_s: Seconds spent on generation.
        first_token_s: Seconds from the request to the first token.
        hit_limit: The reply ended at the token limit.
        was_repeating: The reply was ended because it repeated itself.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    prefilled_tokens: int = 0
    generated_tokens: int = 0
    prefill_s: float = 0.0
    generate_s: float = 0.0
    first_token_s: float = 0.0
    hit_limit: bool = False
    was_repeating: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the reply did not end by itself: what it says last may be incomplete."""
        return self.hit_limit or self.was_repeating

    @property
    def end_reason(self) -> Reason:
        """Why a turn ends whose answer is this reply."""
        return "length" if self.hit_limit else "repetition" if self.was_repeating else "answered"


@dataclass(frozen=True)
class Text:
    """A chunk of the answer, to be shown immediately.

    Attributes:
        text: The chunk.
        is_report: It is the program's line on the calls of the turn, before the words of the model.
    """

    text: str
    is_report: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class Thought:
    """A chunk of the model's reasoning; tool calls inside it are never executed."""

    text: str


@dataclass(frozen=True)
class TextWasThought:
    """The text of the reply so far was a thought: the model only marked its end."""


@dataclass(frozen=True)
class CallFound:
    """The model completed a tool call.

    Attributes:
        call: The parsed call.
        raw: Source text. If one region of text holds several calls, the first call carries all of it.
    """

    call: ToolCall
    raw: str = field(default="", compare=False)


@dataclass(frozen=True)
class CallUnreadable:
    """The model started a tool call that cannot be parsed; it is never executed.

    Attributes:
        fault: Category of the error.
        detail: Description of the error for the feedback message.
        raw: Source text of the call.
    """

    fault: Fault
    detail: str
    raw: str


@dataclass(frozen=True)
class ReplyDiscarded:
    """The calls of a reply are void, or its text is no answer: another reply or a call takes its place.

    Attributes:
        unknown: Names of what the model called as if it were a tool; "" if there are such tools.
        reason: The row of `chat.value_rules.REASONS` that says why; "" if the model only repeated calls made before,
            or there are no such tools.
        values: The values that `reason` is about.
    """

    unknown: str = ""
    reason: str = ""
    values: str = ""


@dataclass(frozen=True)
class CallDescribed:
    """The reply, which calls no tool, shows a valid call of a known tool, in prose or in code.

    It is not executed, because the reply may only explain it; the user can be asked. Its text is shown as `Text`.

    Attributes:
        call: The parsed call.
        raw: Source text of the call.
    """

    call: ToolCall
    raw: str = field(default="", compare=False)


@dataclass(frozen=True)
class CallsDetected:
    """A reply ended and contains `count` calls."""

    count: int


@dataclass(frozen=True)
class ToolStarted:
    """A call was authorized and is being executed.

    Attributes:
        server: Name of the server.
        tool: Name of the tool without prefix.
        call: The call with its validated arguments.
        number: Position among the calls of the reply, from 1; 0 for a call that no reply made.
    """

    server: str
    tool: str
    call: ToolCall
    number: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ToolProgress:
    """A running tool reported progress.

    Attributes:
        server: Name of the server.
        tool: Name of the tool without prefix.
        progress: What is done, in a unit of the tool.
        total: What is to be done; None if unknown.
        message: What the tool says about it.
        number: That of the call, as in `ToolStarted`.
    """

    server: str
    tool: str
    progress: float
    total: float | None
    message: str
    number: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ToolFinished:
    """A call finished, successfully or not.

    Attributes:
        result: What it returned.
        number: That of the call, as in `ToolStarted`.
        is_asked: The user ran the tool, so its text is shown also where those for the model are not.
    """

    result: ToolResult
    number: int = field(default=0, compare=False)
    is_asked: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Reading:
    """Progress of prefill.

    Attributes:
        done: Evaluated tokens.
        total: Tokens to evaluate; cached tokens are not counted.
        tokens_per_s: Prefill speed; 0 if not yet known.
    """

    done: int
    total: int
    tokens_per_s: float = 0.0


@dataclass(frozen=True)
class WritingCall:
    """The model is writing what is not shown before it is complete, as a tool call.

    Attributes:
        tool: Name of the tool as the model sees it; "" if it is not known yet.
        characters: Length of the arguments so far, or of the reply.
    """

    tool: str
    characters: int


@dataclass(frozen=True)
class Loading:
    """A model is being loaded; `expected_s` is the previous load time, 0 if unknown."""

    model: str
    expected_s: float = 0.0


@dataclass(frozen=True)
class Notice:
    """A one-line message for the user."""

    text: str
    level: NoticeLevel = field(default="info", compare=False)


@dataclass(frozen=True)
class Sentence:
    """A notice by its key in the language catalogue, so that the sender need not know the user's language.

    Attributes:
        key: Dotted key in the catalogue.
        values: Values for the placeholders of the sentence.
        once: Name of what is told only once on this machine; "" for what is told each time.
    """

    key: str
    values: Mapping[str, object] = field(default_factory=dict[str, object])
    once: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header row, for commands that print lists.

    Attributes:
        head: The header row; empty for none.
        rows: The rows.
        spare_column: Index of a column that a narrow window leaves out; None for none.
        is_matrix: What a cell says depends on its column, which a narrow window names beside it.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    spare_column: int | None = None
    is_matrix: bool = False


@dataclass(frozen=True)
class Page:
    """Multi-line text that is shown verbatim: a preview, a schema, a log."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A picture to show."""

    media: Media


@dataclass(frozen=True)
class Draft:
    """Text to prefill the next input line with."""

    text: str


@dataclass(frozen=True)
class Copied:
    """Text to copy to the user's clipboard."""

    text: str


@dataclass(frozen=True)
class Shown:
    """Whether reasoning is shown in full from now on."""

    thoughts: bool


@dataclass(frozen=True)
class Leave:
    """The user asked to quit."""


@dataclass(frozen=True)
class TurnEnded:
    """The last event of a turn.

    Attributes:
        reason: Why the turn ended.
        usage: One entry per model request, in order.
        answered_by: Who wrote the answer.
    """

    reason: Reason
    usage: tuple[Usage, ...] = ()
    answered_by: AnsweredBy = "model"


_Output = Notice | Table | Page | Picture | Draft | Copied | Shown | Leave
Event = (
    Text
    | Thought
    | TextWasThought
    | CallFound
    | CallUnreadable
    | ReplyDiscarded
    | CallDescribed
    | CallsDetected
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | Reading
    | WritingCall
    | Loading
    | _Output
    | TurnEnded
)
