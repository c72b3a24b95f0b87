"""Find calls that a reply without calls shows: they are offered to the user, or reported to the model, and not run."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress

from ..core.events import CallDescribed, CallFound, CallUnreadable
from .formats import ParsedCalls, ReadContext
from .formats.common import NAME_KEYS
from .formats.unmarked import read_shown_json
from .incremental_reader import EndOfTextError, Reader, TooLongError, run

_NEAR = r"[\[\]［］【】<>*_`\\(){}|/ -]"
_NEAR_MARKER = re.compile(
    rf"(?:^|\n){_NEAR}*[\[［【<*(]{_NEAR}*(?:functions?|tools?){_NEAR}*(?:calls?)?{_NEAR}*\s*$", re.I
)
_NEAR_END = re.compile(rf"\s*(?:{_NEAR}*(?:end)?{_NEAR}*(?:functions?|tools?){_NEAR}*(?:calls?)?{_NEAR}*)?\s*", re.I)
"""What looks like the markers of a call, but is written differently."""

_MAX_LINE_LENGTH = 256
_SHOWN_CALL = re.compile(rf"""\{{\s*["'](?:{"|".join(NAME_KEYS)})["']\s*:""")
_MAX_DESCRIBED, _MAX_SHOWN_CALLS = 3, 16
"""How many described calls are reported, and how many are looked at."""


def describe_calls(text: str, context: ReadContext) -> list[CallDescribed | CallUnreadable]:
    """Return the calls that a text shows as JSON of known tools.

    Args:
        text: The text of a reply, or its end.
        context: Tells which tools are known.

    Returns:
        The described calls, at most three; or one unreadable call, if the text ends in a call that follows something
        like a marker.
    """
    found: list[CallDescribed | CallUnreadable] = []
    for match in itertools.islice(_SHOWN_CALL.finditer(text), _MAX_SHOWN_CALLS):
        described = _read_described(text[match.start() :], context)
        if described and _is_nearly_marked(text, match.start(), match.start() + len(described.raw)):
            detail = "The call does not stand between the markers of the format."
            return [CallUnreadable("bad_json", detail, described.raw)]
        if described and described not in found:
            found.append(described)
    return found[:_MAX_DESCRIBED]


def _read_described(text: str, context: ReadContext) -> CallDescribed | None:
    """Return the call that a text begins with, if it is whole and of a known tool."""
    reader = Reader()
    reader.feed(text)
    reader.end()
    reader.start_recording()
    parsed: ParsedCalls = None
    with suppress(EndOfTextError, TooLongError):
        parsed = run(read_shown_json(reader, context))
    if not parsed or not isinstance(parsed[0], CallFound):
        return None
    return CallDescribed(parsed[0].call, reader.recorded())


def _is_nearly_marked(text: str, start: int, end: int) -> bool:
    """Return whether the call at the end of the text follows something like a marker, which has a line of its own."""
    if not _NEAR_END.fullmatch(text, end) or text.count("```", 0, start) % 2:
        return False
    return bool(_NEAR_MARKER.search(text, max(0, start - _MAX_LINE_LENGTH), start))
