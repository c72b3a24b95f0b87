"""The words of a conversation: what is said, which tools there are, what was called and what came of it.

It knows nothing of prompts, models, servers or screens; everything here is frozen and can be remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
Status = Literal["completed", "failed", "declined", "stopped"]

SEPARATOR = "__"
NOTHING_SAID = "…"
"""What the history has of a reply that brought no text: two messages of a user in a row would break templates."""


@dataclass(frozen=True)
class Tool:
    """A tool as its server describes it. `schema` is the JSON Schema (2020-12) of the arguments object.

    `output_schema` is that of the structured content of its results, None where it promises none; `title` is for
    people. `read_only`, `idempotent` (a second call does what the first did), `destructive` (it may undo or delete, not
    only add) and `open_world` (it reaches beyond its server) are the server's own claims (MCP 2025-03-26, tool
    annotations): hints, never a proof; `read_only` counts only where the user said that the server is `trusted`.
    """

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    server: str = ""
    read_only: bool = False
    idempotent: bool = False
    trusted: bool = False
    destructive: bool = True
    open_world: bool = True
    title: str = ""
    output_schema: Mapping[str, Any] | None = None

    @property
    def full_name(self) -> str:
        """`server__tool`: unique over all servers."""
        return f"{self.server}{SEPARATOR}{self.name}" if self.server else self.name


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it: the name may be bare or prefixed, the arguments are not yet checked.

    `repairs` names what was mended while reading it ("missing end marker").
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolResult:
    """What came of a call. `text` is what the model reads; `seconds` the time the tool took.

    `arguments` are those that were sent, after coercion. `structured` is the server's structured content.
    """

    server: str
    tool: str
    arguments: Mapping[str, Any]
    status: Status
    text: str
    seconds: float = 0.0
    structured: Any = None


@dataclass(frozen=True)
class Message:
    """One entry of the history.

    A "tool" message carries the result of a call, or, with `result` None, a remark to the model about a
    call that could not be read. An "assistant" message carries all that was said, calls and thoughts included.
    `more`: where `text` lacks some of the result, the arguments of the call of `more` that shows what comes next.
    `tools`: how the tools are called that may help with what a user says, one line each, shown before it.
    """

    role: Role
    text: str
    result: ToolResult | None = None
    more: Mapping[str, Any] | None = None
    tools: tuple[str, ...] = ()
