"""What parameters get: people, places, texts, dates, ids, numbers and lists, in three languages. It knows no parameter.

Every maker takes its random source and the language as arguments.
"""

import re
from collections.abc import Callable
from datetime import date, timedelta
from random import Random
from typing import Any

from nouns import NOUNS
from vocabulary import (
    EXTENSIONS,
    file_path,
    folder_path,
    japanese_name,
    japanese_place,
    name,
    number,
    place,
    whole,
    word,
)
from words import load_words

WORDS = load_words("values")
COMMON = WORDS["common"]
CHINESE_PLACES = WORDS["chinese_places"]
CHINESE_NAMES = WORDS["chinese_names"]
CHINESE_TEXT = WORDS["chinese_text"]
# Letters that foreign places are written with, family names, and what given names are made of.
CHINESE_SOUNDS = WORDS["chinese_sounds"]
CHINESE_FAMILIES = WORDS["chinese_families"]
CHINESE_GIVEN = WORDS["chinese_given"]
# What stands in messages and titles: things in their order, with the small words between them.
SENTENCES = WORDS["sentences"]
JAPANESE_TEXT = WORDS["japanese_text"]
PEOPLE = WORDS["people"]
ROOMS = WORDS["rooms"]
JAPANESE_ROOMS = WORDS["japanese_rooms"]
CHINESE_ROOMS = WORDS["chinese_rooms"]
COLORS = WORDS["colors"]
LANGUAGES = WORDS["languages"]
UNITS = WORDS["units"]
CURRENCIES = WORDS["currencies"]
PATTERN_ENDINGS = WORDS["pattern_endings"]


def a_word(random: Random, language: str = "en") -> str:
    """Any word: invented, common, or of the tables, so that every piece of the vocabulary is copied now and then."""
    source = random.random()
    if language != "en" and source < 0.35:
        noun = random.choice(random.choice(list(NOUNS.values())))
        return noun.japanese if language == "ja" else noun.chinese
    if source < 0.45:
        return word(random)
    if source < 0.6:
        return random.choice(COMMON)
    return random.choice(random.choice(list(NOUNS.values()))).english


def a_person(random: Random, language: str) -> str:
    if language == "zh" and random.random() < 0.6:
        return random.choice(CHINESE_NAMES)
    if language == "ja" and random.random() < 0.5:
        return japanese_name(random)
    return random.choice(PEOPLE) if random.random() < 0.5 else name(random)


def a_place(random: Random, language: str) -> str:
    if language == "zh" and random.random() < 0.7:
        return random.choice(CHINESE_PLACES)
    return japanese_place(random) if language == "ja" else place(random)


def a_text(random: Random, language: str) -> str:
    """A few words, as a message or a title has them."""
    if language == "zh" and random.random() < 0.6:
        return "".join(random.choices(CHINESE_TEXT, k=random.randint(1, 4)))
    if language == "ja" and random.random() < 0.6:
        return "".join(random.choices(JAPANESE_TEXT, k=random.randint(1, 3)))
    words = [random.choice(COMMON) if random.random() < 0.7 else a_word(random) for _ in range(random.randint(2, 7))]
    if random.random() < 0.15:
        words[random.randrange(len(words))] = whole(random)
    said = " ".join(words)
    return said[0].upper() + said[1:] if random.random() < 0.4 else said


def a_topic(random: Random, language: str) -> str:
    if random.random() < 0.6:
        return a_word(random)
    return " ".join(a_text(random, language).split()[:2])


def a_code(random: Random, _language: str = "en") -> str:
    """An id as systems give them."""
    letters, digits = word(random), str(random.randint(0, 99999))
    forms = [
        f"{letters[:3].upper()}-{digits}", f"{letters}{digits}", digits, f"{letters}-{digits}", f"#{digits}",
        f"{letters}_{word(random)}", f"{letters}-{word(random)}", f"{random.getrandbits(28):07x}", letters,
        f"{letters[:2].upper()}{digits}", f"v{random.randint(0, 9)}.{random.randint(0, 20)}",
        f"{letters}/{word(random)}",
    ]  # fmt: skip
    return random.choice(forms)


def a_date(random: Random, _language: str = "en") -> str:
    return str(date(2020, 1, 1) + timedelta(days=random.randint(0, 4000)))


def a_time(random: Random, _language: str = "en") -> str:
    return f"{random.randint(0, 23):02}:{random.choice([0, 15, 30, 45, random.randint(0, 59)]):02}"


def a_moment(random: Random, _language: str = "en") -> str:
    return f"{a_date(random)}T{a_time(random)}:00" + random.choice(["", "Z"])


