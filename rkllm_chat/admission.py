"""Which servers of a folder's files may start: those that the user has accepted. It shows how each would be started.

What was shown is what is started: the same settings, read once, are shown, remembered and opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from .clean import clean_line, reveal
from .config import ServerConfig
from .elicitation import Person
from .errors import ChatError
from .language import Words
from .trust import Accepted, changes_loading, describe_start, find_absolute, hash_of, is_wanted, refusal

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "cmd.exe", "powershell", "pwsh"))
ROOT = frozenset(("sudo", "doas", "pkexec", "su"))
FETCHERS = frozenset(("npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman"))
VERSION = re.compile(r".@\d|==\d|@sha256:")


class Gate:
    """Asks about servers, remembers the answers, and says which may start. A "no" holds until the program ends."""

    def __init__(self, state: Path | None) -> None:
        self.accepted = Accepted(str(state) if state else None)
        self._declined: set[str] = set()

    def admit(self, servers: Iterable[ServerConfig]) -> tuple[ServerConfig, ...]:
        return tuple(one for one in servers if self.accepted.may_start(one))

    def refusals(self, servers: Iterable[ServerConfig]) -> dict[str, ChatError]:
        """Server -> why it is not started."""
        return {one.name: refusal(one) for one in servers if is_wanted(one) and not self.accepted.may_start(one)}

    async def ask(self, servers: Iterable[ServerConfig], person: Person | None, words: Words) -> None:
        """Puts each server that waits for it to a person, once."""
        for server in servers:
            mark = hash_of([server.name, describe_start(server)])
            if person is None or not is_wanted(server) or mark in self._declined or self.accepted.may_start(server):
                continue
            if await person.agree("\n".join([*describe_server(server, words), words("trust.start")])):
                self.accepted.accept(server)
            else:
                self._declined.add(mark)

    def reconsider(self) -> None:
        """Forgets what was declined, so that it is asked about again."""
        self._declined.clear()


def describe_server(server: ServerConfig, words: Words) -> list[str]:
    """How a server would be started or reached, nothing left out, and what is notable about that."""
    lines = [words("trust.named", server=clean_line(server.name), file=clean_line(server.source))]
    told = describe_start(server)
    if server.command:
        told["command"] = find_absolute(server)
    first = [key for key in ("command", "args", "url", "cwd") if key in told]
    for key in [*first, *(key for key in told if key not in (*first, "name"))]:
        lines.append(f"  {key} = {write(told[key])}")
    return lines + [f"  {words(f'trust.{why}', **values)}" for why, values in find_notable(server)]


def write(value: object) -> str:
    """A value for somebody who is to judge it; the words of a list each by itself."""
    values: Sequence[object] = value if isinstance(value, list | tuple) else [value]
    return " ".join(reveal(clean_line(json.dumps(one, ensure_ascii=False, default=str))) for one in values)


def find_notable(server: ServerConfig) -> Iterator[tuple[str, Mapping[str, str]]]:
    """What makes a start worth a second look: (key of the language table "trust", its values)."""
    program = Path(server.command).name
    if {program, *(Path(word).name for word in server.args)} & ROOT:
        yield "root", {}
    if program in SHELLS:
        yield "shell", {}
    if program in FETCHERS and not any(VERSION.search(word) for word in server.args):
        yield "unpinned", {}
    everything = ("/", "~", str(Path.home()))
    for word in server.args:
        path = word.rpartition("=")[2]
        if path and (path.rstrip("/") or "/") in everything:
            yield "everything", {"path": reveal(clean_line(path))}
    for name in sorted(server.env):
        if changes_loading(name):
            yield "loading", {"name": reveal(clean_line(name))}
