"""Validate values of configuration files and report where an invalid one is.

One-shot commands import this module before they start a server, so it imports next to nothing (dataclasses 8 ms, typing
2 ms).
"""

from __future__ import annotations

import re

from ..core.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal

    LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

MAX_FILE_BYTES = 256 * 1024
_MAX_DOTS = 16
MAX_DEPTH = 32
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_VARIABLE = r"\$\{(\w+)(?::-([^}]*))?\}"


def expand_variables(value: Any, environment: Mapping[str, str] | None, source: str, place: str, depth: int = 0) -> Any:
    """Expand `${VAR}` and `${VAR:-default}` in every string of a value.

    Args:
        value: Any JSON-like value.
        environment: Values of the variables; None leaves the references as they are.
        source: Path of the file for error messages.
        place: Place of the value for error messages.
        depth: Current nesting depth.

    Raises:
        ConfigError: A variable without default is not set, the value is nested too deep, or a text in it cannot be
            passed to a program.
    """
    if depth > MAX_DEPTH:
        raise ConfigError(f"{source}: {place.partition('[')[0]} is nested too deep.", path=source)
    if isinstance(value, dict):
        for key in value:
            _check_characters(key, source, place)
        return {
            key: expand_variables(item, environment, source, f"{place}.{key}".lstrip("."), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(
            expand_variables(item, environment, source, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)
        )
    if not isinstance(value, str):
        return value
    _check_characters(value, source, place)
    if environment is None or "${" not in value:
        return value

    def expand_match(match: re.Match[str]) -> str:
        variable = environment.get(match[1]) or match[2]
        if variable is None:
            hint = f"Set the variable, or write ${{{match[1]}:-default}}."
            raise ConfigError(f"{source}: {place} uses the variable {match[1]}, which is not set.", hint, path=source)
        return variable

    end = value.rfind("}") + 1  # no reference ends after it, and each "${" there would make the search scan to the end
    return re.sub(_VARIABLE, expand_match, value[:end]) + value[end:]


def _check_characters(text: str, source: str, place: str) -> None:
    """Raise ConfigError for a text that no program can be given: with NUL, or half of a surrogate pair (JSON)."""
    if "\0" in text:
        raise ConfigError(f"{source}: {place} contains a NUL character.", path=source)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{source}: {place} contains half of a surrogate pair.", path=source) from None


def find_variables(value: Any, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a value references and that are set."""
    names = re.findall(r"\$\{(\w+)", str(value))
    return {name: environment[name] for name in names if environment.get(name)}


_TYPES: dict[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    "str": ("a text", lambda value: isinstance(value, str), str),
    "LogLevel": ("a text", lambda value: isinstance(value, str), str),
    "Mode": ("a text", lambda value: isinstance(value, str), str),
    "bool": ("true or false", lambda value: isinstance(value, bool), bool),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool), int),
    "float": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool), float),
    "tuple[str, ...]": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
        tuple,
    ),
    "Mapping[str, str]": (
        "a table of texts",
        lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
        dict,
    ),
    "OAuth": ("a table", lambda value: isinstance(value, dict), dict),
}


def convert_value(value: Any, kind: str, source: str, place: str) -> Any:
    """Check the type of a value and convert it.

    Args:
        value: Value from the file.
        kind: Type name, a key of the reader table; may end with " | None".
        source: Path of the file for error messages.
        place: Place of the value for error messages.

    Raises:
        ConfigError: The value has another type or is too large.
    """
    expected, is_valid, convert = _TYPES[kind.removesuffix(" | None")]
    if not is_valid(value):
        raise ConfigError(
            f"{source}: {place} must be {expected}{_quote_value(value, kind, place)}.", path=source, expected=expected
        )
    try:
        return convert(value)
    except OverflowError:
        raise ConfigError(f"{source}: {place} is too large a number.", path=source) from None


def _quote_value(value: Any, kind: str, place: str) -> str:
    """Quote an invalid value for an error message; "" if it may contain a secret."""
    from .oauth import SECRET_KEYS

    is_safe = kind not in ("Mapping[str, str]", "OAuth") and not place.endswith(SECRET_KEYS)
    return f", not {value!r}" if is_safe and not isinstance(value, dict | list) else ""


def check_keys(table: Mapping[str, Any], known: tuple[str, ...], source: str, place: str) -> None:
    """Raise ConfigError for the first key of a table that is not in `known`; suggest a similar one."""
    for key in table:
        if key not in known:
            import json
            from difflib import get_close_matches

            similar = get_close_matches(key, known, n=1)
            hint = f'Did you mean "{similar[0]}"?' if similar else f"Known keys: {', '.join(known)}."
            where = json.dumps(f"{place}.{key}" if place else key, ensure_ascii=False)
            raise ConfigError(f"{source}: unknown key {where}.", hint, path=source)


# Inclusive ranges of numbers, by key.
_RANGES: dict[str, tuple[float, float]] = {
    "timeout_s": (0.001, 86_400),
    "first_s": (0.001, 86_400),
    "connect_s": (0.001, 86_400),
    "ping_s": (0, 86_400),
    "idle_s": (0, 86_400),
    "max_steps": (1, 1000),
    "max_calls": (1, 100_000),
    "tools_share": (0, 1),
    "context_tokens": (0, 1_000_000),
    "max_tokens": (1, 1_000_000),
    "temperature": (0, 100),
    "top_k": (0, 1_000_000),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (0, 100),
    "base_domain_id": (0, 15),
    "lora_scale": (0, 100),
}


# Accepted strings, by key.
_CHOICES: dict[str, tuple[str, ...]] = {
    "api": ("auto", "completions", "chat"),
    "approve": ("ask", "read-only", "all", "none"),
    "log_level": LOG_LEVELS,
    "history": ("auto", "client", "runtime"),
    "thinking": ("auto", "on", "off"),
    "sandbox": ("auto", "on", "off"),
    "trust": ("off", "ask", "trusted"),
}


def check_values(table: Mapping[str, Any], source: str, place: str) -> None:
    """Raise ConfigError for numbers out of range and strings that are not among the choices."""
    for key, choices in _CHOICES.items():
        if key in table and table[key] not in choices:
            raise ConfigError(
                f'{source}: {place}.{key} is "{table[key]}".', f"Allowed: {', '.join(choices)}.", path=source
            )
    for key, (minimum, maximum) in _RANGES.items():
        if key in table and not minimum <= table[key] <= maximum:
            raise ConfigError(f"{source}: {place}.{key} must be from {minimum:g} to {maximum:g}.", path=source)


def parse_document(loads: Callable[[str], Any], language: str, text: str, source: str) -> Any:
    """Parse text with `loads` (a UTF-8 BOM is skipped); raise ConfigError if it is invalid."""
    try:
        return loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ConfigError(f"{source}: not valid {language}: nested too deep.", path=source) from None
    except ValueError as error:
        raise ConfigError(f"{source}: not valid {language}: {error}.", "The file was not used.", path=source) from None


def build_unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; raise ValueError if a key occurs twice."""
    value = dict(pairs)
    for key in value:
        if len(value) < len(pairs) and [name for name, _ in pairs].count(key) > 1:
            raise ValueError(f'the key "{key}" occurs twice in one object')
    return value


def check_size(text: str | bytes, source: str) -> None:
    """Raise ConfigError for a text larger than the limit."""
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{source}: larger than {MAX_FILE_BYTES // 1024} KiB.", path=source)


# An unterminated string extends to the end, so every character is visited once; a multi-line string may end with two
# quotes before its closing delimiter (TOML 1.0, String).
_VALUE_OR_COMMENT = r"""
    "{3} (?:\\.|[^\\])*? (?:"{3,5}|\Z)  |  '{3} .*? (?:'{3,5}|\Z)  |  "(?:\\.|[^"\\\n])*"?  |  '[^'\n]*'?  |  \#[^\n]*
"""


def check_dotted_keys(text: str, source: str) -> None:
    """Reject TOML keys with too many dots: tomllib takes 13.8 s for a dotted key of 40 kB (measured)."""
    if text.count(".") <= _MAX_DOTS:
        return
    keys_only = re.sub(_VALUE_OR_COMMENT, "x", text, flags=re.DOTALL | re.VERBOSE)
    if any(part.count(".") > _MAX_DOTS for part in re.split(r"[=,\[\]{}\n]", keys_only)):
        raise ConfigError(f"{source}: a key has more than {_MAX_DOTS} dots.", path=source)
