"""Pick one of the saved sessions; sessions can be renamed and deleted there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from ..core.errors import UsageError
from ..core.i18n import Words
from ..core.sanitize import sanitize_line
from ..storage.session_files import SessionDirectory
from ..storage.session_index import SessionSummary, list_sessions, summarize
from .picker import Choice, Picker, PickerFrontend

_MAX_PICKED = 200
_MAX_FOLDER_LENGTH = 36


async def pick_session(
    directory: SessionDirectory,
    frontend: PickerFrontend,
    words: Words,
    rename: Callable[[str, str], None],
    current: str = "",
) -> str | None:
    """Let the user pick one of the newest sessions.

    Args:
        directory: Directory of sessions.
        frontend: Shows the list.
        words: Sentences of the user's language.
        rename: Sets the title of a session.
        current: Id of the current session, which cannot be deleted.

    Returns:
        The id of the session; "" if there is none, None if the user picks none.

    Raises:
        ConfigError: The directory of sessions cannot be trusted.
    """
    summaries = await asyncio.to_thread(list_sessions, directory, "", _MAX_PICKED)
    if not summaries:
        return ""

    def delete(name: str) -> None:
        if name == current:
            raise UsageError(words("picker.current", name=name))
        directory.delete(name)

    def rename_row(name: str, title: str) -> Choice:
        rename(name, title)
        return _make_choice(summarize(name, directory.read(name).entries), current)

    rows = [_make_choice(summary, current) for summary in summaries]
    return await frontend.pick(Picker(words("picker.sessions"), rows, words, delete, rename_row))


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
