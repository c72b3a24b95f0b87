"""Search the questions and the documentation, which ship with the program, by a person's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from shutil import get_terminal_size

from ..core.i18n import Words
from ..prompt.tool_ranking import CJK_RUN
from .markdown.cells import cut_text, wrap_text
from .topic_index import Document, TopicIndex

_QUESTIONS = Path(__file__).with_name("questions")
"""Of each language, a page of questions, and a file of phrasings: what people write who look for one of them."""
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./)?([^)#]+)[^)]*\)")
_COMMENT = re.compile(r"<!--(.*?)-->\n*", re.DOTALL)
_HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (?!Key |Symptom |--- )(.+?) \| (.+) \|$", re.MULTILINE)
_WIDE_LINE_END = re.compile(r"(?<![\x00-\x7f])\n")
_COMMENT_IN_CODE = re.compile(r"(.*?\S) +# (.*)")
_MIN_WIDTH, _MARGIN = 20, 2
_WIDTH, _MAX_SHOWN_LINES, _MAX_TITLES = 78, 30, 3
_TABLE_PAGES = ("settings.md", "troubleshooting.md")
"""Pages whose rows are topics of their own."""
_LEFT_OUT = re.compile(r"questions|trust-keys|reference|architecture|small-models")
"""Pages that repeat others, or that a user does not ask about."""
_ELSEWHERE = 0.8
"""Factor for the score of a topic that is no question; questions are written for those who search."""
_MIN_SCORE, _MAX_SECOND = 0.31, 0.96
"""The score that a topic needs to be the answer, and the largest share of it that the second may have.

Chosen with 338 searches and 40 texts that are no questions about the program: the most right answers with at most 4 %
wrong ones. With one of 10 files left out each, and tested on that: 94 % right, 3 % wrong (0.4 and 0.9: 91 and 1). Of
132 searches whose words were not looked at: 86 % right, 4 % wrong (74 and 1).
"""
_MIN_NEAR_SCORE, _MIN_NEAR_SHARE = 0.2, 0.5
"""The score that a topic needs to be named as near, and its smallest share of the best."""


@dataclass(frozen=True)
class _Topic:
    """A section of a page, or a row of its table.

    Attributes:
        title: Its title, as it is shown.
        text: Markdown.
        key: Its title in English, under which its phrasings stand.
        page: File name of the page of docs/ that has it; "" for a question.
    """

    title: str
    text: str
    key: str
    page: str = ""


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
    """Return the questions in a language as Markdown; their links are those of docs/."""
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
    """Return the questions in a language, each with a text, as they stand in the files."""
    english = _read_file("en")
    return english if language == "en" else complete_page(_read_file(language), english)


def _read_file(language: str) -> str:
    return (_QUESTIONS / f"{language}.md").read_text(encoding="utf-8")


def find_answer(text: str, words: Words) -> Answer:
    """Return the topic that fits the words, and the titles of those that come near.

    If several fit about as well, or none well, there are only titles.

    Args:
        text: Some words, or a question.
        words: Sentences of the user's language, in which the answer is given.
    """
    asked = text.strip().rstrip("?？。.!！").strip() or text
    topics, index = _load_topics(words.code, _find_languages(asked, words.code))
    ranked = [(score * (_ELSEWHERE if topics[i].page else 1.0), topics[i]) for score, i in index.rank(asked)]
    named = [row for row in ranked if text in (row[1].title, _name_topic(row[1]))]
    ranked = [*named, *sorted((row for row in ranked if row not in named), key=lambda row: -row[0])]
    if not ranked or (ranked[0][0] < _MIN_NEAR_SCORE and not named):
        return Answer()
    best, topic = ranked[0]
    second = ranked[1][0] if len(ranked) > 1 else 0.0
    is_sure = bool(named) or (best >= _MIN_SCORE and second <= _MAX_SECOND * best)
    near = [other for score, other in ranked[1:] if score >= max(_MIN_NEAR_SCORE, _MIN_NEAR_SHARE * best)]
    titles = list(dict.fromkeys(map(_name_topic, (topic, *near))))
    if is_sure:
        return Answer(f"{titles[0]}\n\n{_format_answer(topic)}", titles[1 : _MAX_TITLES + 1])
    return Answer(near=titles[:_MAX_TITLES])


def _find_languages(text: str, language: str) -> tuple[str, ...]:
    """Return the languages whose phrasings are searched: the user's, English, and those that a text looks like."""
    others = ("ja", "zh") if language == "en" and CJK_RUN.search(text) else ()
    return tuple(dict.fromkeys((language, "en", *others)))


def format_found(answer: Answer, words: Words, command: str = "/help") -> str:
    """Return an answer with the titles of others, or the titles alone, for the terminal; "" if there is nothing.

    Args:
        answer: The answer.
        words: The language.
        command: What shows the topic of a title that is written behind it.
    """
    if not answer.near:
        return answer.text
    heading = words("help.others" if answer.text else "help.near", command=command)
    titles = [f"- {title}" for title in answer.near]
    return "\n".join([*([answer.text, ""] if answer.text else []), heading, *titles])


