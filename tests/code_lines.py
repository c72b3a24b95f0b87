"""Count lines of code: without docstrings, comments and blank lines. `python -m tests.code_lines` prints a table."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "rkllm_chat"
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def count_code_lines(source: str) -> int:
    """Count the lines of a module that hold code; a text below an assignment counts as code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node, clean=False) is not None:
                    lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


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
