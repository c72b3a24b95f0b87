"""Docstrings name what exists: functions, classes, members, modules and exceptions of the package."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rkllm_chat"
QUOTED = re.compile(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`")
LIKE_OURS = re.compile(r"_\w+|[a-z]\w*_\w+|[A-Z]\w*[a-z]\w*|[A-Z]+_\w+|(?!.*\.(?:jinja|jsonl?|md)$)\w+\.[\w.]+")
RAISED = re.compile(r"\b(?:[Rr]aises|raising) ([A-Z]\w+)(?:,? (?:or|and) ([A-Z]\w+))?")
RAISES_SECTION = re.compile(r"^ *Raises:\n((?:(?: +.*)?\n)+)", re.MULTILINE)
NOT_OURS = {
    # examples of names
    "server__tool",
    "server__name",
    "server_tool",
    "a__b",
    "entity_name",
    "snake_case",
    "zh_TW",
    "get_tide",
    "delete_observations",
    "ImageContent",
    # the part in capitals varies
    "rkllm_NAME",
    "generation.NAME",
    "rknn_NAME",
    "rkllm_chat.KIND",
    "commands.NAME",
    "ID.torn",
    "ID.media",
    "TokenStorage",
    "apply_chat_template",
    "preexec_fn",
    "engine.n_tokens",
    "Llama.generate",  # of libraries
    "multimodal_model_demo",
    "num_ctx",
    "tool_request",  # of other programs, of model text
    "auth_type",
    "allowed_tools",
    "disabled_tools",
    "mcpSettings.allowedDomains",
    "mcp__NAME__TOOL",
    "NAME_TOOL",
    "default_api.get_time",
    "default_api.f",
    "ID.state",
    "_tile_loadconfig",
    "call_end",  # a group of a regular expression
}


class Source:
    """A module: the texts of its docstrings, and its identifiers and one-word strings, each with its line."""

    def __init__(self, path: Path) -> None:
        self.path, self.docstrings, self.names = path, list[tuple[int, str]](), [(0, "py")]
        self.classes: list[ast.ClassDef] = []
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    self.docstrings.append((node.lineno, text))
                    node.value = ast.Constant(None)  # so that its text is not walked as a string
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.MatchAs(name=str(name)):
                    self.names.append((node.lineno, name))
                case ast.Constant(value=str(name)) | ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)):
                    self.names.append((node.lineno, name))
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    self.names.append((node.lineno, name))
                    self.classes += [node] if isinstance(node, ast.ClassDef) else []
                case ast.alias(name=name):
                    self.names += [(node.lineno, part) for part in [*name.split("."), node.asname or ""]]
                case ast.ImportFrom(module=str(name)):
                    self.names += [(node.lineno, part) for part in name.split(".")]


def find_names(text: str) -> Iterator[str]:
    """Names in a docstring that look like ours, and the exceptions that it says are raised."""
    yield from (name for name in QUOTED.findall(text) if LIKE_OURS.fullmatch(name))
    named = [name for names in RAISED.findall(text) for name in names]
    for section in RAISES_SECTION.findall(text):
        named += re.findall(r"^ +([A-Z]\w+):", section, re.MULTILINE)
    yield from (name for name in named if name and not hasattr(builtins, name))


@pytest.mark.slow  # parses the whole package
def test_docstrings_name_what_exists() -> None:
    sources = [Source(path) for path in PACKAGE.rglob("*.py")]
    members: dict[str, set[str]] = defaultdict(set)  # of the modules and classes of a name
    for source in sources:
        members[source.path.stem].update(name for _, name in source.names)
        for node in source.classes:
            lines = range(node.lineno, (node.end_lineno or 0) + 1)
            members[node.name].update(name for line, name in source.names if line in lines)
    everything = set(members).union(*members.values())

    def exists(name: str) -> bool:
        parts = name.split(".")
        return everything.issuperset(parts) and all(
            member in members.get(owner, () if owner[0].isupper() else everything) for owner, member in pairwise(parts)
        )

    named = [
        (f"{source.path.relative_to(PACKAGE)}:{line}", name)
        for source in sources
        for line, text in source.docstrings
        for name in find_names(text)
    ]
    assert len(named) > 500
    stale = [(place, name) for place, name in named if name not in NOT_OURS and not exists(name)]
    assert not stale, stale
