"""The Python blocks of the documentation and the examples of docstrings run."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PACKAGE = DOCS.parent / "rkllm_chat"
EXAMPLES = [
    str(path.relative_to(PACKAGE.parent).with_suffix("")).replace("/", ".")
    for path in sorted(PACKAGE.rglob("*.py"))
    if "    >>> " in path.read_text("utf-8")
]
OUTPUT = {  # of the blocks that name these
    "Chat.sync": ["6 * 7 = 42"],
    "MCPClient": ["get_time", "42"],
    "import ToolCallScanner": ["CallFound", "'city': 'Oslo'"],
}
BLOCKS = [(path.name, code) for path in sorted(DOCS.glob("*.md")) for code in FENCE.findall(path.read_text("utf-8"))]


def test_every_example_with_a_known_output_is_there() -> None:
    assert [name for name in OUTPUT if not any(name in code for _, code in BLOCKS)] == []


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), BLOCKS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(BLOCKS)])
def test_a_block_of_the_documentation_runs(page: str, code: str, environment: dict[str, str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, f"{page}: {done.stderr}"
    for text in (text for name, texts in OUTPUT.items() if name in code for text in texts):
        assert text in done.stdout, page


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_docstrings_are_true(module: str) -> None:
    failed, count = doctest.testmod(importlib.import_module(module))
    assert count and not failed


@pytest.mark.parametrize("page", ["board.ja.md", "board.zh.md"])
def test_a_page_that_downloads_the_library_says_which_file_is_right(page: str) -> None:
    text, table = (DOCS / page).read_text("utf-8"), (DOCS.parent / "models/README.md").read_text("utf-8")
    release = re.search(r"raw/(release-v[0-9.]+)/rkllm-runtime", text)
    assert release
    row = re.search(rf"`{release[1]}` \| `git hash-object`: ([0-9a-f]{{40}})", table)
    assert row and f"`{row[1]}`" in text
