"""The house stands on its floors: imports go down, nothing heavy is imported early, no file is long."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rkllm_chat"
FILES = sorted(PACKAGE.rglob("*.py"))

# A name is a file or a folder of the package; the number is its floor.
FLOORS = {
    **dict.fromkeys(("messages", "events", "errors", "language"), 0),
    **dict.fromkeys(("schemas", "faults", "exact", "readings", "flags"), 1),
    "toolcommands": 4,
    **dict.fromkeys(("markers", "reader", "formats", "scanner", "arguments", "templates", "prompt"), 1),
    **dict.fromkeys(("families",), 1),
    **dict.fromkeys(("budget", "clean", "policy", "config", "values", "names", "records", "redact"), 1),
    **dict.fromkeys(("history", "export", "oauth", "foreign", "prefix"), 1),
    **dict.fromkeys(("coercion", "literals", "corrections", "grammar"), 1),
    **dict.fromkeys(("backends", "servers", "discover", "configfile", "measured", "journal"), 2),
    **dict.fromkeys(("logfile", "private", "served"), 2),
    **dict.fromkeys(("chat", "chosen", "compact", "attach", "rounds", "sampling", "more", "window", "hearing"), 3),
    **dict.fromkeys(("forecast", "ahead", "choosing", "describing", "ours"), 3),
    **dict.fromkeys(("elicitation", "loading", "desk", "sessions", "replay"), 3),
    **dict.fromkeys(("terminal", "gauge", "questions", "live", "screen", "redraw", "typed", "keys", "seat"), 4),
    **dict.fromkeys(("plain", "lens", "shell", "completion", "overview", "price", "commands", "repl", "ask"), 4),
    **dict.fromkeys(("bundled", "doctor", "markdown"), 4),
    **dict.fromkeys(("entries", "memo", "paging", "sketch", "speed", "slim", "conjoin", "brief", "shapes"), 1),
    **dict.fromkeys(("catalogue", "ranking"), 1),
    **dict.fromkeys(("wire", "places", "trust", "pins", "isolated"), 2),
    "admission": 3,
    "accept": 4,
    **dict.fromkeys(("reach",), 3),
    **dict.fromkeys(("oneshot",), 4),
    **dict.fromkeys(("cli", "__main__", "__init__"), 5),
}
# One step up each, and why: the words of floor 0 name the version; types alone, for the shape that chat.py defines.
ALLOWED_UP = {("backends", "chat")}
FAMILIES = {"backends", "servers"}
HEAVY = {"mcp", "mcp_types", "prompt_toolkit", "rich", "llama_cpp", "jinja2", "jsonschema", "pydantic"}
PURE = {name for name, floor in FLOORS.items() if floor in (0, 1, 3)}


def part_of(path: Path) -> str:
    """The file or folder of the package that a path belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, anywhere in it."""
    package = ("rkllm_chat", *path.relative_to(PACKAGE).parts[:-1])
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            module = (*base, *(node.module or "").split(".")) if node.module else base
            names = [module[1]] if len(module) > 1 else [alias.name for alias in node.names]
            found |= {name for name in names if name in FLOORS}
    return found


def imported_early(path: Path) -> set[str]:
    """The foreign packages that a file imports at its top."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_every_file_has_a_floor() -> None:
    assert {part_of(path) for path in FILES} == set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    part = part_of(path)
    others = imported_parts(path) - {part}
    up = {other for other in others if FLOORS[other] > FLOORS[part] and (part, other) not in ALLOWED_UP}
    assert not up, f"{path.name} (floor {FLOORS[part]}) imports {up} from above"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_families_do_not_know_each_other(path: Path) -> None:
    part = part_of(path)
    assert part not in FAMILIES or not (imported_parts(path) & FAMILIES - {part})


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rules_and_talk_import_nothing_heavy_early(path: Path) -> None:
    assert part_of(path) not in PURE or not (imported_early(path) & HEAVY)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_the_import_reader_sees_what_is_imported() -> None:
    assert {"config", "errors", "chat"} <= imported_parts(PACKAGE / "backends/__init__.py")
    assert "mcp" in imported_early(PACKAGE / "servers/connection.py")
