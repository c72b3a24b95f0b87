"""What must not come out of a command: values of `env` and `headers`, and of the variables that an entry names.

In errors, where a server's last words may hold anything, all of them are hidden. A result is the user's data, so there
only those are hidden that are secrets by their name: TOKEN, Authorization, and the like.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    from ..config import ServerConfig

    Value = TypeVar("Value")

HIDDEN = "[hidden]"
SHORTEST = 4
NAMES = "token|key|secret|pass|pwd|auth|assertion|cred|cookie|session|private|dsn|bearer|signature"
BY_NAME = re.compile(NAMES, re.IGNORECASE)
PLAIN_HEADERS = ("accept", "accept-language", "content-type", "user-agent")
VARIABLE = re.compile(r"\$\{(\w+)")


class Secrets:
    """The values that are hidden; none until a server is known."""

    def __init__(
        self,
        server: ServerConfig | None = None,
        entry: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._all: list[str] = []
        self._by_name: list[str] = []
        if server and entry:
            self._learn(server, entry, environment or {})

    def _learn(self, server: ServerConfig, entry: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """Takes the secrets of a server and of the entry that it was made from, which names the variables."""
        text = str(list(entry.values()))
        oauth: Any = server.oauth
        if not server.env and not server.headers and not oauth and "${" not in text:
            return
        named = {name: environment.get(name, "") for name in VARIABLE.findall(text)}
        headers = {name: value for name, value in server.headers.items() if name.lower() not in PLAIN_HEADERS}
        values = [*server.env.items(), *named.items(), *pick(oauth)]
        by_name = [*headers.values(), *(value for name, value in values if BY_NAME.search(name))]
        by_name += [value.partition(" ")[2] for value in headers.values()]  # the token of "Bearer TOKEN"
        self._by_name = longest_first(by_name)
        self._all = longest_first([*by_name, *(value for _, value in values if not is_common(value))])

    def hide(self, value: Value) -> Value:
        """The value of a result without what is a secret by its name."""
        return replace(value, self._by_name) if self._by_name else value

    def hide_all(self, value: Value) -> Value:
        """The value of an error without any of them."""
        return replace(value, self._all) if self._all else value


def pick(oauth: Any) -> list[tuple[str, str]]:
    """What is secret in a table `oauth`; its grant, say, is not."""
    table = oauth if isinstance(oauth, dict) else {}
    return [(name, value) for name, value in table.items() if BY_NAME.search(name) and isinstance(value, str)]


def longest_first(values: list[str]) -> list[str]:
    """So that of two secrets, of which one begins the other, no rest is seen."""
    return sorted({value for value in values if len(value) >= SHORTEST}, key=len, reverse=True)


def is_common(value: str) -> bool:
    """Whether a value stands everywhere and would only blur an error: a path, a number, a word of the system."""
    return value.startswith(("/", "~", ".")) or value.isdecimal() or value in ("true", "false", "production", "C.UTF-8")


def replace(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, dict):
        return {replace(key, secrets): replace(item, secrets) for key, item in value.items()}
    return [replace(item, secrets) for item in value] if isinstance(value, list | tuple) else value
