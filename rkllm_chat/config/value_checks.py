"""Decode values of configuration files by the types of dataclasses, and report where an invalid one is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..core.errors import ConfigError

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
SECRET_KEYS = ("client_secret", "assertion")
"""Keys of the OAuth table whose values no message repeats."""
MAX_FILE_BYTES = 256 * 1024
_MAX_DOTS = 16
MAX_DEPTH = 32
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


_EXPECTED: dict[Any, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[str, ...]: "a list of texts",
    Mapping[str, str]: "a table of texts",
    Mapping[str, float]: "a table of numbers",
}
"""Types of fields and what an error calls their values; a field may also be Literal, a dataclass, or `| None`."""


@cache
def read_type(kind: type, name: str) -> Any:
    """Return the type of a dataclass's field, without `| None`. Those of a server's take 0.5 ms together."""
    field = SimpleNamespace(__annotations__={name: kind.__annotations__[name]})
    hint = get_type_hints(field, vars(sys.modules[kind.__module__]))[name]
    return get_args(hint)[0] if type(None) in get_args(hint) else hint


def read_types(kind: type) -> dict[str, Any]:
    """Return the types of all fields of a dataclass, by name."""
    return {name: read_type(kind, name) for name in kind.__annotations__}


def decode_table(
    kind: type, table: Any, source: str, place: str, known: Iterable[str] = (), is_expanded: bool = True
) -> dict[str, Any]:
    """Return the values that a table has for the fields of a dataclass, with validated types and ranges.

    Args:
        kind: The dataclass.
        table: Table of the file.
        source: Path of the file for error messages.
        place: Place of the table for error messages.
        known: Accepted keys; all fields if empty.
        is_expanded: The table has no variables; else a text with variables is not compared with the choices.

    Raises:
        ConfigError: A key is unknown, or a value has the wrong type, is out of range or is not among the choices.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: [{place}] must be a table.", path=source)
    check_keys(table, tuple(known) or tuple(kind.__annotations__), source, place)
    values = {key: decode_value(value, read_type(kind, key), source, f"{place}.{key}") for key, value in table.items()}
    complete = {key: value for key, value in values.items() if is_expanded or "${" not in str(value)}
    check_choices(complete, kind, source, place)
    check_ranges(values, source, place)
    return values


def decode_value(value: Any, kind: Any, source: str, place: str) -> Any:
    """Check the type of a value and convert it.

    Args:
        value: Value from the file.
        kind: Type of the field, from `read_type`.
        source: Path of the file for error messages.
        place: Place of the value for error messages.

    Raises:
        ConfigError: The value has another type or is too large.
    """
    if _is_record(kind) and isinstance(value, dict):
        return kind(**decode_table(kind, value, source, place))
    kind = str if get_origin(kind) is Literal else kind
    if not _is_of_type(value, kind):
        expected = _EXPECTED.get(kind, "a table")
        text = f"{source}: {place} must be {expected}{_quote_value(value, kind, place)}."
        raise ConfigError(text, path=source, place=place, expected=expected)
    try:
        return tuple(value) if isinstance(value, list) else float(value) if kind is float else value
    except OverflowError:
        raise ConfigError(f"{source}: {place} is too large a number.", path=source, place=place) from None


def _is_record(kind: Any) -> bool:
    """Tell whether a type of a field is a dataclass."""
    return isinstance(kind, type) and kind not in _EXPECTED and get_origin(kind) is None


def _is_of_type(value: Any, kind: Any) -> bool:
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if kind in (str, bool):
        return isinstance(value, kind)
    items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    is_container = isinstance(value, list if get_origin(kind) is tuple else dict)
    item_kind = get_args(kind)[-1] if get_origin(kind) is not tuple and get_args(kind) else str
    return is_container and kind in _EXPECTED and all(_is_of_type(item, item_kind) for item in items)


def _quote_value(value: Any, kind: Any, place: str) -> str:
    """Quote an invalid value for an error message; "" if it may contain a secret."""
    is_safe = kind != Mapping[str, str] and not _is_record(kind) and not place.endswith(SECRET_KEYS)
    return f", not {value!r}" if is_safe and not isinstance(value, dict | list) else ""


def check_keys(table: Mapping[str, Any], known: tuple[str, ...], source: str, place: str) -> None:
    """Raise ConfigError for the first key of a table that is not in `known`; suggest a similar one."""
    for key in table:
        if key not in known:
            import json
            from difflib import get_close_matches

            similar = get_close_matches(key, known, n=1)
            hint = f'Did you mean "{similar[0]}"?' if similar else f"Known keys: {', '.join(known)}."
            where = f"{place}.{key}" if place else key
            quoted = json.dumps(where, ensure_ascii=False)
            raise ConfigError(f"{source}: unknown key {quoted}.", hint, path=source, place=where)