@cache
def _load_topics(language: str, phrased: Sequence[str]) -> tuple[list[_Topic], TopicIndex]:
    """Return the topics of a language, and an index of them with the phrasings of several languages."""
    topics = list(_read_topics(language))
    phrasings = [_read_phrasings(code) for code in phrased]
    documents = [
        Document(
            [topic.title, *(text for by_title in phrasings for text in by_title.get(topic.key, ()))],
            _COMMENT.sub("", topic.text),
        )
        for topic in topics
    ]
    return topics, TopicIndex(documents)


def _read_phrasings(language: str) -> Mapping[str, Sequence[str]]:
    """Return what people write who look for a topic, by the topic's English title."""
    blocks = re.split("^# ", (_QUESTIONS / f"{language}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    parts = (block.partition("\n") for block in blocks)
    return {title: [phrasing.strip() for phrasing in text.replace("\n", " ").split(";")] for title, _, text in parts}


def _read_topics(language: str) -> Iterator[_Topic]:
    """Yield the questions of a language, then the sections of its documentation."""
    english = [title for title, _ in _split_sections(_read_file("en"))]
    sections = _split_sections(_read_source(language))
    keys = chain(english, repeat(""))
    yield from (_Topic(title, text.partition("\n")[2], next(keys)) for title, text in sections)
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
    """Yield the sections of a page of docs/, and the rows of those tables that are topics of their own."""
    parts = _HEADING.split(markdown)
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        if page in _TABLE_PAGES:
            for key, row in _ROW.findall(text):
                title = f"{heading}: {key}" if heading[0] == "[" else key
                yield _Topic(title, row, title, page)
            text = _ROW.sub("", text)
        yield _Topic(heading, text, heading, page)


def _name_topic(topic: _Topic) -> str:
    title = topic.title.replace("`", "")
    return f"{title} (docs/{topic.page})" if topic.page else title


def _format_answer(topic: _Topic) -> str:
    """Return a text for the terminal: code is indented, the page of a link stands in parentheses, a long one is cut."""
    width = max(_MIN_WIDTH, min(_WIDTH, get_terminal_size().columns - _MARGIN))
    blocks: list[str] = []
    text = _LINK.sub(lambda link: f"{link[1]} ({'' if link[2] else 'docs/'}{link[3]})", _COMMENT.sub("", topic.text))
    for block in text.strip().split("\n\n"):
        if block.startswith("```"):
            shown = [row for line in block.splitlines()[1:-1] for row in _format_code(line, width)]
        elif block.startswith("|"):
            shown = _format_table(block, width)
        elif block.startswith("- "):
            shown = [row for item in re.split(r"\n(?=- )", block) for row in _indent(_join_lines(item), width, 0, 2)]
        else:
            shown = wrap_text(_join_lines(block), width)
        blocks.append("\n".join(shown))
    lines = "\n\n".join(blocks).splitlines()
    if topic.page and len(lines) > _MAX_SHOWN_LINES:
        lines = [*lines[:_MAX_SHOWN_LINES], f"... docs/{topic.page}"]
    return "\n".join(lines)


def _format_code(line: str, width: int) -> list[str]:
    """Return a line of code, indented; what does not fit is indented more, and its comment below it."""
    if cut_text(line, width - 4) == line:
        return [f"    {line}"]
    comment = _COMMENT_IN_CODE.fullmatch(line)
    rows = _indent(comment[1] if comment else line, width, 4, 8)
    return [*rows, *(_indent(f"# {comment[2]}", width, 6, 8) if comment else [])]


def _format_table(block: str, width: int) -> list[str]:
    """Return each row of a table as its first cell and, below it, what its columns say of it."""
    head, _, *rows = ([cell.strip() for cell in row.strip("| ").split(" | ")] for row in block.splitlines())
    lines: list[str] = []
    for first, *others in rows:
        lines += wrap_text(first, width)
        for name, cell in zip(head[1:], others):  # noqa: B905 - a cell may contain the mark
            lines += _indent(f"{name}: {cell}" if len(head) > 2 else cell, width, 4, 4) if cell else []
    return lines


def _indent(text: str, width: int, first: int, others: int) -> list[str]:
    """Return a text as lines of at most `width` cells, indented by so many blanks in its first line and in others."""
    rows = wrap_text(text, width - others)
    return [f"{' ' * (others if number else first)}{row}" for number, row in enumerate(rows)]


def _join_lines(text: str) -> str:
    """Return the lines of a paragraph as one; between wide characters a line end is no blank."""
    return re.sub(r"\n *", " ", _WIDE_LINE_END.sub("", text))
