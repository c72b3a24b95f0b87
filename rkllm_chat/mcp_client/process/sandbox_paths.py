"""Determine which files a server needs: its program, and what its configuration names. Starts nothing.

    what is named                                       access of the server
    the command, a script, the folder that contains it  read, with its project, environment and interpreter
    a folder in `args` or `env`, or that of a file      write, unless `write` says what is writable
    a file for a key or a certificate there             write, the file alone
    paths in `write`                                    write
    what a known server needs (config/sandbox_rules.py) write, unless `write` says what is writable
    the cache of an installed package runner            write

Servers replace the files that they save and write others beside them, so that a named file opens its folder, whether it
exists already or not; keys and certificates are only read, and others lie beside them.

A folder with much other content (the home folder, /etc, /) is never added because of a file in it, only where the
configuration names the home folder itself. What the server can write must not decide what it gets at its next start: a
link there is not followed, and an interpreter or environment named there adds programs only. Uses only `os.path`,
because it is imported before a one-shot command's server starts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from ...config.sandbox_rules import KnownServer
from ...config.servers import ServerConfig
from ...core.errors import ConnectError
from ...core.programs import PACKAGE_RUNNERS, SEARCH_VARIABLES, find_program, is_installed
from ..roots import configured_roots, is_broad, is_within

SYSTEM_PATHS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
EXCLUDED_PATHS = (*SYSTEM_PATHS, "/proc", "/dev", "/sys", "/run", "/var/run", "/boot", "/etc")
_SCRIPT_SUFFIXES = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh", ".rb", ".pl", ".php", ".jar", ".lua")
_PROJECT_FILES = ("pyproject.toml", "package.json", "deno.json", "setup.py")
_CREDENTIAL = re.compile(r"cred|secret|token|passw|key|cert|\bca\b|_ca_|\.pem|\.env\b|env-file", re.IGNORECASE)
"""Names of options, variables and files that stand for what is only read, and beside which more of it may lie."""
_PREFIX_CONTENTS = ("lib", "lib64", "libexec", "tools", "pyvenv.cfg")
_MAX_LINKS = 8
_MAX_TEXT_BYTES = 1 << 20
_MAX_PROJECT_DEPTH = 4


class SandboxPaths:
    """The absolute paths that a server may read and write.

    Attributes:
        reads: Readable paths.
        writes: Writable paths.
        runner: The installed package runner that is the command, or "".
    """

    def __init__(
        self, server: ServerConfig, command: list[str], folder: str, home: str, known: KnownServer | None = None
    ) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self._server, self._folder, self._home = server, folder, home
        self._path = server.env.get("PATH") or os.environ.get("PATH", os.defpath)
        self.runner = _find_runner(command[0])
        if not (self._is_broad(folder) or _is_excluded(folder)):
            self.reads.add(folder)
        for before, word in pairwise(command):
            option, equals, value = word.partition("=")
            if word.startswith("-") and equals:
                self._add_word(value, option)
            else:
                self._add_word(word, before if before.startswith("-") else "")
        for name, value in server.env.items():
            self._add_variable(name, value)
        for root in configured_roots(server):
            self._add_named(root)
        if known and server.write is None:
            for option, default in known.files.items():
                word = _find_option(command, option) or default
                self._add_named(os.path.normpath(os.path.join(folder, os.path.expanduser(word))))
        self._add_writable()
        for cache in PACKAGE_RUNNERS.get(self.runner, ()):
            self._add_cache(os.path.join(home, cache))
        self.reads = {path for path in self.reads if not self._is_inside_writable(path)}
        self.writes = {path for path in self.writes if not self._is_inside_writable(path)}
        program = os.path.abspath(command[0])
        if not self._is_broad(root := _find_root(program)):
            self.reads.add(root)
        self._add_program(program, _MAX_LINKS)

    def add_roots(self, roots: Iterable[str]) -> None:
        """Make the folders that the server learns of readable, by the same rules as those that are named."""
        for root in map(os.path.abspath, roots):
            is_closed = self._is_broad(root) or _is_excluded(root) or self._is_inside_writable(root)
            if os.path.isdir(root) and not is_closed:
                self.reads.add(root)

    def _add_program(self, path: str, remaining: int) -> None:
        """Add a program with its installation folder, the targets of its links, and its interpreter."""
        while remaining > 0 and os.path.islink(path):
            self._add_installed(path)
            path, remaining = os.path.join(os.path.dirname(path), os.readlink(path)), remaining - 1
        self._add_installed(path)
        if remaining > 0 and (interpreter := _read_interpreter(path)):
            found = find_program(interpreter, self._path)
            if found:
                self._add_program(os.path.abspath(found), remaining - 1)

    def _add_installed(self, path: str) -> None:
        path = os.path.normpath(path)
        root = _find_root(path)
        if is_within(root, SYSTEM_PATHS):
            return
        is_alone = root == os.path.dirname(path) or self._is_broad(root)
        self.reads.add(path if is_alone else root)
        if os.path.isfile(os.path.join(root, "pyvenv.cfg")) and not self._is_inside_writable(root):
            self.reads.update(path for path in _find_outside_folders(root) if not self._is_broad(path))
        if os.path.basename(path).startswith("python"):
            self.reads.update(_find_user_packages(self._home))

    def add_readable(self, paths: Iterable[str]) -> None:
        """Make single files or folders readable, such as certificates."""
        for path in map(os.path.normpath, filter(os.path.isabs, paths)):
            is_closed = self._is_broad(path) or _is_excluded(path) or self._is_inside_writable(path)
            if os.path.exists(path) and not is_closed:
                self.reads.add(path)

    def _add_word(self, word: str, name: str = "") -> None:
        """Add what a command-line word names, if it is a path: it contains a slash or is a script's name.

        Args:
            word: The word.
            name: The option or the variable whose value it is.
        """
        if not ("/" in word or word in (".", "..") or word.endswith(_SCRIPT_SUFFIXES)) or "://" in word:
            return
        path = os.path.normpath(os.path.join(self._folder, os.path.expanduser(word)))
        if path.endswith(_SCRIPT_SUFFIXES) and os.path.isfile(path):
            for place in {path, os.path.realpath(path)}:
                root = _find_project(place)
                self.reads.add(place if self._is_broad(root) else root)
        else:
            self._add_named(path, opens_folder=not _CREDENTIAL.search(f"{name} {os.path.basename(path)}"))

    def _add_variable(self, name: str, value: str) -> None:
        if name in SEARCH_VARIABLES or os.pathsep in value:
            folders = [path for path in value.split(os.pathsep) if os.path.isabs(path) and os.path.isdir(path)]
            self.reads.update(path for path in map(os.path.normpath, folders) if not self._is_broad(path))
        elif value.startswith(("/", "~/", "./", "../")):
            self._add_word(value, name)

    def _add_named(self, path: str, opens_folder: bool = True) -> None:
        """Add a folder, or that of a file; the file alone if that has much other content or shall stay closed."""
        target = self.reads if self._server.write is not None else self.writes
        parent = os.path.dirname(path)
        if _is_excluded(path):
            return
        is_file = os.path.isfile(path)
        can_open = os.path.isdir(parent) and not self._is_broad(parent) and not _is_excluded(parent)
        if os.path.isdir(path) or (is_file and not (opens_folder and can_open)):
            target.add(path)
        elif can_open and (is_file or not os.path.lexists(path)):
            target.add(parent)

    def _add_writable(self) -> None:
        for word in self._server.write or ():
            path = os.path.normpath(os.path.join(self._folder, os.path.expanduser(word)))
            if not os.path.exists(path):
                text = f'Server "{self._server.name}": {path} in its setting write does not exist.'
                raise ConnectError(text, "Create the folder, or correct write.", server=self._server.name)
            self.writes.add(path)

    def _add_cache(self, path: str) -> None:
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError:  # the runner then uses a temporary cache
            return
        self.writes.add(path)

    def _is_inside_writable(self, path: str) -> bool:
        """Tell whether a path lies inside another writable one, by its own location and not by its link target."""
        place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return any(path != written and is_within(place, [os.path.realpath(written)]) for written in self.writes)

    def _is_broad(self, path: str) -> bool:
        """Tell whether a folder has much other content."""
        return is_broad(path, self._home)


def _is_excluded(path: str) -> bool:
    """Tell whether a path, or what it links to, is one of the system's, which is available only if `write` says so."""
    names = {path, os.path.realpath(path)}
    return not names.isdisjoint(("/", "/tmp")) or any(is_within(name, EXCLUDED_PATHS) for name in names)


