"""Parameters of invented tools: their names, kinds and order, and the JSON Schema of all. It knows no tool."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from kinds import CHOICES, KIN, KINDS, WEIGHTS
from nouns import Noun
from saying import PAIRS, SIDES
from telling import describe_parameter
from vocabulary import word

PAIR_KIND_SHARE = 0.5
"""Of pairs in training, those whose names also say what they are."""
PAIRED_KINDS = (
    "place", "person", "file", "folder", "code", "date", "time", "word", "title", "currency", "unit", "room"
)  # fmt: skip
TWINS = (
    ("count", "first head top", "last tail bottom", "first last"),
    ("count amount minutes percent number year", "min least lower", "max most upper", "min max"),
    ("date moment", "after since from start", "before until to end", "since until"),
)
"""Kinds, beginnings of both names, and the rows of SIDES that say them, of two options that stand on either side."""
NAME_ENDINGS = {"code": "id", "title": "name", "word": "name", "number": "number"}


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: str
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    is_invented: bool = False
    side: str = ""


def draw_parameter(random: Random, noun: Noun | None) -> Parameter:
    kind = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    named = random.choice(KINDS[kind].names.split())
    chance = random.random()
    is_invented = chance < 0.2 and kind != "flag"
    if is_invented:
        named = word(random)
    elif chance < 0.35 and noun and kind in NAME_ENDINGS:
        named = f"{noun.english.split()[-1]}_{NAME_ENDINGS[kind]}"
    choices = tuple(random.choice(CHOICES).split()) if kind == "choice" else ()
    if choices and random.random() < 0.25:
        choices = tuple(dict.fromkeys(word(random) for _ in range(random.randint(2, 5))))
    return Parameter(named, kind, choices, is_invented=is_invented)


def draw_pair(random: Random, is_varied: bool) -> list[Parameter]:
    """Two parameters of one kind that nothing but their order tells apart; `varied` ones also say what they are, as
    `source_timezone` and `target_timezone`."""
    kind, ending = random.choice(PAIRED_KINDS), random.choice(["", "", "name"])
    if is_varied and random.random() < PAIR_KIND_SHARE:
        ending = random.choice(f"{KINDS[kind].names} {'timezone' * (kind == 'place')}".split())
    return [Parameter(f"{name}_{ending}".rstrip("_"), kind) for name in random.choice(list(PAIRS))]


def draw_kin(random: Random) -> list[Parameter]:
    return [Parameter(random.choice(KINDS[kind].names.split()), kind) for kind in random.choice(KIN).split()]


def draw_twins(random: Random) -> list[Parameter]:
    """Two options of one kind that stand on either side, `min_price` and `max_price`."""
    kinds, firsts, lasts, sides = (part.split() for part in random.choice(TWINS))
    kind = random.choice(kinds)
    ending = random.choice(["", f"_{random.choice(KINDS[kind].names.split())}"])
    at = random.randrange(len(firsts))
    names = (f"{starts[at]}{ending}" for starts in (firsts, lasts))
    return [Parameter(name, kind, is_optional=True, side=side) for name, side in zip(names, sides, strict=True)]


def scattered(parameters: Sequence[Parameter], random: Random) -> tuple[Parameter, ...]:
    """In any order, but of those that only their order tells apart; mostly with the options at the end."""
    kinds = [one.kind for one in parameters]
    moving = [one for one in parameters if not one.is_invented and kinds.count(one.kind) == 1]
    ordered = [one for one in parameters if one not in moving]
    for one in moving:
        ordered.insert(random.randint(0, len(ordered)), one)
    return tuple(sorted(ordered, key=lambda one: one.is_optional and random.random() < 0.8))


def sort_parameters(drawn: list[Parameter], style: str, random: Random) -> tuple[Parameter, ...]:
    """Required ones first; names in the style of the server."""
    optional_share = random.choice([0, 0, 0.3, 0.6])
    marked = [
        Parameter(
            camel(one.name) if style == "verbNoun" else one.name,
            one.kind,
            one.choices,
            one.side in SIDES or random.random() < (0.7 if one.kind == "flag" else optional_share),
            one.is_invented,
            one.side,
        )
        for one in drawn
    ]
    return tuple(sorted(marked, key=lambda one: one.is_optional))


def schema_of(parameters: Sequence[Parameter], random: Random) -> dict[str, Any]:
    """The JSON Schema of the arguments, with the bounds and formats that servers give."""
    properties: dict[str, Any] = {}
    told = random.choice([0, 0, 0.2, 0.8])
    for one in parameters:
        schema: dict[str, Any] = dict(random.choice(KINDS[one.kind].schemas))
        if one.choices:
            schema["enum"] = list(one.choices)
        if random.random() < told:
            schema["description"] = describe_parameter(one.kind, random)
        properties[one.name] = schema
    required = [one.name for one in parameters if not one.is_optional]
    return {"type": "object", "properties": properties, "required": required}


def camel(text: str) -> str:
    first, *rest = text.split("_")
    return first + "".join(part.capitalize() for part in rest)
