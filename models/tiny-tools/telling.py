"""How servers describe their tools and parameters, in one sentence or in three, useful or not. It knows no value."""

from collections.abc import Mapping
from random import Random
from typing import Any

from kinds import KINDS
from nouns import Noun
from vocabulary import name, number, word
from words import load_words

WORDS = load_words("telling")
PARAMETERS: dict[str, str] = WORDS["parameters"]
SENTENCES = WORDS["sentences"]


def describe_parameter(kind: str, random: Random) -> str:
    """What a schema says of a parameter."""
    if random.random() < 0.7 and kind in PARAMETERS:
        return random.choice(PARAMETERS[kind].split("|"))
    known = random.choice(KINDS[kind].names.split()).replace("_", " ")
    return random.choice(["The {}", "{} to use", "Which {}", "{}", "The {} to look at"]).format(known).capitalize()


def go_on(about: str, noun: Noun, random: Random) -> str:
    """A description with more sentences behind it, as long ones have."""
    said = about.rstrip(".")
    for _ in range(random.choice([1, 1, 2])):
        sentence = random.choice(SENTENCES).format(
            n=noun.english, N=noun.english.capitalize(), s=noun.plural, w=word(random), m=name(random)
        )
        said += f". {sentence.rstrip('.')}"
    return said + random.choice(["", "."])


def fill_result(template: str, noun: Noun, arguments: Mapping[str, Any], random: Random) -> str:
    while "{" in template:
        values = [str(value) for value in arguments.values() if isinstance(value, str | int | float)]
        for slot, make in RESULT_SLOTS.items():
            template = template.replace(f"{{{slot}}}", make(random), 1)
        template = template.replace("{n}", noun.english).replace("{N}", noun.english.capitalize())
        template = template.replace("{s}", noun.plural)
        if values and random.random() < 0.3:
            template += f" ({random.choice(values)})"
    return template


RESULT_SLOTS = {
    "number": lambda random: number(random),
    "name": lambda random: name(random),
    "word": lambda random: word(random),
    "code": lambda random: f"{word(random)}-{random.randint(0, 9999)}",
}
