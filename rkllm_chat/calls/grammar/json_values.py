r"""Convert JSON Schemas to rules for JSON, compact or indented, with keys in the schema's order.

Every value that the grammar allows is valid, except for what is not expressed: `pattern`, `format`, `multipleOf`,
`uniqueItems`, `contains`, `not`, conditions, the "exactly one" of `oneOf`, counts and patterns of names,
`unevaluated*`, `allOf` beyond what `resolve.combine_schemas` merges, and an undeclared name that occurs twice.
Undeclared names are written where the schema asks for them: by `additionalProperties`, or by declaring none.

Numbers are limited to what a double has: 20 digits before the point, 21 behind it, exponents below 308. Within bounds
they have no exponent, and integers are at most 10^18.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ..formats.layout import GemmaArguments, dump
from ..json_repair import RESERVED_WORDS
from ..python_parser import write_python
from ..schema.resolve import READING_STEPS, BudgetedSchema, Node, Variant, items_of, remove_patterns
from ..schema.validate import is_valid
from .lark import ANY, SPACE, GrammarRules, any_name, can_match, literal, one_of, repeat

_MAX_FREE_DEPTH = 8
_ANY = Variant({}, {})
_SEPARATOR = f'"," {SPACE}'
_CODE = "u([0-9a-cA-CeEfF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"  # without surrogates: half of a pair is no character
ESCAPE = rf'/\\(["\\\/bfnrt]|{_CODE})/'
_INTEGER = r"/-?(0|[1-9][0-9]{0,19})/"
_FRACTION = r"(\.[0-9]{1,21})?"
_EXPONENT = "[eE][+-]?(0?[1-9]|[1-9][0-9]|[12][0-9]{2}|30[0-7])"
_NUMBER = f"/-?(0|[1-9][0-9]{{0,19}}){_FRACTION}|-?[1-9]{_FRACTION}{_EXPONENT}/"
_LARGEST_BOUND = 10**18
"""From here on, llguidance 1.9.1 cannot compare integers."""
_NUMERIC_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


@dataclass(frozen=True)
class JsonStyle:
    """How JSON is written inside a call.

    Attributes:
        write: Writes a value.
        write_key: Writes the name of a declared member.
        quote: What begins and ends a text.
        char: Expression of one character of a text, as it is written.
        excluded: What a text cannot contain; "" if it can contain anything.
        is_bare: Whether the names of members that are not declared are words without quotes.
        constants: How true, false and null are written.
        is_keyword: Whether the members of the arguments are `name=value`, without braces.
    """

    write: Callable[[Any], str]
    write_key: Callable[[str], str]
    quote: str = '"'
    char: str = rf'(/[^"\\\x00-\x1F]/ | {ESCAPE})'
    excluded: str = ""
    is_bare: bool = False
    constants: tuple[str, str, str] = ("true", "false", "null")
    is_keyword: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """The fixed texts of a value."""
        return (self.quote,)

    def write_text(self, rules: GrammarRules, least: int = 0, most: int | None = None) -> str:
        """Return the expression of a text of `least` to `most` characters; None for no maximum."""
        text = f"{literal(self.quote)} {repeat(self.char, least, most)} {literal(self.quote)}"
        if self.excluded:
            text = f"{rules.add_terminal(text)} & ~({ANY}* {literal(self.excluded)} {ANY}*)"
        return rules.add_terminal(text, is_lazy=self.char == ANY)

    def write_arguments(self, rules: GrammarRules, schema: Mapping[str, Any]) -> str | None:
        """Return the expression of a tool's arguments as an object; None if no arguments are valid."""
        values = JsonRules(rules, schema, self)
        write = values.keywords if self.is_keyword else values.object
        return one_of(map(write, values.argument_variants()))


JSON = JsonStyle(dump, dump)
PYTHON = JsonStyle(write_python, dump, constants=("True", "False", "None"), is_keyword=True)


def gemma_style(arguments: GemmaArguments) -> JsonStyle:
    """Return the style of FunctionGemma and Gemma 4: texts between marks, names without quotes."""
    return JsonStyle(arguments.write_value, arguments.write_key, arguments.quote, ANY, is_bare=True)


