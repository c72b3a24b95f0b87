"""Protocols and callback types that several packages share.

They are defined in the lowest package that needs them, so that no package imports upward for a type.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .events import NoticeLevel
from .messages import Tool, ToolResult

Consent = Literal["once", "session", "always", "no", "stop"]
"""The user's answer: run this call, run this tool until the chat ends, or always in this folder, do not run it, or end
the turn."""


@dataclass(frozen=True)
class CallPosition:
    """Position of a call among the readable calls of its reply, from 1.

    Attributes:
        number: The position.
        count: Number of calls.
        is_described: The reply only describes the call, in a longer text or in code; it runs only if the user wants it.
        made_up: Names of arguments whose values stand nowhere: neither the user nor a result has said them.
    """

    number: int = 1
    count: int = 1
    is_described: bool = False
    made_up: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decline:
    """The user declined a call for a reason that the model is told.

    Attributes:
        reason: The reason, in the user's words.
    """

    reason: str = ""


@dataclass(frozen=True)
class RunEdited:
    """The user approved a call with these arguments instead of those of the model; they are validated again."""

    arguments: Mapping[str, Any]


ApprovalCallback = Callable[[Tool, Mapping[str, Any], CallPosition], Awaitable["Consent | Decline | RunEdited"]]
"""Asks about a call that the policy leaves open."""
Continuation = int | Literal["answer", "stop"]
"""Continuation after the last permitted round: that many more rounds, one more reply without tools, or the end."""
ProgressCallback = Callable[[float, "float | None", str], None]
"""Receives progress, total and message of a running tool."""


class Notify(Protocol):
    """Shows a message to the user."""

    def __call__(self, text: str, level: NoticeLevel = "info", /) -> None:
        """Show one line."""


class CallableTools(Protocol):
    """Tools that can be called."""

    @property
    def tools(self) -> Sequence[Tool]:
        """All tools that can be called now."""

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> ToolResult:
        """Run a tool. Failure is a result; only cancellation is raised."""
        ...


async def decline_all(_tool: Tool, _arguments: Mapping[str, Any], _position: CallPosition) -> Consent:
    """Decline a call; the approval callback if there is no user to ask."""
    return "no"


async def answer_at_limit(_rounds: int) -> Continuation:
    """Let the model answer from what it has; the `ask_to_continue` callback if there is no user to ask."""
    return "answer"


async def stop_at_limit(_rounds: int) -> Continuation:
    """End the turn; the `ask_to_continue` callback where the caller answers."""
    return "stop"
