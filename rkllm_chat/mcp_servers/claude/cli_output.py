"""Parse the output of the Claude CLI with `--output-format json`.

One object `{"type": "result", "is_error": ..., "result": ..., "session_id": ..., "total_cost_usd": ..., "usage": ...}`,
or, if the user's settings make the CLI verbose, a list of messages that ends with this object. Older releases write
`cost_usd`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_HEAD = 300
_SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
_INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class OutputError(ValueError):
    """The output is not an answer; the message says why and quotes its beginning."""


@dataclass(frozen=True)
class CliResult:
    """An answer of the CLI.

    Attributes:
        result: The text; None if there is none.
        cost_usd: 0 if not reported.
        input_tokens: All input including cache reads and writes; 0 if not reported.
        output_tokens: 0 if not reported.
    """

    result: str | None
    session_id: str | None
    is_error: bool
    subtype: str = ""
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


def parse_output(output: bytes) -> CliResult:
    """Parse the output of a run. Raises OutputError."""
    text = output.decode("utf-8", errors="replace").strip()
    if not text:
        raise OutputError("claude wrote nothing")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise OutputError(f"what claude wrote is not JSON; it begins: {text[:_HEAD]}") from None
    if isinstance(value, list):
        value = next(
            (message for message in reversed(value) if isinstance(message, dict) and message.get("type") == "result"),
            None,
        )
    if not isinstance(value, dict) or not isinstance(value.get("result"), str | None):
        raise OutputError(f"what claude wrote is JSON, but no answer; it begins: {text[:_HEAD]}")
    if "result" not in value and not value.get("is_error") and "subtype" not in value:
        raise OutputError(f"what claude wrote has no result; it begins: {text[:_HEAD]}")
    return make_cli_result(value)


def make_cli_result(value: Mapping[str, Any]) -> CliResult:
    """Convert a result object, with defaults for missing or invalid fields."""
    usage = value.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    session = value.get("session_id")
    return CliResult(
        result=value.get("result"),
        session_id=session if is_session_id(session) else None,
        is_error=bool(value.get("is_error")) or value.get("result") is None,
        subtype=str(value.get("subtype") or ""),
        cost_usd=read_number(value.get("total_cost_usd", value.get("cost_usd"))),
        input_tokens=int(sum(read_number(usage.get(name)) for name in _INPUTS)),
        output_tokens=int(read_number(usage.get("output_tokens"))),
    )


def is_session_id(value: Any) -> bool:
    """Whether the value is a session id; ids never begin with `-`, as an option would."""
    return isinstance(value, str) and _SESSION.fullmatch(value) is not None


def read_number(value: Any) -> float:
    """Return a non-negative number; 0 for any other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if is_number else 0.0
