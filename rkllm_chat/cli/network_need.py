"""Find out whether a server that is being added probably needs the network, by the metadata of its package.

Package runners have a network anyway; a program that is installed has none unless its entry says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..core.programs import PACKAGE_RUNNERS, find_program
from ..core.user_paths import expand_home

_PYTHON_CLIENTS = (
    "aiohttp",
    "arxiv",
    "beautifulsoup4",
    "boto3",
    "ddgs",
    "duckduckgo-search",
    "feedparser",
    "httpx",
    "httpx2",
    "google-api-python-client",
    "httpx-sse",
    "openai",
    "playwright",
    "praw",
    "pygithub",
    "requests",
    "selenium",
    "slack-sdk",
    "tavily-python",
    "urllib3",
    "wikipedia",
    "wikipedia-api",
)
_NODE_CLIENTS = ("axios", "cross-fetch", "got", "ky", "node-fetch", "playwright", "puppeteer", "undici", "ws")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MAX_BYTES = 1 << 20
_MAX_DEPTH = 4


def find_network_library(command: Sequence[str]) -> str:
    """Return a library of the web that the package of an installed program depends on; "" if none is found.

    Args:
        command: The program and its arguments.
    """
    found = find_program(str(expand_home(command[0])), None)
    if found is None or Path(found).name in PACKAGE_RUNNERS:
        return ""
    scripts = [word for word in command[1:] if word.endswith((".js", ".mjs", ".cjs"))][:1]
    names = [*_list_python_dependencies(Path(found)), *_list_node_dependencies([found, *scripts])]
    return next((name for name in names if name in (*_PYTHON_CLIENTS, *_NODE_CLIENTS)), "")


def _list_python_dependencies(program: Path) -> Iterator[str]:
    """Yield what the distribution that installed a script requires, beside its extras."""
    name, prefix = program.name, program.parent.resolve().parent
    for entry_points in prefix.glob("lib/python*/site-packages/*.dist-info/entry_points.txt"):
        if not re.search(rf"^{re.escape(name)}\s*=", _read(entry_points), re.MULTILINE):
            continue
        for line in _read(entry_points.with_name("METADATA")).splitlines():
            key, _, value = line.partition(":")
            if key == "Requires-Dist" and "extra ==" not in value and (match := _NAME.match(value.strip())):
                yield re.sub(r"[-_.]+", "-", match[0]).lower()


def _list_node_dependencies(paths: Sequence[str]) -> Iterator[str]:
    """Yield what the package of a Node program, or of a script that Node runs, depends on."""
    for path in paths:
        folder = expand_home(path).resolve().parent
        for parent in [folder, *folder.parents][:_MAX_DEPTH]:
            if (package := parent / "package.json").is_file():
                yield from _read_dependencies(package)
                break


def _read_dependencies(package: Path) -> list[str]:
    try:
        dependencies = json.loads(_read(package)).get("dependencies")
    except (ValueError, AttributeError):
        return []
    return [*dependencies] if isinstance(dependencies, dict) else []


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
