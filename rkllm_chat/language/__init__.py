"""What the program says, by key; a language is one TOML file beside this one. It does not know who listens."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""What says the locale of messages; the first that is set counts (POSIX.1-2017, base definitions, section 8.2)."""
AUTO = "auto"


class Words:
    """The sentences of one language, `code`. `words("tool.failed", tool="x")` fills the placeholders of a sentence."""

    def __init__(self, sentences: Mapping[str, str], code: str = "en") -> None:
        self.sentences = sentences
        self.code = code

    def speak(self, language: str) -> None:
        """Goes on in another language; whoever holds these words says it in that one."""
        self.code = find_language(os.environ) if language == AUTO else language
        self.sentences = read(self.code)

    def __call__(self, key: str, **values: object) -> str:
        return self.sentences[key].format(**values)


def languages() -> list[str]:
    """The languages there are, by their two-letter names."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(language: str = "en") -> Words:
    """The words of a language; "auto" is that of the locale."""
    words = Words({})
    words.speak(language)
    return words


def find_language(environment: Mapping[str, str]) -> str:
    """The language of the locale (`ja_JP.UTF-8` is ja, `zh_TW` zh); English where that is none of ours, or C."""
    locale = next((environment[name] for name in VARIABLES if environment.get(name)), "")
    code = re.split(r"[_.@-]", locale.lower(), maxsplit=1)[0]
    return code if code in languages() else "en"


@cache
def read(language: str) -> Mapping[str, str]:
    """The sentences of a language; the tables of its file become dotted keys (`[tool] failed` is "tool.failed")."""
    with (FOLDER / f"{language}.toml").open("rb") as file:
        tables = tomllib.load(file)
    return {f"{table}.{key}": text for table, entries in tables.items() for key, text in entries.items()}
