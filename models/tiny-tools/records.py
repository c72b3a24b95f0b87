"""Lists of objects: what stands in them, by role, and how they are said. It knows no tool."""

from collections.abc import Callable
from random import Random
from typing import Any

from kinds import TEXTS
from parameters import Parameter
from saying import BETWEEN, quote
from values import a_person, a_topic, a_word, several
from words import load_words

# What stands in the objects of a list, by role, and under which names servers have it.
RECORD_KEYS: dict[str, list[str]] = load_words("records")
RECORD_VALUES: dict[str, Callable[[Random, str], Any]] = {
    "name": a_person, "kind": a_word, "facts": several(a_topic), "from": a_person, "to": a_person,
    "link": a_topic, "old": a_topic, "new": a_topic,
}  # fmt: skip
RECORD_PAIRS = {
    ("from", "to"): ("from {} to {}", "between {} and {}", "{} to {}"),
    ("old", "new"): ("replace {} with {}", "change {} to {}", "{} becomes {}", "put {1} for {0}"),
}


def say_records(records: list[dict[str, Any]], random: Random, language: str) -> str:
    """ "Anna (kind friend, facts tea and chess)", "name Anna, kind friend", "from Anna to Bob, link knows"."""
    style, last = random.randrange(3), BETWEEN[language][1]
    return last.join(say_record(record, style, random, language) for record in records)


def say_record(record: dict[str, Any], style: int, random: Random, language: str) -> str:
    said = {key: say_listed(item, random, language) for key, item in record.items()}
    keys = list(record)
    pair = RECORD_PAIRS.get(tuple(role_of(key) for key in keys[:2]))
    if pair and style:
        rest = "".join(f"{random.choice([', ', ' with '])}{key} {said[key]}" for key in keys[2:])
        return random.choice(pair).format(said[keys[0]], said[keys[1]]) + rest
    if style == 1:
        return ", ".join(f"{key} {said[key]}" for key in keys)
    if style == 2:
        tail = "".join(f" with the {key} {said[key]}" for key in keys[2:])
        return f"{said[keys[0]]} of the {keys[1]} {said[keys[1]]}{tail}" if keys[1:] else said[keys[0]]
    rest = ", ".join(f"{key} {said[key]}" for key in keys[1:])
    return f"{said[keys[0]]} ({rest})"


def say_listed(item: Any, random: Random, language: str) -> str:
    if not isinstance(item, list):
        text = str(item)
        return quote(text, random, language) if " " in text or random.random() < 0.3 else text
    comma, last = BETWEEN[language]
    quoted = [quote(one, random, language) if " " in one else one for one in item]
    return last.join([comma.join(quoted[:-1]), quoted[-1]]) if quoted[1:] else quoted[0]


def role_of(key: str) -> str:
    return next(role for role, keys in RECORD_KEYS.items() if key in keys)


def records_schema(one: Parameter) -> dict[str, Any]:
    inside = {key: TEXTS if role_of(key) == "facts" else {"type": "string"} for key in one.choices}
    return {"type": "array", "items": {"type": "object", "properties": inside, "required": list(one.choices)}}
