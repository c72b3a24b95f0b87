"""A function that is asked again about the very same objects answers from memory. It does not know what they are.

Tools hold dictionaries and cannot be keys. They are frozen, so the same objects say the same; and they are asked about
several times in each round of a talk, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from typing import Any, TypeVar

Answer = TypeVar("Answer")
Function = TypeVar("Function", bound=Callable[..., Any])


def by_identity(most: int = 8) -> Callable[[Function], Function]:
    """Keeps the newest answers of a pure function of a sequence and of what can be hashed; nobody may change them."""
    return lambda function: remember(function, most)


def remember(function: Function, most: int) -> Function:
    known: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

    @wraps(function)
    def ask(asked: Iterable[object], *others: Hashable, **named: Hashable) -> Any:
        objects = tuple(asked)
        key = (*map(id, objects), others, *named.items())
        found = known.get(key)
        if found is None:
            # while the objects are held, no other has their identity
            found = known[key] = objects, function(objects, *others, **named)
            for old in list(known)[:-most]:
                known.pop(old, None)
        return found[1]

    return ask  # type: ignore[return-value]