def _find_option(command: list[str], option: str) -> str:
    """Return the value of an option in a command line, written `--option VALUE` or `--option=VALUE`; "" without one."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else following
    return ""


def _find_runner(program: str) -> str:
    name = os.path.basename(program)
    return name if name in PACKAGE_RUNNERS and is_installed(program) else ""


def _find_root(path: str) -> str:
    """Return the installation folder of a program: that of its packages, else the parent of its bin, else its own."""
    before, middle, _ = path.partition("/node_modules/")
    if middle:
        return f"{before}/node_modules"
    folder = os.path.dirname(path)
    parent = os.path.dirname(folder)
    if os.path.basename(folder) == "shims":  # of pyenv, asdf, mise, which find the program below the parent
        return parent
    is_prefix = os.path.basename(folder) == "bin" and any(
        os.path.exists(os.path.join(parent, name)) for name in _PREFIX_CONTENTS
    )
    return parent if is_prefix else folder


def _find_project(script: str) -> str:
    """Return the folder of a script's project, else that of its packages, else its own."""
    if "/node_modules/" in script:
        return _find_root(script)
    own = folder = os.path.dirname(script)
    for _ in range(_MAX_PROJECT_DEPTH):
        if any(os.path.isfile(os.path.join(folder, name)) for name in _PROJECT_FILES):
            return folder
        folder = os.path.dirname(folder)
    return own


