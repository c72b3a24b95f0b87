"""Paths as users write them."""

from __future__ import annotations

import os
from pathlib import Path


def expand_home(path: str | Path) -> Path:
    """Return a path with `~` and `~user` expanded; that of an unknown user stays as it is, as in a shell."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path.expanduser() raises RuntimeError


def path_exists(path: str) -> bool:
    """Return whether there is such a file or folder; there is none of a name that no file can have."""
    return os.path.exists(expand_home(path))  # noqa: PTH110  # Path.exists() raises OSError and ValueError
