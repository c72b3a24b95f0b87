"""Fixtures of the tests of servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backends.openai.service import Service

from .chaos_http import serving
from .enclosed import USERS, Stage, staged
from .gate import Gate, open_gate


@pytest.fixture(params=USERS)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A user with secrets and a project with a probing server; also user nobody, where we are root."""
    with staged(request.param) as one:
        yield one


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A server that requires a login."""
    with open_gate() as gate:
        yield gate


@pytest.fixture
def echo() -> Iterator[Service]:
    """A service whose model repeats what it was told last, and that keeps what it is asked."""
    with serving(Service("echo")) as service:
        yield service
