"""Words and values to talk about: places, paths, numbers, sums, invented words; and what is held out of training.

It knows no tool. Every maker takes its random source as an argument, so the same seed gives the same value.
"""

import hashlib
import json
import zoneinfo
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random

from words import load_words

WORDS = load_words("vocabulary")
HELD_OUT_SHARE = 0.1
# The plainest words, which a user says first, are trained whatever the split says; none of them is ever measured.
ALWAYS_TRAINED = frozenset(WORDS["always_trained"])
CONSONANTS, VOWELS = WORDS["consonants"], WORDS["vowels"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
EXTENSIONS = WORDS["extensions"]
FOLDERS = WORDS["folders"]
FILE_STEMS = WORDS["file_stems"]
ENGLISH_PLACES = WORDS["english_places"]
JAPANESE_PLACES = WORDS["japanese_places"]
KATAKANA = WORDS["katakana"]
KANJI = WORDS["kanji"]
ZONES = sorted(zone for zone in zoneinfo.available_timezones() if not zone.startswith(("posix/", "right/")))
CITIES = sorted({zone.rsplit("/", 1)[1].replace("_", " ") for zone in ZONES if "/" in zone and "Etc/" not in zone})


@lru_cache(100_000)
def is_held_out(text: str) -> bool:
    """True for the tenth of all phrasings and values that training never sees; the same on every machine."""
    first_byte = hashlib.sha256(text.encode("utf-8")).digest()[0]
    return first_byte < 256 * HELD_OUT_SHARE and text not in ALWAYS_TRAINED


def pick(values: Sequence[str], random: Random, held_out: bool) -> str:
    """One of `values`, from the wanted side of the split; LookupError where there is none."""
    wanted = [value for value in values if is_held_out(value) == held_out]
    if not wanted:
        raise LookupError("no value on this side of the split")
    return random.choice(wanted)


def fresh(make: Callable[[Random], str], random: Random, held_out: bool) -> str:
    """What `make` gives, until it falls on the wanted side of the split."""
    while True:
        value = make(random)
        if is_held_out(value) == held_out and "tide" not in value.lower() and "harbour" not in value.lower():
            return value


def word(random: Random) -> str:
    """An invented word of syllables, or, one time in three, of letters."""
    if random.random() < 0.33:
        return "".join(random.choices(LETTERS, k=random.randint(2, 9)))
    syllables = (random.choice(CONSONANTS) + random.choice(VOWELS) for _ in range(random.randint(1, 4)))
    return "".join(syllables) + random.choice(["", "", "n", "r", "s", "m", "l", "x"])


def name(random: Random) -> str:
    """An invented name, capitalised, sometimes of two words."""
    first = word(random).capitalize()
    return first if random.random() < 0.8 else f"{first} {word(random).capitalize()}"


def japanese_name(random: Random) -> str:
    letters = KATAKANA if random.random() < 0.5 else KANJI
    return "".join(random.choices(letters, k=random.randint(2, 5 if letters is KATAKANA else 3)))


def place(random: Random) -> str:
    """A city, country or zone, real or invented, in any case."""
    kind = random.random()
    if kind < 0.2:
        return name(random)
    if kind < 0.25:
        return f"{name(random).replace(' ', '_')}/{name(random).replace(' ', '_')}"
    value = random.choice(random.choices([CITIES, ENGLISH_PLACES, ZONES], [5, 2, 3])[0])
    return value if random.random() < 0.85 else random.choice([value.lower(), value.upper()])


def japanese_place(random: Random) -> str:
    kind = random.random()
    if kind < 0.3:
        return japanese_name(random)
    return random.choice(JAPANESE_PLACES) if kind < 0.8 else place(random)


def stem(random: Random) -> str:
    first = random.choice(FILE_STEMS) if random.random() < 0.5 else word(random)
    if random.random() < 0.15:
        first = random.choice([first.upper(), first.capitalize()])
    if random.random() < 0.3:
        first += random.choice(["_", "-", "."]) + random.choice([word(random), str(random.randint(1, 2026))])
    return first


def file_path(random: Random) -> str:
    """A path of a file, relative or absolute, with or without folders and extension."""
    dotted = random.random()
    file = stem(random) + (f".{random.choice(EXTENSIONS)}" if dotted < 0.8 else "")
    if dotted > 0.95:
        file = f".{file}"
    return file if random.random() < 0.5 else f"{folder_path(random).rstrip('/')}/{file}"


def folder_path(random: Random) -> str:
    """A path of a folder: `docs`, `/var/log`, `./build/old`, `../x`, `~/notes`, sometimes with a closing slash."""
    parts = [random.choice(FOLDERS) if random.random() < 0.6 else stem(random) for _ in range(random.randint(1, 3))]
    start = random.choices(["", "/", "./", "../", "~/"], [4, 4, 1, 0.6, 0.6])[0]
    return start + "/".join(parts) + ("/" if random.random() < 0.08 else "")


def mount_path(random: Random) -> str:
    return "/" if random.random() < 0.15 else "/" + folder_path(random).lstrip("./~")


def whole(random: Random) -> str:
    return str(random.randint(0, 10 ** random.randint(1, 6)))


def number(random: Random) -> str:
    """A number of one to six digits, one time in four with decimals."""
    digits = whole(random)
    return digits if random.random() < 0.75 else f"{digits}.{random.randint(0, 10 ** random.randint(1, 3))}"


def quoted(value: str, random: Random) -> str:
    """The value as people write it: mostly bare, sometimes in quotation marks."""
    mark = random.choices(["", '"', "'", "`"], [12, 1, 0.6, 0.6])[0]
    return f"{mark}{value}{mark}"


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
