"""What a turn knows: in which texts the values of calls and answers may stand."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import Any

from ..calls.described_calls import drop_told, is_question, split_sentences
from ..calls.percentages import find_percentages
from ..calls.written_values import drop_near_year, list_days, list_weekdays
from ..core.messages import UNSENT_KINDS, Message, ToolResult
from ..prompt.budget import find_last_turn
from ..prompt.compose import is_correction
from ..prompt.tool_ranking import CJK, CJK_RUN, STOP_WORDS, extract_terms, split_clauses

__all__ = [
    "KATAKANA",
    "MIN_SUPPORTED",
    "NUMBER",
    "REFERENCE",
    "SQL_CHANGE",
    "WORD",
    "Evidence",
    "Source",
    "count_things",
    "drop_failed_queries",
    "found_nothing",
    "get_stop_words",
    "is_composed",
    "is_failed_query",
    "is_query",
    "is_statement",
    "list_names",
    "normalize",
    "sounds_like",
    "walk_leaves",
]

_MAX_SOURCE_LENGTH = 200_000
_MAX_QUESTION_LENGTH = 500
"""A longer text names much that nobody is to look up."""
_MIN_COMPOSED_WORDS = 12
"""Words from which on a text is composed for the call and not a value that must stand somewhere."""
MIN_SUPPORTED = 1 / 2
"""Least share of the words of a value that must stand somewhere: "Lunch with Tom" for "lunch, Tom"."""
_MAX_FAILED = 2
"""How many calls about a file may fail: behind the first one another tool is tried."""
_MIN_WORD_LENGTH = 4
"""Length from which on a word in ASCII tells something about a value, and may differ in its ending."""
WORD = re.compile(r"[^\W_]+")
_WORD_BESIDE_CJK = re.compile(rf"[^\W_{CJK}]+")
"""A word in letters that Japanese and Chinese write without a space: "WEB" in "WEB项目"."""
_KINDS_OF_PLACES = "駅市区町村県府都店館園校院站县镇省街路楼"
"""What Japanese and Chinese put behind the name of a place: 桜橋 is 桜橋駅."""
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
REFERENCE = re.compile(
    r"\b(?:its?|they|them|their|those|these|that|this|there|same|ones?)\b|それ|その|そこ|それら|同じ|它|他们|她们|那|这|其|同样",
    re.IGNORECASE,
)
"""What refers to something that was spoken of before."""
_JOINED = re.compile(
    r"\w\s+(?:or|vs\.?|versus)\s+\w|\w\s*[,&](?=\s+\w)|(?<!っ)(?<=[ぁ-ヿ一-鿿])(?:と(?![言いうか思きもはのりこっ])|や(?!っ))"
    r"|(?<=[一-鿿A-Za-z\d])[和与跟及]",
    re.IGNORECASE,
)
"""What joins two things inside of a request."""
_CLOCK = re.compile(r"\d{1,2}(?::\d\d){1,2}")
_LATIN = r"A-Za-z\u00c0-\u024f\d'-"
_NAMED = re.compile(
    r"[\"“「『]([^\"”」』]{1,80})[\"”」』]|https?://[\w./:?&=%#~-]*[\w/]"
    r"|(?a:[\w~./-]*\w\.[A-Za-z]\w{0,4}\b)|\d+(?:[.,:-]\d+)*"
    rf"|(?:(?<=[^.!?\s][ \t])|(?<=[{CJK}，：]))(?!I['’])[A-Z][{_LATIN}]+(?:\s[A-Z][{_LATIN}]+)*|[\u30a0-\u30ff]{{2,}}"
)
"""What a question names: in quotes, a file, a number, words with capitals inside of a sentence, katakana."""
_FILE = re.compile(r"(?:[^\s/\\]*[/\\])*([^\s/\\]*\w\.[A-Za-z]\w{0,4})")
_ABSOLUTE_PATH = re.compile(r"(/[^\s/]+(?:/[^\s/]+)*)/[^\s/]+/?")
"""A path from the root, and the folder that it is in."""
_SELECT = re.compile(r"\s*SELECT\b.+\bFROM\b", re.IGNORECASE | re.DOTALL)
"""A query that reads: the user says what it looks for, and need not know tables and columns."""
SQL_CHANGE = re.compile(r"\s*(?:INSERT\s+INTO|UPDATE\b.+\bSET|DELETE\s+FROM)\b", re.IGNORECASE | re.DOTALL)
"""A query that writes: a number in it that nobody said deletes the row of another person."""
_LITERAL = re.compile(r"'([^']+)'|\b(\d+(?:\.\d+)?)\b")
FIRST_PERSON = frozenset(("i", "my", "mine", "myself"))
KATAKANA = re.compile(r"[\u30a0-\u30ff]+")
_ALIKE = str.maketrans({"l": "r", "c": "k", "q": "k", "v": "b", "w": "b", "x": "ks", "f": "h", "z": "s"})
"""Consonants that Japanese writes in the same way."""
_MIN_ALIKE = 0.55
"""Least ratio of common consonants of two spellings of one name."""
_SQL_STATEMENT = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_ERROR_TEXT = re.compile(r"(?:\w+ )?error\b|no such\b", re.IGNORECASE)
"""How the text of a result begins that is an error, although its server says that the call completed."""
_MONTHS = """
    january february march april may june july august september october november december
