"""Commands about saved sessions: list, resume, new and export."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from ...chat.app import App
from ...chat.event_stream import Emit
from ...chat.sessions import iter_last_turns
from ...core.errors import ChatError
from ...core.events import Notice, Table
from ...core.user_paths import expand_home
from ...storage.export import EXPORTS, export_conversation, has_export, list_exports, write_export
from ...storage.session_index import SessionSummary, list_sessions
from ..picker import PickerFrontend
from ..session_picker import format_folder, format_time, pick_session
from .registry import command, suggest_words

_MAX_LISTED = 20
_RESUME = "resume"


async def _suggest_ids(app: App, typed: str) -> Sequence[str]:
    """Return the action of /sessions, and the ids of the saved sessions for it."""
    if not typed.startswith(f"{_RESUME} "):
        return [_RESUME]
    return await asyncio.to_thread(app.sessions.directory.list_ids) if app.sessions.directory else ()


@command("/sessions", usage="[WORDS | resume ID]", example="/sessions tide Husum", suggest=_suggest_ids)
async def show_sessions(app: App, argument: str, emit: Emit) -> None:
    """Pick, search or resume a saved session."""
    action, _, name = argument.partition(" ")
    is_resumed = action == _RESUME and len(name.split()) < 2
    if is_resumed or (not argument and isinstance(app.frontend, PickerFrontend)):
        await _resume_session(app, name.strip(), emit)
        return
    words, directory = app.words, app.sessions.directory
    try:
        summaries = await asyncio.to_thread(list_sessions, directory, argument, _MAX_LISTED) if directory else []
    except ChatError as error:
        await emit(Notice(str(error)))
        return
    if not summaries:
        await emit(Notice(words("commands.no_such_sessions" if argument else "commands.no_sessions")))
        return
    head = tuple(words(f"sessions.{name}") for name in ("name", "when", "title", "turns", "model", "folder"))
    await emit(Table(head, tuple(_row_of(summary, app.sessions.name) for summary in summaries)))


def _row_of(session: SessionSummary, current: str) -> tuple[str, ...]:
    """Return the table row of a session; the current one is marked with `*`."""
    mark = " *" if session.name == current else ""
    when, folder = format_time(session.updated_at), format_folder(session.folder)
    return (session.name + mark, when, session.title, str(session.turns), session.model, folder)


async def _resume_session(app: App, argument: str | None, emit: Emit) -> None:
    """Continue a saved session; pick one if no id is given."""
    directory = app.sessions.directory
    try:
        if not argument and directory and isinstance(app.frontend, PickerFrontend):
            sessions = app.sessions
            argument = await pick_session(directory, app.frontend, app.words, sessions.rename, sessions.name)
            if argument is None:
                return
        if not argument:
            await emit(Notice(app.words("commands.no_sessions")))
            return
        name = directory.find_id(argument) if directory else app.sessions.name
        if name == app.sessions.name:
            await emit(Notice(app.words("commands.session_here", name=name)))
        else:
            for line in app.sessions.resume(name):
                await emit(Notice(line))
            for event in iter_last_turns(app.sessions.entries):
                await emit(event)
    except ChatError as error:
        await emit(Notice(str(error)))


@command("/export", usage="[md|json] [PATH]", example="/export talk.md", suggest=suggest_words(*EXPORTS))
async def export_session(app: App, argument: str, emit: Emit) -> None:
    """Export the conversation as Markdown or JSON.

    Existing files are not overwritten. Without a format, the suffix of the path selects it.
    """
    words, messages = app.words, app.sessions.redacted_entries
    format_name, path = _choose_export(argument, app.sessions.name or "talk")
    if not has_export(format_name):
        await emit(Notice(words("commands.no_format", format=format_name, formats=", ".join(list_exports()))))
        return
    if not messages:
        await emit(Notice(words("commands.nothing_said")))
        return
    text = export_conversation(format_name, app.sessions.name or "talk", messages, words)
    try:
        write_export(path, text)
    except OSError as error:
        key = "export_exists" if isinstance(error, FileExistsError) else "not_exported"
        await emit(Notice(words(f"commands.{key}", path=path, reason=error.strerror or error)))
        return
    await emit(Notice(words("commands.exported", path=path)))


def _choose_export(argument: str, name: str) -> tuple[str, Path]:
    """Return the format and the path that the argument selects; each has a default."""
    first, _, rest = argument.partition(" ")
    if has_export(first) or (first and not {".", "/"} & set(first)):
        return first, expand_home(rest.strip() or f"{name}.{first}")
    path = expand_home(argument or f"{name}.md")
    return path.suffix.removeprefix(".") or "md", path


@command("/clear", "/new")
async def start_session(app: App, _argument: str, emit: Emit) -> None:
    """Start a new session; the previous one is kept."""
    name = app.sessions.name
    app.sessions.start_new()
    await emit(Notice(app.words("commands.cleared_kept", name=name) if name else app.words("commands.cleared")))
