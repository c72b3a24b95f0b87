"""Convert the command line after a tool's name into arguments, by the tool's JSON Schema.

A text is converted only where the schema requires it: where it accepts strings, `007`, `true` and `` stay strings. A
flag that is not given is not sent; null, empty, zero and false are distinct values.

    --x TEXT, --x=TEXT   typed by the schema             --x, --no-x, --x=false   true and false
    --x A --x B          a list (or --x '["A", "B"]')    --x.y TEXT, --x y=TEXT   inside an object (or --x '{...}')
    --x:=JSON            this JSON, whatever the schema  --x@=FILE                text of a file; - is standard input

A property name of the tool takes precedence over every other meaning of a word, longer names first; so property names
may contain any character.
"""

from __future__ import annotations

import re

from ...calls.schema.resolve import (
    all_types,
    enum_values,
    item_schema,
    list_variants,
    member_schema,
    property_names,
    type_of,
)
from ...calls.schema.validate import is_valid, iter_errors
from ...calls.schema.wording import quote_value
from ...core.errors import UsageError, ValidationError
from ...core.strict_json import parse_strict_json
from .parse_text import convert_text

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ...calls.schema.wording import ValuePath

    Own = Mapping[str, bool | None]
    """Options of `mcp-tool`: whether each takes a value; None for options allowed only before the tool's name."""

_OPERATORS = (":=", "@=", "=")
_NAME_END = "|".join(_OPERATORS)
_FLAG_LIKE = r"(?s)--\w[^\s=]*(=.*)?"
_MAX_LISTED_FLAGS = 12


class Flag:
    """One flag of the command line.

    Attributes:
        path: Property names from the arguments object to the value.
        operator: How `text` is read: "" (no value yet), ":=", "@=" or "=".
        text: The value as written.
    """

    def __init__(self, path: tuple[str, ...], operator: str = "", text: str = "") -> None:
        self.path, self.operator, self.text = path, operator, text

    def with_value(self, operator: str, text: str) -> Flag:
        """Return the same flag with another operator and text."""
        return Flag(self.path, operator, text)

    @property
    def spelling(self) -> str:
        """The flag as users write it."""
        return format_flag(self.path)


def format_flag(place: ValuePath) -> str:
    """Return the flag of a path in the arguments: `--a.b[0]`."""
    words = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    return f"--{''.join(words).removeprefix('.')}" if place else "the arguments"


def parse_words(words: Sequence[str], schema: Mapping[str, Any], own: Own) -> tuple[list[Flag], dict[str, str]]:
    """Parse the words after a tool's name.

    Args:
        words: The command line.
        schema: The tool's input schema.
        own: Options of `mcp-tool`, recognized where the tool has no property of that name.

    Returns:
        The tool's flags, and the options of `mcp-tool` by name.

    Raises:
        UsageError: A word is no flag, or a value is missing.
    """
    flags: list[Flag] = []
    options: dict[str, str] = {}
    remaining = list(words)[::-1]
    while remaining and (word := remaining.pop()) != "--":
        name, _, text = word[2:].partition("=")
        flag = (
            find_property(word[2:], schema, str) or find_property(word[2:], schema, to_kebab_case)
            if word.startswith("--")
            else None
        )
        if flag:
            flags.append(flag if flag.operator else _take_value(flag, schema, remaining))
        elif word == "-h" or (word.startswith("--") and name in own):
            _take_own_option("help" if word == "-h" else name, text, "=" in word, own, options, remaining)
        elif undeclared := _locate_undeclared(word, schema, own):
            flags.append(undeclared if undeclared.operator else _take_value(undeclared, schema, remaining))
    if remaining:
        raise UsageError(f'"{remaining[-1]}" is an unexpected word.', "Write arguments as --name VALUE.")
    return flags, options