"""
_MONTHS_ELSEWHERE = """
    januar februar märz april mai juni juli august september oktober november dezember
    janvier février mars avril mai juin juillet août septembre octobre novembre décembre
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
    gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
    janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
    januari februari maart april mei juni juli augustus september oktober november december
"""
"""German, French, Spanish, Italian, Portuguese and Dutch: in full, since "out" and "set" are also English words."""
_UNITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_NUMBER_WORDS = {
    **{month: number for number, month in enumerate(_MONTHS.split(), 1)},
    **{month[:3]: number for number, month in enumerate(_MONTHS.split(), 1)},
    **{month: index % 12 + 1 for index, month in enumerate(_MONTHS_ELSEWHERE.split())},
    **{word: number for number, word in enumerate(_UNITS)},
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "hundred": 100,
    "noon": 12,
    "midnight": 0,
    **{digit: number for number, digit in enumerate("〇一二三四五六七八九十")},
}


class Source:
    """A text in which values may stand."""

    def __init__(self, text: str) -> None:
        self.original = text[-_MAX_SOURCE_LENGTH:]
        self.text = normalize(self.original)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset([*WORD.findall(self.text), *_WORD_BESIDE_CJK.findall(self.text)])

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(word[:_MIN_WORD_LENGTH] for word in self.words if len(word) >= _MIN_WORD_LENGTH)

    @cached_property
    def _weekdays(self) -> set[str]:
        return list_weekdays(self.text)

    @cached_property
    def squeezed(self) -> str:
        """Its letters and digits alone."""
        return "".join(WORD.findall(self.text))

    @cached_property
    def _numbers(self) -> frozenset[float]:
        """Its numbers, also of dates, times, days ("tomorrow"), hours after noon, months, shares of percentages."""
        found = {float(part) for number in NUMBER.findall(self.text) for part in _read_numbers(number)}
        for word, value in _NUMBER_WORDS.items():
            if word in self.words or (not word.isascii() and word in self.text):
                found.add(float(value))
        for day in list_days(self.original, date.today()):
            found |= {float(day.year), float(day.month), float(day.day)}
        for share in map(float, find_percentages(self.text)):  # "8% more than 50": (8 / 100) * 50, 50 * 1.08
            found |= {100.0, round(1 + share / 100, 9), round(1 - share / 100, 9)}
        return frozenset(found | {number + 12 for number in found if number < 12} | {number / 100 for number in found})

    def has(self, value: object) -> bool:
        """Return whether a value stands in the text: itself, or half of its words; the name of a file as it is.

        What has no words, is true or false, or is a text composed for the call needs to stand nowhere.
        """
        if value is None or isinstance(value, bool):
            return True
        if isinstance(value, int | float):
            return float(value) in self._numbers
        text = normalize(str(value))
        if (file := _FILE.fullmatch(text.strip())) and file[1] not in self.text:
            return False
        if (folder := _ABSOLUTE_PATH.fullmatch(text.strip())) and folder[1] not in self.text:
            return False  # "/home/nora/ShoppingList" is made of words, and no path that anybody knows
        if _SELECT.match(text) or SQL_CHANGE.match(text):
            return all(self.has(next(filter(None, literal))) for literal in _LITERAL.findall(text))
        words = WORD.findall(text)
        if not words or is_composed(text):
            return True
        squeezed = "".join(words)
        if not any(word.isalpha() for word in words):
            codes = (word for word in words if word.isascii() and word[0].isalpha())  # "B2" is no number
            numbers = NUMBER.findall(drop_near_year(text, date.today()))
            is_clock = _CLOCK.search(text) is not None
            return all(map(self._has_code, codes)) and all(self._has_number(number, is_clock) for number in numbers)
        if text.strip() in self.text or (len(squeezed) >= _MIN_WORD_LENGTH and squeezed in self.squeezed):
            return True
        return self.has_most(text)

    def has_most(self, text: str) -> bool:
        """Return whether half of the words of a text stand in the source, also of one that is composed for a call."""
        telling = _select_telling(WORD.findall(normalize(text)))
        return sum(map(self._has_word, telling)) >= MIN_SUPPORTED * len(telling)

    def has_part(self, value: object) -> bool:
        """Return whether any word or number of a value stands in the text."""
        text = normalize(str(value))
        is_clock = _CLOCK.search(text) is not None
        words = [word for word in WORD.findall(text) if len(word) > 2 or not word.isascii()]
        return any(map(self._has_word, words)) or any(
            self._has_number(number, is_clock) for number in NUMBER.findall(text)
        )

    def _has_number(self, number: str, is_clock: bool) -> bool:
        values = list(_read_numbers(number))
        return any(value in self._numbers for value in values) or (is_clock and values[0] == 0)

    def _has_code(self, code: str) -> bool:
        return code in self.words or (len(code) >= _MIN_WORD_LENGTH and code in self.squeezed)

    def _has_word(self, word: str) -> bool:
        if word in self.words or (not word.isascii() and word in self.text):
            return True
        if len(word) > 2 and word[-1] in _KINDS_OF_PLACES and word[:-1] in self.text:
            return True
        if word.isdigit():
            return float(word) in self._numbers
        # "December" and "Friday" of 2026-12-04
        if float(_NUMBER_WORDS.get(word, -1)) in self._numbers or word in self._weekdays:
            return True
        return len(word) >= _MIN_WORD_LENGTH and word.isascii() and word[:_MIN_WORD_LENGTH] in self._stems


def _select_telling(words: Sequence[str]) -> Sequence[str]:
    return [word for word in words if len(word) >= _MIN_WORD_LENGTH or not word.isascii()] or words


def normalize(text: str) -> str:
    """Return a text as it is compared."""
    return unicodedata.normalize("NFKC", text).casefold()


def _read_numbers(text: str) -> Iterator[float]:
    """Yield what a number may mean: "1,250" is one number, or two."""
    plain = text.replace(",", "")
    if plain.count(".") <= 1:
        yield float(plain)
    yield from (float(part) for part in re.split("[.,]", text))


@dataclass(frozen=True)
class Evidence:
    """What a turn knows.

    Attributes:
        question: What the user asked.
        known: Question, conversation and results.
        results: The results of this turn.
        refused: The calls of this turn that did not run.
        said: What the user said in the turns before.
        results_before: The results of the turn before.
        earlier_calls: The calls of all turns before that ran.
        attached: The question with the names and texts of its attachments; empty without any.
    """

    question: Source
    known: Source
    results: Sequence[ToolResult]
    refused: Sequence[ToolResult] = ()
    said: Source = field(default_factory=lambda: Source(""))
    results_before: Sequence[ToolResult] = ()
    earlier_calls: Sequence[ToolResult] = ()
    attached: Source = field(default_factory=lambda: Source(""))

    @classmethod
    def collect(cls, messages: Sequence[Message], system: str = "") -> Evidence:
        """Collect the evidence of the last turn of visible messages; what the model wrote in it is none."""
        start = find_last_turn(messages)
        turn = [message for message in messages[start:] if message.role != "assistant"]
        earlier = [
            message for message, following in pairwise([*messages[:start], *turn[:1]]) if _is_said(message, following)
        ]
        asked = next((message for message in turn if message.role == "user"), Message("user", ""))
        texts = (message.result.text if message.result else message.text for message in (*earlier, *turn))
        results = [message.result for message in turn if message.result and not is_correction(message)]
        ran = [result for result in results if result.status in ("completed", "failed")]
        refused = [result for result in results if result not in ran]
        before = messages[find_last_turn(messages[:start]) : start] if start else ()
        results_before = [message.result for message in before if message.result]
        known = Source("\n".join([system, *texts]))
        said = Source("\n".join(message.text for message in messages[:start] if message.role == "user"))
        answered = [message.result for message in messages[:start] if message.result]
        earlier_calls = [result for result in answered if result.status in ("completed", "failed")]
        question, attached = Source(asked.question), Source(asked.text if asked.asked else "")
        return cls(question, known, ran, refused, said, results_before, earlier_calls, attached)

    @cached_property
    def left_over(self) -> list[str]:
        """What the question names and stands in no call and no result of the turn: numbers, names, files.

        It was left in 7 of 9 recorded questions for two things, and in 5 of 34 for one.
        """
        if not self.results:
            return []
        calls = [_write_call(result) for result in self.results if result.status == "completed"]
        refused = (str(value) for result in self.refused for value in walk_leaves(result.arguments))
        told = Source("\n".join([*calls, *refused]))
        shares = {  # "10 %" may be calculated as 1.1
            text: [share / 100, round(1 + share / 100, 9), round(1 - share / 100, 9)]
            for text in find_percentages(self.question.text)
            for share in [float(text)]
        }
        names = [
            name
            for name in list_names(drop_told(self.question.original))  # "My name is Jonas" asks for nothing
            if not told.has(name) and not any(map(told.has, shares.get(name, ())))
        ]
        return [name for name in names if self.count_failed(name) < (_MAX_FAILED if _FILE.fullmatch(name) else 1)]

    def count_failed(self, name: str) -> int:
        """Return how many calls of the turn that failed were about something."""
        failed = [result for result in self.results if result.status == "failed"]
        return sum(Source(_write_call(result)).has(name) for result in failed)

    @cached_property
    def corrected(self) -> Source:
        """Why the user has refused calls of this turn: "not the memory, the file list.txt"."""
        return Source("\n".join(result.text for result in self.refused if result.decline_reason == "because"))

    @cached_property
    def told(self) -> Source:
        """What the user said in the turns before without asking: "I live in Lyon" of "I live in Lyon. How are you?"."""
        return Source("\n".join(text for text in split_sentences(self.said.original) if not is_question(text)))

    @cached_property
    def told_of_question(self) -> Source:
        """Those of the sentences in `told` that are about what the question names.

        "Ingrid is my sister, birthday 14 March." tells of "When is Ingrid's birthday?".
        """
        named = [name for name in list_names(self.question.original) if name[0].isalpha()]
        told = split_sentences(self.told.original)
        return Source("\n".join(text for text in told if any(map(Source(text).has, named))))

    @property
    def called_before(self) -> Set[tuple[str, str]]:
        """Server and name of each tool that the turn before called."""
        return {(result.server, result.tool) for result in self.results_before}

    def list_changed(self, server: str, tool: str, arguments: Mapping[str, Any]) -> list[str]:
        """Return the arguments in which a call differs from that of the tool in the turn before that is most like it.

        None, if there is none.
        """
        made = [result.arguments for result in self.results_before if (result.server, result.tool) == (server, tool)]
        changed = ([name for name in {*old, *arguments} if old.get(name) != arguments.get(name)] for old in made)
        return min(changed, key=len, default=[])

    @property
    def referred(self) -> str:
        """What the question refers to by "it" or "their": the calls of the turn before and their results."""
        is_reference = REFERENCE.search(self.question.text)
        return "\n".join(map(_write_call, self.results_before)) if is_reference else ""

    def find_telling_servers(self, message: str) -> set[str]:
        """Return the servers that have told, in earlier turns, of what a message names.

        Args:
            message: The question, or a part of it.
        """
        names = [name for name in list_names(message) if name[0].isalpha()]
        told = [result for result in self.earlier_calls if any(map(Source(result.text).has, names))]
        return {result.server for result in told if result.status == "completed"}

    @property
    def ran_or_refused(self) -> Sequence[ToolResult]:
        """The results of this turn, and what stands in the place of those of calls that did not run."""
        return [*self.results, *self.refused]

    @property
    def final_results(self) -> list[int]:
        """The indices of the results of which no later call was made: it has no value that stands in them alone."""
        return [
            index
            for index, result in enumerate(self.results)
            if not any(
                Source(result.text).has(value) and not self.question.has(value)
                for later in self.results[index + 1 :]
                for value in walk_leaves(later.arguments)
            )
        ]

    @property
    def failures(self) -> list[ToolResult]:
        """The calls that failed, where no later call of the tool, or with the same value, has completed."""
        left = dict[tuple[str, str], ToolResult]()
        for result in self.results:
            values = [*walk_leaves(result.arguments)]
            if result.status == "completed":
                left = {
                    tool: failed
                    for tool, failed in left.items()
                    if tool != (result.server, result.tool)
                    and not any(value in values for value in walk_leaves(failed.arguments))
                }
            elif result.server:
                left[result.server, result.tool] = result
        return [*left.values()]

    @cached_property
    def used(self) -> Source:
        """The values of the calls of this turn."""
        return Source("\n".join(str(value) for result in self.results for value in walk_leaves(result.arguments)))


def _write_call(result: ToolResult) -> str:
    return "\n".join([*map(str, walk_leaves(result.arguments)), result.tool, result.text])


def _is_said(message: Message, following: Message) -> bool:
    """Return whether a message of an earlier turn tells something: no call, and no result of one that did not work."""
    if message.role == "assistant":
        return message.reply_kind not in UNSENT_KINDS and following.role != "tool"
    return message.result is None or message.result.status == "completed"


def found_nothing(result: ToolResult) -> bool:
    """Return whether a look-up found nothing: its text is JSON without any value, or its query failed."""
    if is_failed_query(result):
        return True
    try:
        values = [*walk_leaves(json.loads(result.text))]
    except (ValueError, RecursionError):
        return False
    return not values


def is_failed_query(result: ToolResult) -> bool:
    """Return whether a query failed; servers say so in the text of a call that completed."""
    return is_query(result) and (result.status == "failed" or _ERROR_TEXT.match(result.text) is not None)


def drop_failed_queries(messages: Sequence[Message]) -> list[Message]:
    """Return messages without the queries that failed, each the only call of its reply.

    Beside what the table has, a small model writes the query that it wrote before.
    """
    failed = [
        message.result is not None
        and is_failed_query(message.result)
        and index > 0
        and messages[index - 1].role == "assistant"
        and (index + 1 == len(messages) or messages[index + 1].role != "tool")
        for index, message in enumerate(messages)
    ]
    dropped = zip(failed, [*failed[1:], False], strict=True)
    return [message for message, pair in zip(messages, dropped, strict=True) if not any(pair)]


def is_query(result: ToolResult) -> bool:
    """Return whether a result is of a call with a statement in SQL."""
    return any(map(is_statement, walk_leaves(result.arguments)))


def is_statement(value: object) -> bool:
    """Return whether a value is a statement in SQL."""
    return isinstance(value, str) and bool(_SQL_STATEMENT.match(value))


def list_names(question: str) -> list[str]:
    """Return what a question names: numbers, names, files; nothing of a long text."""
    if len(question) > _MAX_QUESTION_LENGTH:
        return []
    names = (next(filter(None, match.groups()), match[0]) for match in _NAMED.finditer(question))
    return [name for name in names if not _is_katakana_word(name)]


def count_things(question: str) -> int:
    """Return how many things a question asks for: those that its requests join, or list.

    >>> [*map(count_things, ("How warm is it in Oslo and Rome?", "老人票和学生票各多少钱？", "Who is in?"))]
    [2, 2, 1]
    """
    clauses = [clause for clause in split_clauses(question) if any(extract_terms(clause))]  # no "When and where is it?"
    return max(1, len(clauses)) + sum(len(_JOINED.findall(clause)) for clause in clauses)


def sounds_like(name: str, latin: str) -> bool:
    """Return whether a name in katakana may be a word of a text in Latin letters: they share most of their consonants.

    >>> sounds_like("ホノルル", "Pacific/Honolulu"), sounds_like("ホノルル", "Asia/Tokyo")
    (True, False)
    """
    spoken = _list_consonants("".join(unicodedata.name(char, "").split()[-1] for char in name if char not in "ー・"))
    written = (_list_consonants(word) for word in [*re.split(r"[\s/-]", latin), latin])
    return any(SequenceMatcher(None, spoken, word).ratio() >= _MIN_ALIKE for word in written)


def _list_consonants(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word).casefold().translate(_ALIKE)
    return "".join(char for char in plain if char.isascii() and char.isalpha() and char not in "aeiouy")


def is_composed(value: object) -> bool:
    """Return whether a value is a text that is written for the call."""
    return len(WORD.findall(str(value))) >= _MIN_COMPOSED_WORDS


def walk_leaves(value: Any) -> Iterator[Any]:
    """Yield the values inside of objects and lists."""
    if not isinstance(value, Mapping | list | tuple):
        yield value
        return
    inside: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
    for item in inside:
        yield from walk_leaves(item)


def _is_katakana_word(name: str) -> bool:
    """Return whether a name is a word in katakana that the thesaurus has, as for "note" or "mail"."""
    return bool(CJK_RUN.fullmatch(name)) and any(term.startswith("=") for term in extract_terms(name))


def get_stop_words() -> frozenset[str]:
    """Return the English words that tell nothing."""
    return frozenset(STOP_WORDS.split())
