"""EXPORTS: formats in which a conversation can be exported. Each is a pure function of the records.

To add a format, write a function of an ExportedConversation and the words, and add a row; a plugin names the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from pathlib import Path

from ...core.file_writes import create_file
from ...core.i18n import Words
from ...core.plugins import find_plugin, find_plugins
from ..session_records import LogEntry
from .json_document import render_json
from .markdown import render_markdown
from .turns import ExportedConversation, build_conversation

EXPORTS: dict[str, Callable[[ExportedConversation, Words], str]] = {
    "md": render_markdown,
    "json": render_json,
}
"""File suffix -> function that renders the conversation."""


def list_exports() -> list[str]:
    """Return the names of all formats, those of plugins included."""
    return [*EXPORTS, *(name for name in find_plugins("exports") if name not in EXPORTS)]


def has_export(name: str) -> bool:
    """Tell whether there is a format of a name; plugins are only looked for where none is built in."""
    return name in EXPORTS or name in find_plugins("exports")


def export_conversation(
    format_name: str, name: str, entries: Iterable[LogEntry], words: Words, zone: tzinfo | None = None
) -> str:
    """Export a conversation.

    Args:
        format_name: Row of EXPORTS, or the name of a plugin.
        name: Session id.
        entries: Records of the session.
        words: Sentences of the user's language.
        zone: Time zone of the times shown; by default the local one.

    Raises:
        UsageError: There is no such format.
        ConfigError: The plugin cannot be loaded.
    """
    render = EXPORTS[format_name] if format_name in EXPORTS else find_plugin("exports", format_name, EXPORTS)
    text: str = render(build_conversation(name, entries, zone), words)
    return text


def write_export(path: Path, text: str) -> None:
    """Write an export to a new file as `write_new_file`."""
    write_new_file(path, text.encode("utf-8", errors="replace"))


def write_new_file(path: Path, data: bytes) -> None:
    """Write a new file with mode 0600, or none at all; links are not followed. Raises OSError if the path exists."""
    create_file(path, data)
