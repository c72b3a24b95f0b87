"""Registry of slash commands: registration, lookup and dispatch.

Commands emit events, as turns do, and print nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches

from ...chat.app import App
from ...chat.event_stream import Emit
from ...core.errors import ChatError, UsageError
from ...core.events import Notice
from ...core.i18n import Words
from ...core.sanitize import sanitize_line
from .suggestions import MIN_SIMILARITY, find_title, suggest_commands

RunCommand = Callable[[App, str, Emit], Awaitable[None]]
SuggestArguments = Callable[[App, str], Awaitable[Sequence[str]]]


@dataclass(frozen=True)
class Command:
    """A slash command.

    Attributes:
        names: Name and aliases, each with its slash; the first one is documented.
        usage: The arguments, as help shows them.
        run: Called with the app, the text after the name, and what takes the events.
        suggest: Returns completions for the last word of that text.
        about: What it does, in English.
        example: A line that calls it; "" where its name alone is all that can be written.
    """

    names: tuple[str, ...]
    usage: str
    run: RunCommand
    suggest: SuggestArguments
    about: str
    example: str = ""

    def describe(self, words: Words) -> str:
        """Return what the command does, in the user's language if that has a sentence for it."""
        return words.sentences.get(f"command_help.{self.names[0]}", self.about)


@dataclass(frozen=True)
class CommandSource:
    """Further commands: prompts of the user and of servers, which come and go, and those of plugins.

    Attributes:
        find: Returns the command of a name without its slash; None if there is none.
        list_names: Returns the description of each command by its name with the slash.
    """

    find: Callable[[App, str], Awaitable[Command | None]]
    list_names: Callable[[App], Awaitable[Mapping[str, str]]]


_SLASHES = ("/", "／")
_PATH = re.compile(r"([/／][^\s/／:]+)[/／]")
"""The beginning of a path of at least two parts; the name of a server's prompt has a colon."""
COMMANDS: dict[str, Command] = {}
SOURCES: list[CommandSource] = []
RENAMED: dict[str, str] = {
    "/history": "/calls",
    "/image": "/attach",
    "/language": "/set language",
    "/prompts": "/prompt",
    "/resume": "/sessions resume",
    "/thinking": "/set thinking",
    "/unwatch": "/resources unwatch",
    "/usage": "/context usage",
    "/watch": "/resources watch",
}
"""Commands that became parts of others -> what to write now. They are not shown, and go in version 0.3."""


def suggest_words(*words: str) -> SuggestArguments:
    """Return what suggests these words for an argument."""

    async def suggest(_app: App, _typed: str) -> Sequence[str]:
        return words

    return suggest


suggest_nothing = suggest_words()


def command(
    *names: str, usage: str = "", example: str = "", suggest: SuggestArguments = suggest_nothing
) -> Callable[[RunCommand], RunCommand]:
    """Register the decorated coroutine function in COMMANDS under all `names`.

    The first line of its docstring is the help of the command, which languages translate in `[command_help]`.
    """

    def register(run: RunCommand) -> RunCommand:
        COMMANDS.update(dict.fromkeys(names, make_command(run, names, usage, example, suggest)))
        return run

    return register


def make_command(
    run: RunCommand,
    names: tuple[str, ...],
    usage: str = "",
    example: str = "",
    suggest: SuggestArguments = suggest_nothing,
) -> Command:
    """Return the command that a coroutine function is; the first line of its docstring is its help."""
    summary = (run.__doc__ or "").partition("\n")[0].removesuffix(".")
    return Command(names, usage, run, suggest, summary[:1].lower() + summary[1:], example)


def is_command(line: str) -> bool:
    """Whether a line is a command: it begins with one slash, ASCII or full-width.

    Two slashes begin a message, and so does `/!`, or a path such as `/home/mira`, whose beginning is no command.
    """
    if not line.startswith(_SLASHES) or (len(line) > 2 and line[1:].startswith((*_SLASHES, "!"))):
        return False
    path = _PATH.match(line)
    return path is None or find(path[1]) is not None


