"""What name, description and schema of a tool say about it, and whether a question has words of them."""

from __future__ import annotations

from ..calls.schema.resolve import properties_of
from ..core.messages import Tool
from ..prompt.tool_ranking import CAMEL_CASE, extract_terms
from .evidence import WORD, Source, normalize

__all__ = [
    "READING_VERBS",
    "describe_tool",
    "may_be_meant",
    "may_write",
    "names_tool",
    "names_verb",
    "shares_term",
    "split_name",
    "takes_query",
]

READING_VERBS = """
    calculate check compute convert count describe fetch find get list look lookup query read search show view
"""
"""First words of the names of tools that only read, although their servers say nothing of it."""


def may_write(tool: Tool) -> bool:
    """Return whether a call may change something, as far as server and name say; nothing is allowed because of it."""
    return not (tool.read_only or _first_word(tool) in READING_VERBS.split())


def takes_query(tool: Tool) -> bool:
    """Return whether a tool takes an SQL query that reads."""
    return not may_write(tool) and "SELECT" in f"{tool.description} {properties_of(tool.schema)}"


def may_be_meant(tool: Tool, question: str) -> bool:
    """Return whether a question may mean a tool that it does not name: one that deletes only if it asks for that."""
    return not shares_term(_first_word(tool), Source("delete")) or names_verb(tool, Source(question))


def names_verb(tool: Tool, question: Source) -> bool:
    """Return whether a question has the first word of a tool's name, or a synonym of it."""
    return shares_term(_first_word(tool), question)


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


def _first_word(tool: Tool) -> str:
    return next(iter(WORD.findall(split_name(tool.name))), "").casefold()
