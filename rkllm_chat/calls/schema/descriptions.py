"""Shorten the descriptions of tools and parameters to whole sentences that add information.

A sentence adds information if it shows a form (a digit, a quote, an acronym) or contains words that are not known yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MIN_NEW_WORDS = 2
"""Minimum number of new words; a single one is usually the verb of what the tool does."""
_MAX_READ_LENGTH = 4000
_STEM_LETTERS = 5
"""Letters that decide whether two words are the same, as entity and entities."""

# not after an abbreviation, as in "e.g. Europe/Paris"
_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)\s+(?=[^\sa-z])|(?<=[。！？])")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_a-zA-Z]+")
_CONCRETE = re.compile(r"\d|[\"'`“‘«「](?=\S)|\be\.g\.|\b[A-Z]{2,}\b")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SAY_NOTHING = """
a an and any are argument array as associated at be boolean by can each every for from given if in integer into is it
its list name names number object of on one optional or parameter provide provided required some specified specify
string text that the this to use used value values want what where which will with you your
"""
STOP_WORDS = set(_SAY_NOTHING.split())


def _sentences_of(text: str) -> list[str]:
    """Split a text into sentences, each on one line."""
    return [sentence for sentence in (" ".join(part.split()) for part in _END.split(text)) if sentence]


def shorten_description(text: str, max_length: int) -> str:
    """Return the first sentences that fit `max_length` characters together, or the beginning of the first one."""
    result = ""
    for sentence in _sentences_of(text):
        longer = sentence if not result else f"{result}{'' if result[-1] in '。！？' else ' '}{sentence}"
        if len(longer) > max_length:
            break
        result = longer
    return result or truncate_line(" ".join(text.split()), max_length)


def truncate_line(line: str, max_length: int) -> str:
    """Truncate a line to `max_length` characters, between two words if there is a blank in its second half."""
    if len(line) <= max_length:
        return line
    beginning = line[: max_length - 1]
    words = beginning.rpartition(" ")[0]
    return f"{(words if len(words) > max_length // 2 else beginning).rstrip(' ,;:')}…"


def extract_note(description: object, known: Iterable[str], max_length: int) -> str:
    """Return what a description adds to texts that are known already, starting with the first informative sentence.

    Args:
        description: The description; anything but a string yields "".
        known: Texts whose words are not new.
        max_length: Maximum length in characters.
    """
    if not isinstance(description, str):
        return ""
    familiar = {word for text in known for word in _words_of(text)}
    sentences = _sentences_of(description[:_MAX_READ_LENGTH])
    first = next((at for at, sentence in enumerate(sentences) if _is_informative(sentence, familiar)), None)
    return "" if first is None else shorten_description(" ".join(sentences[first:]), max_length).rstrip(".。")


def _is_informative(sentence: str, familiar: set[str]) -> bool:
    if _CONCRETE.search(sentence):
        return True
    new = set(_words_of(sentence)) - familiar
    return len(new) >= _MIN_NEW_WORDS or any(_CJK.match(word) for word in new)


def _words_of(text: str) -> list[str]:
    """Return the informative words, each truncated; `entityName` and `entity_name` are two words."""
    return [word[:_STEM_LETTERS] for found in _WORD.findall(text) if (word := found.casefold()) not in STOP_WORDS]
