"""What name, description and schema of a tool say about it, and whether a question has words of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..calls.described_calls import (
    asks,
    asks_for_change,
    asks_to_remember,
    is_follow_up,
    list_places,
    requests_verb,
    tells_only,
)
from ..calls.schema.resolve import properties_of, required_of
from ..core.latin_languages import find_latin_language
from ..core.messages import Tool
from ..prompt.tool_ranking import CAMEL_CASE, CJK_RUN, extract_terms, stem_word
from .evidence import WORD, Source, normalize

__all__ = [
    "READING_VERBS",
    "asks_for_change_by",
    "asks_for_nothing",
    "describe_tool",
    "edits_text",
    "is_path_name",
    "is_search_name",
    "makes_text",
    "may_be_meant",
    "may_write",
    "names_tool",
    "names_verb",
    "says_where",
    "searches",
    "shares_term",
    "split_name",
    "takes_query",
]

_SEARCH_NAME = re.compile(r"q|query|search(?:_?(?:term|text|query))?|keywords?|names", re.IGNORECASE)
"""Name of an argument that takes what is searched for."""
_PATH_NAME = re.compile(r"(?:path|folder|directory|dir|repo|repository)$", re.IGNORECASE)
"""Name of an argument that takes a path."""
READING_VERBS = """
    analyze browse calculate check compare compute convert count describe detect estimate explain explore fetch find get
    give inspect list locate look lookup measure preview query read recommend retrieve return search show suggest
    summarize tell trace track translate verify view
"""
"""What tools do that only read."""
_CHANGING_VERBS = """
    add append apply archive assign attach book buy cancel change clear close commit copy create cut delete disable drop
    edit enable enter erase execute fork insert install invite kill log mark merge modify move order patch pay post
    publish push put record register remove rename replace reply report reserve reset restart run save schedule send set
    share start stop store submit switch toggle transfer trash trigger turn uninstall update upload write
"""
"""What tools do that change something."""
_NOUNS = """
    book change copy cut fork log mark order patch post record reply report run schedule set share store switch transfer
    trigger update
"""
"""Those that are as often what a tool tells of: "book details", "pet record"; the description says which it is."""
_QUESTION_WORDS = "how is what when where which who whose why"
"""How the name of a tool begins that answers a question: "where_to_put_item"."""
_FIRST_WORD = re.compile(r"\W*(?:this tool\s+|tool to\s+|use this(?: tool)? to\s+)?([a-z]+)", re.IGNORECASE)
"""The first word of a description that says something."""
_ORDER = re.compile(
    r"\W*(?!(?:all|how|if|is|what|when|where|whether|which|who)\b)[a-z]+\s+(?:an?|the|one|some|new|multiple|all)\s"
    r"|\W*[a-z]+s\s+(?:another|any|each|every|it|its|that|their|these|this|those|what|your)\b",
    re.IGNORECASE,
)
"""How a description begins that tells what to do, or is done, and not what there is: "Fork a repository", "Does what it
says", and not "Rules of the house", "What a guest pays", "Slots still free"."""

_PLACE = re.compile(
    r"\b(?:im|(?:aus|from|in)\s+(?:de[mnr]|die|(?:dein|mein)e[mnr]|my|our|the|your))\s+((?:\w+\s)?\w{4,})"
    r"|([ァ-ヶー]{3,})(?:で|に|から)|([\u4e00-\u9fff]{2,4})[里中内]",
    re.IGNORECASE,
)
"""Where a question says that something is."""


def may_write(tool: Tool) -> bool:
    """Return whether a call may change something, as far as its server, or else name and description, say.

    Nothing is allowed because of it. Without a verb, they name what the tool tells: "opening_hours", "Price of one
    product". Of 337 tools of 20 servers, 6 of 202 that read and 12 of 135 that write would be mistaken by name and
    description alone, and none with what their servers say.
    """
    return not tool.read_only and (tool.writes or _seems_to_write(tool.name, tool.description))


