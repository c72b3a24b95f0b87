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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...calls.schema.coerce import parse_text
from ...calls.schema.resolve import Node, Variant
from ...calls.schema.validate import allows, iter_errors
from ...calls.schema.wording import ValuePath
from ...core.errors import UsageError, ValidationError
from ...core.strict_json import parse_strict_json
from .options import AFTER_TOOL, NAMES, Options, take_option_after_tool

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


def parse_words(words: Sequence[str], schema: Mapping[str, Any], options: Options | None = None) -> list[Flag]:
    """Parse the words after a tool's name.

    Args:
        words: The command line.
        schema: The tool's input schema.
        options: Where options of `mcp-tool` are stored, recognized where the tool has no property of that name; None
            recognizes none.

    Returns:
        The tool's flags.

    Raises:
        UsageError: A word is no flag, or a value is missing.
    """
    root = Node(schema)
    flags: list[Flag] = []
    remaining = list(words)
    while remaining and (word := remaining.pop(0)) != "--":
        flag = (
            find_property(word[2:], root, str) or find_property(word[2:], root, to_kebab_case)
            if word.startswith("--")
            else None
        )
        if flag:
            flags.append(flag if flag.operator else _take_value(flag, root, remaining))
        elif options is not None and (word == "-h" or word.partition("=")[0] in NAMES):
            take_option_after_tool(word, remaining, options)
        elif undeclared := _locate_undeclared(word, root, AFTER_TOOL if options is not None else ()):
            flags.append(undeclared if undeclared.operator else _take_value(undeclared, root, remaining))
    if remaining:
        raise UsageError(f'"{remaining[0]}" is an unexpected word.', "Write arguments as --name VALUE.")
    return flags


def find_property(body: str, root: Node, spell: Callable[[str], str]) -> Flag | None:
    """Find the property that a flag names; `--no-x` sets a boolean `x` to false.

    Args:
        body: The word without its leading dashes.
        root: The tool's input schema.
        spell: Maps a property name to its spelling as a flag.
    """
    found = _match_property(body, root, spell)
    negated = _match_property(body[3:], root, spell) if not found and body.startswith("no-") else None
    if negated and not negated.operator and may_be_boolean(node_at(negated.path, root)):
        return negated.with_value(":=", "false")
    return found


def to_kebab_case(name: str) -> str:
    """Convert `camelCase` and `snake_case` to kebab-case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def _match_property(body: str, node: Node, spell: Callable[[str], str]) -> Flag | None:
    """Find the longest property that `body` begins with, together with the value or nested property after it."""
    names = [name for name in node.property_names() if body.startswith(spell(name))]
    for name in sorted(names, key=lambda name: len(spell(name)), reverse=True):
        flag = _parse_tail(name, body[len(spell(name)) :], node.member(name), spell)
        if flag:
            return flag
    return None


def _parse_tail(name: str, tail: str, child: Node | None, spell: Callable[[str], str]) -> Flag | None:
    """Parse what follows a property name: an operator with a value, a nested property, or nothing."""
    for operator in _OPERATORS:
        if tail.startswith(operator):
            return Flag((name,), operator, tail[len(operator) :])
    if tail.startswith("."):
        child = child or Node({})
        inner = _match_property(tail[1:], child, spell) or _walk_undeclared(tail[1:], child)
        return Flag((name, *inner.path), inner.operator, inner.text) if inner else None
    return None if tail else Flag((name,))


def _walk_undeclared(body: str, node: Node, is_free: bool = True) -> Flag | None:
    """Find a property that the schema does not name but allows.

    The name ends at the operator, or at a dot if its value may be an object.

    Args:
        body: The rest of the flag.
        node: The object.
        is_free: Whether an object without `additionalProperties` allows further properties.
    """
    known = node.property_names()
    key = re.split(_NAME_END, body, maxsplit=1)[0]
    for name in (key.partition(".")[0], key):
        child = node.member(name, is_free) if name not in ("", *known) else None
        if child is not None and (name == key or "object" in child.types()):
            _reject_misspelled(name, known)
            return _parse_tail(name, body[len(name) :], child, str)
    return None


def _locate_undeclared(word: str, root: Node, options: Sequence[str]) -> Flag:
    """Find the undeclared but allowed property of a flag. Raises UsageError with the closest known flag."""
    if not word.startswith("--"):
        flags = ", ".join(f"--{'.'.join(path)}" for path, _ in [*list_properties(root)][:_MAX_LISTED_FLAGS])
        hint = f"Write arguments as --name VALUE; the tool's flags are: {flags or 'none'}."
        raise UsageError(f'"{word}" is an unexpected word.', hint)
    found = _walk_undeclared(word[2:], root, is_free=False)
    if found:
        return found
    from difflib import get_close_matches

    name = re.split(_NAME_END, word[2:], maxsplit=1)[0]
    known = [".".join(path) for path, _ in list_properties(root)]
    offered = [*known, *(option[2:] for option in options)]
    matches = [flag for spelled in (name, to_kebab_case(name)) for flag in get_close_matches(spelled, offered, n=1)][:1]
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


def list_properties(root: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yield all properties and the properties one level inside them, each with its path and what it may be."""
    for name in root.property_names():
        node = node_at((name,), root)
        yield (name,), node
        yield from (((name, inner), node_at((inner,), node)) for inner in node.property_names())


