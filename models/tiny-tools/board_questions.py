# Long word lists are easier to read and to add to as one text that is split.

"""Questions for the board server's tools, each with the call that answers it.

It knows the tools' names and parameters by heart; their descriptions come from the server itself, elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from values import a_place, varied
from vocabulary import (
    file_path,
    folder_path,
    fresh,
    is_held_out,
    mount_path,
    number,
    quoted,
)
from words import load_words

WORDS = load_words("board")
PHRASINGS: dict[str, dict[str, str]] = WORDS["tools"]
MOODS = WORDS["moods"]
CLOSERS = WORDS["closers"]
JAPANESE_OPENERS = WORDS["japanese_openers"]
CHINESE_OPENERS = WORDS["chinese_openers"]
PLACE_UNSAID = "UTC"
LANGUAGES = {"en": 0.62, "ja": 0.2, "zh": 0.18}
TRAINED_LANGUAGES = {"en": 0.5, "ja": 0.2, "zh": 0.3}
"""Chinese is learnt last."""
OPERATORS = WORDS["operators"]
SIGNS = {"+": 4, "-": 4, "*": 4, "/": 3, "**": 0.4, "%": 0.4, "×": 0.4, "÷": 0.3, "^": 0.3}


@dataclass(frozen=True)
class Question:
    """What a user says, and the call that is right for it; `tool` is None where no tool fits. `style` is how the values
    are told, for figures: named, unnamed or in words of the call."""

    said: str
    tool: str | None
    arguments: Mapping[str, Any]
    language: str = "en"
    style: str = ""


def board_question(tool: str, random: Random, held_out: bool) -> Question:
    """A question for one tool of the board: phrasing and values both from the wanted side of the split."""
    shares = LANGUAGES if held_out else TRAINED_LANGUAGES
    while True:
        language = random.choices(list(shares), list(shares.values()))[0]
        mood = random.choices(list(MOODS), [4, 4, 2])[0]
        cores = PHRASINGS[tool][{"ja": "japanese", "zh": "chinese"}.get(language, mood)]
        wanted = [core for core in cores.split("|") if is_held_out(core) == held_out]
        if wanted:
            break
    core = random.choice(wanted)
    said, arguments = fill(core, random, language, held_out)
    if tool == "get_time" and not arguments:
        arguments = {"place": PLACE_UNSAID}
    if language != "en":
        dressed = dress_japanese(said, random) if language == "ja" else dress_chinese(said, random)
        return Question(dressed, tool, arguments, language)
    capital = 0.0 if core.startswith("{") else 0.6
    return Question(dress(said, mood, random, capital), tool, arguments)


def fill(core: str, random: Random, language: str, held_out: bool) -> tuple[str, dict[str, Any]]:
    """The core with its slots filled, and the arguments those values make."""
    shown: dict[str, str] = {}
    arguments: dict[str, Any] = {}
    for slot, (parameter, make) in SLOTS.items():
        if f"{{{slot}}}" in core:
            made = varied(parameter, make, random, held_out)
            value = fresh(partial(make_in, made, language), random, held_out)
            shown[slot], arguments[parameter] = quoted(value, random), value
    if "{sum}" in core:
        shown["sum"], arguments["expression"] = make_sum(random, language, held_out)
    if "{lines}" in core:
        arguments["lines"] = random.randint(1, 10 ** random.randint(1, 3))
        shown["lines"] = str(arguments["lines"])
    return core.format(**shown), arguments


def make_in(make: Callable[[Random, str], str], language: str, random: Random) -> str:
    return make(random, language)


SLOTS: dict[str, tuple[str, Callable[[Random, str], str]]] = {
    "place": ("place", a_place),
    "path": ("path", lambda random, _language: file_path(random)),
    "folder": ("path", lambda random, _language: folder_path(random)),
    "mount": ("path", lambda random, _language: mount_path(random)),
}


def make_sum(random: Random, language: str, held_out: bool) -> tuple[str, str]:
    """A sum as it is said and as it is calculated: "12 times 34" and "12 * 34"; signs are copied as they stand."""
    numbers = [fresh(number, random, held_out) for _ in range(random.choices([2, 3, 4], [7, 2, 1])[0])]
    if random.random() < 0.45:
        return sum_in_words(numbers, random, language)
    written = numbers[0]
    blank = random.choice(["", " ", " "])
    for index, value in enumerate(numbers[1:]):
        operator = random.choices(list(SIGNS), list(SIGNS.values()))[0]
        written += f"{blank}{operator}{blank}{value}"
        if index < len(numbers) - 2 and random.random() < 0.6:
            written = f"({written})"
    if random.random() < 0.08:
        written = random.choice([f"-{written}", f"{numbers[0]}{blank}*{blank}({written})"])
    return written, written


def sum_in_words(numbers: list[str], random: Random, language: str) -> tuple[str, str]:
    said = written = numbers[0]
    for value in numbers[1:]:
        operator = random.choice("+-*/")
        spoken = random.choice(OPERATORS[language][operator])
        said += f" {spoken} {value}" if language == "en" else f"{spoken}{value}"
        written += f" {operator} {value}"
    return said, written


def dress(said: str, mood: str, random: Random, capital: float) -> str:
    """The core with a beginning, an end and the case and marks people use; `capital` when it has no opener."""
    opener = random.choice(MOODS[mood].split("|"))
    said = opener + said
    if said.rstrip()[-1] not in "=:":
        said += random.choice(CLOSERS)
    if (opener and random.random() < 0.6) or random.random() < capital:
        said = said[0].upper() + said[1:]
    mark = "?" if mood == "questions" else "."
    return said + random.choice([mark, mark, mark, "", "", "!", "?"])


def dress_japanese(said: str, random: Random) -> str:
    return random.choice(JAPANESE_OPENERS) + said + random.choice(["", "", "？", "。", "?", "！"])


def dress_chinese(said: str, random: Random) -> str:
    return random.choice(CHINESE_OPENERS) + said + random.choice(["", "", "", "？", "。", "?", "！", "，谢谢"])
