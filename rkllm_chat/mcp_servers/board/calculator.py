"""Evaluate arithmetic expressions with decimals, without running code.

Numbers, + - * / // % ** and brackets, and also `×`, `÷`, `^`, `√`, `5!`, `,` in numbers, percentages (`15% of 80`, `80
+ 15%`), operators in words (`12 plus 30`, `square root of 81`), a few functions (`sqrt(2)`), pi and e, and times (`2 h
30 min + 45 min`, `14:30 - 9:15`, `90 min in hours`). The length, the exponents and the number of digits are bounded,
so that no expression can exhaust the machine.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DecimalException,
    Inexact,
    InvalidOperation,
    getcontext,
    localcontext,
)
from typing import NamedTuple
from unicodedata import normalize

MAX_EXPRESSION_CHARS = 200
_MAX_EXPONENT = 1000
_DIGITS = 28
_PERCENTAGE = re.compile(r"(^|[*/(]\s*)(\d+(?:\.\d+)?)%(?=\s*(?:[*/)]|$))")
"""A percentage that is a factor."""
_SHARE = re.compile(r"([\d.)]\s*[+-]\s*)(\d+(?:\.\d+)?)%(?=\s*(?:\)|$|[+-]\s))")
"""A percentage that is added or taken off: as pocket calculators and people have it, one of all that precedes it."""
_SHOWN_DIGITS = 15
"""Significant digits of a rounded result, such as 1/3."""
_CONSTANTS = {"pi": Decimal("3.141592653589793238462643383"), "e": Decimal("2.718281828459045235360287471")}
_SECONDS = {"d": 86400, "h": 3600, "min": 60, "s": 1}
_UNITS = {"days": "d", "day": "d", "d": "d", "hours": "h", "hour": "h", "hrs": "h", "hr": "h", "h": "h"}
_UNITS |= {"minutes": "min", "minute": "min", "mins": "min", "min": "min"}
_UNITS |= {"seconds": "s", "second": "s", "secs": "s", "sec": "s", "s": "s"}
_UNIT = "|".join(_UNITS)
_AMOUNT = rf"\d+(?:\.\d+)?\s*(?:{_UNIT})(?![^\W\d])"
_TIME = re.compile(rf"(?<![\w.]){_AMOUNT}(?:\s*(?:and\s+)?{_AMOUNT})*")
"""A time with one or more units: `2 h 30 min`."""
_CLOCK = re.compile(r"(?<![\w.:])(\d{1,2}):([0-5]\d)(?![\w.:])")
_CONVERSION = re.compile(rf"\s+(?:in|to|as)\s+({_UNIT})$")
_NUMBER = r"\d+(?:\.\d+)?"
_FORMS: Sequence[tuple[str, str]] = (
    (r"^\s*(?:=|(?:what(?:'s|\s+is)|how\s+much\s+is|calculate|compute)\b)", ""),
    (r"[$€£¥](?=\s*\d)|(?<=\d)\s*[$€£¥]", ""),  # the result says no currency
    (r"(?<![\d.])(\d{1,3}) (?=\d{3}(?:\D|$))", r"\1"),  # a thousands separator
    (rf"({_NUMBER})\s*[的の]\s*({_NUMBER})\s*(?:%|パーセント)", r"\2% of \1"),
    (rf"({_NUMBER})\s*[的の]\s*平方根", r"sqrt(\1)"),
    (rf"({_NUMBER})\s*[的の]\s*({_NUMBER})\s*(?:乗|次方)", r"\1**\2"),
    (r"乘以|乘|掛ける|かける", "*"),
    (r"除以|割る|わる", "/"),
    (r"加上?|足す|たす", "+"),
    (r"减去?|減|引く|ひく", "-"),
    (r"\bpercent(?:age)?\b|\bper\s+cent\b|パーセント", "%"),
    (rf"({_NUMBER})\s+(?:is\s+what|as\s+an?|as)\s*%\s*of\s+({_NUMBER})", r"(\1/\2*100)"),
    (rf"({_NUMBER})\s*%\s*off\s+({_NUMBER})", r"(\2*(100-\1)/100)"),
    (rf"({_NUMBER})\s+%", r"\1%"),
    (r"\b(?:the\s+)?square\s+root\s+of\b", "√"),
    (rf"\b(?:the\s+)?cube\s+root\s+of\s+({_NUMBER})", r"cbrt(\1)"),
    (r"\b(?:a\s+)?half\s+of\b", "0.5*"),
    (r"\b(?:a\s+)?quarter\s+of\b", "0.25*"),
    (r"\b(?:twice|double)\b", "2*"),
    (r"\b(?:to\s+the\s+power\s+of|to\s+the\s+power)\b", "**"),
    (r"\bsquared\b", "**2"),
    (r"\bcubed\b", "**3"),
    (r"\b(?:multiplied\s+by|times)\b", "*"),
    (r"\b(?:divided\s+by|over)\b", "/"),
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\bmod(?:ulo)?\b", " % "),
    (r"(?<=[\d)])\s+x\s+(?=[\d(])|(?<=[1-9)])x(?=[\d(])|(?<=\d0)x(?=[\d(])", "*"),  # 0x10 is a number
    (r"(\d+)!(?!=)", r"factorial(\1)"),
    (rf"(?<![\w.])({_NUMBER})\s*(?=\(|pi\b|π|√|sqrt\b)", r"\1*"),
    (rf"(?<=[\d)])\s+of\s+(?={_NUMBER}|\()", "*"),
    (rf"({_NUMBER})\s*weeks?\b", r"(7*\1*_d)"),
    (rf"({_NUMBER})\s*h\s*({_NUMBER})\s*m\b", r"\1 h \2 min"),
)
"""What people write, as regular expressions -> what stands for it here, in this order."""
_KNOWN = "Numbers, + - * / // % ** and brackets, sqrt(), round(), pi and times (2 h 30 min) can be computed."


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
        raise CalculationError(f"'{expression}' is not a sum. {_KNOWN}") from None
    try:
        with localcontext() as context:
            context.prec = _DIGITS
            value, dimension = _evaluate(tree.body)
            if dimension not in (0, 1):
                raise CalculationError("The result is not a time.")
            value = value if not context.flags[Inexact] else Context(prec=_SHOWN_DIGITS).plus(value)
            return _format_time(value) if dimension else format_value(value)
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
    for pattern, form in _FORMS:
        text = re.sub(pattern, form, text, flags=re.IGNORECASE).strip()
    for sign, python in (("×", "*"), ("·", "*"), ("÷", "/"), ("^", "**"), ("−", "-")):
        text = text.replace(sign, python)
    text = re.sub(r"√\s*(\d+(?:\.\d+)?)", r"sqrt(\1)", text).replace("√", "sqrt").replace("π", "pi")
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", re.sub(r"(?<=\d%)\s*of\b", " *", text))
    text = _CONVERSION.sub(lambda unit: f" / _{_UNITS[unit[1]]}", text)
    text = _TIME.sub(lambda time: f"({_write_time(time[0])})", _CLOCK.sub(r"(\1*_h + \2*_min)", text))
    return _SHARE.sub(r"\1_share(\2)", _PERCENTAGE.sub(r"\1(\2/100)", text))


def _write_time(text: str) -> str:
    """Return a time as a sum of products with the names of its units.

    >>> _write_time("2 hours 30 min")
    '2*_h + 30*_min'
    """
    parts = re.findall(rf"({_NUMBER})\s*({_UNIT})(?![^\W\d])", text)
    return " + ".join(f"{number}*_{_UNITS[unit]}" for number, unit in parts)


class _Quantity(NamedTuple):
    """A number, or seconds with `dimension` 1; other powers of a time occur only within an expression."""

    value: Decimal
    dimension: int = 0


def _evaluate(node: ast.expr) -> _Quantity:
    """Evaluate a node. Raises CalculationError for anything but arithmetic."""
    match node:
        case ast.Constant(value=int() | Decimal() as number) if not isinstance(number, bool):
            return _Quantity(Decimal(number))
        case ast.Name(id=name) if name.lower() in _CONSTANTS:
            getcontext().flags[Inexact] = True  # the result is shown rounded
            return _Quantity(_CONSTANTS[name.lower()])
        case ast.Name(id=name) if name[1:] in _SECONDS and name[0] == "_":
            return _Quantity(Decimal(_SECONDS[name[1:]]), 1)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            inner = _evaluate(operand)
            return inner._replace(value=-inner.value if isinstance(op, ast.USub) else +inner.value)
        case ast.BinOp(
            op=ast.Add() | ast.Sub() as op, left=left, right=ast.Call(func=ast.Name("_share"), args=[share])
        ):
            whole, percentage = _evaluate(left), _evaluate(share)
            return _combine(op, whole, whole._replace(value=whole.value * percentage.value / 100))
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            return _combine(op, _evaluate(left), _evaluate(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _call(name, [_evaluate(argument) for argument in arguments])
        case _:
            raise CalculationError(_KNOWN)


def _combine(op: ast.operator, left: _Quantity, right: _Quantity) -> _Quantity:
    """Apply a binary operator. Raises CalculationError for division by zero, large exponents and times with numbers."""
    if isinstance(op, ast.Pow) and (abs(right.value) > _MAX_EXPONENT or right.dimension or left.dimension):
        raise CalculationError(f"The exponent is larger than {_MAX_EXPONENT}, or a time has one.")
    if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) and not right.value:
        raise CalculationError("Division by zero.")
    if isinstance(op, ast.Add | ast.Sub | ast.Mod) and left.dimension != right.dimension:
        raise CalculationError("A time and a number cannot be added.")
    sign = 1 if isinstance(op, ast.Mult) else -1 if isinstance(op, ast.Div | ast.FloorDiv) else 0
    return _Quantity(_OPERATORS[type(op)](left.value, right.value), left.dimension + sign * right.dimension)


def _call(name: str, arguments: list[_Quantity]) -> _Quantity:
    """Apply a function. Raises CalculationError for a wrong number of arguments, and for times."""
    function, counts = _FUNCTIONS[name]
    if len(arguments) not in counts or any(argument.dimension for argument in arguments):
        raise CalculationError(f"{name}() takes {counts[0]} {'number' if counts[-1] == 1 else 'numbers'}.")
    return _Quantity(function(*(argument.value for argument in arguments)))


def _round(value: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    """Round half up, as people do; Python's own `round` goes to the even neighbour."""
    return value.quantize(Decimal(1).scaleb(-int(places)), ROUND_HALF_UP)


