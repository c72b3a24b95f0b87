"""What went wrong with a server, as one of our errors: who, what, its last words. It knows the SDK's ways to fail."""

from __future__ import annotations

import asyncio

import pydantic
from mcp import MCPError
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from ..clean import clean_line
from ..errors import ChatError, ConnectError, ProtocolError, TimeLimitError
from ..redact import Redactor

TIMEOUT_CODE = -32001
CLOSED_CODE = -32000
CLOSED = "The server has gone."
SHOWN_LINES = 3
LONGEST_LINE = 300


def explain_call(name: str, error: BaseException, limit_s: float, transport: object) -> ChatError:
    """Why a request to an open server failed."""
    leaf = find_refusal(first_leaf(error), transport)
    if isinstance(leaf, ChatError):
        return leaf
    if is_late(leaf):
        return TimeLimitError(
            f'Server "{name}" did not answer within {limit_s:g} s.', "Raise its timeout_s.", server=name, phase="call"
        )
    if is_gone(leaf):
        text = f'Server "{name}" has gone away{ending(transport)}.{last_words(transport)}'
        return ConnectError(text, sandbox_hint(transport), server=name)
    if isinstance(leaf, MCPError):
        said = shorten(hide(leaf.message, transport))
        return ProtocolError(
            f'Server "{name}" answered with error {leaf.code}{problem(transport)}: {said}', server=name, code=leaf.code
        )
    if is_misfit(leaf):
        text = f'Server "{name}" gave a result that does not fit what it promised: {first_line(leaf, transport)}'
        return ProtocolError(text, server=name)
    return ProtocolError(f'Server "{name}" broke the protocol: {first_line(leaf, transport)}', server=name)


def explain_start(name: str, error: BaseException, limit_s: float, transport: object) -> ChatError:
    """Why a server could not be opened."""
    leaf = find_refusal(first_leaf(error), transport)
    if isinstance(leaf, ChatError):
        return leaf
    words = last_words(transport)
    if isinstance(leaf, asyncio.CancelledError) or is_late(leaf):
        text = f'Server "{name}" did not start within {limit_s:g} s{problem(transport)}.{words}'
        return TimeLimitError(text, "Raise its connect_s.", server=name, phase="start")
    if is_gone(leaf):
        text = f'Server "{name}" ended before it answered{ending(transport)}.{words}'
        return ConnectError(text, sandbox_hint(transport), server=name)
    said = shorten(hide(leaf.message, transport)) if isinstance(leaf, MCPError) else first_line(leaf, transport)
    return ConnectError(f'Server "{name}" cannot be opened{problem(transport)}: {said}.{words}', server=name)


def find_refusal(error: BaseException, transport: object) -> BaseException:
    """The error of a failed login, where the SDK was given its words."""
    refusal = getattr(getattr(transport, "login", None), "error", None)
    is_it = isinstance(error, MCPError) and isinstance(refusal, ChatError) and error.message == refusal.message
    return refusal if is_it and refusal else error


def is_misfit(error: BaseException) -> bool:
    """Whether the SDK found that a result does not fit its tool's output schema, or that the schema is none (2.3.0)."""
    said = str(error)
    is_missing = said.startswith("Tool ") and "has an output schema" in said
    return isinstance(error, RuntimeError) and (is_missing or said.startswith(("Invalid structured", "Invalid schema")))


def is_gone(error: BaseException) -> bool:
    """Whether the server, and not what it said, is the trouble. A server may send the SDK's codes; not its words."""
    return isinstance(error, MCPError) and error.code == CLOSED_CODE and error.message in ("Connection closed", CLOSED)


def is_late(error: BaseException) -> bool:
    """Whether a limit of ours ran out, or one of the SDK's."""
    late = isinstance(error, MCPError) and error.code == TIMEOUT_CODE and error.message.endswith("timed out")
    return late or isinstance(error, TimeoutError)


def ending(transport: object) -> str:
    """How its process ended, where it has one: " (it exited with 3)"."""
    said = getattr(transport, "ended", "")
    return f" (it {said})" if isinstance(said, str) and said else ""


def problem(transport: object) -> str:
    """What the transport saw below the protocol, such as an HTTP status."""
    said = getattr(transport, "problem", "")
    return f" ({said})" if isinstance(said, str) and said else ""


def sandbox_hint(transport: object) -> str:
    """What a server that has died could not reach, where it was in a sandbox."""
    sandbox = getattr(transport, "sandbox", None)
    return sandbox.hint if sandbox else ""


def last_words(transport: object) -> str:
    """The last lines of what the server wrote to its standard error as a sentence, where it has one."""
    heard = getattr(transport, "said", b"")
    lines = heard.decode("utf-8", errors="replace").strip().splitlines() if isinstance(heard, bytes) else []
    said = " / ".join(shorten(line) for line in lines[-SHOWN_LINES:] if line.strip())
    return f" It said: {said}" if said else ""


def shorten(text: str) -> str:
    line = clean_line(text[: 4 * LONGEST_LINE])
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def first_leaf(error: BaseException) -> BaseException:
    """The first real error in nested groups of them."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


def hide(text: str, transport: object) -> str:
    """A text without secrets: before it is cut, as half of one would not be known."""
    secrets = getattr(transport, "secrets", None)
    return secrets.hide_all(text) if isinstance(secrets, Redactor) else text


def first_line(error: BaseException, transport: object = None) -> str:
    """An error in one line; of a failed validation, where and what."""
    if "Unsupported protocol version" in str(error):
        return shorten(f"{error} (known here: {', '.join(KNOWN_PROTOCOL_VERSIONS)})")
    if isinstance(error, pydantic.ValidationError):
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][-2:])
        return shorten(f"{place}: {first['msg']}")
    return shorten(hide(str(error).strip() or type(error).__name__, transport).splitlines()[0])
