"""A chat request as all APIs mean it, and the history of a conversation that it stands for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..calls.formats import FORMATS
from ..config.settings import Thinking
from ..core.messages import EMPTY_REPLY, Media, Message, Tool, ToolResult
from .errors import ApiError

CLIENT = "client"
"""Server name of the tools that a client runs itself."""
_SEPARATOR, _MAX_NAME_LENGTH = "\n\n", 128


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
        calls: Calls of an assistant; of a tool's message in a `ChatRequest`, the one that it answers.
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
        messages: The conversation, as `make_request` returns it.
        system: System text; "" for that of the server.
        tools: Tools that the client runs; their `server` is `CLIENT`.
        tool_choice: Whether the reply may, must not or must call a tool.
        required_tool: The only tool that may be called; "" for any.
        allows_parallel: Whether a reply may contain several calls.
        reply_schema: Schema of a reply that is one JSON value; None for text.
        stop_sequences: Texts that end the reply.
        generation: Sampling parameters that the request sets.
        thinking: Whether the model reasons; None as the server is set.
        prefix: The beginning of the reply, which the model continues.
        returns_progress: Whether the client wants to know how much of the prompt is evaluated.
        replies: Number of replies.
        scores: How many of the likeliest tokens each token of the text names; None for no probabilities.
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
    thinking: Thinking | None = None
    prefix: str = ""
    returns_progress: bool = False
    replies: int = 1
    scores: int | None = None

    def count_characters(self) -> int:
        """Return the length of all texts of the conversation, calls included."""
        calls = (json.dumps(dict(call.arguments)) for message in self.messages for call in message.calls)
        return (
            len(self.system + self.prefix) + sum(len(message.text) for message in self.messages) + sum(map(len, calls))
        )


def make_request(
    messages: Iterable[ClientMessage],
    tools: Sequence[Tool] = (),
    choice: Literal["auto", "none", "required"] = "auto",
    required_tool: str = "",
    **fields: Any,
) -> ChatRequest:
    """Return a request with neighbours of one author merged.

    System messages at the beginning are the system text. Later ones are read as the user's: chat templates know only
    one, at the beginning. So are results of tools whose call the client has cut off. A text of the assistant at the end
    is the beginning of the reply.

    Args:
        messages: The conversation as the client sends it.
        tools: Tools that the client runs.
        choice: Whether the reply may, must not or must call a tool.
        required_tool: Name of the tool that must be called; "" for none.
        fields: Further fields of the request.

    Raises:
        ApiError: There is nothing to answer, or a required tool does not exist.
    """
    if required_tool and required_tool not in [tool.name for tool in tools]:
        raise ApiError(400, f'There is no tool "{required_tool[:_MAX_NAME_LENGTH]}".', param="tool_choice")
    if choice == "required" and not tools:
        raise ApiError(400, "A required call needs tools.", param="tool_choice")
    system: list[str] = []
    merged: list[ClientMessage] = []
    unanswered: list[ClientCall] = []
    for message in messages:
        if message.role == "system" and not merged:
            system.append(message.text)
            continue
        unanswered = [*unanswered, *message.calls] if message.role in ("assistant", "tool") else []
        _add_message(merged, _attach_call(message, unanswered))
    prefix = ""
    if merged and merged[-1].role == "assistant" and not merged[-1].calls:
        prefix = merged.pop().text
    if not merged or merged[-1].role == "assistant":
        raise ApiError(400, "The last message must be one of the user or a tool result.", param="messages")
    choice = "required" if required_tool else choice
    return ChatRequest(
        tuple(merged), _SEPARATOR.join(system), tuple(tools), choice, required_tool, prefix=prefix, **fields
    )


def _attach_call(message: ClientMessage, unanswered: list[ClientCall]) -> ClientMessage:
    """Return a message with the call that it answers, which is answered then; as the user's if it answers none."""
    if message.role == "system":
        return replace(message, role="user")
    if message.role != "tool":
        return message
    for call in unanswered:
        if message.call_identity in ("", call.identity) and message.tool in ("", call.name):
            unanswered.remove(call)
            return replace(message, calls=(call,))
    return replace(message, role="user", text=f"{message.tool}: {message.text}" if message.tool else message.text)


def _add_message(merged: list[ClientMessage], message: ClientMessage) -> None:
    """Add a message, or join it to the last one of the same user or assistant."""
    last = merged[-1] if merged else None
    if not last or last.role != message.role or message.role == "tool":
        merged.append(message)
        return
    text = _SEPARATOR.join(filter(None, (last.text, message.text)))
    start = len(text) - len(message.text)
    moved = tuple(replace(media, position=media.position + start) for media in message.sent_media)
    merged[-1] = replace(last, text=text, calls=(*last.calls, *message.calls), sent_media=(*last.sent_media, *moved))


def build_history(messages: Sequence[ClientMessage], call_format: str) -> list[Message]:
    """Return the messages as a conversation keeps them, with calls written in the model's format."""
    history: list[Message] = []
    for message in messages:
        if message.role == "tool":
            (call,) = message.calls
            result = ToolResult(CLIENT, call.name, call.arguments, "completed", message.text, media=message.media)
            history.append(Message("tool", message.text, result, media=message.media))
        elif message.role == "assistant":
            written = [FORMATS[call_format].render_call(call.name, call.arguments) for call in message.calls]
            history.append(Message("assistant", "\n".join(filter(None, (message.text, *written))) or EMPTY_REPLY))
        else:
            history.append(Message("user", message.text, media=message.media))
    return history


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
