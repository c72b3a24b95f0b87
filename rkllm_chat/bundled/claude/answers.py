"""What the Claude CLI writes with `--output-format json`, read. It runs nothing.

One object `{"type": "result", "is_error": ..., "result": ..., "session_id": ..., "total_cost_usd": ..., "usage": ...}`,
or, where the user's settings make the CLI verbose, a list of messages whose last is that object. Older releases say
`cost_usd`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HEAD = 300
SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnswerError(ValueError):
    """It is no answer; the text says why, and how it begins."""


@dataclass(frozen=True)
class Answer:
    """`result` is the answer's text, None where it has none. `cost_usd` and the tokens are 0 where it says nothing."""

    result: str | None
    session_id: str | None
    is_error: bool
    subtype: str = ""
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


def read_answer(output: bytes) -> Answer:
    """Raises AnswerError."""
    text = output.decode("utf-8", errors="replace").strip()
    if not text:
        raise AnswerError("claude wrote nothing")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise AnswerError(f"what claude wrote is not JSON; it begins: {text[:HEAD]}") from None
    if isinstance(value, list):
        value = next((one for one in reversed(value) if isinstance(one, dict) and one.get("type") == "result"), None)
    if not isinstance(value, dict) or not isinstance(value.get("result"), str | None):
        raise AnswerError(f"what claude wrote is JSON, but no answer; it begins: {text[:HEAD]}")
    if "result" not in value and not value.get("is_error") and "subtype" not in value:
        raise AnswerError(f"what claude wrote has no result; it begins: {text[:HEAD]}")
    return make_answer(value)


def make_answer(value: Mapping[str, Any]) -> Answer:
    usage = value.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    session = value.get("session_id")
    return Answer(
        result=value.get("result"),
        session_id=session if is_session(session) else None,
        is_error=bool(value.get("is_error")) or value.get("result") is None,
        subtype=str(value.get("subtype") or ""),
        cost_usd=number(value.get("total_cost_usd", value.get("cost_usd"))),
        input_tokens=int(sum(number(usage.get(name)) for name in INPUTS)),
        output_tokens=int(number(usage.get("output_tokens"))),
    )


def is_session(value: Any) -> bool:
    """Whether it can be a session's id: a word that no command line takes for an option."""
    return isinstance(value, str) and SESSION.fullmatch(value) is not None


def number(value: Any) -> float:
    """A count or an amount; 0 for what is none."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if is_one else 0.0
