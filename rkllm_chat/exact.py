"""JSON with nothing lost on the way: what readers of JSON differ about is refused. It knows no schema."""

from __future__ import annotations

import json
from math import isfinite

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from typing import Any, NoReturn

LONGEST_NUMBER = 4000  # characters; Python writes no more than 4300 digits


def exact_json(text: str, strict: bool = True) -> Any:
    """The value of a text. Raises ValueError, one line, for text that is not JSON (then its cause knows the place),
    for NaN, a number too large or too long, a key that stands twice, half a surrogate pair, and what is nested too
    deep. Not `strict`, strings may hold line breaks and other control characters as they are."""
    refuse_halves(text)
    try:
        value = json.loads(
            text,
            strict=strict,
            parse_constant=refuse,
            parse_float=finite,
            parse_int=whole,
            object_pairs_hook=unique,
        )
        if "\\u" in text:  # only so a half can come in
            refuse_halves(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        raise ValueError("nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    return value


def refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def refuse_halves(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is no character") from None


def finite(text: str) -> float:
    number = float(short(text))
    if not isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def whole(text: str) -> int:
    return int(short(text))


def short(text: str) -> str:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number is longer than {LONGEST_NUMBER} digits")
    return text


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {json.dumps(name[:40], ensure_ascii=False)} stands twice in one object")
            seen.add(name)
    return value
