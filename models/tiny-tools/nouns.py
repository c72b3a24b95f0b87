# Long word lists are easier to read and to add to as one text that is split.
"""Things that tools are about, by theme, each in English, Japanese and Chinese. It knows no tool and no value."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

FILE = Path(__file__).with_name("nouns.txt")


@dataclass(frozen=True)
class Noun:
    """A thing in three languages; an invented one is written alike in all."""

    english: str
    japanese: str
    chinese: str

    @property
    def plural(self) -> str:
        if self.english.endswith(("s", "x", "ch", "sh")):
            return f"{self.english}es"
        if self.english.endswith("y") and self.english[-2] not in "aeiou":
            return f"{self.english[:-1]}ies"
        return f"{self.english}s"


def read_nouns() -> dict[str, list[Noun]]:
    """Theme -> its things; a line of the file is `theme: english|japanese|chinese ...`."""
    lines = (line.split(": ") for line in FILE.read_text(encoding="utf-8").splitlines())
    return {theme: [Noun(*entry.split("|")) for entry in listed.split()] for theme, listed in lines}


NOUNS = read_nouns()


def draw_nouns(random: Random, count: int) -> list[Noun]:
    """Different things of one theme."""
    nouns = NOUNS[random.choice(list(NOUNS))]
    return random.sample(nouns, min(count, len(nouns)))
