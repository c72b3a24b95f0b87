"""What the line that is typed may go on with: commands and their arguments, files and resources behind @.

Servers are asked while the person types; one that is slow is not waited for. What it answered is remembered for a
while, so that the next key finds it there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, FuzzyCompleter, WordCompleter
from prompt_toolkit.document import Document

from .clean import clean_line
from .commands import COMMANDS
from .desk import Desk
from .errors import ChatError
from .overview import Overview

ANSWER_S = 1.0
KEEP_S = 10.0
MOST = 200


class LineCompleter(Completer):
    """Completes a line for what is open at the desk."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._known: dict[str, tuple[float, Sequence[str]]] = {}

    def get_completions(self, *_: object) -> Iterable[Completion]:
        """Nothing that could be had at once; the loop asks for the other."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        name, blank, typed = before.partition(" ")
        desk = self._overview.desk
        if not before.startswith("/"):
            word = before.rpartition(" ")[2].rpartition("\n")[2]
            found = await self._mentions(desk, word[1:]) if word.startswith("@") else ()
            shown, word = list(found), word[1:]
        elif not blank:
            shown, word = list(COMMANDS), before
        else:
            shown, word = list(await self._arguments(desk, name.lower(), typed)), typed.rpartition(" ")[2]
        about = {one: self._explain(one) for one in shown} if not blank else {}
        completer = FuzzyCompleter(WordCompleter(shown[:MOST], meta_dict=about, WORD=True), WORD=True)
        for completion in completer.get_completions(Document(word), complete_event):
            yield completion

    def _explain(self, name: str) -> str:
        """What a command does, in the language of the sitting."""
        entry, desk = COMMANDS.get(name), self._overview.desk
        return desk.words(f"commands.{entry.names[0][1:]}") if entry and desk else ""

    async def _arguments(self, desk: Desk | None, name: str, typed: str) -> Sequence[str]:
        entry = COMMANDS.get(name)
        if desk is None or entry is None:
            return ()
        return await self._ask(f"{name} {typed}", lambda: entry.suggest(desk, typed))

    async def _mentions(self, desk: Desk | None, word: str) -> Sequence[str]:
        """Files below the folder that is being typed, and what the servers have to read."""
        files = list_files(word)
        if desk is None or desk.servers is None:
            return files
        box = desk.servers
        uris = await self._ask("@", lambda: list_uris(desk))
        values = await self._ask(f"@{word}", lambda: box.complete_uri(word)) if ":" in word else ()
        return [*files, *uris, *values]

    async def _ask(self, key: str, ask: Callable[[], Awaitable[Sequence[str]]]) -> Sequence[str]:
        """The answer of a server, or what it said a moment ago; nothing where it fails or takes long."""
        at, known = self._known.get(key, (0.0, ()))
        if time.monotonic() - at < KEEP_S:
            return known
        try:
            found = await asyncio.wait_for(ask(), ANSWER_S)
        except (ChatError, asyncio.TimeoutError):
            found = ()
        now = time.monotonic()
        known = [one for one in found if one == clean_line(one)]
        self._known = {old: kept for old, kept in self._known.items() if now - kept[0] < KEEP_S} | {key: (now, known)}
        return known


async def list_uris(desk: Desk) -> list[str]:
    """The resources of all servers, and their templates up to the first variable."""
    assert desk.servers
    uris = [str(one.uri) for _, one in await desk.servers.list_resources()]
    return uris + [one.uri_template.partition("{")[0] for _, one in await desk.servers.list_templates()]


def list_files(word: str) -> list[str]:
    """What lies in the folder of a path that is being typed, folders with a slash; hidden files where asked for."""
    folder, _, begun = word.rpartition("/")
    place = Path(f"{folder}/" if folder or word.startswith("/") else ".").expanduser()
    prefix = f"{folder}/" if folder or word.startswith("/") else ""
    try:
        entries = sorted(place.iterdir())[: 5 * MOST]
        return [
            f"{prefix}{one.name}{'/' if one.is_dir() else ''}"
            for one in entries
            if one.name == clean_line(one.name)
            and " " not in one.name
            and (not one.name.startswith(".") or begun.startswith("."))
        ]
    except OSError:
        return []
