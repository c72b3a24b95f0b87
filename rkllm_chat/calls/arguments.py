"""Coerce the arguments of a call to its JSON Schema where that is lossless, then validate them.

`schema/validate.py` decides, as it does for the commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from ..core.errors import ValidationError
from .schema.coerce import coerce
from .schema.resolve import BudgetedSchema, BudgetExceededError, Node, properties_of
from .schema.validate import is_valid, iter_errors
from .schema.wording import Violation, describe_type

MAX_MESSAGE_LENGTH = 200
MAX_STEPS = 200_000
_MAX_NAMES = 8
_MAX_NAME_LENGTH = 60


@dataclass(frozen=True)
class ValidatedArguments:
    """Valid arguments.

    Attributes:
        arguments: The arguments as the schema expects them.
        coercions: What was changed, for example "harbour: text to integer".
        misspelled: Maps each name that the schema allows without declaring it to the declared one that it resembles.
    """

    arguments: dict[str, Any]
    coercions: tuple[str, ...] = ()
    misspelled: Mapping[str, str] = field(default_factory=dict[str, str])


def validate_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> ValidatedArguments:
    """Validate arguments and coerce them to the types that the schema expects.

    Valid arguments are returned unchanged. No remote `$ref` is fetched: what lies outside the schema, and a schema that
    takes too many steps, is left to the server's own validation.

    Raises:
        ValidationError: One sentence that names the violation; `details["code"]` is "missing_argument" or
            "bad_arguments".
    """
    original = dict(arguments)
    try:
        root = BudgetedSchema(schema, MAX_STEPS)
        coerced, coercions = coerce(original, Node(root))
        valid = ValidatedArguments(coerced, coercions) if isinstance(coerced, dict) else ValidatedArguments(original)
        violation = find_violation(valid.arguments, root)
        message = _truncate_middle(_write_message(violation, root)) if violation else ""
    except (BudgetExceededError, RecursionError):
        return ValidatedArguments(original)
    if violation:
        code = "missing_argument" if violation.kind == "required" else "bad_arguments"
        raise ValidationError(message, code=code, expected=dict(schema), got=original)
    return replace(valid, misspelled=_find_misspelled(valid.arguments, schema))


def _find_misspelled(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, str]:
    declared = schema.get("properties")
    if not isinstance(declared, Mapping):
        return {}
    free = [name for name in declared if name not in arguments]
    unknown = [name for name in arguments if name not in declared and len(name) <= _MAX_NAME_LENGTH]
    return {name: near[0] for name in unknown if (near := get_close_matches(name, free, n=1, cutoff=0.75))}


def find_violation(value: Any, root: BudgetedSchema) -> Violation | None:
    """Return the most helpful violation that holds whatever the untried patterns would match, or None.

    Raises:
        BudgetExceededError: The step budget of `root` is spent.
    """
    violations = sorted(iter_errors(value, root, root), key=_rank)
    if violations and root.has_untested_pattern:
        root.assumed_match = False
        return None if is_valid(value, root, root) else violations[0]
    return violations[0] if violations else None


def _rank(violation: Violation) -> int:
    """Rank violations: a misspelled name tells more than a missing one, and that more than a wrong value."""
    is_misspelled = violation.kind == "additionalProperties" and violation.suggestion
    return 0 if is_misspelled else 1 if violation.kind == "required" else 2


def _write_message(violation: Violation, schema: Mapping[str, Any]) -> str:
    """Write one sentence: the argument, what was expected, what was given."""
    path, message = violation.path, violation.message
    subject = f'Argument "{".".join(map(str, path))}"' if path else "The arguments"
    declared = properties_of(Node(schema).merged()) if len(path) == 1 else {}
    if violation.kind == "required" and path[0] in declared:
        expected = describe_type(Node(declared[str(path[0])], schema))
        return f"{subject} is required ({expected}){violation.mistaken}."
    if violation.kind == "additionalProperties" and declared and not violation.suggestion:
        names = list(declared)
        rest = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        return f"{subject} {message} (known: {', '.join(names[:_MAX_NAMES])}{rest})."
    return f"{subject} {message}."


def _truncate_middle(sentence: str) -> str:
    """Truncate a sentence in the middle, on one line: the given value is at its end."""
    line = " ".join(sentence.split())
    if len(line) <= MAX_MESSAGE_LENGTH:
        return line
    return f"{line[: MAX_MESSAGE_LENGTH // 2]}…{line[1 - MAX_MESSAGE_LENGTH // 2 :]}"
