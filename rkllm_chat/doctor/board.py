"""A machine seen through its files, and the lines that checks write about it. It reads plain files, a little of each.

It knows no rule: what is good or bad on a board stands in `machine.py` and `model.py`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..config import Settings

LARGEST_READ = 64 * 1024

State = Literal["ok", "look", "wrong"]


@dataclass(frozen=True)
class Line:
    """What one check found. `advice` says what to do; it is empty where nothing is to be done."""

    name: str
    state: State
    value: str
    advice: str = ""


@dataclass(frozen=True)
class Board:
    """The machine whose files lie below `root`, and the settings that a chat would have.

    `trouble` is why the configuration cannot be used; the settings are then the defaults. `found`: its files.
    """

    root: Path
    settings: Settings
    environment: Mapping[str, str]
    found: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def is_here(self) -> bool:
        """Whether it is the machine that this program runs on: only then can its Python and its clock be asked."""
        return self.root == Path("/")

    def place(self, name: str | Path) -> Path:
        """Where a path of that machine lies on this one. A relative path counts from the current folder."""
        path = Path(name).expanduser()
        return self.root / path.relative_to(path.anchor) if path.is_absolute() else path

    def show(self, path: Path) -> str:
        """The path as that machine has it."""
        return f"/{path.relative_to(self.root)}" if path.is_relative_to(self.root) else str(path)

    def has(self, *names: str) -> bool:
        """Whether one of these is there."""
        return any((self.root / name).exists() for name in names)

    def find(self, pattern: str) -> list[Path]:
        """The paths below the root that match, sorted, so that policy10 comes behind policy4."""
        return sorted(self.root.glob(pattern), key=lambda path: (len(str(path)), str(path)))

    def read(self, *names: str) -> str:
        """The text of the first of these files that can be read, stripped, without the NUL behind device tree texts.

        Raises FileNotFoundError where none is there, and another OSError where one is, and cannot be read.
        """
        trouble: OSError = FileNotFoundError(errno.ENOENT, "not there", str(self.root / names[0]))
        for name in names:
            try:
                return self.read_head(self.root / name).decode("utf-8", errors="replace").strip("\0 \t\n")
            except FileNotFoundError:
                pass
            except OSError as error:
                trouble = error
        raise trouble

    def read_head(self, path: Path, size: int = LARGEST_READ) -> bytes:
        """The beginning of a plain file. What is no plain file is not waited for, what leads out of root not read."""
        if not path.resolve().is_relative_to(self.root) and path.is_relative_to(self.root):
            raise FileNotFoundError(errno.ENOENT, "leads out of the tree", str(path))
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a plain file", str(path))
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)


Check = Callable[[Board], Iterable[Line]]
"""Looks at one thing and gives its lines; none where the thing does not matter on this machine."""


def run_check(name: str, check: Check, board: Board) -> list[Line]:
    """The lines of a check. A file that cannot be read, or holds what nobody expects, is a line to look at."""
    lines: list[Line] = []
    try:
        for line in check(board):
            lines.append(line)
    except PermissionError as error:
        path = board.show(Path(error.filename or "?"))
        lines.append(Line(name, "look", f"{path} is not for this user to read", f"Root can read it: sudo cat {path}"))
    except OSError as error:
        path = board.show(Path(error.filename or "?"))
        lines.append(Line(name, "look", f"cannot be known: {path}: {error.strerror}"))
    except (ValueError, OverflowError) as error:
        lines.append(Line(name, "look", f"cannot be known: {error}"))
    return lines


def size_text(size_bytes: float) -> str:
    """A size as people say it: 2.4 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size_bytes < 1000 or unit == "GB":
            break
        size_bytes /= 1000
    return f"{size_bytes:.0f} {unit}" if unit == "bytes" or size_bytes >= 100 else f"{size_bytes:.1f} {unit}"
