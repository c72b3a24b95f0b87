"""Every recorded session looks as it was recorded; see the folder's first lines for how they are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stage import Screen

from .session import HERE, play, read_session

SESSIONS = sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_a_session_looks_as_recorded(
    path: Path, open_screen: Callable[..., Screen], folder: Path, request: pytest.FixtureRequest
) -> None:
    session = read_session(path)
    record: bool = request.config.getoption("--record")
    screen = open_screen(*session.lay(folder), size=session.size, **session.variables())
    try:
        play(session, screen, folder, record)
    finally:
        if record:
            session.write()
