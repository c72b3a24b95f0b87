"""Find and read the configuration of other programs, to import its servers.

Only files of the user are looked for: one of a folder is named by its path.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, UsageError
from .foreign_entries import find_entries
from .servers import ServerConfig, SkippedServer, read_json_servers
from .source_text import blank_comments
from .value_checks import parse_document

SOURCES: dict[str, tuple[str, ...]] = {
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
    ),
    "claude-code": (".claude.json",),
    "cursor": (".cursor/mcp.json",),
    "vscode": (
        *(".config/Code/User/mcp.json", ".config/Code/User/settings.json"),
        *("Library/Application Support/Code/User/mcp.json", "Library/Application Support/Code/User/settings.json"),
    ),
    "codex": (".codex/config.toml",),
    "gemini": (".gemini/settings.json",),
}
"""Names of programs -> their files below the home folder."""
_MAX_BYTES = 32 << 20
"""Claude Code keeps its history in the file, too."""


def read_foreign_servers(
    program: str, environment: Mapping[str, str] = os.environ
) -> tuple[list[ServerConfig], list[SkippedServer]]:
    """Read the servers of a program, or of a file.

    Args:
        program: A name of SOURCES, or a path.
        environment: Environment variables.

    Returns:
        The servers, whose variables are not expanded, and the entries that cannot be used.

    Raises:
        UsageError: There is no such program or file.
        ConfigError: A file is invalid.
    """
    home = Path(environment.get("HOME") or "/nonexistent")
    paths = [home / name for name in SOURCES.get(program, ())] or [Path(program).expanduser()]
    existing = [path for path in paths if path.is_file()]
    if not existing:
        hint = f"Known programs: {', '.join(SOURCES)}." if program not in SOURCES else ""
        raise UsageError(f"There is no file {' or '.join(map(str, paths))}.", hint, got=program)
    servers: dict[str, ServerConfig] = {}
    skipped: list[SkippedServer] = []
    for path in existing:
        text = json.dumps({"mcpServers": _read_entries(path)})
        for server in read_json_servers(text, str(path), skipped=skipped):
            if server.trust == "trusted":  # that is for the user to write
                server = replace(server, trust="ask", not_obeyed=(*server.not_obeyed, "trust: trusted"))
            servers.setdefault(server.name, server)
    return [*servers.values()], skipped


def _read_entries(path: Path) -> dict[str, Any]:
    """Return the entries of a file; none of a settings file without servers."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.", path=str(path)) from None
    if path.suffix == ".toml":
        return _read_toml_entries(text, str(path))
    root = parse_document(lambda text: json.loads(blank_comments(text)), "JSON", text, str(path))
    if not isinstance(root, dict):
        raise ConfigError(f"{path}: no object.", path=str(path))
    found = find_entries(root)
    projects = root.get("projects")
    here = projects.get(str(Path.cwd())) if isinstance(projects, dict) else None  # of Claude Code
    local = here.get("mcpServers") if isinstance(here, dict) else None
    return {**(found.entries if found else {}), **(local if isinstance(local, dict) else {})}


def _read_toml_entries(text: str, source: str) -> dict[str, Any]:
    """Return the [mcp_servers] of Codex, or the [[servers]] of a file of ours."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    from .value_checks import check_dotted_keys

    check_dotted_keys(text, source)
    tables = parse_document(tomllib.loads, "TOML", text, source)
    entries = tables.get("mcp_servers", {})
    own = tables.get("servers", [])
    named = {str(entry.get("name")): entry for entry in own if isinstance(entry, dict)} if isinstance(own, list) else {}
    return {**named, **(entries if isinstance(entries, dict) else {})}
