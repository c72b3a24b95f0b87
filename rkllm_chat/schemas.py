"""What a JSON Schema lets a value be, read for people and for flags. It judges no value (`faults.py` does).

Schemas come from servers, so nothing here trusts one: a reference that leads nowhere or round in a circle, a keyword of
the wrong type, a boolean where an object belongs all give a schema that says less. Nothing is fetched.
Source: JSON Schema 2020-12, with `definitions` and `items` lists of the drafts before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

MOST_STEPS = 32
MOST_WORK = 10_000_000
WORK_OF_A_STEP = 100
DEEPEST = 8
MOST_LEAVES = 64
UNIONS = ("anyOf", "oneOf")
# What a schema without `type` is about, told by its other words.
TELLING = {
    "object": ("properties", "additionalProperties", "patternProperties", "required", "minProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "string": ("pattern", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
KIND_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "": "any value",
}


class TooCostlyError(Exception):
    """A schema has taken more steps than it was given."""


class Bounded(dict):  # type: ignore[type-arg]  # a dict[str, Any]; to say so needs typing
    """A schema, as the root that references lead into, that may be read and judged by for so many steps.

    Patterns that may take for ever are not tried then: they are assumed to match, or not to; `has_assumed` tells.
    """

    def __init__(self, schema: Mapping[str, Any], steps: int) -> None:
        super().__init__(schema)
        self.steps = steps
        self.assumed = True
        self.has_assumed = False


def spend(root: Any, steps: int = 1) -> None:
    """Counts steps where the root is bounded. Raises TooCostlyError when there are none left."""
    if isinstance(root, Bounded):
        root.steps -= steps
        if root.steps < 0:
            raise TooCostlyError


def resolve(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follows a local `$ref`; what stands beside it counts too. A reference to nowhere is an empty schema, one that
    leaves the document is left as it stands."""
    for _ in range(MOST_STEPS):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return schema
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = follow(reference, root)
        schema = {**target, **beside} if isinstance(target, Mapping) else beside
    return {}


def follow(reference: str, root: Any) -> Any:
    """What a JSON pointer in a URI fragment points at (RFC 6901, section 6); None where there is nothing."""
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


