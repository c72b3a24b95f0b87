"""Find programs as a shell would, tell which are installed ones, and describe how one ended.

Imported before a one-shot command starts its server, so it imports only os.
"""

from __future__ import annotations

import os

PROGRAM_NAME = "rkllm-chat"
PACKAGE_RUNNERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("npx", "npm"), (".npm",)),
    **dict.fromkeys(("pnpm", "pnpx"), (".cache/pnpm", ".local/share/pnpm")),
    **dict.fromkeys(("yarn",), (".cache/yarn", ".yarn")),
    **dict.fromkeys(("bun", "bunx"), (".bun",)),
    **dict.fromkeys(("uv", "uvx"), (".cache/uv", ".local/share/uv")),
    "pipx": (".cache/pipx", ".local/share/pipx", ".local/pipx"),
    "deno": (".cache/deno",),
}
"""Programs that fetch what they run -> their caches, relative to the home folder."""
CONTAINER_PROGRAMS = ("docker", "podman")
SEARCH_VARIABLES = ("PATH", "PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "VIRTUAL_ENV", "JAVA_HOME")
"""Variables with folders in which programs and their parts are looked for."""


def find_program(command: str, path: str | None) -> str | None:
    """Return the path of a command as a shell would find it; `path` replaces this program's own PATH."""
    folders = [""] if os.path.dirname(command) else (path or os.environ.get("PATH", os.defpath)).split(os.pathsep)
    for folder in folders:
        file = os.path.join(folder, command)
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    return None


def is_installed(program: str) -> bool:
    """Tell whether a program is what its name says: one that the user or the system has installed.

    It lies in a folder of this program's own PATH that no other user can change, and neither it nor what it links to
    lies in the current folder, whose files may be anyone's (a home folder is the user's own).
    """
    folder = os.path.realpath(os.path.dirname(os.path.abspath(program)))
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if folder not in [os.path.realpath(path) for path in searched if os.path.isabs(path)]:
        return False
    target = os.path.realpath(program)
    here = os.path.realpath(".")
    is_project = os.path.commonpath([here, os.path.realpath(os.environ.get("HOME") or "/")]) != here
    if is_project and here in (os.path.commonpath([here, folder]), os.path.commonpath([here, target])):
        return False
    return all(_is_closed_to_others(path) for path in (folder, target))


def find_installed(name: str) -> str | None:
    """Return the path of the first installed program of that name on the PATH."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = find_program(os.path.join(folder, name), None) if os.path.isabs(folder) else None
        if program and is_installed(program):
            return program
    return None


def describe_exit(code: int) -> str:
    """Return an exit code as words that follow "it": "exited with 3", "was ended by SIGSEGV"."""
    if code >= 0:
        return f"exited with {code}"
    import signal

    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _is_closed_to_others(path: str) -> bool:
    status = os.stat(path)
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o002