# Inclusive ranges of numbers, by key.
_RANGES: dict[str, tuple[float, float]] = {
    "timeout_s": (0.001, 86_400),
    "tool_timeouts": (0.001, 86_400),
    "first_s": (0.001, 86_400),
    "connect_s": (0.001, 86_400),
    "ping_s": (0, 86_400),
    "idle_s": (0, 86_400),
    "max_steps": (1, 1000),
    "max_calls": (1, 100_000),
    "context_tokens": (0, 1_000_000),
    "gpu_layers": (-1, 1000),
    "max_tokens": (1, 1_000_000),
    "temperature": (0, 100),
    "top_k": (0, 1_000_000),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (0, 100),
    "base_domain_id": (0, 15),
    "lora_scale": (0, 100),
}


def check_choices(values: Mapping[str, Any], kind: type, source: str, place: str) -> None:
    """Raise ConfigError for a text that the field's Literal does not have."""
    for key in values:
        hint = read_type(kind, key)
        if get_origin(hint) is Literal and values[key] not in get_args(hint):
            text = f'{source}: {place}.{key} is "{values[key]}".'
            raise ConfigError(text, f"Allowed: {', '.join(get_args(hint))}.", path=source, place=f"{place}.{key}")


def check_ranges(table: Mapping[str, Any], source: str, place: str) -> None:
    """Raise ConfigError for a number out of its range."""
    for key, (minimum, maximum) in _RANGES.items():
        value = table.get(key, minimum)
        numbers = value.values() if isinstance(value, dict) else (value,)
        if not all(minimum <= number <= maximum for number in numbers):
            where = f"{place}.{key}"
            text = f"{source}: {where} must be from {minimum:g} to {maximum:.7g}."
            raise ConfigError(text, path=source, place=where)


def describe_values(kind: type, key: str) -> str:
    """Return the accepted values of a field, such as "auto|on|off" or "0-100"; "" if there is no limit."""
    hint = read_type(kind, key)
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    minimum, maximum = _RANGES.get(key, (None, None))
    return "on|off" if hint is bool else "" if minimum is None else f"{minimum:g}-{maximum:.7g}"


def parse_document(loads: Callable[[str], Any], language: str, text: str, source: str) -> Any:
    """Parse text with `loads` (a UTF-8 BOM is skipped); raise ConfigError if it is invalid."""
    try:
        return loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ConfigError(f"{source}: not valid {language}: nested too deep.", path=source) from None
    except ValueError as error:
        raise ConfigError(f"{source}: not valid {language}: {error}.", "The file was not used.", path=source) from None


class RepeatedKeys(dict[str, Any]):
    """An object of a file in which keys occur twice; `repeated` names the first of them."""

    repeated = ""


def build_marked_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; one in which a key occurs twice is a RepeatedKeys."""
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    marked, seen = RepeatedKeys(value), set[str]()
    marked.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return marked


def check_size(text: str | bytes, source: str) -> None:
    """Raise ConfigError for a text larger than the limit."""
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{source}: larger than {MAX_FILE_BYTES // 1024} KiB.", path=source)


# An unterminated string extends to the end, so every character is visited once; a multi-line string may end with two
# quotes before its closing delimiter (TOML 1.0, String).
VALUE_OR_COMMENT = r"""
    "{3} (?:\\.|[^\\])*? (?:"{3,5}|\Z)  |  '{3} .*? (?:'{3,5}|\Z)  |  "(?:\\.|[^"\\\n])*"?  |  '[^'\n]*'?  |  \#[^\n]*
"""
"""Strings and comments of TOML, as a verbose regular expression."""


def check_dotted_keys(text: str, source: str) -> None:
    """Reject TOML keys with too many dots: tomllib takes 13.8 s for a dotted key of 40 kB (measured)."""
    if text.count(".") <= _MAX_DOTS:
        return
    keys_only = re.sub(VALUE_OR_COMMENT, "x", text, flags=re.DOTALL | re.VERBOSE)
    if any(part.count(".") > _MAX_DOTS for part in re.split(r"[=,\[\]{}\n]", keys_only)):
        raise ConfigError(f"{source}: a key has more than {_MAX_DOTS} dots.", path=source)
