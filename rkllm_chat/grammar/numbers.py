"""Numbers between two bounds, digit by digit. It knows no schema.

What is accepted: whole numbers of up to 20 digits; others with up to 21 digits behind the point, or, where the bounds
leave it open, with one digit before the point and an exponent. That holds all that Python writes for a double, except
whole numbers above 10^20, doubles from 1e308 on and below 1e-307, and, within bounds, those with an exponent that would
need comparing.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from .rules import literal, one_of

DIGITS = 20
LARGEST: int = 10**DIGITS - 1
FRACTION = 21
MANTISSA = f'[1-9] ("." [0-9]{{1,{FRACTION}}})?'
EXPONENT = '("0"? [1-9] | [1-9] [0-9] | [1-2] [0-9] [0-9] | "30" [0-7])'
DOWN = f'[eE] "-" {EXPONENT}'
UP = f'[eE] "+"? {EXPONENT}'


@dataclass(frozen=True)
class Bound:
    """The end of a range; `is_open`: it does not belong to it."""

    at: Decimal
    is_open: bool = False

    def mirror(self) -> Bound:
        return Bound(-self.at, self.is_open)


ZERO = Bound(Decimal(0))


def whole_numbers(low: Bound | None, high: Bound | None) -> str | None:
    """Whole numbers from `low` to `high`."""
    if (low and low.at > LARGEST) or (high and high.at < -LARGEST):
        return None
    least = -LARGEST if low is None else whole(low, ROUND_CEILING, 1)
    most = LARGEST if high is None else whole(high, ROUND_FLOOR, -1)
    below = digit_ranges(max(1, -most), -least) if least < 0 else None
    above = digit_ranges(max(0, least), most)
    return one_of([above, below and f'"-" {below}'])


def whole(bound: Bound, rounding: str, step: int) -> int:
    """The first whole number inside a bound."""
    number = int(bound.at.to_integral_value(rounding=rounding))
    inside: int = number + step if bound.is_open and number == bound.at else number
    return min(max(inside, -LARGEST), LARGEST)


def digit_ranges(least: int, most: int) -> str | None:
    """The whole numbers from `least` (0 or more) to `most`, by their number of digits."""
    ranges: list[str] = []
    for size in range(len(str(least)), len(str(most)) + 1):
        first, last = max(least, 10 ** (size - 1) if size > 1 else 0), min(most, 10**size - 1)
        if first <= last:
            ranges.append(digit_range(str(first), str(last)))
    return one_of(ranges)


def digit_range(first: str, last: str) -> str:
    """The numbers between two of the same number of digits."""
    if not first:
        return ""
    rest = len(first) - 1
    if set(first[1:]) <= {"0"} and set(last[1:]) <= {"9"}:
        return f"{digits(int(first[0]), int(last[0]))} {any_digits(rest, rest)}".strip()
    if first[0] == last[0]:
        return f"{literal(first[0])} {digit_range(first[1:], last[1:])}"
    middle = digits(int(first[0]) + 1, int(last[0]) - 1)
    ways = [
        f"{literal(first[0])} {digit_range(first[1:], '9' * rest)}",
        middle and f"{middle} {any_digits(rest, rest)}",
        f"{literal(last[0])} {digit_range('0' * rest, last[1:])}",
    ]
    return one_of(ways) or ""


def digits(first: int, last: int) -> str | None:
    return f"[{first}-{last}]" if first <= last else None


def any_digits(least: int, most: int) -> str:
    return f"[0-9]{{{least},{most}}}" if most else ""


def numbers(low: Bound | None, high: Bound | None) -> str | None:
    """Numbers from `low` to `high`."""
    ways: list[str | None] = []
    if high is None or high.at >= 0:
        ways.append(from_zero(low if low and low.at >= 0 else ZERO, high))
    if low is None or low.at < 0:
        nearest = high.mirror() if high and high.at <= 0 else ZERO
        mirrored = from_zero(nearest, low.mirror() if low else None)
        ways.append(mirrored and f'"-" {mirrored}')
    return one_of(ways)


def from_zero(low: Bound, high: Bound | None) -> str | None:
    """Numbers between two bounds that are not below zero."""
    high = high if high and high.at <= LARGEST else None
    first, last = int(low.at), int(high.at) if high else LARGEST
    if first > LARGEST:
        return None
    if high and first == last:
        return point(first, between(fraction(low), fraction(high), low.is_open, high.is_open))
    inner = digit_ranges(first + 1, last - 1 if high else last)
    ways = [
        point(first, above(fraction(low), low.is_open)),
        inner and f'{inner} ("." {any_digits(1, FRACTION)})?',
        point(last, below(fraction(high), high.is_open)) if high else None,
        f"{MANTISSA} {DOWN}" if low.at == 0 and (high is None or high.at >= 1) else None,
        f"{MANTISSA} {UP}" if high is None and (low.at < 1 or low == Bound(Decimal(1))) else None,
    ]
    return one_of(ways)


def fraction(bound: Bound) -> str:
    """The digits behind the point of a bound, without zeros at the end."""
    return f"{bound.at:f}".partition(".")[2].rstrip("0")


Digits = tuple["str | None", bool]
"""What one or more further digits may be, None for nothing; and whether the number may end before them."""

ANY: Digits = (any_digits(1, FRACTION), True)


def point(before: int, behind: Digits) -> str | None:
    """A number with this whole part."""
    further, may_end = behind
    if further is None:
        return literal(str(before)) if may_end else None
    return f'{literal(str(before))} ("." {further}){"?" if may_end else ""}'


def then(digit: str | None, behind: Digits) -> str | None:
    """A digit and what may stand behind it."""
    further, may_end = behind
    if digit is None or (further is None and not may_end):
        return None
    return digit if further is None else f"{digit} ({further}){'?' if may_end else ''}"


def above(low: str, is_open: bool) -> Digits:
    """Digits of at least `low`."""
    if not low:
        return (f'"0"{{0,{FRACTION - 1}}} [1-9] {any_digits(0, FRACTION)}', False) if is_open else ANY
    larger = then(digits(int(low[0]) + 1, 9), ANY)
    return one_of([larger, then(literal(low[0]), above(low[1:], is_open))]), False


def below(high: str, is_open: bool) -> Digits:
    """Digits of at most `high`."""
    if not high:
        return (None, False) if is_open else ('"0"', True)
    smaller = then(digits(0, int(high[0]) - 1), ANY)
    return one_of([smaller, then(literal(high[0]), below(high[1:], is_open))]), True


def between(low: str, high: str, low_open: bool, high_open: bool) -> Digits:
    """Digits from `low` to `high`."""
    if not low and not low_open:
        return below(high, high_open)
    first, last = int(low[:1] or 0), int(high[:1] or 0)
    if not high or first > last:
        return (None, low == high and not low_open and not high_open)
    if first == last:
        return then(literal(str(first)), between(low[1:], high[1:], low_open, high_open)), False
    ways = [
        then(literal(str(first)), above(low[1:], low_open)),
        then(digits(first + 1, last - 1), ANY),
        then(literal(str(last)), below(high[1:], high_open)),
    ]
    return one_of(ways), False