def whole(schema: Any, root: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """The schema with its `$ref` followed and its `allOf` drawn into it."""
    spend(root)
    if not isinstance(schema, Mapping):
        return {"enum": []} if schema is False else {}
    found = dict(resolve(schema, root))
    parts = found.pop("allOf", None)
    for part in parts if isinstance(parts, list) and depth < DEEPEST else ():
        found = join(found, whole(part, root, depth + 1))
    return found


def join(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two schemas that both hold, as one: good enough to read a text by, not to judge a value by."""
    joined = {**other, **one}
    if properties_of(one) and properties_of(other):
        joined["properties"] = {**properties_of(other), **properties_of(one)}
    joined["required"] = list(dict.fromkeys([*required_of(one), *required_of(other)]))
    if isinstance(one.get("enum"), list) and isinstance(other.get("enum"), list):
        joined["enum"] = [value for value in one["enum"] if value in other["enum"]]
    if one.get("type") and other.get("type"):
        joined["type"] = [kind for kind in types_of(one) if kind in types_of(other)] or one["type"]
    return joined if joined["required"] else {key: value for key, value in joined.items() if key != "required"}


def properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties of a schema; none where a broken schema has something else there."""
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def required_of(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """The words under `type`, and "null" where OpenAPI's `nullable` adds it; none where there is no `type`."""
    kind = schema.get("type")
    words = [word for word in (kind if isinstance(kind, list) else [kind]) if isinstance(word, str)]
    return [*words, "null"] if words and schema.get("nullable") is True and "null" not in words else words


def leaves_of(schema: Any, root: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All that a value may be, in the schema's order: each a schema without a union, and with at most one type."""
    return list(islice(walk_leaves(whole(schema, root), root, 0), MOST_LEAVES))


def walk_leaves(schema: dict[str, Any], root: Mapping[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    union = next((word for word in UNIONS if isinstance(schema.get(word), list) and schema[word]), "")
    if union and depth < DEEPEST:
        base = {key: value for key, value in schema.items() if key != union}
        for branch in schema[union]:
            yield from walk_leaves(join(whole(branch, root), base), root, depth + 1)
        return
    told = next((kind for kind, words in TELLING.items() if any(word in schema for word in words)), None)
    kinds = types_of(schema) or ([told] if told and not choices_of(schema) else [])
    yield from ({**schema, "type": kind} for kind in kinds)
    if not kinds:
        yield {key: value for key, value in schema.items() if key != "type"}


def kind_of(leaf: Mapping[str, Any]) -> str:
    """The type of a leaf; "" where it may be anything."""
    kind = leaf.get("type", "")
    return kind if kind in KIND_WORDS else ""


def all_kinds(schema: Any, root: Mapping[str, Any]) -> list[str]:
    """The types of all that a value may be."""
    return list(dict.fromkeys(kind_of(leaf) for leaf in leaves_of(schema, root)))


def choices_of(leaf: Mapping[str, Any]) -> list[Any] | None:
    """The values that a leaf names; None where it names none."""
    if "const" in leaf:
        return [leaf["const"]]
    return leaf["enum"] if isinstance(leaf.get("enum"), list) else None


def all_choices(schema: Any, root: Mapping[str, Any]) -> list[Any]:
    """The values that a schema names, through its unions and, for a list, its items."""
    found: list[Any] = []
    for leaf in leaves_of(schema, root):
        named = choices_of(leaf)
        if named is None and kind_of(leaf) == "array" and isinstance(leaf.get("items"), Mapping):
            named = [choice for item in leaves_of(leaf["items"], root) for choice in choices_of(item) or ()]
        found += [choice for choice in named or () if not any(same(choice, other) for other in found)]
    return found


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other)


def property_names(schema: Any, root: Mapping[str, Any]) -> list[str]:
    """The names an object may have by its schema, in its order, through all branches of a union."""
    leaves = leaves_of(schema, root)
    return list(dict.fromkeys(name for leaf in leaves for name in properties_of(leaf)))


def child_of(schema: Any, name: str, root: Mapping[str, Any], is_free: bool = True) -> Any:
    """The schema of one property of an object; None where the object says nothing of that name.

    A property of several branches may be what any of them says. `is_free`: an object that says nothing at all about
    its names takes any.
    """
    found: list[Any] = []
    for leaf in leaves_of(schema, root):
        if kind_of(leaf) not in ("object", ""):
            continue
        child = properties_of(leaf).get(name)
        child = further_of(leaf, name, is_free, root) if child is None else child
        if child is not None and child is not False and child not in found:
            found.append(child)
    return {"anyOf": found} if len(found) > 1 else next(iter(found), None)


def further_of(leaf: Mapping[str, Any], name: str, is_free: bool, root: Mapping[str, Any]) -> Any:
    """The schema of a name that is not among the properties, where the object takes such names."""
    patterns = leaf.get("patternProperties")
    for pattern, schema in patterns.items() if isinstance(patterns, Mapping) else ():
        if is_match(pattern, name, root):
            return schema
    if "additionalProperties" not in leaf and "properties" not in leaf and not patterns and is_free:
        return {}
    further = leaf.get("additionalProperties")
    return {} if further is True else further if isinstance(further, Mapping) else None


def is_match(pattern: Any, text: str, root: Any) -> bool:
    """Whether a pattern is found in a text. One that Python does not read is the server's business, and so is one that
    may take too long where the root is bounded."""
    if isinstance(root, Bounded) and isinstance(pattern, str):
        work = most_work(pattern, text)
        if work > MOST_WORK:
            root.has_assumed = True
            return root.assumed
        spend(root, work // WORK_OF_A_STEP)
    try:
        return bool(re.search(pattern, text))
    except (re.error, RecursionError, OverflowError, TypeError):
        return True


def most_work(pattern: str, text: str) -> int:
    """The most that a search can try: each part that may be repeated or left out, at each place of the text. Where a
    group is repeated, there is no telling."""
    plain = re.sub(r"\\.|\(\?[:=!]", "(", pattern, flags=re.DOTALL)
    if re.search(r"\)[*+{]", plain):
        return MOST_WORK + 1
    loose = len(re.findall(r"[*+?{|]", plain))
    work: int = max(len(text), 2) ** (min(loose, 24) + 1)
    return work


def item_of(leaf: Mapping[str, Any], index: int) -> Any:
    """The schema of one item of a list."""
    items, first = leaf.get("items"), leaf.get("prefixItems")
    if isinstance(items, list):  # until draft 2019-09
        first, items = items, leaf.get("additionalItems")
    if isinstance(first, list) and index < len(first):
        return first[index]
    return {} if items is None or items is True else items


def expected_at(place: Iterable[str | int], root: Any) -> Any:
    """What a schema wants at a place in a value: its choices, else its types; the names there are, where there is none
    of that name."""
    found: Any = root
    for part in place:
        leaves = leaves_of(found, root)
        inner = item_of(leaves[0], part) if isinstance(part, int) else child_of(found, part, root)
        if inner is None:
            return property_names(found, root)
        found = inner
    wanted = all_choices(found, root) or all_kinds(found, root)
    return wanted[0] if len(wanted) == 1 else wanted


def describe(schema: Any, root: Mapping[str, Any]) -> str:
    """What a value may be, in words: "a whole number, or null"."""
    words = [describe_leaf(leaf, root) for leaf in leaves_of(schema, root)]
    return ", or ".join(dict.fromkeys(words))


def describe_leaf(leaf: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> str:
    choices = choices_of(leaf)
    if choices is not None:
        return name_choices(choices)
    kind = kind_of(leaf)
    if kind == "array" and isinstance(leaf.get("items"), Mapping) and depth < 2:
        items = [describe_leaf(item, root, depth + 1) for item in leaves_of(leaf["items"], root)]
        return f"a list of ({', or '.join(dict.fromkeys(items))})"
    return KIND_WORDS[kind]


def name_choices(choices: Iterable[Any], most: int = 12) -> str:
    words = [show(choice) for choice in choices]
    if not words:
        return "nothing"
    rest = [f"{len(words) - most} more"] if len(words) > most else []
    return words[0] if len(words) == 1 else f"one of {', '.join([*words[:most], *rest])}"


def show(value: Any) -> str:
    """A value as a person would write it behind a flag."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
