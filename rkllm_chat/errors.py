"""Errors a person or a script can act on. They do not know how they are printed.

    ChatError
    ├── UsageError               the command line is off
    ├── ValidationError          arguments do not fit a schema
    ├── ConfigError              a configuration file is missing or wrong
    ├── StartError               a model or a server does not come up
    │   ├── ModelError           the model's file or engine
    │   └── ConnectError         a server
    ├── AuthError                a server wants a login, or refuses one
    ├── ServerNotFoundError      no server of that name
    ├── ToolNotFoundError        no tool of that name
    ├── ProtocolError            a server broke the protocol
    ├── TimeLimitError           a limit ran out
    ├── ToolError                a tool that was called by a command said that it failed
    ├── InterruptedByUserError   somebody stopped a command
    └── GenerationError          the model failed in the middle of an answer

Trouble of the model or of a tool inside a turn is a value (CallGarbled, ToolResult), never one of these.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from typing import Any, ClassVar


class ChatError(Exception):
    """A message (place and cause), a hint (what to try), details for programs, and an exit code.

    `type_word` and `exit_code` are part of what scripts rely on.
    """

    type_word: ClassVar[str] = "InternalError"
    exit_code: ClassVar[int] = 8

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(ChatError):
    type_word, exit_code = "UsageError", 2


class ValidationError(ChatError):
    type_word, exit_code = "ValidationError", 2


class ConfigError(ChatError):
    """Its message is one line, though what it quotes of a file may hold line breaks and control characters."""

    type_word, exit_code = "ConfigError", 3

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in message)
        super().__init__(shown, hint, **details)


class StartError(ChatError):
    type_word, exit_code = "ConnectionError", 5


class ModelError(StartError):
    type_word = "ModelError"


class ConnectError(StartError):
    pass


class AuthError(ChatError):
    type_word, exit_code = "AuthError", 4


class ServerNotFoundError(ChatError):
    type_word, exit_code = "ServerNotFound", 6


class ToolNotFoundError(ChatError):
    type_word, exit_code = "ToolNotFound", 6


class ProtocolError(ChatError):
    type_word, exit_code = "ProtocolError", 6


class TimeLimitError(ChatError):
    type_word, exit_code = "TimeoutError", 7


class ToolError(ChatError):
    type_word, exit_code = "ToolError", 1


class InterruptedByUserError(ChatError):
    type_word, exit_code = "Interrupted", 130


class GenerationError(ChatError):
    type_word, exit_code = "ModelError", 1


FULL_HINT = "Say less at once, start anew with /clear, or use fewer tools."


def too_long(tokens: int, room: int) -> GenerationError:
    """For a prompt that fits nowhere: what it needs and what there is, in the same words everywhere."""
    return GenerationError(
        f"The prompt is {tokens} tokens long, the context holds {room}.", FULL_HINT, needed=tokens, available=room
    )