def remove_escape(line: str) -> str:
    """Return the message that a line is which is no command, without the slash that escapes another one or `!`."""
    return line[1:] if line.startswith(_SLASHES) and not _PATH.match(line) else line


def is_known(line: str) -> bool:
    """Whether a line calls a command of the program."""
    return is_command(line) and find(line.partition(" ")[0]) is not None


def escape_message(text: str) -> str:
    """Return the line that sends a text as a message, whatever it begins with."""
    return f"/{text}" if text.startswith("!") or is_command(text) else text


async def run(app: App, line: str, emit: Emit) -> None:
    """Run a command line; for an unknown name, emit a notice.

    Raises:
        UsageError: The command takes no argument, and there is one.
    """
    name, _, argument = line.strip().partition(" ")
    renamed = RENAMED.get(_normalize(name), name)
    name, _, argument = f"{renamed} {argument}".strip().partition(" ")
    entry = find(name)
    if entry and argument and not entry.usage:
        raise UsageError(f"{entry.names[0]} takes no argument.", f"Write {entry.names[0]} alone.")
    entry = entry or await find_other(app, name)
    if entry:
        await entry.run(app, argument.strip(), emit)
        return
    await emit(await describe_unknown(app, name, name))


async def describe_unknown(app: App, name: str, shown: str) -> Notice:
    """Return a notice with what to write instead, or with how to send a message that begins with a slash."""
    near = suggest_commands(name, [*COMMANDS, *await list_other(app)], app.words)
    title = "" if near else find_title(name, app.words)
    key = "near" if near else "topic" if title else "unknown"
    return Notice(app.words(f"commands.{key}", name=shown, near=", ".join(near), word=name[1:], title=title))


async def find_other(app: App, name: str) -> Command | None:
    """Return the command of a name from the sources. Raises ChatError if its source fails."""
    for source in SOURCES:
        if entry := await source.find(app, name[1:]):
            return entry
    return None


async def list_other(app: App) -> dict[str, str]:
    """Return the commands of the sources with their descriptions; a source that fails has none."""
    found: dict[str, str] = {}
    for source in SOURCES:
        with suppress(ChatError):
            found.update(await source.list_names(app))
    return {name: about for name, about in found.items() if name not in COMMANDS}


def suggest_nearest(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint that names the known word closest to `word`, or `otherwise` if none is close."""
    closest = get_close_matches(word.lower(), known, 1, MIN_SIMILARITY)
    return f"Did you mean {closest[0]}?" if closest else otherwise


def parse_words(words: Iterable[str], hint: str) -> dict[str, str]:
    """Parse `name=value` words. Raises UsageError for a repeated name, and with `hint` for another form."""
    arguments: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f'"{sanitize_line(word)}" is not of the form name=value.', hint)
        if name in arguments:
            raise UsageError(f'The argument "{sanitize_line(name)}" occurs twice.', "Write it once.")
        arguments[name] = value
    return arguments


def leaves(line: str) -> bool:
    """Whether the line is the quit command, which runs before the app is open."""
    entry = find(line.strip())
    return entry is not None and entry.names[0] == "/quit"


def needs_no_turn(line: str) -> bool:
    """Whether the line only asks how something is done, so that it need not wait for what runs."""
    entry = find(line.strip().partition(" ")[0]) if is_command(line) else None
    return entry is not None and entry.names[0] == "/help"


def find(name: str) -> Command | None:
    """Return the command of a name, or the one that it is a part of now; None if there is none."""
    key = _normalize(name)
    return COMMANDS.get(RENAMED[key].partition(" ")[0] if key in RENAMED else key)


def _normalize(name: str) -> str:
    """Return the name of a command in lower case, with an ASCII slash."""
    return f"/{name[1:]}".lower() if name.startswith(_SLASHES) else name
