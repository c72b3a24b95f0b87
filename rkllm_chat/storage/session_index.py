"""Find saved sessions: the newest of a folder, those that contain words, and one row for each in a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..core.errors import ChatError
from ..core.messages import Message
from ..core.sanitize import shorten_line
from .session_files import SessionDirectory
from .session_records import LogEntry, SessionTitle, Setup, find_undone_records, rebuild_conversation

MAX_TITLE_LENGTH = 60
_MAX_SEARCHED = 500
_SETUP_PREFIX = b'{"kind":"setup",'


@dataclass(frozen=True)
class SessionSummary:
    """One row of the session list.

    Attributes:
        name: Session id.
        updated_at: Time of the last record in seconds since 1970.
        title: The title that the user gave, else the first user message, truncated.
        turns: Number of user messages.
        model: Name of the model.
        folder: Working directory of the conversation.
    """

    name: str
    updated_at: float
    title: str
    turns: int
    model: str
    folder: str


def find_newest(directory: SessionDirectory, folder: str) -> str:
    """Return the most recently written session of a working directory; "" if there is none.

    Raises:
        ConfigError: The directory of sessions cannot be trusted.
    """
    folder = _as_stored(folder)
    for name in directory.list_ids()[:_MAX_SEARCHED]:
        setup = read_setup(directory, name)
        if setup and setup.folder == folder:
            return name
    return ""


def read_setup(directory: SessionDirectory, name: str) -> Setup | None:
    """Return the last setup of a session; None if it has none or cannot be read."""
    return rebuild_conversation(_read_entries(directory, name, _SETUP_PREFIX)).setup


def list_sessions(directory: SessionDirectory, search: str, limit: int, folder: str = "") -> list[SessionSummary]:
    """List the newest sessions.

    Args:
        directory: Directory of sessions.
        search: Only sessions whose texts or titles contain each of these words.
        limit: Maximum number.
        folder: Only sessions of this working directory; "" for all.

    Raises:
        ConfigError: The directory of sessions cannot be trusted.
    """
    summaries: list[SessionSummary] = []
    words, folder = search.casefold().split(), _as_stored(folder)
    for name in directory.list_ids()[:_MAX_SEARCHED]:
        entries = _read_entries(directory, name)
        if not entries or not _contains_words(entries, words):
            continue
        summary = summarize(name, entries)
        if folder in ("", summary.folder):
            summaries.append(summary)
            if len(summaries) == limit:
                break
    return summaries


def summarize(name: str, entries: Sequence[LogEntry]) -> SessionSummary:
    """Summarize a session; undone messages do not count, and giving a title does not make it newer."""
    records = [entry.record for entry in entries]
    undone = find_undone_records(records)
    messages = (record for index, record in enumerate(records) if isinstance(record, Message) and index not in undone)
    user_texts = [message.text for message in messages if message.role == "user"]
    given = next((record.title for record in reversed(records) if isinstance(record, SessionTitle)), "")
    title = next((shorten_line(text, MAX_TITLE_LENGTH) for text in (given, *user_texts) if text.strip()), "")
    updated_at = next((entry.at for entry in reversed(entries) if not isinstance(entry.record, SessionTitle)), 0.0)
    setup = rebuild_conversation(entries).setup
    return SessionSummary(
        name, updated_at, title, len(user_texts), setup.model if setup else "", setup.folder if setup else ""
    )


def _as_stored(folder: str) -> str:
    """Return a folder as records have it: bytes of its name that are not UTF-8 are replaced."""
    return folder.encode("utf-8", errors="replace").decode()


def _read_entries(directory: SessionDirectory, name: str, prefix: bytes = b"") -> Sequence[LogEntry]:
    """Return the records of a session; none if it cannot be read."""
    try:
        return directory.read(name, prefix).entries
    except ChatError:
        return ()


def _contains_words(entries: Iterable[LogEntry], words: Sequence[str]) -> bool:
    records = (entry.record for entry in entries) if words else ()
    texts = [
        record.title if isinstance(record, SessionTitle) else record.text
        for record in records
        if isinstance(record, Message | SessionTitle)
    ]
    text = "\n".join(texts).casefold()
    return all(word in text for word in words)
