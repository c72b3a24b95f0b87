"""Which session the talk of a sitting is kept in: begun, gone on with, left for another. It shows nothing.

`journal.py` knows the file, `records.py` what is in it; here the chat and its session are kept in step.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from . import __version__
from .chat import Chat
from .choosing import with_wishes
from .errors import ChatError
from .events import CallFound, CallGarbled
from .families import make_scanner
from .journal import Contents, Hide, Journal, Shelf, as_it_is, read_line, strict
from .language import Words
from .messages import NOTHING_SAID, Message
from .records import Entry, Record, Setup, Talk, find_undone, hash_text, hash_tool, read, rebuild, write
from .rounds import first_remarks
from .window import prompt_of

NEWEST = "newest"
MOST_SEARCHED = 500
SETUP_LINE = b'{"kind":"setup",'
LONGEST_TITLE = 60
KEPT_SETTINGS = (
    "backend",
    "language",
    "tool_format",
    "constrained",
    "max_steps",
    "context_tokens",
    "tools_share",
    "few_tools",
    "thinking",
    "generation",
    "policy",
)


@dataclass(frozen=True)
class Summary:
    """A session in one row. `at`: when something was last said, in seconds since 1970."""

    name: str
    at: float
    title: str
    turns: int
    model: str


class Sessions:
    """Keeps what the chat tells it. Without a shelf nothing is written; `say` is told what the user should know.

    `entries` is all of the current session, `name` its id ("" as long as it has no file). `hide` gives what is written
    of a text.
    """

    def __init__(self, shelf: Shelf | None, chat: Chat, say: Callable[[str], None], hide: Hide = as_it_is) -> None:
        self.shelf, self._chat, self._say = shelf, chat, say
        self.entries: list[Entry] = []
        self._setup: Setup | None = None
        self._copy_of = ""
        self._ahead: list[Message] = []
        self._hide = hide
        self._journal = self._make_journal()
        chat.keep = self.keep

    @property
    def name(self) -> str:
        return self._journal.name if self._journal else ""

    def open(self, wanted: str) -> None:
        """Goes on with a session: an id, or NEWEST for the newest of this folder, else the newest of all.

        Says what there is to say of it. Raises ChatError where an id is not there, or the folder not to be trusted.
        """
        if not wanted or not self.shelf:
            return
        name = wanted if wanted != NEWEST else find_newest(self.shelf, str(Path.cwd()))
        for line in self.resume(name) if name else [self._chat.words("sessions.none")]:
            self._say(line)

    def begin(self) -> None:
        """Begins a new session; the one before stays as it is."""
        self.close()
        self._journal = self._make_journal()
        self._set([], None)
        self._chat.restore([])

    def resume(self, name: str) -> list[str]:
        """Goes on with another session; where another program writes it, with a copy of it. Raises ChatError.

        Gives the sentences to be said: where the talk stands, what is different now, what was damaged.
        """
        words = self._chat.words
        lines: list[str] = []
        if not self.shelf:
            return lines
        found = self.shelf.read(name)
        journal = self._make_journal()
        if journal and journal.resume(name):
            contents = self.shelf.read(name)  # nobody else writes it now
        else:
            contents = found
            lines.append(words("sessions.copied", name=name))
        self.close()
        self._journal = journal
        lines += self._go_on(contents, name)
        if journal and not journal.name:
            journal.copy(contents.entries)
            self._copy_of = name
        return lines + tell_faults(found, words)

    @property
    def shown(self) -> list[Entry]:
        """The records as they may leave the program."""
        return [entry for one in self.entries if (entry := read(strict(write(one), self._hide)))]

    def keep(self, record: Record) -> None:
        """Takes a record down, and before a message of the user what has changed around the talk."""
        if isinstance(record, Message) and (record.role == "user" or self._setup is None):
            setup = replace(describe(self._chat), copy_of=self._copy_of)
            if setup != self._setup:
                self._setup = setup
                self._take_down(setup)
        for message in self._ahead:
            self._take_down(message)
        self._ahead.clear()
        self._take_down(record)

    def close(self) -> None:
        if self._journal:
            self._journal.close()

    def _take_down(self, record: Record) -> None:
        self.entries.append(Entry(time.time(), record))
        if self._journal:
            self._journal.keep(record)

    def _make_journal(self) -> Journal | None:
        return Journal(self.shelf, self._tell_trouble, self._hide) if self.shelf else None

    def _tell_trouble(self, trouble: str) -> None:
        words = self._chat.words
        self._say(words("sessions.trouble", trouble=trouble) if trouble else words("sessions.saved_again"))

    def _go_on(self, contents: Contents, name: str) -> list[str]:
        """The chat's history becomes that of the session."""
        talk = rebuild(contents.entries)
        ahead = missing_answers(talk, self._chat)
        self._chat.restore([*talk.history, *ahead], talk.first_shown, talk.kept)
        self._set(contents.entries, talk.setup)
        self._ahead = ahead
        summary = summarise(name, contents.entries)
        last = next((message.text for message in reversed(talk.history) if message.role == "user"), "")
        words = self._chat.words
        lines = [words("sessions.resumed", name=name, turns=summary.turns, last=shorten(last))]
        return lines + (tell_differences(talk.setup, describe(self._chat), words) if talk.setup else [])

    def _set(self, entries: Iterable[Entry], setup: Setup | None) -> None:
        self.entries = list(entries)
        self._setup, self._copy_of = setup, setup.copy_of if setup else ""
        self._ahead = []


