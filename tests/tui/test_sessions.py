"""Every recorded session gives the recorded screens; the package docstring describes the format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stage import Screen

from .session import HERE, play, read_session


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
@pytest.mark.usefixtures("harbour")
def test_a_session_looks_as_recorded(
    path: Path, open_screen: Callable[..., Screen], folder: Path, request: pytest.FixtureRequest
) -> None:
    session = read_session(path)
    record: bool = request.config.getoption("--record")
    screen = open_screen(*session.write_replies(folder), size=session.size)
    try:
        play(session, screen, folder, record)
    finally:
        if record:
            session.write()
