"""Evaluate arithmetic expressions with decimals, without running code.

Numbers, + - * / // % ** and brackets, and also `×`, `÷`, `^`, `,` in numbers, and percentages as factors (`15% of 80`).
The length, the exponents and the number of digits are bounded, so that no expression can exhaust the machine.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation, localcontext
from unicodedata import normalize

MAX_EXPRESSION_CHARS = 200
_MAX_EXPONENT = 1000
_DIGITS = 28
_PERCENTAGE = re.compile(r"(^|[*/(]\s*)(\d+(?:\.\d+)?)%(?=\s*(?:[*/)]|$))")
"""A percentage that is a factor. After + or -, where it could be a share of what precedes it, it is an error."""
_SHOWN_DIGITS = 15
"""Significant digits of a rounded result, such as 1/3."""


class CalculationError(ValueError):
    """The expression cannot be evaluated; the message says why."""


def calculate(expression: str) -> str:
    """Return the value of an expression as decimal text: 28 significant digits if exact, else 15.

    Raises:
        CalculationError: The expression is invalid, too large or has no value.

    >>> calculate("(3 + 4) × 2")
    '14'
    >>> calculate("0.1 + 0.2")
    '0.3'
    >>> calculate("2 / 3")
    '0.666666666666667'
    """
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise CalculationError(f"The expression is longer than {MAX_EXPRESSION_CHARS} characters.")
    try:
        tree = parse(_normalize(expression))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CalculationError(f"'{expression}' is not a sum.") from None
    try:
        with localcontext() as context:
            context.prec = _DIGITS
            value = _evaluate(tree.body)
            return format_value(value if not context.flags[Inexact] else Context(prec=_SHOWN_DIGITS).plus(value))
    except InvalidOperation:
        raise CalculationError(f"The result is no number, or needs more than {_DIGITS} digits.") from None
    except DecimalException:
        raise CalculationError("The result is too large.") from None


def parse(text: str) -> ast.Expression:
    """Parse an expression; decimal fractions become `Decimal` with all their digits."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            literal = ast.get_source_segment(text, node) or ""
            node.value = Decimal(literal.replace("_", ""))  # type: ignore[assignment]  # ast takes no Decimal
    return tree


def _normalize(expression: str) -> str:
    """Replace mathematical signs by Python operators and remove thousands separators."""
    text = normalize("NFKC", expression).strip().rstrip("=? ")
    for sign, python in (("×", "*"), ("·", "*"), ("÷", "/"), ("^", "**"), ("−", "-")):
        text = text.replace(sign, python)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", re.sub(r"(?<=\d%)\s*of\b", " *", text))
    return _PERCENTAGE.sub(r"\1(\2/100)", text)


def _evaluate(node: ast.expr) -> Decimal:
    """Evaluate a node. Raises CalculationError for anything but arithmetic."""
    match node:
        case ast.Constant(value=int() | Decimal() as number) if not isinstance(number, bool):
            return Decimal(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluate(operand)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            return _combine(op, _evaluate(left), _evaluate(right))
        case _:
            raise CalculationError("Only numbers, + - * / // % ** and brackets can be computed.")


def _combine(op: ast.operator, left: Decimal, right: Decimal) -> Decimal:
    """Apply a binary operator. Raises CalculationError for division by zero and large exponents."""
    if isinstance(op, ast.Pow) and abs(right) > _MAX_EXPONENT:
        raise CalculationError(f"The exponent is larger than {_MAX_EXPONENT}.")
    if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) and not right:
        raise CalculationError("Division by zero.")
    return _OPERATORS[type(op)](left, right)


def _floor_divide(left: Decimal, right: Decimal) -> Decimal:
    """Divide and round down, as Python does for integers; Decimal's `//` rounds towards zero."""
    quotient, rest = divmod(left, right)
    return quotient - 1 if rest and (rest < 0) != (right < 0) else quotient


def _floor_rest(left: Decimal, right: Decimal) -> Decimal:
    """Return the remainder of a floor division; it has the sign of `right`."""
    rest = left % right
    return rest + right if rest and (rest < 0) != (right < 0) else rest


_OPERATORS: dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: _floor_divide,
    ast.Mod: _floor_rest,
    ast.Pow: operator.pow,
}


def format_value(value: Decimal) -> str:
    """Return the value as text, in exponent notation if very large or small. Raises CalculationError if not finite."""
    if not value.is_finite():
        raise CalculationError("The result is not a number.")
    plain = (value + 0).normalize()  # + 0: zero loses its sign
    return f"{plain:f}" if -12 < plain.adjusted() < _DIGITS else f"{plain:e}"
