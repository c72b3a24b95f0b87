"""What servers say of their tools and parameters, as short as it may be told: whole sentences, those that say anything.

A sentence says something when it has a sign of form (a digit, a quote, an acronym), or words that are not known yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LEAST_NEWS = 2
"""Words: one alone is most often the verb of what the tool does."""
LONGEST_READ = 4000
SAME = 5
"""Letters: words that begin alike are one word, as entity and entities."""

# not behind "e.g. Europe/Paris"
_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)\s+(?=[^\sa-z])|(?<=[。！？])")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_a-zA-Z]+")
_FORM = re.compile(r"\d|[\"'`“‘«「](?=\S)|\be\.g\.|\b[A-Z]{2,}\b")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SAY_NOTHING = """
a an and any are argument array as associated at be boolean by can each every for from given if in integer into is it
its list name names number object of on one optional or parameter provide provided required some specified specify
string text that the this to use used value values want what where which will with you your
"""
SAY_NOTHING = set(_SAY_NOTHING.split())


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, each on one line."""
    return [one for one in (" ".join(part.split()) for part in _END.split(text)) if one]


def shorten(text: str, most: int) -> str:
    """The sentences that together have at most so many characters, in their order from the first on; of a first one
    that is longer its beginning."""
    kept = ""
    for sentence in sentences_of(text):
        longer = sentence if not kept else f"{kept}{'' if kept[-1] in '。！？' else ' '}{sentence}"
        if len(longer) > most:
            break
        kept = longer
    return kept or cut(" ".join(text.split()), most)


def cut(line: str, most: int) -> str:
    """A line of at most so many characters, cut between two words where there is a blank in its second half."""
    if len(line) <= most:
        return line
    kept = line[: most - 1]
    words = kept.rpartition(" ")[0]
    return f"{(words if len(words) > most // 2 else kept).rstrip(' ,;:')}…"


def note(description: object, known: Iterable[str], most: int) -> str:
    """What a description says beyond the texts that are known, in at most so many characters; "" where that is
    nothing. It begins with the first sentence that says something."""
    if not isinstance(description, str):
        return ""
    familiar = {word for text in known for word in words_of(text)}
    sentences = sentences_of(description[:LONGEST_READ])
    telling = next((at for at, one in enumerate(sentences) if says_more(one, familiar)), None)
    return "" if telling is None else shorten(" ".join(sentences[telling:]), most).rstrip(".。")


def says_more(sentence: str, familiar: set[str]) -> bool:
    if _FORM.search(sentence):
        return True
    new = set(words_of(sentence)) - familiar
    return len(new) >= LEAST_NEWS or any(_CJK.match(word) for word in new)


def words_of(text: str) -> list[str]:
    """The words that say something, each by its beginning; `entityName` and `entity_name` are two."""
    return [word[:SAME] for one in _WORD.findall(text) if (word := one.casefold()) not in SAY_NOTHING]
