"""Access to the files of the examined machine, and the result lines that checks produce.

Only regular files are read, up to a size limit each. The rules about boards are in `machine.py` and `model.py`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ...config.settings import Settings
from ...core.user_paths import expand_home

_MAX_READ_BYTES = 64 * 1024

CheckState = Literal["ok", "warn", "wrong"]


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Attributes:
        name: What was checked; "" for the name of the check in CHECKS.
        state: "ok", "warn" (should be checked) or "wrong".
        value: What was found.
        advice: What to do; empty if nothing is to be done.
    """

    name: str
    state: CheckState
    value: str
    advice: str = ""


def ok(value: str, name: str = "") -> Finding:
    """Report something as it should be."""
    return Finding(name, "ok", value)


def untried(value: str, name: str = "") -> Finding:
    """Report something that looks as it should and was not tried."""
    return Finding(name, "ok", f"{value} (not tried)")


def warn(value: str, advice: str = "", name: str = "") -> Finding:
    """Report what should be looked at."""
    return Finding(name, "warn", value, advice)


def wrong(value: str, advice: str = "", name: str = "") -> Finding:
    """Report what does not work."""
    return Finding(name, "wrong", value, advice)


@dataclass(frozen=True)
class Board:
    """The examined machine and the settings that a chat on it would use.

    Attributes:
        root: Directory in which the machine's file system lies; `/` for this machine.
        settings: The settings; the defaults if the configuration is invalid.
        environment: Environment variables.
        config_files: The configuration files in use.
        config_error: Why the configuration is invalid, or "".
    """

    root: Path
    settings: Settings
    environment: Mapping[str, str]
    config_files: tuple[str, ...] = ()
    config_error: str = ""

    @property
    def is_this_machine(self) -> bool:
        """Whether this is the machine that runs the program, whose Python and clock can be used."""
        return self.root == Path("/")

    def map_path(self, name: str | Path) -> Path:
        """Map a path of the examined machine to this one. Relative paths are kept."""
        path = expand_home(name)
        return self.root / path.relative_to(path.anchor) if path.is_absolute() else path

    def unmap_path(self, path: Path) -> str:
        """Return a path as it is on the examined machine."""
        return f"/{path.relative_to(self.root)}" if path.is_relative_to(self.root) else str(path)

    def has(self, *names: str) -> bool:
        """Return whether one of the paths exists."""
        return any((self.root / name).exists() for name in names)

    def find(self, pattern: str) -> list[Path]:
        """Return the paths that match a glob pattern, sorted by length and name: policy4 before policy10."""
        return sorted(self.root.glob(pattern), key=lambda path: (len(str(path)), str(path)))

    def read(self, *names: str) -> str:
        """Return the stripped text of the first readable file of several.

        NUL characters at the end, which device tree strings have, are removed.

        Raises:
            FileNotFoundError: None of the files exists.
            OSError: A file exists but cannot be read.
        """
        last_error: OSError = FileNotFoundError(errno.ENOENT, "no such file", str(self.root / names[0]))
        for name in names:
            try:
                return self.read_head(self.root / name).decode("utf-8", errors="replace").strip("\0 \t\n")
            except FileNotFoundError:
                pass
            except OSError as error:
                last_error = error
        raise last_error

    def read_head(self, path: Path, size: int = _MAX_READ_BYTES) -> bytes:
        """Read the beginning of a regular file, without blocking on FIFOs or devices.

        Raises:
            FileNotFoundError: The file does not exist, or a symbolic link leads out of `root`.
            OSError: It is not a regular file, or cannot be read.
        """
        if not path.resolve().is_relative_to(self.root) and path.is_relative_to(self.root):
            raise FileNotFoundError(errno.ENOENT, "links out of the examined folder", str(path))
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)


Check = Callable[[Board], Iterable[Finding]]
"""Checks one thing and yields its lines; none where the check does not apply to the machine."""


def run_check(name: str, check: Check, board: Board) -> list[Finding]:
    """Run a check and return its lines; unreadable and unexpected files become a line of state "warn"."""
    lines: list[Finding] = []
    try:
        for line in check(board):
            lines.append(line)
    except OSError as error:
        path = board.unmap_path(Path(error.filename or "?"))
        is_denied = isinstance(error, PermissionError)
        reason, advice = f"{path}: this user cannot read it", f"Root can: sudo cat {path}"
        lines.append(warn(reason, advice) if is_denied else warn(f"unknown: {path}: {error.strerror}"))
    except (ValueError, OverflowError) as error:
        lines.append(warn(f"unknown: {error}"))
    return [line if line.name else replace(line, name=name) for line in lines]


def format_size(size_bytes: float) -> str:
    """Format a size for people, with decimal units: 2.4 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size_bytes < 1000 or unit == "GB":
            break
        size_bytes /= 1000
    return f"{size_bytes:.0f} {unit}" if unit == "bytes" or size_bytes >= 100 else f"{size_bytes:.1f} {unit}"
