"""Parse the responses of OpenAI-compatible services: chunks of a reply, and failures as errors of this program.

Nothing is trusted: a value of an unexpected type counts as missing. Error messages of a service are truncated and never
contain the key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ...core.errors import AuthError, ChatError, ContextOverflowError, GenerationError
from ...core.redact import REDACTED
from ...core.retry_after import parse_retry_after
from ...core.sanitize import truncate

_MAX_MESSAGE_LENGTH = 300
_MAX_LISTED_MODELS = 20
_PAGE_STARTS = ("<!doctype", "<html", "<?xml")
"""How a web page begins."""
_MAX_SEARCHED_LENGTH = 2000
_MAX_NUMBER = 1 << 53
_CONTEXT_SIZE = re.compile(
    r"(?:context (?:window|length|size)|context_length|n_ctx|context holds)(?: is| of|:| =|)(?: only)? \(?(\d{3,8})\b",
    re.IGNORECASE,
)
_PROMPT_SIZE = re.compile(
    r"(?:requested tokens \(|request \(|resulted in |your request has |prompt (?:has|contains|is) )(\d{3,8})\b"
    r"|\b(\d{3,8}) in (?:the messages|the prompt|your prompt)",
    re.IGNORECASE,
)
"""Sizes in the sentences of llama.cpp's server, llama-cpp-python, vLLM, OpenAI, LM Studio and others."""
ADDRESS_HINT = "Check the address; it usually ends in /v1."


class UnreachableError(GenerationError):
    """The service did not respond; another one may."""


class CutOffError(GenerationError):
    """The service closed the connection before the end of a reply."""


class NotFoundError(GenerationError):
    """The service has nothing at the path (HTTP 404)."""


class ServiceBusyError(GenerationError):
    """The service asks to retry later. `wait_s`: after how many seconds, if it says so."""

    def __init__(self, message: str, wait_s: float | None) -> None:
        super().__init__(message, "Try it again later.")
        self.wait_s = wait_s


@dataclass(frozen=True)
class CallDelta:
    """A piece of a native tool call; pieces with the same index belong together, unless a new id begins a new call."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ReplyChunk:
    """One event of a stream.

    Attributes:
        text: Text of the reply.
        thought: Text of a thought.
        calls: Pieces of native tool calls.
        finish_reason: The reason for the end; "" before it.
        usage: Token counts, at the end.
        timings: Timings of llama.cpp's server, at the end.
        progress: Progress of llama.cpp's server in the prompt.
        is_last: Whether the stream is over.
    """

    text: str = ""
    thought: str = ""
    calls: tuple[CallDelta, ...] = ()
    finish_reason: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    progress: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_last: bool = False

    @property
    def has_data(self) -> bool:
        """Whether the chunk contains anything."""
        return bool(
            self.has_reply_content or self.finish_reason or self.usage or self.timings or self.progress or self.is_last
        )

    @property
    def has_reply_content(self) -> bool:
        """Whether the chunk contains a part of the reply."""
        return bool(self.text or self.thought or self.calls)


@dataclass(frozen=True)
class ServiceIdentity:
    """A service, as error messages need it.

    Attributes:
        url: Its URL.
        model: Name of the model.
        model_names: Models that it offers.
        key_env: Environment variable of the key.
        api_key: The key, which is never shown.
    """

    url: str
    model: str = ""
    model_names: tuple[str, ...] = ()
    key_env: str = ""
    api_key: str = field(default="", repr=False)

    def sanitize_text(self, text: str) -> str:
        """Return text of the service on one line, truncated, without the key."""
        shown = " ".join(text.split())
        shown = shown.replace(self.api_key, REDACTED) if self.api_key else shown
        return truncate(shown, _MAX_MESSAGE_LENGTH)


def get_nested(value: Any, *keys: str | int) -> Any:
    """Return the value at a path of keys and indices; None if there is none."""
    for key in keys:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def get_text(value: Any, *keys: str | int) -> str:
    """Return the string at a path; "" if there is none."""
    nested = get_nested(value, *keys)
    return nested if isinstance(nested, str) else ""


def get_number(value: Any, *keys: str | int) -> int | None:
    """Return the number at a path as an integer; None if there is none, or it is negative or absurdly large."""
    nested = get_nested(value, *keys)
    is_number = isinstance(nested, int | float) and not isinstance(nested, bool)
    return int(nested) if is_number and 0 <= nested < _MAX_NUMBER else None


def get_object(value: Any, *keys: str | int) -> dict[str, Any]:
    """Return the object at a path; empty if there is none."""
    nested = get_nested(value, *keys)
    return nested if isinstance(nested, dict) else {}


def parse_chunk(data: str, service: ServiceIdentity) -> ReplyChunk:
    """Parse one event of a stream, of /completions or /chat/completions, or a whole response.

    Raises:
        GenerationError: It is not JSON, or reports an error.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        shown = service.sanitize_text(data)[:80]
        raise GenerationError(f"{service.url} sent invalid JSON: {shown!r}.", ADDRESS_HINT) from None
    if get_nested(value, "error") or get_text(value, "object") == "error":
        message = _read_message(value)
        if overflow := _find_overflow(service, value, message):
            raise overflow
        raise GenerationError(f"{service.url} failed: {service.sanitize_text(message)}.", "Try it again.")
    choice = get_nested(value, "choices", 0)
    delta = get_object(choice, "delta") or get_object(choice, "message")
    return ReplyChunk(
        get_text(choice, "text") or get_text(delta, "content"),
        get_text(delta, "reasoning_content") or get_text(delta, "reasoning"),
        tuple(_read_calls(get_nested(delta, "tool_calls"))),
        get_text(choice, "finish_reason"),
        get_object(value, "usage"),
        get_object(value, "timings"),
        get_object(value, "prompt_progress"),
    )


