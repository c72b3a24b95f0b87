"""SECURITY.md names a test for each promise, and only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_named_test_exists() -> None:
    named = NAMED.findall(TEXT)
    assert len(named) > 20
    missing = [f"{file}::{name}" for file, name in named if not holds(ROOT / file, name)]
    assert missing == []


def holds(path: Path, name: str) -> bool:
    return path.is_file() and f"\ndef {name}(" in path.read_text(encoding="utf-8")


def test_every_promise_names_a_test() -> None:
    table = TEXT.partition("## What is guaranteed")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    assert [row for row in rows if not NAMED.search(row)] == []


def test_the_readme_links_to_it() -> None:
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
