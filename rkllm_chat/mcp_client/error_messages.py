"""Translate failures of requests and of servers into `ChatError`, with the server's name and its last stderr lines."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING

from ..core.errors import ChatError, ConnectError, ProtocolError, TimeLimitError
from ..core.sanitize import shorten_line
from .process.end_hints import explain_end
from .protocol.faults import UNUSABLE, hint_for_status, make_answer_error, quote_stderr
from .transports.addresses import redact_url
from .transports.driver import AnswerError, ConnectionEndedError

if TYPE_CHECKING:
    from .transports.base import Transport


def translate_call_error(name: str, error: BaseException, limit_s: float, transport: Transport | None) -> ChatError:
    """Return the error of a failed request to an open server.

    Args:
        name: The server's name.
        error: The exception, possibly an exception group.
        limit_s: The deadline that applied, for the message.
        transport: The transport, which knows more; None for a server in this process.
    """
    leaf = first_leaf(error)
    if isinstance(leaf, ChatError):
        return leaf
    if isinstance(leaf, TimeoutError):
        text = f'Server "{name}" did not answer within {limit_s:g} s.'
        return TimeLimitError(text, "Raise its timeout_s.", server=name, phase="call")
    if isinstance(leaf, ConnectionEndedError):
        text = f'The connection to server "{name}" ended{_describe_exit(transport)}.{_quote_stderr(transport)}'
        return _make_ended_error(text, name, transport)
    if isinstance(leaf, AnswerError):
        message = transport.secrets.redact_all(str(leaf)) if transport else str(leaf)
        answer = {"code": leaf.code, "message": message, "data": UNUSABLE if leaf.data == UNUSABLE else None}
        return make_answer_error(name, answer, describe_problem(transport), _status_hint(transport))
    return ProtocolError(f'Server "{name}" violated the protocol: {summarize_error(leaf, transport)}', server=name)


def translate_start_error(name: str, error: BaseException, limit_s: float, transport: Transport | None) -> ChatError:
    """Return the error of a server that could not be opened; arguments as for `translate_call_error`."""
    leaf = first_leaf(error)
    if isinstance(leaf, ChatError):
        return leaf
    stderr = _quote_stderr(transport)
    if isinstance(leaf, asyncio.CancelledError | TimeoutError):
        text = f'Server "{name}" did not start within {limit_s:g} s{describe_problem(transport)}.{stderr}'
        return TimeLimitError(text, "Raise its connect_s.", server=name, phase="start")
    if isinstance(leaf, ConnectionEndedError):
        if transport and transport.server.url and transport.end_reason:
            url = redact_url(transport.server.url)
            return make_unopened_error(name, url, transport.end_reason)
        text = f'Server "{name}" ended before it answered{_describe_exit(transport)}.{stderr}'
        return _make_ended_error(text, name, transport)
    reason = summarize_error(leaf, transport).removesuffix(".")
    text = f'Server "{name}" cannot be opened{describe_problem(transport)}: {reason}.{stderr}'
    return ConnectError(text, _status_hint(transport), server=name)


def make_unopened_error(name: str, url: str, reason: str) -> ConnectError:
    """Return the error of a server at a URL that cannot be opened; the reason follows its name."""
    text = f'Server "{name}" at {url} {reason}.'
    return ConnectError(text, "Check that it runs and that the URL is right.", server=name, url=url)


def _describe_exit(transport: Transport | None) -> str:
    """Return how the connection ended, such as " (it exited with 3)", or ""."""
    return f" (it {transport.end_reason})" if transport and transport.end_reason else ""


def describe_problem(transport: Transport | None) -> str:
    """Return the transport's lower-level problem in brackets, such as an HTTP status, or ""."""
    return f" ({transport.problem})" if transport and transport.problem else ""


def _status_hint(transport: Transport | None) -> str:
    """Return what a user can do about the HTTP status of the last response, or ""."""
    return hint_for_status(transport.status) if transport and transport.problem and transport.status else ""


def _make_ended_error(text: str, name: str, transport: Transport | None) -> ConnectError:
    """Return the error of a server that ended, with what its sandbox denied it or else what it could not reach."""
    if transport is None:
        return ConnectError(text, server=name)
    if denial := transport.find_fatal_denial():
        return ConnectError(text, denial.text, server=name, denied_folder=denial.folder)
    return ConnectError(text, explain_end(transport.stderr_tail, transport.exit_code, transport.sandbox), server=name)


def _quote_stderr(transport: Transport | None) -> str:
    return quote_stderr(transport.stderr_tail) if transport else ""


def first_leaf(error: BaseException) -> BaseException:
    """Return the first exception inside nested exception groups."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


def describe_connect_error(error: BaseException) -> str:
    """Return why a connection could not be made: "Connection refused", where an operating system error is its cause.

    Libraries hide that error behind a sentence of their own ("All connection attempts failed").
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno) if cause.errno > 0 else cause.strerror or str(cause)
        inner: tuple[BaseException, ...] = getattr(cause, "exceptions", ())
        cause = inner[0] if inner else cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def summarize_error(error: BaseException, transport: Transport | None = None) -> str:
    """Return an exception as one line."""
    text = str(error).strip() or type(error).__name__
    if transport:
        text = transport.secrets.redact_all(text)  # before truncation: half a secret would not be recognized
    return shorten_line(text if isinstance(error, AnswerError) else text.splitlines()[0])
