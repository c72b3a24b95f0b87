"""Catalogue of the sentences that users read, by key. Each language is one TOML file in this directory.

What a language lacks is shown in English: a sentence can be written before somebody translates it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Formatter

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "AUTO",
    "Words",
    "complete",
    "detect_language",
    "detect_text_language",
    "find_placeholders",
    "find_untranslated",
    "list_languages",
    "load",
]

_FOLDER = Path(__file__).parent
_LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""Environment variables with the locale; the first that is set wins (POSIX.1-2017, base definitions, section 8.2)."""
AUTO = "auto"
_QUOTED = re.compile(r"""(?<!\w)["'`].{1,200}?["'`](?!\w)|“[^”]{1,200}”""")
_KANA, _IDEOGRAPHS, _LATIN = re.compile(r"[\u3041-\u30ff]"), re.compile(r"[\u3400-\u9fff]"), re.compile(r"[A-Za-z]")
_LATIN_PER_CHARACTER = 4
"""Latin letters that weigh as much as one Japanese or Chinese character: names of files and programs stand in both."""


class _PluralFormatter(Formatter):
    """Formats as `str.format` does; `{count:tool|tools}` is the first word for 1 and the second for other counts."""

    def format_field(self, value: object, format_spec: str) -> str:
        singular, bar, plural = format_spec.partition("|")
        return (singular if str(value) == "1" else plural) if bar else str(super().format_field(value, format_spec))


_FORMATTER = _PluralFormatter()


class Words:
    """The sentences of one language. `words("tool.failed", tool="x")` fills the placeholders of a sentence.

    Attributes:
        sentences: Sentence templates by dotted key.
        code: Language code, such as "en".
    """

    def __init__(self, sentences: Mapping[str, str], code: str = "en") -> None:
        self.sentences = sentences
        self.code = code

    def set_language(self, language: str) -> None:
        """Switch to another language; "auto" uses the locale. Everything that shares this object follows."""
        self.code = detect_language(os.environ) if language == AUTO else language
        self.sentences = _read_catalogue(self.code)

    def __call__(self, key: str, **values: object) -> str:
        """Return the sentence with its placeholders filled; raise KeyError for an unknown key."""
        return _FORMATTER.vformat(self.sentences[key], (), values)


def list_languages() -> list[str]:
    """Return the two-letter codes of all available languages, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load(language: str = "en") -> Words:
    """Load the sentences of a language; "auto" uses the locale."""
    words = Words({})
    words.set_language(language)
    return words


def detect_language(environment: Mapping[str, str]) -> str:
    """Return the language code of the locale (`ja_JP.UTF-8` gives ja, `zh_TW` zh); English if it is not available."""
    locale = next((environment[name] for name in _LOCALE_VARIABLES if environment.get(name)), "")
    code = re.split(r"[_.@-]", locale.lower(), maxsplit=1)[0]
    return code if code in list_languages() else "en"


def detect_text_language(text: str) -> str:
    """Return the language of a question, of those that are written in scripts of their own: en, ja, zh; "" if unclear.

    What is in quotes does not count.
    """
    plain = _QUOTED.sub(" ", text)
    kana, ideographs, latin = (len(pattern.findall(plain)) for pattern in (_KANA, _IDEOGRAPHS, _LATIN))
    if (kana + ideographs) * _LATIN_PER_CHARACTER > latin:
        return "ja" if kana else "zh"
    return "en" if latin else ""


def find_untranslated(language: str) -> dict[str, str]:
    """Return the English sentences, by key, that a language shows because it has none of its own."""
    own, english = _read_file(language), _read_file("en")
    sentences = complete(own, english)
    return {key: text for key, text in english.items() if language != "en" and sentences.get(key) != own.get(key)}


def complete(own: Mapping[str, str], english: Mapping[str, str]) -> dict[str, str]:
    """Return the sentences of a language, and the English ones where it has none.

    A sentence with other placeholders than the English one translates an older text; it would not say what it should.
    """
    outdated = {
        key for key in own.keys() & english.keys() if find_placeholders(own[key]) != find_placeholders(english[key])
    }
    return {**english, **{key: text for key, text in own.items() if key not in outdated}}


def find_placeholders(sentence: str) -> set[str]:
    """Return the names of the values that a sentence takes."""
    return {name for _, name, _, _ in _FORMATTER.parse(sentence) if name is not None}


@cache
def _read_catalogue(language: str) -> Mapping[str, str]:
    return complete(_read_file(language), _read_file("en"))


@cache
def _read_file(language: str) -> Mapping[str, str]:
    """Read the file of a language; tables become dotted keys (`[tool] failed` is "tool.failed")."""
    with (_FOLDER / f"{language}.toml").open("rb") as file:
        tables = tomllib.load(file)
    return {f"{table}.{key}": text for table, entries in tables.items() for key, text in entries.items()}
