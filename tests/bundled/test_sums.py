"""The calculator: sums as people write them, and what it turns down."""

from __future__ import annotations

import pytest

from rkllm_chat.bundled.board.sums import LONGEST, SumError, calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1+1", "2"),
        ("(3 + 4) × 2", "14"),
        ("10 ÷ 4", "2.5"),
        ("6·7", "42"),
        ("5 − 8", "-3"),
        ("2^10", "1024"),
        ("2 ** -1", "0.5"),
        ("（1+2）*3", "9"),
        ("-2**2", "-4"),
        ("--5", "5"),
        ("17 // 5", "3"),
        ("17 % 5", "2"),
        ("0.1 + 0.2", "0.3"),
        ("100 * 1.1", "110"),
        ("1/3", "0.333333333333333"),
        ("1/3*3", "1"),
        ("1,234,567.5 + 1", "1234568.5"),
        ("2 + 2 = ?", "4"),
        (" 7 ", "7"),
        ("1e5", "100000"),
        ("0x10", "16"),
        ("10**27", "1000000000000000000000000000"),
        ("10**28", "1e+28"),
        ("1/10**20", "1e-20"),
    ],
)
def test_a_sum_has_its_value(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("1/0", "Division by zero."),
        ("1 // 0", "Division by zero."),
        ("1 % 0", "Division by zero."),
        ("0/0", "Division by zero."),
        ("2**1001", "The exponent is larger than 1000."),
        ("9**9**9", "The exponent is larger than 1000."),
        ("(9**999)**999 * (9**999)**999", "The result is too large."),
        ("1" * (LONGEST + 1), "The expression is longer than 200 characters."),
        ("", "'' is not a sum."),
        ("2 +", "'2 +' is not a sum."),
        ("1 2", "'1 2' is not a sum."),
        ("x = 1", "'x = 1' is not a sum."),
        ("(" * 150, f"'{'(' * 150}' is not a sum."),
        *(
            (code, "Only numbers, + - * / // % ** and brackets can be computed.")
            for code in ("x", "abs(-1)", "True", "1j", "'a' * 9", "[1]", "1 < 2", "~1", "1 if 1 else 2", "1,23")
        ),
        ("__import__('os').system('id')", "Only numbers, + - * / // % ** and brackets can be computed."),
    ],
)
def test_what_is_no_sum_is_turned_down_with_the_cause(expression: str, fault: str) -> None:
    with pytest.raises(SumError) as caught:
        calculate(expression)
    assert str(caught.value) == fault


def test_a_decimal_keeps_its_digits() -> None:
    assert calculate("0.1234567890123456789") == "0.1234567890123456789"


def test_zero_has_no_sign() -> None:
    assert calculate("0 * -1") == "0"


@pytest.mark.parametrize("expression", ["(-8) ** 0.5", "0 ** 0", "10**30 // 3", "10**30 % 7"])
def test_what_cannot_be_computed_is_refused_and_not_called_a_division_by_zero(expression: str) -> None:
    with pytest.raises(SumError, match="no number, or needs more than 28 digits"):
        calculate(expression)


@pytest.mark.parametrize(
    "expression", ["7 // 2", "-7 // 2", "7 // -2", "7 % 3", "-7 % 3", "7 % -3", "6 % -3", "-6 // 3"]
)
def test_whole_divisions_round_down_as_python_does(expression: str) -> None:
    assert calculate(expression) == str(eval(expression))
