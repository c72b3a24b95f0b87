"""The chat at the terminal: takes a line, picks its stream, shows its events. It knows no model and no server.

Ctrl+C stops what runs and keeps what was said.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractContextManager, AsyncExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Protocol

from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from typing_extensions import Self

from . import __version__, commands, language
from .admission import Gate
from .attach import say
from .completion import LineCompleter
from .config import Settings
from .desk import Desk, Sitter, Source, open_desk
from .errors import ChatError
from .events import Draft, Event, Leave, Notice
from .language import Words
from .loading import expect_load
from .overview import Overview
from .private import explain, make_folder, open_own
from .redact import Redactor


class Face(Sitter, Protocol):
    """Where a person sits: he types lines there, and sees what comes of them."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def line(self) -> str | None:
        """The next line that is typed; None when the person leaves."""
        ...

    def leave(self) -> None:
        """Ends the waiting for a line."""
        ...

    def running(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        """While something runs, the person may stop it."""
        ...

    def show(self, event: Event) -> None: ...

    async def edit(self, text: str) -> str:
        """The text as the person's editor leaves it."""
        ...

    async def run(self, command: str) -> int:
        """Gives the terminal to a shell command."""
        ...


async def chat(
    settings: Settings,
    state: Path,
    color: bool,
    source: Source,
    secrets: Redactor | None = None,
    exposed: Iterable[tuple[str, str]] = (),
) -> int:
    """Talks until the user leaves; gives the exit code. Raises ChatError when the model cannot be opened.

    The prompt is there at once; model and servers come in behind it, and the first line waits for them. `exposed` are
    files and the keys in them that hold a secret which others can read.
    """
    words, overview = language.load(settings.language), Overview()
    async with AsyncExitStack() as stack:
        history, trouble = open_history(state)
        face = make_face(words, history, overview, color)
        async with face:
            face.show(Notice(words("repl.opening", version=__version__)))
            for path, key in exposed:
                face.show(Notice(words("repl.exposed", path=path, entry=key)))
            if trouble:
                face.show(Notice(words("repl.no_history", trouble=trouble)))
            face.show(expect_load(settings, state))
            for path, name in settings.ignored:
                face.show(Notice(words("trust.ignored", file=path, name=name)))
            gate = Gate(state)
            await gate.ask(settings.servers, face, words)
            desk = open_desk(settings, state, face, words, gate, secrets)
            opening = asyncio.ensure_future(stack.enter_async_context(desk))
            stack.push_async_callback(give_up, opening)
            ready = asyncio.ensure_future(announce(opening, face, overview, source))
            ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits is told
            while (line := await face.line()) is not None:
                if line.startswith("!"):
                    await face.run(line[1:])
                elif await play(partial(stream_of, ready, line, words), words, face, overview):
                    break
        if ready.done():
            ready.result()
        ready.cancel()
    return 0


def make_face(words: Words, history: History, overview: Overview, color: bool) -> Face:
    """A screen, or plain lines where the terminal cannot move its cursor."""
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        from .plain import Plain

        return Plain(words, color)
    from .seat import Seat

    return Seat(words, history, LineCompleter(overview), overview, color)


async def announce(opening: asyncio.Future[Desk], face: Face, overview: Overview, source: Source) -> Desk:
    """Says what has been opened; ends the waiting for a line where the model has not."""
    try:
        desk = await asyncio.shield(opening)
    except ChatError:
        face.leave()
        raise
    overview.desk, desk.source = desk, source
    for line in welcome(desk):
        face.show(Notice(line))
    desk.ahead.begin()
    return desk


async def give_up(opening: asyncio.Future[Desk]) -> None:
    """Stops an opening that nobody waits for any more."""
    opening.cancel()
    await asyncio.wait([opening])


def open_history(state: Path) -> tuple[FileHistory | InMemoryHistory, str]:
    """Lines typed before; in memory alone where the file cannot be written or is not ours, and why."""
    path = state / "history"
    try:
        make_folder(state)
        os.close(open_own(path))
    except OSError as error:
        return InMemoryHistory(), f"{path}: {explain(error)}"
    return FileHistory(str(path)), ""


def welcome(desk: Desk) -> list[str]:
    """Which model and servers there are, why others are not, and how to go on."""
    words = desk.words
    servers = dict.fromkeys(tool.server for tool in desk.toolbox.tools if tool.server)
    model, context = desk.backend.name, desk.backend.context_tokens
    listed = ", ".join(servers) or words("repl.no_servers")
    return [
        words("repl.ready", model=model, context=context, servers=listed),
        *(words("servers.starting", server=server) for server in desk.starting),
        *(words("repl.failed", server=server, error=error) for server, error in desk.failures.items()),
        words("repl.hint"),
    ]


async def stream_of(ready: asyncio.Future[Desk], line: str, words: Words) -> AsyncGenerator[Event, None]:
    """What a line brings, once everything is open."""
    if commands.leaves(line):
        yield Leave()
        return
    if not ready.done():
        yield Notice(words("repl.waiting"))
    desk = await asyncio.shield(ready)
    if desk.switching:
        await asyncio.wait([desk.switching])
    if desk.source and desk.source.has_changed():
        yield Notice(words("servers.changed"))
    stream = commands.run(desk, line) if commands.is_command(line) else say(desk, line.removeprefix("/"))
    with desk.ahead.resting():
        async with aclosing(stream) as events:
            async for event in events:
                yield event


async def play(
    make_stream: Callable[[], AsyncGenerator[Event, None]], words: Words, face: Face, overview: Overview
) -> bool:
    """Shows a stream to its end, or until the person stops it; says whether he wants to leave."""
    leave = False
    drafts: list[Draft] = []

    async def show_all() -> None:
        nonlocal leave
        async with aclosing(make_stream()) as events:
            async for event in events:
                leave = leave or isinstance(event, Leave)
                overview.note(event)
                if isinstance(event, Draft) and event.in_editor:
                    drafts.append(event)
                else:
                    face.show(event)

    showing = asyncio.ensure_future(show_all())
    try:
        with face.running(showing.cancel):
            await asyncio.wait([showing])
    finally:
        showing.cancel()
        await asyncio.wait([showing])
    overview.settle()
    if showing.cancelled():
        face.show(Notice(words("repl.stopped")))
    elif isinstance(error := showing.exception(), ChatError):
        face.show(Notice(str(overview.desk.secrets.mend(error) if overview.desk else error)))
    elif error:
        raise error
    for draft in drafts:
        face.show(Draft(await face.edit(draft.text)))
    return leave