def _read_calls(entries: Any) -> Iterable[CallDelta]:
    for position, entry in enumerate(entries if isinstance(entries, list) else ()):
        arguments = get_nested(entry, "function", "arguments")
        arguments_text = arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""
        index = get_number(entry, "index")
        name = get_text(entry, "function", "name")
        yield CallDelta(position if index is None else index, get_text(entry, "id"), name, arguments_text)


def to_error_body(data: str) -> str:
    """Return the data of an event that is called an error, in the shape of an error body."""
    value, message = _read_body(data)
    return data if get_nested(value, "error") else json.dumps({"error": {"message": message or "an error"}})


def _read_message(value: Any) -> str:
    """Return the message of an error body, in the shapes of the known services."""
    error = get_nested(value, "error")
    for nested in (
        get_nested(error, "message"),
        error,
        get_nested(value, "message"),
        get_nested(value, "detail"),
    ):
        if isinstance(nested, str) and nested:
            return nested
    return json.dumps(value, ensure_ascii=False)


def to_error(service: ServiceIdentity, status: int, headers: Mapping[str, str], body: bytes) -> ChatError:
    """Convert an unsuccessful response to an error.

    Args:
        service: The service.
        status: HTTP status.
        headers: Headers with lower-case names.
        body: The body.
    """
    text = body.decode("utf-8", errors="replace")
    value, message = _read_body(text)
    detail = f": {service.sanitize_text(message)}" if message else ""
    if 300 <= status < 400:
        target = urlsplit(headers.get("location", ""))
        destination = service.sanitize_text(f"{target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}")
        return GenerationError(
            f"{service.url} redirects to {destination}, which is not followed.",
            "Configure that address if it is right.",
        )
    if status in (401, 403):
        return AuthError(
            f"{service.url} rejects the request (HTTP {status}){detail}.", _key_hint(service), url=service.url
        )
    if status in (429, 503):
        return ServiceBusyError(
            f"{service.url} is busy (HTTP {status}){detail}.", parse_retry_after(headers.get("retry-after", ""))
        )
    if status in (502, 504):
        return UnreachableError(f"{service.url} is unavailable (HTTP {status}){detail}.", "Try it again later.")
    if overflow := _find_overflow(service, value, message):
        return overflow
    code = _describe_code(value, message)
    if (status == 404 and "model" in code) or "model_not_found" in code:
        return unknown_model_error(service)
    hint = ADDRESS_HINT if status in (404, 405) or is_web_page(text) else ""
    detail = ": a web page instead of JSON" if is_web_page(text) else detail
    kind = NotFoundError if status == 404 else GenerationError
    return kind(f"{service.url} responded with HTTP {status}{detail}.", hint)


def _describe_code(value: Any, message: str) -> str:
    """Return the code, type and message of an error in lower case."""
    return f"{get_nested(value, 'error', 'code')} {get_nested(value, 'error', 'type')} {message}".lower()


def _find_overflow(service: ServiceIdentity, value: Any, message: str) -> ContextOverflowError | None:
    """Return the error of a prompt that is too long, with the sizes that the service names; None for another error."""
    code = _describe_code(value, message[:_MAX_SEARCHED_LENGTH])
    if "context" not in code or not ("exceed" in code or "length" in code):
        return None
    context, prompt = (pattern.search(message[:_MAX_SEARCHED_LENGTH]) for pattern in (_CONTEXT_SIZE, _PROMPT_SIZE))
    detail = f": {service.sanitize_text(message)}" if message else ""
    return ContextOverflowError(
        f"{service.url}: the prompt is too long{detail.rstrip('.')}.",
        get_number(value, "error", "n_ctx") or int(context[1] if context else 0),
        get_number(value, "error", "n_prompt_tokens") or int((prompt[1] or prompt[2]) if prompt else 0),
    )


def _read_body(text: str) -> tuple[Any, str]:
    """Return the value of an error body and its message."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None, text.strip()
    return value, _read_message(value)


def is_web_page(text: str) -> bool:
    """Return whether a body is a web page."""
    return text.lstrip("\ufeff \t\r\n").lower().startswith(_PAGE_STARTS)


def unknown_model_error(service: ServiceIdentity) -> GenerationError:
    """Return the error for a model that the service does not have."""
    names = ", ".join(service.model_names[:_MAX_LISTED_MODELS]) + (
        ", …" if len(service.model_names) > _MAX_LISTED_MODELS else ""
    )
    hint = f"Available: {names}." if names else "Select a model with --model URL#NAME."
    return GenerationError(f'{service.url} has no model "{service.model}".', hint, available=list(service.model_names))


def _key_hint(service: ServiceIdentity) -> str:
    if service.api_key:
        return f"Check the key in {service.key_env}."
    return 'Put your key into an environment variable and set [openai] key_env = "NAME".'
