"""Read the settings of a model behind a URL: addresses, key, template. Nothing is requested here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from ...core.errors import ConfigError
from ...prompt.chat_templates import TEMPLATES, choose_template
from ...prompt.jinja_template import compile_template, read_template_file
from ...prompt.pieces import Template

_VARIABLE = re.compile(r"[A-Za-z_]\w*")


def load_template(name_or_path: str) -> Template:
    """Return a row of TEMPLATES or the template in a Jinja file.

    Raises:
        ConfigError: There is none of that name, or it cannot be read.
    """
    template: Template | None = choose_template(name_or_path, "")
    if not template and (source := read_template_file(name_or_path)):
        template = compile_template(source)
    if not template:
        hint = f"Set template under [openai]: {', '.join(TEMPLATES)}, or a Jinja file."
        raise ConfigError(f'There is no template "{name_or_path}".', hint)
    return template


def parse_service_urls(text: str, model: str) -> list[tuple[str, str]]:
    """Split a list of URLs into URL and model of each service, in order.

    Args:
        text: URLs separated by blanks, each with its model after `#`.
        model: The model of URLs without one.

    Raises:
        ConfigError: One is not a URL of a service, or contains a password.
    """
    services: list[tuple[str, str]] = []
    for number, url in enumerate(text.split(), 1):
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_valid = False
            parts = urlsplit("")
        if not is_valid or parts.query:
            message = f"URL number {number} of the model is not the URL of a service."
            raise ConfigError(message, "Try http://host:8000/v1#name.")
        if parts.username is not None or parts.password is not None:
            hint = 'Put the key into an environment variable and set [openai] key_env = "NAME".'
            raise ConfigError(f"The URL of {parts.hostname} contains a password.", hint)
        path = parts.path.rstrip("/") or "/v1"
        services.append((f"{parts.scheme}://{parts.netloc}{path}", unquote(parts.fragment) or model))
    if not services:
        raise ConfigError("The URL of the model is missing.", "Try --model http://host:8000/v1#name.")
    return services


def is_loopback(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def read_api_key(name: str, environment: Mapping[str, str]) -> str:
    """Return the key in an environment variable; "" if no variable is named.

    Raises:
        ConfigError: The variable is missing or its value cannot be a key, which the message never shows.
    """
    if not name:
        return ""
    if not _VARIABLE.fullmatch(name):
        hint = "Put the key into a variable and set key_env to its name."
        raise ConfigError("[openai] key_env is not the name of an environment variable.", hint)
    api_key = environment.get(name, "").strip()
    shown_name = name if name.isupper() else "that [openai] key_env names"
    if not api_key:
        raise ConfigError(f"The environment variable {shown_name} is not set.", "Set it to the key of the service.")
    if not api_key.isascii() or not api_key.isprintable():
        message = f"The environment variable {shown_name} contains characters that no key has."
        raise ConfigError(message, "Check that key_env names the right variable.")
    return api_key
