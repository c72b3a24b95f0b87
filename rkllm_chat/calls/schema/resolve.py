"""Resolve JSON Schemas: `Node` is a part of one, and its variants are what descriptions, flags and grammars read.

Values are validated in `validate.py`. Schemas come from servers, so none is trusted: a dangling or circular
reference, a keyword of the wrong type, or a boolean in place of an object yields a schema that says less. Nothing is
fetched.

Source: JSON Schema 2020-12, with `definitions` and lists of `items` of the earlier drafts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

READING_STEPS = 20_000
"""Budget for reading a schema without validating values."""
_MAX_REFERENCES = 32
_MAX_ATTEMPTS, _ATTEMPTS_PER_STEP = 10_000_000, 100
_MAX_DEPTH = 8
_MAX_NESTING = 64
_MAX_VARIANTS = 64
UNIONS = ("anyOf", "oneOf")
TYPE_KEYWORDS = {
    "object": ("properties", "additionalProperties", "patternProperties", "required", "minProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "string": ("pattern", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Type -> keywords that imply it in a schema without `type`."""
_TYPES = (*TYPE_KEYWORDS, "integer", "boolean", "null")


class BudgetExceededError(Exception):
    """Reading a schema took more steps than its budget."""


class BudgetedSchema(dict[str, Any]):
    """A root schema with a budget of steps for reading it and validating with it.

    Patterns that may take forever are not tried; they are assumed to match, or not to.

    Attributes:
        steps: Steps left.
        assumed_match: The assumed result of patterns that are not tried.
        has_untested_pattern: Whether a pattern was not tried.
    """

    def __init__(self, schema: Mapping[str, Any], steps: int) -> None:
        super().__init__(schema)
        self.steps = steps
        self.assumed_match = True
        self.has_untested_pattern = False


def spend_steps(root: Any, steps: int = 1) -> None:
    """Subtract steps from the budget of a `BudgetedSchema` root; any other root is unlimited.

    Raises:
        BudgetExceededError: The budget is spent.
    """
    if isinstance(root, BudgetedSchema):
        root.steps -= steps
        if root.steps < 0:
            raise BudgetExceededError


