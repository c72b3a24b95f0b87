"""The working folder, which may be removed while the program runs."""

from __future__ import annotations

import os


def find_working_folder() -> str:
    """Return the path of the working folder; after it was removed, the path that it had, or "." without /proc."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        try:
            return os.readlink("/proc/self/cwd").removesuffix(" (deleted)")  # noqa: PTH115
        except OSError:
            return "."
