"""What pyproject.toml requires and what the pages say about installing it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_installation_without_a_compiler_names_every_other_requirement() -> None:
    """A new requirement must be added to the page."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project]")[2]
    listed = project.partition("dependencies = [")[2].partition("\n]")[0]
    required = set(re.findall(r'^\s+"([\w.-]+)', listed, re.MULTILINE)) - {"llama-cpp-python"}
    npu = set(re.findall(r'"([\w.-]+)>', project.partition("npu = ")[2].partition("\n")[0]))
    page = (ROOT / "models/README.md").read_text(encoding="utf-8")
    command = page.partition("```sh\npip install ")[2].partition("\n")[0]
    assert set(command.split()) == required | npu
