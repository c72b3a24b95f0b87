"""What a person says, with the files and resources that go with it. It is shown to the model as data, cut to fit.

`@path` and `@URI` in a line mean a file of this machine and a resource of a server; `/resource` puts one in by hand.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ChatError, UsageError
from .events import Event, Notice

if TYPE_CHECKING:
    from .desk import Desk
    from .servers.toolbox import Toolbox as Box

MENTION = re.compile(r"(?<!\S)@(\S+)")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
LARGEST_FILE = 4 << 20
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
        yield Notice(desk.words("attach.failed", reason=error.message))
        return
    attached, desk.attached = [*desk.attached, *found], []
    for one in found:
        yield Notice(describe(desk, one))
    text = "\n\n".join([line, *(frame(desk, one) for one in attached)])
    async with aclosing(desk.chat.send(text)) as turn:
        async for event in turn:
            yield event


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
        raise UsageError(f"{name} is larger than {LARGEST_FILE >> 20} MB.")
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


def frame(desk: Desk, one: Attached) -> str:
    """The text as the model is shown it: named, fenced, and no larger than a result may be."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", one.text)), default=0))
    text = desk.chat.cut(one.text)
    return f"{desk.chat.prompt_words('prompt.attached', name=one.name, kind=one.kind)}\n{fence}\n{text}\n{fence}"
