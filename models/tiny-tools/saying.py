"""How values and whole questions are said, in English, Japanese and Chinese. It knows no tool.

A said value is what a person types; the argument it stands for is made elsewhere.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from random import Random
from typing import Any

from kinds import KINDS
from values import like_value
from words import load_words

WORDS = load_words("saying")
LIKE_KINDS, LIKE_SHARE = ("file", "folder", "place", "code", "pattern", "word", "text", "title", "query"), 0.3
LANGUAGES = {"en": 0.66, "ja": 0.17, "zh": 0.17}
TRAINED_LANGUAGES = {"en": 0.58, "ja": 0.18, "zh": 0.24}
"""Chinese is learnt last."""
OPENERS = WORDS["openers"]
QUESTION_OPENERS = WORDS["question_openers"]
CLOSERS = WORDS["closers"]
ASKING = ("what", "which", "how", "who", "is ", "are ", "where", "when")
NAMED = WORDS["named"]
BETWEEN = {"en": (", ", " and "), "ja": ("、", "と"), "zh": ("、", "和")}
PAIRS = {tuple(stems.split()): way for stems, way in WORDS["pairs"].items()}
"""Beginnings of the names of two parameters of one kind, and how both are said."""
PAIR = "pair"
"""The side of both values of such a pair, in training."""
PAIRED = WORDS["paired"]
APART = WORDS["apart"]
"""How training also says such a pair: what is asked for (…) may stand between them."""
APART_SHARE = 0.35
SIDES: dict[str, dict[str, str]] = WORDS["sides"]
"""How values of parameters are said that stand on either side: `first` beside `last`, `min` beside `max`."""
PLACED = ("place", "folder", "file", "room", "code")
"""Kinds of which a value may come first: "in /srv/app, list the branches"."""
QUOTES = {"en": '""\'\'``""', "ja": '「」「」""『』', "zh": '“”“”""「」'}
QUOTE_PAIRS = {(marks[at], marks[at + 1]) for marks in QUOTES.values() for at in range(0, len(marks), 2)}


@dataclass(frozen=True)
class Given:
    """A parameter that gets a value in a question; `side` is a row of SIDES, or something else where the
    kind says it all."""

    name: str
    kind: str
    value: Any
    side: str = ""


def make_like(givens: Sequence[Given], random: Random) -> list[Given]:
    """At times a value that begins as another of its kind, so that the beginning does not tell which is meant."""
    made = list(givens)
    for first, second in combinations(range(len(made)), 2):
        value = made[first].value
        is_alike = made[first].kind == made[second].kind and made[first].kind in LIKE_KINDS
        if is_alike and random.random() < LIKE_SHARE and (like := like_value(value, random)):
            made[second] = replace(made[second], value=like)
    return made


def draw_language(random: Random, held_out: bool) -> str:
    shares = LANGUAGES if held_out else TRAINED_LANGUAGES
    return random.choices(list(shares), list(shares.values()))[0]


def say_value(given: Given, random: Random, language: str, may_be_bare: bool = False) -> str:
    """A value as people type it: several words in quotes, lists with "and", the rest mostly bare."""
    value = given.value
    if isinstance(value, bool):
        return random.choice([("no", "off", "false", "false"), ("yes", "on", "true", "true")][value])
    if isinstance(value, list):
        comma, last = BETWEEN[language]
        items = [str(item) for item in value]
        if random.random() < 0.2:
            items = [quote(item, random, language) for item in items]
        if random.random() < 0.25 or len(items) == 1:
            return comma.join(items)
        return comma.join(items[:-1]) + last + items[-1]
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    text = str(value)
    is_text = given.kind in ("text", "title", "query")
    if is_text and not may_be_bare and (" " in text or not text.isascii()):
        return quote(text, random, language)
    return quote(text, random, language) if random.random() < 0.1 else text


def quote(text: str, random: Random, language: str) -> str:
    pairs = QUOTES[language]
    start = 2 * random.randrange(len(pairs) // 2)
    first, last = pairs[start], pairs[start + 1]
    return text if first in text or last in text else f"{first}{text}{last}"


def spoken_name(name: str, random: Random) -> str:
    """A parameter's name as it is written or as it is said: `repo_path`, "repo path"."""
    if random.random() < 0.45:
        return name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.replace("_", " ").replace("-", " ")).lower()


def say_named(givens: Sequence[Given], random: Random, language: str) -> str:
    """All values by name, behind the request: " with city Oslo and days 3"."""
    if not givens:
        return ""
    before, one, comma, last = random.choice(NAMED[language])
    raw = "=" in one
    said = [
        one.format(p=given.name if raw else spoken_name(given.name, random), v=say_value(given, random, language))
        for given in givens
    ]
    end = {"(": ")", "（": "）"}.get(before.strip(), "")
    return before + (comma.join(said[:-1]) + last if said[1:] else "") + said[-1] + end