def find_property(body: str, schema: Mapping[str, Any], spell: Callable[[str], str]) -> Flag | None:
    """Find the property that a flag names; `--no-x` sets a boolean `x` to false.

    Args:
        body: The word without its leading dashes.
        schema: The tool's input schema.
        spell: Maps a property name to its spelling as a flag.
    """
    found = match_property(body, schema, schema, spell)
    negated = match_property(body[3:], schema, schema, spell) if not found and body.startswith("no-") else None
    if negated and not negated.operator and may_be_boolean(schema_at(negated.path, schema), schema):
        return negated.with_value(":=", "false")
    return found


def to_kebab_case(name: str) -> str:
    """Convert `camelCase` and `snake_case` to kebab-case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def match_property(body: str, schema: Any, root: Mapping[str, Any], spell: Callable[[str], str]) -> Flag | None:
    """Find the longest property that `body` begins with, together with the value or nested property after it."""
    names = [name for name in property_names(schema, root) if body.startswith(spell(name))]
    for name in sorted(names, key=lambda name: len(spell(name)), reverse=True):
        flag = parse_tail(name, body[len(spell(name)) :], member_schema(schema, name, root), root, spell)
        if flag:
            return flag
    return None


def parse_tail(name: str, tail: str, child: Any, root: Mapping[str, Any], spell: Callable[[str], str]) -> Flag | None:
    """Parse what follows a property name: an operator with a value, a nested property, or nothing."""
    for operator in _OPERATORS:
        if tail.startswith(operator):
            return Flag((name,), operator, tail[len(operator) :])
    if tail.startswith("."):
        inner = match_property(tail[1:], child, root, spell) or _walk_undeclared(tail[1:], child, root)
        return Flag((name, *inner.path), inner.operator, inner.text) if inner else None
    return None if tail else Flag((name,))


def _walk_undeclared(body: str, schema: Any, root: Mapping[str, Any], is_free: bool = True) -> Flag | None:
    """Find a property that the schema does not name but allows.

    The name ends at the operator, or at a dot if its value may be an object.

    Args:
        body: The rest of the flag.
        schema: The schema of the object.
        root: The tool's input schema.
        is_free: Whether an object without `additionalProperties` allows further properties.
    """
    known = property_names(schema, root)
    key = re.split(_NAME_END, body, maxsplit=1)[0]
    for name in (key.partition(".")[0], key):
        child = member_schema(schema, name, root, is_free) if name not in ("", *known) else None
        if child is not None and (name == key or "object" in all_types(child, root)):
            _reject_misspelled(name, known)
            return parse_tail(name, body[len(name) :], child, root, str)
    return None


def _locate_undeclared(word: str, schema: Mapping[str, Any], own: Own) -> Flag:
    """Find the undeclared but allowed property of a flag. Raises UsageError with the closest known flag."""
    if not word.startswith("--"):
        raise UsageError(f'"{word}" is an unexpected word.', "Write arguments as --name VALUE.")
    found = _walk_undeclared(word[2:], schema, schema, is_free=False)
    if found:
        return found
    from difflib import get_close_matches

    name = re.split(_NAME_END, word[2:], maxsplit=1)[0]
    known = _known_flags(schema)
    matches = [
        flag for spelled in (name, to_kebab_case(name)) for flag in get_close_matches(spelled, [*known, *own], n=1)
    ][:1]
    matches = matches or [flag for flag in known if f"no-{flag}" == name]
    listed = ", ".join(f"--{flag}" for flag in known[:_MAX_LISTED_FLAGS]) or "none"
    hint = f"Did you mean --{matches[0]}?" if matches else f"The tool's flags are: {listed}."
    raise UsageError(f"Unknown flag --{name}.", hint, closest=matches, available=known)


def _reject_misspelled(name: str, known: Sequence[str]) -> None:
    """Raise UsageError for an undeclared name that is probably a misspelled property."""
    from difflib import get_close_matches

    matches = get_close_matches(name, known, n=1, cutoff=0.8)
    if matches:
        hint = f'Did you mean "{matches[0]}"? If not, pass it with --json.'
        raise UsageError(f'The tool declares no property "{name}".', hint, closest=matches)


def _known_flags(schema: Mapping[str, Any]) -> list[str]:
    """Return the flags of all properties and of the properties one level inside them."""
    flags: list[str] = []
    for name in property_names(schema, schema):
        inner = property_names(member_schema(schema, name, schema), schema)
        flags += [name, *(f"{name}.{key}" for key in inner)]
    return flags


def schema_at(path: tuple[str, ...], schema: Mapping[str, Any]) -> Any:
    """Return the schema of a path."""
    current: Any = schema
    for name in path:
        current = member_schema(current, name, schema)
    return current


def may_be_boolean(schema: Any, root: Mapping[str, Any]) -> bool:
    """Return whether a schema accepts booleans."""
    return any(is_boolean(variant) for variant in list_variants(schema, root))


def is_boolean(variant: Mapping[str, Any]) -> bool:
    """Return whether a variant of a schema accepts booleans only."""
    choices = enum_values(variant)
    return all(isinstance(choice, bool) for choice in choices) if choices else type_of(variant) == "boolean"


def _take_value(flag: Flag, schema: Mapping[str, Any], remaining: list[str]) -> Flag:
    """Complete a flag with the next word as its value.

    A boolean flag needs no value and takes the next word only if that is `true`, `false` or `null`.
    """
    value_schema = schema_at(flag.path, schema)
    variants = list_variants(value_schema, schema)
    has_next = bool(remaining) and not re.fullmatch(_FLAG_LIKE, remaining[-1])
    if may_be_boolean(value_schema, schema):
        only_boolean = all(is_boolean(variant) or type_of(variant) == "null" for variant in variants)
        if (
            not has_next
            or remaining[-1] == "--"
            or (only_boolean and remaining[-1].lower() not in ("true", "false", "null"))
        ):
            return flag.with_value(":=", "true")
    if not has_next:
        hint = f"Write a value that begins with -- as {flag.spelling}={remaining[-1]}." if remaining else ""
        raise UsageError(f"{flag.spelling} needs a value.", hint)
    return flag.with_value("=", remaining.pop())


def _take_own_option(
    name: str, text: str, has_text: bool, own: Own, options: dict[str, str], remaining: list[str]
) -> None:
    """Store an option of `mcp-tool`; its value may be removed from `remaining`. Raises UsageError."""
    if own[name] is None:
        raise UsageError(f"--{name} must come before the tool's name.")
    if name in options and own[name]:
        raise UsageError(f"--{name} is given more than once.")
    if own[name] and not has_text:
        if not remaining or re.fullmatch(_FLAG_LIKE, remaining[-1]):
            raise UsageError(f"--{name} needs a value.")
        text = remaining.pop()
    if has_text and not own[name]:
        raise UsageError(f"--{name} takes no value.")
    options[name] = text


def load_files(flags: Sequence[Flag], read_file: Callable[[str], str]) -> list[Flag]:
    """Replace `--x@=FILE` flags by flags with the file's text."""
    return [flag.with_value("=", read_file(flag.text)) if flag.operator == "@=" else flag for flag in flags]


