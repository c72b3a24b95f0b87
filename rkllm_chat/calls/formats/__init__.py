"""FORMATS: how tool calls are written in the text of a model.

A row holds a layout, a call as the model writes it, from which follow the literals that begin and end a call, its
reader, its writer and its grammar. Besides, it says what else its models write: further openers, thoughts, control
tokens, unmarked calls. A new format is a new row, with a new reader only if no kind of layout fits.

A body reader is a generator over a `Reader`, entered after the opener. It returns the calls that it read, or None if
what follows is not a call, so that prose about markers stays prose. Once it is certain it calls `commit`, and a reply
that ends after that was truncated. A call ends by its own structure: end markers inside JSON strings or other values
do not end it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.plugins import find_plugin
from .bodies import Wrapper, merge_wrappers, read_wrapped
from .common import BodyReader, ParsedCalls, ReadContext
from .format import CLOSE, CONTROL_TOKENS, OPEN, TURN_OPENERS, Format
from .table import FORMATS

__all__ = [
    "CLOSE",
    "COMMON_FORMATS",
    "CONTROL_TOKENS",
    "FORMATS",
    "OPEN",
    "TURN_OPENERS",
    "BodyReader",
    "Format",
    "ParsedCalls",
    "ReadContext",
    "Wrapper",
    "list_sections",
    "load_format",
    "merge_wrappers",
    "read_wrapped",
    "select_formats",
]

COMMON_FORMATS = ("json", "xml", "hermes", "qwen3-coder", "llama3-function", "llama3", "mistral", "pythonic", "xlam")
"""Formats that are accepted from every model."""


def load_format(name: str, also_known: Iterable[str] = ()) -> None:
    """Add the format of a plugin to FORMATS, unless the name is built in.

    Args:
        name: The row, or one of `also_known`.
        also_known: Names that stand for no row.

    Raises:
        UsageError: There is no format with that name.
        ConfigError: The plugin cannot be loaded.
    """
    if name not in FORMATS and name not in also_known:
        FORMATS[name] = find_plugin("formats", name, (*also_known, *FORMATS))


def list_sections() -> list[tuple[str, Wrapper]]:
    """Return the marks that begin a group of calls in any format: no model writes them for anything else."""
    rows = [row for row in FORMATS.values() if row.layout.before and not row.is_prose]
    found = {row.layout.opener: Wrapper(row.closers, ()) for row in rows}
    return [(opener, wrapper) for opener, wrapper in found.items() if opener and opener[0] in "<]"]


def select_formats(name: str = "", accepts: Iterable[str] = ()) -> tuple[Format, ...]:
    """Return the formats to accept from a model.

    Args:
        name: The row that the model is asked for; "" for none.
        accepts: Further rows of its family. If there are none, every format is accepted whose markers are no prose.
    """
    marked = (row for row, call_format in FORMATS.items() if call_format.openers and not call_format.is_prose)
    own = tuple(accepts) or tuple(marked)
    return tuple(FORMATS[row] for row in dict.fromkeys((*([name] if name else ()), *COMMON_FORMATS, *own)))
