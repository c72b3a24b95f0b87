"""Secrets of a configuration: which values a Redactor has to hide, and which are written literally in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..core.redact import MIN_NAMED_LENGTH, SECRET_NAME, Redactor, contains_key
from .servers import ServerConfig
from .value_checks import SECRET_KEYS

if TYPE_CHECKING:
    from .settings import Settings

_PLAIN_HEADERS = ("accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version")
_MIN_ARGUMENT_LENGTH = 4
"""Values of shorter variables are parts of too many arguments."""
_VARIABLE = re.compile(r"\$\{(\w+)")


def make_redactor(
    server: ServerConfig, written: ServerConfig | None = None, environment: Mapping[str, str] | None = None
) -> Redactor:
    """Return a redactor that knows the secrets of one server.

    Args:
        server: Its settings.
        written: The server as its file defines it, whose `${VAR}` references name secrets.
        environment: Values of those variables.
    """
    redactor = Redactor()
    if written:
        names = _VARIABLE.findall(str({**vars(written), "oauth": vars(written.oauth)}))
        variables = {name: (environment or {}).get(name, "") for name in names}
        redactor.add_variables(variables)
        _learn_arguments(redactor, server, variables)
    add_server_secrets(redactor, server)
    return redactor


def add_settings_secrets(redactor: Redactor, settings: Settings, environment: Mapping[str, str]) -> None:
    """Add all secrets of the settings: variables, servers and the key of the model API."""
    redactor.add_variables(settings.variables)
    redactor.add(environment.get(settings.openai.key_env, ""))
    for server in settings.servers:
        add_server_secrets(redactor, server)
        _learn_arguments(redactor, server, settings.variables)


def add_server_secrets(redactor: Redactor, server: ServerConfig) -> None:
    """Add the values of a server's env, headers, URL and OAuth settings, and of options with telling names."""
    _learn_arguments(redactor, server, {})
    redactor.add_named(server.env.items())
    redactor.add_beside(server.env.items())
    sent = [(name, value) for name, value in server.headers.items() if name.lower() not in _PLAIN_HEADERS]
    redactor.add_beside(sent)
    headers = [value for _, value in sent]
    redactor.add(*headers, *(value.rpartition(" ")[2] for value in headers))  # the token of "Bearer TOKEN"
    redactor.add(server.oauth.client_secret, server.oauth.assertion)
    if "?" in server.url or "@" in server.url:
        _learn_url(redactor, server.url)


def _learn_arguments(redactor: Redactor, server: ServerConfig, variables: Mapping[str, str]) -> None:
    """Add the values of options: those whose names suggest a secret, and those that variables have given."""
    given = {name: value for name, value in variables.items() if len(value) >= _MIN_ARGUMENT_LENGTH}
    for option, value in _list_options(server.args):
        held = [(name, text) for name, text in given.items() if text in value]
        if SECRET_NAME.search(option) or held:
            redactor.add_named([(option, value)])
            redactor.add_beside([(option, value), (option.lstrip("-"), value), *held])


def _list_options(args: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line with their values: `--name=value` and `--name value`; "" for other words."""
    before = ""
    for word in args:
        option, separator, value = word.partition("=")
        if word.startswith("-") and separator:
            yield option, value
        elif not word.startswith("-"):
            yield before, word
        before = word if word.startswith("-") and not separator else ""


def _learn_url(redactor: Redactor, url: str) -> None:
    from urllib.parse import parse_qsl, unquote, urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return
    password = parts.password or ""
    redactor.add(password, unquote(password))
    redactor.add_named(parse_qsl(parts.query))


def find_literal_secrets(servers: Iterable[ServerConfig]) -> list[str]:
    """Return the dotted places of secrets written literally in servers instead of as a variable reference."""
    places: list[str] = []
    for server in servers:
        for table, values in (("env", server.env), ("headers", server.headers), ("oauth", vars(server.oauth))):
            places += [
                f"{server.place}.{table}.{name}"
                for name, value in values.items()
                if is_literal_secret(name, value, table)
            ]
        others = {"url": server.url, "args": " ".join(server.args)}
        places += [f"{server.place}.{name}" for name, value in others.items() if contains_key(value)]
    return places


def is_literal_secret(name: str, value: str, table: str) -> bool:
    """Return whether a value of table `table` is a secret itself."""
    if "${" in value:
        return False
    is_named = bool(SECRET_NAME.search(name)) and (table != "oauth" or name in SECRET_KEYS)
    return (is_named and len(value) >= MIN_NAMED_LENGTH and not value.startswith(("/", "~"))) or contains_key(value)
