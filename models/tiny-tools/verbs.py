"""What tools do to things: names, descriptions, and how people ask for it in three languages. It knows no values.

Their slots are told in `words/verbs.toml`.
"""

from dataclasses import dataclass

from words import load_words


@dataclass(frozen=True)
class Verb:
    """Words parted by bars: beginnings of tool names, descriptions, requests, and what a result says."""

    key: str
    names: str
    about: str
    english: str
    japanese: str
    chinese: str
    result: str

    @property
    def asks(self) -> bool:
        """Whether it only looks: then a question asks for it as well as a command."""
        return self.result.startswith("?")


WORDS = load_words("verbs")
VERBS = {key: Verb(key, **texts) for key, texts in WORDS["verbs"].items()}
OPPOSITES: list[str] = WORDS["opposites"]