class JsonRules:
    """Converts one tool's schema to rules. Its methods return expressions, or None if no value is valid.

    Raises `BudgetExceededError` for a schema whose parts refer to each other without end.
    """

    def __init__(self, rules: GrammarRules, schema: Mapping[str, Any], style: JsonStyle) -> None:
        self.rules = rules
        self.root = Node(BudgetedSchema(remove_patterns(schema), READING_STEPS))
        self.style = style
        self._named: dict[str, str | None] = {}

    def write_value(self, node: Node) -> str | None:
        """Return the expression of a value; a recursive schema becomes a recursive rule."""
        key = json.dumps(node.schema)
        if key not in self._named:
            name = self._named[key] = self.rules.reserve()
            body = one_of(map(self.variant, node.variants()))
            self.rules.define(name, body or literal("\0"))
            self._named[key] = name if body else None
        return self._named[key]

    def argument_variants(self) -> list[Variant]:
        """Return the variants of the tool's arguments; a tool that declares no arguments takes none."""
        variants = [variant for variant in self.root.variants() if variant.type in ("object", "")]
        return [Variant({"properties": {}, **variant.schema}, variant.root) for variant in variants]

    def variant(self, variant: Variant) -> str | None:
        """Return the expression of a variant: a schema without unions and with at most one type."""
        choices = self.allowed_values(variant)
        if choices is not None:
            return one_of(literal(text) for text in map(self.style.write, choices) if can_match(text))
        return _WRITERS[variant.type](self, variant)

    def allowed_values(self, variant: Variant) -> list[Any] | None:
        """Return the enumerated values that satisfy the other keywords; None if no values are enumerated."""
        if variant.enum is None:
            return None
        word = "const" if "const" in variant.schema else "enum"
        others = {key: value for key, value in variant.schema.items() if key != word}
        return [choice for choice in variant.enum if is_valid(choice, others, variant.root)]

    def text(self, variant: Variant) -> str:
        """Return the expression of a string."""
        return self.style.write_text(self.rules, *size_limits(variant, "Length"))

    def number(self, variant: Variant) -> str | None:
        """Return the expression of a number or an integer within its bounds."""
        given = ((word, variant.get(word)) for word in _NUMERIC_BOUNDS)
        bounds = {word: value for word, value in given if _is_number(value) and abs(value) <= _LARGEST_BOUND}
        for word in ("Minimum", "Maximum"):
            if variant.get(f"exclusive{word}") is True and word.lower() in bounds:  # until draft 4
                bounds[f"exclusive{word}"] = bounds.pop(word.lower())
        if not bounds:
            return self.rules.add_terminal(_INTEGER if variant.type == "integer" else _NUMBER)
        least = max(bounds.get("minimum", -_LARGEST_BOUND), bounds.get("exclusiveMinimum", -_LARGEST_BOUND))
        most = min(bounds.get("maximum", _LARGEST_BOUND), bounds.get("exclusiveMaximum", _LARGEST_BOUND))
        if least > most:
            return None
        ends = {"minimum": least, "maximum": most} if variant.type == "integer" else {}
        schema = {"type": variant.type or "number", **ends, **bounds}
        # llguidance 1.9.1 takes 1.90 and not 1.9 below a bound of 1.91
        parts = [text[:end] for text in map(repr, bounds.values()) for end in range(text.find(".") + 2, len(text))]
        parts = [part for part in parts if "." in part and "e" not in part and is_valid(float(part), schema, schema)]
        return self.rules.add(" | ".join([f"%json {dump(schema)}", *map(literal, dict.fromkeys(parts))]))

    def boolean(self, _leaf: Variant) -> str | None:
        """Return the expression of true and false."""
        return one_of(map(literal, self.style.constants[:2]))

    def null(self, _leaf: Variant) -> str:
        return literal(self.style.constants[2])

    def array(self, variant: Variant) -> str | None:
        """Return the expression of a list."""
        least, most = size_limits(variant, "Items")
        items = self._items(variant, 0, least, most)
        return None if items is None else f'"[" {SPACE} {items} {SPACE} "]"'

    def _items(self, variant: Variant, index: int, least: int, most: int | None) -> str | None:
        """Return the expression of the items from `index` on, starting with the comma if there is one."""
        nothing = None if index < least else ""
        if most is not None and index >= most:
            return nothing
        item = self.write_value(variant.item(index))
        if item is None:
            return nothing
        comma = f"{_SEPARATOR} " if index else ""
        if index >= len(items_of(variant.schema)[0]) and index:
            more = None if most is None else most - index
            return repeat(f"{comma}{item}", max(least - index, 0), more)
        following = self._items(variant, index + 1, least, most)
        if following is None:
            return nothing
        return f"{comma}{item} {following}" if nothing is None else f"({comma}{item} {following})?"

    def object(self, variant: Variant) -> str | None:
        members = self._members(variant)
        return None if members is None else f'"{{" {SPACE} {members} {SPACE} "}}"'

    def keywords(self, variant: Variant) -> str | None:
        """Return the expression of an object whose members are `name=value`."""
        members = self._members(variant, is_keyword=True)
        return None if members is None else f"{SPACE} {members} {SPACE}"

    def _members(self, variant: Variant, is_keyword: bool = False) -> str | None:
        """Return the expression of the members, in the schema's order."""
        additional = self.undeclared_member(variant, is_keyword)
        if not (schemas := declared_members(variant)):
            return self._free_members(additional, *size_limits(variant, "Properties"))
        started = f"({_SEPARATOR} {additional})*" if additional else ""
        first: str | None = f"({additional} {started})?" if additional else ""
        required = variant.required
        for name, schema in reversed(schemas.items()):
            value = self.write_value(variant.part(schema)) if can_match(name) else None
            if value is None and name in required:
                return None
            if value is None:
                continue
            member = self.rules.add(self._declared_member(name, value, is_keyword))
            alone = f"{member} {started}"
            first = self.rules.add(alone if name in required else f"({alone} | {first})")
            following = f"{_SEPARATOR} {member}" if name in required else f"({_SEPARATOR} {member})?"
            started = self.rules.add(f"{following} {started}".strip())
        return first

    def _declared_member(self, name: str, value: str, is_keyword: bool) -> str:
        if is_keyword and name.isidentifier():
            return f"{literal(f'{name}=')} {value}"
        begin, end = ('"**{" ', f' {SPACE} "}}"') if is_keyword else ("", "")
        return f'{begin}{literal(self.style.write_key(name))} ":" {SPACE} {value}{end}'

    def _free_members(self, additional: str | None, least: int, most: int | None) -> str | None:
        if additional is None or most == 0:
            return "" if not least else None
        more = repeat(f"{_SEPARATOR} {additional}", max(least - 1, 0), None if most is None else most - 1)
        return f"{additional} {more}" if least else f"({additional} {more})?"

    def undeclared_member(self, variant: Variant, is_keyword: bool = False) -> str | None:
        """Return the expression of a member with an undeclared name; None if the schema does not ask for any."""
        value = self.write_value(variant.part(undeclared_schema(variant)))
        declared = declared_members(variant)
        if is_keyword or self.style.is_bare:
            name = any_name(self.rules, "[A-Za-z_][A-Za-z0-9_]*", [*declared, *RESERVED_WORDS])
        else:
            name = self.text(_ANY)
            if known := [literal(dump(value)) for value in declared if can_match(value)]:
                name = self.rules.add_terminal(f"{name} & ~({' | '.join(known)})")
        return value and self.rules.add(f"{name} {literal('=' if is_keyword else ':')} {SPACE} {value}")

    def anything(self, _leaf: Variant) -> str:
        """Return the expression of any value, nested at most `_MAX_FREE_DEPTH` levels."""
        return self.free_value(_MAX_FREE_DEPTH)

    def free_value(self, depth: int) -> str:
        """Return the expression of any JSON value, nested at most `depth` levels.

        A small model could open brackets without end.
        """
        plain = " | ".join([self.text(_ANY), str(self.number(_ANY)), *map(literal, self.style.constants)])
        if not depth:
            return self.rules.add(plain)
        inner = self.free_value(depth - 1)
        name = any_name(self.rules, "[A-Za-z_][A-Za-z0-9_]*", RESERVED_WORDS) if self.style.is_bare else self.text(_ANY)
        member = f'{name} ":" {SPACE} {inner}'
        listed = f'"[" {SPACE} ({inner} ({_SEPARATOR} {inner})*)? {SPACE} "]"'
        named = f'"{{" {SPACE} ({member} ({_SEPARATOR} {member})*)? {SPACE} "}}"'
        return self.rules.add(f"{plain} | {listed} | {named}")


_WRITERS: dict[str, Callable[[JsonRules, Variant], str | None]] = {
    "string": JsonRules.text,
    "integer": JsonRules.number,
    "number": JsonRules.number,
    "boolean": JsonRules.boolean,
    "null": JsonRules.null,
    "array": JsonRules.array,
    "object": JsonRules.object,
    "": JsonRules.anything,
}


def declared_members(variant: Variant) -> dict[str, Any]:
    """Return the declared members of an object, and those that are required without being declared."""
    additional = variant.schema.get("additionalProperties", True)
    return {**variant.properties, **{name: additional for name in variant.required if name not in variant.properties}}


def undeclared_schema(variant: Variant) -> Any:
    """Return the schema of undeclared members; False if none are allowed, or none are asked for."""
    asked_for = not declared_members(variant) and "properties" not in variant.schema
    return variant.schema.get("additionalProperties", asked_for)


def size_limits(variant: Variant, what: str) -> tuple[int, int | None]:
    """Return the minimum and the maximum of `what` ("Length", "Items", "Properties"); None for no maximum."""
    least, most = (variant.get(word + what) for word in ("min", "max"))
    at_least = int(least) if _is_number(least) and least > 0 else 0
    return at_least, int(most) if _is_number(most) and most >= 0 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
