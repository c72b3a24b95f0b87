"""What tests of servers are handed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .enclosed import USERS, Stage, staged


@pytest.fixture(params=USERS, ids=lambda uid: f"user {uid}")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A user with secrets and a project in which a probing server stands; root and nobody, where we are root."""
    with staged(request.param) as one:
        yield one
