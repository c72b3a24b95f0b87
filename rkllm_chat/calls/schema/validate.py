"""Validate a value against a JSON Schema.

`jsonschema` has no limit of steps, which hostile schemas require, and importing it takes twice as long as a whole tool
call (88 ms, measured); tests compare the two. Checked are the assertions of JSON Schema 2020-12 except `$dynamicRef`,
`format`, and references that leave the document, which are left to the server. A keyword with an invalid value is
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .resolve import (
    Node,
    follow_pointer,
    item_schema,
    items_of,
    json_equal,
    matches_pattern,
    properties_of,
    required_of,
    spend_steps,
    types_of,
)
from .wording import ValuePath, Violation

Check = Callable[[Any, Mapping[str, Any], "_Scope"], Iterator[Violation]]

_MAX_DEPTH = 128
_MAX_COMPARED = 1000


class _Scope:
    """Where a value is validated.

    Attributes:
        root: The document that `$ref` resolves against.
        path: Path of the value in the whole value.
        via: References already followed for this same value; a repeated one allows everything.
    """

    __slots__ = ("path", "root", "via")

    def __init__(self, root: Any, path: ValuePath = (), via: tuple[str, ...] = ()) -> None:
        self.root = root
        self.path = path
        self.via = via

    def inside(self, part: str | int) -> _Scope:
        """Return the scope of a member or an item of the value."""
        return _Scope(self.root, (*self.path, part))

    def violation(self, kind: str, value: Any, expected: Any = None) -> Violation:
        return Violation(self.path, kind, value, expected, self.root)


def iter_errors(value: Any, schema: Any, root: Any) -> Iterator[Violation]:
    """Yield every violation, outermost first.

    Args:
        value: A JSON value.
        schema: The schema to validate it against.
        root: The document that `$ref` resolves against; a `BudgetedSchema` limits the steps. With any other, the caller
            must set a limit: a hostile schema can take forever.

    Raises:
        BudgetExceededError: The step budget of `root` is spent.
    """
    return _iter_errors(value, schema, _Scope(root))


def _iter_errors(value: Any, schema: Any, scope: _Scope) -> Iterator[Violation]:
    spend_steps(scope.root)
    if schema is False:
        yield scope.violation("false", value)
    if not isinstance(schema, Mapping) or len(scope.path) > _MAX_DEPTH:
        return
    if value is None and schema.get("nullable") is True and "enum" not in schema:  # OpenAPI 3.0, beside $ref or allOf
        return
    for target, followed in _follow(schema, scope):
        yield from _iter_errors(value, target, followed)
    for keyword in schema:
        check = KEYWORD_CHECKS.get(keyword)
        if check:
            yield from check(value, schema, scope)
    if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
        yield from _check_unevaluated(value, schema, scope)


def _follow(schema: Mapping[str, Any], scope: _Scope) -> Iterator[tuple[Any, _Scope]]:
    """Yield the target of a reference into the document with its scope, unless it was followed already."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")) and reference not in scope.via:
        yield follow_pointer(reference, scope.root), _Scope(scope.root, scope.path, (*scope.via, reference))


def is_valid(value: Any, schema: Any, root: Any) -> bool:
    """Tell whether a value is valid; arguments as for `iter_errors`."""
    return _is_valid(value, schema, _Scope(root))


def allows(node: Node, value: Any) -> bool:
    """Tell whether a node's schema allows a value."""
    return is_valid(value, node.schema, node.root)


def _is_valid(value: Any, schema: Any, scope: _Scope) -> bool:
    return next(_iter_errors(value, schema, scope), None) is None