def _read_interpreter(path: str) -> str:
    """Return the interpreter of a script's first line, or ""."""
    try:
        with open(path, "rb") as file:
            first, _, rest = file.read(512).partition(b"\n")
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    words = first[2:].decode("utf-8", errors="replace").split()
    if rest.startswith(b"'''exec' "):  # pip's form of one that is too long for the first line
        return rest[9:].decode("utf-8", errors="replace").split()[0].strip('"')
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _find_packages(root: str) -> Iterator[str]:
    """Yield the package folders of a Python environment."""
    library = os.path.join(root, "lib")
    for name in os.listdir(library) if os.path.isdir(library) else ():
        packages = os.path.join(library, name, "site-packages")
        if name.startswith("python") and os.path.isdir(packages):
            yield packages


def _find_outside_folders(root: str) -> Iterable[str]:
    """Yield the outside folders that a Python environment imports from: lines of .pth files, and editable projects."""
    for packages in _find_packages(root):
        for name in os.listdir(packages):
            path = os.path.join(packages, name)
            if name.endswith(".pth"):
                yield from (
                    line for line in read_regular_text(path).splitlines() if os.path.isdir(line) and os.path.isabs(line)
                )
            elif name.endswith(".dist-info"):
                yield from _find_editable(os.path.join(path, "direct_url.json"))


def _find_editable(path: str) -> Iterable[str]:
    """Yield the folder of a project that was installed as editable (PEP 610)."""
    try:
        record = json.loads(read_regular_text(path) or "{}")
        url, is_edited = str(record.get("url")), record.get("dir_info", {}).get("editable")
    except (ValueError, AttributeError):
        return
    if is_edited and url.startswith("file:///"):
        path = url[7:]
        if "%" in path:
            from urllib.parse import unquote  # 2 ms, measured

            path = unquote(path)
        yield os.path.normpath(path)


def read_regular_text(path: str) -> str:
    """Return the text of a regular file, or "" if it is unreadable. A pipe in its place is not waited for."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            return (file.read(_MAX_TEXT_BYTES) or b"").decode("utf-8", errors="replace")
    except OSError:
        return ""


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _find_user_packages(home: str) -> Iterable[str]:
    """Yield the package folders of `pip install --user`."""
    return _find_packages(os.path.join(home, ".local"))
