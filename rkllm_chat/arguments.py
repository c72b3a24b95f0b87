"""Arguments against a JSON Schema: coerced where nothing is lost, then validated. It knows no server.

`faults.py` is the judge, as it is for commands: one truth, with its reasons in words, and with a bound, which hostile
schemas need. Tests hold it against `jsonschema`, which is asked here for the words that `faults.py` does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from .coercion import coerce
from .errors import ValidationError
from .faults import find_faults, is_fit
from .schemas import Bounded, TooCostlyError, describe, properties_of, spend, whole

if TYPE_CHECKING:
    from .faults import Fault, Place

LONGEST_FAULT = 200
MOST_STEPS = 200_000
MOST_NAMED = 8
DEEPEST = 64
LONGEST_NAME = 60
UNJUDGED = {"unevaluatedProperties", "unevaluatedItems", "$dynamicRef"}
"""What jsonschema is asked about. Not with these beside, where it would search by patterns or not know the word."""
NOT_WITH = {"pattern", "patternProperties", "nullable"}


@dataclass(frozen=True)
class Checked:
    """Arguments as a schema wants them, and what was done to them: "harbour: text to integer"."""

    arguments: dict[str, Any]
    coercions: tuple[str, ...] = ()


def check(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Checked:
    """The arguments as the schema wants them. Raises ValidationError, one sentence that names the fault; its details
    have the `code`: "missing_argument" or "bad_arguments".

    Arguments that fit are not changed. No remote `$ref` is fetched: what leads out of the schema, and a schema that
    takes too many steps, is left to the server's own check.
    """
    given = dict(arguments)
    try:
        root = Bounded(schema, MOST_STEPS)
        found, coercions = coerce(given, root, root)
        checked = Checked(found, coercions) if isinstance(found, dict) else Checked(given)
        fault = find_fault(checked.arguments, root)
        sentence = shorten(explain(fault, checked.arguments, root)) if fault else ""
    except (TooCostlyError, RecursionError):
        return Checked(given)
    if fault:
        code = "missing_argument" if fault[1] == REQUIRED else "bad_arguments"
        raise ValidationError(sentence, code=code, expected=dict(schema), got=given)
    return checked


REQUIRED = "is required"
UNKNOWN = "is unknown"


def find_fault(arguments: dict[str, Any], root: Bounded) -> Fault | None:
    """What is wrong, and would be wrong whatever the patterns say that are not tried; None where nothing is."""
    faults = sorted(find_faults(arguments, root, root), key=urgency)
    if faults and root.has_assumed:
        root.assumed = False
        return None if is_fit(arguments, root, root) else faults[0]
    return faults[0] if faults else find_other_fault(arguments, root)


def urgency(fault: Fault) -> int:
    """A misspelled name says more than that the right one is missing, and that more than a wrong value."""
    _, sentence = fault
    return 0 if sentence.startswith(f"{UNKNOWN} (") else 1 if sentence == REQUIRED else 2


def explain(fault: Fault, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """One sentence: the argument, what was expected, what was given."""
    place, sentence = fault
    named = f'Argument "{".".join(map(str, place))}"' if place else "The arguments"
    known = list(whole(schema, schema).get("properties") or ()) if len(place) == 1 else []
    if sentence == REQUIRED:
        return f"{named} {sentence}{tell_missing(place, known, arguments, schema)}."
    if sentence == UNKNOWN and known:
        rest = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
        return f"{named} {sentence} (known: {', '.join(known[:MOST_NAMED])}{rest})."
    return f"{named} {sentence}."


def tell_missing(place: Place, known: list[str], arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What a missing argument is to be, and what may have been meant for it."""
    if not known or place[0] not in known:
        return ""
    wanted = describe(properties_of(whole(schema, schema))[place[0]], schema)
    other = [name for name in arguments if name not in known and len(name) <= LONGEST_NAME]
    near = get_close_matches(place[0], other, n=1)
    return f" ({wanted})" + (f', and "{near[0]}" is not known' if near else "")


def shorten(sentence: str) -> str:
    """On one line, its middle left out where it is long: what was given stands at the end."""
    line = " ".join(sentence.split())
    if len(line) <= LONGEST_FAULT:
        return line
    return f"{line[: LONGEST_FAULT // 2]}…{line[1 - LONGEST_FAULT // 2 :]}"


def find_other_fault(arguments: dict[str, Any], root: Bounded) -> Fault | None:
    """A fault by the words that `faults.py` does not know."""
    words = set(words_of(root))
    if not words & UNJUDGED or words & NOT_WITH:
        return None
    from jsonschema.exceptions import best_match
    from referencing import Registry

    validator_of, steps_of = bounded_validator()
    validator = validator_of(dict(root), registry=Registry(), format_checker=steps_of(root))
    try:
        error = best_match(validator.iter_errors(arguments))
    except TooCostlyError:
        raise
    except Exception:  # jsonschema raises a dozen kinds for a broken schema or an unknown $ref
        return None
    return (tuple(error.absolute_path), f"cannot be taken: {error.message}") if error else None


def words_of(root: Bounded) -> Iterator[str]:
    """All keys in a schema, however deep."""
    waiting: list[Any] = [root]
    while waiting:
        spend(root)
        found = waiting.pop()
        if isinstance(found, Mapping):
            yield from (key for key in found if isinstance(key, str))
        if isinstance(found, Mapping | list):
            waiting += found.values() if isinstance(found, Mapping) else found


@cache
def bounded_validator() -> tuple[Any, Any]:
    """A validator that counts its steps, and what it counts on: the format checker is what jsonschema hands down."""
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend

    class Steps(FormatChecker):
        def __init__(self, root: Bounded) -> None:
            super().__init__(formats=())
            self.root = root

    def counted(check: Any) -> Any:
        def count(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
            spend(validator.format_checker.root)
            return check(validator, wanted, value, schema)

        return count

    checks = {word: counted(check) for word, check in Draft202012Validator.VALIDATORS.items()}
    return extend(Draft202012Validator, checks), Steps  # type: ignore[no-untyped-call]  # so in jsonschema


def without_patterns(schema: Any, depth: int = 0) -> Any:
    """The schema without regular expressions: a hostile one takes for ever, and the server checks its own anyway.

    What is said of the names that no pattern has goes with them.
    """
    if depth > DEEPEST:
        return {}
    if isinstance(schema, Mapping):
        kept = {key: value for key, value in schema.items() if not (key == "pattern" and isinstance(value, str))}
        if kept.pop("patternProperties", None):
            kept.pop("additionalProperties", None)
        return {key: without_patterns(value, depth + 1) for key, value in kept.items()}
    return [without_patterns(item, depth + 1) for item in schema] if isinstance(schema, list) else schema
