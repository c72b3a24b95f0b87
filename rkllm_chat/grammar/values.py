"""What a JSON Schema lets be written, as GBNF: JSON, compact or laid out, keys in the schema's order.

Every value that the grammar lets through is valid, but for what a grammar of this size cannot say: `pattern`, `format`,
`multipleOf`, `uniqueItems`, `contains`, `not`, conditions, the "exactly one" of `oneOf`, counts and patterns of names,
`allOf` beyond what `schemas.join` joins, and a name that the schema leaves open standing twice. Names beside the
declared ones are written where the schema asks for them: by `additionalProperties`, or by declaring none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any

from ..arguments import without_patterns
from ..faults import is_fit
from ..schemas import Bounded, choices_of, item_of, kind_of, leaves_of, properties_of, required_of
from .numbers import Bound, numbers, whole_numbers
from .rules import NOTHING, SPACE, Rules, choose, literal, one_of, other_than, repeat

DEEPEST_FREE = 8
MOST_STEPS = 20_000
SEPARATOR = f'"," {SPACE}'
_HEX = "[0-9a-fA-F]"
# not the halves of surrogate pairs: half a pair is no character
ESCAPE = rf'"\\" (["\\/bfnrt] | "u" ([0-9a-cA-CeEfF] {_HEX}{{3}} | [dD] [0-7] {_HEX}{{2}}))'


@dataclass(frozen=True)
class Style:
    """How JSON stands in a call. `write` makes of JSON what is written; `char` is one character between quotes,
    `plain` one that is written as itself."""

    write: Callable[[str], str]
    plain: str
    char: str


JSON = Style(str, '"\\', f"{other_than(chr(34) + chr(92))} | {ESCAPE}")


class Values:
    """The rules of one tool's schema. Whatever it gives is an expression, or None where no value fits.

    Raises TooCostlyError for a schema whose parts lead to each other without end.
    """

    def __init__(self, rules: Rules, schema: Mapping[str, Any], style: Style) -> None:
        self.rules = rules
        self.root = Bounded(without_patterns(schema), MOST_STEPS)
        self.style = style
        self._named: dict[str, str | None] = {}

    def of(self, schema: Any) -> str | None:
        """A value by a schema. One that leads back to itself is a rule that does so too."""
        key = json.dumps(schema)
        if key not in self._named:
            name = self._named[key] = self.rules.reserve()
            body = one_of(self.leaf(leaf) for leaf in leaves_of(schema, self.root))
            self.rules.define(name, body or NOTHING)
            self._named[key] = name if body else None
        return self._named[key]

    def arguments(self) -> list[dict[str, Any]]:
        """What the arguments of the tool may be. One that declares none takes none, unless it says so."""
        leaves = leaves_of(self.root, self.root)
        return [{"properties": {}, **leaf} for leaf in leaves if kind_of(leaf) in ("object", "")]

    def leaf(self, leaf: Mapping[str, Any]) -> str | None:
        """A value by a schema without a union and with at most one type."""
        choices = self.choices(leaf)
        if choices is not None:
            return choose(dict.fromkeys(map(self.write, choices), "")) if choices else None
        return KINDS[kind_of(leaf)](self, leaf)

    def choices(self, leaf: Mapping[str, Any]) -> list[Any] | None:
        """The values that a schema names and that fit what else it says; None where it names none."""
        word = "const" if "const" in leaf else "enum"
        others = {key: value for key, value in leaf.items() if key != word}
        named = choices_of(leaf)
        return None if named is None else [choice for choice in named if is_fit(choice, others, self.root)]

    def write(self, value: Any) -> str:
        return self.style.write(json.dumps(value, ensure_ascii=False))

    def text(self, leaf: Mapping[str, Any]) -> str:
        char = self.rules.add(self.style.char)
        return self.rules.add(f'"\\"" {repeat(self.rules, char, *counts(leaf, "Length"))} "\\""')

    def integer(self, leaf: Mapping[str, Any]) -> str | None:
        found = whole_numbers(lower(leaf), upper(leaf))
        return found and self.rules.add(found)

    def number(self, leaf: Mapping[str, Any]) -> str | None:
        found = numbers(lower(leaf), upper(leaf))
        return found and self.rules.add(found)

    def boolean(self, _leaf: Mapping[str, Any]) -> str:
        return self.rules.add('"true" | "false"')

    def null(self, _leaf: Mapping[str, Any]) -> str:
        return '"null"'

    def array(self, leaf: Mapping[str, Any]) -> str | None:
        least, most = counts(leaf, "Items")
        items = self._items(leaf, 0, least, most)
        return None if items is None else f'"[" {SPACE} {items} {SPACE} "]"'

    def _items(self, leaf: Mapping[str, Any], index: int, least: int, most: int | None) -> str | None:
        """The items of a list from `index` on, as an expression that begins with the comma where there is one."""
        nothing = None if index < least else ""
        if most is not None and index >= most:
            return nothing
        item = self.of(item_of(leaf, index))
        if item is None:
            return nothing
        comma = f"{SEPARATOR} " if index else ""
        if index >= len(first_items(leaf)) and index:
            more = None if most is None else most - index
            return repeat(self.rules, f"{comma}{item}", max(least - index, 0), more)
        behind = self._items(leaf, index + 1, least, most)
        if behind is None:
            return nothing
        return f"{comma}{item} {behind}" if nothing is None else f"({comma}{item} {behind})?"

    def object(self, leaf: Mapping[str, Any]) -> str | None:
        members = self._members(leaf)
        return None if members is None else f'"{{" {SPACE} {members} {SPACE} "}}"'

    def _members(self, leaf: Mapping[str, Any]) -> str | None:
        """The members of an object, in the order of the schema."""
        further = self.further(leaf)
        if not (schemas := members_of(leaf)):
            return self._free_members(further, *counts(leaf, "Properties"))
        started = f"({SEPARATOR} {further})*" if further else ""
        first: str | None = f"({further} {started})?" if further else ""
        required = required_of(leaf)
        for name, schema in reversed(schemas.items()):
            value = self.of(schema)
            if value is None and name in required:
                return None
            if value is None:
                continue
            member = self.rules.add(f'{literal(self.write(name))} ":" {SPACE} {value}')
            alone = f"{member} {started}"
            first = self.rules.add(alone if name in required else f"({alone} | {first})")
            behind = f"{SEPARATOR} {member}" if name in required else f"({SEPARATOR} {member})?"
            started = self.rules.add(f"{behind} {started}".strip())
        return first

    def _free_members(self, further: str | None, least: int, most: int | None) -> str | None:
        if further is None or most == 0:
            return "" if not least else None
        more = repeat(self.rules, f"{SEPARATOR} {further}", max(least - 1, 0), None if most is None else most - 1)
        return f"{further} {more}" if least else f"({further} {more})?"

    def further(self, leaf: Mapping[str, Any]) -> str | None:
        """A member under a name that the schema does not declare; None where it is not asked for."""
        names = list(members_of(leaf))
        value = self.of(further_schema(leaf))
        if value is None:
            return None
        plain = self.rules.add(other_than(self.style.plain))
        name = self.rules.add(different(names, self.style.plain, plain)) if names else self.text({})
        return self.rules.add(f'"\\"" {name} "\\"" ":" {SPACE} {value}' if names else f'{name} ":" {SPACE} {value}')

    def anything(self, _leaf: Mapping[str, Any]) -> str:
        return self.free_value(DEEPEST_FREE)

    def free_value(self, depth: int) -> str:
        """Any JSON, nested at most so deep: a small model could open brackets for ever."""
        plain = f'{self.text({})} | {self.number({})} | "true" | "false" | "null"'
        if not depth:
            return self.rules.add(plain)
        inner = self.free_value(depth - 1)
        member = f'{self.text({})} ":" {SPACE} {inner}'
        listed = f'"[" {SPACE} ({inner} ({SEPARATOR} {inner})*)? {SPACE} "]"'
        named = f'"{{" {SPACE} ({member} ({SEPARATOR} {member})*)? {SPACE} "}}"'
        return self.rules.add(f"{plain} | {listed} | {named}")


KINDS: dict[str, Callable[[Values, Mapping[str, Any]], str | None]] = {
    "string": Values.text,
    "integer": Values.integer,
    "number": Values.number,
    "boolean": Values.boolean,
    "null": Values.null,
    "array": Values.array,
    "object": Values.object,
    "": Values.anything,
}


def members_of(leaf: Mapping[str, Any]) -> dict[str, Any]:
    """The declared members of an object, and those that are required without being declared."""
    further = leaf.get("additionalProperties", True)
    return {**properties_of(leaf), **{name: further for name in required_of(leaf) if name not in properties_of(leaf)}}


def further_schema(leaf: Mapping[str, Any]) -> Any:
    """The schema of undeclared members; False where there are none, or none are asked for."""
    return leaf.get("additionalProperties", not members_of(leaf) and "properties" not in leaf)


def first_items(leaf: Mapping[str, Any]) -> list[Any]:
    """The items that have a schema each."""
    found = leaf["items"] if isinstance(leaf.get("items"), list) else leaf.get("prefixItems")
    return found if isinstance(found, list) else []


def counts(leaf: Mapping[str, Any], what: str) -> tuple[int, int | None]:
    """The least and the most of something."""
    least, most = (whole_of(leaf.get(word + what)) for word in ("min", "max"))
    return least or 0, most


def whole_of(value: Any) -> int | None:
    number = number_of(value)
    return int(number) if number is not None and number >= 0 else None


def number_of(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(repr(value)) if isinstance(value, int) or isfinite(value) else None


def lower(leaf: Mapping[str, Any]) -> Bound | None:
    """The larger of the lower bounds."""
    found = bounds(leaf, "minimum", "exclusiveMinimum")
    return max(found, key=lambda bound: (bound.at, bound.is_open), default=None)


def upper(leaf: Mapping[str, Any]) -> Bound | None:
    """The smaller of the upper bounds."""
    found = bounds(leaf, "maximum", "exclusiveMaximum")
    return min(found, key=lambda bound: (bound.at, not bound.is_open), default=None)


def bounds(leaf: Mapping[str, Any], closed: str, opened: str) -> list[Bound]:
    at, beyond = number_of(leaf.get(closed)), number_of(leaf.get(opened))
    is_open = leaf.get(opened) is True  # until draft 4
    return [*([Bound(at, is_open)] if at is not None else []), *([Bound(beyond, True)] if beyond is not None else [])]


def different(names: list[str], special: str, plain: str) -> str:
    """A name that is none of `names`; `plain` is one character of it, `special` are those it cannot have."""
    children: dict[str, list[str]] = {}
    for name in names:
        if name and name[0] not in special:
            children.setdefault(name[0], []).append(name[1:])
    ways = [f"{literal(char)} {different(rests, special, plain)}" for char, rests in children.items()]
    ways.append(f"{other_than(special + ''.join(children))} {plain}*")
    return one_of([*ways, *([] if "" in names else ['""'])]) or NOTHING
