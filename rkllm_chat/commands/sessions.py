"""Commands about sessions: the list, going on with one, a new one, and playing a saved one again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

from ..desk import Desk
from ..errors import ChatError
from ..events import Event, Notice, Table
from ..records import Edit
from ..sessions import Summary, list_sessions
from . import command

MOST_LISTED = 20


@command("/sessions", usage="[WORDS]")
async def show_sessions(desk: Desk, argument: str) -> AsyncGenerator[Event, None]:
    words, shelf = desk.words, desk.sessions.shelf
    try:
        found = list_sessions(shelf, argument, MOST_LISTED) if shelf else []
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


@command("/resume", usage="ID")
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


@command("/clear", "/new")
async def begin(desk: Desk, _argument: str) -> AsyncGenerator[Event, None]:
    name = desk.sessions.name
    desk.sessions.begin()
    yield Notice(desk.words("commands.cleared_kept", name=name) if name else desk.words("commands.cleared"))


@command("/replay", usage="[all]")
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
