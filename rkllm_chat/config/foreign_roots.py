"""Find the servers in the root of another program's file, and what it says about them outside of their entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .foreign_switches import read_beside

ROOTS = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("context_servers",),
    ("amp.mcpServers",),
    ("mcp_servers",),
    ("mcp-servers",),
    ("augment.advanced", "mcpServers"),
    ("tools", "mcpServers"),
    ("mcp", "mcpServers"),
    ("customizations", "vscode", "mcp", "servers"),
    ("experimental", "modelContextProtocolServers"),
    ("mcp",),
    ("extensions",),
)
"""Keys that lead to the servers of a file, an object or a list of objects; the first that does is used."""
_UNMARKED_ROOTS = (("mcp",), ("extensions",))
"""Roots that other files have for other things: every entry must be an object."""
START_KEYS = ("command", "cmd", "url", "serverUrl", "httpUrl", "baseUrl", "uri")


class ForeignFile(NamedTuple):
    """The servers of a file.

    Attributes:
        place: The keys that lead to them, joined by dots; "" for the root.
        entries: The entries by name.
        inputs: Defaults of the values that the program would ask for (`inputs` of VS Code), by their ids.
        disabled: Names of servers that the file excludes elsewhere.
        is_list: The entries are a list.
        unused: Tools that the file leaves out elsewhere, by server.
        unknown: Places of what names a server elsewhere and sounds like a restriction, by server.
        disabled_by: Servers that another file switches off -> its path.
    """

    place: str
    entries: dict[str, Any]
    inputs: Mapping[str, str]
    disabled: frozenset[str]
    is_list: bool = False
    unused: Mapping[str, list[str]] = {}
    unknown: Mapping[str, list[str]] = {}
    disabled_by: Mapping[str, str] = {}

    def place_of(self, name: str) -> str:
        """Return the place of an entry."""
        if self.is_list:
            return f"{self.place}[{[*self.entries].index(name)}]"
        return f"{self.place}.{name}" if self.place else name


def find_entries(root: Any, may_be_bare: bool = True) -> ForeignFile | None:
    """Find the servers in the root of a JSON or YAML file; None if there are none.

    Args:
        root: The root of the file.
        may_be_bare: The file may be a table of servers without a key above them. Plugins bring such files along in
            folders, where they are not meant for every program.
    """
    for keys in ROOTS:
        parent: Any = root
        for key in keys[:-1]:
            parent = parent.get(key) if isinstance(parent, dict) else None
        if not isinstance(parent, dict) or keys[-1] not in parent:
            continue
        entries, is_list = parent[keys[-1]], False
        if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
            entries, is_list = _name_entries(entries), True
        elif entries is None and keys not in _UNMARKED_ROOTS:
            entries = {}
        is_usable = keys not in _UNMARKED_ROOTS or (
            isinstance(entries, dict) and all(isinstance(entry, dict) for entry in entries.values())
        )
        if isinstance(entries, dict) and is_usable:
            inputs = _read_inputs(root if len(keys) == 1 else parent)
            if targets := _read_targets(parent.get("targets")):
                entries = {**entries, **targets}
            if "nativeMCPServers" in root:
                entries = {name: _inherit_variables(entry) for name, entry in entries.items()}
            file = ForeignFile(".".join(keys), entries, inputs, frozenset(), is_list)
            return _add_beside(file, root, parent[keys[-1]])
    is_bare = may_be_bare and isinstance(root, dict) and root and all(map(_can_start, root.values()))
    return ForeignFile("", root, {}, frozenset()) if is_bare else None


def find_listed_entries(root: Any) -> ForeignFile | None:
    """Find the servers of a file whose root is a list of them (Open WebUI); None if it is not."""
    if not isinstance(root, list) or not root or not all(map(_can_start, root)):
        return None
    return ForeignFile("", _name_entries(root), {}, frozenset(), True)


def add_settings(file: ForeignFile, path: str, settings: Any) -> ForeignFile:
    """Add what a program's own settings say about the servers of another file of it.

    Args:
        file: The servers.
        path: Path of the settings.
        settings: Their content; None if they cannot be read: they may switch off any of the servers.
    """
    if not isinstance(settings, dict):
        return file._replace(unknown={name: [*file.unknown.get(name, ()), path] for name in file.entries})
    beside = read_beside(settings, file.entries, file.entries)
    merged = {name: [*file.unused.get(name, ()), *beside.unused.get(name, ())] for name in file.entries}
    places = {name: [f"{path}: {place}" for place in found] for name, found in beside.unknown.items()}
    return file._replace(
        unused=merged,
        unknown={name: [*file.unknown.get(name, ()), *places.get(name, ())] for name in file.entries},
        disabled_by={**file.disabled_by, **dict.fromkeys(beside.disabled, path)},
    )


def _add_beside(file: ForeignFile, root: Mapping[str, Any], entries: Any) -> ForeignFile:
    """Add what a file says about its servers outside of their entries."""
    beside = read_beside(root, file.entries, entries)
    return file._replace(disabled=frozenset(beside.disabled), unused=beside.unused, unknown=beside.unknown)


def _inherit_variables(entry: Any) -> Any:
    """Return an entry of mcphub, where a variable without a value is that of the environment."""
    env = entry.get("env") if isinstance(entry, dict) else None
    if not isinstance(env, dict):
        return entry
    return {**entry, "env": {name: f"${{{name}:-}}" if value in (None, "") else value for name, value in env.items()}}


def _read_targets(targets: Any) -> dict[str, Any]:
    """Return the servers that fast-agent names by a command line or a URL."""
    found = [target for target in targets if isinstance(target, dict)] if isinstance(targets, list) else []
    return {
        str(target["name"]): {
            **{key: value for key, value in target.items() if key != "target"},
            "command": target["target"],
        }
        for target in found
        if isinstance(target.get("name"), str) and isinstance(target.get("target"), str)
    }


def _can_start(entry: Any) -> bool:
    return isinstance(entry, dict) and any(isinstance(entry.get(key), str) for key in START_KEYS)


def _name_entries(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the entries of a list by their names; of several with one name, the later ones get a number."""
    named: dict[str, Any] = {}
    for number, entry in enumerate(entries, 1):
        about = [entry.get("name") or entry.get("id")]
        if isinstance(info := entry.get("info"), dict):  # Open WebUI
            about += [info.get("id"), info.get("name")]
        name = next((text for text in about if isinstance(text, str) and text), f"server-{number}")
        named[name if name not in named else f"{name}-{number}"] = entry
    return named


def _read_inputs(parent: Mapping[str, Any]) -> dict[str, str]:
    inputs = parent.get("inputs")
    found = [entry for entry in inputs if isinstance(entry, dict)] if isinstance(inputs, list) else []
    return {str(entry.get("id")): entry["default"] for entry in found if isinstance(entry.get("default"), str)}
