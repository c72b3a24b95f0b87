"""What a user can do about a server that ended, from what it wrote last; imported when that happens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .network_variables import find_network_hint

if TYPE_CHECKING:
    from .start import Sandbox

_MISSING_PROGRAM = re.compile(r"\benv: [\u2018'\"]?([\w.+-]+)[\u2019'\"]?: No such file or directory")
_BAD_OPTION = re.compile(r"\b(node|python[\d.]*|deno|bun): (?:bad|unknown|unrecognized) option:? ?(\S*)", re.IGNORECASE)
_WINDOWS = re.compile(r"(?i)^(?:[a-z]:[\\/].*|cmd(?:\.exe)?|powershell(?:\.exe)?|.*\.(?:exe|cmd|bat))$")


def explain_end(stderr: str, exit_code: int | None, sandbox: Sandbox | None) -> str:
    """Return what a user can do about a server that ended; "" if what it wrote does not tell.

    Args:
        stderr: The end of its standard error.
        exit_code: How it exited, if it did.
        sandbox: The sandbox that it ran in.
    """
    return (
        (sandbox.explain_end(exit_code, stderr) if sandbox else "")
        or find_network_hint(stderr)
        or _explain_program(stderr)
    )


def _explain_program(stderr: str) -> str:
    """Return what is wrong with the command line of a program, from the message of env or an interpreter."""
    if missing := _MISSING_PROGRAM.search(stderr):
        return (
            f'Its command starts "{missing[1]}", which is not on the PATH: install it, or set env = {{ PATH = "..." }}.'
        )
    if option := _BAD_OPTION.search(stderr):
        starter = " Packages are started by npx." if option[1].lower() == "node" else ""
        return f"{option[1]} takes no option {option[2]}: check the order of args.{starter}".replace("  ", " ")
    return ""


def explain_windows_command(command: str, arguments: tuple[str, ...]) -> str:
    """Return how to write here a command that is one of Windows; "" if it is none.

    >>> explain_windows_command("cmd", ("/c", "npx", "-y", "x"))
    'This entry is for Windows. Here: command = "npx", args = ["-y", "x"].'
    """
    if not _WINDOWS.match(command):
        return ""
    rest = [word for word in arguments if word.lower() not in ("/c", "/k", "/s", "/d")]
    if command.lower().removesuffix(".exe") == "cmd" and rest:
        listed = ", ".join(f'"{word}"' for word in rest[1:])
        return f'This entry is for Windows. Here: command = "{rest[0]}", args = [{listed}].'
    return "This entry is for Windows. Write the command and the paths of this machine."
