"""Lists and objects as Python writes them: `{'a': [1, True, None]}`. Nothing is run and nothing is lost."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from math import isfinite
from typing import Any

LONGEST = 64 * 1024
DEEPEST = 64
JSON_NAMES = {"true": True, "false": False, "null": None}


def read_literal(text: str) -> Iterator[Any]:
    """The value of a text, with lists for tuples; none for what is no literal or what JSON cannot hold."""
    if len(text) > LONGEST:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" is told on standard error
            tree = ast.parse(text, mode="eval")
        yield value_of(tree.body, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def value_of(node: ast.expr, depth: int) -> Any:
    """Raises ValueError for what is no value of JSON."""
    if depth > DEEPEST:
        raise ValueError("nested too deep")
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [value_of(item, depth + 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            return dict_of(keys, [value_of(value, depth + 1) for value in values])
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number)) if type(number) in (int, float):
            return -scalar_of(number)
        case ast.Constant(value=value):
            return scalar_of(value)
        case ast.Name(id=name) if name in JSON_NAMES:
            return JSON_NAMES[name]
    raise ValueError("not a literal")


def dict_of(keys: list[ast.expr | None], values: list[Any]) -> dict[str, Any]:
    names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    if len(names) < len(keys) or len(set(names)) < len(names):
        raise ValueError("a key is no text, or stands twice")
    return dict(zip(names, values, strict=True))


def scalar_of(value: Any) -> Any:
    if isinstance(value, str):
        value.encode()  # half a surrogate pair is a UnicodeEncodeError, which is a ValueError
    elif not (value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value))):
        raise ValueError("not a value of JSON")
    return value