def is_number(value: Any) -> bool:
    """Tell whether a value is a JSON number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPE_PREDICATES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
"""Type name -> whether a value has that type."""


def _check_type(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    types = types_of(schema)
    if types and not any(TYPE_PREDICATES.get(name, lambda _: True)(value) for name in types):
        yield scope.violation("type", value, types)


def _check_enum(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    choices = schema["enum"]
    spend_steps(scope.root, len(choices) if isinstance(choices, list) else 1)
    if isinstance(choices, list) and not any(json_equal(value, choice) for choice in choices):
        yield scope.violation("enum", value, choices)


def _check_const(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    if not json_equal(value, schema["const"]):
        yield scope.violation("const", value, schema["const"])


def _bound(keyword: str, fails: Callable[[Any, Any], bool]) -> Check:
    """Return the check of a bound on a number."""

    def check(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
        limit = schema[keyword]
        if is_number(value) and is_number(limit) and fails(value, limit):
            yield scope.violation(keyword, value, limit)

    return check


def _size(keyword: str, sized: type, fails: Callable[[int, int], bool]) -> Check:
    """Return the check of the length of a text, a list or an object."""

    def check(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
        limit = schema[keyword]
        if isinstance(value, sized) and is_number(limit) and fails(len(value), limit):  # type: ignore[arg-type]
            yield scope.violation(keyword, value, limit)

    return check


def _is_multiple(value: Any, step: Any) -> bool:
    """Tell whether a number is a whole multiple of `step`, by decimal digits: 0.3 is one of 0.1."""
    if not step or (isinstance(value, int) and isinstance(step, int)):
        return not step or value % step == 0
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(repr(value)) % Decimal(repr(step)) == 0
    except InvalidOperation:  # too many digits apart to be compared
        return True


def _check_pattern(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    pattern = schema["pattern"]
    if isinstance(value, str) and isinstance(pattern, str) and not matches_pattern(pattern, value, scope.root):
        yield scope.violation("pattern", value, pattern)


def _check_items(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from _iter_errors(item, item_schema(schema, index), scope.inside(index))


def _check_first_items(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    if "items" not in schema:
        yield from _check_items(value, schema, scope)


def _check_unique(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    if schema["uniqueItems"] is True and isinstance(value, list):
        for index, item in enumerate(value[:_MAX_COMPARED]):
            if any(json_equal(item, other) for other in value[:index]):
                yield scope.violation("uniqueItems", item)
                return


def _check_contains(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    if not isinstance(value, list):
        return
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
    count = sum(_is_valid(item, schema["contains"], scope.inside(0)) for item in value)
    if is_number(least) and count < least:
        yield scope.violation("minContains", count, schema["contains"])
    elif is_number(most) and count > most:
        yield scope.violation("maxContains", count, schema["contains"])


def _check_properties(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    declared = properties_of(schema)
    for name, item in value.items() if isinstance(value, dict) else ():
        if name in declared:
            yield from _iter_errors(item, declared[name], scope.inside(name))


def _check_additional(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    declared, patterns = properties_of(schema), _patterns_of(schema)
    for name, item in value.items() if isinstance(value, dict) else ():
        spend_steps(scope.root)
        if name in declared or any(matches_pattern(pattern, name, scope.root) for pattern in patterns):
            continue
        if schema["additionalProperties"] is False:
            spend_steps(scope.root, len(declared))
            yield scope.inside(name).violation("additionalProperties", name, declared)
        else:
            yield from _iter_errors(item, schema["additionalProperties"], scope.inside(name))


def _patterns_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    patterns = schema.get("patternProperties")
    return patterns if isinstance(patterns, Mapping) else {}


def _check_pattern_properties(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    for name, item in value.items() if isinstance(value, dict) else ():
        for pattern, subschema in _patterns_of(schema).items():
            if matches_pattern(pattern, name, scope.root):
                yield from _iter_errors(item, subschema, scope.inside(name))


def _check_names(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    for name in value if isinstance(value, dict) else ():
        for violation in _iter_errors(name, schema["propertyNames"], _Scope(scope.root)):
            yield scope.violation("propertyNames", name, violation)


def _check_required(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    for name in required_of(schema) if isinstance(value, dict) else ():
        if name not in value:
            is_strict = schema.get("additionalProperties") is False  # each unknown name is a violation of its own
            unknown = [] if is_strict else [other for other in value if other not in properties_of(schema)]
            yield scope.inside(name).violation("required", unknown)


def _dependent(keyword: str) -> Check:
    """Return the check of what the presence of a name requires: further names, or a schema."""

    def check(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
        table = schema[keyword]
        for name, demand in table.items() if isinstance(value, dict) and isinstance(table, Mapping) else ():
            if name in value:
                yield from _iter_errors(value, {"required": demand} if isinstance(demand, list) else demand, scope)

    return check


def _check_all(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    for part in schema["allOf"] if isinstance(schema["allOf"], list) else ():
        yield from _iter_errors(value, part, scope)


def _check_any(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    attempts = _try_branches(value, schema["anyOf"], scope)
    if all(attempts):
        yield from _select_attempt(attempts, value, {"anyOf": schema["anyOf"]}, scope)


def _check_one(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    attempts = _try_branches(value, schema["oneOf"], scope)
    matches = attempts.count([])
    if matches > 1:
        yield scope.violation("several", value, matches)
    elif not matches:
        yield from _select_attempt(attempts, value, {"oneOf": schema["oneOf"]}, scope)


def _try_branches(value: Any, branches: Any, scope: _Scope) -> list[list[Violation]]:
    """Return the violations of each branch, each tried once.

    Trying again for the message would double the work at every level.
    """
    return [list(_iter_errors(value, branch, scope)) for branch in (branches if isinstance(branches, list) else ())]


def _select_attempt(
    attempts: list[list[Violation]], value: Any, union: Mapping[str, Any], scope: _Scope
) -> list[Violation]:
    """Return the violations of the branch that the value most likely intends.

    Preferred is a branch that fails deeper inside, by its names rather than by its values, with few violations.
    """
    inside = [attempt for attempt in attempts if all(len(violation.path) > len(scope.path) for violation in attempt)]
    if inside:
        return min(inside, key=lambda attempt: (sum(violation.is_wrong_value for violation in attempt), len(attempt)))
    if len(attempts) == 1:
        return attempts[0]
    return [scope.violation(next(iter(union)), value, union)] if attempts else []


def _check_not(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    if isinstance(schema["not"], Mapping | bool) and _is_valid(value, schema["not"], scope):
        yield scope.violation("not", value, schema["not"])


def _check_if(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    branch = "then" if _is_valid(value, schema["if"], scope) else "else"
    yield from _iter_errors(value, schema.get(branch), scope)


def _check_unevaluated(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Violation]:
    """Check the members or items that no other keyword applies to, neither here nor in a branch that is valid."""
    keyword = "unevaluatedItems" if isinstance(value, list) else "unevaluatedProperties"
    if keyword not in schema or not isinstance(value, list | dict):
        return
    evaluated = _evaluated(value, {word: rest for word, rest in schema.items() if word != keyword}, scope)
    for part, item in value.items() if isinstance(value, dict) else enumerate(value):
        if part in evaluated:
            continue
        if schema[keyword] is False and isinstance(part, str):
            yield scope.inside(part).violation("additionalProperties", part, properties_of(schema))
        else:
            yield from _iter_errors(item, schema[keyword], scope.inside(part))


def _evaluated(value: Any, schema: Any, scope: _Scope) -> set[str | int]:
    """Return the names or indices in a valid value that keywords of the schema apply to."""
    spend_steps(scope.root)
    if not isinstance(schema, Mapping):
        return set()
    if isinstance(value, dict):
        if "additionalProperties" in schema or "unevaluatedProperties" in schema:
            return set(value)
        patterns = _patterns_of(schema)
        known = properties_of(schema)
        found = {
            name
            for name in value
            if name in known or any(matches_pattern(pattern, name, scope.root) for pattern in patterns)
        }
    else:
        first, items = items_of(schema)
        if items is not None or "unevaluatedItems" in schema:
            return set(range(len(value)))
        found = set(range(len(first)))
        if "contains" in schema:
            found |= {index for index, item in enumerate(value) if _is_valid(item, schema["contains"], scope)}
    for branch, inner in (*_follow(schema, scope), *((branch, scope) for branch in _branches_of(value, schema, scope))):
        if _is_valid(value, branch, inner):
            found |= _evaluated(value, branch, inner)
    return found


def _branches_of(value: Any, schema: Mapping[str, Any], scope: _Scope) -> Iterator[Any]:
    """Yield the subschemas that may apply to the same value."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema[keyword] if isinstance(schema.get(keyword), list) else ()
    if "if" in schema:
        yield schema["if"]
        yield schema.get("then" if _is_valid(value, schema["if"], scope) else "else")
    dependent = schema.get("dependentSchemas")
    yield from (needed for name, needed in dependent.items() if name in value) if isinstance(dependent, Mapping) else ()


