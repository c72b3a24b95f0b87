"""Which tools are the likeliest for a question: BM25 over their names, descriptions and parameters. It reads
nothing but its own thesaurus.

The formula is that of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with
the fields weighed before lengths are levelled (section 3.6, BM25F).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from .messages import Tool
from .schemas import properties_of

THESAURUS = Path(__file__).with_name("thesaurus.txt")
K1, B = 1.2, 0.75
NAME, DESCRIPTION, PARAMETER, SERVER = 3.0, 1.0, 0.5, 1.0
"""What a word weighs by where it stands."""

MEANING = 0.6
"""What a word of the same meaning weighs beside the word itself."""
QUOTED = 0.3
"""What a word weighs that stands in quotes alone: it is a value, mostly."""
SAID_BONUS = 0.6
"""What a tool gains, as a part of its score, if all words of its name are in the question."""
MOST_BONUS, HALF_BONUS = 0.2, 4
"""What a tool gains that has served for ever, as a part of its score; and how often it must have served for half."""
LEAST_CHOSEN, LEAST_LIKELY = 5, 0.5
"""So many are chosen in any case, others where they score so much of what the likeliest does. Measured on 200 questions
to 200 tools, within 512 tokens: the right tool is chosen for 99 % at 215 tokens a question. Without a bound it is for
99 % at 435 tokens, with the second alone for 96 % at 154."""
ALIKE, LEFT = 0.9, 0.4
"""Where few are chosen, what a tool must score as a part of what the likeliest does: by all words of the question; by
those that the tools before it lack. Measured on 204 written questions to four servers: the right tool is among 1.2 for
96 %; among 4.6 for 99 % where not few are chosen."""
OF_ANY_TOOL = "show file"
"""What says nothing of a second tool: that something is to be seen, and a path, which is a value as others are."""
LONGEST_WORD = 16
"""Characters of a Japanese or Chinese word of the thesaurus."""
LONGEST_END, LONGEST_DESCRIPTION = 400, 600
"""Characters that are looked at: of a question its beginning and its end, between them something may be pasted."""

CJK_LETTERS = r"\u3005\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
CJK = re.compile(f"[{CJK_LETTERS}]+")
QUOTE = re.compile(r"""(?<!\w)(["'`])(?!\1).{1,200}?\1(?!\w)|“[^”]{1,200}”|「[^」]{1,200}」|『[^』]{1,200}』""")
PART = rf"[^\s{CJK_LETTERS}]"
"""Of a path: Japanese and Chinese leave no blanks around it."""
NAMED = rf"(?!e\.g|i\.e)(?<![^\W{CJK_LETTERS}])(?:(?![{CJK_LETTERS}])[\w/~-])+\.[a-z][a-z\d]{{0,4}}(?![a-z\d_])"
"""A file by its name, with its ending."""
OPENS = r"[\"'`“「『./]*"
"""What may stand before it: a quote, and where it lies."""
HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
WORD = re.compile(r"[^\W_]+")
SEVERAL = "several"
"""What is meant where more than one file is named, too."""
SHAPES = {
    "read": re.compile(
        r"\b(?:show|display|see|look at|what(?: i|')s in)\b"
        rf"(?=\s+(?:(?:me|the|file|contents?|text|first|last|\d+|lines?|of)\s+)*{OPENS}{NAMED}(?!/))"
        rf"|(?:显示|查看|看看)(?=(?:一下|文件|\s)*{OPENS}{NAMED}(?!/))"
        rf"|{NAMED}[\"'`”」』]?(?:\s*[里中]有什么|には?何が|を表示)"
    ),
    "file": re.compile(rf"(?<![^\s{CJK_LETTERS}])[~.]?/{PART}+|{PART}*\*\.[a-z\d]+|{NAMED}"),
    "calculate": re.compile(
        r"\d\s*[*×÷^+%]\s*\d?|\d\s+([-/x]|less|and|over|times)\s+\d"
        rf"|(?<![^\W{CJK_LETTERS}])(?<![/.-])\(?\d+(\.\d+)?[-/x]\(?\d+(\.\d+)?(?![/-])(?![^\W{CJK_LETTERS}])"
        r"|\d\s*(?:加上?|减去?|乘以?|除以|たす|足す|ひく|引く|かける|掛ける|わる|割る)\s*\d"
    ),
    "time": re.compile(r"(?<!\d)\d{1,2}(:\d\d(?!\d)|\s?[ap]m\b)"),
    "current": re.compile(
        r"\bright now\b|\b(?=(?:what|the) time\b|time is it\b|how late\b)|^\s*(?=time\b)|(?=何時|時刻を|几点)"
    ),
    SEVERAL: re.compile(r"\bat (?:once|the same time)\b"),
    "list": re.compile(r"\b(?=which\b.{1,30}?\bare\b|what(?: i|')s in\b)|(?=何があ|どんな|有哪些|里有什么)"),
    "log": re.compile(r"\b(?=commits\b)"),
}
"""What is meant by things that are no words: `report.pdf`, `12 * 34`, `3pm`, and by `show` before a file. What is in
them says nothing of a tool; what is only looked at, as in the last ones, keeps its words."""
OTHERWISE = {
    "current": SHAPES["time"],
    "list": SHAPES["read"],
    "file": re.compile(r"\b(?:folders?|director(?:y|ies)|dirs?)\b|フォルダ|ディレクトリ|目录|文件夹"),
}
"""What says that a shape is not meant: 3pm is not now, and a path is that of the folder, where one is named."""
JOINT = re.compile(
    r"\b(?:and(?!\s+\S*[./~]\w)|then|also)\b|[;。].|[.!?] +[A-Z]|それ|次に|あと|还有|然后|再|另外", re.DOTALL
)
"""What stands between two wishes; between two files there are none."""
STOP_WORDS = """
    a an and are as at be been but by can could did do does for from had has have how i if in into is it its me my of
    on or our please so some tell than that the their them then there these they this those to us want was we were what
    when where which who whom whose why will with would you your
"""


@dataclass(frozen=True)
class Asked:
    """A question to an index: word -> what it weighs, and what the score of each tool is multiplied by."""

    weights: Mapping[str, float]
    bonuses: Sequence[float]

    def without(self, words: Container[str]) -> Asked:
        """What is left when these words are taken away."""
        return replace(self, weights={word: weight for word, weight in self.weights.items() if word not in words})


class Index:
    """The words of tools, made ready to be asked."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools = list(tools)
        self._names = [words_of_name(tool.name) for tool in self.tools]
        self._counts = [count_words(tool) for tool in self.tools]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        self._having = Counter(word for counts in self._counts for word in counts)

    def ask(self, question: str, served: Mapping[str, int]) -> Asked:
        """What a question says to these tools; `served`: full name -> how often the tool has served."""
        ends = ends_of(question)
        plain = set(words_asked(QUOTE.sub(" ", ends)))
        weights = {word: self._weight(word, word in plain) for word in words_asked(ends) if word in self._having}
        said = [1 + SAID_BONUS * share_said(name, plain) for name in self._names]
        return Asked(
            weights, [one * bonus_of(served.get(tool.full_name, 0)) for one, tool in zip(said, self.tools, strict=True)]
        )

    def score(self, asked: Asked) -> list[float]:
        """How well each tool fits a question, 0 where they have no word in common."""
        found = (self._score(asked.weights, *one) for one in zip(self._counts, self._lengths, strict=True))
        return [score * bonus for score, bonus in zip(found, asked.bonuses, strict=True)]

    def words_at(self, place: int) -> Set[str]:
        """The words that a tool has, as it stands in `tools`."""
        return self._counts[place].keys()

    def _weight(self, word: str, is_plain: bool) -> float:
        having = self._having[word]
        rarity = math.log(1 + (len(self.tools) - having + 0.5) / (having + 0.5))
        return rarity * (MEANING if is_meaning(word) else 1.0) * (1.0 if is_plain else QUOTED)

    def _score(self, asked: Mapping[str, float], counts: Mapping[str, float], length: float) -> float:
        level = K1 * (1 - B + B * length / self._mean)
        found = ((rarity, counts[word]) for word, rarity in asked.items() if word in counts)
        return sum(rarity * count * (K1 + 1) / (count + level) for rarity, count in found)


def ends_of(question: str) -> str:
    return f"{question[:LONGEST_END]} {question[LONGEST_END:][-LONGEST_END:]}"


def rank(index: Index, question: str, served: Mapping[str, int]) -> list[Tool]:
    """The tools that may help with a question, the likeliest first, without those that are far less likely.

    `served`: full name -> how often the tool has served. It turns the scale between tools that fit about as well.
    """
    scores = index.score(index.ask(question, served))
    order, least = sort_by(scores, index), LEAST_LIKELY * max(scores, default=0.0)
    return [index.tools[i] for place, i in enumerate(order) if place < LEAST_CHOSEN or scores[i] >= least]


def rank_few(index: Index, question: str, served: Mapping[str, int]) -> list[Tool]:
    """The likeliest tool, where a question joins wishes that of each in their order, others for the words that these do
    not have; then those that are as likely as the first, but not for fewer words of the question."""
    question = ends_of(question)
    asked = index.ask(question, served)
    scores = index.score(asked)
    order, best = sort_by(scores, index), max(scores, default=0.0)
    if not order:
        return []
    alike = with_most_words(index, asked, [place for place in order if scores[place] >= ALIKE * best])
    chosen = likeliest_of_wishes(index, question, served)
    chosen = chosen if alike[0] in chosen else [alike[0], *chosen]
    chosen += for_other_words(index, asked, chosen, LEFT * best)
    chosen += [place for place in alike if place not in chosen]
    return [index.tools[place] for place in chosen]


def with_most_words(index: Index, asked: Asked, places: Sequence[int]) -> list[int]:
    """Without those for which fewer words of the question speak: all that they have another has, and more."""
    words = {place: asked.weights.keys() & index.words_at(place) for place in places}
    return [place for place in places if not any(words[place] < others for others in words.values())]


def likeliest_of_wishes(index: Index, question: str, served: Mapping[str, int]) -> list[int]:
    """The places of the likeliest tools for the parts of a question that joins wishes; none of one that joins none."""
    joints = [found.start() for found in JOINT.finditer(question)]
    parts = (question[start:end] for start, end in pairwise([0, *joints, len(question)]) if joints)
    found = (sort_by(index.score(index.ask(part, served)), index)[:1] for part in parts)
    return list(dict.fromkeys(place for places in found for place in places))


def for_other_words(index: Index, asked: Asked, chosen: Sequence[int], least: float) -> Iterator[int]:
    """The likeliest tool for the words that the chosen ones do not have, then for those that this one lacks too."""
    asked = asked.without(words_of(OF_ANY_TOOL))
    for place in chosen:
        asked = asked.without(index.words_at(place))
    while max(left := index.score(asked)) >= least:
        place = sort_by(left, index)[0]
        yield place
        asked = asked.without(index.words_at(place))


def sort_by(scores: Sequence[float], index: Index) -> list[int]:
    """The places of the tools that have any score, the highest first."""
    having = (place for place, score in enumerate(scores) if score)
    return sorted(having, key=lambda place: (-scores[place], index.tools[place].full_name))


def bonus_of(times: int) -> float:
    return 1 + MOST_BONUS * times / (times + HALF_BONUS)


def words_of_name(name: str) -> list[set[str]]:
    """Each word of a name, with what it means."""
    parts = (words_of(part) for part in re.split(r"[\W_]+", HUMP.sub(" ", name)))
    return [set(words) for words in parts if words]


def share_said(name: list[set[str]], words: set[str]) -> float:
    """How much of a name is said, each of its words by itself or by another of the same meaning."""
    return sum(not words.isdisjoint(part) for part in name) / max(1, len(name))


def count_words(tool: Tool) -> dict[str, float]:
    """How often each word stands in a tool, weighed by where."""
    fields = (
        (NAME, tool.name),
        (SERVER, tool.server),
        (DESCRIPTION, tool.description[:LONGEST_DESCRIPTION]),
        (PARAMETER, " ".join(parameter_words(tool.schema))),
    )
    counts: dict[str, float] = {}
    for weight, text in fields:
        for word in words_of(text):
            counts[word] = counts.get(word, 0.0) + weight
    return counts


def parameter_words(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names of the parameters, and the values that they may have."""
    for name, child in properties_of(schema).items():
        yield name
        values = child.get("enum") if isinstance(child, Mapping) else None
        yield from (value for value in values if isinstance(value, str)) if isinstance(values, list) else ()


def words_asked(question: str) -> list[str]:
    """The words of a question, and each two of them as one: who says "check out" may mean `checkout`."""
    parts = WORD.findall(CJK.sub(" ", question.casefold()))
    joined = [stem(one + other) for one, other in pairwise(parts)]
    return [*words_of(question), *joined, *meanings_of(joined)]


def words_of(text: str) -> list[str]:
    """The words of a text, stemmed, without those that every question has; of Japanese and Chinese, which leave no
    blanks, pairs of characters. Behind them what they mean, as `=` and a row of the thesaurus."""
    text = HUMP.sub(" ", unicodedata.normalize("NFKC", text)).casefold()
    shapes = [word for word in SHAPES if is_meant(word, text)]
    shapes += [SEVERAL] if len(SHAPES["file"].findall(text)) > 1 else []
    for shape in SHAPES.values():
        text = shape.sub(" ", text)
    runs = CJK.findall(text)
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    words = [stem(word) for word in WORD.findall(CJK.sub(" ", text)) if word not in stop_words()]
    known = [*words, *(found for run in runs for found in words_within(run)), *map(stem, shapes)]
    return [*pairs, *words, *meanings_of(known)]


def meanings_of(words: Iterable[str]) -> Iterator[str]:
    meanings = read_thesaurus()
    return (f"={row}" for word in words for row in meanings.get(word, ()))


def is_meant(word: str, text: str) -> bool:
    """Whether one of SHAPES is in a text, and nothing that says otherwise."""
    return bool(SHAPES[word].search(text)) and not (word in OTHERWISE and OTHERWISE[word].search(text))


def stem(word: str) -> str:
    """An English word without the endings of plural, -ing and -ed, and a silent e.

    >>> [stem(word) for word in ("directories", "branches", "files", "file", "status", "running", "moved", "moves")]
    ['directory', 'branch', 'fil', 'fil', 'status', 'run', 'mov', 'mov']
    """
    for ending, least, instead in ENDINGS:
        if word.endswith(ending) and len(word) >= least:
            word = word[: -len(ending)] + instead
            break
    if word[-1:] == word[-2:-1] and word[-1:] not in ("l", "s", "z"):
        return word[:-1]
    return word[:-1] if len(word) > LEAST_STEM and word.endswith("e") else word


ENDINGS = (
    ("ies", 5, "y"),
    ("ied", 5, "y"),
    ("news", 0, "news"),
    *((f"{hiss}es", 5, hiss) for hiss in ("ch", "sh", "ss", "x")),
    *((same, 0, same) for same in ("ss", "us", "is")),
    ("s", 4, ""),
    ("ing", 6, ""),
    ("ed", 5, ""),
)
"""An ending, how long a word must be at least to have it, and what takes its place; the first that fits counts."""
LEAST_STEM = 3


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    return frozenset(STOP_WORDS.split())


def thesaurus_rows() -> list[list[str]]:
    """The rows of the thesaurus, each as its words."""
    lines = THESAURUS.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


@lru_cache(maxsize=1)
def read_thesaurus() -> dict[str, list[int]]:
    """Word -> the rows it stands in, English words by their stems."""
    meanings: dict[str, list[int]] = {}
    for number, row in enumerate(thesaurus_rows()):
        for word in row:
            meanings.setdefault(word if CJK.match(word) else stem(word), []).append(number)
    return meanings


def words_within(run: str) -> Iterator[str]:
    """The words of the thesaurus in a text without blanks, from its beginning on the longest each."""
    meanings, at = read_thesaurus(), 0
    while at < len(run):
        ends = range(min(len(run), at + LONGEST_WORD), at, -1)
        word = next((run[at:end] for end in ends if run[at:end] in meanings), "")
        yield from [word] if word else []
        at += len(word) or 1


def is_meaning(word: str) -> bool:
    return word.startswith("=")
