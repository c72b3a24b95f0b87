"""The chat at the terminal: reads a line, picks its stream, shows its events. It knows no model and no server.

Ctrl+C stops what runs and keeps what was said.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from . import __version__, commands, language
from .chat import Onward
from .clean import clean_line
from .config import Settings
from .desk import Desk, open_desk
from .errors import ChatError
from .events import Event, Leave, Notice
from .language import Words
from .messages import Tool
from .policy import Consent
from .terminal import Terminal

PROMPT = "> "


async def chat(settings: Settings, state: Path, color: bool) -> int:
    """Talks until the user leaves; gives the exit code. Raises ChatError when the model cannot be opened.

    The prompt is there at once; model and servers come in behind it, and the first line waits for them.
    """
    session: PromptSession[str] = PromptSession(history=open_history(state))
    words = language.load(settings.language)

    terminal = Terminal(sys.stdout, sys.stdout, words, color)
    terminal.show(Notice(words("repl.opening", version=__version__)))
    async with AsyncExitStack() as stack:
        person = AtTerminal(terminal, session, words)
        opening = asyncio.ensure_future(stack.enter_async_context(open_desk(settings, state, person)))
        stack.push_async_callback(give_up, opening)
        ready = asyncio.ensure_future(announce(opening, session, terminal))
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits is told
        while (line := await read_line(session, words, terminal)) is not None:
            if line and await play(stream_of(ready, line, words), words, terminal):
                break
            if ready.done():
                ready.result()
    return 0


async def announce(opening: asyncio.Future[Desk], session: PromptSession[str], terminal: Terminal) -> Desk:
    """Says above the prompt what has been opened; ends the prompt with the error where the model has not."""
    try:
        desk = await asyncio.shield(opening)
    except ChatError as error:
        if session.app.is_running:
            session.app.exit(exception=error)
        raise
    with set_app(session.app if session.app.is_running else get_app()):
        await run_in_terminal(partial(welcome, desk, terminal))
    return desk


async def give_up(opening: asyncio.Future[Desk]) -> None:
    """Stops an opening that nobody waits for any more."""
    opening.cancel()
    await asyncio.wait([opening])


def open_history(state: Path) -> FileHistory | InMemoryHistory:
    """Lines typed before; in memory alone where the file cannot be written."""
    path = state / "history"
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def welcome(desk: Desk, terminal: Terminal) -> None:
    """Which model and servers there are, why others are not, and how to go on."""
    words = desk.words
    model, context = desk.backend.name, desk.backend.context_tokens
    servers = ", ".join(dict.fromkeys(tool.server for tool in desk.toolbox.tools if tool.server)) or words(
        "repl.no_servers"
    )
    terminal.show(Notice(words("repl.ready", model=model, context=context, servers=servers)))
    for server in desk.starting:
        terminal.show(Notice(words("servers.starting", server=server)))
    for server, error in desk.failures.items():
        terminal.show(Notice(words("repl.failed", server=server, error=error)))
    terminal.show(Notice(words("repl.hint")))


async def read_line(session: PromptSession[str], words: Words, terminal: Terminal) -> str | None:
    """The next line, stripped; None when the user leaves by Ctrl+D or by Ctrl+C twice on an empty line."""
    hinted = False
    while True:
        try:
            with patch_stdout():
                return (await session.prompt_async(PROMPT)).strip()
        except EOFError:
            return None
        except KeyboardInterrupt:
            if session.default_buffer.text:
                hinted = False
                continue
            if hinted:
                return None
            terminal.show(Notice(words("repl.leave_hint")))
            hinted = True


async def stream_of(ready: asyncio.Future[Desk], line: str, words: Words) -> AsyncGenerator[Event, None]:
    """What a line brings, once everything is open."""
    if not ready.done():
        yield Notice(words("repl.waiting"))
    desk = await asyncio.shield(ready)
    stream = commands.run(desk, line) if line.startswith("/") else desk.chat.send(line)
    async with aclosing(stream) as events:
        async for event in events:
            yield event


async def play(stream: AsyncGenerator[Event, None], words: Words, terminal: Terminal) -> bool:
    """Shows a stream to its end, or until Ctrl+C; says whether the user wants to leave."""
    leave = False

    async def show_all() -> None:
        nonlocal leave
        async with aclosing(stream) as events:
            async for event in events:
                leave = leave or isinstance(event, Leave)
                terminal.show(event)

    showing = asyncio.ensure_future(show_all())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, showing.cancel)
    try:
        await asyncio.wait([showing])
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        showing.cancel()
        await asyncio.wait([showing])
    terminal.end_line()
    if showing.cancelled():
        terminal.show(Notice(words("repl.stopped")))
    elif isinstance(error := showing.exception(), ChatError):
        terminal.show(Notice(str(error)))
    elif error:
        raise error
    return leave


class AtTerminal:
    """The person at this terminal, asked by a server in the middle of a turn."""

    def __init__(self, terminal: Terminal, session: PromptSession[str], words: Words) -> None:
        self._terminal, self._session, self._words = terminal, session, words

    async def approve(self, tool: Tool, arguments: Mapping[str, Any]) -> Consent:
        shown = clean_line(json.dumps(dict(arguments), ensure_ascii=False))
        question = self._words("repl.approve", tool=clean_line(tool.full_name), arguments=shown)
        return "once" if await ask_yes(question) else "no"

    async def at_limit(self, _rounds: int) -> Onward:
        return "stop"

    async def agree(self, question: str) -> bool:
        return await ask_yes(question)

    async def read(self, question: str, default: str) -> str | None:
        """A line; None for Ctrl+C and Ctrl+D."""
        session: PromptSession[str] = PromptSession(history=InMemoryHistory())
        try:
            return await session.prompt_async(question, default=default)
        except (EOFError, KeyboardInterrupt):
            return None

    def tell(self, text: str) -> None:
        self._terminal.show(Notice(text))

    def news(self, text: str) -> None:
        """Something that happened beside the talk: above the prompt, if there is one now."""
        if not self._session.app.is_running:
            self.tell(text)
            return
        with set_app(self._session.app):
            run_in_terminal(partial(self.tell, text))


async def ask_yes(question: str) -> bool:
    """A question whose Enter, Ctrl+C and Ctrl+D mean no."""
    session: PromptSession[str] = PromptSession(history=InMemoryHistory())
    try:
        return (await session.prompt_async(question)).strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False