KEYWORD_CHECKS: dict[str, Check] = {
    "type": _check_type,
    "enum": _check_enum,
    "const": _check_const,
    "minimum": _bound("minimum", lambda value, limit: value < limit),
    "maximum": _bound("maximum", lambda value, limit: value > limit),
    "exclusiveMinimum": _bound("exclusiveMinimum", lambda value, limit: value <= limit),
    "exclusiveMaximum": _bound("exclusiveMaximum", lambda value, limit: value >= limit),
    "multipleOf": _bound("multipleOf", lambda value, step: not _is_multiple(value, step)),
    "minLength": _size("minLength", str, lambda count, limit: count < limit),
    "maxLength": _size("maxLength", str, lambda count, limit: count > limit),
    "minItems": _size("minItems", list, lambda count, limit: count < limit),
    "maxItems": _size("maxItems", list, lambda count, limit: count > limit),
    "minProperties": _size("minProperties", dict, lambda count, limit: count < limit),
    "maxProperties": _size("maxProperties", dict, lambda count, limit: count > limit),
    "pattern": _check_pattern,
    "items": _check_items,
    "prefixItems": _check_first_items,
    "uniqueItems": _check_unique,
    "contains": _check_contains,
    "properties": _check_properties,
    "additionalProperties": _check_additional,
    "patternProperties": _check_pattern_properties,
    "propertyNames": _check_names,
    "required": _check_required,
    "dependentRequired": _dependent("dependentRequired"),
    "dependentSchemas": _dependent("dependentSchemas"),
    "dependencies": _dependent("dependencies"),
    "allOf": _check_all,
    "anyOf": _check_any,
    "oneOf": _check_one,
    "not": _check_not,
    "if": _check_if,
}
"""Keyword -> its check."""
