"""Convert JSON Schemas to GBNF for JSON, compact or indented, with keys in the schema's order.

Every value that the grammar allows is valid, except for what a grammar of this size cannot express: `pattern`,
`format`, `multipleOf`, `uniqueItems`, `contains`, `not`, conditions, the "exactly one" of `oneOf`, counts and patterns
of names, `unevaluated*`, `allOf` beyond what `resolve.combine_schemas` merges, and an undeclared name that occurs
twice. Undeclared names are written where the schema asks for them: by `additionalProperties`, or by declaring none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from string import ascii_letters
from typing import Any

from ..formats.layout import GemmaArguments, dump
from ..json_repair import RESERVED_WORDS
from ..python_parser import write_python
from ..schema.resolve import READING_STEPS, BudgetedSchema, Node, Variant, items_of, remove_patterns
from ..schema.validate import is_valid
from .gbnf import NO_MATCH, SPACE, GrammarRules, any_of, can_match, literal, none_of, one_literal_of, one_of, repeat
from .number_ranges import Bound, integers, numbers
from .text_values import TextStyle, write_text

_MAX_FREE_DEPTH = 8
_ANY = Variant({}, {})
_SEPARATOR = f'"," {SPACE}'
_HEX = "[0-9a-fA-F]"
# surrogates are excluded: half of a pair is no character
_CODE = rf'"u" ([0-9a-cA-CeEfF] {_HEX}{{3}} | [dD] [0-7] {_HEX}{{2}})'
ESCAPE = rf'"\\" (["\\/bfnrt] | {_CODE})'


@dataclass(frozen=True)
class JsonStyle:
    """How JSON is written inside a call.

    Attributes:
        write: Writes a value.
        write_key: Writes the name of a declared member.
        opening: What begins a text.
        text: How a text continues.
        is_bare: Whether the names of members that are not declared are words without quotes.
        constants: How true, false and null are written.
        is_keyword: Whether the members of the arguments are `name=value`, without braces.
    """

    write: Callable[[Any], str]
    write_key: Callable[[str], str]
    opening: str
    text: TextStyle
    is_bare: bool = False
    constants: tuple[str, str, str] = ("true", "false", "null")
    is_keyword: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """The fixed texts of a value."""
        return (self.opening, self.text.closing)

    def write_arguments(self, rules: GrammarRules, schema: Mapping[str, Any]) -> str | None:
        """Return the expression of a tool's arguments as an object; None if no arguments are valid."""
        values = JsonRules(rules, schema, self)
        write = values.keywords if self.is_keyword else values.object
        return one_of(map(write, values.argument_variants()))


JSON = JsonStyle(dump, dump, '"', TextStyle('"', escaped='"\\', escapes=ESCAPE))
PYTHON = JsonStyle(
    *(write_python, dump, '"', TextStyle('"', escaped='"\\', escapes=rf'"\\" (["\\bfnrt] | {_CODE})')),
    constants=("True", "False", "None"),
    is_keyword=True,
)