def node_at(path: tuple[str, ...], root: Node) -> Node:
    """Return what the value of a path may be; anything, where the schema has nothing about it."""
    for name in path:
        root = root.member(name) or root.part(None)
    return root


def may_be_boolean(node: Node) -> bool:
    """Return whether a schema accepts booleans."""
    return any(map(is_boolean, node.variants()))


def is_boolean(variant: Variant) -> bool:
    """Return whether a variant of a schema accepts booleans only."""
    return all(isinstance(choice, bool) for choice in variant.enum) if variant.enum else variant.type == "boolean"


def _take_value(flag: Flag, root: Node, remaining: list[str]) -> Flag:
    """Complete a flag with the next word as its value.

    A boolean flag needs no value and takes the next word only if that is `true`, `false` or `null`.
    """
    variants = node_at(flag.path, root).variants()
    has_next = bool(remaining) and not re.fullmatch(_FLAG_LIKE, remaining[0])
    if any(map(is_boolean, variants)):
        only_boolean = all(is_boolean(variant) or variant.type == "null" for variant in variants)
        if (
            not has_next
            or remaining[0] == "--"
            or (only_boolean and remaining[0].lower() not in ("true", "false", "null"))
        ):
            return flag.with_value(":=", "true")
    if not has_next:
        hint = f"Write a value that begins with -- as {flag.spelling}={remaining[0]}." if remaining else ""
        raise UsageError(f"{flag.spelling} needs a value.", hint)
    return flag.with_value("=", remaining.pop(0))


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
    root = Node(schema)
    expanded = [_expand_entry(flag, root) for flag in flags]
    arguments = dict(base)
    errors: list[str] = []
    for path in dict.fromkeys(flag.path for flag in sorted(expanded, key=lambda flag: len(flag.path))):
        try:
            value = _read_value([flag for flag in expanded if flag.path == path], node_at(path, root))
        except ValueError as error:
            errors.append(f"{format_flag(path)} {error}.")
        else:
            _set_at(arguments, path, value)
    _raise_violations(errors)
    return arguments


def _expand_entry(flag: Flag, root: Node) -> Flag:
    """Convert `--x k=v` to `--x.k=v` where x is an object and not a string."""
    node = node_at(flag.path, root)
    types = {*node.types()}
    name, separator, text = flag.text.partition("=")
    is_entry = separator and "object" in types and not {"string", "array", ""} & types and flag.text[:1] != "{"
    if flag.operator != "=" or not is_entry:
        return flag
    if node.member(name) is None:
        known = node.property_names()
        raise UsageError(
            f'{flag.spelling} has no property "{name}".', f"Its properties: {', '.join(known)}." if known else ""
        )
    return Flag((*flag.path, name), "=", text)


def _read_value(group: Sequence[Flag], node: Node) -> Any:
    """Convert the flags of one path to its value; repeated flags form a list.

    Raises:
        ValueError: The text does not fit; the message completes a sentence that begins with the flag.
    """
    if len(group) == 1:
        return _parse_json(group[0].text) if group[0].operator == ":=" else parse_text(group[0].text, node)
    lists = [variant for variant in node.variants() if variant.type == "array"]
    if not lists:
        raise UsageError(f"{group[0].spelling} is given {len(group)} times but takes one value.")
    elements: list[Any] = []
    for flag in group:
        elements += _read_elements(flag, lists[0].item(len(elements)))
    return elements


def _read_elements(flag: Flag, item: Node) -> list[Any]:
    """Convert one of several values of a list: an element, or several as a JSON list."""
    is_json = flag.operator == ":="
    if is_json or flag.text[:1] == "[":
        try:
            value = _parse_json(flag.text)
        except ValueError:
            if is_json:
                raise
        else:
            is_list = isinstance(value, list) and all(allows(item, entry) for entry in value)
            if is_list or is_json:
                return value if is_list else [value]
    return [parse_text(flag.text, item)]


def _parse_json(text: str) -> Any:
    """Parse the value of a flag with `:=`. Raises ValueError whose message follows the flag."""
    try:
        return parse_strict_json(text)
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


def check_flag_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Validate the arguments against the schema. Raises ValidationError with all violations."""
    _raise_violations(
        [f"{format_flag(violation.path)} {violation.message}." for violation in iter_errors(arguments, schema, schema)]
    )


def _raise_violations(violations: Sequence[str]) -> None:
    """Raise ValidationError if there are violations."""
    if violations:
        raise ValidationError(" ".join(violations), faults=list(dict.fromkeys(violations)))
