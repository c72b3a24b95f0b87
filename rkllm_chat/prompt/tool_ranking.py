"""Rank tools by their relevance to a question: BM25F over names, descriptions, parameters and servers.

The formula is that of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), section
3.6: occurrences are weighted by field and normalized by the length of the field, then summed and saturated.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..calls.percentages import PERCENT
from ..calls.schema.resolve import properties_of
from ..core.identity_cache import cache_by_identity
from ..core.messages import Tool

_THESAURUS = Path(__file__).with_name("thesaurus.txt")
_K1, _B = 1.2, 0.5
"""Parameters of BM25F: how soon further occurrences of a term count less, and how much the length of a field matters.

Like the weights below, these are usual values, not fitted ones. In cross-validation over 17 servers and 528 questions,
with the best of 120 random choices for the other servers, the right tool is first for 78.4 %; with these, for 78.6 %.
"""
_FIELD_WEIGHTS = {"name": 3.0, "description": 1.0, "parameter name": 0.5, "parameter description": 0.1, "server": 1.0}
_SYNONYM_WEIGHT = 0.6
"""Weight of a synonym relative to the word itself."""
_QUOTED_WEIGHT = 0.3
"""Weight of a word that occurs only in quotes: it is usually a value."""
_NAME_BONUS = 0.6
"""Relative bonus of a tool if all words of its name occur in the question."""
_MAX_USAGE_BONUS, _HALF_BONUS_CALLS = 0.2, 4
"""Maximum relative bonus for past usage, and the number of calls that earns half of it."""
_MIN_SELECTED, _MIN_RELATIVE_SCORE = 5, 0.5
"""Tools that are selected in any case, and the score relative to the best that selects others.

Measured within 512 tokens: the right tool is selected for 99 % of 200 questions to 200 tools, at 225 tokens per
question.
"""
_SIMILAR, _REMAINING = 0.9, 0.4
"""Thresholds of `select_few_tools`, relative to the best score: by all words of the question, and by the words that the
tools selected so far lack.

Measured on 204 written questions to four servers: the right tool is among 1.3 tools for 93 %; among 1.8 for 82 % of 124
questions to eleven others, in lists of 100 and 144 tools.
"""
_SURE, _MIN_SURE_SCORE = 2.0, 3.0
"""How many times the score of the second tool the first must have, and which at least, to be the one that is meant."""
MAX_WORD_LENGTH = 16
"""Maximum characters of a Japanese or Chinese word of the thesaurus."""
_MAX_END_LENGTH, _MAX_TEXT_LENGTH = 400, 600
"""Maximum characters considered: of each end of a question, as pasted text may be between them, and of a text of a
tool.
"""

CJK = r"\u3005\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
CJK_RUN = re.compile(f"[{CJK}]+")
_NUMBER = r"\(?\d+(?:\.\d+)?\)?"
_OPERATOR = r"(?:[-+*/×÷^%x]|plus|minus|less|times|加上?|减去?|乘以?|除以|たす|足す|ひく|引く|かける|掛ける|わる|割る)"
_TOKEN = re.compile(
    rf"(?P<url>https?://[^\s{CJK}]+)"
    rf"|(?P<file>(?<![^\s{CJK}\"'`“「『(])(?:[~.]?/[^\s{CJK}]+|(?:(?![{CJK}])[\w/~*.-])*\.[a-z][a-z\d]{{0,4}}(?![a-z\d_.])))"
    rf"|(?P<calculate>(?<![\w./-]){_NUMBER}\s*{_OPERATOR}\s*{_NUMBER}(?![a-z\d_/-])"
    rf"|{_NUMBER}\s*{PERCENT}\s*(?:of|off)\b|{_NUMBER}\S?\s*[の的]\s*{_NUMBER}\s*{PERCENT})"
    r"|(?P<time>(?<!\d)\d{1,2}(?::\d\d(?!\d)|\s?[ap]m\b))"
    r"|(?P<price>\bhow much (?:is|are)\b(?!\s+(?:left\b|[\d(])))"
    rf"|(?P<cjk>[{CJK}]+)|(?P<word>[^\W_{CJK}]+)"
)
"""A word, a run of Japanese or Chinese characters, or a value; the kind of a value is a word of the thesaurus.

