"""What is wrong with a value by a JSON Schema: places and sentences for people. It imports next to nothing.

`jsonschema` says the same and more; its import takes twice as long as a whole call of a tool (88 ms, measured), so it
stays with the chat. Checked here are the assertions of 2020-12 but for `unevaluated*`, `$dynamicRef`, `format` and
references that leave the document: the server's own check decides those. A keyword with a wrong value says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from .schemas import (
    KIND_WORDS,
    describe,
    follow,
    is_match,
    item_of,
    name_choices,
    properties_of,
    required_of,
    same,
    show,
    spend,
    types_of,
)

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Place = tuple[str | int, ...]
    Fault = tuple[Place, str]
    References = tuple[str, ...]
    Check = Callable[[Any, Any, Mapping[str, Any], Place, References], Iterator[Fault]]

DEEPEST = 128
LONGEST_VALUE = 60
MOST_COMPARED = 1000


def find_faults(value: Any, schema: Any, root: Any, place: Place = (), via: References = ()) -> Iterator[Fault]:
    """All that is wrong with a value, each with its place from the outside in. `root` is what references lead into,
    `via` those that led here with this same value: one that leads back to itself says nothing more.

    A hostile schema can take for ever: whoever calls this sets a limit, or gives a Bounded root.
    """
    spend(root)
    if schema is False:
        yield place, "must not be given"
    if not isinstance(schema, Mapping) or len(place) > DEEPEST:
        return
    if value is None and schema.get("nullable") is True and "enum" not in schema:  # OpenAPI 3.0, beside $ref or allOf
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")) and reference not in via:
        yield from find_faults(value, follow(reference, root), root, place, (*via, reference))
    for word in schema:
        check = CHECKS.get(word)
        if check:
            yield from check(root, value, schema, place, via)


def is_fit(value: Any, schema: Any, root: Any, place: Place = (), via: References = ()) -> bool:
    return next(find_faults(value, schema, root, place, via), None) is None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


IS_KIND: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def quote(value: Any) -> str:
    """A value as JSON, cut short."""
    text = show(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def check_type(_root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    kinds = types_of(schema)
    if kinds and not any(IS_KIND.get(kind, lambda _: True)(value) for kind in kinds):
        yield place, f"must be {' or '.join(KIND_WORDS[kind] for kind in kinds)}, not {quote(value)}"


def check_enum(root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    choices = schema["enum"]
    spend(root, len(choices) if isinstance(choices, list) else 1)
    if isinstance(choices, list) and not any(same(value, choice) for choice in choices):
        yield place, f"must be {name_choices(choices)}, not {quote(value)}{nearest(value, choices)}"


def check_const(_root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    if not same(value, schema["const"]):
        yield place, f"must be {show(schema['const'])}, not {quote(value)}"


def nearest(value: Any, choices: list[Any]) -> str:
    """A question for the choice that was meant, as far as can be told; letters may differ in case."""
    if not isinstance(value, str) or len(value) > LONGEST_VALUE:
        return ""
    from difflib import get_close_matches

    words = {choice.casefold(): choice for choice in choices[:MOST_COMPARED] if isinstance(choice, str)}
    near = get_close_matches(value.casefold(), words, n=1)
    return f' (did you mean "{words[near[0]]}"?)' if near else ""


def bound(word: str, fails: Callable[[Any, Any], bool], sentence: str) -> Check:
    """The check of a bound on a number."""

    def check(_root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
        limit = schema[word]
        if is_number(value) and is_number(limit) and fails(value, limit):
            yield place, f"must be {sentence} {show(limit)}, not {show(value)}"

    return check


def size(word: str, kind: type, fails: Callable[[int, int], bool], sentence: str, unit: str) -> Check:
    """The check of how much there is of a text, a list or an object."""

    def check(_root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
        limit = schema[word]
        if isinstance(value, kind) and is_number(limit) and fails(len(value), limit):  # type: ignore[arg-type]
            units = unit if limit != 1 else {"entries": "entry"}.get(unit, unit.removesuffix("s"))
            yield place, f"must have {sentence} {limit} {units}, not {len(value)}"  # type: ignore[arg-type]

    return check


def is_multiple(value: Any, step: Any) -> bool:
    """Whether a number is a whole multiple, by its decimal digits: 0.3 is one of 0.1."""
    if not step or (isinstance(value, int) and isinstance(step, int)):
        return not step or value % step == 0
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(repr(value)) % Decimal(repr(step)) == 0
    except InvalidOperation:  # more digits apart than it can tell
        return True


def check_pattern(root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    pattern = schema["pattern"]
    if isinstance(value, str) and isinstance(pattern, str) and not is_match(pattern, value, root):
        yield place, f"must fit the pattern {pattern}, not {quote(value)}"


def check_items(root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from find_faults(item, item_of(schema, index), root, (*place, index))


def check_first_items(
    root: Any, value: Any, schema: Mapping[str, Any], place: Place, via: References
) -> Iterator[Fault]:
    if "items" not in schema:
        yield from check_items(root, value, schema, place, via)


def check_unique(_root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    if schema["uniqueItems"] is True and isinstance(value, list):
        for index, item in enumerate(value[:MOST_COMPARED]):
            if any(same(item, other) for other in value[:index]):
                yield place, f"must not hold {quote(item)} twice"
                return


def check_contains(root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    if not isinstance(value, list):
        return
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
    count = sum(is_fit(item, schema["contains"], root, (*place, 0)) for item in value)
    if (is_number(least) and count < least) or (is_number(most) and count > most):
        enough = "few" if is_number(least) and count < least else "many"
        yield place, f"has {count} entries that are {describe(schema['contains'], root)}: too {enough}"


def check_properties(
    root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References
) -> Iterator[Fault]:
    known = properties_of(schema)
    for name, item in value.items() if isinstance(value, dict) else ():
        if name in known:
            yield from find_faults(item, known[name], root, (*place, name))


def check_further(root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    known, patterns = properties_of(schema), patterns_of(schema)
    for name, item in value.items() if isinstance(value, dict) else ():
        spend(root)
        if name in known or any(is_match(pattern, name, root) for pattern in patterns):
            continue
        if schema["additionalProperties"] is False:
            spend(root, len(known))
            yield (*place, name), f"is unknown{nearest(name, list(known))}"
        else:
            yield from find_faults(item, schema["additionalProperties"], root, (*place, name))


def patterns_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    patterns = schema.get("patternProperties")
    return patterns if isinstance(patterns, Mapping) else {}


def check_patterns(root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    for name, item in value.items() if isinstance(value, dict) else ():
        for pattern, wanted in patterns_of(schema).items():
            if is_match(pattern, name, root):
                yield from find_faults(item, wanted, root, (*place, name))


def check_names(root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References) -> Iterator[Fault]:
    for name in value if isinstance(value, dict) else ():
        for _, sentence in find_faults(name, schema["propertyNames"], root, ()):
            yield place, f"has the name {quote(name)}, which {sentence}"


def check_required(
    _root: Any, value: Any, schema: Mapping[str, Any], place: Place, _via: References
) -> Iterator[Fault]:
    for name in required_of(schema) if isinstance(value, dict) else ():
        if name not in value:
            yield (*place, name), "is required"


def dependent(word: str) -> Check:
    """The check of what a name brings with it: further names, or a schema."""

    def check(root: Any, value: Any, schema: Mapping[str, Any], place: Place, via: References) -> Iterator[Fault]:
        table = schema[word]
        for name, wanted in table.items() if isinstance(value, dict) and isinstance(table, Mapping) else ():
            if name in value:
                with_name = {"required": wanted} if isinstance(wanted, list) else wanted
                yield from find_faults(value, with_name, root, place, via)

    return check


def check_all(root: Any, value: Any, schema: Mapping[str, Any], place: Place, via: References) -> Iterator[Fault]:
    for part in schema["allOf"] if isinstance(schema["allOf"], list) else ():
        yield from find_faults(value, part, root, place, via)


def check_any(root: Any, value: Any, schema: Mapping[str, Any], place: Place, via: References) -> Iterator[Fault]:
    tried = try_branches(root, value, schema["anyOf"], place, via)
    if all(tried):
        yield from best_faults(tried, value, {"anyOf": schema["anyOf"]}, root, place)


def check_one(root: Any, value: Any, schema: Mapping[str, Any], place: Place, via: References) -> Iterator[Fault]:
    tried = try_branches(root, value, schema["oneOf"], place, via)
    if tried.count([]) > 1:
        yield place, f"fits {tried.count([])} of the forms it may have, and may fit only one"
    elif all(tried):
        yield from best_faults(tried, value, {"oneOf": schema["oneOf"]}, root, place)


def try_branches(root: Any, value: Any, branches: Any, place: Place, via: References) -> list[list[Fault]]:
    """The faults by each branch. Each is tried once: trying again for the sentence would double at every level."""
    return [
        list(find_faults(value, branch, root, place, via))
        for branch in (branches if isinstance(branches, list) else ())
    ]


def best_faults(tried: list[list[Fault]], value: Any, union: Mapping[str, Any], root: Any, place: Place) -> list[Fault]:
    """The faults by the branch that was meant, as far as can be told: one that fails further inside, by its names
    rather than by its values, by few."""
    inside = [faults for faults in tried if all(len(where) > len(place) for where, _ in faults)]
    if inside:
        return min(inside, key=lambda faults: (sum("must be" in sentence for _, sentence in faults), len(faults)))
    if len(tried) == 1:
        return tried[0]
    return [(place, f"must be {describe(union, root)}, not {quote(value)}")] if tried else []


def check_not(root: Any, value: Any, schema: Mapping[str, Any], place: Place, via: References) -> Iterator[Fault]:
    if isinstance(schema["not"], Mapping | bool) and is_fit(value, schema["not"], root, place, via):
        yield place, f"must not be {describe(schema['not'], root)}"


def check_if(root: Any, value: Any, schema: Mapping[str, Any], place: Place, via: References) -> Iterator[Fault]:
    then = "then" if is_fit(value, schema["if"], root, place, via) else "else"
    yield from find_faults(value, schema.get(then), root, place, via)


CHECKS: dict[str, Check] = {
    "type": check_type,
    "enum": check_enum,
    "const": check_const,
    "minimum": bound("minimum", lambda value, limit: value < limit, "at least"),
    "maximum": bound("maximum", lambda value, limit: value > limit, "at most"),
    "exclusiveMinimum": bound("exclusiveMinimum", lambda value, limit: value <= limit, "more than"),
    "exclusiveMaximum": bound("exclusiveMaximum", lambda value, limit: value >= limit, "less than"),
    "multipleOf": bound("multipleOf", lambda value, step: not is_multiple(value, step), "a multiple of"),
    "minLength": size("minLength", str, lambda count, limit: count < limit, "at least", "characters"),
    "maxLength": size("maxLength", str, lambda count, limit: count > limit, "at most", "characters"),
    "minItems": size("minItems", list, lambda count, limit: count < limit, "at least", "entries"),
    "maxItems": size("maxItems", list, lambda count, limit: count > limit, "at most", "entries"),
    "minProperties": size("minProperties", dict, lambda count, limit: count < limit, "at least", "names"),
    "maxProperties": size("maxProperties", dict, lambda count, limit: count > limit, "at most", "names"),
    "pattern": check_pattern,
    "items": check_items,
    "prefixItems": check_first_items,
    "uniqueItems": check_unique,
    "contains": check_contains,
    "properties": check_properties,
    "additionalProperties": check_further,
    "patternProperties": check_patterns,
    "propertyNames": check_names,
    "required": check_required,
    "dependentRequired": dependent("dependentRequired"),
    "dependentSchemas": dependent("dependentSchemas"),
    "dependencies": dependent("dependencies"),
    "allOf": check_all,
    "anyOf": check_any,
    "oneOf": check_one,
    "not": check_not,
    "if": check_if,
}
