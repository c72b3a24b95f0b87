"""Is a call about what a question speaks of, as far as words, numbers and earlier calls say?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..calls.described_calls import asks_what_was_said
from ..core.messages import Tool, ToolResult
from ..prompt.tool_ranking import CJK_RUN, extract_question_terms, extract_terms
from .evidence import NUMBER, REFERENCE, WORD, Evidence, Source, get_stop_words, normalize, walk_leaves
from .tool_traits import describe_tool, shares_term, takes_query

__all__ = ["is_about_more", "is_in_known_language", "is_relevant"]

_MIN_NAME_LENGTH = 4
"""Characters from which on a word of a call tells what it was about."""
_SQL_KEYWORD = re.compile(r"\b[A-Z]+\b")
_ENGLISH_WORDS = "a and how my of that the this what when where which who why with you your"
"""Words of which an English question has one, and that are rare in other languages."""


def is_relevant(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a question is about what a tool is for: it shares a word, a synonym, a number or a file with it.

    A call without arguments shares one with the name of the tool or its server. So it is if the turn before called the
    tool, if an earlier call of its server was about something that the question names, if it is a query about that, or
    if the question is in a language that has no synonyms here. "Who wrote Hamlet?" called `get_npu`, "Hi, I'm Mira and
    I live in Lyon" `get_time`.
    """
    question = evidence.question
    if (tool.server, tool.name) in evidence.called_before or not is_in_known_language(question):
        return True
    if asks_what_was_said(question.text):
        return False
    if not arguments:  # such calls answer anything: their descriptions have words such as "time"
        return shares_term(f"{tool.server} {tool.name}", question)
    values = [str(value) for value in walk_leaves(arguments)]
    if REFERENCE.search(question.text):  # "What is that for a whole year?", "Who delivers it?"
        used_before = [str(leaf) for call in evidence.earlier_calls for leaf in walk_leaves(call.arguments)]
        is_used_before = any(map(Source("\n".join(used_before)).has, values))
        if is_used_before or any(map(evidence.known.has, NUMBER.findall(" ".join(values)))):
            return True
    used = {
        value for result in evidence.earlier_calls if result.server == tool.server for value in _list_topics(result)
    }
    if not used.isdisjoint(question.words):
        return True
    if takes_query(tool) and any(question.has_part(_SQL_KEYWORD.sub(" ", value)) for value in values):
        return True  # what a database is about, its tables say, and not the tool
    if not set(extract_terms(describe_tool(tool))).isdisjoint(extract_question_terms(question.original)):
        return True
    places = [value for value in values if " " not in value and not value.isalpha()]  # files, addresses
    return any(map(question.has, [*places, *NUMBER.findall(" ".join(values))]))


def is_about_more(tool: Tool, evidence: Evidence) -> bool:
    """Return whether a question has no word of a tool's name, or one that no call of another server is about.

    The "memory" in which a note was made is not the machine's.
    """
    called = [f"{result.server} {result.tool}" for result in evidence.results if result.server != tool.server]
    shared = {*extract_terms(f"{tool.server} {tool.name}".replace("_", " "))} & {*extract_terms(evidence.question.text)}
    return not shared or not shared <= {*extract_terms("\n".join(called).replace("_", " "))}


def _list_topics(result: ToolResult) -> list[str]:
    """Return the words that tell what a call was about."""
    words = (word for value in walk_leaves(result.arguments) for word in WORD.findall(normalize(str(value))))
    return [word for word in words if len(word) >= _MIN_NAME_LENGTH and word not in get_stop_words()]


def is_in_known_language(question: Source) -> bool:
    """Return whether a question is in a language of the thesaurus: it has characters or little words of one."""
    return bool(CJK_RUN.search(question.text)) or not question.words.isdisjoint(_ENGLISH_WORDS.split())
