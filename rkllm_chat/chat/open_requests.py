"""What of the question is still open in a turn, and which tools may help to look it up."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

from ..calls.described_calls import (
    asks,
    asks_for_change,
    asks_to_remember,
    is_follow_up,
    list_places,
    refers_back,
)
from ..calls.schema.resolve import properties_of, required_of
from ..calls.time_zones import is_time_zone
from ..core.latin_languages import find_latin_language
from ..core.messages import Tool
from ..prompt.tool_ranking import (
    CJK_RUN,
    extract_question_terms,
    extract_terms,
    find_domain_tools,
    find_sure_tools,
    index_tools,
    split_clauses,
    split_requests,
)
from .call_choice import can_choose, can_compare
from .context import can_force_calls
from .evidence import (
    KATAKANA,
    WORD,
    Evidence,
    Source,
    count_things,
    found_nothing,
    is_query,
    list_names,
    sounds_like,
    walk_leaves,
)
from .file_rules import FileRules
from .tool_traits import describe_tool, may_write, says_where, shares_term, takes_query
from .turn_rules import TurnRules

__all__ = ["OpenRequests", "list_table_tools"]

_MAX_QUERIES = 3
"""How many queries of a turn may fail until no other one is asked for."""
_JOINING_ENDINGS = ("と", "や", "和", "及")
"""How the first of two things ends that a Japanese or Chinese question joins."""
_MAX_NAMING_WORDS = 4
"""Words that a part of a question has at most that only names a thing."""
_QUESTION_WORD = re.compile(r"(?:how|wann|was|warum|wer|what|when|where|which|who|whose|why|wie|wo)", re.IGNORECASE)
"""What is no part of a question alone: "When and where is it?"."""
_THING = re.compile(r"(?:an?|the)(?: [\w'-]+){1,3}\s*\?", re.IGNORECASE)
"""What alone asks for nothing: the end of "What is the difference between a boat and a ship?"."""
_MIN_FOUND_TERMS = 2
"""Words of a part of a question from which on a result that has all of them tells of it."""
_QUANTITY = re.compile(
    r"\b(?:how (?:many|much)|total|sum|average|wie ?viele?|gesamt\w*|durchschnitt\w*)\b"
    r"|いくつ|何[人件個本]|合計|平均|多少|几[个位件]|总"
)
"""What a question has that asks for what the rows of a table say together."""
_OVERVIEW = re.compile(r"\b(?:all|entire|every|whole)\b", re.IGNORECASE)
"""Description of a tool that tells all that there is."""


class OpenRequests(TurnRules):
    """What of the last question of a conversation nobody has looked up, and the tools that are tried for it."""

    def find_left_over(self) -> list[str]:
        """Return what the question names and nobody has looked up: the model is made to write a call with it."""
        if not self._are_on or self._chat.answers_json:  # a request for JSON names much that nobody is to look up
            return []
        evidence = self._evidence
        called = {(result.server, result.tool) for result in evidence.results}
        tools = (tool for tool in self._tools if (tool.server, tool.name) in called)
        about = {term for tool in tools for term in extract_terms(describe_tool(tool))}  # `get_memory` looks up "RAM"
        used = [str(value) for result in evidence.results for value in walk_leaves(result.arguments)]
        return [
            name
            for name in evidence.left_over
            if not (name.isalpha() and not about.isdisjoint(extract_terms(name)))
            and not re.search(rf"\d ?{re.escape(name)}\b", evidence.question.original)  # the unit in "85 EUR"
            and not (KATAKANA.fullmatch(name) and any(sounds_like(name, value) for value in used))
        ]

    def list_unsettled(self) -> list[str]:
        """Return the names and files of a question in no call and no result; a word in katakana was translated.

        None of them where something was changed: its calls say it in words of their own. A time zone that is called
        after another city, `Europe/Lisbon`, may be that of Porto. In German any noun looks like a name.
        """
        evidence = self._evidence
        if self._has_changed(evidence):
            return []
        left_over = [name for name in self.find_left_over() if not evidence.count_failed(name)]
        named = (item for result in evidence.results for item in result.arguments.items() if is_time_zone(*item))
        is_german = find_latin_language(evidence.question.original) == "de"
        has_other = any(not evidence.question.has_part(str(zone).replace("_", " ")) for _, zone in named)
        return [
            name
            for name in left_over
            if not (name[0].isdigit() or CJK_RUN.fullmatch(name) or ((is_german or has_other) and name.isalpha()))
        ]

    def find_open_request(self) -> str:
        """Return what of the question is open, where a tool may read it; "" for nothing.

        Behind calls it is a part that clearly means a tool that only reads and has not been called, else a request of
        which no call has a value; before them it is all of the question. Where that was measured: it is forced or asked
        alone.
        """
        if not self._are_strict or self._chat.answers_json:
            return ""
        evidence = self._evidence
        question, tools = evidence.question.original, [tool for tool in self._tools if tool.server]
        if not evidence.ran_or_refused:
            return question if self._may_be_read(question) else ""
        clauses = split_clauses(question)
        asking = [*filter(asks, clauses)] or clauses  # "... and buy them for 41.30" asks for nothing
        is_joined = len(asking) > 1 or any(clause.endswith(_JOINING_ENDINGS) for clause in clauses)
        if not is_joined and any(result.status == "completed" for result in evidence.results):
            return ""
        called = {(result.server, result.tool) for result in evidence.ran_or_refused}
        index, counts = index_tools(tools), self._chat.tool_usage.counts
        for clause in asking:
            domain = find_domain_tools(index, clause, counts)
            if not {server for server, _ in called}.isdisjoint(tool.server for tool in domain):
                domain = [*filter(takes_query, domain)]
            meant = find_sure_tools(index, clause, counts) or [*filter(takes_query, domain), *domain][:1]
            if any(not may_write(tool) and (tool.server, tool.name) not in called for tool in meant):
                return clause
        # of the words of a request in Japanese or Chinese the thesaurus has fewer
        requests = [text for text in split_requests(question) if self._may_be_read(text) or CJK_RUN.search(text)]
        return next((request for request in requests if not _is_looked_up(request, evidence, tools)), "")

    def is_follow_up(self) -> bool:
        """Return whether the question alone says nothing: "and the library?"."""
        return is_follow_up(self._evidence.question.original)

    def find_other_tools(self) -> list[Tool]:
        """Return the tools that only read and may do what the only call failed to do, if the model tells which may.

        "The temperature of the bathroom" was asked of a board without a sensor. What is no car park for one tool is no
        car park for the others of its server. For a change nothing else is looked up.
        """
        evidence = self._evidence
        made = evidence.ran_or_refused
        question = evidence.question.original
        is_failed = len(made) == 1 and made[0].status == "failed"
        may_try = can_choose(self._chat, question) or can_compare(self._chat)
        if asks_for_change(question) or asks_to_remember(question) or not (is_failed and may_try):
            return []
        others = [tool for tool in self._tools if tool.server and not may_write(tool) and tool.name != made[0].tool]
        used = made[0].arguments.keys()
        return [tool for tool in others if tool.server != made[0].server or used.isdisjoint(required_of(tool.schema))]

    def has_found_nothing(self) -> bool:
        """Return whether the only call for a question of one part found nothing, and had no number or file of it."""
        evidence = self._evidence
        made, question = evidence.ran_or_refused, evidence.question.original
        if len(made) != 1 or not (made[0].status == "failed" or found_nothing(made[0])):
            return False
        used = Source("\n".join(str(value) for value in walk_leaves(made[0].arguments)))
        return len(split_clauses(question)) == 1 and not any(map(used.has, list_names(question)))

    def list_parts(self) -> list[str]:
        """Return the open parts of a question that ask for something, if it has several, where that was measured."""
        question = self._evidence.question.original
        if not (self._are_strict and can_force_calls(self._chat)):
            return []
        parts = self._list_open(split_clauses(question))
        parts = [part for part in parts if not (_THING.fullmatch(part) or _QUESTION_WORD.fullmatch(part))]
        parts = [part for part in parts if not self._is_told_by_file(part)]
        # the rest is of the change: "a new file with a tent, a torch and socks"
        if asks_for_change(question) and sum(map(_asks_for_any, split_clauses(question))) == 1:
            return []
        return [part for part in parts if _asks_for_any(part) and not asks_to_remember(part)]

    def _is_told_by_file(self, part: str) -> bool:
        """Return whether a part of the question is of a file that it names, and that was read.

        "味噌汁の材料を教えて。misoshiru.txtにあります。": it has no name of its own, and means no tool clearly.
        """
        counts = self._chat.tool_usage.counts
        return FileRules(self._chat).has_read_all() and not (
            list_names(part) or find_sure_tools(index_tools(self._tools), part, counts)
        )

    def list_named_parts(self) -> list[str]:
        """Return the open parts of an English question that only name what the rest asks for: "and a kid?"."""
        parts = self._list_open(split_clauses(self._evidence.question.original))
        short = [part for part in parts if part.isascii() and len(WORD.findall(part)) <= _MAX_NAMING_WORDS]
        return [part for part in short if any(extract_terms(part))]

    def _list_open(self, parts: Sequence[str]) -> list[str]:
        """Return the parts that no call has looked up; none of a question that has one part."""
        evidence = self._evidence
        return [part for part in parts if len(parts) > 1 and not _is_looked_up(part, evidence, self._tools)]

    def find_joined_tools(self) -> list[Tool]:
        """Return the tool that reads and of which all calls of the turn are, if the question joins several things.

        "How much is a ticket for a pensioner, and for a student?": a model that was answered tells of one. Only models
        that may choose are asked.
        """
        evidence = self._evidence
        question = evidence.question.original
        called = {(result.server, result.tool) for result in evidence.ran_or_refused}
        is_done = all(result.status == "completed" for result in evidence.ran_or_refused)
        clauses = [clause for clause in split_clauses(question) if any(extract_terms(clause))]
        has_more = 0 < len(evidence.results) < count_things(question) and (
            len(clauses) == 1 or bool(self._list_open(clauses))
        )
        if not (is_done and has_more and len(called) == 1 and can_choose(self._chat, question)):
            return []
        made = [tool for tool in self._tools if (tool.server, tool.name) in called and tool.server]
        return [tool for tool in made if not may_write(tool) and properties_of(tool.schema) and not takes_query(tool)]

    def find_tools_before(self) -> list[Tool]:
        """Return the tools that only read and that the turn before called, if a first question may go on with them."""
        evidence = self._evidence
        question = evidence.question.original
        goes_on = list_names(question) or self.is_follow_up()
        if not (goes_on and self._are_strict) or evidence.ran_or_refused:
            return []
        before = [tool for tool in self._tools if (tool.server, tool.name) in evidence.called_before]
        return [tool for tool in before if tool.server and not may_write(tool)]

    def find_near_tools(self) -> list[Tool]:
        """Return the tools that only read of the servers that the turn before called, if the question refers to it.

        "When does it close?" is asked of the pool; of all tools, a model called one that it had called for lunch.
        """
        evidence = self._evidence
        if not (self._are_strict and refers_back(evidence.question.original)) or evidence.ran_or_refused:
            return []
        before = {result.server for result in evidence.results_before if result.status == "completed"}
        return [tool for tool in self._tools if tool.server in before and not may_write(tool)]

    def was_called_before(self, tool: Tool) -> bool:
        """Return whether the turn before called a tool."""
        return (tool.server, tool.name) in self._evidence.called_before

    def list_changed(self, tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
        """Return the arguments in which a call differs from that of the turn before; see `Evidence.list_changed`."""
        return self._evidence.list_changed(tool.server, tool.name, arguments)

    def find_telling_servers(self, message: str) -> set[str]:
        """Return the servers that told of what a message names; see `Evidence.find_telling_servers`."""
        return self._evidence.find_telling_servers(message)

    def find_helping_tools(self) -> list[Tool]:
        """Return the tools of its server that help where the last look-up found nothing, where that was measured.

        A model asks a memory for a sentence, and a database for columns that it makes up. Tools that tell all that
        there is come first; for a query also those that describe a table, and then the query again. So it is where only
        tables were looked up, and the question names something else, or asks for how many there are.
        """
        evidence = self._evidence
        if not (evidence.results and self._are_strict):
            return []
        if repairing := self._find_repairing_tools():
            return repairing
        last = evidence.results[-1]
        failed = next(filter(found_nothing, reversed(evidence.results)), None)
        failed = failed if failed and (failed is last or is_query(failed)) else None
        last = failed or last
        own = [tool for tool in self._tools if tool.server == last.server]
        called = [result.tool for result in evidence.results if result.server == last.server]
        if failed and not is_query(failed):
            # who does not speak of a memory is not told all that is in it
            question, counts = evidence.question.original, self._chat.tool_usage.counts
            domain = find_domain_tools(index_tools(self._tools), question, counts)
            is_meant = any(tool.server == failed.server for tool in domain) or shares_term(
                failed.server, evidence.question
            )
            return _list_overview_tools(own, called) if is_meant else []
        query = failed.tool if failed else next((tool.name for tool in own if takes_query(tool)), "")
        has_tables = all("table" in name for name in called)
        is_of_tables = _QUANTITY.search(evidence.question.text) or says_where(evidence.question.original, own)
        asks_for_rows = evidence.left_over or (has_tables and is_of_tables)
        if not failed and (not query or query in called or not asks_for_rows):
            return []
        is_told_more = called[-1] != query and called.count(query) < _MAX_QUERIES
        return list_table_tools(own, called) or [tool for tool in own if tool.name == query and is_told_more]

    def _find_repairing_tools(self) -> list[Tool]:
        """Return the tool of its server that the error of the last call names, or the failed one once that is done.

        "No changes staged for commit. Use git_add to stage changes first": then the commit is made.
        """
        evidence = self._evidence
        last = evidence.results[-1]
        is_change = (last.server, last.tool) in self._list_writing()
        own = [tool for tool in self._tools if tool.server == last.server and (is_change or not may_write(tool))]
        if last.status == "failed":
            called = {result.tool for result in evidence.results if result.server == last.server}
            named = [(last.text.find(tool.name), tool) for tool in own if _is_spelled_out(tool.name)]
            named = [(place, tool) for place, tool in named if place >= 0 and tool.name not in called]
            return [tool for _, tool in sorted(named, key=itemgetter(0))[:1]]
        failed = [result for result in evidence.failures if result.server == last.server and last.tool in result.text]
        return [tool for tool in own if failed and tool.name == failed[-1].tool and last.status == "completed"]

    def _may_be_read(self, request: str) -> bool:
        """Return whether a request has a word of a tool that only reads."""
        tools = [tool for tool in self._tools if tool.server and not may_write(tool)]
        reading = {term for tool in tools for term in extract_terms(describe_tool(tool))}
        return not reading.isdisjoint(extract_question_terms(request))


def _is_spelled_out(name: str) -> bool:
    """Return whether the name of a tool is no word: "git_add", "addFile", but not "add"."""
    return not name.isalpha() or not (name.islower() or name.istitle())


def _asks_for_any(part: str) -> bool:
    return asks(part) or asks_for_change(part)


def list_table_tools(tools: Sequence[Tool], called: Collection[str]) -> list[Tool]:
    """Return the tools that are called before a query: they tell the tables, or else describe one.

    Args:
        tools: The tools of a server that has a database.
        called: The names of those that were called, which are left out.
    """
    describing = [tool for tool in tools if "table" in tool.name and tool.name not in called and not may_write(tool)]
    return _list_overview_tools(tools, called) or describing


def _list_overview_tools(tools: Sequence[Tool], called: Collection[str]) -> list[Tool]:
    """Return the tools that tell without arguments all that there is, if they were not called."""
    new = (tool for tool in tools if tool.name not in called and not (may_write(tool) or required_of(tool.schema)))
    return [tool for tool in new if _OVERVIEW.search(describe_tool(tool))]


def _is_looked_up(request: str, evidence: Evidence, tools: Sequence[Tool]) -> bool:
    """Return whether a call of the turn has a value of a request, or no value and is of a tool that it speaks of.

    So it is where a result has all words of the request: "Where is the kick-off meeting? It is in meeting.md."
    """
    asked, terms = Source(request), {*extract_question_terms(request)}
    about = {(tool.server, tool.name): {*extract_terms(describe_tool(tool))} for tool in tools}

    found = {*extract_terms("\n".join(result.text for result in evidence.results))}
    telling = {term for term in extract_terms(request) if not term.startswith("=")}
    if len(telling) >= _MIN_FOUND_TERMS and telling <= found:
        return True

    def has_value(value: object) -> bool:
        """The time in Oslo is not looked up by reading oslo.txt."""
        return asked.has_part(value) and (asked.has(value) or not list_places(str(value)))

    return any(
        any(map(has_value, walk_leaves(result.arguments)))
        if result.arguments
        else not terms.isdisjoint(about.get((result.server, result.tool), ()))
        for result in evidence.ran_or_refused
    )
