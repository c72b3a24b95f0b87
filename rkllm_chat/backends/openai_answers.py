"""What an OpenAI-compatible service answers: chunks of a reply, and refusals as errors of ours. It sends nothing.

Nothing is believed: a value of another type than expected is as good as missing. What a service says in an error is
cut, and never holds the key.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from ..errors import FULL_HINT, AuthError, ChatError, GenerationError
from ..redact import HIDDEN

LONGEST_SAYING = 300
LONGEST_LIST = 20
PAGES = ("<!doctype", "<html", "<?xml")
ADDRESS_HINT = "Is it the right address? It usually ends in /v1."


class UnreachableError(GenerationError):
    """The service did not answer; another one may."""


class BusyError(GenerationError):
    """The service asks to come back later. `wait_s`: when, as it says, or None."""

    def __init__(self, message: str, wait_s: float | None) -> None:
        super().__init__(message, "Try it again later.")
        self.wait_s = wait_s


@dataclass(frozen=True)
class CallPart:
    """A piece of a native tool call; the pieces with the same index belong together."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True)
class Chunk:
    """One event of a stream. `ended`: why the reply is over, "" if it is not. `is_last`: the service has said all."""

    text: str = ""
    thought: str = ""
    calls: tuple[CallPart, ...] = ()
    ended: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    progress: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_last: bool = False

    @property
    def is_of_use(self) -> bool:
        return bool(self.says or self.ended or self.usage or self.timings or self.progress or self.is_last)

    @property
    def says(self) -> bool:
        return bool(self.text or self.thought or self.calls)


@dataclass(frozen=True)
class Speaker:
    """Who answers, for the words of an error. `names`: the models that are there; `secret` is never repeated."""

    url: str
    model: str = ""
    names: tuple[str, ...] = ()
    key_env: str = ""
    secret: str = field(default="", repr=False)

    def clean(self, text: str) -> str:
        """What it said, on one line, cut, without the key."""
        shown = " ".join(text.split())
        shown = shown.replace(self.secret, HIDDEN) if self.secret else shown
        return shown if len(shown) <= LONGEST_SAYING else shown[:LONGEST_SAYING] + "…"


def dig(value: Any, *keys: str | int) -> Any:
    """The value at a path of keys and indices; None where there is none."""
    for key in keys:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: Any, *keys: str | int) -> str:
    found = dig(value, *keys)
    return found if isinstance(found, str) else ""


def number_at(value: Any, *keys: str | int) -> int | None:
    """A whole number that is not negative."""
    found = dig(value, *keys)
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return int(found) if is_number and found >= 0 else None


def table_at(value: Any, *keys: str | int) -> dict[str, Any]:
    found = dig(value, *keys)
    return found if isinstance(found, dict) else {}


def read_chunk(data: str, speaker: Speaker) -> Chunk:
    """One event of the stream of either API, or a whole answer. Raises GenerationError for an error that it tells."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise GenerationError(
            f"{speaker.url} sent what is not JSON: {speaker.clean(data)[:80]!r}.", ADDRESS_HINT
        ) from None
    if dig(value, "error") or text_at(value, "object") == "error":
        raise GenerationError(f"{speaker.url} failed: {speaker.clean(read_saying(value))}.", "Try it again.")
    choice = dig(value, "choices", 0)
    said = table_at(choice, "delta") or table_at(choice, "message")
    return Chunk(
        text_at(choice, "text") or text_at(said, "content"),
        text_at(said, "reasoning_content") or text_at(said, "reasoning"),
        tuple(read_calls(dig(said, "tool_calls"))),
        text_at(choice, "finish_reason"),
        table_at(value, "usage"),
        table_at(value, "timings"),
        table_at(value, "prompt_progress"),
    )


def read_calls(entries: Any) -> Iterable[CallPart]:
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        arguments = dig(entry, "function", "arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""
        index = number_at(entry, "index")
        yield CallPart(place if index is None else index, text_at(entry, "function", "name"), written)


def read_saying(value: Any) -> str:
    """What an error says, in the shapes of the services there are."""
    error = dig(value, "error")
    for found in (dig(error, "message"), error, dig(value, "message"), dig(value, "detail")):
        if isinstance(found, str) and found:
            return found
    return json.dumps(value, ensure_ascii=False)


def judge(speaker: Speaker, status: int, headers: Mapping[str, str], body: bytes) -> ChatError:
    """What an answer that is no success means."""
    text = body.decode("utf-8", errors="replace")
    value, said = read_body(text)
    told = f": {speaker.clean(said)}" if said else ""
    if 300 <= status < 400:
        place = urlsplit(headers.get("location", ""))
        to = speaker.clean(f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}")
        return GenerationError(f"{speaker.url} sends us on to {to}.", "If that is right, name that address.")
    if status in (401, 403):
        return AuthError(f"{speaker.url} refuses (HTTP {status}){told}.", key_hint(speaker), url=speaker.url)
    if status in (429, 503):
        return BusyError(f"{speaker.url} is busy (HTTP {status}){told}.", read_wait(headers.get("retry-after", "")))
    if status in (502, 504):
        return UnreachableError(f"{speaker.url} is not there (HTTP {status}){told}.", "Try it again later.")
    code = f"{dig(value, 'error', 'code')} {dig(value, 'error', 'type')} {said}".lower()
    if "context" in code and ("exceed" in code or "length" in code):
        return GenerationError(f"{speaker.url}: the prompt is too long{told}.", FULL_HINT)
    if (status == 404 and "model" in code) or "model_not_found" in code:
        return unknown_model(speaker)
    hint = ADDRESS_HINT if status in (404, 405) or is_page(text) else ""
    told = ": a web page, no JSON" if is_page(text) else told
    return GenerationError(f"{speaker.url} answers HTTP {status}{told}.", hint)


def read_body(text: str) -> tuple[Any, str]:
    """The value of an error's body, and what it says."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None, text.strip()
    return value, read_saying(value)


def is_page(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n").lower().startswith(PAGES)


def unknown_model(speaker: Speaker) -> GenerationError:
    names = ", ".join(speaker.names[:LONGEST_LIST]) + (", …" if len(speaker.names) > LONGEST_LIST else "")
    hint = f"It has {names}." if names else "Name one that it has: --model URL#NAME."
    return GenerationError(f'{speaker.url} has no model "{speaker.model}".', hint, available=list(speaker.names))


def key_hint(speaker: Speaker) -> str:
    if speaker.secret:
        return f"Is the key in {speaker.key_env} the right one?"
    return 'Name the environment variable that holds your key: [openai] key_env = "NAME".'


def read_wait(text: str) -> float | None:
    """Seconds of a Retry-After header (RFC 9110, 10.2.3): a number, or a date; None where it cannot be read."""
    try:
        wait_s = float(text) if text.strip().isdecimal() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, wait_s)
