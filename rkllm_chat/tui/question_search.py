"""Search the questions and the documentation, which ship with the program, by a person's own words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..core.i18n import Words
from ..prompt.tool_ranking import CJK_RUN, STOP_WORDS, extract_terms, stem_word
from .markdown.cells import wrap_text

_QUESTIONS = Path(__file__).with_name("questions")
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./)?([^)#]+)[^)]*\)")
_COMMENT = re.compile(r"<!--(.*?)-->\n*", re.DOTALL)
_SAME_WORDS = re.compile(r"<!-- the same:\n(.*?)\n-->", re.DOTALL)
"""Below the title of a page of questions: a line for each group of words that mean the same in them."""
_HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (?!Key |Symptom |--- )(.+?) \| (.+) \|$", re.MULTILINE)
_WIDE_LINE_END = re.compile(r"(?<![\x00-\x7f])\n")
_WORD = re.compile(r"[A-Za-z0-9_]+|[^\x00-\x7f\W]+|(?<!\S)[@!/?](?!\S)")
_KATAKANA, _KANJI = r"[\u30a0-\u30ff]+", r"[\u3005\u3400-\u9fff]+"
_JAPANESE_STEM = re.compile(f"{_KATAKANA}|{_KANJI}")
_WIDTH, _MAX_SHOWN_LINES, _MAX_TITLES = 78, 30, 3
_TABLE_PAGES = ("settings.md", "troubleshooting.md")
"""Pages whose rows are topics of their own."""
_LEFT_OUT = re.compile(r"questions|trust-keys|reference|architecture|small-models")
"""Pages that repeat others, or that a user does not ask about."""
_STOP_WORDS = frozenset(
    f"""{STOP_WORDS} able all always any anything cannot change couldn didn does doesn doing don during every get give
    go got happen happens isn itself just keep keeps know let like ll look make many mean means much need no not put
    re really see set should something somehow still take takes there thing too try two up use used using ve very way
    without won work working works""".split()
) - {"where"}
_STOP = {
    "ja": re.compile("(使|見|出|入|下|上|行|来|知|教|方|何|私|時|中|後|今|思|言|作|的)(?![\u3400-\u9fff])"),
    "zh": re.compile(
        "怎么样?|怎样|如何|为什么|什么|哪些|有没有|是不是|一个|这个|那个|可以|不能|会不会|能不能|想要?|请问?|下来|出来|起来|一下|怎么办|某个?|[看吧啊都就和被的了吗呢我你它让把能用在到]"
    ),
}
"""Parts of a query that tell nothing, by language; in Japanese, characters of common verbs that stand alone."""
_TITLE, _KEYWORD, _BODY, _SAME, _SYNONYM, _ELSEWHERE = 3.0, 2.5, 1.0, 0.8, 0.5, 0.6
"""Weights of a word by where it stands, of one that means the same here, of a synonym in general, and of pages other
than the questions."""
_AHEAD, _MIN_AHEAD, _WHOLE_TITLE = 1.2, 0.4, 0.3
"""How far ahead of the second the first near topic must be to be the answer, and what share of the words it must have
in its title or keywords; what a whole title adds to a score."""
_PART, _UNKNOWN = 0.4, 0.5
"""Weight of a character, or a pair of them, that is no known word; and of a word that no topic has."""
_MIN_COVERAGE, _MIN_TITLE_COVERAGE, _MIN_NEAR_COVERAGE = 0.7, 0.4, 0.3
"""What share of the words, weighted by rarity, a topic must have to be the answer; how much of it in its title or
keywords, as a long text has many words by chance; and what share to be named as near."""


@dataclass(frozen=True)
class _Topic:
    """A section of a page, or a row of its table. `keywords`: other words for it, which are not shown."""

    title: str
    text: str
    page: str = ""
    keywords: str = ""


@dataclass(frozen=True)
class Answer:
    """What was found.

    Attributes:
        text: The title and text of the topic that fits; "" if none fits well.
        near: Titles of other topics that may be meant.
    """

    text: str = ""
    near: Sequence[str] = ()


def read_page(language: str) -> str:
    """Return the questions in a language, without keywords, as Markdown; their links are those of docs/."""
    return _COMMENT.sub("", _read_source(language)).rstrip() + "\n"


def find_untranslated_questions(language: str) -> list[str]:
    """Return the English questions that a language shows because it has none of its own."""
    own = [title for title, _ in _split_translation(_read_file(language))]
    return [title for title, _ in _split_sections(_read_file("en")) if language != "en" and title not in own]


def complete_page(own: str, english: str) -> str:
    """Return a page with its questions in the order of the English one, and the English ones that it lacks.

    Below each of its headings stands the English heading, in a comment. A question that English no longer has is last.
    """
    sections = dict(_split_translation(own))
    questions = {title: sections.pop(title, text) for title, text in _split_sections(english)}
    return own.partition("\n## ")[0] + "".join(f"\n## {text}" for text in (*questions.values(), *sections.values()))


def _split_translation(page: str) -> Iterator[tuple[str, str]]:
    """Yield each section of a translated page, by its English heading, without that comment."""
    for title, text in _split_sections(page):
        comment = _COMMENT.search(text)
        yield (comment[1].strip(), text.replace(comment[0], "", 1)) if comment else (title, text)


def _split_sections(page: str) -> Iterator[tuple[str, str]]:
    """Yield the heading of each section and the section, without its marks."""
    for section in page.split("\n## ")[1:]:
        yield section.partition("\n")[0], section


@cache
def _read_source(language: str) -> str:
    """Return the questions in a language, with keywords."""
    english = _read_file("en")
    return english if language == "en" else complete_page(_read_file(language), english)


def _read_file(language: str) -> str:
    return (_QUESTIONS / f"{language}.md").read_text(encoding="utf-8")


def find_answer(text: str, words: Words) -> Answer:
    """Return the topic that has the words, and the titles of those that come near.

    Args:
        text: Some words, or a question.
        words: Sentences of the user's language, in which the pages are searched.
    """
    index = _Index.load(words.code)
    units = list(index.split_query(text, words.code))
    weights = [index.weigh(unit) for unit in units]
    total = sum(weights)
    if not total:
        return Answer()
    fitting: list[tuple[float, float, _Topic]] = []
    near: list[tuple[float, float, _Topic]] = []
    for position, topic in enumerate(index.topics):
        found = [(weight, index.score(unit, position)) for weight, unit in zip(weights, units, strict=True)]
        coverage = sum(weight for weight, score in found if score) / total
        title_coverage = sum(weight for weight, score in found if score > _BODY) / total
        score = sum(weight * score for weight, score in found) * (_ELSEWHERE if topic.page else 1.0)
        score *= 1 + _WHOLE_TITLE * index.measure_title(units, position)
        row = (math.inf if text == topic.title else score, min(coverage, title_coverage), topic)
        if coverage >= _MIN_COVERAGE and title_coverage >= _MIN_TITLE_COVERAGE:
            fitting.append(row)
        elif coverage >= _MIN_NEAR_COVERAGE:
            near.append(row)
    fitting.sort(key=lambda row: -row[0])
    near.sort(key=lambda row: -row[0])
    if not fitting and near and near[0][1] >= _MIN_AHEAD:
        is_ahead = len(near) == 1 or near[0][0] >= _AHEAD * near[1][0]
        fitting, near = (near[:1], near[1:]) if is_ahead else ([], near)
    ranked = [topic for _, _, topic in (*fitting, *near)]
    titles = list(dict.fromkeys(map(_name_topic, ranked)))
    if not fitting:
        return Answer(near=titles[:_MAX_TITLES])
    return Answer(f"{titles[0]}\n\n{_format_answer(ranked[0])}", titles[1 : _MAX_TITLES + 1])


def format_found(answer: Answer, words: Words) -> str:
    """Return an answer with the titles of others, or the titles alone, for the terminal; "" if there is nothing."""
    if not answer.near:
        return answer.text
    heading = words("help.others" if answer.text else "help.near")
    titles = [f"- {title}" for title in answer.near]
    return "\n".join([*([answer.text, ""] if answer.text else []), heading, *titles])


@dataclass(frozen=True)
class _Unit:
    """A word of a query: the word itself, those that mean the same, and groups of synonyms; and how much it counts."""

    terms: tuple[str, ...]
    factor: float = 1.0


class _Index:
    """The topics of a language, the terms of each by where they stand, and the words that mean the same."""

    def __init__(self, topics: Sequence[_Topic], groups: Sequence[Sequence[str]]) -> None:
        self.topics = topics
        self._fields = [
            [
                (weight, _read_terms(text), text)
                for weight, text in (
                    (_TITLE, topic.title),
                    (_KEYWORD, topic.keywords),
                    (_BODY, _COMMENT.sub("", topic.text)),
                )
            ]
            for topic in topics
        ]
        self._same = {word: tuple(group) for group in groups for word in group}
        known = {word for topic in topics if not topic.page for word in topic.keywords.split()}
        words = sorted((word for word in known | self._same.keys() if not word.isascii()), key=len, reverse=True)
        self._known_word = re.compile("|".join(map(re.escape, words)) or "(?!)")
        self._topic_counts: dict[str, int] = {}

    @staticmethod
    @cache
    def load(language: str) -> _Index:
        """Return the index of a language."""
        groups = _SAME_WORDS.search(_read_source(language))
        rows = [line.split() for line in groups[1].splitlines()] if groups else []
        return _Index(list(_read_topics(language)), [list(map(_stem, row)) for row in rows])

    def weigh(self, unit: _Unit) -> float:
        """Return how much a word of a query tells: more, the fewer topics have it."""
        count = max((self._count_topics(term) for term in unit.terms if not term.startswith("=")), default=0)
        return unit.factor * math.log(1 + len(self.topics) / (1 + count)) * (1.0 if count else _UNKNOWN)

    def score(self, unit: _Unit, position: int) -> float:
        """Return the weight of the best place where a topic has a word, or a synonym of it; 0 if it has neither."""
        best = 0.0
        for weight, terms, text in self._fields[position]:
            for i, term in enumerate(unit.terms):
                if _has_term(term, terms, text):
                    best = max(best, weight * (_SYNONYM if term.startswith("=") else _SAME if i else 1.0))
        return best

    def measure_title(self, units: Sequence[_Unit], position: int) -> float:
        """Return how much of the title of a topic the words of a query are."""
        title = self.topics[position].title
        said = [word for word in _WORD.findall(title.lower()) if word.isascii() and word not in _STOP_WORDS]
        said += _JAPANESE_STEM.findall(title)
        whole = sum(map(len, said))
        terms = {term for unit in units for term in unit.terms}
        found = sum(len(word) for word in said if _stem(word) in terms)
        found += sum(len(term) for term in terms if not term.isascii() and term in title and term not in said)
        return min(1.0, found / whole) if whole else 0.0

    def split_query(self, text: str, language: str) -> Iterator[_Unit]:
        """Yield each word of a query that tells something."""
        for run in _WORD.findall(text):
            if not run.isascii():
                yield from self._split_run(run, language)
            elif run.lower() not in _STOP_WORDS:
                yield self._make_unit(_stem(run), extract_terms(run))

    def _split_run(self, run: str, language: str) -> Iterator[_Unit]:
        """Yield the known words of Japanese or Chinese text, and what stands between them in parts."""
        end = 0
        for match in self._known_word.finditer(run):
            yield from self._split_rest(run[end : match.start()], language)
            yield self._make_unit(match[0], extract_terms(match[0]))
            end = match.end()
        yield from self._split_rest(run[end:], language)

    def _split_rest(self, rest: str, language: str) -> Iterator[_Unit]:
        rest = _STOP.get(language, _STOP["zh"]).sub(" ", rest)
        for part in _JAPANESE_STEM.findall(rest) if language == "ja" else rest.split():
            if re.fullmatch(_KATAKANA, part):
                yield self._make_unit(part, extract_terms(part))
                continue
            groups = [term for term in extract_terms(part) if term.startswith("=")]
            for pair in [part[i : i + 2] for i in range(len(part) - 1)] or [part]:
                yield _Unit((pair, *groups), 1.0 if len(part) == 2 else _PART)

    def _make_unit(self, word: str, terms: Iterable[str]) -> _Unit:
        same = (other for other in self._same.get(word, ()) if other != word)
        return _Unit((word, *same, *(term for term in terms if term.startswith("="))))

    def _count_topics(self, term: str) -> int:
        if term not in self._topic_counts:
            found = (any(_has_term(term, terms, text) for _, terms, text in fields) for fields in self._fields)
            self._topic_counts[term] = sum(found)
        return self._topic_counts[term]


def _has_term(term: str, terms: frozenset[str], text: str) -> bool:
    """Tell whether a text has a term. Katakana are words of their own: ログ is no part of ログイン."""
    return term in terms or (not term.isascii() and not re.fullmatch(_KATAKANA, term) and term in text)


def _read_terms(text: str) -> frozenset[str]:
    """Return the terms of a text: words, signs that stand alone, and characters of Japanese and Chinese."""
    katakana = re.findall(_KATAKANA, text)
    pairs = {term for term in extract_terms(text) if not re.fullmatch(_KATAKANA, term)}
    words = (*_WORD.findall(text), *katakana, *"".join(CJK_RUN.findall(text)))
    return frozenset(pairs) | frozenset(map(_stem, words))


def _stem(word: str) -> str:
    return stem_word(word.lower())


def _read_topics(language: str) -> Iterator[_Topic]:
    """Yield the questions of a language, then the sections of its documentation."""
    yield from _split_page(_read_source(language), "")
    suffix = "" if language == "en" else f".{language}"
    for path in sorted(_find_documentation().glob(f"*{suffix}.md")):
        name = path.name.removesuffix(".md").removesuffix(suffix)
        if not _LEFT_OUT.match(name) and "." not in name:
            yield from _split_page(path.read_text(encoding="utf-8"), path.name)


def _find_documentation() -> Path:
    """Return the folder of the documentation: installed with the package, or that of the checkout."""
    package = Path(__file__).parents[1]
    return next((folder for folder in (package / "docs", package.parent / "docs") if folder.is_dir()), package)


def _split_page(markdown: str, page: str) -> Iterator[_Topic]:
    """Yield the sections of a page that have a text, and the rows of those tables that are topics of their own."""
    parts = _HEADING.split(markdown)
    title = parts[1]
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        if page in _TABLE_PAGES:
            rows = _ROW.findall(text)
            yield from (_Topic(f"{heading}: {key}" if heading[0] == "[" else key, row, page) for key, row in rows)
            text = _ROW.sub("", text)
        if page or heading != title:
            keywords = " ".join(_COMMENT.findall(text)) + ("" if heading == title else f" {title}" if page else "")
            yield _Topic(heading, text, page, keywords)


def _name_topic(topic: _Topic) -> str:
    title = topic.title.replace("`", "")
    return f"{title} (docs/{topic.page})" if topic.page else title


def _format_answer(topic: _Topic) -> str:
    """Return a text for _WIDTH cells: code is indented, the page of a link stands in parentheses, a long one is cut."""
    blocks: list[str] = []
    text = _LINK.sub(lambda link: f"{link[1]} ({'' if link[2] else 'docs/'}{link[3]})", _COMMENT.sub("", topic.text))
    for block in text.strip().split("\n\n"):
        if block.startswith("```"):
            blocks.append("\n".join(f"    {line}" for line in block.splitlines()[1:-1]))
        elif block.startswith(("|", "- ")):
            blocks.append(block)
        else:
            blocks.append("\n".join(wrap_text(_WIDE_LINE_END.sub("", block).replace("\n", " "), _WIDTH)))
    lines = "\n\n".join(blocks).splitlines()
    if topic.page and len(lines) > _MAX_SHOWN_LINES:
        lines = [*lines[:_MAX_SHOWN_LINES], f"... docs/{topic.page}"]
    return "\n".join(lines)
