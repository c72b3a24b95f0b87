"""Secrets of a configuration: which values a Redactor has to hide, and which are written literally in a file.

One-shot commands import this before their server is started, so it imports next to nothing.
"""

from __future__ import annotations

import re

from ..core.redact import MIN_NAMED_LENGTH, SECRET_NAME, Redactor, contains_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .settings import ServerConfig, Settings

_PLAIN_HEADERS = ("accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version")
_VARIABLE = re.compile(r"\$\{(\w+)")


def make_redactor(
    server: ServerConfig, entry: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Redactor:
    """Return a redactor that knows the secrets of one server.

    Args:
        server: Its settings.
        entry: The entry of the file, whose `${VAR}` references name secrets.
        environment: Values of those variables.
    """
    redactor = Redactor()
    if entry:
        text = str(list(entry.values()))
        redactor.add_variables({name: (environment or {}).get(name, "") for name in _VARIABLE.findall(text)})
    add_server_secrets(redactor, server)
    return redactor


def add_settings_secrets(redactor: Redactor, settings: Settings, environment: Mapping[str, str]) -> None:
    """Add all secrets of the settings: variables, servers and the key of the model API."""
    redactor.add_variables(settings.variables)
    redactor.add(environment.get(settings.openai.key_env, ""))
    for server in settings.servers:
        add_server_secrets(redactor, server)


def add_server_secrets(redactor: Redactor, server: ServerConfig) -> None:
    """Add the values of a server's env, headers, URL and OAuth settings."""
    redactor.add_named(server.env.items())
    headers = [value for name, value in server.headers.items() if name.lower() not in _PLAIN_HEADERS]
    redactor.add(*headers, *(value.rpartition(" ")[2] for value in headers))  # the token of "Bearer TOKEN"
    oauth: Any = server.oauth
    for name in ("client_secret", "clientSecret", "assertion"):
        value = oauth.get(name) if isinstance(oauth, dict) else getattr(oauth, name, "")
        redactor.add(value if isinstance(value, str) else "")
    if "?" in server.url or "@" in server.url:
        _learn_url(redactor, server.url)


def _learn_url(redactor: Redactor, url: str) -> None:
    from urllib.parse import parse_qsl, unquote, urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return
    password = parts.password or ""
    redactor.add(password, unquote(password))
    redactor.add_named(parse_qsl(parts.query))


def find_literal_secrets(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Find secrets written literally in server entries instead of as a variable reference.

    Args:
        entries: Pairs of a location (such as a path and table name) and a server entry.

    Returns:
        The dotted location of each literal secret.
    """
    locations: list[str] = []
    for location, entry in entries:
        for table in ("env", "headers", "oauth"):
            values = entry.get(table)
            for name, value in values.items() if isinstance(values, dict) else ():
                if isinstance(value, str) and _is_literal(name, value, table):
                    locations.append(f"{location}.{table}.{name}")
        others = {"url": entry.get("url"), "args": " ".join(map(str, entry.get("args") or ()))}
        locations += [
            f"{location}.{name}" for name, value in others.items() if isinstance(value, str) and contains_key(value)
        ]
    return locations


def _is_literal(name: str, value: str, table: str) -> bool:
    """Return whether a value of table `table` is a secret itself."""
    if "${" in value:
        return False
    is_named = bool(SECRET_NAME.search(name)) and (
        table != "oauth" or name in ("client_secret", "clientSecret", "assertion")
    )
    return (is_named and len(value) >= MIN_NAMED_LENGTH and not value.startswith(("/", "~"))) or contains_key(value)