def say_flag(given: Given, random: Random, language: str) -> str:
    """A boolean: "with force", "without force"."""
    name = spoken_name(given.name, random)
    if language == "ja":
        return f"、{name}{'あり' if given.value else 'なし'}"
    if language == "zh":
        return f"，{'开启' if given.value else '不要'}{name}"
    yes, no = (" with {}", ", {}: yes", ", {} on", ", {}=true"), (" without {}", ", {}: no", ", {} off", ", {}=false")
    return random.choice(yes if given.value else no).format(name)


def say_unnamed(givens: Sequence[Given], random: Random, language: str) -> tuple[str, str]:
    """What stands before and behind the request, each value with a word that its kind suggests."""
    before = behind = ""
    if paired := pair_of(givens):
        before, behind = say_pair(*paired, random, language)
        givens = [given for given in givens if given not in paired]
    for index, given in enumerate(givens):
        if isinstance(given.value, bool):
            behind += say_flag(given, random, language)
            continue
        phrases = phrases_of(given, language).split("|")
        phrase = random.choice([one for one in phrases if one] or ["{v}"])
        is_last = index == len(givens) - 1
        already = phrase[:1] in '"「“' or '"{v}"' in phrase or "「{v}」" in phrase or "“{v}”" in phrase
        said = str(given.value) if already else say_value(given, random, language, language == "en" and is_last)
        said = phrase.format(v=said)
        if language == "en" and index == 0 and given.kind in PLACED and random.random() < 0.2:
            before = f"{random.choice(['in', 'in', 'for', 'with'])} {given.value}{random.choice([',', '', ':'])} "
        elif language == "ja":
            before += said
        elif language == "zh":
            goes_before = said.endswith("的") or (random.random() < 0.5 and said.startswith(("在", "给", "为", "关于")))
            if goes_before and not before:
                before += said
            else:
                behind += said if said.startswith("，") else f"，{said}" if random.random() < 0.7 else f" {said}"
        else:
            behind += said if said.startswith(":") else f"{random.choice(['', '', ','])} {said}"
    return before, behind


def phrases_of(given: Given, language: str) -> str:
    kind = KINDS[given.kind]
    return SIDES.get(given.side, {"en": kind.english, "ja": kind.japanese, "zh": kind.chinese})[language]


def pair_of(givens: Sequence[Given]) -> tuple[Given, Given] | None:
    """The first two values that belong together, as those of `from` and `to`."""
    found = (pair for pair in pairwise(givens) if pair[0].kind == pair[1].kind and stems_of(pair) in PAIRS)
    return next(found, None)


def stems_of(pair: Sequence[Given]) -> tuple[str, ...]:
    """The first word of each name."""
    return tuple(re.split(r"_|(?<=[a-z])(?=[A-Z])", given.name)[0] for given in pair)


def say_pair(first: Given, second: Given, random: Random, language: str) -> tuple[str, str]:
    """What stands before and behind the request."""
    way = PAIRS[stems_of((first, second))]
    if first.side == PAIR and random.random() < APART_SHARE:
        phrase = random.choice(APART[way][language].split("|"))
        said = phrase.format(*(say_value(given, random, language) for given in (first, second)))
        before, _, behind = said.partition("…")
        return before, behind
    phrase = random.choice(PAIRED[way][language].split("|"))
    said = phrase.format(*(say_value(given, random, language) for given in (first, second)))
    if language == "zh":
        return (f"{said}，", "") if random.random() < 0.5 else ("", f"，{said}")
    return (said, "") if language == "ja" else ("", said)


def dress(core: str, before: str, behind: str, random: Random, language: str, is_fixed: bool = False) -> str:
    """The whole question, with a beginning, an end and the case and marks people use; `fixed` is a core that begins
    with a value, whose case counts."""
    if language != "en":
        opener = random.choice(OPENERS[language].split("|"))
        closer = random.choice(CLOSERS[language].split("|")) if not behind.startswith("\n") else ""
        return opener + before + core + behind + closer
    asks = core.startswith(ASKING)
    opener = random.choice((QUESTION_OPENERS if asks else OPENERS["en"]).split("|"))
    is_open = "\n" in behind or ": " in behind[:3]
    said = opener + before + core + behind + ("" if is_open else random.choice(CLOSERS["en"].split("|")))
    if random.random() < 0.55 and (opener or before or not is_fixed):
        said = said[0].upper() + said[1:]
    mark = "?" if asks else "."
    return said if is_open else said + random.choice([mark, mark, "", "", "", "!" if not asks else "?"])
