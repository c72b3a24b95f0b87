"""What is notable about the start of a server, for a user who decides about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..config.project_trust import is_loader_variable
from ..core.programs import PACKAGE_RUNNERS, PROGRAM_NAME
from ..core.sanitize import escape_visibly, sanitize_line
from ..mcp_client.acceptance import ReviewedStart, contains, is_secret_value, resolve_path

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "cmd.exe", "powershell", "pwsh", "busybox"))
_PRIVILEGE_TOOLS = frozenset(("sudo", "doas", "pkexec", "su"))
_WRAPPERS = frozenset(
    (
        *("env", "nice", "ionice", "chrt", "taskset", "nohup", "setsid", "timeout", "stdbuf", "xargs", "parallel"),
        *("time", "find", "flock", "script", "watch", "strace", "unshare", "nsenter", "chroot", "setpriv"),
    )
)
"""Programs that run the program in their arguments."""
_CODE_OPTIONS = {
    "python": r"-[A-Za-z]{0,4}c",
    "pypy": r"-[A-Za-z]{0,4}c",
    "node": r"-[epr]|--eval|--print|--require|--import|--(experimental-)?loader",
    "bun": r"-[epr]|--eval|--print|--preload|--require|--import",
    "deno": r"eval$",
    "perl": r"-[A-Za-z]{0,4}[eEM]",
    "ruby": r"-[A-Za-z]{0,4}[er]",
    "php": r"-r|--run",
    "lua": r"-[el]",
    "git": r"-c|--config-env|--exec-path",
}
"""Interpreters, and programs that run others -> expression for the argument that is, or is followed by, code."""
_RUNNING_SUBCOMMANDS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("exec", "x", "dlx")),
    "uv": ("run", "tool", "x"),
    "deno": ("run",),
}
"""Package runners that also do other things -> subcommands that run what they fetch."""
_ALWAYS_FETCHING = PACKAGE_RUNNERS.keys() - _RUNNING_SUBCOMMANDS.keys() | {"docker", "podman"}
_PINNED_VERSION = re.compile(r".@\d|==\d|@sha256:")
_INDEX_VARIABLE = re.compile(
    r"^(npm_config|yarn|pnpm|bun_config|pip|uv|cargo|gem|bundle|docker|goproxy|hf_endpoint)(_|$)|_proxy$", re.IGNORECASE
)
"""Variables that decide where package runners fetch packages."""
_INDEX_OPTION = re.compile(r"--(?:extra-|default-)?index(?:-url)?(?:=|$)|--registry(?:=|$)|--find-links(?:=|$)")

StartWarning = tuple[str, Mapping[str, str]]
"""Key of a sentence in table "trust", and its values."""


def find_warnings(review: ReviewedStart) -> Iterator[StartWarning]:
    """Yield what is notable about a start."""
    server, reach = review.expanded, review.reach
    if server.replaces:
        yield "replaces", {"file": _show(server.replaces)}
    if reach:
        yield from _find_program_warnings(server.command, server.args)
        if reach.in_project:
            yield "inside", {}
        if reach.no_sandbox:
            yield "unsandboxed", {}
        elif reach.has_network:
            yield "network", {}
        yield from _find_path_warnings(review)
    yield from _find_name_warnings(review)


def _find_name_warnings(review: ReviewedStart) -> Iterator[StartWarning]:
    """Yield the variables and options that decide what is loaded, or that hand over a secret."""
    for name in sorted(review.expanded.env):
        if is_loader_variable(name):
            yield "loading", {"name": _show(name)}
        elif _INDEX_VARIABLE.search(name):
            yield "index", {"name": _show(name)}
    for word in review.expanded.args:
        if match := _INDEX_OPTION.match(word):
            yield "index", {"name": _show(match[0].rstrip("="))}
    for name, value in review.variables.items():
        if is_secret_value(name, value):
            yield "variable", {"name": _show(name)}


def _find_program_warnings(command: str, args: tuple[str, ...]) -> Iterator[StartWarning]:
    """Yield what is notable about a program, or about the one that a wrapper such as `env` runs."""
    name = Path(command).name
    words = [Path(part).name for word in args for part in word.split()]  # env -S and others take them in one argument
    if {name, *words} & _PRIVILEGE_TOOLS:
        yield "root", {}
    programs = [name, *words] if name in _WRAPPERS else [name]
    if _SHELLS.intersection(programs):
        yield "shell", {}
    options = [_CODE_OPTIONS.get(re.sub(r"[\d.]+$", "", program), "") for program in programs]
    if any(option and re.match(option, word) for option in options for word in args):
        yield "code", {}
    if _ALWAYS_FETCHING.intersection(programs) or any(
        subcommand in args for program in programs for subcommand in _RUNNING_SUBCOMMANDS.get(program, ())
    ):
        yield "pinned" if any(_PINNED_VERSION.search(word) for word in args) else "unpinned", {}
    if command == PROGRAM_NAME and args[:2] == ("serve", "claude") and "--permission-mode" not in args:
        yield "claude", {}


def _find_path_warnings(review: ReviewedStart) -> Iterator[StartWarning]:
    """Yield the paths in the arguments, and in what the sandbox permits, that hold the home or this folder."""
    server, reach = review.expanded, review.reach
    paths: dict[str, str] = {}
    for word in [*server.args, *server.env.values()]:
        path = word.rpartition("=")[2]
        if path and ("/" in path or path in ("~", "..")):
            paths.setdefault(resolve_path(path, server.cwd), path)
    for path in [*reach.writes, *reach.reads] if reach else ():
        paths.setdefault(path, path)
    for path, shown in paths.items():
        is_reached = reach is not None and path in (*reach.writes, *reach.reads)
        if kind := _find_kind(path) or (is_reached and _is_of_the_system(path) and "system"):
            yield kind, {"path": _show(shown)}


def _find_kind(path: str) -> str:
    home, here = resolve_path("~"), resolve_path(".")
    if contains([path], home):
        return "everything"
    return "parent" if path != here and contains([path], here) else ""


def _is_of_the_system(path: str) -> bool:
    """Tell whether a folder has sockets of other programs, such as D-Bus and X11, or settings of the kernel."""
    return path == "/tmp" or contains(("/run", "/proc", "/sys", "/dev"), path)


def _show(text: str) -> str:
    return escape_visibly(sanitize_line(text))
