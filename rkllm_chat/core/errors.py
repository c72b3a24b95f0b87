"""Error classes of the program, each with a fixed type name and exit code.

    ChatError
    ├── UsageError               the command line is invalid
    ├── ValidationError          arguments do not match a schema
    ├── ConfigError              a configuration file is missing or invalid
    ├── StartError               a model or a server cannot be started
    │   ├── ModelError           the model file or its engine
    │   └── ConnectError         a server
    ├── AuthError                a server requires a login or rejects the credentials
    ├── ServerNotFoundError      no server has that name
    ├── ToolNotFoundError        no tool has that name
    ├── ProtocolError            a server violated the protocol
    ├── TimeLimitError           a deadline passed
    ├── ToolError                a tool called by a command reported failure
    ├── InterruptedByUserError   the user stopped a command
    └── GenerationError          the model failed while it generated a reply
        └── ContextOverflowError its service rejected the prompt as too long

An error of the model or of a tool within a turn is a value (CallUnreadable, ToolResult), never one of these classes.
The module neither prints nor formats: the front ends do.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ChatError(Exception):
    """Base class of the errors that a user or a script can act on.

    Attributes:
        message: What happened and where: place and cause.
        hint: What the user can try; may be empty.
        details: Machine-readable facts, written into JSON output.
        type_name: Name of the error type in JSON output. Scripts rely on it.
        exit_code: Exit code of the process. Scripts rely on it.
    """

    type_name: ClassVar[str] = "InternalError"
    exit_code: ClassVar[int] = 8

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(ChatError):
    """The command line is invalid."""

    type_name, exit_code = "UsageError", 2


class ValidationError(ChatError):
    """The arguments do not match the schema of a tool or of a prompt."""

    type_name, exit_code = "ValidationError", 2


class ConfigError(ChatError):
    """A configuration file is missing or invalid.

    The message is always one line: line breaks and control characters of quoted file content are escaped.
    """

    type_name, exit_code = "ConfigError", 3

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        escaped = "".join(character if character.isprintable() else repr(character)[1:-1] for character in message)
        super().__init__(escaped, hint, **details)


class StartError(ChatError):
    """A model or a server cannot be started."""

    type_name, exit_code = "ConnectionError", 5


class ModelError(StartError):
    """The model file or its engine cannot be loaded."""

    type_name = "ModelError"


class ConnectError(StartError):
    """A server cannot be started or reached."""


class AuthError(ChatError):
    """A server requires a login or rejects the credentials."""

    type_name, exit_code = "AuthError", 4


class ServerNotFoundError(ChatError):
    """No configured server has the requested name."""

    type_name, exit_code = "ServerNotFound", 6


class ToolNotFoundError(ChatError):
    """No tool has the requested name."""

    type_name, exit_code = "ToolNotFound", 6


class ProtocolError(ChatError):
    """A server violated the protocol."""

    type_name, exit_code = "ProtocolError", 6


class TimeLimitError(ChatError):
    """A deadline passed."""

    type_name, exit_code = "TimeoutError", 7


class ToolError(ChatError):
    """A tool that a command called reported failure."""

    type_name, exit_code = "ToolError", 1


class InterruptedByUserError(ChatError):
    """The user interrupted a command."""

    type_name, exit_code = "Interrupted", 130


class GenerationError(ChatError):
    """The model failed while it generated a reply."""

    type_name, exit_code = "ModelError", 1


class NotSupportedError(GenerationError):
    """The loaded model or its engine cannot do what was requested; the message names nothing of this machine."""


class ContextOverflowError(GenerationError):
    """A service rejected a prompt as too long for its context window.

    Attributes:
        context_tokens: Size of its context window; 0 if it did not say.
        prompt_tokens: Length of the prompt; 0 if it did not say.
    """

    def __init__(self, message: str, context_tokens: int = 0, prompt_tokens: int = 0) -> None:
        super().__init__(message, CONTEXT_FULL_HINT, needed=prompt_tokens, available=context_tokens)
        self.context_tokens = context_tokens
        self.prompt_tokens = prompt_tokens


CONTEXT_FULL_HINT = "Shorten the message, start over with /clear, or use fewer tools."


def prompt_too_long(tokens: int, room: int) -> GenerationError:
    """Build the error for a prompt that exceeds the context window.

    Args:
        tokens: Length of the prompt in tokens.
        room: Tokens that are available for it.
    """
    return GenerationError(
        f"The prompt is {tokens} tokens long, the context holds {room}.",
        CONTEXT_FULL_HINT,
        needed=tokens,
        available=room,
    )
