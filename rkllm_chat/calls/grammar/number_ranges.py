"""Build GBNF expressions for numbers between two bounds, digit by digit.

Accepted are integers of up to 20 digits, and other numbers with up to 21 digits after the point or, where the bounds
allow it, with one digit before the point and an exponent. That covers every double as Python writes it, except
integers above 10^20, doubles from 1e308 on and below 1e-307, and, within bounds, numbers with an exponent that would
have to be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from .gbnf import literal, one_of

_DIGITS = 20
_LARGEST: int = 10**_DIGITS - 1
_FRACTION = 21
_MANTISSA = f'[1-9] ("." [0-9]{{1,{_FRACTION}}})?'
_EXPONENT = '("0"? [1-9] | [1-9] [0-9] | [1-2] [0-9] [0-9] | "30" [0-7])'
_DOWN = f'[eE] "-" {_EXPONENT}'
_UP = f'[eE] "+"? {_EXPONENT}'


@dataclass(frozen=True)
class Bound:
    """The end of a range; `is_open`: the end itself is excluded."""

    value: Decimal
    is_open: bool = False

    def mirror(self) -> Bound:
        """Return the bound of the negated numbers."""
        return Bound(-self.value, self.is_open)


_ZERO = Bound(Decimal(0))


def integers(low: Bound | None, high: Bound | None) -> str | None:
    """Return the expression of the integers from `low` to `high`; None if there are none."""
    if (low and low.value > _LARGEST) or (high and high.value < -_LARGEST):
        return None
    least = -_LARGEST if low is None else _whole(low, ROUND_CEILING, 1)
    most = _LARGEST if high is None else _whole(high, ROUND_FLOOR, -1)
    below = _digit_ranges(max(1, -most), -least) if least < 0 else None
    above = _digit_ranges(max(0, least), most)
    return one_of([above, below and f'"-" {below}'])


def _whole(bound: Bound, rounding: str, step: int) -> int:
    """Return the first integer inside a bound."""
    number = int(bound.value.to_integral_value(rounding=rounding))
    inside: int = number + step if bound.is_open and number == bound.value else number
    return min(max(inside, -_LARGEST), _LARGEST)


def _digit_ranges(least: int, most: int) -> str | None:
    """Return the expression of the integers from `least` (0 or more) to `most`, by their number of digits."""
    ranges: list[str] = []
    for size in range(len(str(least)), len(str(most)) + 1):
        first, last = max(least, 10 ** (size - 1) if size > 1 else 0), min(most, 10**size - 1)
        if first <= last:
            ranges.append(_digit_range(str(first), str(last)))
    return one_of(ranges)


def _digit_range(first: str, last: str) -> str:
    """Return the expression of the numbers between two with the same number of digits."""
    if not first:
        return ""
    rest = len(first) - 1
    if set(first[1:]) <= {"0"} and set(last[1:]) <= {"9"}:
        return f"{_digits(int(first[0]), int(last[0]))} {_any_digits(rest, rest)}".strip()
    if first[0] == last[0]:
        return f"{literal(first[0])} {_digit_range(first[1:], last[1:])}"
    middle = _digits(int(first[0]) + 1, int(last[0]) - 1)
    parts = [
        f"{literal(first[0])} {_digit_range(first[1:], '9' * rest)}",
        middle and f"{middle} {_any_digits(rest, rest)}",
        f"{literal(last[0])} {_digit_range('0' * rest, last[1:])}",
    ]
    return one_of(parts) or ""


def _digits(first: int, last: int) -> str | None:
    return f"[{first}-{last}]" if first <= last else None


def _any_digits(least: int, most: int) -> str:
    return f"[0-9]{{{least},{most}}}" if most else ""


def numbers(low: Bound | None, high: Bound | None) -> str | None:
    """Return the expression of the numbers from `low` to `high`; None if there are none."""
    parts: list[str | None] = []
    if high is None or high.value >= 0:
        parts.append(_from_zero(low if low and low.value >= 0 else _ZERO, high))
    if low is None or low.value < 0:
        nearest = high.mirror() if high and high.value <= 0 else _ZERO
        mirrored = _from_zero(nearest, low.mirror() if low else None)
        parts.append(mirrored and f'"-" {mirrored}')
    return one_of(parts)


def _from_zero(low: Bound, high: Bound | None) -> str | None:
    """Return the expression of the numbers between two bounds that are not negative."""
    high = high if high and high.value <= _LARGEST else None
    first, last = int(low.value), int(high.value) if high else _LARGEST
    if first > _LARGEST:
        return None
    if high and first == last:
        return _point(first, _between(_fraction(low), _fraction(high), low.is_open, high.is_open))
    inner = _digit_ranges(first + 1, last - 1 if high else last)
    parts = [
        _point(first, _between(_fraction(low), None, low.is_open)),
        inner and f'{inner} ("." {_any_digits(1, _FRACTION)})?',
        _point(last, _between("", _fraction(high), False, high.is_open)) if high else None,
        f"{_MANTISSA} {_DOWN}" if low.value == 0 and (high is None or high.value >= 1) else None,
        f"{_MANTISSA} {_UP}" if high is None and (low.value < 1 or low == Bound(Decimal(1))) else None,
    ]
    return one_of(parts)


def _fraction(bound: Bound) -> str:
    """Return the digits of a bound after the point, without trailing zeros."""
    return f"{bound.value:f}".partition(".")[2].rstrip("0")


Digits = tuple["str | None", bool]
"""The expression of one or more further digits, None for none; and whether the number may end before them."""

_ANY: Digits = (_any_digits(1, _FRACTION), True)


def _point(before: int, decimals: Digits) -> str | None:
    """Return the expression of a number with this integer part."""
    further, may_end = decimals
    if further is None:
        return literal(str(before)) if may_end else None
    return f'{literal(str(before))} ("." {further}){"?" if may_end else ""}'


def _then(digit: str | None, following: Digits) -> str | None:
    """Return the expression of a digit and what may follow it."""
    further, may_end = following
    if digit is None or (further is None and not may_end):
        return None
    return digit if further is None else f"{digit} ({further}){'?' if may_end else ''}"


def _between(low: str, high: str | None, low_open: bool = False, high_open: bool = False) -> Digits:
    """Return the digits from `low` to `high`; None for no upper bound."""
    is_any = not low and not low_open
    if high is None and not low:
        return _ANY if is_any else (f'"0"{{0,{_FRACTION - 1}}} [1-9] {_any_digits(0, _FRACTION)}', False)
    if high == "":
        is_end = not low and not low_open and not high_open
        return ('"0"' if is_end else None), is_end
    first, last = int(low[:1] or 0), 9 if high is None else int(high[0])
    if first > last:
        return None, False
    if high and first == last:
        return _then(literal(str(first)), _between(low[1:], high[1:], low_open, high_open)), is_any
    parts = [
        None if is_any else _then(literal(str(first)), _between(low[1:], None, low_open)),
        _then(_digits(first if is_any else first + 1, last - 1 if high else 9), _ANY),
        _then(literal(str(last)), _between("", high[1:], False, high_open)) if high else None,
    ]
    return one_of(parts), is_any
