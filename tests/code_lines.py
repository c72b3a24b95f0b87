"""Count lines of code: without docstrings, comments and blank lines. `python -m tests.code_lines` prints a table."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "rkllm_chat"


def count_code_lines(source: str) -> int:
    """Count the lines of a module that hold code; a text below an assignment counts as code."""
    lines = {number for number, line in enumerate(source.splitlines(), 1) if line.strip()[:1] not in ("", "#")}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str() | bytes()) | ast.JoinedStr():  # a text counts with its blank lines
                lines.update(lines_of(node))
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node, clean=False) is not None:
                    docstrings.update(lines_of(node.body[0]))
    return len(lines - docstrings)


def lines_of(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or 0) + 1)


def count_packages(package: Path = PACKAGE) -> Counter[str]:
    """Return the lines of code of each direct subpackage and module of a package."""
    counts: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        counts[path.relative_to(package).with_suffix("").parts[0]] += count_code_lines(path.read_text(encoding="utf-8"))
    return counts


if __name__ == "__main__":
    packages = count_packages()
    for name, count in packages.most_common():
        print(f"{name:<14}{count:>7}")
    print(f"{'total':<14}{sum(packages.values()):>7}")
