"""Commands about sessions: the list, going on with one, a new one, writing one out, and playing a saved one again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

from ..desk import Desk
from ..errors import ChatError
from ..events import Event, Notice, Table
from ..export import EXPORTS, export
from ..records import Edit
from ..sessions import Summary, list_sessions
from . import command

MOST_LISTED = 20


@command("/sessions", usage="[WORDS]")
async def show_sessions(desk: Desk, argument: str) -> AsyncGenerator[Event, None]:
    words, shelf = desk.words, desk.sessions.shelf
    try:
        found = await asyncio.to_thread(list_sessions, shelf, argument, MOST_LISTED) if shelf else []
    except ChatError as error:
        yield Notice(str(error))
        return
    if not found:
        yield Notice(words("commands.no_such_sessions" if argument else "commands.no_sessions"))
        return
    head = tuple(words(f"sessions.{name}") for name in ("name", "when", "title", "turns", "model"))
    yield Table(head, tuple(row_of(one, desk.sessions.name) for one in found))


def row_of(session: Summary, current: str) -> tuple[str, ...]:
    """The current session has a mark."""
    mark = " *" if session.name == current else ""
    when = datetime.fromtimestamp(session.at).astimezone().strftime("%Y-%m-%d %H:%M")
    return (session.name + mark, when, session.title, str(session.turns), session.model)


async def suggest_ids(desk: Desk, _typed: str) -> Sequence[str]:
    return await asyncio.to_thread(desk.sessions.shelf.ids) if desk.sessions.shelf else ()


async def suggest_forms(_desk: Desk, _typed: str) -> Sequence[str]:
    return list(EXPORTS)


async def suggest_all(_desk: Desk, _typed: str) -> Sequence[str]:
    return ["all"]


@command("/resume", usage="ID", suggest=suggest_ids)
async def resume(desk: Desk, argument: str) -> AsyncGenerator[Event, None]:
    if not argument:
        async with aclosing(show_sessions(desk, "")) as listed:
            async for event in listed:
                yield event
        return
    try:
        name = desk.sessions.shelf.find(argument) if desk.sessions.shelf else desk.sessions.name
        if name == desk.sessions.name:
            yield Notice(desk.words("commands.session_here", name=name))
        else:
            for line in desk.sessions.resume(name):
                yield Notice(line)
    except ChatError as error:
        yield Notice(str(error))


@command("/export", usage="[md|html|json] [PATH]", suggest=suggest_forms)
async def write_out(desk: Desk, argument: str) -> AsyncGenerator[Event, None]:
    """Writes the talk into a file of this folder; the path's ending tells the form, too. Nothing is written over."""
    words, told = desk.words, desk.sessions.shown
    form, path = choose_export(argument, desk.sessions.name or "talk")
    if not told:
        yield Notice(words("commands.nothing_said"))
        return
    if form not in EXPORTS:
        yield Notice(words("commands.no_form", form=form, forms=", ".join(EXPORTS)))
        return
    text = export(form, desk.sessions.name or "talk", told, words)
    try:
        write_new(path, text.encode("utf-8", errors="replace"))
    except OSError as error:
        yield Notice(words("commands.not_exported", path=path, reason=error.strerror or error))
        return
    yield Notice(words("commands.exported", path=path))


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that is not there yet, for its owner alone."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(file, "wb") as stream:  # noqa: PTH123  # a descriptor
        stream.write(data)


def choose_export(argument: str, name: str) -> tuple[str, Path]:
    """The form and the path that are meant: each may be left out."""
    first, _, rest = argument.partition(" ")
    if first in EXPORTS or (first and "." not in first and rest):
        return first, Path(rest.strip() or f"{name}.{first}").expanduser()
    path = Path(argument or f"{name}.md").expanduser()
    return path.suffix.removeprefix(".") or "md", path


@command("/clear", "/new")
async def begin(desk: Desk, _argument: str) -> AsyncGenerator[Event, None]:
    name = desk.sessions.name
    desk.sessions.begin()
    yield Notice(desk.words("commands.cleared_kept", name=name) if name else desk.words("commands.cleared"))


@command("/replay", usage="[all]", suggest=suggest_all)
async def play_on(desk: Desk, argument: str) -> AsyncGenerator[Event, None]:
    """The next line of the session, or all that are left, and what was said to it."""
    if desk.replay is None:
        yield Notice(desk.words("commands.no_replay"))
        return
    steps = desk.replay.steps
    while steps:
        step = steps.pop(0)
        if isinstance(step, Edit):
            desk.chat.history[step.start : step.stop] = step.messages
            yield Notice(desk.words("commands.replay_edit"))
            continue
        yield Notice(f"> {step[-1].text}")
        async with aclosing(desk.chat.answer(step)) as turn:
            async for event in turn:
                yield event
        if argument != "all":
            return
    yield Notice(desk.words("commands.replayed"))
