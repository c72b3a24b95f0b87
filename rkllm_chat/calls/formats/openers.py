"""What may begin a call in a reply: one table for the scanner, the grammars and the prohibition of calls.

Besides the markers of its formats, a model may write a call as bare JSON. That counts only where a call can be meant:
at the beginning of the reply or after a call, in a code fence there, and, in families that are known for it, on a line
of its own behind prose if the call ends the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from .common import NAME_KEYS
from .format import Format
from .json_calls import SEPARATORS

UNMARKED_OPENERS = tuple(f'{{"{key}":"' for key in NAME_KEYS)
"""What begins a call in bare JSON, up to the name of the tool; white space between its parts does not count."""

_PARTS = re.compile(r'"\w+"|\W')


def list_markers(formats: Iterable[Format]) -> tuple[str, ...]:
    """Return the markers that begin calls in these formats."""
    return tuple(dict.fromkeys(marker for format_ in formats for marker in format_.openers))


def list_forbidden(formats: Iterable[Format]) -> tuple[str, ...]:
    """Return the beginnings of all calls in these formats, without white space.

    Of a call without a marker, that is the beginning of an object: a model that may not write `{"name"` writes other
    objects instead, and its answer is no better for it (Qwen2.5-Coder 0.5B).
    """
    return (*("".join(marker.split()) for marker in list_markers(formats)), '{"', "{'", "```json")


@cache
def unmarked_pattern(is_behind_prose: bool) -> re.Pattern[str]:
    """Return the pattern of an unmarked opener where a call can be meant; group `opener` is what begins the call.

    Args:
        is_behind_prose: Whether it may stand on a line of its own behind prose; else only at the beginning.
    """
    openers = "|".join(r"\s*".join(map(re.escape, _PARTS.findall(opener))) for opener in UNMARKED_OPENERS)
    begin = r"(?:\A|\n)" if is_behind_prose else r"\A"
    separators = re.escape("".join(SEPARATORS))
    return re.compile(rf"{begin}[\s{separators}]*(?:```\w*[ \t]*\n\s*)?\[?\s*(?P<opener>{openers})")
