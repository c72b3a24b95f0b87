"""Prints the lowest version of each dependency that pyproject.toml admits, as constraints for pip."""

import re
from pathlib import Path

TEXT = Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
LOWEST = re.compile(r'"([\w-]+)>=([\w.]+)')

for name, version in sorted(set(LOWEST.findall(TEXT.partition("[project]")[2]))):
    print(f"{name}=={version}")
