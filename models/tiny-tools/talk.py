"""Small talk and requests that no tool fits, each with the one answer that is trained for it.

It knows no tool; requests for tools that are missing from a list come from the modules of the tools.
"""

from random import Random

from values import a_person, a_place
from vocabulary import fresh, japanese_name, number, pick, quoted, word
from words import load_words

WORDS = load_words("talk")
REFUSAL, JAPANESE_REFUSAL = "I have no tool for that.", "そのためのツールがありません。"
REFUSALS = {"en": REFUSAL, "ja": JAPANESE_REFUSAL, "zh": "没有适合的工具。"}

SMALL_TALK: dict[str, str] = WORDS["small_talk"]
CHINESE_QUESTIONS = WORDS["chinese_questions"]

VERBS = WORDS["verbs"]
OBJECTS = WORDS["objects"]
TAILS = WORDS["tails"]
QUESTIONS = WORDS["questions"]
JAPANESE_QUESTIONS = WORDS["japanese_questions"]
OPENERS = WORDS["openers"]


def small_talk(random: Random, held_out: bool) -> tuple[str, str]:
    """What is said and what is answered."""
    said = pick([line for lines in SMALL_TALK.values() for line in lines.split("|")], random, held_out)
    answer = next(answer for answer, lines in SMALL_TALK.items() if said in lines.split("|"))
    return dress(said, random, japanese=is_east_asian(answer)), answer


def hopeless(random: Random, held_out: bool) -> tuple[str, str]:
    """A request that no tool of ours fits, and its language."""
    language = random.choices(["en", "ja", "zh"], [7, 2, 1.5])[0]
    if language != "en":
        core = pick(JAPANESE_QUESTIONS if language == "ja" else CHINESE_QUESTIONS, random, held_out)
    elif random.random() < 0.5:
        core = pick(QUESTIONS, random, held_out)
    else:
        pair = fresh(lambda source: f"{source.choice(VERBS)} {source.choice(OBJECTS)}", random, held_out)
        core = random.choice(OPENERS) + pair + random.choice(TAILS)
    return dress(fill(core, random, language), random, language != "en"), language


def fill(core: str, random: Random, language: str) -> str:
    values = {
        "place": a_place(random, language),
        "name": a_person(random, language),
        "word": japanese_name(random) if language == "ja" and random.random() < 0.6 else word(random),
        "number": number(random),
        "quoted": quoted(word(random), random),
    }
    return core.format(**values)


def dress(said: str, random: Random, japanese: bool) -> str:
    """Case and closing marks as people use them."""
    if japanese:
        return said + random.choice(["", "", "。", "！", "？"])
    if random.random() < 0.5:
        said = said[0].upper() + said[1:]
    return said + random.choice(["", "", "", ".", "!", "?"])


def is_east_asian(text: str) -> bool:
    return any("\u3040" <= letter <= "\u9fff" for letter in text)