def tell_faults(contents: Contents, words: Words) -> list[str]:
    """What of a file could not be read."""
    lines = [words("sessions.damaged", count=contents.damaged)] if contents.damaged else []
    is_torn = contents.torn and read_line(contents.torn) is None
    return [*lines, words("sessions.torn", size=len(contents.torn))] if is_torn else lines


def find_newest(shelf: Shelf, folder: str) -> str:
    """The session written last among those of a folder, else of all; "" where there is none. Raises ConfigError."""
    ids = shelf.ids()
    for name in ids[:MOST_SEARCHED]:
        setup = rebuild(read_quietly(shelf, name, SETUP_LINE)).setup
        if setup and setup.folder == folder:
            return name
    return ids[0] if ids else ""


def list_sessions(shelf: Shelf, search: str, most: int) -> list[Summary]:
    """The newest sessions; with a search only those where each of its words was said. Raises ConfigError."""
    found: list[Summary] = []
    wanted = search.casefold().split()
    for name in shelf.ids()[:MOST_SEARCHED]:
        entries = read_quietly(shelf, name)
        if entries and is_about(entries, wanted):
            found.append(summarise(name, entries))
            if len(found) == most:
                break
    return found


def read_quietly(shelf: Shelf, name: str, beginning: bytes = b"") -> Sequence[Entry]:
    """A session's records; none of one that cannot be read."""
    try:
        return shelf.read(name, beginning).entries
    except ChatError:
        return ()


def is_about(entries: Iterable[Entry], wanted: Sequence[str]) -> bool:
    texts = (entry.record.text.casefold() for entry in entries if isinstance(entry.record, Message))
    said = "\n".join(texts) if wanted else ""
    return all(word in said for word in wanted)


def summarise(name: str, entries: Sequence[Entry]) -> Summary:
    """A session in one row; its title is what the user said first. What was undone does not count."""
    records = [entry.record for entry in entries]
    undone = find_undone(records)
    said = (one for index, one in enumerate(records) if isinstance(one, Message) and index not in undone)
    asked = [message.text for message in said if message.role == "user"]
    setup = rebuild(entries).setup
    title = next((shorten(text) for text in asked if text.strip()), "")
    return Summary(name, entries[-1].at if entries else 0.0, title, len(asked), setup.model if setup else "")


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1] + "…"


def describe(chat: Chat) -> Setup:
    """With what the chat goes on from here. Nothing of a server's configuration is in it: that may hold secrets."""
    settings, backend = chat.settings, chat.backend
    tools = tuple(chat.toolbox.tools)
    kept = asdict(replace(with_wishes(settings, backend), servers=(), language=chat.words.code))
    system = prompt_of(chat, ())
    return Setup(
        program=__version__,
        model=backend.name,
        backend=type(backend).__name__.lower(),
        template=backend.template,
        family=backend.family.name,
        asks=chat.form,
        accepts=backend.family.accepts,
        context_tokens=backend.context_tokens,
        folder=str(Path.cwd()),
        prompt=hash_text(system[0].text),
        settings=json.loads(json.dumps({key: kept[key] for key in KEPT_SETTINGS})),  # as it is read again
        tools=tools,
    )


def tell_differences(then: Setup, now: Setup, words: Words) -> list[str]:
    """What the model is given otherwise than when the session was last written, one sentence each."""
    lines: list[str] = []
    if then.model != now.model:
        lines.append(words("sessions.other_model", then=then.model, now=now.model))
    elif then.template != now.template:
        lines.append(words("sessions.other_template"))
    before, after = ({tool.full_name: hash_tool(tool) for tool in setup.tools} for setup in (then, now))
    if changed := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
        marks = (f"{'+' if name not in before else '-' if name not in after else '~'}{name}" for name in changed)
        lines.append(words("sessions.other_tools", tools=", ".join(marks)))
    elif then.prompt != now.prompt:
        lines.append(words("sessions.other_prompt"))
    return lines


def missing_answers(talk: Talk, chat: Chat) -> list[Message]:
    """What a talk lacks that was killed in the middle of a turn: a reply, or what came of its calls."""
    history, setup = talk.history, talk.setup or Setup()
    if not history or history[-1].role == "tool":
        return []
    if history[-1].role == "user":
        return [Message("assistant", NOTHING_SAID)]
    scanner = make_scanner(setup.asks or chat.form, setup.accepts, setup.tools)
    seen = [*scanner.feed(history[-1].text), *scanner.close()]
    calls = [event for event in seen if isinstance(event, CallFound | CallGarbled)]
    return first_remarks(calls, chat.prompt_words)
