"""What is said of a server that did not answer in time: what it was to do, and which limit to raise."""

from __future__ import annotations

from ..errors import TimeLimitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DONE = {"start": "start", "list": "list what it has", "call": "answer the call"}


def explain_silence(who: str, phase: str, limit_s: float, words: str, details: dict[str, Any]) -> TimeLimitError:
    """`who` begins the sentence, `words` end it; `phase` is what was waited for."""
    key = "connect_s" if phase == "start" else "timeout_s"
    text = f"{who} did not {DONE.get(phase, 'answer')} within {limit_s:g} s.{words}"
    return TimeLimitError(text, f"Raise its {key}, or --timeout.", limit_s=limit_s, **details)