The kind of a value ("notes.txt" is a file) indicates a tool; its text does not. "How much is" asks for a price.
"""
_QUOTE = re.compile(r"""(?<!\w)(["'`])(?!\1).{1,200}?\1(?!\w)|“[^”]{1,200}”|「[^」]{1,200}」|『[^』]{1,200}』""")
_JOINT = re.compile(
    r"\b(?:and(?! \d+ \w+(?: \w+){0,2} ?(?:[?.!,;]|$))|then|also)\b"  # "2 adults and 3 kids?" is one request
    rf"|[;；]|(?<=[。！？])|(?<=[.!?]) |(?<=[!?])(?=[{CJK}])"
    "|それから|それと|そして|次に|あと|ついでに|还有(?=[，、：])|(?<=[，、。；！？!?])还有|然后|再|另外|以及|同时|顺便"
)
"""Separators between the requests of a question."""
_BETWEEN_REQUESTS = " ,、，"
_INTERJECTION = re.compile(
    r"\W*(?:cool|good|great|hello|hey|hi|nice|no|oh|ok|okay|right|sure|thanks|thank you|ugh|well|yes"
    r"|ありがとう(?:ございます)?|うん|なるほど|はい|了解(?:です)?|嗯|好[的吧]?|对了|谢谢你?)\W*",
    re.IGNORECASE,
)
"""What asks for nothing by itself."""
_CJK_COMMA = re.compile("[、，]")
CAMEL_CASE = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
"""Where a word begins in a name such as `getWeather`."""
STOP_WORDS = """
    a an and are as at be been but by can could did do does for from had has have how i if in into is it its me my of
    on or our please so some tell than that the their them then there these they this those to us want was we were what
    when where which who whom whose why will with would you your
"""


class ToolIndex:
    """The terms of a set of tools, prepared for questions."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools = list(tools)
        self._name_words = [_split_name(tool.name) for tool in self.tools]
        counts: list[dict[str, float]] = [{} for _ in self.tools]
        for field, weight in _FIELD_WEIGHTS.items():
            _add_field(counts, [Counter(extract_terms(_read_field(tool, field))) for tool in self.tools], weight)
        self._scores: dict[str, dict[int, float]] = {}
        """The score of each tool that has a term, by term."""
        for position, count_by_term in enumerate(counts):
            for term, count in count_by_term.items():
                self._scores.setdefault(term, {})[position] = count * (_K1 + 1) / (count + _K1)
        for scores in self._scores.values():
            rarity = math.log(1 + (len(self.tools) - len(scores) + 0.5) / (len(scores) + 0.5))
            scores.update({position: rarity * score for position, score in scores.items()})

    def weigh_terms(self, question: str) -> dict[str, float]:
        """Return the weights of the terms of a question that occur in a tool, in the order of the question."""
        ends = _cut_to_ends(question)
        unquoted = set(extract_question_terms(_QUOTE.sub(" ", ends)))
        return {
            term: (_SYNONYM_WEIGHT if term.startswith("=") else 1.0) * (1.0 if term in unquoted else _QUOTED_WEIGHT)
            for term in extract_question_terms(ends)
            if term in self._scores
        }

    def score_tools(self, weights: Mapping[str, float], call_counts: Mapping[str, int]) -> list[float]:
        """Return the BM25F score of each tool, with bonuses; 0 if it shares no term with the question.

        Args:
            weights: Weight by term.
            call_counts: Number of past calls by full tool name.
        """
        scores = [0.0] * len(self.tools)
        for term, weight in weights.items():
            for position, score in self._scores[term].items():
                scores[position] += weight * score
        for position, tool in enumerate(self.tools):
            if scores[position]:
                scores[position] *= _usage_bonus(call_counts.get(tool.full_name, 0))
                scores[position] *= 1 + _NAME_BONUS * _fraction_mentioned(self._name_words[position], weights.keys())
        return scores

    def find_tools(self, term: str) -> Set[int]:
        """Return the indices of the tools that have a term of the index."""
        return self._scores[term].keys()

    def sort_positions(self, scores: Sequence[float]) -> list[int]:
        """Return the indices of tools with a positive score, best first."""
        matching = (position for position, score in enumerate(scores) if score)
        return sorted(matching, key=lambda position: (-scores[position], self.tools[position].full_name))


@cache_by_identity(max_entries=16)
def index_tools(tools: Iterable[Tool]) -> ToolIndex:
    """Return the index of tools; a turn asks for those of the same tools several times."""
    return ToolIndex(tools)


def rank_tools(index: ToolIndex, question: str, call_counts: Mapping[str, int]) -> list[Tool]:
    """Return the tools that may help with a question, best first, without far less relevant ones.

    Args:
        index: The tools.
        question: Text of the user.
        call_counts: Number of past calls by full tool name; decides between tools of similar relevance.
    """
    scores = index.score_tools(index.weigh_terms(question), call_counts)
    minimum = _MIN_RELATIVE_SCORE * max(scores, default=0.0)
    order = index.sort_positions(scores)
    return [index.tools[i] for rank, i in enumerate(order) if rank < _MIN_SELECTED or scores[i] >= minimum]


def find_sure_tools(index: ToolIndex, question: str, call_counts: Mapping[str, int]) -> list[Tool]:
    """Return the tools that are far more relevant than every other one to a question, or to one of those it joins."""
    texts = dict.fromkeys([question, *split_requests(question)])
    sure = (_find_sure_position(index, text, call_counts) for text in texts)
    return [index.tools[position] for position in dict.fromkeys(sure) if position is not None]


def _find_sure_position(index: ToolIndex, question: str, call_counts: Mapping[str, int]) -> int | None:
    scores = index.score_tools(index.weigh_terms(question), call_counts)
    order = index.sort_positions(scores)
    if not order or scores[order[0]] < _MIN_SURE_SCORE:
        return None
    return None if len(order) > 1 and scores[order[0]] < _SURE * scores[order[1]] else order[0]


def find_domain_tools(index: ToolIndex, question: str, call_counts: Mapping[str, int]) -> list[Tool]:
    """Return the best tools of the server that a question is about, or the first of those it joins that has one.

    No other server has any of the words of its tools: "database" says little of one tool where all tools of a server
    have it, and much of the server.
    """
    for text in (question, *split_requests(question)):
        if tools := _find_domain_tools(index, text, call_counts):
            return tools
    return []


def _find_domain_tools(index: ToolIndex, question: str, call_counts: Mapping[str, int]) -> list[Tool]:
    weights = index.weigh_terms(question)
    sharing = [{index.tools[i].server for i in tools} for tools in map(index.find_tools, weights) if len(tools) > 1]
    meant = {server for servers in sharing if len(servers) == 1 for server in servers}
    order = index.sort_positions(index.score_tools(weights, call_counts))
    is_meant = len(meant) == 1 and index.tools[order[0]].server in meant and meant != {t.server for t in index.tools}
    return [index.tools[i] for i in order if index.tools[i].server in meant] if is_meant else []


def select_few_tools(index: ToolIndex, question: str, call_counts: Mapping[str, int]) -> list[Tool]:
    """Return few tools for a question.

    These are the best tool, the best tool for each request if the question joins several, tools for words that these do
    not cover, and tools about as relevant as the best.
    """
    question = _cut_to_ends(question)
    weights = index.weigh_terms(question)
    scores = index.score_tools(weights, call_counts)
    order, best = index.sort_positions(scores), max(scores, default=0.0)
    if not order:
        return []
    selected = _best_per_request(index, question, call_counts)
    selected = selected if order[0] in selected else [order[0], *selected]
    selected += _cover_other_terms(index, weights, selected, call_counts, _REMAINING * best)
    selected += [i for i in order if scores[i] >= _SIMILAR * best and i not in selected]
    return [index.tools[i] for i in selected]


def _best_per_request(index: ToolIndex, question: str, call_counts: Mapping[str, int]) -> list[int]:
    """Return the indices of the best tool per request of a question that joins several, in their order."""
    requests = split_requests(question)
    best = (index.sort_positions(index.score_tools(index.weigh_terms(text), call_counts))[:1] for text in requests)
    return list(dict.fromkeys(position for positions in best for position in positions))


def list_quoted(text: str) -> list[str]:
    """Return what a text has between quotation marks.

    >>> list_quoted("Write 'buy milk' into notes.txt, and 「牛乳」")
    ['buy milk', '牛乳']
    """
    return [match[0][1:-1] for match in _QUOTE.finditer(text)]


def split_requests(question: str) -> list[str]:
    """Return the requests of a question that joins several; none of one that joins none."""
    requests = [*filter(None, (part.strip(_BETWEEN_REQUESTS) for part in _JOINT.split(question)))]
    return requests if len(requests) > 1 else []


def split_clauses(question: str) -> list[str]:
    """Return the requests of a question, in Japanese and Chinese also divided at commas: "... 金額と、... 容量を".

    >>> split_clauses("ok then book it, and when does it start?")
    ['book it,', 'when does it start?']
    >>> split_clauses("How much is it for 2 adults and 3 kids? And when does it open?")
    ['How much is it for 2 adults and 3 kids?', 'And when does it open?']
    """
    clauses = [clause.strip() for request in _JOINT.split(question) for clause in _CJK_COMMA.split(request)]
    return [clause for clause in clauses if clause and not _INTERJECTION.fullmatch(clause)] or [*filter(None, clauses)]


def _cover_other_terms(
    index: ToolIndex,
    weights: Mapping[str, float],
    selected: Sequence[int],
    call_counts: Mapping[str, int],
    minimum: float,
) -> list[int]:
    """Return the best tool for the terms that the selected ones lack, then for those that this one lacks too."""
    added: list[int] = []
    while True:
        covering = {*selected, *added}
        weights = {term: weight for term, weight in weights.items() if index.find_tools(term).isdisjoint(covering)}
        scores = index.score_tools(weights, call_counts)
        if max(scores) < minimum:
            return added
        added.append(index.sort_positions(scores)[0])


def _cut_to_ends(question: str) -> str:
    return f"{question[:_MAX_END_LENGTH]} {question[_MAX_END_LENGTH:][-_MAX_END_LENGTH:]}"


def _usage_bonus(calls: int) -> float:
    return 1 + _MAX_USAGE_BONUS * calls / (calls + _HALF_BONUS_CALLS)


def _split_name(name: str) -> list[set[str]]:
    """Return the terms of each word of a name."""
    words = (set(extract_terms(word)) for word in re.split(r"[\W_]+", CAMEL_CASE.sub(" ", name)))
    return [terms for terms in words if terms]


def _fraction_mentioned(name_words: Sequence[Set[str]], terms: Set[str]) -> float:
    """Return the fraction of a name's words that occur, themselves or as a synonym."""
    return sum(not terms.isdisjoint(word) for word in name_words) / max(1, len(name_words))


def _add_field(totals: Sequence[dict[str, float]], field: Sequence[Counter[str]], weight: float) -> None:
    """Add the counts of a field, normalized by its length relative to the mean."""
    lengths = [counts.total() for counts in field]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    for total, counts, length in zip(totals, field, lengths, strict=True):
        factor = weight / (1 - _B + _B * length / mean)
        for term, count in counts.items():
            total[term] = total.get(term, 0.0) + factor * count


def _read_field(tool: Tool, field: str) -> str:
    parameters = properties_of(tool.schema)
    match field:
        case "name":
            return f"{tool.name} {tool.title}"
        case "description":
            return tool.description[:_MAX_TEXT_LENGTH]
        case "parameter name":
            values = (value.get("enum") for value in parameters.values() if isinstance(value, Mapping))
            enums = (value for items in values if isinstance(items, list) for value in items if isinstance(value, str))
            return " ".join([*parameters, *enums])
        case "parameter description":
            texts = (value.get("description") for value in parameters.values() if isinstance(value, Mapping))
            return " ".join(text for text in texts if isinstance(text, str))[:_MAX_TEXT_LENGTH]
        case _:
            return tool.server


def extract_question_terms(question: str) -> Iterator[str]:
    """Yield the terms of a question, and those of neighbouring words joined: "check out" may mean `checkout`."""
    yield from extract_terms(question)
    words = [match["word"] for match in _TOKEN.finditer(_normalize(question)) if match["word"]]
    for word, other in pairwise(words):
        yield from _terms_of_word(word + other)


def extract_terms(text: str) -> Iterator[str]:
    """Yield the terms of a text: stemmed words without stop words, and character pairs of Japanese and Chinese runs.

    The synonym groups of a word follow it as `=` and the row of the thesaurus.
    """
    for match in _TOKEN.finditer(_normalize(text)):
        kind, token = match.lastgroup, match[0]
        if kind == "cjk":
            yield from (token[i : i + 2] for i in range(max(1, len(token) - 1)))
            for word in _thesaurus_words_in(token):
                yield from _groups_of(word)
        elif kind == "word":
            yield from _terms_of_word(token)
        elif kind:
            yield from _groups_of(stem_word(kind))


def _normalize(text: str) -> str:
    return CAMEL_CASE.sub(" ", unicodedata.normalize("NFKC", text)).casefold()


def _terms_of_word(word: str) -> list[str]:
    return [] if word in _stop_words() else [stem_word(word), *_groups_of(stem_word(word))]


def _groups_of(word: str) -> Sequence[str]:
    return _read_thesaurus().get(word, ())


@lru_cache(maxsize=4096)
def stem_word(word: str) -> str:
    """Return the stem of an English word by the Snowball algorithm (Porter2)."""
    stem: str = _load_stemmer().stemWord(word)
    return stem


@lru_cache(maxsize=1)
def _load_stemmer() -> Any:
    import snowballstemmer  # takes 14 ms, as it imports all languages; most chats list all tools and rank none

    return snowballstemmer.stemmer("english")


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    return frozenset(STOP_WORDS.split())


def read_thesaurus_rows() -> list[list[str]]:
    """Return the rows of the thesaurus as lists of words."""
    lines = _THESAURUS.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


@lru_cache(maxsize=1)
def _read_thesaurus() -> dict[str, list[str]]:
    """Return the synonym groups of each word of the thesaurus; English words are stemmed."""
    groups: dict[str, list[str]] = {}
    for number, row in enumerate(read_thesaurus_rows()):
        for word in row:
            groups.setdefault(word if CJK_RUN.match(word) else stem_word(word), []).append(f"={number}")
    return groups


def _thesaurus_words_in(run: str) -> Iterator[str]:
    """Yield the thesaurus words in a run without spaces, longest match first."""
    groups, start = _read_thesaurus(), 0
    while start < len(run):
        ends = range(min(len(run), start + MAX_WORD_LENGTH), start, -1)
        word = next((run[start:end] for end in ends if run[start:end] in groups), "")
        yield from [word] if word else []
        start += len(word) or 1
