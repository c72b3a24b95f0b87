"""Find and read the configuration of other programs, the user's and the current folder's, to import its servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, UsageError
from ..core.user_paths import expand_home
from .files import read_settings_beside
from .foreign_roots import ForeignFile, find_entries, find_listed_entries
from .servers import (
    ServerConfig,
    SkippedServer,
    apply_settings,
    decode_entries,
    load_document,
    load_toml,
    locate_skipped,
)
from .value_checks import RepeatedKeys

_CODE = (".config/Code/User", "Library/Application Support/Code/User")
_CLINE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
_ROO = "globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
SOURCES: dict[str, tuple[str, ...]] = {
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
    ),
    "claude-code": (".claude.json",),
    "cursor": (".cursor/mcp.json", "./.cursor/mcp.json"),
    "vscode": (
        *(f"{folder}/{name}" for folder in _CODE for name in ("mcp.json", "settings.json")),
        "./.vscode/mcp.json",
        "./.vscode/settings.json",
        "./.devcontainer/devcontainer.json",
    ),
    "codex": (".codex/config.toml", "./.codex/config.toml"),
    "gemini": (".gemini/settings.json", "./.gemini/settings.json"),
    "copilot": (".copilot/mcp-config.json",),
    "cline": tuple(f"{folder}/{_CLINE}" for folder in _CODE),
    "roo": (*(f"{folder}/{_ROO}" for folder in _CODE), "./.roo/mcp.json"),
    "lm-studio": (".lmstudio/mcp.json",),
    "opencode": (
        ".config/opencode/opencode.json",
        ".config/opencode/opencode.jsonc",
        "./opencode.json",
        "./opencode.jsonc",
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json",),
    "zed": (".config/zed/settings.json", "./.zed/settings.json"),
    "kiro": (".kiro/settings/mcp.json", "./.kiro/settings/mcp.json"),
    "amazon-q": (".aws/amazonq/mcp.json", ".aws/amazonq/default.json", "./.amazonq/mcp.json"),
    "qwen": (".qwen/settings.json", "./.qwen/settings.json"),
    "crush": (".config/crush/crush.json", "./crush.json", "./.crush.json"),
    "junie": (".junie/mcp/mcp.json", "./.junie/mcp/mcp.json"),
    "goose": (".config/goose/config.yaml",),
    "continue": (".continue/config.yaml", ".continue/config.json", "./.continue/config.yaml"),
}
"""Names of programs -> their files: below the home folder, or with ./ below the current folder."""
TARGETS: dict[str, tuple[tuple[str, ...], str]] = {
    "claude": ((*SOURCES["claude-desktop"], *SOURCES["claude-code"]), "mcpServers"),
    "cursor": (SOURCES["cursor"][:1], "mcpServers"),
    "vscode": (tuple(f"{folder}/mcp.json" for folder in _CODE), "servers"),
    "zed": (SOURCES["zed"][:1], "context_servers"),
}
"""Programs that servers can be written to -> the user's files, and the key of the servers in them."""
_MOVED = {".config": "XDG_CONFIG_HOME", ".codex": "CODEX_HOME", ".copilot": "COPILOT_HOME"}
"""Folders below the home folder -> variables that name another one."""
MAX_FOREIGN_BYTES = 32 << 20
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
    existing = find_files(program, environment)
    servers: dict[str, ServerConfig] = {}
    skipped: list[SkippedServer] = []
    for path in existing:
        file, text = _read_file(path)
        file = apply_settings(file, read_settings_beside(str(path)))
        unusable: list[SkippedServer] = []
        if isinstance(file.entries, RepeatedKeys):
            text_error = f'{path}: the key "{file.entries.repeated}" occurs twice in one object.'
            raise ConfigError(text_error, "Remove one of them.", path=str(path))
        for server in decode_entries(file, str(path), skipped=unusable):
            if server.trust == "trusted":  # that is for the user to write
                server = replace(server, trust="ask", not_obeyed=(*server.not_obeyed, "trust: trusted"))
            servers.setdefault(server.name, server)
        skipped += locate_skipped(unusable, text)
    return [*servers.values()], skipped


def find_files(program: str, environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the files of a program that exist, or the file of that path. Raises UsageError if there is none."""
    paths = [_find_path(name, environment) for name in SOURCES.get(program, ())] or [expand_home(program)]
    existing = [path for path in paths if path.is_file()]
    if not existing:
        hint = f"Known programs: {', '.join(SOURCES)}." if program not in SOURCES else ""
        raise UsageError(f"There is no file {' or '.join(map(str, paths))}.", hint, got=program)
    return existing


def find_target_file(program: str, environment: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """Return the file of a program of TARGETS, and the key of the servers in it.

    Raises:
        UsageError: Neither the file nor a folder of the program exists.
    """
    names, key = TARGETS[program]
    paths = [_find_path(name, environment) for name in names]
    home = _find_path("", environment)
    found = [path for path in paths if path.is_file()] or [
        path for path in paths if path.parent.is_dir() and path.parent != home
    ]
    if not found:
        raise UsageError(f"There is no folder for {' or '.join(map(str, paths))}.", "Start that program once.")
    return found[0], key


def _find_path(name: str, environment: Mapping[str, str]) -> Path:
    """Return the path of a file of SOURCES."""
    if name.startswith("./"):
        return Path(name)
    first, _, rest = name.partition("/")
    moved = Path(environment.get(_MOVED.get(first, ""), ""))
    if moved.is_absolute():
        return moved / rest
    return Path(environment.get("HOME") or "/nonexistent", name)


def _read_file(path: Path) -> tuple[ForeignFile, str]:
    """Return the servers of a file, none of a settings file without them, and its text."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FOREIGN_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.", path=str(path)) from None
    if path.suffix == ".toml":
        return _read_toml(text, str(path)), text
    root = load_document(text, str(path))
    if listed := find_listed_entries(root):
        return listed, text
    if not isinstance(root, dict):
        raise ConfigError(f"{path}: no object.", path=str(path))
    found = find_entries(root) or ForeignFile("mcpServers", {}, {}, frozenset())
    projects = root.get("projects")
    here = projects.get(str(Path.cwd())) if isinstance(projects, dict) else None
    return (_add_project(found, here) if isinstance(here, dict) else found), text


def _add_project(file: ForeignFile, project: Mapping[str, Any]) -> ForeignFile:
    """Add what Claude Code keeps for the current folder: servers, and names of those that are switched off there."""
    local, disabled = project.get("mcpServers"), project.get("disabledMcpServers")
    names = {name for name in disabled if isinstance(name, str)} if isinstance(disabled, list) else set[str]()
    entries = {**file.entries, **(local if isinstance(local, dict) else {})}
    return file._replace(entries=entries, disabled=file.disabled | names)


def _read_toml(text: str, source: str) -> ForeignFile:
    """Return the [mcp_servers] of Codex, the [[mcp_servers]] of Vibe, or the [[servers]] of a file of ours."""
    tables = load_toml(text, source)
    own = tables.get("servers", [])
    named = {str(entry.get("name")): entry for entry in own if isinstance(entry, dict)} if isinstance(own, list) else {}
    found = find_entries({key: value for key, value in tables.items() if key != "servers"}, may_be_bare=False)
    found = found or ForeignFile("mcp_servers", {}, {}, frozenset())
    return found._replace(entries={**named, **found.entries}) if named else found
