"""Every recorded session gives the recorded screens; the package docstring describes the format."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import Screen

from .session import HERE, play, read_session

ROOT = Path(__file__).parents[2]
PROGRAM_OF_README = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


SESSIONS = [  # one without replies is of the model that ships
    pytest.param(path, id=path.stem, marks=[] if read_session(path).replies else [pytest.mark.model, pytest.mark.slow])
    for path in sorted(HERE.glob("*.txt"))
]


@pytest.mark.parametrize("path", SESSIONS)
@pytest.mark.usefixtures("harbour")
def test_a_session_looks_as_recorded(
    path: Path, open_screen: Callable[..., Screen], folder: Path, request: pytest.FixtureRequest
) -> None:
    session = read_session(path)
    record: bool = request.config.getoption("--record")
    if "readme" in session.words:
        found = PROGRAM_OF_README.search((ROOT / "README.md").read_text(encoding="utf-8"))
        assert found
        program = folder / session.words["readme"]
        program.write_text(f"#!{sys.executable}\n{found[1]}", encoding="utf-8")
        program.chmod(0o755)
    screen = open_screen(*session.write_replies(folder), size=session.size)
    try:
        play(session, screen, folder, record)
    finally:
        if record:
            session.write()