def gemma_style(arguments: GemmaArguments) -> JsonStyle:
    """Return the style of FunctionGemma and Gemma 4: texts between marks, names without quotes."""
    text = TextStyle(arguments.quote, controls=True, leads=(arguments.quote[:4],))
    return JsonStyle(arguments.write_value, arguments.write_key, arguments.quote, text, is_bare=True)


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
            self.rules.define(name, body or NO_MATCH)
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
            texts = dict.fromkeys(filter(can_match, map(self.style.write, choices)), "")
            return one_literal_of(texts) if texts else None
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
        text = write_text(self.rules, self.style.text, *size_limits(variant, "Length"))
        return self.rules.add(f"{literal(self.style.opening)} {text}")

    def integer(self, variant: Variant) -> str | None:
        """Return the expression of an integer within its bounds."""
        expression = integers(_lower(variant), _upper(variant))
        return expression and self.rules.add(expression)

    def number(self, variant: Variant) -> str | None:
        """Return the expression of a number within its bounds."""
        expression = numbers(_lower(variant), _upper(variant))
        return expression and self.rules.add(expression)

    def boolean(self, _leaf: Variant) -> str:
        """Return the expression of true and false."""
        return self.rules.add(" | ".join(map(literal, self.style.constants[:2])))

    def null(self, _leaf: Variant) -> str:
        """Return the expression of null."""
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
            return repeat(self.rules, f"{comma}{item}", max(least - index, 0), more)
        following = self._items(variant, index + 1, least, most)
        if following is None:
            return nothing
        return f"{comma}{item} {following}" if nothing is None else f"({comma}{item} {following})?"

    def object(self, variant: Variant) -> str | None:
        """Return the expression of an object."""
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
            value = self.write_value(variant.part(schema)) if can_match(self.style.write_key(name)) else None
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
        more = repeat(self.rules, f"{_SEPARATOR} {additional}", max(least - 1, 0), None if most is None else most - 1)
        return f"{additional} {more}" if least else f"({additional} {more})?"

    def undeclared_member(self, variant: Variant, is_keyword: bool = False) -> str | None:
        """Return the expression of a member with an undeclared name; None if the schema does not ask for any."""
        value = self.write_value(variant.part(undeclared_schema(variant)))
        name = self._undeclared_name(declared_members(variant), is_keyword)
        return value and self.rules.add(f"{name} {literal('=' if is_keyword else ':')} {SPACE} {value}")

    def _undeclared_name(self, declared: Iterable[str] = (), is_bare: bool = False) -> str:
        style = self.style
        if is_bare or style.is_bare:
            word = self.rules.add("[A-Za-z0-9_]")
            return name_except(["", *declared, *RESERVED_WORDS], word, allowed=f"{ascii_letters}_")
        if not declared:
            return self.text(_ANY)
        plain = self.rules.add(none_of(style.text.special))
        name = name_except(declared, plain, style.text.special)
        return f"{literal(style.opening)} {name} {literal(style.text.closing)}"

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
        member = f'{self._undeclared_name()} ":" {SPACE} {inner}'
        listed = f'"[" {SPACE} ({inner} ({_SEPARATOR} {inner})*)? {SPACE} "]"'
        named = f'"{{" {SPACE} ({member} ({_SEPARATOR} {member})*)? {SPACE} "}}"'
        return self.rules.add(f"{plain} | {listed} | {named}")


_WRITERS: dict[str, Callable[[JsonRules, Variant], str | None]] = {
    "string": JsonRules.text,
    "integer": JsonRules.integer,
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
    least, most = (_whole_of(variant.get(word + what)) for word in ("min", "max"))
    return least or 0, most


def _whole_of(value: Any) -> int | None:
    number = _number_of(value)
    return int(number) if number is not None and number >= 0 else None


def _number_of(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(repr(value)) if isinstance(value, int) or isfinite(value) else None


def _lower(variant: Variant) -> Bound | None:
    """Return the larger of the lower bounds."""
    bounds = _bounds(variant, "minimum", "exclusiveMinimum")
    return max(bounds, key=lambda bound: (bound.value, bound.is_open), default=None)


def _upper(variant: Variant) -> Bound | None:
    """Return the smaller of the upper bounds."""
    bounds = _bounds(variant, "maximum", "exclusiveMaximum")
    return min(bounds, key=lambda bound: (bound.value, not bound.is_open), default=None)


def _bounds(variant: Variant, closed: str, opened: str) -> list[Bound]:
    inclusive, exclusive = _number_of(variant.get(closed)), _number_of(variant.get(opened))
    is_open = variant.get(opened) is True  # until draft 4
    return [
        *([Bound(inclusive, is_open)] if inclusive is not None else []),
        *([Bound(exclusive, True)] if exclusive is not None else []),
    ]


def name_except(names: Iterable[str], plain: str, special: str = "", allowed: str = "") -> str:
    """Return an expression for a name that is none of `names`.

    Args:
        names: The excluded names.
        plain: Expression of one character of the name.
        special: Characters that the name cannot contain.
        allowed: The only characters with which it may differ from an excluded name; "" if it may with any other.
    """
    children: dict[str, list[str]] = {}
    for name in filter(None, names):
        if name[0] in allowed if allowed else name[0] not in special:
            children.setdefault(name[0], []).append(name[1:])
    others = "".join(char for char in allowed if char not in children)
    different = any_of(others) if allowed else none_of(special + "".join(children))
    alternatives = [
        f"{literal(char)} {name_except(rests, plain, special, allowed)}" for char, rests in children.items()
    ]
    return one_of([*alternatives, f"{different} {plain}*", *([] if "" in names else ['""'])]) or NO_MATCH
