"""Standard streams that the caller closed, and output that cannot be written."""

from __future__ import annotations

import os
import sys

WRITE_ERROR_CODE = 8
"""Exit code if standard output cannot be written."""


def open_missing_streams() -> None:
    """Open /dev/null in place of closed standard streams.

    Otherwise the next pipe would get the number of a closed stream, and with it data that is meant for the caller. It
    is opened for reading only, so that writes fail.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest free number
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def describe_write_error(error: OSError) -> str:
    """Return the line that says that standard output cannot be written."""
    return f"Standard output cannot be written: {error.strerror or error}."
