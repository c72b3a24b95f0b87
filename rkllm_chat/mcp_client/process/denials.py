"""Find out what a sandbox has denied a call, and which folders are never made writable on request.

A server's error only says where to look: a folder counts as denied if it exists, the user may write it, and the sandbox
does not permit it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from ...config.files import find_own_folder, find_state_folder
from ..roots import is_broad
from .protected_paths import find_source_folder
from .sandbox import SECRET_PATHS
from .sandbox_paths import EXCLUDED_PATHS, is_within
from .start import Sandbox

_READ_ONLY_WORDS = ("EROFS", "Read-only file system", "read-only file system")
_UNOPENED_WORDS = ("unable to open", "readonly database")
_DENIED_WORDS = ("EACCES", "Permission denied", "permission denied", *_UNOPENED_WORDS)
_MISSING_WORDS = ("ENOENT", "No such file or directory", "no such file or directory")
"""Also said of what the sandbox hides altogether."""
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
        text: Which setting would allow it.
        folder: The folder to make writable; "" if it is unknown or may not be.
        is_network: It was the network, and the configuration leaves it open.
    """

    def __init__(self, text: str, folder: str = "", is_network: bool = False) -> None:
        self.text, self.folder, self.is_network = text, folder, is_network


def find_denial(
    sandbox: Sandbox, pids: Iterable[int], text: str, arguments: Mapping[str, object] | None = None
) -> Denial | None:
    """Return what a sandbox denied a failed call; None if it was not the cause.

    Args:
        sandbox: The server's sandbox.
        pids: The processes in it.
        text: The server's error text.
        arguments: Arguments of the call, which may name what was denied.
    """
    if sandbox.unavailable_reason:
        return None
    if sandbox.has_denied_network(pids):
        change = f'set network = true for "{sandbox.name}" in {sandbox.source}'
        explanation = f'The sandbox of "{sandbox.name}" has no network. To allow it, {change},'
        return Denial(f"{explanation} or type /mcp allow {sandbox.name} network.", is_network=sandbox.may_offer_network)
    is_read_only, is_denied, is_missing = (
        any(word in text for word in words) for words in (_READ_ONLY_WORDS, _DENIED_WORDS, _MISSING_WORDS)
    )
    if not (is_read_only or is_denied or is_missing):
        return None
    folder = _find_denied_folder(sandbox, text, arguments or {})
    is_visible = is_within(folder, map(os.path.realpath, sandbox.reads))
    is_cause = folder and (is_denied or not is_visible)
    return _describe_denied_write(sandbox, folder) if is_read_only or is_cause else None


def find_unopened(sandbox: Sandbox, text: str, arguments: Mapping[str, object]) -> Denial | None:
    """Return what a sandbox denied a call that reports a file as unable to open in a result that is no error.

    The text may be the content of any file, so that no path in it counts.
    """
    is_reported = len(text) <= _MAX_UNOPENED_CHARS and any(word in text for word in _UNOPENED_WORDS)
    if sandbox.unavailable_reason or not is_reported:
        return None
    folder = _find_denied_folder(sandbox, "", arguments)
    return _describe_denied_write(sandbox, folder) if folder else None


def find_fatal_denial(sandbox: Sandbox, stderr: str) -> Denial | None:
    """Return what a sandbox denied a server that has ended, by the last line of its standard error that names an error.

    The lines before it may be a traceback, whose paths are those of programs.
    """
    words = (*_READ_ONLY_WORDS, *_DENIED_WORDS, *_MISSING_WORDS)
    line = next((line for line in reversed(stderr.splitlines()) if any(word in line for word in words)), "")
    return find_denial(sandbox, (), line) if line else None


def _describe_denied_write(sandbox: Sandbox, folder: str) -> Denial:
    written = ", ".join(["/tmp", *sandbox.writes])
    change = f'set write for "{sandbox.name}" in {sandbox.source}'
    text = f'The sandbox of "{sandbox.name}" allows writing to {written} only. To allow more, {change},'
    return Denial(f"{text} or type /mcp allow {sandbox.name} write {folder or 'FOLDER'}.", folder)


def _find_denied_folder(sandbox: Sandbox, text: str, arguments: Mapping[str, object]) -> str:
    """Return the folder that a call was denied to write, with links resolved; "" if there is none to offer."""
    has_names = any(word in text for word in _READ_ONLY_WORDS)
    named = [path for path in _find_paths(text[:_MAX_TEXT]) if has_names or "/" in path]
    given = [value for value in arguments.values() if isinstance(value, str) and "/" in value and "\n" not in value]
    configured = [] if named or given else [word.rpartition("=")[2] for word in sandbox.words]
    files = (word for word in configured if os.path.isfile(os.path.join(sandbox.folder, word)))
    for candidate in [*named, *given, *files][:_MAX_CANDIDATES]:
        folder = _find_folder(os.path.join(sandbox.folder, os.path.expanduser(candidate)))
        if folder and _is_denied(folder, sandbox.writes) and not explain_refusal(folder):
            return folder
    return ""


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
    programs = [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(one)]
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


def _is_denied(folder: str, writes: Iterable[str]) -> bool:
    """Tell whether the sandbox is what keeps a folder from being written."""
    return os.access(folder, os.W_OK) and not is_within(folder, map(os.path.realpath, writes))


def _overlaps(path: str, others: Iterable[str]) -> bool:
    return any(is_within(path, [other]) or is_within(other, [path]) for other in others)
