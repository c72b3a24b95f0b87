"""Which files a server needs: its program, and what its configuration names. It starts nothing.

    what is named                                       what the server gets of it
    the command, a script, the folder it stands in      to read, with its project, its environment, its interpreter
    a folder or a file in `args` or `env`               to write, unless `write` says what is to be written
    what `write` lists                                  to write
    the cache of a package runner that is the command   to write

A folder that holds much else besides (the home folder, /etc, /) is never taken because something lies in it, only
where the configuration names the home folder itself. What the server may write must not say what it is given at its
next start: a link in there is not followed, and an interpreter or an environment that is named there adds programs
alone. `os.path` alone: it is read before a one-shot command's server.
"""

from __future__ import annotations

import json
import os
from urllib.parse import unquote

from ..errors import ConnectError
from .programs import find_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..config import ServerConfig

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
BROAD = ("/", "/home", "/root", "/tmp", "/var", "/var/tmp", "/etc", "/opt", "/mnt", "/media", "/srv", "/snap")
NEVER = (*SYSTEM, "/proc", "/dev", "/sys", "/run", "/var/run", "/boot", "/etc")
SCRIPTS = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh", ".rb", ".pl", ".php", ".jar", ".lua")
PROJECTS = ("pyproject.toml", "package.json", "deno.json", "setup.py")
SEARCH_PATHS = ("PATH", "PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "VIRTUAL_ENV", "JAVA_HOME")
PREFIXES = ("lib", "lib64", "libexec", "tools", "pyvenv.cfg")
LONGEST_CHAIN = 8
HIGHEST_PROJECT = 4

RUNNERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("npx", "npm"), (".npm",)),
    **dict.fromkeys(("pnpm", "pnpx"), (".cache/pnpm", ".local/share/pnpm")),
    **dict.fromkeys(("yarn",), (".cache/yarn", ".yarn")),
    **dict.fromkeys(("bun", "bunx"), (".bun",)),
    **dict.fromkeys(("uv", "uvx"), (".cache/uv", ".local/share/uv")),
    "pipx": (".cache/pipx", ".local/share/pipx", ".local/pipx"),
    "deno": (".cache/deno",),
}
"""Programs that fetch what they run -> where they keep it, below the home folder."""


class Reach:
    """Absolute paths that a server may read, and those that it may write; `runner` is its package runner, or ""."""

    def __init__(self, server: ServerConfig, command: list[str], folder: str, home: str) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self._server, self._folder, self._home = server, folder, home
        self._homes = {home, os.path.realpath(home)}
        self._path = server.env.get("PATH") or os.environ.get("PATH", os.defpath)
        self.runner = find_runner(server.command)
        if not self._is_broad(folder):
            self.reads.add(folder)
        for word in command[1:]:
            self._take_word(word.partition("=")[2] if word.startswith("-") and "=" in word else word)
        for name, value in server.env.items():
            self._take_variable(name, value)
        self._take_written()
        for cache in RUNNERS.get(self.runner, ()):
            self._take_cache(os.path.join(home, cache))
        self.reads = {path for path in self.reads if not self._is_inside(path)}
        self.writes = {path for path in self.writes if not self._is_inside(path)}
        program = os.path.abspath(command[0])
        if not self._is_broad(root := find_root(program)):
            self.reads.add(root)
        self._take_program(program, LONGEST_CHAIN)

    def take_roots(self, roots: Iterable[str]) -> None:
        """Folders that the server is told of."""
        self.reads.update(one for one in map(os.path.abspath, roots) if os.path.isdir(one) and not self._is_broad(one))

    def _take_program(self, path: str, left: int) -> None:
        """A program with the folder it was installed in, what it is a link to, and its interpreter."""
        while left > 0 and os.path.islink(path):
            self._take_installed(path)
            path, left = os.path.join(os.path.dirname(path), os.readlink(path)), left - 1
        self._take_installed(path)
        if left > 0 and (interpreter := read_interpreter(path)):
            found = find_program(interpreter, self._path)
            if found:
                self._take_program(os.path.abspath(found), left - 1)

    def _take_installed(self, path: str) -> None:
        path = os.path.normpath(path)
        root = find_root(path)
        if is_within(root, SYSTEM):
            return
        is_alone = root == os.path.dirname(path) or self._is_broad(root)
        self.reads.add(path if is_alone else root)
        if os.path.isfile(os.path.join(root, "pyvenv.cfg")) and not self._is_inside(root):
            self.reads.update(one for one in find_elsewhere(root) if not self._is_broad(one))
        if os.path.basename(path).startswith("python"):
            self.reads.update(find_user_packages(self._home))

    def _take_word(self, word: str) -> None:
        """What a word of the command line names, if it is a path: with a slash in it, or the name of a script."""
        if not ("/" in word or word in (".", "..") or word.endswith(SCRIPTS)) or "://" in word:
            return
        path = os.path.normpath(os.path.join(self._folder, os.path.expanduser(word)))
        if path.endswith(SCRIPTS) and os.path.isfile(path):
            for one in {path, os.path.realpath(path)}:
                root = find_project(one)
                self.reads.add(one if self._is_broad(root) else root)
        else:
            self._take_named(path)

    def _take_variable(self, name: str, value: str) -> None:
        if name in SEARCH_PATHS or os.pathsep in value:
            folders = [one for one in value.split(os.pathsep) if os.path.isabs(one) and os.path.isdir(one)]
            self.reads.update(one for one in map(os.path.normpath, folders) if not self._is_broad(one))
        elif value.startswith(("/", "~/", "./", "../")):
            self._take_word(value)

    def _take_named(self, path: str) -> None:
        """A folder, a file, or one that is yet to be made in a folder."""
        named = self.reads if self._server.write is not None else self.writes
        parent = os.path.dirname(path)
        if path in ("/", "/tmp") or is_within(path, NEVER):
            return
        if os.path.isdir(path) or os.path.isfile(path):
            named.add(path)
        elif not os.path.lexists(path) and os.path.isdir(parent) and not self._is_broad(parent):
            named.add(parent)

    def _take_written(self) -> None:
        for word in self._server.write or ():
            path = os.path.normpath(os.path.join(self._folder, os.path.expanduser(word)))
            if not os.path.exists(path):
                text = f'Server "{self._server.name}": there is no {path}, which its write names.'
                raise ConnectError(text, "Make the folder, or correct write.", server=self._server.name)
            self.writes.add(path)

    def _take_cache(self, path: str) -> None:
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError:  # it then has one that does not last
            return
        self.writes.add(path)

    def _is_inside(self, path: str) -> bool:
        """Whether a path lies in another that the server may write, by where it is and not by where it leads."""
        place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return any(path != one and is_within(place, [os.path.realpath(one)]) for one in self.writes)

    def _is_broad(self, path: str) -> bool:
        """Whether a folder holds much else besides what was looked for in it."""
        names = {path, os.path.realpath(path)}
        own = {*self._homes, *(f"{home}/.local" for home in self._homes)}
        return not names.isdisjoint((*BROAD, *own)) or any(is_within(home, names) for home in self._homes)