def resolve_ref(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a local `$ref`; the keywords beside it also count.

    A dangling reference yields an empty schema; one that leaves the document is left unresolved.
    """
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return schema
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = follow_pointer(reference, root)
        schema = {**target, **beside} if isinstance(target, Mapping) else beside
    return {}


def follow_pointer(reference: str, root: Any) -> Any:
    """Return the target of a JSON pointer in a URI fragment (RFC 6901, section 6); None if there is none."""
    if "%" in reference:
        from urllib.parse import unquote

        reference = unquote(reference)
    target = root
    for part in reference.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list):
            target = target[int(key)] if key.isdecimal() and int(key) < len(target) else None
        else:
            target = target.get(key) if isinstance(target, Mapping) else None
    return target


def expand_schema(schema: Any, root: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return the schema with its `$ref` resolved and its `allOf` merged into it."""
    spend_steps(root)
    if not isinstance(schema, Mapping):
        return {"enum": []} if schema is False else {}
    merged = dict(resolve_ref(schema, root))
    parts = merged.pop("allOf", None)
    for part in parts if isinstance(parts, list) and depth < _MAX_DEPTH else ():
        merged = combine_schemas(merged, expand_schema(part, root, depth + 1))
    return merged


def combine_schemas(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two schemas that both apply: precise enough to read text by, not to validate with."""
    combined = {**other, **one}
    if properties_of(one) and properties_of(other):
        combined["properties"] = {**properties_of(other), **properties_of(one)}
    if isinstance(one.get("enum"), list) and isinstance(other.get("enum"), list):
        combined["enum"] = [value for value in one["enum"] if value in other["enum"]]
    if one.get("type") and other.get("type"):
        combined["type"] = [name for name in types_of(one) if name in types_of(other)] or one["type"]
    combined.pop("required", None)
    required = list(dict.fromkeys([*required_of(one), *required_of(other)]))
    return {**combined, "required": required} if required else combined


def properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties of a schema; empty if a broken schema has something else there."""
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def required_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the required properties."""
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the names in `type`, and "null" if OpenAPI's `nullable` adds it; empty without `type`."""
    kind = schema.get("type")
    words = [word for word in (kind if isinstance(kind, list) else [kind]) if isinstance(word, str)]
    return [*words, "null"] if words and schema.get("nullable") is True and "null" not in words else words


def _split_unions(schema: dict[str, Any], root: Mapping[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the schema once for each branch of its unions, combined with the keywords beside the union."""
    union = next((word for word in UNIONS if isinstance(schema.get(word), list) and schema[word]), None)
    if union is None or depth == _MAX_DEPTH:
        yield schema
        return
    rest = {key: value for key, value in schema.items() if key != union}
    for branch in schema[union]:
        yield from _split_unions(combine_schemas(expand_schema(branch, root), rest), root, depth + 1)


def _split_types(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schema once for each of its types; without `type`, for the one that its keywords imply."""
    types = types_of(schema)
    if not types and not enum_values(schema):
        types = [name for name, words in TYPE_KEYWORDS.items() if any(word in schema for word in words)][:1]
    if types:
        yield from ({**schema, "type": name} for name in types)
    else:
        yield {key: value for key, value in schema.items() if key != "type"}


def enum_values(variant: Mapping[str, Any]) -> list[Any] | None:
    """Return the values that a variant enumerates (`enum`, `const`); None if it enumerates none."""
    if "const" in variant:
        return [variant["const"]]
    return variant["enum"] if isinstance(variant.get("enum"), list) else None


def json_equal(one: Any, other: Any) -> bool:
    """Compare as JSON: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(json_equal(value, other[key]) for key, value in one.items())
    return bool(one == other)


def matches_pattern(pattern: Any, text: str, root: Any) -> bool:
    """Tell whether a pattern occurs in a text.

    A pattern that Python cannot compile counts as a match, which leaves it to the server; one that may take too long
    on a `BudgetedSchema` root is not tried.
    """
    if isinstance(root, BudgetedSchema) and isinstance(pattern, str):
        attempts = _estimate_attempts(pattern, text)
        if attempts > _MAX_ATTEMPTS:
            root.has_untested_pattern = True
            return root.assumed_match
        spend_steps(root, attempts // _ATTEMPTS_PER_STEP)
    try:
        return bool(re.search(pattern, text))
    except (re.error, RecursionError, OverflowError, TypeError):
        return True


def _estimate_attempts(pattern: str, text: str) -> int:
    """Estimate the maximum number of attempts of a search.

    Each part that may be repeated or left out multiplies it by the length of the text. Repeated groups have no bound.
    """
    plain = re.sub(r"\\.|\(\?[:=!]", "(", pattern, flags=re.DOTALL)
    if re.search(r"\)[*+{]", plain):
        return _MAX_ATTEMPTS + 1
    variable_parts = len(re.findall(r"[*+?{|]", plain))
    attempts: int = max(len(text), 2) ** (min(variable_parts, 24) + 1)
    return attempts


def remove_patterns(schema: Any, depth: int = 0) -> Any:
    """Return the schema without regular expressions.

    A hostile pattern can run forever, and the server validates its own anyway. `additionalProperties` is removed
    together with `patternProperties`, because it depends on them.
    """
    if depth > _MAX_NESTING:
        return {}
    if isinstance(schema, Mapping):
        remaining = {key: value for key, value in schema.items() if not (key == "pattern" and isinstance(value, str))}
        if remaining.pop("patternProperties", None):
            remaining.pop("additionalProperties", None)
        return {key: remove_patterns(value, depth + 1) for key, value in remaining.items()}
    return [remove_patterns(item, depth + 1) for item in schema] if isinstance(schema, list) else schema


def items_of(schema: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """Return the schemas of the first items of a list, and the schema of the others; None if it has none."""
    items, first = schema.get("items"), schema.get("prefixItems")
    if isinstance(items, list):  # until draft 2019-09
        first, items = items, schema.get("additionalItems")
    return (first if isinstance(first, list) else []), items


def item_schema(schema: Mapping[str, Any], index: int) -> Any:
    """Return the schema of the item at `index` of a list."""
    first, others = items_of(schema)
    return first[index] if index < len(first) else {} if others is None or others is True else others


class Node:
    """A part of a schema with the document that its references resolve against.

    Attributes:
        schema: The part; anything but an object says nothing, and False allows no value.
        root: The document; a `BudgetedSchema` limits the steps of every method.
    """

    __slots__ = ("root", "schema")

    def __init__(self, schema: Any, root: Any = None) -> None:
        self.schema = schema
        self.root: Mapping[str, Any] = schema if root is None else root

    def part(self, schema: Any) -> Node:
        """Return the node of another part of the document."""
        return Node(schema, self.root)

    def merged(self) -> dict[str, Any]:
        """Return the schema with its `$ref` resolved and its `allOf` merged into it."""
        return expand_schema(self.schema, self.root)

    def variants(self) -> list[Variant]:
        """Return the variants of a value, in the schema's order."""
        unions = _split_unions(self.merged(), self.root)
        variants = (Variant(variant, self.root) for union in unions for variant in _split_types(union))
        return list(islice(variants, _MAX_VARIANTS))

    def types(self) -> list[str]:
        return list(dict.fromkeys(variant.type for variant in self.variants()))

    def choices(self) -> list[Any]:
        """Return the values that the schema enumerates, in all variants and, for a list, in its items."""
        distinct: list[Any] = []
        for variant in self.variants():
            values = variant.enum
            if values is None and variant.type == "array" and isinstance(variant.get("items"), Mapping):
                values = [value for item in variant.part(variant.get("items")).variants() for value in item.enum or ()]
            distinct += [value for value in values or () if not any(json_equal(value, known) for known in distinct)]
        return distinct

    def examples(self) -> list[Any]:
        """Return the values that the schema gives as examples, then its default."""
        merged = self.merged()
        examples = merged.get("examples")
        offered = [merged["default"]] if "default" in merged else []
        return [*examples, *offered] if isinstance(examples, list) else offered

    def property_names(self) -> list[str]:
        return list(dict.fromkeys(name for variant in self.variants() for name in variant.properties))

    def member(self, name: str, is_open: bool = True) -> Node | None:
        """Return what any variant of the object allows for a property; None if no variant allows the name.

        Args:
            name: The property.
            is_open: Whether an object that declares nothing about its names allows any.
        """
        members: list[Any] = []
        for variant in self.variants():
            if variant.type in ("object", ""):
                member = variant.properties.get(name)
                member = variant.additional(name, is_open) if member is None else member
                if member is not None and member is not False and member not in members:
                    members.append(member)
        return self.part({"anyOf": members} if len(members) > 1 else members[0]) if members else None

    def expected_at(self, path: Iterable[str | int]) -> Any:
        """Return what is expected at a path in a value, for an error message.

        Returns:
            The enumerated values, else the types; the declared names, if the path names an unknown property.
        """
        node: Node = self
        for part in path:
            inner = node.variants()[0].item(part) if isinstance(part, int) else node.member(part)
            if inner is None:
                return node.property_names()
            node = inner
        expected = node.choices() or node.types()
        return expected[0] if len(expected) == 1 else expected


class Variant(Node):
    """One way a value may be: without references, `allOf` and unions, of at most one type.

    Attributes:
        schema: Its keywords.
        type: The type; "" if it may be anything.
        enum: The enumerated values (`enum`, `const`); None if none are enumerated.
    """

    __slots__ = ("enum", "type")

    def __init__(self, schema: Mapping[str, Any], root: Any) -> None:
        super().__init__(schema, root)
        name = schema.get("type", "")
        self.type: str = name if name in _TYPES else ""
        self.enum = enum_values(schema)

    def get(self, keyword: str) -> Any:
        """Return the value of a keyword, or None."""
        return self.schema.get(keyword)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schemas of the declared properties."""
        return properties_of(self.schema)

    @property
    def required(self) -> list[str]:
        """The names of the required properties."""
        return required_of(self.schema)

    def item(self, index: int) -> Node:
        """Return what the item at `index` of a list may be."""
        return self.part(item_schema(self.schema, index))

    def additional(self, name: str, is_open: bool = True) -> Any:
        """Return the schema of an undeclared property; None if the object does not allow that name."""
        patterns = self.get("patternProperties")
        for pattern, schema in patterns.items() if isinstance(patterns, Mapping) else ():
            if matches_pattern(pattern, name, self.root):
                return schema
        if "additionalProperties" not in self.schema and "properties" not in self.schema and not patterns and is_open:
            return {}
        additional = self.get("additionalProperties")
        return {} if additional is True else additional if isinstance(additional, Mapping) else None