def a_new_place(random: Random, language: str) -> str:
    """A place that is in no table, of two to five letters in Chinese: a few names would be known by heart."""
    if language == "zh":
        return "".join(random.choices(CHINESE_SOUNDS, k=random.randint(2, 5)))
    return japanese_name(random) if language == "ja" else place(random)


def a_new_person(random: Random, language: str) -> str:
    if language == "zh":
        return random.choice(CHINESE_FAMILIES) + "".join(random.choices(CHINESE_GIVEN, k=random.randint(1, 2)))
    return a_person(random, language)


def a_sentence(random: Random, language: str) -> str:
    """A text with small words in it, or a setting: "資料を追加", "no gate in menu", "port=80"."""
    if random.random() < 0.25:
        value = random.choice([a_word(random), whole(random), "True", "False", "on", "off", "yes", "no"])
        return f"{a_word(random)}{random.choice(['=', '=', ' = ', ': '])}{value}"
    form = random.choice(SENTENCES[language].split("|"))
    return re.sub(r"\{\}", lambda _: a_word(random, language), form)


def a_mail(random: Random, _language: str = "en") -> str:
    user = random.choice(PEOPLE).lower() if random.random() < 0.5 else word(random)
    digits = random.choice(["", str(random.randint(1, 99))])
    return f"{user}{digits}@{word(random)}.{random.choice(['com', 'org', 'de', 'jp'])}"


def a_url(random: Random, _language: str = "en") -> str:
    end = random.choice(["", f"/{word(random)}", f"/{word(random)}.html", f"/{word(random)}/{random.randint(1, 999)}"])
    return f"http{random.choice(['s', 's', ''])}://{word(random)}.{random.choice(['com', 'org', 'io', 'net'])}{end}"


def a_room(random: Random, language: str) -> str:
    known = {"ja": JAPANESE_ROOMS, "zh": CHINESE_ROOMS}.get(language, ROOMS)
    chance = random.random()
    return random.choice(known) if chance < 0.5 else random.choice(ROOMS) if chance < 0.7 else word(random)


def a_pattern(random: Random, _language: str = "en") -> str:
    """What names of files look like: `*.py`, `test_*`; or one whole name."""
    ending = random.choice([*PATTERN_ENDINGS, word(random)])
    begins = word(random)
    forms = [f"*.{ending}", f"*.{ending}", f"**/*.{ending}", f"{begins}*", f"*{begins}*", f"{begins}_*.{ending}",
             f"{begins}.{ending}", f"*_{begins}.{ending}"]  # fmt: skip
    return random.choice(forms)


def like_value(value: str, random: Random) -> str | None:
    """Another value that begins the same: `util.h` beside `util.c`; None where a value has no parts."""
    begins = re.match(r".*[/._= -](?=[^/._= -]+$)", value)
    if not begins:
        return None
    ends = random.choice(EXTENSIONS if begins[0].endswith(".") else [random.choice(COMMON), word(random)])
    return None if begins[0] + ends == value else begins[0] + ends


def one_of(values: list[str]) -> Callable[[Random, str], str]:
    """A known value, or, two times in five, an invented one."""
    return lambda random, _language: random.choice(values) if random.random() < 0.6 else word(random)


def a_file(random: Random, _language: str = "en") -> str:
    return file_path(random)


def a_folder(random: Random, _language: str = "en") -> str:
    return folder_path(random)


def between(least: int, most: int) -> Callable[[Random, str], int]:
    return lambda random, _language: random.randint(least, most)


def up_to(most: int, least: int = 0) -> Callable[[Random, str], int]:
    return lambda random, _language: random.randint(least, 10 ** random.randint(1, len(str(most)) - 1))


def a_number(random: Random, _language: str = "en") -> int | float:
    text = number(random)
    return float(text) if "." in text else int(text)


def several(make: Callable[[Random, str], str]) -> Callable[[Random, str], list[str]]:
    def make_list(random: Random, language: str) -> list[str]:
        count = random.choices([1, 2, 3, 4, 5], [2, 4, 5, 4, 2])[0]
        return list(dict.fromkeys(make(random, language) for _ in range(count)))

    return make_list


def is_true(random: Random, _language: str = "en") -> bool:
    return random.random() < 0.7


VARIED: dict[str, Callable[[Random, str], str]] = {
    "place": a_new_place, "person": a_new_person, "text": a_sentence, "title": a_sentence, "query": a_sentence,
}  # fmt: skip
VARIED_SHARE = 0.3
"""Kinds of which training, but nothing that is measured, has other values too, and how many."""


def varied(
    kind: str, make: Callable[[Random, str], Any], random: Random, held_out: bool
) -> Callable[[Random, str], Any]:
    """What makes a value of this kind now."""
    return make if held_out or kind not in VARIED or random.random() > VARIED_SHARE else VARIED[kind]
