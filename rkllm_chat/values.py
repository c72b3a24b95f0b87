"""What a value in a configuration file may be, and where one that is wrong stands. It knows no settings.

It is read before a one-shot command starts its server, so it imports next to nothing (dataclasses 8 ms, typing 2 ms).
"""

from __future__ import annotations

import re

from .errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal

    LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

LARGEST_FILE = 256 * 1024
MOST_DOTS = 16
DEEPEST = 32
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
VARIABLE = r"\$\{(\w+)(?::-([^}]*))?\}"


def expand(value: Any, environment: Mapping[str, str], source: str, place: str, depth: int = 0) -> Any:
    """`${VAR}` and `${VAR:-default}` in every text of a value; a missing variable is an error that names it."""
    if depth > DEEPEST:
        raise ConfigError(f"{source}: {place.partition('[')[0]} is nested too deep.", path=source)
    if isinstance(value, dict):
        return {
            key: expand(item, environment, source, f"{place}.{key}".lstrip("."), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(
            expand(item, environment, source, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)
        )
    if not isinstance(value, str):
        return value
    if "\0" in value:
        raise ConfigError(f"{source}: {place} holds a NUL character.", path=source)

    def fill(match: re.Match[str]) -> str:
        found = environment.get(match[1]) or match[2]
        if found is None:
            hint = f"Set it, or write ${{{match[1]}:-default}}."
            raise ConfigError(f"{source}: {place} needs the variable {match[1]}, which is not set.", hint, path=source)
        return found

    if "${" not in value:
        return value
    end = value.rfind("}") + 1  # behind it none can end, and each that begins would be looked for to the end
    return re.sub(VARIABLE, fill, value[:end]) + value[end:]


def find_variables(value: Any, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that stand anywhere in a value, and what they hold."""
    names = re.findall(r"\$\{(\w+)", str(value))
    return {name: environment[name] for name in names if environment.get(name)}


READERS: dict[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
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


def typed(value: Any, kind: str, source: str, place: str) -> Any:
    wanted, fits, convert = READERS[kind.removesuffix(" | None")]
    if not fits(value):
        raise ConfigError(
            f"{source}: {place} must be {wanted}{show(value, kind, place)}.", path=source, expected=wanted
        )
    try:
        return convert(value)
    except OverflowError:
        raise ConfigError(f"{source}: {place} is too large a number.", path=source) from None


def show(value: Any, kind: str, place: str) -> str:
    """A wrong value for an error; nothing where there may be a secret in it."""
    from .oauth import SECRETS

    is_safe = kind not in ("Mapping[str, str]", "OAuth") and not place.endswith(SECRETS)
    return f", not {value!r}" if is_safe and not isinstance(value, dict | list) else ""


def check_keys(table: Mapping[str, Any], known: tuple[str, ...], source: str, place: str) -> None:
    for key in table:
        if key not in known:
            import json
            from difflib import get_close_matches

            near = get_close_matches(key, known, n=1)
            hint = f'Did you mean "{near[0]}"?' if near else f"Known are {', '.join(known)}."
            where = json.dumps(f"{place}.{key}" if place else key, ensure_ascii=False)
            raise ConfigError(f"{source}: unknown key {where}.", hint, path=source)


# What a number may be, both ends included.
RANGES: dict[str, tuple[float, float]] = {
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


# What a text may be.
CHOICES: dict[str, tuple[str, ...]] = {
    "api": ("auto", "completions", "chat"),
    "approve": ("ask", "read-only", "all", "none"),
    "log_level": LOG_LEVELS,
    "history": ("auto", "client", "runtime"),
    "thinking": ("auto", "on", "off"),
    "sandbox": ("auto", "on", "off"),
    "trust": ("off", "ask", "trusted"),
}


def check_values(table: Mapping[str, Any], source: str, place: str) -> None:
    """Numbers within their ranges, texts among their choices."""
    for key, known in CHOICES.items():
        if key in table and table[key] not in known:
            raise ConfigError(
                f'{source}: {place}.{key} is "{table[key]}".', f"Known are {', '.join(known)}.", path=source
            )
    for key, (least, most) in RANGES.items():
        if key in table and not least <= table[key] <= most:
            raise ConfigError(f"{source}: {place}.{key} must be from {least:g} to {most:g}.", path=source)


def parse(loads: Callable[[str], Any], language: str, text: str, source: str) -> Any:
    try:
        return loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ConfigError(f"{source}: not valid {language}: nested too deep.", path=source) from None
    except ValueError as error:
        raise ConfigError(f"{source}: not valid {language}: {error}.", "Nothing of it was used.", path=source) from None


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    for key in value:
        if len(value) < len(pairs) and [name for name, _ in pairs].count(key) > 1:
            raise ValueError(f'the key "{key}" stands twice in one object')
    return value


def check_size(text: str | bytes, source: str) -> None:
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"{source}: larger than {LARGEST_FILE // 1024} KiB.", path=source)


# A text that is not ended reaches to the end, so that each character is passed once; three quotes may be followed by
# two more that belong to the text (TOML 1.0, String).
VALUE_OR_COMMENT = r"""
    "{3} (?:\\.|[^\\])*? (?:"{3,5}|\Z)  |  '{3} .*? (?:'{3,5}|\Z)  |  "(?:\\.|[^"\\\n])*"?  |  '[^'\n]*'?  |  \#[^\n]*
"""


def check_dots(text: str, source: str) -> None:
    """Bounds what tomllib is given: it takes 13.8 s for a dotted key of 40 kB (measured). Values are not looked at."""
    if text.count(".") <= MOST_DOTS:
        return
    bare = re.sub(VALUE_OR_COMMENT, "x", text, flags=re.DOTALL | re.VERBOSE)
    if any(part.count(".") > MOST_DOTS for part in re.split(r"[=,\[\]{}\n]", bare)):
        raise ConfigError(f"{source}: a key has more than {MOST_DOTS} dots.", path=source)
