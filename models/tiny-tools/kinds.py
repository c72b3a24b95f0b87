"""Kinds of parameters: what they are called, their schema, their values, and how a value is said without its name.

It knows no tool.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from values import (
    COLORS,
    CURRENCIES,
    LANGUAGES,
    UNITS,
    a_code,
    a_date,
    a_file,
    a_folder,
    a_mail,
    a_moment,
    a_number,
    a_pattern,
    a_person,
    a_place,
    a_room,
    a_text,
    a_time,
    a_topic,
    a_url,
    a_word,
    between,
    is_true,
    like_value,
    one_of,
    several,
    up_to,
    varied,
)
from vocabulary import fresh
from words import load_words

WORDS = load_words("kinds")
CHOICES: list[str] = WORDS["choices"]


@dataclass(frozen=True)
class Kind:
    """`names` of parameters, phrases that say a value in three languages, parted by bars, what makes a value, given
    the random source and the language, and the schemas that servers give, of which the first tells the type."""

    names: str
    english: str
    japanese: str
    chinese: str
    make: Callable[[Random, str], Any]
    schemas: Sequence[Mapping[str, Any]]

    @property
    def schema(self) -> Mapping[str, Any]:
        return self.schemas[0]


TEXT: Mapping[str, Any] = {"type": "string"}
WHOLE: Mapping[str, Any] = {"type": "integer"}
NUMBER: Mapping[str, Any] = {"type": "number"}
TEXTS: Mapping[str, Any] = {"type": "array", "items": TEXT}

SOURCES: dict[str, Sequence[Any]] = {
    "place": (a_place, TEXT),
    "room": (a_room, TEXT),
    "person": (a_person, TEXT),
    "file": (a_file, TEXT),
    "folder": (a_folder, TEXT),
    "url": (a_url, TEXT),
    "mail": (a_mail, TEXT, {**TEXT, "format": "email"}),
    "date": (a_date, TEXT, {**TEXT, "format": "date"}),
    "time": (a_time, TEXT),
    "moment": (a_moment, TEXT, {**TEXT, "format": "date-time"}),
    "text": (a_text, TEXT),
    "title": (a_text, TEXT),
    "query": (a_topic, TEXT),
    "pattern": (a_pattern, TEXT),
    "code": (a_code, TEXT),
    "word": (a_word, TEXT),
    "color": (one_of(COLORS), TEXT),
    "language": (one_of(LANGUAGES), TEXT),
    "unit": (one_of(UNITS), TEXT),
    "currency": (one_of(CURRENCIES), TEXT),
    "count": (up_to(1000, 1), WHOLE, {**WHOLE, "minimum": 1}, {**WHOLE, "minimum": 0, "maximum": 1000}),
    "percent": (between(0, 100), WHOLE, {**WHOLE, "minimum": 0, "maximum": 100}, NUMBER),
    "minutes": (up_to(1000, 1), WHOLE),
    "number": (up_to(100000), WHOLE),
    "year": (between(1900, 2060), WHOLE),
    "amount": (a_number, NUMBER),
    "flag": (is_true, {"type": "boolean"}),
    "choice": (a_word, TEXT),
    "words": (several(a_word), TEXTS),
    "people": (several(a_person), TEXTS),
    "files": (several(a_file), TEXTS),
}
"""What makes a value, and the schemas that servers give."""
KINDS = {
    kind: Kind(texts["names"], texts["english"], texts["japanese"], texts["chinese"], make, schemas)
    for kind, (make, *schemas) in SOURCES.items()
    for texts in [WORDS["kinds"][kind]]
}
LIKE_LISTS = 0.25
"""Of lists in training, those whose values all begin the same: `main.c and main.h`."""
WEIGHTS = {kind: texts["weight"] for kind, texts in WORDS["kinds"].items() if "weight" in texts}

KIN = (
    "folder pattern", "folder file", "file text", "place time", "person mail", "code word", "file title", "place query",
)  # fmt: skip
"""Kinds whose values look alike, or whose names do."""


def draw_value(kind: str, choices: tuple[str, ...], random: Random, language: str, held_out: bool) -> Any:
    """A value of a kind; of a choice one of its values. Texts are from the wanted side of the split."""
    if kind == "choice":
        return random.choice(choices)
    make = varied(kind, KINDS[kind].make, random, held_out)
    if KINDS[kind].schema is TEXT:
        return fresh(lambda source: make(source, language), random, held_out)
    made = make(random, language)
    if isinstance(made, list) and not held_out and random.random() < LIKE_LISTS:
        made = list(dict.fromkeys([made[0], *(like_value(made[0], random) or one for one in made[1:])]))
    return made
