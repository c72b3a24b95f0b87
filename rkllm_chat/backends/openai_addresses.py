"""What the settings say of a model behind a URL: where it is, with which key, and in which template. It asks nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..errors import ConfigError
from ..templates import TEMPLATES, Template, choose_template, jinja_template

VARIABLE = re.compile(r"[A-Za-z_]\w*")


def read_template(named: str) -> Template:
    """A row of TEMPLATES or a Jinja file. Raises ConfigError."""
    path = Path(named).expanduser()
    found = choose_template(named, "") or (jinja_template(path.read_text(encoding="utf-8")) if path.is_file() else None)
    if not found:
        raise ConfigError(
            f'There is no template "{named}".', f"Set template under [openai]: {', '.join(TEMPLATES)}, or a Jinja file."
        )
    return found


def read_addresses(text: str, model: str) -> list[tuple[str, str]]:
    """URL and model of each service, in order. Raises ConfigError for what is no URL, or holds a secret."""
    found: list[tuple[str, str]] = []
    for place, word in enumerate(text.split(), 1):
        try:
            parts = urlsplit(word)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            good = False
            parts = urlsplit("")
        if not good or parts.query:
            raise ConfigError(
                f"The model's URL number {place} is no URL of a service.", "Try http://host:8000/v1#name."
            )
        if parts.username is not None or parts.password is not None:
            hint = 'Put it into an environment variable and name that: [openai] key_env = "NAME".'
            raise ConfigError(f"The URL of {parts.hostname} holds a password.", hint)
        path = parts.path.rstrip("/") or "/v1"
        found.append((f"{parts.scheme}://{parts.netloc}{path}", unquote(parts.fragment) or model))
    if not found:
        raise ConfigError("The model's URL is missing.", "Try --model http://host:8000/v1#name.")
    return found


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def read_secret(name: str, environment: Mapping[str, str]) -> str:
    """The key in an environment variable; "" where none is named. Raises ConfigError, which never shows a key."""
    if not name:
        return ""
    if not VARIABLE.fullmatch(name):
        raise ConfigError(
            "[openai] key_env is not the name of an environment variable.", "Put the key into one, and name it here."
        )
    secret = environment.get(name, "").strip()
    shown = name if name.isupper() else "that [openai] key_env names"
    if not secret:
        raise ConfigError(f"The environment variable {shown} is not set.", "It is to hold the key of the service.")
    if not secret.isascii() or not secret.isprintable():
        raise ConfigError(f"The environment variable {shown} holds what cannot be a key.", "Is it the right one?")
    return secret
