"""A chat request as all APIs mean it, and the history of a conversation that it stands for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..calls.formats import FORMATS
from ..core.messages import EMPTY_REPLY, Media, Message, Tool, ToolResult
from .errors import ApiError

CLIENT = "client"
"""Server name of the tools that a client runs itself."""
_SEPARATOR = "\n\n"


@dataclass(frozen=True)
class ClientCall:
    """A tool call in a message of a client.

    Attributes:
        identity: Its id; "" if the API has none.
        name: Name of the tool.
        arguments: Arguments.
    """

    identity: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ClientMedia:
    """A picture or sound of a client.

    Attributes:
        data: Its bytes.
        position: Index in the text of its message before which it is placed.
        param: The field of the request that has it.
    """

    data: bytes
    position: int
    param: str


@dataclass(frozen=True)
class ClientMessage:
    """A message of a client.

    Attributes:
        role: Author.
        text: Text.
        calls: Calls of an assistant.
        call_identity: Id of the call that a tool's message answers; "" for the first one that is unanswered.
        tool: Name of that tool; "" if the message does not say it.
        sent_media: Pictures and sounds as they came.
        media: Pictures and sounds, once they are checked and stored.
    """

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    calls: tuple[ClientCall, ...] = ()
    call_identity: str = ""
    tool: str = ""
    sent_media: tuple[ClientMedia, ...] = ()
    media: tuple[Media, ...] = ()


@dataclass(frozen=True)
class ChatRequest:
    """A request for the next reply of a conversation.

    Attributes:
        messages: The conversation, as `split_system` returns it.
        system: System text; "" for that of the server.
        tools: Tools that the client runs; their `server` is `CLIENT`.
        tool_choice: Whether the reply may, must not or must call a tool.
        required_tool: The only tool that may be called; "" for any.
        allows_parallel: Whether a reply may contain several calls.
        reply_schema: Schema of a reply that is one JSON value; None for text.
        stop_sequences: Texts that end the reply.
        generation: Sampling parameters that the request sets.
    """

    messages: tuple[ClientMessage, ...]
    system: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    required_tool: str = ""
    allows_parallel: bool = True
    reply_schema: Mapping[str, Any] | None = None
    stop_sequences: tuple[str, ...] = ()
    generation: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def count_characters(self) -> int:
        """Return the length of all texts of the conversation, calls included."""
        calls = (json.dumps(dict(call.arguments)) for message in self.messages for call in message.calls)
        return len(self.system) + sum(len(message.text) for message in self.messages) + sum(map(len, calls))


def split_system(messages: Iterable[ClientMessage]) -> tuple[str, tuple[ClientMessage, ...]]:
    """Return the system text, and the other messages with neighbours of one author merged.

    System messages at the beginning are the system text. Later ones are read as the user's: chat templates know only
    one, at the beginning.

    Raises:
        ApiError: There is no message of a user or a tool at the end.
    """
    system: list[str] = []
    merged: list[ClientMessage] = []
    for message in messages:
        if message.role == "system" and not merged:
            system.append(message.text)
            continue
        later = replace(message, role="user") if message.role == "system" else message
        last = merged[-1] if merged else None
        if last and last.role == later.role and later.role in ("user", "assistant"):
            text = _SEPARATOR.join(filter(None, (last.text, later.text)))
            start = len(text) - len(later.text)
            moved = tuple(replace(media, position=media.position + start) for media in later.sent_media)
            merged[-1] = replace(
                last, text=text, calls=(*last.calls, *later.calls), sent_media=(*last.sent_media, *moved)
            )
        else:
            merged.append(later)
    if not merged or merged[-1].role not in ("user", "tool"):
        raise ApiError(400, "The last message must be one of the user or a tool result.", param="messages")
    return _SEPARATOR.join(system), tuple(merged)


def build_history(messages: Sequence[ClientMessage], call_format: str) -> list[Message]:
    """Return the messages as a conversation keeps them, with calls written in the model's format.

    Raises:
        ApiError: A tool result answers no call.
    """
    history: list[Message] = []
    unanswered: list[ClientCall] = []
    for message in messages:
        if message.role == "tool":
            call = _take_call(message, unanswered)
            result = ToolResult(CLIENT, call.name, call.arguments, "completed", message.text, media=message.media)
            history.append(Message("tool", message.text, result, media=message.media))
        elif message.role == "assistant":
            unanswered = list(message.calls)
            written = [FORMATS[call_format].render_call(call.name, call.arguments) for call in message.calls]
            history.append(Message("assistant", "\n".join(filter(None, (message.text, *written))) or EMPTY_REPLY))
        else:
            history.append(Message("user", message.text, media=message.media))
    return history


def _take_call(message: ClientMessage, unanswered: list[ClientCall]) -> ClientCall:
    """Remove and return the call that a tool result answers. Raises ApiError."""
    for call in unanswered:
        if message.call_identity in ("", call.identity) and message.tool in ("", call.name):
            unanswered.remove(call)
            return call
    text = "A tool message must answer a call of the assistant message before it."
    raise ApiError(400, text, param="messages")


def describe_messages(messages: Iterable[ClientMessage]) -> str:
    """Return a text that is equal for equal conversations, whatever ids the calls have."""
    rows = [
        [
            message.role,
            message.text.strip(),
            [[call.name, dict(call.arguments)] for call in message.calls],
            [[media.sha256, media.position] for media in message.media],
        ]
        for message in messages
    ]
    return json.dumps(rows, sort_keys=True, ensure_ascii=False)