def merge_arguments(flags: Sequence[Flag], schema: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the flags into the arguments object.

    Args:
        flags: The flags.
        schema: The tool's input schema.
        base: Arguments from `--json` and its variants, which flags override.

    Raises:
        UsageError: A flag contradicts another one.
        ValidationError: Texts cannot be converted to their types; all of them are listed.
    """
    expanded = [_expand_entry(flag, schema) for flag in flags]
    arguments = dict(base)
    errors: list[str] = []
    for path in dict.fromkeys(flag.path for flag in sorted(expanded, key=lambda flag: len(flag.path))):
        try:
            value = _read_value([flag for flag in expanded if flag.path == path], schema)
        except ValueError as error:
            errors.append(f"{format_flag(path)} {error}.")
        else:
            _set_at(arguments, path, value)
    _raise_violations(errors)
    return arguments


def _expand_entry(flag: Flag, schema: Mapping[str, Any]) -> Flag:
    """Convert `--x k=v` to `--x.k=v` where x is an object and not a string."""
    value_schema = schema_at(flag.path, schema)
    types = all_types(value_schema, schema)
    name, separator, text = flag.text.partition("=")
    is_entry = separator and "object" in types and not {"string", "array", ""} & set(types) and flag.text[:1] != "{"
    if flag.operator != "=" or not is_entry:
        return flag
    if member_schema(value_schema, name, schema) is None:
        known = property_names(value_schema, schema)
        raise UsageError(
            f'{flag.spelling} has no property "{name}".', f"Its properties: {', '.join(known)}." if known else ""
        )
    return Flag((*flag.path, name), "=", text)


def _read_value(group: Sequence[Flag], schema: Mapping[str, Any]) -> Any:
    """Convert the flags of one path to its value; repeated flags form a list.

    Raises:
        ValueError: The text does not fit; the message completes a sentence that begins with the flag.
    """
    value_schema = schema_at(group[0].path, schema)
    lists = [variant for variant in list_variants(value_schema, schema) if type_of(variant) == "array"]
    if len(group) == 1:
        return _read_one(group[0], value_schema, schema)
    if not lists:
        raise UsageError(f"{group[0].spelling} is given {len(group)} times but takes one value.")
    elements: list[Any] = []
    for flag in group:
        elements += _read_elements(flag, item_schema(lists[0], len(elements)), schema)
    return elements


def _read_elements(flag: Flag, item: Any, root: Mapping[str, Any]) -> list[Any]:
    """Convert one of several values of a list: an element, or several as a JSON list."""
    if flag.operator == ":=" or flag.text[:1] == "[":
        try:
            value = parse_strict_json(flag.text)
        except ValueError as error:
            if flag.operator == ":=":
                raise ValueError(f"is not valid JSON ({error})") from None
        else:
            is_list = isinstance(value, list) and all(is_valid(entry, item, root) for entry in value)
            if is_list or flag.operator == ":=":
                return value if is_list else [value]
    return [convert_text(flag.text, item, root)]


def _read_one(flag: Flag, schema: Any, root: Mapping[str, Any]) -> Any:
    """Convert the value of a flag that is given once."""
    if flag.operator != ":=":
        return convert_text(flag.text, schema, root)
    try:
        return parse_strict_json(flag.text)
    except ValueError as error:
        raise ValueError(f"is not valid JSON ({error})") from None


def _set_at(arguments: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Store a value in the arguments and create the objects on its path; objects passed by the caller are copied."""
    for depth, name in enumerate(path[:-1], start=1):
        inner = arguments.get(name, {})
        if not isinstance(inner, dict):
            raise UsageError(
                f"{format_flag(path)} is inside {format_flag(path[:depth])}, whose value is not an object."
            )
        arguments[name] = arguments = dict(inner)
    arguments[path[-1]] = value


def parse_arguments_object(text: str, origin: str) -> dict[str, Any]:
    """Parse the arguments object. `origin` names its option in errors. Raises UsageError."""
    try:
        value = parse_strict_json(text)
    except ValueError as error:
        raise UsageError(f"{origin}: not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise UsageError(f"{origin}: the arguments must be one JSON object, not {quote_value(value)}.")
    return value


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Validate the arguments against the schema. Raises ValidationError with all violations."""
    _raise_violations([f"{format_flag(one.path)} {one.message}." for one in iter_errors(arguments, schema, schema)])


def _raise_violations(violations: Sequence[str]) -> None:
    """Raise ValidationError if there are violations."""
    if violations:
        raise ValidationError(" ".join(violations), faults=list(dict.fromkeys(violations)))
