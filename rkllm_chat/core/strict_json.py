"""Parse JSON strictly: input that JSON parsers interpret differently is rejected. No schema is involved."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

MAX_NUMBER_DIGITS = 4000  # characters; Python writes no more than 4300 digits


def parse_strict_json(text: str, strict: bool = True) -> Any:
    """Parse a JSON text without losing information.

    Args:
        text: JSON document.
        strict: Reject unescaped control characters in strings.

    Raises:
        ValueError: The text is not JSON (`__cause__` has the position), or contains NaN, infinity, a number that is too
            large or too long, a duplicate key, a lone surrogate, or excessive nesting. The message is one line.
    """
    reject_surrogates(text)
    try:
        value = _DECODERS[strict].decode(text)
        if "\\u" in text:  # only an escape can introduce a lone surrogate here
            reject_surrogates(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    return value


def _refuse_constant(word: str) -> NoReturn:
    """Raise ValueError for NaN, Infinity and -Infinity; a `parse_constant` hook."""
    raise ValueError(f"{word} is not JSON")


def reject_surrogates(text: str) -> None:
    """Raise ValueError if the text contains a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it contains a lone surrogate") from None


def parse_finite_float(text: str) -> float:
    """Parse a float; raise ValueError if it overflows to infinity."""
    number = float(check_number_length(text))
    if not isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _whole(text: str) -> int:
    return int(check_number_length(text))


def check_number_length(text: str) -> str:
    """Return the digits unchanged; raise ValueError if there are more than `MAX_NUMBER_DIGITS`."""
    if len(text) > MAX_NUMBER_DIGITS:
        raise ValueError(f"a number is longer than {MAX_NUMBER_DIGITS} digits")
    return text


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; raise ValueError if a key occurs twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {json.dumps(name[:40], ensure_ascii=False)} occurs twice in one object")
            seen.add(name)
    return value


_HOOKS: dict[str, Any] = {
    "parse_constant": _refuse_constant,
    "parse_float": parse_finite_float,
    "parse_int": _whole,
    "object_pairs_hook": build_object,
}
# to make a decoder takes longer than to read a short text
_DECODERS = {strict: json.JSONDecoder(strict=strict, **_HOOKS) for strict in (True, False)}
