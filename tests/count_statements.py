"""Print the statements of each package of the product, for a release to compare: `python -m tests.count_statements`."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "rkllm_chat"


def count_statements(source: str) -> int:
    """Count the statements of a module, docstrings excluded; how they are laid out on lines does not matter."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = sum(
        isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
        for node in nodes
    )
    return sum(isinstance(node, ast.stmt) for node in nodes) - docstrings


if __name__ == "__main__":
    packages: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("").parts[0]
        packages[name] += count_statements(path.read_text(encoding="utf-8"))
    for name, count in packages.most_common():
        print(f"{name:<14}{count:>7}")
    print(f"{'total':<14}{packages.total():>7}")
