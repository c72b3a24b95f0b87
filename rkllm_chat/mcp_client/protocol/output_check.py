"""Check results of tools against their output schemas, by the same rule for every client of this program.

A tool has run when its result is checked. So a result without the structured content that was announced counts, with a
note: a model that is told that the call failed makes it again. Nor do a schema's own faults cost the result: they are
said when the tools are listed, and the part that cannot be resolved allows everything. A regular expression of a schema
is not tried, because it may take exponential time; nor is anything fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MAX_PARTS = 20_000
_CHECK_STEPS = 200_000
_DATA_KEYWORDS = ("enum", "const", "default", "examples")
_METASCHEMA = "json-schema.org/"


def find_output_fault(schema: Any) -> str:
    """Return why an output schema cannot be checked, or not in full; "" if it can, or if there is none."""
    if schema is None:
        return ""
    if not isinstance(schema, dict | bool):
        return "it is no schema"
    from ...calls.schema.resolve import follow_pointer

    parts = list(_iterate_parts(schema))
    names = {str(part.get(key)) for part in parts for key in ("$id", "id") if part.get(key)}
    names |= {f"#{part.get(key)}" for part in parts for key in ("$anchor", "$dynamicAnchor") if part.get(key)}
    for part in parts:
        reference = part.get("$ref")
        if not isinstance(reference, str) or reference == "#" or reference in names or _METASCHEMA in reference:
            continue
        is_pointer = reference.startswith("#/")
        if not is_pointer or follow_pointer(reference, schema) is None:
            return f'it refers to "{reference[:200]}", which it does not contain'
    return ""


def _iterate_parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a schema, a limited number of them; no data such as defaults."""
    pending = [schema]
    for _ in range(_MAX_PARTS):
        if not pending:
            return
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending += [value for key, value in part.items() if key not in _DATA_KEYWORDS]
        elif isinstance(part, list):
            pending += part


def explain_output_mismatch(schema: Any, structured: Any) -> str:
    """Return why structured content of a result does not match the output schema of its tool; "" if it does.

    Args:
        schema: The output schema of the tool.
        structured: Its structured content.
    """
    if not isinstance(schema, Mapping):
        return ""
    from ...calls.schema.resolve import BudgetedSchema, BudgetExceededError, remove_patterns
    from ...calls.schema.validate import iter_errors

    root = BudgetedSchema(remove_patterns(schema), _CHECK_STEPS)
    try:
        violation = next(iter_errors(structured, root, root), None)
    except BudgetExceededError:
        return ""
    if violation is None:
        return ""
    place = ".".join(map(str, violation.path))
    return f'"{place}" {violation.message}' if place else violation.message


NO_STRUCTURED_CONTENT = "a result has no structured content"


def describe_output_fault(server: str, tool: str, fault: str) -> str:
    """Return the notice about an output schema that has a fault."""
    return f'The output schema of the tool "{tool}" of server "{server}" is not checked in full: {fault}.'
