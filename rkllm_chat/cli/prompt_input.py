"""Read the prompt of `rkllm-chat -p` from the command line and from standard input, and the schema of its answer."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..calls.schema.faults import find_schema_fault
from ..core.errors import UsageError
from ..core.strict_json import parse_strict_json
from ..core.user_paths import expand_home

STANDARD_INPUT = "-"
FIRST_BYTE_S = 3.0
"""How long a pipe beside `-p TEXT` may be silent: a program that inherited an open pipe must not wait for ever."""
_MAX_PROMPT_BYTES = 16 << 20


@dataclass(frozen=True)
class PromptPart:
    """A part of a prompt.

    Attributes:
        text: The text.
        is_typed: Whether it is from the command line, where @ attaches files; standard input may have any text.
    """

    text: str
    is_typed: bool = True


@dataclass(frozen=True)
class Prompt:
    """What one turn is to answer.

    Attributes:
        parts: The message, in order; joined by blank lines.
        attached: Text of a pipe beside the message, for the model to read as data; "" for none.
        is_replaced: Whether bytes that are not UTF-8 were replaced.
        is_pipe_silent: Whether standard input sent nothing in time, and was not read.
        images: Paths of pictures and sounds that the command line attaches.
    """

    parts: tuple[PromptPart, ...]
    attached: str = ""
    is_replaced: bool = False
    is_pipe_silent: bool = False
    images: tuple[str, ...] = ()


def read_prompt(options: Sequence[str] | None) -> Prompt | None:
    """Read the prompt of a single turn.

    Args:
        options: The values of `-p`, in order; "-" stands for standard input. None without `-p`.

    Returns:
        The prompt; None for an interactive chat.

    Raises:
        UsageError: A part of the prompt is empty or larger than 16 MB. No more than that is read.
    """
    is_asked = options is not None
    if options is None:
        if sys.stdin is not None and sys.stdin.isatty():
            return None
        options = (STANDARD_INPUT,)
    is_read = STANDARD_INPUT in options
    piped, is_pipe_silent = (_read_input(), False) if is_read else _read_pipe()
    texts = [
        # restores the bytes of the command line
        piped if option == STANDARD_INPUT else option.encode("utf-8", errors="surrogateescape")
        for option in options
    ]
    attached = b"" if is_read else piped
    if max(map(len, (*texts, attached))) > _MAX_PROMPT_BYTES:
        raise UsageError(
            f"The prompt is larger than {_MAX_PROMPT_BYTES >> 20} MB.", "Save it in a file that a tool can read."
        )
    decoded = [text.decode("utf-8", errors="replace") for text in (*texts, attached)]
    if not all(text.strip() for text in decoded[:-1]):
        reason = "" if is_asked else ": standard input is no terminal and sent nothing"
        hint = "Pass it with -p, or on standard input." if is_asked else "Pass -p TEXT, or start at a terminal."
        raise UsageError(f"The prompt is empty{reason}.", hint)
    parts = [PromptPart(text, option != STANDARD_INPUT) for text, option in zip(decoded, options, strict=False)]
    is_replaced = any(text.encode() != data for text, data in zip(decoded, (*texts, attached), strict=True))
    return Prompt(tuple(parts), decoded[-1], is_replaced, is_pipe_silent)


def read_schema(option: str | None) -> dict[str, Any] | None:
    """Read the JSON Schema of the answer.

    Args:
        option: Value of `--json-schema`: a path, or a JSON object; None without the option.

    Raises:
        UsageError: There is no such file, or it does not contain a JSON object.
    """
    if option is None:
        return None
    is_inline = option.lstrip().startswith("{")
    place = "--json-schema" if is_inline else option
    try:
        schema = parse_strict_json(option if is_inline else expand_home(option).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"The schema {place} cannot be read: {reason}.", "Pass a file or a JSON object.") from None
    if not isinstance(schema, dict):
        raise UsageError(f"The schema {place} is no JSON object.", 'The smallest is {"type": "object"}.')
    if fault := find_schema_fault(schema):
        raise UsageError(f"The schema {place} is invalid: {fault}.", "Correct it; see json-schema.org.")
    return schema


def _read_input() -> bytes:
    """Return standard input without blanks at its ends; at most one byte more than the limit."""
    return sys.stdin.buffer.read(_MAX_PROMPT_BYTES + 1).strip() if sys.stdin is not None else b""


def _read_pipe() -> tuple[bytes, bool]:
    """Return what is piped beside `-p TEXT`, and whether a pipe was silent for too long.

    A terminal and /dev/null are not read.
    """
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError):  # there is none, or another object stands for it
        return b"", False
    if stat.S_ISREG(mode):
        return _read_input(), False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return b"", False
    is_ready = bool(select.select([sys.stdin.fileno()], [], [], FIRST_BYTE_S)[0])
    return (_read_input(), False) if is_ready else (b"", True)
