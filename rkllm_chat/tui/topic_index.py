"""Rank topics by how well they fit a person's words: BM25 over each topic, and the nearest of its phrasings."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..prompt.tool_ranking import CJK, STOP_WORDS, stem_word

__all__ = ["Document", "TopicIndex"]

_HIRAGANA = re.compile("[\u3040-\u309f]+")
_RUN = re.compile(f"(?P<word>[^\\W_{CJK}]+)|(?P<wide>[{CJK}]+)|(?<!\\S)(?P<sign>[@!/?])(?!\\S)")
_FUNCTION_WORDS = frozenset(
    f"""{STOP_WORDS} could would should will i me my we our its these those there if so as who why please want need get
    have has had""".split()
)
_FUNCTION_WORD, _HIRAGANA_PAIR, _CHARACTER, _WORD_PAIR, _TRIGRAM = 0.15, 0.3, 0.4, 0.3, 0.3
"""Weights beside that of a word, or of two neighbouring characters of Japanese or Chinese text, which is 1. Trigrams of
a word are there for typing errors and compounds."""
_SATURATION, _LENGTH_SHARE = 1.0, 0.5
"""k1 and b of BM25: how soon more occurrences tell no more, and how much long documents are discounted."""
_NEAREST_SHARE, _SECOND_SHARE = 0.4, 1 / 3
"""Share of the nearest phrasings in a score, and of the second in that."""
_BODY, _UNKNOWN = 0.3, 0.5
"""Weight of a word in the text of a topic, and of a word that no topic has, beside one that only one has."""
_MAX_NEAREST = 12
"""Among how many topics, the best by BM25, the nearest phrasing is looked for."""


@dataclass(frozen=True)
class Document:
    """What a topic is found by.

    Attributes:
        phrasings: Its title, and what people write who look for it.
        text: Its text, which counts less.
    """

    phrasings: Sequence[str]
    text: str = ""


class TopicIndex:
    """Documents by their words and parts of words."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._phrasings = [[_read_features(phrasing) for phrasing in document.phrasings] for document in documents]
        self._counts: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._lengths = [0.0] * len(documents)
        for position, document in enumerate(documents):
            for phrasing in self._phrasings[position]:
                for feature, weight in phrasing.items():
                    self._counts[feature][position] += weight
                    self._lengths[position] += weight
            for word, weight in dict(_split_words(document.text)).items():
                self._counts[word][position] += _BODY * weight
        self._mean_length = sum(self._lengths) / max(1, len(documents))

    def rank(self, text: str) -> list[tuple[float, int]]:
        """Return the score of each document that has something of a text, with its position, the best first.

        A score of 1 is that of a document which has all of the text, often, and the text itself as a phrasing.
        """
        features = _read_features(text)
        scores: dict[int, float] = defaultdict(float)
        most = 0.0
        for feature, weight in features.items():
            value = weight * self._weigh(feature) * (_SATURATION + 1)
            most += value
            for position, count in self._counts.get(feature, {}).items():
                length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * self._lengths[position] / self._mean_length
                scores[position] += value * count / (count + _SATURATION * length)
        ranked = sorted(((score / most, position) for position, score in scores.items()), reverse=True)
        nearest = {position: self._compare_phrasings(features, position) for _, position in ranked[:_MAX_NEAREST]}
        return sorted(
            (
                (_NEAREST_SHARE * nearest.get(position, 0.0) + (1 - _NEAREST_SHARE) * score, position)
                for score, position in ranked
            ),
            reverse=True,
        )

    def _weigh(self, feature: str) -> float:
        """Return how much a feature tells: the more, the fewer documents have it (the IDF of BM25)."""
        count = len(self._counts.get(feature, ()))
        total = math.log(1 + len(self._lengths))
        return math.log(1 + len(self._lengths) / count) if count else _UNKNOWN * total

    def _compare_phrasings(self, features: Mapping[str, float], position: int) -> float:
        """Return the cosine of a text and the nearest phrasings of a document, the second of which counts less."""
        phrasings = self._phrasings[position]
        cosines = sorted((self._compare(features, phrasing) for phrasing in phrasings), reverse=True)
        second = cosines[1] if len(cosines) > 1 else 0.0
        return (cosines[0] + _SECOND_SHARE * second) / (1 + _SECOND_SHARE) if cosines else 0.0

    def _compare(self, features: Mapping[str, float], phrasing: Mapping[str, float]) -> float:
        shared = features.keys() & phrasing.keys()
        common = sum(features[feature] * phrasing[feature] * self._weigh(feature) ** 2 for feature in shared)
        return common / (self._measure(features) * self._measure(phrasing)) if common else 0.0

    def _measure(self, features: Mapping[str, float]) -> float:
        return math.sqrt(sum((weight * self._weigh(feature)) ** 2 for feature, weight in features.items()))


def _read_features(text: str) -> dict[str, float]:
    """Return the words of a text, neighbouring ones together, and parts of words, by how much each counts."""
    features: dict[str, float] = {}
    previous = ""
    for word, weight in _split_words(text):
        features[word] = max(features.get(word, 0.0), weight)
        if word.isascii():
            if previous:
                features[f"{previous} {word}"] = _WORD_PAIR
            previous = word
    for match in _RUN.finditer(_normalize(text)):
        word = match["word"] or ""
        if len(word) > 3 and word not in _FUNCTION_WORDS:
            marked = f"^{word}$"
            features.update({f"~{marked[i : i + 3]}": _TRIGRAM for i in range(len(word))})
    return features


def _split_words(text: str) -> Iterator[tuple[str, float]]:
    """Yield the words of a text, stemmed, and the characters and pairs of Japanese and Chinese runs, with weights."""
    for match in _RUN.finditer(_normalize(text)):
        if word := match["word"]:
            yield stem_word(word), _FUNCTION_WORD if word in _FUNCTION_WORDS else 1.0
        elif run := match["wide"]:
            for i, character in enumerate(run):
                pair = run[i : i + 2]
                if not _HIRAGANA.match(character):
                    yield character, _CHARACTER if len(run) > 1 else 1.0
                if len(pair) == 2:
                    yield pair, _HIRAGANA_PAIR if _HIRAGANA.fullmatch(pair) else 1.0
        else:
            yield match[0], 1.0


def _normalize(text: str) -> str:
    """Return a text without differences that people do not make; `don't` is one word, as is `dont`."""
    return re.sub("['\u2019]", "", unicodedata.normalize("NFKC", text).casefold())
