"""EXPORTS: forms in which a talk leaves the program. A form is a pure function of the records; it writes no file.

To add one, write a function of a Told (what was told, turn by turn) and the words, and a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo

from ..language import Words
from ..records import Entry
from .document import write_json
from .markdown import write_markdown
from .page import write_page
from .turns import Told, tell

EXPORTS: dict[str, Callable[[Told, Words], str]] = {
    "md": write_markdown,
    "html": write_page,
    "json": write_json,
}


def export(form: str, name: str, entries: Iterable[Entry], words: Words, zone: tzinfo | None = None) -> str:
    """A talk in a form of EXPORTS. `name` is its session's id; times are shown in `zone`, by default the local one."""
    return EXPORTS[form](tell(name, entries, zone), words)
