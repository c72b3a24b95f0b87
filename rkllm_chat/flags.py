"""The words behind a tool's name become its arguments, by its JSON Schema. It sends nothing and guesses nothing.

A text is turned towards the schema, never away from it: where the schema wants text, `007`, `true` and `` stay as they
are. What is not given is not sent; null, empty, zero and false are each their own.

    --x TEXT, --x=TEXT   as the schema wants it          --x, --no-x, --x=false   true and false
    --x A --x B          a list (or --x '["A", "B"]')    --x.y TEXT, --x y=TEXT   inside an object (or --x '{...}')
    --x:=JSON            this JSON, whatever it is       --x@=FILE                the text of a file; - standard input

A name of the tool wins over all else that a word could mean, the longest first; so it may hold any character.
"""

from __future__ import annotations

import re

from .errors import UsageError, ValidationError
from .exact import exact_json
from .faults import find_faults, is_fit, quote
from .readings import read_text
from .schemas import all_kinds, child_of, choices_of, item_of, kind_of, leaves_of, property_names

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .faults import Place

    Own = Mapping[str, bool | None]
    """Our options by name: whether each takes a value; None for one that has no place behind a tool's name."""

OPERATORS = (":=", "@=", "=")
NAME_END = "|".join(OPERATORS)
FLAG_LIKE = r"(?s)--\w[^\s=]*(=.*)?"
MOST_NAMED = 12


class Given:
    """One flag as it was given: where its value goes, how the text is read ("", or one of OPERATORS), the text."""

    def __init__(self, path: tuple[str, ...], operator: str = "", text: str = "") -> None:
        self.path, self.operator, self.text = path, operator, text

    def holding(self, operator: str, text: str) -> Given:
        """The same flag with that value."""
        return Given(self.path, operator, text)

    @property
    def flag(self) -> str:
        return flag_of(self.path)


def flag_of(place: Place) -> str:
    """The flag of a place in the arguments: `--a.b[0]`."""
    words = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    return f"--{''.join(words).removeprefix('.')}" if place else "the arguments"


def read_words(words: Sequence[str], schema: Mapping[str, Any], own: Own) -> tuple[list[Given], dict[str, str]]:
    """The tool's flags, and our own options among them by name. Ours are seen only where the tool has nothing of that
    name. Raises UsageError.
    """
    given: list[Given] = []
    options: dict[str, str] = {}
    waiting = list(words)[::-1]
    while waiting and (word := waiting.pop()) != "--":
        name, _, text = word[2:].partition("=")
        found = locate(word[2:], schema, str) or locate(word[2:], schema, kebab) if word.startswith("--") else None
        if found:
            given.append(found if found.operator else take_value(found, schema, waiting))
        elif word == "-h" or (word.startswith("--") and name in own):
            take_own("help" if word == "-h" else name, text, "=" in word, own, options, waiting)
        elif further := locate_further(word, schema, own):
            given.append(further if further.operator else take_value(further, schema, waiting))
    if waiting:
        raise UsageError(f'"{waiting[-1]}" belongs to no flag.', "Arguments are written as --name VALUE.")
    return given, options


def locate(body: str, schema: Mapping[str, Any], spell: Callable[[str], str]) -> Given | None:
    """The property that a flag names; `--no-x` is the false of a boolean `x`."""
    found = walk(body, schema, schema, spell)
    turned = walk(body[3:], schema, schema, spell) if not found and body.startswith("no-") else None
    if turned and not turned.operator and may_be_boolean(schema_at(turned.path, schema), schema):
        return turned.holding(":=", "false")
    return found