def _cube_root(value: Decimal) -> Decimal:
    """Return the cube root; that of a cube is exact."""
    with localcontext() as context:
        context.prec += 10
        root = abs(value) ** (Decimal(1) / 3)
        whole = root.to_integral_value()
        root = (whole if whole**3 == abs(value) else root).copy_sign(value)
    return +root


def _factorial(value: Decimal) -> Decimal:
    if value != value.to_integral_value() or not 0 <= value <= _MAX_EXPONENT:
        raise CalculationError(f"factorial() takes a whole number from 0 to {_MAX_EXPONENT}.")
    return +Decimal(math.factorial(int(value)))


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    return _combine(ast.Pow(), _Quantity(base), _Quantity(exponent)).value


def _mean(*values: Decimal) -> Decimal:
    return sum(values, Decimal(0)) / len(values)


_FUNCTIONS: Mapping[str, tuple[Callable[..., Decimal], range | tuple[int, ...]]] = {
    "sqrt": (Decimal.sqrt, (1,)),
    "abs": (abs, (1,)),
    "round": (_round, (1, 2)),
    "floor": (lambda value: value.to_integral_value(ROUND_FLOOR), (1,)),
    "ceil": (lambda value: value.to_integral_value(ROUND_CEILING), (1,)),
    "exp": (Decimal.exp, (1,)),
    "ln": (Decimal.ln, (1,)),
    "log10": (Decimal.log10, (1,)),
    "cbrt": (_cube_root, (1,)),
    "factorial": (_factorial, (1,)),
    "pow": (_power, (2,)),
    "sum": (lambda *values: sum(values, Decimal(0)), range(1, 50)),
    "mean": (_mean, range(1, 50)),
    "average": (_mean, range(1, 50)),
    "min": (min, range(2, 50)),
    "max": (max, range(2, 50)),
}
"""Functions with the numbers of arguments that each takes. `log` is none of them: it has two meanings."""


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


def _format_time(seconds: Decimal) -> str:
    """Return seconds in the units that people write.

    >>> _format_time(Decimal(11700)), _format_time(Decimal(-90))
    ('3 h 15 min', '-1 min 30 s')
    """
    rest, parts = abs(seconds), list[str]()
    for unit, length in _SECONDS.items():
        count = rest if unit == "s" else rest // length
        rest -= count * length
        if count:
            parts.append(f"{format_value(count)} {unit}")
    return ("-" if seconds < 0 else "") + (" ".join(parts) or "0 s")
