"""Limits that stand still while a person is asked. They measure a server, and a person is not the server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Clock:
    """The running limits of one server."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._left: dict[anyio.CancelScope, float] = {}
        self._pauses = 0

    @property
    def is_paused(self) -> bool:
        return self._pauses > 0

    @contextmanager
    def limit(self, seconds: float) -> Iterator[anyio.CancelScope]:
        """As `anyio.move_on_after`, but for the pauses."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            self._left[scope] = seconds
            scope.deadline = math.inf if self._pauses else anyio.current_time() + seconds
            try:
                yield scope
            finally:
                self._scopes.discard(scope)
                self._left.pop(scope, None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the limits; each has as long afterwards as it had before."""
        if not self._pauses:
            now = anyio.current_time()
            self._left = {scope: scope.deadline - now for scope in self._scopes}
            for scope in self._scopes:
                scope.deadline = math.inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                now = anyio.current_time()
                for scope in self._scopes:
                    scope.deadline = now + self._left[scope]
