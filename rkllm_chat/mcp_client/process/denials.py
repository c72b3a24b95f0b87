"""Find out what a sandbox has denied a call, and which folders are never made writable on request.

What a tool says decides nothing. The network counts as denied by the kernel's counters. A folder counts as denied if it
exists, the user may write it, the rules of the sandbox do not permit it, and the error is the one with which the kernel
refuses that path in this sandbox: it is read-only where the server may read, and does not exist elsewhere. "Permission
denied" is therefore never the sandbox's. The result is for the user alone; a model that reads of a sandbox blames it.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from ...config.files import find_own_folder, find_state_folder
from ..roots import is_broad, is_within
from .protected_paths import find_source_folder
from .sandbox import SECRET_PATHS
from .sandbox_paths import EXCLUDED_PATHS
from .start import Sandbox

_UNOPENED_WORDS = ("unable to open", "readonly database")
"""What SQLite makes of either error."""
_CLAIMS: dict[int, tuple[str, ...]] = {
    errno.EROFS: ("EROFS", "Read-only file system", "read-only file system", *_UNOPENED_WORDS),
    errno.ENOENT: ("ENOENT", "No such file or directory", "no such file or directory", *_UNOPENED_WORDS),
}
"""How programs report the errors with which the kernel refuses a path that the sandbox does not permit."""
_MAX_UNOPENED_CHARS = 500
_MAX_TEXT = 10_000
_MAX_CANDIDATES = 50
_QUOTED = re.compile(r"""(['"`])([^'"`\n]{1,4096})\1""")
_ABSOLUTE = re.compile(r"(?<![\w.~-])~?/[^\s'\"`,;:()<>|\[\]{}]+")
_STARTUP_PATHS = (".config/autostart", ".config/systemd", ".local/share/systemd", ".config/environment.d")
"""Folders below the home folder whose files decide what the user's session runs."""


class Denial:
    """What a sandbox denied a server.

    Attributes:
        server: Name of the server.
        is_network: It was the network.
        folder: The folder to make writable; "" if it is unknown or may not be.
        may_offer: The user can allow it by a question or a command.
        source: File that defines the server.
        writes: What it may write, as text.
    """

    def __init__(self, sandbox: Sandbox, folder: str = "", is_network: bool = False) -> None:
        self.server, self.source = sandbox.name, sandbox.source
        self.folder, self.is_network = folder, is_network
        self.may_offer = sandbox.may_offer_network if is_network else bool(folder)
        self.writes = ", ".join(["/tmp", *sandbox.writes])

    @property
    def text(self) -> str:
        """Which setting would allow it, for the user of a one-shot command."""
        name, source = self.server, self.source
        if self.is_network:
            change = f'set network = true for "{name}" in {source}'
            return f'The sandbox of "{name}" has no network. To allow it, {change}, or type /mcp allow {name} network.'
        limit = f'The sandbox of "{name}" allows writing to {self.writes} only. To allow more,'
        command = f", or type /mcp allow {name} write {self.folder}" if self.folder else ""
        return f'{limit} set write for "{name}" in {source}{command}.'


def find_denial(
    sandbox: Sandbox, pids: Iterable[int], text: str, arguments: Mapping[str, object] | None = None
) -> Denial | None:
    """Return what a sandbox denied a failed call; None if it was not the cause.

    Args:
        sandbox: The server's sandbox.
        pids: The processes in it.
        text: The server's error text, which says where to look.
        arguments: Arguments of the call, which may name what was denied.
    """
    if sandbox.unavailable_reason:
        return None
    if sandbox.has_denied_network(pids):
        return Denial(sandbox, is_network=True)
    return _find_denied_write(sandbox, text, text, arguments or {})


def find_unopened(sandbox: Sandbox, text: str, arguments: Mapping[str, object]) -> Denial | None:
    """Return what a sandbox denied a call that reports a file as unable to open in a result that is no error.

    The text may be the content of any file, so that no path in it counts.
    """
    is_reported = len(text) <= _MAX_UNOPENED_CHARS and any(word in text for word in _UNOPENED_WORDS)
    if sandbox.unavailable_reason or not is_reported:
        return None
    return _find_denied_write(sandbox, text, "", arguments)


def find_fatal_denial(sandbox: Sandbox, stderr: str) -> Denial | None:
    """Return what a sandbox denied a server that has ended, by the last line of its standard error that names an error.

    The lines before it may be a traceback, whose paths are those of programs.
    """
    words = [word for words in _CLAIMS.values() for word in words]
    line = next((line for line in reversed(stderr.splitlines()) if any(word in line for word in words)), "")
    return find_denial(sandbox, (), line) if line else None


def _find_denied_write(sandbox: Sandbox, text: str, paths: str, arguments: Mapping[str, object]) -> Denial | None:
    """Return the denial of the first folder that the kernel refuses with an error that the text reports.

    A folder that is never offered leaves a denial without one.
    """
    claimed = {number for number, words in _CLAIMS.items() if any(word in text for word in words)}
    denial: Denial | None = None
    for folder in _find_folders(sandbox, paths, arguments) if claimed else ():
        if claimed & _find_refusals(sandbox, folder):
            if not explain_refusal(folder):
                return Denial(sandbox, folder)
            denial = denial or Denial(sandbox)
    return denial


def _find_refusals(sandbox: Sandbox, folder: str) -> set[int]:
    """Return the errors with which the kernel refuses writing a folder in the sandbox alone; none if it permits it."""
    if not os.access(folder, os.W_OK) or is_within(folder, map(os.path.realpath, sandbox.writes)):
        return set()
    is_visible = is_within(folder, map(os.path.realpath, sandbox.reads))
    return {errno.EROFS} if is_visible else {errno.ENOENT, errno.EROFS}  # what is above a visible folder is there, too


def _find_folders(sandbox: Sandbox, text: str, arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield the nearest existing folders, with links resolved, of what a call or else the configuration names."""
    reports_writing = any(word in text for word in _CLAIMS[errno.EROFS])
    named = [path for path in _find_paths(text[:_MAX_TEXT]) if reports_writing or "/" in path]
    given = [value for value in arguments.values() if isinstance(value, str) and "/" in value and "\n" not in value]
    configured = [] if named or given else [word.rpartition("=")[2] for word in sandbox.words]
    files = (word for word in configured if os.path.isfile(os.path.join(sandbox.folder, word)))
    for candidate in [*named, *given, *files][:_MAX_CANDIDATES]:
        yield _find_folder(os.path.join(sandbox.folder, os.path.expanduser(candidate)))


def explain_refusal(folder: str) -> str:
    """Return why a folder is never made writable for a server on request; "" if it may be."""
    path = os.path.realpath(folder)
    home = os.path.realpath(os.environ.get("HOME") or "/nonexistent")
    if not os.path.isdir(path):
        return "it is not an existing folder"
    if is_broad(path):
        return "it contains much else"
    if is_within(path, EXCLUDED_PATHS):
        return "it belongs to the system"
    secrets = [os.path.realpath(os.path.join(home, name)) for name in (*SECRET_PATHS, *_STARTUP_PATHS)]
    if _overlaps(path, secrets):
        return "keys, passwords or programs of your session are kept there"
    if _overlaps(path, map(os.path.realpath, (find_own_folder(), find_state_folder()))):
        return "this program keeps its own files there"
    if ".git" in path.split("/"):
        return "git runs what its files name"
    programs = [path for path in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(path)]
    if _overlaps(path, map(os.path.realpath, (*programs, find_source_folder(), sys.prefix))):
        return "programs are run from there"
    return ""


def _find_paths(text: str) -> Iterator[str]:
    """Yield what may be paths in an error text: quoted names, then absolute paths."""
    for match in _QUOTED.finditer(text):
        yield match[2]
    for match in _ABSOLUTE.finditer(text):
        yield match[0].rstrip(".")


def _find_folder(path: str) -> str:
    """Return the nearest existing folder of a path; of a file of git, the folder of its repository."""
    path = os.path.normpath(path).partition("/.git/")[0]
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return os.path.realpath(path)


def _overlaps(path: str, others: Iterable[str]) -> bool:
    return any(is_within(path, [other]) or is_within(other, [path]) for other in others)
