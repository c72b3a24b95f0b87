"""Which folders a server learns of as MCP roots (MCP 2025-11-25, client/roots).

Servers such as `server-filesystem` replace the folders of their arguments by the roots, so these folders are announced.
The start folder is announced to a server on this machine that names no folder, because the user has started the
program there; but not a folder with much other content, such as the home folder.

One-shot commands import this module before they start a server, so it imports little more than os.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..config.servers import ServerConfig
from ..core.programs import CONTAINER_PROGRAMS, SEARCH_VARIABLES
from ..core.working_folder import find_working_folder

BROAD_FOLDERS = ("/", "/home", "/root", "/tmp", "/var", "/var/tmp", "/etc", "/opt", "/mnt", "/media", "/srv", "/snap")
"""Folders with much other content, apart from the home folder and those above it."""
_ELSEWHERE = (*CONTAINER_PROGRAMS, "ssh")
"""Commands that start a server which sees other files."""


def find_roots(server: ServerConfig, start_folder: str | None = None) -> tuple[str, ...]:
    """Return the folders to announce to a server: those of its setting `roots`, else of its arguments, else the start.

    Args:
        server: The server's configuration.
        start_folder: The folder in which the program was started; by default the current one.
    """
    if server.roots is not None or not server.command:
        return find_named_folders(server)
    start = _make_absolute(start_folder or "")
    return find_named_folders(server) or (() if is_broad(start) else (start,))


def find_named_folders(server: ServerConfig) -> tuple[str, ...]:
    """Return the folders that the entry of a server names: those of its setting `roots`, else of its arguments."""
    if server.roots is not None:
        return configured_roots(server)
    if not server.command:
        return ()
    base = _make_absolute(os.path.expanduser(server.cwd))
    named = (os.path.normpath(os.path.join(base, argument)) for argument in server.args)
    return tuple(path for path in named if os.path.isdir(path))


def find_base_folders(server: ServerConfig, written: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the folders to which a relative path may belong that a call writes, the likeliest first.

    `server-filesystem` takes the first folder that it was given; others take one of an option or a variable, or the
    folder in which they are started.

    Args:
        server: The server's configuration.
        written: What its sandbox lets it write; None without a sandbox.

    Returns:
        Absolute paths; none for a server whose files are elsewhere.
    """
    named = [path for path in find_named_folders(server) if path != "/"]
    if not server.command:
        return tuple(named)
    if os.path.basename(server.command) in _ELSEWHERE:
        return ()
    start = _make_absolute(os.path.expanduser(server.cwd))
    words = [word.partition("=")[2] if word.startswith("-") else word for word in server.args]
    words += [value for name, value in server.env.items() if name not in SEARCH_VARIABLES]
    others = [os.path.normpath(os.path.join(start, os.path.expanduser(word))) for word in words if word]
    bases = dict.fromkeys((*named, *(path for path in others if path != "/" and os.path.isdir(path)), start))
    if written is None:
        return tuple(bases)
    places = [*map(os.path.realpath, written)]
    is_open = {path: _overlaps(os.path.realpath(path), places) for path in bases}
    return tuple(path for path in bases if is_open[path]) or tuple(bases)


def _overlaps(path: str, others: Iterable[str]) -> bool:
    """Tell whether a path contains one of the others or lies in one."""
    return any(is_within(path, [other]) or is_within(other, [path]) for other in others)


def configured_roots(server: ServerConfig) -> tuple[str, ...]:
    """Return the folders of the setting `roots`; relative ones belong to the folder of the configuration file."""
    base = _make_absolute(os.path.dirname(server.source))
    return tuple(os.path.normpath(os.path.join(base, os.path.expanduser(root))) for root in server.roots or ())


def _make_absolute(path: str) -> str:
    """Return an absolute path; `os.path.abspath` fails once the working folder is removed."""
    return os.path.normpath(os.path.join(find_working_folder(), path))


def is_broad(path: str, home: str = "") -> bool:
    """Tell whether a folder has much other content: the home folder, one above it, or one of the system's.

    Args:
        path: The folder.
        home: The home folder; by default the user's.
    """
    home = home or os.path.normpath(os.environ.get("HOME") or "/nonexistent")
    homes = {home, os.path.realpath(home)}
    names = {path, os.path.realpath(path)}
    own = {*homes, *(f"{home}/.local" for home in homes)}
    return not names.isdisjoint((*BROAD_FOLDERS, *own)) or any(is_within(home, names) for home in homes)


def is_within(path: str, folders: Iterable[str]) -> bool:
    """Tell whether a path is one of the folders or inside one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
