"""Pick one of the saved sessions; sessions can be renamed and deleted there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from ..core.errors import UsageError
from ..core.i18n import Words
from ..core.sanitize import sanitize_line
from ..storage.session_files import SessionDirectory
from ..storage.session_index import SessionSummary, summarize
from .picker import Choice, Picker

_MAX_FOLDER_LENGTH = 36


def make_session_picker(
    directory: SessionDirectory,
    summaries: Sequence[SessionSummary],
    words: Words,
    rename: Callable[[str, str], None],
    current: str = "",
) -> Picker:
    """Make a picker of sessions.

    Args:
        directory: Directory of sessions.
        summaries: The sessions, in the order to show.
        words: Sentences of the user's language.
        rename: Sets the title of a session.
        current: Id of the current session, which cannot be deleted.
    """

    def delete(name: str) -> None:
        if name == current:
            raise UsageError(words("picker.current", name=name))
        directory.delete(name)

    def rename_row(name: str, title: str) -> Choice:
        rename(name, title)
        return _make_choice(summarize(name, directory.read(name).entries), current)

    rows = [_make_choice(summary, current) for summary in summaries]
    return Picker(words("picker.sessions"), rows, words, delete, rename_row)


def _make_choice(session: SessionSummary, current: str) -> Choice:
    mark = "*" if session.name == current else ""
    columns = (mark, format_time(session.updated_at), session.title, str(session.turns), format_folder(session.folder))
    return Choice(session.name, columns, session.title)


def format_time(seconds: float) -> str:
    """Return seconds since 1970 as local date and time."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def format_folder(folder: str) -> str:
    """Return a folder for display: with `~` for the home folder, and the end of a long one."""
    home = f"{Path.home()}/"
    shown = sanitize_line(f"~/{folder.removeprefix(home)}" if folder.startswith(home) else folder)
    return shown if len(shown) <= _MAX_FOLDER_LENGTH else f"…{shown[1 - _MAX_FOLDER_LENGTH :]}"
