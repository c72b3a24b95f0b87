"""Cache results of pure functions by the identity of their arguments.

Tools hold dictionaries and cannot be hashed. They are frozen, so identical objects mean identical content; the same
tools are examined several times per round, and there can be many.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def cache_by_identity(max_entries: int = 8) -> Callable[[_Function], _Function]:
    """Decorate a pure function of a sequence and hashable values to cache its newest `max_entries` results.

    Callers must not modify the results.
    """
    return lambda function: _remember(function, max_entries)


def _remember(function: _Function, max_entries: int) -> _Function:
    cache: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

    @wraps(function)
    def cached(items: Iterable[object], *others: Hashable, **named: Hashable) -> Any:
        objects = tuple(items)
        key = (*map(id, objects), others, *named.items())
        entry = cache.get(key)
        if entry is None:
            # the cache keeps a reference to the objects, so their ids cannot be reused
            entry = cache[key] = objects, function(objects, *others, **named)
            for old in list(cache)[:-max_entries]:
                cache.pop(old, None)
        return entry[1]

    return cached  # type: ignore[return-value]