def kebab(name: str) -> str:
    """`camelCase` and `snake_case` as people write flags."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def walk(body: str, schema: Any, root: Mapping[str, Any], spell: Callable[[str], str]) -> Given | None:
    """The longest property that the body begins with, and what stands behind it: nothing, a value, or a name inside."""
    names = [name for name in property_names(schema, root) if body.startswith(spell(name))]
    for name in sorted(names, key=lambda name: len(spell(name)), reverse=True):
        found = split(name, body[len(spell(name)) :], child_of(schema, name, root), root, spell)
        if found:
            return found
    return None


def split(name: str, tail: str, child: Any, root: Mapping[str, Any], spell: Callable[[str], str]) -> Given | None:
    for operator in OPERATORS:
        if tail.startswith(operator):
            return Given((name,), operator, tail[len(operator) :])
    if tail.startswith("."):
        inner = walk(tail[1:], child, root, spell) or walk_further(tail[1:], child, root)
        return Given((name, *inner.path), inner.operator, inner.text) if inner else None
    return None if tail else Given((name,))


def walk_further(body: str, schema: Any, root: Mapping[str, Any], is_free: bool = True) -> Given | None:
    """A name that the object takes without knowing it: all up to the value, or up to a dot if objects lie there."""
    known = property_names(schema, root)
    key = re.split(NAME_END, body, maxsplit=1)[0]
    for name in (key.partition(".")[0], key):
        child = child_of(schema, name, root, is_free) if name not in ("", *known) else None
        if child is not None and (name == key or "object" in all_kinds(child, root)):
            refuse_near(name, known)
            return split(name, body[len(name) :], child, root, str)
    return None


def locate_further(word: str, schema: Mapping[str, Any], own: Own) -> Given:
    """A flag that the tool does not name, but takes; else a UsageError with the nearest name."""
    if not word.startswith("--"):
        raise UsageError(f'"{word}" belongs to no flag.', "Arguments are written as --name VALUE.")
    found = walk_further(word[2:], schema, schema, is_free=False)
    if found:
        return found
    from difflib import get_close_matches

    name = re.split(NAME_END, word[2:], maxsplit=1)[0]
    known = known_flags(schema)
    near = [flag for spelled in (name, kebab(name)) for flag in get_close_matches(spelled, [*known, *own], n=1)][:1]
    near = near or [flag for flag in known if f"no-{flag}" == name]
    listed = ", ".join(f"--{flag}" for flag in known[:MOST_NAMED]) or "none"
    hint = f"Did you mean --{near[0]}?" if near else f"The tool's flags are: {listed}."
    raise UsageError(f"There is no flag --{name}.", hint, closest=near, available=known)


def refuse_near(name: str, known: Sequence[str]) -> None:
    """A name that an object would take, but that is almost one it knows, is taken for a slip."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.8)
    if near:
        hint = f'Did you mean "{near[0]}"? If not, give it by --json.'
        raise UsageError(f'The name "{name}" is not known.', hint, closest=near)


def known_flags(schema: Mapping[str, Any]) -> list[str]:
    """All flags of a tool, the names inside its objects one level deep included."""
    flags: list[str] = []
    for name in property_names(schema, schema):
        inner = property_names(child_of(schema, name, schema), schema)
        flags += [name, *(f"{name}.{key}" for key in inner)]
    return flags


def schema_at(path: tuple[str, ...], schema: Mapping[str, Any]) -> Any:
    found: Any = schema
    for name in path:
        found = child_of(found, name, schema)
    return found


def may_be_boolean(schema: Any, root: Mapping[str, Any]) -> bool:
    return any(is_boolean(leaf) for leaf in leaves_of(schema, root))


def is_boolean(leaf: Mapping[str, Any]) -> bool:
    choices = choices_of(leaf)
    return all(isinstance(choice, bool) for choice in choices) if choices else kind_of(leaf) == "boolean"


def take_value(found: Given, schema: Mapping[str, Any], waiting: list[str]) -> Given:
    """The flag with the next word as its value; a boolean needs none, and takes only true and false."""
    wanted = schema_at(found.path, schema)
    leaves = leaves_of(wanted, schema)
    is_next = bool(waiting) and not re.fullmatch(FLAG_LIKE, waiting[-1])
    if may_be_boolean(wanted, schema):
        only = all(is_boolean(leaf) or kind_of(leaf) == "null" for leaf in leaves)
        if not is_next or waiting[-1] == "--" or (only and waiting[-1].lower() not in ("true", "false", "null")):
            return found.holding(":=", "true")
    if not is_next:
        hint = f"A value that begins with -- is written {found.flag}={waiting[-1]}." if waiting else ""
        raise UsageError(f"{found.flag} needs a value.", hint)
    return found.holding("=", waiting.pop())


def take_own(name: str, text: str, has_text: bool, own: Own, options: dict[str, str], waiting: list[str]) -> None:
    if own[name] is None:
        raise UsageError(f"--{name} comes before the tool's name.")
    if name in options and own[name]:
        raise UsageError(f"--{name} is given twice.")
    if own[name] and not has_text:
        if not waiting or re.fullmatch(FLAG_LIKE, waiting[-1]):
            raise UsageError(f"--{name} needs a value.")
        text = waiting.pop()
    if has_text and not own[name]:
        raise UsageError(f"--{name} takes no value.")
    options[name] = text


