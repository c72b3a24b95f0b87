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


def write_error_text(text: str) -> None:
    """Write a text of the program to standard error, with a line end; on a terminal it is wrapped between words."""
    if sys.stderr.isatty():
        import shutil  # one-shot commands write to no terminal and start sooner without it

        text = wrap_lines(text, shutil.get_terminal_size().columns)
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def wrap_lines(text: str, width: int) -> str:
    r"""Wrap each line of a text between words; a word that is longer, as a path may be, is not broken.

    >>> wrap_lines("usage: one two\n  three four five", 12)
    'usage: one\ntwo\n  three four\n  five'
    """
    import textwrap

    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        wrapped = textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, expand_tabs=False
        )
        lines += wrapped if len(line) > width else [line]
    return "\n".join(lines)
