"""JSON with nothing lost on the way: what readers of JSON differ about is refused. It knows no schema."""

from __future__ import annotations

import json
from math import isfinite

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from typing import Any, NoReturn


def exact_json(text: str) -> Any:
    """The value of a text. Raises ValueError, one line, for text that is not JSON (then its cause knows the place),
    for NaN, a number too large, a key that stands twice, half a surrogate pair, and what is nested too deep."""
    try:
        value = json.loads(text, parse_constant=refuse, parse_float=finite, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    if "\\u" in text:  # only so a half can come in
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair is no character") from None
    return value


def refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in value if names.count(name) > 1)
        raise ValueError(f'the key "{twice}" stands twice in one object')
    return value
