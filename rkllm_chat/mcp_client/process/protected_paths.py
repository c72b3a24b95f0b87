"""Keep a server from files inside folders that it may write. Starts nothing; imported only for sandboxes.

    hidden      the user's configuration, this program's state, keys: empty inside the sandbox
    read-only   configuration files of projects, and what decides which programs git and this program run

A mount protects a name only while its parent folders stay where they are, so each folder between a writable folder and
a protected path is mounted onto itself: the kernel does not rename mount points (rename(2), EBUSY). A name that does
not exist has no mount point; the few that matter outside a project are therefore created. A project's own configuration
files are not created: a new one is that of an untrusted project, and its servers are asked about.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from ...config.files import list_config_paths
from ...core.file_writes import create_file
from ...core.private_files import make_folder
from ..roots import is_within

_GIT_FILES = ("config", "config.worktree", "commondir", "hooks", "modules")
"""What git reads from a repository and that names programs which it runs, as far as it exists."""
_PACKAGE = "rkllm_chat"
_JSON = ".json"
_EMPTY_CONFIG = b'{"mcpServers": {}}\n'


def find_missing(writable: list[str], own_folders: Iterable[str]) -> list[str]:
    """Return the paths that a server must not create and that are therefore created before it starts.

    Args:
        writable: Real paths of the writable folders and files.
        own_folders: Folders of this program.
    """
    own_files = [path for path in list_config_paths(os.environ) if os.path.isabs(path) and path.endswith(_JSON)]
    candidates = [path for path in map(os.path.realpath, (*own_folders, *own_files)) if is_within(path, writable)]
    candidates += [
        os.path.join(repository, "hooks") for folder in writable for repository in _find_repositories(folder)
    ]
    return [path for path in candidates if not os.path.lexists(path) and os.access(_find_existing(path), os.W_OK)]


def create_missing(paths: Iterable[str]) -> None:
    """Create files and folders; a file is a configuration without servers."""
    for path in paths:
        with suppress(FileExistsError):  # another server is started at the same time
            make_folder(os.path.dirname(path))
            if path.endswith(_JSON):
                create_file(path, _EMPTY_CONFIG)
            else:
                os.mkdir(path, 0o755 if os.path.basename(path) == "hooks" else 0o700)


def find_read_only(writable: list[str]) -> Iterator[str]:
    """Yield the paths inside writable folders that a server must not change, also those that do not exist.

    Args:
        writable: Real paths of the writable folders and files.
    """
    names = [name for name in list_config_paths(os.environ) if not os.path.isabs(name)]
    for folder in writable:
        yield from (os.path.join(folder, name) for name in names)
        for repository in _find_repositories(folder):
            yield from (os.path.join(repository, name) for name in _GIT_FILES)
        if os.path.isfile(link := os.path.join(folder, ".git")):  # of a worktree or submodule: names the folder of git
            yield link
    yield from (os.path.join(find_source_folder(), _PACKAGE), sys.prefix)


def find_source_folder() -> str:
    """Return the folder that contains the package of this program."""
    return os.path.abspath(__file__).rpartition(f"/{_PACKAGE}/")[0]


def _find_repositories(folder: str) -> Iterator[str]:
    """Yield the folders of git in a folder, or itself if it is one."""
    for path in (os.path.join(folder, ".git"), folder):
        if os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects")):
            yield path


def _find_existing(path: str) -> str:
    """Return the nearest folder above a path that exists."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def mount_protected(
    hidden: Iterable[str],
    read_only: Iterable[str],
    missing: list[str],
    writable: list[str],
    mount_tmpfs: Callable[[str], list[str]],
) -> list[str]:
    """Return bubblewrap's arguments that hide paths and make others read-only, outer folders first.

    Args:
        hidden: Real paths; those that do not exist are left out.
        read_only: Paths; those that do not exist or do not lie inside a writable folder are left out.
        missing: Paths that will exist: folders, and files that end with ".json".
        writable: Real paths of the writable folders.
        mount_tmpfs: Returns the arguments for an empty folder in memory.
    """
    mounts: dict[str, list[str]] = {}
    for path in read_only:
        if (path in missing or os.path.exists(path)) and is_within(os.path.realpath(os.path.dirname(path)), writable):
            real_path = os.path.realpath(path)
            mounts[real_path] = ["--ro-bind", real_path, real_path]
    closed = {path for path in hidden if path in missing or os.path.exists(path)}
    for path in closed:
        is_folder = os.path.isdir(path) or (path in missing and not path.endswith(_JSON))
        mounts[path] = mount_tmpfs(path) if is_folder else ["--ro-bind", "/dev/null", path]
    for path in list(mounts):
        for folder in _list_parents(path, writable):
            mounts.setdefault(folder, ["--bind", folder, folder])
    return [
        word
        for path in sorted(mounts, key=lambda path: path.split("/"))
        if not is_within(os.path.dirname(path), closed)
        for word in mounts[path]
    ]


def _list_parents(path: str, writable: list[str]) -> Iterator[str]:
    """Yield the folders that contain a path and lie inside a writable folder."""
    folder = os.path.dirname(path)
    while is_within(folder, writable) and folder not in writable:
        yield folder
        folder = os.path.dirname(folder)
