"""A calculator for expressions as people write them. It computes with decimals and runs no code.

Numbers, + - * / // % ** and brackets; `×`, `÷`, `^` and `,` in numbers are understood. Sizes are bounded, so
that no sum can take the machine with it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation, localcontext
from unicodedata import normalize

LONGEST = 200
LARGEST_POWER = 1000
DIGITS = 28
SHOWN_DIGITS = 15
"""Of a value that was rounded: a third has no last digit, and nobody reads 28 threes."""


class SumError(ValueError):
    """The expression cannot be computed; the text says why."""


def calculate(expression: str) -> str:
    """The value of an expression as plain decimal text: 28 significant digits if it is exact, else 15.

    >>> calculate("(3 + 4) × 2")
    '14'
    >>> calculate("0.1 + 0.2")
    '0.3'
    >>> calculate("2 / 3")
    '0.666666666666667'
    """
    if len(expression) > LONGEST:
        raise SumError(f"The expression is longer than {LONGEST} characters.")
    try:
        tree = parse(spell(expression))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SumError(f"'{expression}' is not a sum.") from None
    try:
        with localcontext() as context:
            context.prec = DIGITS
            value = value_of(tree.body)
            return write(value if not context.flags[Inexact] else Context(prec=SHOWN_DIGITS).plus(value))
    except InvalidOperation:
        raise SumError(f"The result is no number, or needs more than {DIGITS} digits.") from None
    except DecimalException:
        raise SumError("The result is too large.") from None


def parse(text: str) -> ast.Expression:
    """The tree of an expression, decimal fractions with all digits as they are written."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            written = ast.get_source_segment(text, node) or ""
            node.value = Decimal(written.replace("_", ""))  # type: ignore[assignment]  # ast takes no Decimal
    return tree


def spell(expression: str) -> str:
    """The expression with Python's signs."""
    text = normalize("NFKC", expression).strip().rstrip("=? ")
    for sign, python in (("×", "*"), ("·", "*"), ("÷", "/"), ("^", "**"), ("−", "-")):
        text = text.replace(sign, python)
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)


def value_of(node: ast.expr) -> Decimal:
    match node:
        case ast.Constant(value=int() | Decimal() as number) if not isinstance(number, bool):
            return Decimal(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value_of(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return value_of(operand)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in OPERATORS:
            return combine(op, value_of(left), value_of(right))
        case _:
            raise SumError("Only numbers, + - * / // % ** and brackets can be computed.")


def combine(op: ast.operator, left: Decimal, right: Decimal) -> Decimal:
    if isinstance(op, ast.Pow) and abs(right) > LARGEST_POWER:
        raise SumError(f"The exponent is larger than {LARGEST_POWER}.")
    if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) and not right:
        raise SumError("Division by zero.")
    return OPERATORS[type(op)](left, right)


def floor_divide(left: Decimal, right: Decimal) -> Decimal:
    """Rounds down, as Python does for integers; Decimal's own // rounds towards zero."""
    quotient, rest = divmod(left, right)
    return quotient - 1 if rest and (rest < 0) != (right < 0) else quotient


def floor_rest(left: Decimal, right: Decimal) -> Decimal:
    """What is left of a division that rounds down: it has the sign of `right`."""
    rest = left % right
    return rest + right if rest and (rest < 0) != (right < 0) else rest


OPERATORS: dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: floor_divide,
    ast.Mod: floor_rest,
    ast.Pow: operator.pow,
}


def write(value: Decimal) -> str:
    if not value.is_finite():
        raise SumError("The result is not a number.")
    plain = (value + 0).normalize()  # + 0: zero loses its sign
    return f"{plain:f}" if -12 < plain.adjusted() < DIGITS else f"{plain:e}"