def is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in folders)


def find_runner(command: str) -> str:
    name = os.path.basename(command)
    return name if name in RUNNERS else ""


def find_root(path: str) -> str:
    """The folder that a program was installed in: that of its packages, else what its bin belongs to, else its own."""
    before, middle, _ = path.partition("/node_modules/")
    if middle:
        return f"{before}/node_modules"
    folder = os.path.dirname(path)
    above = os.path.dirname(folder)
    if os.path.basename(folder) == "shims":  # of pyenv, asdf, mise: they look for the program below
        return above
    is_prefix = os.path.basename(folder) == "bin" and any(os.path.exists(os.path.join(above, one)) for one in PREFIXES)
    return above if is_prefix else folder


def find_project(script: str) -> str:
    """The folder of a script's project, else that of its packages, else its own."""
    if "/node_modules/" in script:
        return find_root(script)
    own = folder = os.path.dirname(script)
    for _ in range(HIGHEST_PROJECT):
        if any(os.path.isfile(os.path.join(folder, name)) for name in PROJECTS):
            return folder
        folder = os.path.dirname(folder)
    return own


def read_interpreter(path: str) -> str:
    """The interpreter that a script's first line names, "" where it has none."""
    try:
        with open(path, "rb") as file:
            first, _, rest = file.read(512).partition(b"\n")
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    words = first[2:].decode("utf-8", errors="replace").split()
    if rest.startswith(b"'''exec' "):  # how pip writes one that is too long for the first line
        return rest[9:].decode("utf-8", errors="replace").split()[0].strip('"')
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def find_packages(root: str) -> Iterator[str]:
    """The folders of a Python environment that packages are in."""
    library = os.path.join(root, "lib")
    for name in os.listdir(library) if os.path.isdir(library) else ():
        packages = os.path.join(library, name, "site-packages")
        if name.startswith("python") and os.path.isdir(packages):
            yield packages


def find_elsewhere(root: str) -> Iterable[str]:
    """The folders that a Python environment has packages in besides: lines of .pth files, and projects being edited."""
    for packages in find_packages(root):
        for name in os.listdir(packages):
            path = os.path.join(packages, name)
            if name.endswith(".pth"):
                yield from (
                    line for line in read_text(path).splitlines() if os.path.isdir(line) and os.path.isabs(line)
                )
            elif name.endswith(".dist-info"):
                yield from find_edited(os.path.join(path, "direct_url.json"))


def find_edited(path: str) -> Iterable[str]:
    """The folder of a project that was installed so that it can be edited (PEP 610)."""
    try:
        told = json.loads(read_text(path) or "{}")
        url, is_edited = str(told.get("url")), told.get("dir_info", {}).get("editable")
    except (ValueError, AttributeError):
        return
    if is_edited and url.startswith("file:///"):
        yield os.path.normpath(unquote(url[7:]))


def read_text(path: str) -> str:
    """A file's text, "" where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def find_user_packages(home: str) -> Iterable[str]:
    """What was installed by `pip install --user`."""
    return find_packages(os.path.join(home, ".local"))
