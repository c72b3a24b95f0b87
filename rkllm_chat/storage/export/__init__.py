"""EXPORTS: formats in which a conversation can be exported. Each is a pure function of the records.

To add a format, write a function of an ExportedConversation and the words, and add a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from pathlib import Path

from ...core.file_writes import create_file
from ...core.i18n import Words
from ..session_records import LogEntry
from .json_document import render_json
from .markdown import render_markdown
from .turns import ExportedConversation, build_conversation

EXPORTS: dict[str, Callable[[ExportedConversation, Words], str]] = {
    "md": render_markdown,
    "json": render_json,
}
"""File suffix -> function that renders the conversation."""


def export_conversation(
    format_name: str, name: str, entries: Iterable[LogEntry], words: Words, zone: tzinfo | None = None
) -> str:
    """Export a conversation in a format of EXPORTS.

    Args:
        format_name: Row of EXPORTS.
        name: Session id.
        entries: Records of the session.
        words: Sentences of the user's language.
        zone: Time zone of the times shown; by default the local one.
    """
    return EXPORTS[format_name](build_conversation(name, entries, zone), words)


def write_export(path: Path, text: str) -> None:
    """Write an export to a new file as `write_new_file`."""
    write_new_file(path, text.encode("utf-8", errors="replace"))


def write_new_file(path: Path, data: bytes) -> None:
    """Write a new file with mode 0600, or none at all; links are not followed. Raises OSError if the path exists."""
    create_file(path, data)
