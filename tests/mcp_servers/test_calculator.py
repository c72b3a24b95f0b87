"""The calculator: expressions as people write them, and what it rejects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rkllm_chat.mcp_servers.board.calculator import MAX_EXPRESSION_CHARS, CalculationError, calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("（3 + 4) × 2", "14"),
        ("10 ÷ 4", "2.5"),
        ("6·7", "42"),
        ("5 − 8", "-3"),
        ("2^10", "1024"),
        ("2 ** -1", "0.5"),
        ("-2**2", "-4"),
        ("+-5", "-5"),
        ("0.1 + 0.2", "0.3"),
        ("1/3", "0.333333333333333"),
        ("1/3*3", "1"),
        ("1,234,567.5 + 1", "1234568.5"),
        (" 2 + 2 = ?", "4"),
        ("1e5", "100000"),
        ("0x10", "16"),
        ("15% of 2480", "372"),
        ("1,200 * 7.5%", "90"),
        ("30 / 50%", "60"),
        ("(20%) * 5 + 17 % 5", "3"),
        ("17%5", "2"),
        ("10**27", "1000000000000000000000000000"),
        ("10**28", "1e+28"),
        ("1/10**20", "1e-20"),
        ("0 * -1", "0"),
        ("0.1234567890123456789", "0.1234567890123456789"),
    ],
)
def test_an_expression_has_its_value(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("1/0", "Division by zero"),
        ("1 // 0", "Division by zero"),
        ("0 % 0", "Division by zero"),
        ("2**1001", "1000"),
        ("(9**999)**999 * (9**999)**999", "too large"),
        ("1" * (MAX_EXPRESSION_CHARS + 1), "200 characters"),
        ("", "'' is not"),
        ("2 +", "'2 +' is not"),
        ("100 + 15%", "is not"),
        ("x = 1", "'x = 1' is not"),
        ("(" * 150, "is not"),
        ("True", "Only numbers"),
        ("1j", "Only numbers"),
        ("'a' * 9", "Only numbers"),
        ("1 < 2", "Only numbers"),
        ("1,23", "Only numbers"),
        ("__import__('os').system('id')", "Only numbers"),
        ("(-8) ** 0.5", "28 digits"),
        ("0 ** 0", "28 digits"),
        ("10**30 // 3", "28 digits"),
    ],
)
def test_other_expressions_are_rejected(expression: str, words: str) -> None:
    with pytest.raises(CalculationError) as caught:
        calculate(expression)
    assert words in str(caught.value)


NUMBERS = st.integers(-99, 99)


@given(NUMBERS, st.sampled_from(["+", "-", "*", "//", "%"]), NUMBERS.filter(bool))
def test_whole_numbers_are_computed_as_in_python(left: int, sign: str, right: int) -> None:
    expression = f"{left} {sign} {right}"
    assert calculate(expression) == str(eval(expression))
