"""Data types of a conversation: messages, tools, tool calls and their results.

Everything here is frozen, so it can be cached and shared. Nothing depends on prompts, models, servers or screens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Role = Literal["system", "user", "assistant", "tool"]
ReplyKind = Literal["", "forced", "discarded", "refusal"]
UNSENT_KINDS = frozenset[ReplyKind](("discarded", "refusal"))
"""Kinds of replies that later prompts leave out."""
Status = Literal["completed", "failed", "declined", "stopped"]
DeclineReason = Literal[
    "",
    "user",
    "because",
    "rule",
    "limit",
    "repeated",
    "withheld",
    "missing",
    "permission",
    "unsupported",
    "cut",
    "absent",
]
"""Why a call was declined: by the user, by the user for a reason that the model is told, by a rule of the policy, its
limit of calls, or since it was made before in the turn, its tool is not accepted yet, its values stand nowhere, it
needs a permission and nobody can be asked, a value rule forbids it beside other calls, its reply was cut off,
or no server has the resource."""
MediaKind = Literal["image", "audio", "file"]
"""What a medium is to a model; a "file" is other binary data of a tool, which no model reads and the user can save."""

NOT_SHOWN = ", not shown]"
"""The end of the text that stands for a medium where it is not shown."""
SEPARATOR = "__"
"""Joins server and tool name in a full name: `server__tool`."""
EMPTY_REPLY = "…"
"""Text of an assistant message without content: chat templates reject two user messages in a row."""


@dataclass(frozen=True)
class Media:
    """A picture, sound or other binary data in a message, by reference to a file.

    Attributes:
        kind: What it is to a model.
        path: The file, which holds what is sent to the model (a picture is upright and not larger than the limits).
        media_type: Media type of the file, by its content ("image/png").
        sha256: Hexadecimal hash of the file; equal hashes are equal media.
        size_bytes: Size of the file.
        width: Pixels of a picture, otherwise 0.
        height: Pixels of a picture, otherwise 0.
        name: What people know it by: file name, URI, or tool.
        position: Index in the text of its message before which it is placed.
        user_only: The server addresses it to the user alone; no model gets it.
    """

    kind: MediaKind
    path: str = ""
    media_type: str = ""
    sha256: str = ""
    size_bytes: int = 0
    width: int = 0
    height: int = 0
    name: str = ""
    position: int = 0
    user_only: bool = False

    @property
    def placeholder(self) -> str:
        """Return the text that stands for it where it cannot be shown."""
        return f"[{', '.join(filter(None, (self.name, self.media_type)))}, {self.size_bytes} bytes{NOT_SHOWN}"


@dataclass(frozen=True)
class Tool:
    """A tool as its server describes it.

    `read_only`, `idempotent`, `destructive` and `open_world` are the server's own claims (MCP 2025-03-26, tool
    annotations): hints, not guarantees. `read_only` is honoured only if the user marked the server as `trusted`.

    Attributes:
        name: Name without the server prefix.
        description: Text for the model; untrusted.
        schema: JSON Schema (2020-12) of the arguments object.
        server: Name of the server; empty for the program's own tools.
        read_only: The tool changes nothing.
        writes: The tool changes something; of neither its server says nothing.
        idempotent: Repeating a call has no further effect.
        trusted: The user marked the server as trusted.
        destructive: The tool may delete or overwrite, not only add.
        open_world: The tool reaches systems outside its server.
        title: Display name for people.
        output_schema: JSON Schema of the structured result content; None if the server declares none.
        of_folder: A file of the current folder defines the server, and not the user.
    """

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    server: str = ""
    read_only: bool = False
    writes: bool = False
    idempotent: bool = False
    trusted: bool = False
    destructive: bool = True
    open_world: bool = True
    title: str = ""
    output_schema: Mapping[str, Any] | None = None
    of_folder: bool = False

    @property
    def full_name(self) -> str:
        """Return `server__tool`, which is unique across all servers."""
        return f"{self.server}{SEPARATOR}{self.name}" if self.server else self.name


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it, before validation.

    Attributes:
        name: Tool name, with or without the server prefix.
        arguments: Unvalidated arguments.
        repairs: Repairs applied while parsing the call ("missing end marker").
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolResult:
    """The outcome of one tool call.

    Attributes:
        server: Name of the server.
        tool: Name of the tool without prefix.
        arguments: Arguments that were sent, after coercion.
        status: How the call ended.
        text: Text that the model reads.
        seconds: Run time of the tool.
        structured: Structured content of the server's result.
        user_text: Text that the server addresses to the user alone; the model does not read it.
        media: Pictures, sounds and other data of the result; each is placed behind its placeholder in `text`.
        decline_reason: Why the call was declined; `text` says it to the model. "user" for one that was stopped before
            it began.
    """

    server: str
    tool: str
    arguments: Mapping[str, Any]
    status: Status
    text: str
    seconds: float = 0.0
    structured: Any = None
    user_text: str = ""
    media: tuple[Media, ...] = ()
    decline_reason: DeclineReason = ""

    @property
    def outcome(self) -> Status | Literal["not_run"]:
        """The status, or "not_run" for a call that was stopped before it began."""
        return "not_run" if self.status == "stopped" and self.decline_reason == "user" else self.status


@dataclass(frozen=True)
class Message:
    """One entry of the history.

    Attributes:
        role: Author of the message. A "tool" message carries a call's result or, if `result` is None, feedback to the
            model about a call that could not be parsed.
        text: Message text. For an assistant this is the raw reply, including calls and thoughts.
        result: Result of the call that a "tool" message answers.
        more: If `text` was truncated, the arguments for tool `more` that return the next part.
        tool_lines: Signatures of the tools that may help with a user message, one line each, shown before its text.
        call_request: Sentence behind a user message that asks for a call of some tools; only in a prompt.
        media: Pictures and sounds, in the order of their positions in `text`. In the message of a result, what the
            model is to see of `result.media`.
        reply_kind: Of an assistant message: "forced" if calls were impossible when it was written, "discarded" if it
            only repeated calls, or was empty, and was generated again, "refusal" if it was shown and only apologizes:
            both stay in the history and are never sent.
        asked: Of a user message with attached texts, what it asks: `text` without them and their names.
    """

    role: Role
    text: str
    result: ToolResult | None = None
    more: Mapping[str, Any] | None = None
    tool_lines: tuple[str, ...] = ()
    call_request: str = ""
    media: tuple[Media, ...] = ()
    reply_kind: ReplyKind = ""
    asked: str = ""

    @property
    def question(self) -> str:
        """What a user message asks."""
        return self.asked or self.text

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """Return the text and the media in reading order, without empty texts."""
        parts: list[str | Media] = []
        start = 0
        for media in self.media:
            parts += [self.text[start : media.position], media]
            start = media.position
        parts.append(self.text[start:])
        return tuple(part for part in parts if part != "")


@dataclass(frozen=True)
class Attachment:
    """A text or media to send with the next message.

    Attributes:
        name: Path or URI.
        kind: Media type.
        size: Bytes before truncation.
        text: Content; "" if it is media alone.
        media: Pictures and sounds.
    """

    name: str
    kind: str
    size: int
    text: str
    media: tuple[Media, ...] = ()


_OPTIONAL = ("call_request", "media", "reply_kind", "decline_reason", "is_report", "asked")


def to_table(record: DataclassInstance) -> dict[str, Any]:
    """Convert a dataclass to a JSON object as `asdict`, without paths of media and without empty optional members."""
    return asdict(record, dict_factory=_make_table)


def _make_table(members: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(members)
    for name in _OPTIONAL:
        if not table.get(name, True):
            del table[name]
    if "sha256" in table and "media_type" in table:
        del table["path"]
    return table