def load_files(given: Sequence[Given], read_file: Callable[[str], str]) -> list[Given]:
    """The same with the texts of the files that `--x@=FILE` names."""
    return [one.holding("=", read_file(one.text)) if one.operator == "@=" else one for one in given]


def join_arguments(given: Sequence[Given], schema: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments: `whole` as it is, and over it what the flags say.

    Raises UsageError, and ValidationError with all texts that are not of the kind that is wanted.
    """
    spread = [spread_entry(one, schema) for one in given]
    arguments = dict(whole)
    wrong: list[str] = []
    for path in dict.fromkeys(one.path for one in sorted(spread, key=lambda one: len(one.path))):
        try:
            value = read_value([one for one in spread if one.path == path], schema)
        except ValueError as error:
            wrong.append(f"{flag_of(path)} {error}.")
        else:
            put(arguments, path, value)
    raise_faults(wrong)
    return arguments


def spread_entry(one: Given, schema: Mapping[str, Any]) -> Given:
    """`--x k=v` becomes `--x.k=v`, where x is an object and no text."""
    wanted = schema_at(one.path, schema)
    kinds = all_kinds(wanted, schema)
    name, mark, text = one.text.partition("=")
    is_entry = mark and "object" in kinds and not {"string", "array", ""} & set(kinds) and one.text[:1] != "{"
    if one.operator != "=" or not is_entry:
        return one
    if child_of(wanted, name, schema) is None:
        known = property_names(wanted, schema)
        raise UsageError(f'{one.flag} has no "{name}".', f"It has {', '.join(known)}." if known else "")
    return Given((*one.path, name), "=", text)


def read_value(group: Sequence[Given], schema: Mapping[str, Any]) -> Any:
    """The value of one flag, given once, or as often as its list has entries. Raises ValueError, a sentence's end."""
    wanted = schema_at(group[0].path, schema)
    lists = [leaf for leaf in leaves_of(wanted, schema) if kind_of(leaf) == "array"]
    if len(group) == 1:
        return read_one(group[0], wanted, schema)
    if not lists:
        raise UsageError(f"{group[0].flag} is given {len(group)} times, and takes one value.")
    entries: list[Any] = []
    for one in group:
        entries += read_entries(one, item_of(lists[0], len(entries)), schema)
    return entries


def read_entries(one: Given, item: Any, root: Mapping[str, Any]) -> list[Any]:
    """One of several values of a list: an entry, or a piece of the list as JSON."""
    if one.operator == ":=" or one.text[:1] == "[":
        try:
            value = exact_json(one.text)
        except ValueError as error:
            if one.operator == ":=":
                raise ValueError(f"is not valid JSON ({error})") from None
        else:
            is_piece = isinstance(value, list) and all(is_fit(entry, item, root) for entry in value)
            if is_piece or one.operator == ":=":
                return value if is_piece else [value]
    return [read_text(one.text, item, root)]


def read_one(one: Given, schema: Any, root: Mapping[str, Any]) -> Any:
    if one.operator != ":=":
        return read_text(one.text, schema, root)
    try:
        return exact_json(one.text)
    except ValueError as error:
        raise ValueError(f"is not valid JSON ({error})") from None


def put(arguments: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Lays a value into the arguments, making the objects on the way, and changing none that came from outside."""
    for depth, name in enumerate(path[:-1], start=1):
        inner = arguments.get(name, {})
        if not isinstance(inner, dict):
            raise UsageError(f"{flag_of(path)} lies inside {flag_of(path[:depth])}, which is given as another value.")
        arguments[name] = arguments = dict(inner)
    arguments[path[-1]] = value


def read_whole(text: str, origin: str) -> dict[str, Any]:
    """All arguments as one JSON object; `origin` names the option. Raises UsageError."""
    try:
        value = exact_json(text)
    except ValueError as error:
        raise UsageError(f"{origin}: not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise UsageError(f"{origin}: the arguments must be one JSON object, not {quote(value)}.")
    return value


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raises ValidationError with all that is wrong with the arguments by the schema."""
    raise_faults([f"{flag_of(place)} {sentence}." for place, sentence in find_faults(arguments, schema, schema)])


def raise_faults(faults: Sequence[str]) -> None:
    if faults:
        raise ValidationError(" ".join(faults), faults=list(dict.fromkeys(faults)))
