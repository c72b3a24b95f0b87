"""Complete the input line: commands and their arguments, files and resources after @.

Servers are queried while the user types, with a timeout; their answers are cached for a few seconds, so that the next
key finds them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from functools import partial

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, FuzzyCompleter, WordCompleter
from prompt_toolkit.document import Document

from ..chat.app import App
from ..core.errors import ChatError
from ..core.sanitize import sanitize_line, shorten_line
from ..core.user_paths import expand_home
from .slash_commands import COMMANDS
from .slash_commands.basics import explain_action
from .slash_commands.registry import find_other, list_other
from .status_source import StatusSource

_QUERY_TIMEOUT_S = 1.0
_CACHE_S = 10.0
MAX_COMPLETIONS = 200
_MIN_WIDTH_FOR_USAGE, _MAX_USAGE = 70, 24
_FREQUENT = ("/model", "/tools", "/mcp", "/sessions", "/clear", "/retry", "/help")  # the first ones of the menu


class LineCompleter(Completer):
    """prompt_toolkit completer for the input line."""

    def __init__(self, status_source: StatusSource) -> None:
        self._status_source = status_source
        self._cache: dict[str, tuple[float, Sequence[str]]] = {}

    def get_completions(self, *_: object) -> Iterable[Completion]:
        """Return nothing; completions are asynchronous."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions at the cursor."""
        before = document.text_before_cursor
        name, blank, typed = before.partition(" ")
        app = self._status_source.app
        if not before.startswith("/"):
            word = before.rpartition(" ")[2].rpartition("\n")[2]
            mentions = await self._mentions(app, word[1:]) if word.startswith("@") else ()
            candidates, word = list(mentions), word[1:]
        elif not blank:
            others = await self._query("/", partial(list_other, app)) if app else ()
            names = [*_FREQUENT, *(entry.names[0] for entry in COMMANDS.values())]
            candidates, word = list(dict.fromkeys([*names, *others])), before
        else:
            candidates, word = list(await self._arguments(app, name, typed)), typed.rpartition(" ")[2]
        usages = {} if blank else {entry.names[0]: entry.usage for entry in COMMANDS.values()}
        descriptions = {candidate: self._explain(candidate, name if blank else "") for candidate in candidates}
        completer = WordCompleter(candidates[:MAX_COMPLETIONS], meta_dict=descriptions, WORD=True)
        has_room = get_app().output.get_size().columns >= _MIN_WIDTH_FOR_USAGE
        for completion in FuzzyCompleter(completer, WORD=True).get_completions(Document(word), complete_event):
            usage = usages.get(completion.text, "") if has_room and word.startswith("/") else ""
            yield _add_usage(completion, shorten_line(usage, _MAX_USAGE)) if usage else completion

    def _explain(self, candidate: str, name: str) -> str:
        """Return the help line of a command, or of an action of the command `name`, in the user's language."""
        entry, app = COMMANDS.get((name or candidate).lower()), self._status_source.app
        if entry is None or app is None:
            return ""
        if name:
            return explain_action(entry.names[0], candidate, app.words)
        return entry.describe(app.words)

    async def _arguments(self, app: App | None, name: str, typed: str) -> Sequence[str]:
        if app is None:
            return ()

        async def suggest() -> Sequence[str]:
            entry = COMMANDS.get(name.lower()) or await find_other(app, name)
            return await entry.suggest(app, typed) if entry else ()

        return await self._query(f"{name} {typed}", suggest)

    async def _mentions(self, app: App | None, word: str) -> Sequence[str]:
        """Return completions after @: files, resource URIs and template values."""
        files = list_files(word)
        if app is None:
            return files
        uris = await self._query("@", partial(_list_uris, app))
        values = await self._query(f"@{word}", lambda: app.servers.complete_uri(word)) if ":" in word else ()
        return [*files, *uris, *values]

    async def _query(self, key: str, query: Callable[[], Awaitable[Iterable[str]]]) -> Sequence[str]:
        """Return a server's answer, cached if recent; empty if it fails or times out."""
        cached_at, cached = self._cache.get(key, (0.0, ()))
        if time.monotonic() - cached_at < _CACHE_S:
            return cached
        try:
            answer: Iterable[str] = await asyncio.wait_for(query(), _QUERY_TIMEOUT_S)
        except (ChatError, asyncio.TimeoutError):
            answer = ()
        now = time.monotonic()
        cached = [text for text in answer if text == sanitize_line(text)]
        self._cache = {old: entry for old, entry in self._cache.items() if now - entry[0] < _CACHE_S}
        self._cache[key] = now, cached
        return cached


def _add_usage(completion: Completion, usage: str) -> Completion:
    """Return a completion that is shown with its arguments behind it."""
    display = [*completion.display, ("", f" {usage}")]
    return Completion(completion.text, completion.start_position, display, completion.display_meta)


async def _list_uris(app: App) -> list[str]:
    """Return the resource URIs of all servers and the literal prefixes of their templates."""
    uris = [str(resource.uri) for _, resource in await app.servers.list_resources()]
    return uris + [resource.uri_template.partition("{")[0] for _, resource in await app.servers.list_templates()]


def list_files(word: str) -> list[str]:
    """Return the entries of the folder in a partial path.

    Folders end with a slash; hidden files are listed if the name begins with a dot.
    """
    folder, _, partial_name = word.rpartition("/")
    directory = expand_home(f"{folder}/" if folder or word.startswith("/") else ".")
    prefix = f"{folder}/" if folder or word.startswith("/") else ""
    try:
        entries = sorted(directory.iterdir())[: 5 * MAX_COMPLETIONS]
        return [
            f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}"
            for entry in entries
            if entry.name == sanitize_line(entry.name)
            and " " not in entry.name
            and (not entry.name.startswith(".") or partial_name.startswith("."))
        ]
    except OSError:
        return []