def list_reading(tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools of servers that only read."""
    return [tool for tool in tools if tool.server and not may_write(tool)]


@lru_cache(maxsize=4096)
def _seems_to_write(name: str, description: str) -> bool:
    if next(iter(WORD.findall(split_name(name).casefold())), "") in _QUESTION_WORDS.split():
        return False
    verb = stem_word(_find_verb(name, description))
    reading, changing = _stem_words(READING_VERBS), _stem_words(_CHANGING_VERBS)
    if verb in reading or verb in changing:
        return verb in changing
    if CJK_RUN.search(description):
        return asks_for_change(description)
    return not description or bool(_ORDER.match(description))


@lru_cache(maxsize=4096)
def _find_verb(name: str, description: str) -> str:
    """Return what a tool does: the first word of its name or of its description, or another word of its name.

    What may be a noun is no verb at the beginning or the end of a name, unless the description is an order.
    """
    named: list[str] = WORD.findall(split_name(name).casefold()) or [""]
    found = _FIRST_WORD.match(description)
    said = found[1].casefold() if found else ""
    known = _stem_words(READING_VERBS) | _stem_words(_CHANGING_VERBS)
    is_order = bool(_ORDER.match(description))
    unclear = [word for word in (named[0], named[-1]) if not is_order and stem_word(word) in _stem_words(_NOUNS)]
    clear = [word for word in named if word not in unclear]
    first = named[:1] if named[0] not in unclear else []
    verb = next((word for word in (*first, said, *clear) if stem_word(word) in known), "")
    return verb or (said if is_order else "" if unclear else named[0])


@lru_cache(maxsize=8)
def _stem_words(words: str) -> frozenset[str]:
    return frozenset(map(stem_word, words.split()))


def asks_for_change_by(tools: Sequence[Tool], message: str) -> bool:
    """Return whether a message asks to change something, or for what one of these tools does that changes something."""
    verbs = (_find_verb(tool.name, tool.description) for tool in tools if may_write(tool))
    return asks_for_change(message) or any(requests_verb(verb, message) for verb in verbs)


def says_where(question: str, tools: Sequence[Tool]) -> bool:
    """Return whether a question says that what it asks for is where these tools look: "prices are in the database"."""
    places = [Source(next(filter(None, match.groups()))) for match in _PLACE.finditer(question)]
    return any(shares_term(describe_tool(tool), place) for tool in tools for place in places)


def edits_text(tool: Tool) -> bool:
    """Return whether a tool puts a new text in the place of an old one, as its parameters say."""
    names = [split_name(name).casefold().split() for name in properties_of(tool.schema)]
    return any(words[:1] in (["edits"], ["old"]) for words in names)


def makes_text(tool: Tool) -> bool:
    """Return whether a tool takes a whole text, as its parameters say, which a new file needs."""
    names = {word for name in properties_of(tool.schema) for word in split_name(name).casefold().split()}
    return not (edits_text(tool) or names.isdisjoint(("body", "content", "contents", "data", "text")))


def asks_for_nothing(tools: Sequence[Tool], message: str) -> bool:
    """Return whether a message tells something, or has no word that asks, in the languages whose words are known."""
    if tells_only(message):
        return True
    if asks(message) or is_follow_up(message) or asks_to_remember(message) or list_places(message):
        return False
    does_something = asks_for_change_by(tools, message) or shares_term(READING_VERBS, Source(message))
    return not does_something and find_latin_language(message) in ("", "en", "de")


def is_search_name(name: str) -> bool:
    """Return whether an argument of this name takes what is searched for."""
    return _SEARCH_NAME.fullmatch(name) is not None


def searches(tool: Tool) -> bool:
    """Return whether a tool finds what is known of a name, in a memory, an index or the web."""
    return not (may_write(tool) or takes_query(tool)) and any(is_search_name(name) for name in required_of(tool.schema))


def takes_query(tool: Tool) -> bool:
    """Return whether a tool takes an SQL query that reads."""
    return not may_write(tool) and "SELECT" in f"{tool.description} {properties_of(tool.schema)}"


def may_be_meant(tool: Tool, question: str) -> bool:
    """Return whether a question may mean a tool that it does not name: one that deletes only if it asks for that."""
    verb = _find_verb(tool.name, tool.description)
    return not shares_term(verb, Source("delete")) or names_verb(tool, Source(question))


def names_verb(tool: Tool, question: Source) -> bool:
    """Return whether a question has the verb of what a tool does or the first word of its name, or a synonym of it."""
    first = next(iter(WORD.findall(split_name(tool.name))), "")
    return shares_term(f"{first} {_find_verb(tool.name, tool.description)}", question)


def names_tool(tool: Tool, question: Source) -> bool:
    """Return whether a question is about a tool itself: it has its name, which is no word."""
    return not tool.name.isalpha() and normalize(tool.name) in question.text


def shares_term(name: str, question: Source) -> bool:
    """Return whether a question has a word of a name such as "list_events", or a synonym of one."""
    return not {*extract_terms(name.replace("_", " "))}.isdisjoint(extract_terms(question.text))


def describe_tool(tool: Tool) -> str:
    """Return what tells what a tool is for: its server, name, title and description."""
    return f"{tool.server} {tool.name} {tool.title} {tool.description}"


def split_name(name: str) -> str:
    """Return the words of the name of a tool or an argument, with spaces between them."""
    return CAMEL_CASE.sub(" ", name).replace("_", " ")


def is_path_name(name: str) -> bool:
    """Return whether an argument of this name takes a path."""
    return _PATH_NAME.search(name) is not None
