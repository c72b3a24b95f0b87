"""What a person says, with the files and resources that go with it. It is shown to the model as data; all of it
together takes what the results of a reply may, a share of what is free.

`@path` and `@URI` in a line mean a file of this machine and a resource of a server; `/resource` puts one in by hand.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ChatError, UsageError
from .events import Event, Notice, Usage
from .foreign import disarm, disarm_line, fence_of
from .messages import Message
from .window import share_of

if TYPE_CHECKING:
    from .desk import Desk
    from .servers.toolbox import Toolbox as Box

MENTION = re.compile(r"(?<!\S)@(\S+)")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
LARGEST_FILE = 4 << 20
LARGEST_COUNTED = 16 << 10
"""Bytes of an attachment that is counted while the line is still typed, again and again."""
TRAILING = ".,;:!?)\"'」。、"


@dataclass(frozen=True)
class Attached:
    """A text that goes with the next message; `kind` is its media type, `size` in bytes before anything is cut."""

    name: str
    kind: str
    size: int
    text: str


async def say(desk: Desk, line: str) -> AsyncGenerator[Event, None]:
    """One turn with a line and what is attached to it; what cannot be had is told, and the line is not sent."""
    try:
        found = [await fetch(desk, name) for name in mentions(line)]
    except ChatError as error:
        yield Notice(desk.words("attach.failed", reason=error))
        return
    attached, desk.attached = [*desk.attached, *found], []
    for one in found:
        yield Notice(describe(desk, one))
    text = join(desk, line, attached)
    async with aclosing(desk.chat.send(text)) as turn:
        async for event in turn:
            yield event


def as_sent(desk: Desk, line: str) -> str | None:
    """The text that `say` would send; None where what goes with it is not cheap to have. Raises UsageError."""
    names = mentions(line)
    small = all(one.size <= LARGEST_COUNTED for one in desk.attached)
    if not small or any(URI.fullmatch(name) or not is_small(name) for name in names):
        return None
    return join(desk, line, [*desk.attached, *map(read_file, names)])


def is_small(name: str) -> bool:
    try:
        return Path(name).expanduser().stat().st_size <= LARGEST_COUNTED
    except OSError:
        return False


def join(desk: Desk, line: str, attached: Sequence[Attached]) -> str:
    """The line and what goes with it; together that takes what the results of one reply may."""
    if not attached:
        return line
    shares = share_of(desk.chat, Usage()).fit([Message("tool", one.text) for one in attached], 0)
    framed = (frame(desk, one, share.text) for one, share in zip(attached, shares, strict=True))
    return "\n\n".join([line, *framed])


def mentions(line: str) -> list[str]:
    """What a line names behind @: whatever is a URI or a path of a file that is there.

    >>> mentions("mail me@example.org about @board://status, please")
    ['board://status']
    """
    names = (match.rstrip(TRAILING) for match in MENTION.findall(line))
    return list(dict.fromkeys(name for name in names if URI.fullmatch(name) or Path(name).expanduser().exists()))


async def fetch(desk: Desk, name: str) -> Attached:
    """A resource by its URI, or a file. Raises ChatError."""
    return await fetch_resource(desk, name) if URI.fullmatch(name) else read_file(name)


async def fetch_resource(desk: Desk, uri: str) -> Attached:
    if not desk.servers:
        raise UsageError("There are no servers to read a resource from.")
    server = await find_owner(desk.servers, uri)
    if server is None:
        raise UsageError(f"No server lists {uri}.", "/resources shows what they have.")
    kind, text = await desk.servers.read_text(uri, server)
    return Attached(uri, kind, len(text.encode("utf-8", errors="replace")), text)


async def find_owner(box: Box, uri: str) -> str | None:
    """The server that has named the resource, or a template that it may come from; no other is asked for it."""
    for server, listed in await box.list_resources():
        if str(listed.uri) == uri:
            return server
    for server, template in await box.list_templates():
        if uri.startswith(template.uri_template.partition("{")[0]):
            return server
    return None


def read_file(name: str) -> Attached:
    """A text file. Raises UsageError."""
    path = Path(name).expanduser()
    try:
        if not path.is_file():
            raise UsageError(f"{name} is not a file.")
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}.") from None
    if len(data) > LARGEST_FILE:
        size = max(len(data), path.stat().st_size)
        raise UsageError(f"{name} is {size} bytes long, a message holds {LARGEST_FILE}.", "Have a tool read it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not a text in UTF-8.") from None
    if "\0" in text:
        raise UsageError(f"{name} is not a text.")
    return Attached(name, "text/plain", len(data), text)


def describe(desk: Desk, one: Attached) -> str:
    """What was attached, in one line of the kind people know."""
    if URI.fullmatch(one.name):
        return desk.words("attach.resource", uri=one.name, kind=one.kind, size=one.size)
    return desk.words("attach.file", name=one.name, size=one.size)


def frame(desk: Desk, one: Attached, text: str) -> str:
    """So much of its text as the model is shown of it: named and fenced."""
    text = disarm(text)
    mark, name, kind = fence_of(text), disarm_line(one.name), disarm_line(one.kind)
    return f"{desk.chat.prompt_words('prompt.attached', name=name, kind=kind)}\n{mark}\n{text}\n{mark}"
