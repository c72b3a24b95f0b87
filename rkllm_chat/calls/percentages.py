"""Percentages that a model writes as plain numbers into a calculation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

PERCENT = r"(?:[%％]|per\s?cent\b|パーセント)"
"""What stands behind the number of a percentage, as a regular expression."""
_PERCENTAGE = re.compile(rf"百分之\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*{PERCENT}", re.IGNORECASE)
_CALCULATION = re.compile(r"(?!\d{4}-\d\d?\b)[\d.,()\s]+(?:[-+*/×÷%][\d.,()\s]+)+")
_KNOWS_PERCENT = re.compile(r"\b100\b|(?<!\d)0?\.\d|%\s*(?:[^\s\d]|$)")
"""A calculation that has a percentage as a share already."""


def find_percentages(text: str) -> list[str]:
    """Return the percentages of a text, without their sign.

    >>> find_percentages("15% of 80, 百分之20")
    ['15', '20']
    """
    return [next(filter(None, match.groups())) for match in _PERCENTAGE.finditer(text)]


def write_percentages(arguments: Mapping[str, Any], question: str) -> dict[str, Any]:
    """Return the arguments with the percentages of a question as such where a calculation has them as plain numbers.

    "What is 12% of 250?" is written as `12 * 250` (1.5B, 3 of 3). Divided by 100 they are what every calculator takes;
    behind + and - they are a share of what stands before them.
    """
    percentages = find_percentages(question)
    asked = "".join(question.split())
    return {
        name: _write_percentages(value, percentages)
        if isinstance(value, str) and _CALCULATION.fullmatch(value) and "".join(value.split()) not in asked
        else value
        for name, value in arguments.items()
    }


def _write_percentages(calculation: str, percentages: Iterable[str]) -> str:
    for percentage in percentages:
        number = rf"(?<![\d.]){re.escape(percentage)}(?![\d.])"
        if _KNOWS_PERCENT.search(calculation):
            break
        if share := re.fullmatch(rf"\s*(.*?)\s*([-+])\s*{number}\s*", calculation):
            return f"({share[1]}) * (1 {share[2]} {percentage} / 100)"
        as_remainder = rf"{number}\s*%\s*(?=\d)"
        calculation = re.sub(as_remainder, f"{percentage} * ", calculation, count=1)
        calculation = re.sub(number, f"({percentage} / 100)", calculation, count=1)
    return calculation
