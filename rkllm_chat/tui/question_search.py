"""Search the questions and the documentation, which ship with the program, by a person's own words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..core.i18n import Words
from ..prompt.tool_ranking import CJK_RUN, STOP_WORDS, extract_terms, stem_word
from .markdown.cells import wrap_text

_QUESTIONS = Path(__file__).with_name("questions")
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./)?([^)#]+)[^)]*\)")
_COMMENT = re.compile(r"<!--(.*?)-->\n*", re.DOTALL)
_HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (?!Key |Symptom |--- )(.+?) \| (.+) \|$", re.MULTILINE)
_WIDE_LINE_END = re.compile(r"(?<![\x00-\x7f])\n")
_WORD = re.compile(r"[A-Za-z0-9_]+|[^\x00-\x7f\W]+")
_KATAKANA, _KANJI = r"[\u30a0-\u30ff]+", r"[\u3005\u3400-\u9fff]+"
_JAPANESE_STEM = re.compile(f"{_KATAKANA}|{_KANJI}")
_WIDTH, _MAX_SHOWN_LINES, _MAX_TITLES = 78, 30, 3
_TABLE_PAGES = ("settings.md", "troubleshooting.md")
"""Pages whose rows are topics of their own."""
_LEFT_OUT = re.compile(r"questions|trust-keys|reference|architecture|small-models")
"""Pages that repeat others, or that a user does not ask about."""
_STOP_WORDS = f"""
    {STOP_WORDS} all always any change get got make need no not set should there too use used using who
"""
_CHINESE_STOP = re.compile("怎么样?|怎样|如何|为什么|什么|哪里|哪些|可以|不能|会不会|能不能|[的了吗呢我你它让把]")
_TITLE, _KEYWORD, _BODY, _SYNONYM, _ELSEWHERE = 3.0, 2.5, 1.0, 0.5, 0.7
"""Weights of a word by where it stands, by being a synonym, and of pages other than the questions."""
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


def find_untranslated(language: str) -> list[str]:
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
    units = list(_split_query(text, words.code))
    weights = [index.weigh(unit) for unit in units]
    total = sum(weights)
    if not total:
        return Answer()
    fitting: list[tuple[float, _Topic]] = []
    near: list[tuple[float, _Topic]] = []
    for position, topic in enumerate(index.topics):
        found = [(weight, index.score(unit, position)) for weight, unit in zip(weights, units, strict=True)]
        coverage = sum(weight for weight, score in found if score) / total
        title_coverage = sum(weight for weight, score in found if score > _BODY) / total
        score = sum(weight * score for weight, score in found) * (_ELSEWHERE if topic.page else 1.0)
        row = (math.inf if text == topic.title else score, topic)
        if coverage >= _MIN_COVERAGE and title_coverage >= _MIN_TITLE_COVERAGE:
            fitting.append(row)
        elif coverage >= _MIN_NEAR_COVERAGE:
            near.append(row)
    ranked = [topic for rows in (fitting, near) for _, topic in sorted(rows, key=lambda row: -row[0])]
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


class _Index:
    """The topics of a language and the terms of each, by where they stand."""

    def __init__(self, topics: Sequence[_Topic]) -> None:
        self.topics = topics
        self._fields = [
            [
                (_TITLE, _read_terms(topic.title)),
                (_KEYWORD, _read_terms(topic.keywords)),
                (_BODY, _read_terms(_COMMENT.sub("", topic.text))),
            ]
            for topic in topics
        ]
        self._topic_counts = Counter(
            term for fields in self._fields for term in frozenset[str]().union(*(terms for _, terms in fields))
        )

    @staticmethod
    @cache
    def load(language: str) -> _Index:
        """Return the index of a language."""
        return _Index(list(_read_topics(language)))

    def weigh(self, unit: Sequence[str]) -> float:
        """Return how much a word of a query tells: more, the fewer topics have it; most if none has it."""
        count = max((self._topic_counts[term] for term in unit if not term.startswith("=")), default=0)
        return math.log(1 + len(self.topics) / (1 + count))

    def score(self, unit: Sequence[str], position: int) -> float:
        """Return the weight of the best place where a topic has a word, or a synonym of it; 0 if it has neither."""
        best = 0.0
        for weight, terms in self._fields[position]:
            for term in unit:
                if term in terms:
                    best = max(best, weight * (_SYNONYM if term.startswith("=") else 1.0))
        return best


def _read_terms(text: str) -> frozenset[str]:
    """Return the terms of a text; single Japanese and Chinese characters too."""
    katakana = re.findall(_KATAKANA, text)  # words of their own: ログ is no part of ログイン
    pairs = {term for term in extract_terms(text) if not re.fullmatch(_KATAKANA, term)}
    words = (*_WORD.findall(text.lower()), *katakana, *"".join(CJK_RUN.findall(text)))
    return frozenset(pairs) | frozenset(map(stem_word, words))


def _split_query(text: str, language: str) -> Iterator[tuple[str, ...]]:
    """Yield the terms of each word of a query that tells something: the word, and groups of its synonyms."""
    for run in _WORD.findall(text):
        if run.isascii():
            if run.lower() not in _STOP_WORDS.split():
                yield (stem_word(run.lower()), *(term for term in extract_terms(run) if term.startswith("=")))
            continue
        parts = _CHINESE_STOP.split(run) if language == "zh" else _JAPANESE_STEM.findall(run) or [run]
        longest = max(map(len, parts), default=0)
        for part in parts:
            if len(part) < min(longest, 2):  # of "温度を下げたい" the verb's character tells little
                continue
            groups = tuple(term for term in extract_terms(part) if term.startswith("="))
            is_word = len(part) == 1 or re.fullmatch(_KATAKANA, part)
            for term in [part] if is_word else [part[i : i + 2] for i in range(len(part) - 1)]:
                yield (term, *groups)


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
