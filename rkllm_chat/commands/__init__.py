"""COMMANDS: what a line beginning with / does. A command yields events, as a turn does; it prints nothing.

To add one, write an async generator under `@command` in a file here that is imported below; its word in the help is
`commands.NAME` of the language file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ..desk import Desk
from ..events import Event, Notice

Stream = AsyncGenerator[Event, None]
Suggest = Callable[[Desk, str], Awaitable[Sequence[str]]]


@dataclass(frozen=True)
class Command:
    """`names`: the first is the one that the help explains. `run` takes the desk and what follows the name.

    `suggest` gives what the last word of that may be, for the completion of a line that is typed.
    """

    names: tuple[str, ...]
    usage: str
    run: Callable[[Desk, str], Stream]
    suggest: Suggest


NEAR = 0.7
SLASHES = ("/", "／")
COMMANDS: dict[str, Command] = {}


async def suggest_nothing(_desk: Desk, _typed: str) -> Sequence[str]:
    return ()


def command(
    *names: str, usage: str = "", suggest: Suggest = suggest_nothing
) -> Callable[[Callable[[Desk, str], Stream]], Callable[[Desk, str], Stream]]:
    """Puts the decorated function into COMMANDS under all its names."""

    def enter(run: Callable[[Desk, str], Stream]) -> Callable[[Desk, str], Stream]:
        entry = Command(names, usage, run, suggest)
        COMMANDS.update(dict.fromkeys(names, entry))
        return run

    return enter


def is_command(line: str) -> bool:
    """Whether a line is for us: it begins with /, also with the wide one of an input method. Two begin a message."""
    return line.startswith(SLASHES) and (len(line) < 3 or not line[1:].startswith(SLASHES))


def run(desk: Desk, line: str) -> Stream:
    """The stream of a line that is for us; an unknown name is a notice."""
    name, _, argument = line.strip().partition(" ")
    entry = find(name)
    return entry.run(desk, argument.strip()) if entry else unknown(desk, name)


def leaves(line: str) -> bool:
    """Whether a line is the command that ends the chat; it need not wait for anything."""
    entry = find(line.strip())
    return entry is not None and entry.names[0] == "/quit"


def find(name: str) -> Command | None:
    return COMMANDS.get(f"/{name[1:]}".lower()) if name.startswith(SLASHES) else None


async def unknown(desk: Desk, name: str) -> Stream:
    """Says which command is near the name, or how a message begins with a slash."""
    near = get_close_matches(name.lower(), COMMANDS, 1, NEAR)
    yield Notice(desk.words("commands.near" if near else "commands.unknown", name=name, near="".join(near)))


from . import (  # noqa: E402 - they fill the table
    basics,  # noqa: F401
    history,  # noqa: F401
    model,  # noqa: F401
    permissions,  # noqa: F401
    resources,  # noqa: F401
    servers,  # noqa: F401
    sessions,  # noqa: F401
    tools,  # noqa: F401
)
