"""Value rules: are calls and answers made of what the question, the conversation and the results say?

A small model goes on calling tools with values that it makes up, or feeds a result back to the tool that it comes from.
Schema and grammar see nothing wrong with that; the values do. The rules need no model: they look at whether the words
and numbers of an argument or an answer stand somewhere, and at a few forms of sentences. They decide that a turn
answers now, that an answer is asked for again, or that a person is asked; what a policy refuses stays refused. REASONS
has each.

Of 59 recorded calls to English questions, 11 had a value that stands nowhere; 10 of them were wrong. Of 18 calls that
may change something, 4 had one, and none of the 8 right ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any

from ..calls.described_calls import (
    admits_failure,
    asks,
    asks_for_change,
    claims_change,
    find_takers,
    is_apology,
    is_data,
    is_question,
    is_refusal,
    is_taken,
    list_places,
    repeats_question,
    tells_only,
)
from ..calls.percentages import write_percentages
from ..calls.schema.resolve import properties_of, required_of
from ..calls.time_zones import write_time_zones
from ..core.events import ReplyDiscarded
from ..core.i18n import detect_text_language
from ..core.messages import Tool, ToolResult
from ..prompt.tool_ranking import (
    CAMEL_CASE,
    CJK_RUN,
    ToolIndex,
    extract_question_terms,
    extract_terms,
    find_domain_tools,
    find_sure_tools,
    rank_tools,
    split_clauses,
    split_requests,
)
from .conversation import Conversation
from .evidence import (
    KATAKANA,
    MIN_SUPPORTED,
    NUMBER,
    REFERENCE,
    WORD,
    Evidence,
    Source,
    get_stop_words,
    is_composed,
    list_names,
    normalize,
    sounds_like,
    walk_leaves,
)

__all__ = ["REASONS", "ValueRules", "drop_placeholders", "may_be_meant", "may_write", "takes_query"]

REASONS: Mapping[str, str] = {
    "invented": "behind a result, or asked about the user: a value stands nowhere",
    "unspoken": "a first call, or one without values, of a tool for something that the question does not speak of",
    "circular": "the tool answered already, and the call has nothing of the question that no call has used",
    "unrelated": "an answer has no word and no number of a result that no later call was made of",
    "foreign": "an answer is in another language than the question, of those with scripts of their own",
    "echo": "an answer repeats the question, or what the model was asked",
    "misplaced": "a call gives a file, an address or a date to a tool that takes none, and another one does",
    "refused": "an answer without a call apologizes, which models do because tools are listed",
    "unmade": "an answer says that the change was made that the question asks for, and no such call has completed",
    "data": "an answer behind calls is JSON, and the question asks for none",
    "nameless": "a call has a name of the conversation in the place of a tool's",
    "announced": "a reply has no call, and a call is made in its place",
    "missing": "an announced call reads something that the question does not name: the user is asked",
    "unasked": "behind a result: the call may change something, and the question does not ask for that",
}
"""Why the calls of a reply do not run, or its text is no answer; `terminal.discarded_*` says it to the user."""

_MIN_JUDGED_WORDS = 5
"""Words from which on an answer must have something of its results, where the family was not measured."""
_MIN_NAME_LENGTH = 4
"""Characters from which on a word of a call tells what it was about."""
_MIN_TOLD = 2
"""Words from which on a result tells something of its own, so that an answer must have one of them."""
_PLACEHOLDER = re.compile(
    r"(?:[a-z]:)?[\\/]+(?:path|your|folder|directory)(?:[\\/_ -].*)?|(?:[\\/]|[a-z]:[\\/])?path[\\/]to[\\/].*"
    r"|your[_ -].*|<[^<>]*>|\.\.\.|…|none|null|n/a",
    re.IGNORECASE,
)
"""What models write into an argument that is not given."""
_RESOURCE_TOOLS = frozenset(("list_resources", "read_resource"))
"""The program's own tools for what servers have to read."""
_SQL_WORD = re.compile(r"\b[A-Z]+\b")
_PATH_NAME = re.compile(r"(?:path|folder|directory|dir|repo|repository)$", re.IGNORECASE)
"""Name of an argument that takes a path."""
_STAND_INS = """
    any auto automatic current default here home local localhost localtime location me my now system this time timezone
    today user utc zone
"""
"""Words of a value that names what is here, now or usual: nobody has to say it to a call that only reads."""
_NAME = re.compile(r"[^\W\d_]+(?:[\s/._-][^\W\d_]+)*")
_CODE = re.compile(r"[A-Z]{2,5}|[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)+|.{1,3}")
"""A code, an abbreviation, or a time zone: the translation of a name in the question."""
_READING_VERBS = """
    calculate check compute convert count describe fetch find get list look lookup query read search show view
"""
"""First words of the names of tools that only read, although their servers say nothing of it."""
_LANGUAGES = re.compile(
    r"[英译訳翻中法德韩韓日西俄][文语語]|[译訳翻]|translat|language|japan|chin(?:a|ese)|kanji|hiragana|katakana"
)
"""What a question about another language has."""
_MIN_FOREIGN_LETTERS = 8
_ENGLISH_WORDS = "a and how my of that the this what when where which who why with you your"
"""Words of which an English question has one, and that are rare in other languages."""
_JOINED = ("と", "や", "和", "及")
"""How the first of two things ends that a Japanese or Chinese question joins."""
_MAX_QUERIES = 3
"""How many queries of a turn may fail until no other one is asked for."""
_MAX_OF_DOMAIN = 4
"""How many tools of the server that a question is about are considered."""
_GOES_ON = re.compile(r"^(?:じゃあ?|では|それでは|それなら|那么?)|(?:呢|は)[?？]?$")
"""How a short question in Japanese or Chinese goes on with the one before."""
_SAID = re.compile(
    r"\b(?:did|have|had) I (?:\w+ )?(?:say|said|tell|told|mention)|\bI (?:\w+ )?(?:said|told|mentioned)\b"
    r"|と(?:言|話|伝え)(?:い|っ|し)|覚えて(?:い)?(?:る|ます)|[说說告訴诉提]过"
)
"""What a question has that asks for what the user said before."""
_TELLS_ALL = re.compile(r"\b(?:all|entire|every|whole)\b", re.IGNORECASE)
"""Description of a tool that tells all that there is."""
_SQL = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_SQL_DEFINITION = re.compile(r"\s*(CREATE|ALTER|DROP)\b", re.IGNORECASE)
_NOTHING = re.compile(r"(?:\w+ )?error\b|no such\b", re.IGNORECASE)
"""How the text of a result begins that is an error, although its server says that the call completed."""
_FIRST_PERSON = frozenset(("i", "my", "mine", "myself"))


class ValueRules:
    """What the value rules say about the next calls and the answer of a conversation."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat

    def hold_for(self, tool: Tool) -> bool:
        """Return whether they hold for a tool: not for the program's own, nor for what a client of the API runs.

        `allow` says of a tool that it may run, not what with.
        """
        return self._are_on and bool(tool.server) and not self._chat.is_run_by_client(tool)

    def find_forbidden(self, tool: Tool, arguments: Mapping[str, Any]) -> ReplyDiscarded | None:
        """Return why a call ends the calling; a person is asked about what may change something."""
        evidence, is_strict = self._evidence, self._chat.profile.forces_calls
        if is_strict and self.find_takers(tool, arguments):
            return ReplyDiscarded(reason="misplaced", values=tool.name)
        if self._are_on and is_strict and self._is_of_no_resource(tool, arguments, evidence):
            return ReplyDiscarded(reason="unspoken", values=tool.name)
        if not self.hold_for(tool):
            return None
        reason = _find_reason(tool, arguments, evidence, is_strict)
        if not reason or (reason == "unasked" and self._chat.can_ask):
            return None
        values = ", ".join(map(_write_value, walk_leaves(arguments)))
        return ReplyDiscarded(reason=reason, values=f"{tool.name}: {values}" if values else tool.name)

    def _is_of_no_resource(self, tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
        """Return whether a call lists or reads resources of which nobody has spoken: models call that for anything."""
        if tool.server or tool.name not in _RESOURCE_TOOLS:
            return False
        is_known = normalize(str(arguments.get("uri", "\0"))) in evidence.known.text
        return not (is_known or _shares_term("resource", evidence.question))

    def find_takers(self, tool: Tool, arguments: Mapping[str, Any]) -> list[Tool]:
        """Return the tools for a file, an address or a date of the question that a call gives to another tool.

        A list of resources in the place of a file is such a call, too. What may change something stands in for what
        may, and what only reads for what does. Later turns would go on with the call that failed.
        """
        if not self._are_on or self._chat.is_run_by_client(tool):
            return []
        evidence, tools = self._evidence, self._chat.toolbox.tools
        question = evidence.question.original
        others = [other for other in tools if other.server and may_write(other) == may_write(tool)]
        leaves = [(name, str(leaf)) for name, value in arguments.items() for leaf in walk_leaves(value)]
        is_spoken_of = bool(tool.server) and _shares_term(tool.name, evidence.question)
        is_about_question = is_spoken_of or any(evidence.question.has_part(leaf) for _, leaf in leaves)
        takers = [
            taker
            for place in list_places(question)
            if not (is_about_question or evidence.used.has(place))
            or any(place in leaf and not (tool.server and is_taken(tool, name, place)) for name, leaf in leaves)
            for taker in find_takers(place, others)
        ]
        if not (evidence.ran_or_refused or list_places(question)) and tool.server and not may_write(tool):
            takers = self._find_domain_instead(tool, others)
        failed = {(result.server, result.tool) for result in evidence.ran_or_refused if result.status != "completed"}
        meant = [taker for taker in takers if may_be_meant(taker, question)]
        return [taker for taker in meant if (taker.server, taker.name) not in failed]

    def _find_domain_instead(self, tool: Tool, others: Sequence[Tool]) -> list[Tool]:
        """Return the tools of the server that a question is about, if a tool is of another and not likely at all."""
        question, counts = self._evidence.question.original, self._chat.tool_usage.counts
        index = ToolIndex(self._chat.toolbox.tools)
        domain = find_domain_tools(index, question, counts)
        is_instead = domain and domain[0].server != tool.server and tool not in rank_tools(index, question, counts)
        return [other for other in domain if other in others][:_MAX_OF_DOMAIN] if is_instead else []

    def find_unrelated(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer is asked for once more: it leaves results out, or is in another language.

        Where that was not measured for the family, a short answer stands ("Yes.", "Done.").
        """
        evidence, tools = self._evidence, self._chat.toolbox.tools
        if self._chat.answers_json:
            return None
        if self._chat.profile.forces_calls and _is_foreign(reply, evidence.question):
            return ReplyDiscarded(reason="foreign")
        is_short = len(WORD.findall(reply)) < _MIN_JUDGED_WORDS and not self._chat.profile.forces_calls
        told, has_failed = self._find_told(reply), all(result.status == "failed" for result in evidence.results)
        if evidence.failures and has_failed and not is_short:
            return None if admits_failure(reply) else ReplyDiscarded(reason="unrelated")
        if is_short or all(told.values()):
            return None
        if any(told.values()):
            return ReplyDiscarded(reason="unrelated")
        called = {(result.server, result.tool) for result in evidence.results}
        about = [_describe(tool) for tool in tools if (tool.server, tool.name) in called]
        return None if _answers_the_rest(reply, evidence, about) else ReplyDiscarded(reason="unrelated")

    def find_left_out(self, reply: str) -> list[ToolResult]:
        """Return the results, and the failures beside them, that an answer has nothing of."""
        evidence, told = self._evidence, self._find_told(reply)
        if not (any(told.values()) or self.find_unrelated(reply)):  # it is about something else
            return []
        left_out = [evidence.results[index] for index, is_told in told.items() if not is_told]
        return left_out + ([] if admits_failure(reply) else evidence.failures)

    def list_unsettled(self) -> list[str]:
        """Return the names and files of a question in no call and no result; a word in katakana was translated.

        None of them where something was changed: its calls say it in words of their own.
        """
        evidence = self._evidence
        if self._has_changed(evidence):
            return []
        left_over = [name for name in self.find_left_over() if not evidence.count_failed(name)]
        return [name for name in left_over if not name[0].isdigit() and not CJK_RUN.fullmatch(name)]

    def _find_told(self, reply: str) -> dict[int, bool]:
        """Return the indices of the results that an answer is to tell, and whether it has something of each.

        None that failed, nor one of which a later call was made, nor a change beside other results: the program says
        what was changed. "Thank you for the information!", and a refusal that a conversation has once, are repeated
        behind every result; of two results a model often tells one.
        """
        evidence = self._evidence
        if not self._are_on or self._chat.answers_json:
            return {}
        writing = {(tool.server, tool.name) for tool in self._chat.toolbox.tools if may_write(tool)}
        results = evidence.results
        completed = [index for index in evidence.final_results if results[index].status == "completed"]
        read = [index for index in completed if (results[index].server, results[index].tool) not in writing]
        return {index: _holds_result(reply, results[index].text, evidence) for index in read or completed[-1:]}

    def find_unmade(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer does not stand: it says that a change was made, and no call has made one."""
        chat, evidence = self._chat, self._evidence
        if not (self._are_on and chat.toolbox.tools) or chat.answers_json:
            return None
        question = evidence.question.original
        is_claimed = asks_for_change(question) and claims_change(reply, question)
        return ReplyDiscarded(reason="unmade") if is_claimed and not self._has_changed(evidence) else None

    def _has_changed(self, evidence: Evidence) -> bool:
        """Return whether a call that may change something has completed in the turn."""
        reading = {(tool.server, tool.name) for tool in self._chat.toolbox.tools if not may_write(tool)}
        made = [result for result in evidence.results if result.status == "completed"]
        return any((result.server, result.tool) not in reading for result in made)

    def is_change_open(self, reply: str) -> bool:
        """Return whether a change is claimed that no call has made, or the call that the question asks for failed."""
        return bool(self.find_unmade(reply)) or self._has_failed_change()

    def _has_failed_change(self) -> bool:
        evidence = self._evidence
        is_asked = self._are_on and self._chat.profile.forces_calls and asks_for_change(evidence.question.original)
        failed = [result for result in evidence.failures if may_write(Tool(result.tool))]
        return is_asked and len(failed) == 1 and not self._has_changed(evidence)

    def find_unfit(self, reply: str) -> ReplyDiscarded | None:
        """Return why a reply is no answer, whatever it tells of results; JSON is one where the question asks for it."""
        evidence = self._evidence
        is_prose = evidence.ran_or_refused and not self._chat.answers_json and "json" not in evidence.question.text
        chat = self._chat  # without tools, a model that repeats something may be asked to
        if chat.profile.forces_calls and chat.toolbox.tools and repeats_question(reply, evidence.question.original):
            return ReplyDiscarded(reason="echo")
        return ReplyDiscarded(reason="data") if is_prose and is_data(reply) else self.find_unmade(reply)

    def find_refused(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer is asked for without the tools, where that was measured: later ones apologize, too."""
        chat = self._chat
        is_judged = chat.profile.forces_calls and chat.toolbox.tools and not chat.answers_json
        return ReplyDiscarded(reason="refused") if is_judged and is_apology(reply) else None

    def find_tools_before(self) -> list[Tool]:
        """Return the tools that only read and that the turn before called, if a first question may go on with them."""
        evidence = self._evidence
        goes_on = list_names(evidence.question.original) or _GOES_ON.search(evidence.question.text)
        if not (goes_on and self._are_on and self._chat.profile.forces_calls) or evidence.ran_or_refused:
            return []
        before = [tool for tool in self._chat.toolbox.tools if (tool.server, tool.name) in evidence.called_before]
        return [tool for tool in before if tool.server and not may_write(tool)]

    def find_helping_tools(self) -> list[Tool]:
        """Return the tools of its server that help where the last look-up found nothing, where that was measured.

        A model asks a memory for a sentence, and a database for columns that it makes up. Tools that tell all that
        there is come first; for a query also those that describe a table, and then the query again. So it is where only
        tables were looked up, and the question names something else.
        """
        evidence = self._evidence
        if not (evidence.results and self._are_on and self._chat.profile.forces_calls):
            return []
        failed = next(filter(_found_nothing, reversed(evidence.results)), None)
        last = failed or evidence.results[-1]
        own = [tool for tool in self._chat.toolbox.tools if tool.server == last.server]
        called = [result.tool for result in evidence.results if result.server == last.server]
        if failed and not _takes_sql(failed):
            return _list_overviews(own, called)
        query = failed.tool if failed else next((tool.name for tool in own if takes_query(tool)), "")
        if not failed and (query in called or not evidence.left_over):
            return []
        is_told_more = called[-1] != query and called.count(query) < _MAX_QUERIES
        return list_before_query(own, called) or [tool for tool in own if tool.name == query and is_told_more]

    def is_sorry(self, reply: str) -> bool:
        """Return whether an answer without any call apologizes, where that was measured: later ones would repeat it."""
        is_first = self._chat.profile.forces_calls and not self._evidence.ran_or_refused
        return is_first and bool(self._chat.toolbox.tools) and is_apology(reply)

    def find_refused_fact(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer does not stand that apologizes to who only tells something."""
        return self.find_refused(reply) if tells_only(self._evidence.question.original) else None

    def find_left_over(self) -> list[str]:
        """Return what the question names and nobody has looked up: the model is made to write a call with it."""
        evidence = self._evidence
        if not self._are_on or self._chat.answers_json:  # a request for JSON names much that nobody is to look up
            return []
        called = {(result.server, result.tool) for result in evidence.results}
        tools = (tool for tool in self._chat.toolbox.tools if (tool.server, tool.name) in called)
        about = {term for tool in tools for term in extract_terms(_describe(tool))}  # `get_memory` looks up "RAM"
        left_over = evidence.left_over
        return [name for name in left_over if not name.isalpha() or about.isdisjoint(extract_terms(name))]

    def find_open_request(self) -> str:
        """Return what of the question is open, where a tool may read it; "" for nothing.

        Behind calls it is a part that clearly means a tool that only reads and has not been called, else a request of
        which no call has a value; before them it is all of the question. Where that was measured: it is forced or asked
        alone.
        """
        evidence = self._evidence
        if not (self._are_on and self._chat.profile.forces_calls) or self._chat.answers_json:
            return ""
        question, tools = evidence.question.original, [tool for tool in self._chat.toolbox.tools if tool.server]
        if not evidence.ran_or_refused:
            return question if self._may_be_read(question) else ""
        clauses = split_clauses(question)
        asking = [*filter(asks, clauses)] or clauses  # "... and buy them for 41.30" asks for nothing
        is_joined = len(asking) > 1 or any(clause.endswith(_JOINED) for clause in clauses)
        if not is_joined and any(result.status == "completed" for result in evidence.results):
            return ""
        called = {(result.server, result.tool) for result in evidence.ran_or_refused}
        index, counts = ToolIndex(tools), self._chat.tool_usage.counts
        for clause in asking:
            domain = find_domain_tools(index, clause, counts)
            meant = find_sure_tools(index, clause, counts) or [*filter(takes_query, domain), *domain][:1]
            if any(not may_write(tool) and (tool.server, tool.name) not in called for tool in meant):
                return clause
        requests = filter(self._may_be_read, split_requests(question))
        return next((request for request in requests if not _is_looked_up(request, evidence, tools)), "")

    def _may_be_read(self, request: str) -> bool:
        """Return whether a request has a word of a tool that only reads."""
        tools = [tool for tool in self._chat.toolbox.tools if tool.server and not may_write(tool)]
        reading = {term for tool in tools for term in extract_terms(_describe(tool))}
        return not reading.isdisjoint(extract_question_terms(request))

    @property
    def _are_on(self) -> bool:
        """Whether they hold at all: with `approve = "all"` a user takes the calls as they come.

        The model of a service that has its own form of calls is larger than those that they were measured with.
        """
        return self._chat.settings.policy.approve != "all" and not self._chat.backend.native_tools

    def list_missing(self, tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
        """Return the required arguments from nowhere that the user is asked for.

        Of a call that may change something, or of the first one, if the question names nothing that they could be.
        """
        if not self.hold_for(tool):
            return []
        evidence, is_strict = self._evidence, self._chat.profile.forces_calls
        if may_write(tool) or _asks_for_nothing(tool, arguments, evidence, is_strict):
            return _list_missing(tool, arguments, evidence.known, evidence.question)
        return []

    def list_made_up(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the arguments from nowhere of a call; who is asked about it is told. A name may be a translation."""
        if not self.hold_for(tool):
            return ()
        evidence = self._evidence
        made_up = _list_unsupported(tool, arguments, evidence.known, evidence.question)
        return tuple(name for name in made_up if not _may_translate(arguments[name], evidence.question))

    def list_dispensable(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the optional arguments from nowhere of a call that only reads."""
        if may_write(tool) or not self.hold_for(tool):
            return ()
        required = required_of(tool.schema)
        made_up = _list_unsupported(tool, arguments, self._evidence.known)
        return tuple(name for name in made_up if name not in required)

    def fill_folder(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with the only folder of the tool's server where a required one says nothing of a path.

        "The last commit of this repository": a model writes "/path/to/repo", and the server's entry says which it is.
        """
        folders = self._chat.get_folders().get(tool.server, ())
        if len(folders) != 1 or not self.hold_for(tool):
            return arguments
        files = list_places(self._evidence.question.original)
        return {
            name: next((file for file in files if str(value).endswith(f"/{file}")), folders[0])
            if name in required_of(tool.schema) and _PATH_NAME.search(name) and _is_placeholder(value)
            else value
            for name, value in arguments.items()
        }

    def drop_limits(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a reading call without optional numbers from nowhere, where that was measured.

        `lines = 1` of a file about beans left the beans out.
        """
        if may_write(tool) or not (self._chat.profile.forces_calls and self.hold_for(tool)):
            return arguments
        question = self._evidence.question
        made_up = {
            *_list_unsupported(tool, arguments, question),
            *(name for name, value in arguments.items() if value == 1 and "1" not in question.text),  # "the last one"
        }
        required = required_of(tool.schema)
        return {
            name: value
            for name, value in arguments.items()
            if name in required
            or not (name in made_up or _is_stand_in(value))
            or not isinstance(value, int | float | str)
        }

    def write_percentages(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with the percentages of the question as such in a calculation."""
        if not self.hold_for(tool):
            return arguments
        return write_percentages(arguments, self._evidence.question.original)

    def write_time_zones(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with the zones of cities."""
        return write_time_zones(arguments) if self.hold_for(tool) else arguments

    def is_known(self, value: str) -> bool:
        """Return whether a value stands in the question, the conversation or a result."""
        return self._evidence.known.has(value)

    def support(
        self, tool: Tool, arguments: Mapping[str, Any], by_question: bool = False, names: Sequence[str] = ()
    ) -> bool:
        """Return whether a call that the reply does not make may be made: all of its values stand somewhere.

        One without arguments has no values; it is made if it only reads and is not what the question is about.

        Args:
            tool: The tool.
            arguments: The arguments of the call.
            by_question: They stand in the question or in what it refers to, because the reply does not name the tool;
                one that reads may have translated a name.
            names: What the call must use, and no rule forbid it; empty for any call.
        """
        evidence = self._evidence
        if self.find_takers(tool, arguments) or (
            names and (self.find_forbidden(tool, arguments) or not _look_up(arguments, names))
        ):
            return False
        if any(_defines_table(value, evidence.question) for value in walk_leaves(arguments)):
            return False
        if not arguments:
            is_spoken_of = not by_question or _shares_term(tool.name, evidence.question)
            return not may_write(tool) and is_spoken_of and not _names_tool(tool, evidence.question)
        if by_question and may_write(tool) and any(map(is_composed, walk_leaves(arguments))):
            return False
        if not by_question:
            return not _list_unsupported(tool, arguments, evidence.known, evidence.question)
        # the folder of a server may stand before the name of a file that the question has
        source = Source("\n".join([evidence.question.original, evidence.referred, *self._folders]))
        unsupported = _list_unsupported(tool, arguments, source, evidence.question)
        return all(_may_translate(arguments[name], evidence.question) and not may_write(tool) for name in unsupported)

    @property
    def _evidence(self) -> Evidence:
        return Evidence.collect(self._chat.visible_messages, "\n".join([self._chat.settings.system, *self._folders]))

    @property
    def _folders(self) -> list[str]:
        """The folders that entries of servers name: a path in them is no made-up value."""
        return [folder for folders in self._chat.get_folders().values() for folder in folders]


def may_write(tool: Tool) -> bool:
    """Return whether a call may change something, as far as server and name say; nothing is allowed because of it."""
    first = next(iter(WORD.findall(CAMEL_CASE.sub(" ", tool.name))), "").casefold()
    return not (tool.read_only or first in _READING_VERBS.split())


def _may_translate(value: object, question: Source) -> bool:
    """Return whether a value may be a name of a Japanese or Chinese question in Latin letters, such as Asia/Tokyo.

    A name in katakana says how it sounds: Tokyo is no Honolulu.
    """
    spoken = [name for name in list_names(question.original) if KATAKANA.fullmatch(name)]
    is_latin = _NAME.fullmatch(str(value)) is not None and not CJK_RUN.search(str(value))
    is_translated = is_latin and CJK_RUN.search(question.text) is not None
    return is_translated and (not spoken or any(sounds_like(name, str(value)) for name in spoken))


def may_be_meant(tool: Tool, question: str) -> bool:
    """Return whether a question may mean a tool that it does not name: one that deletes only if it asks for that."""
    first = next(iter(WORD.findall(tool.name.replace("_", " "))), "")
    return not _shares_term(first, Source("delete")) or _asks_for(tool, Source(question))


def _found_nothing(result: ToolResult) -> bool:
    """Return whether a look-up found nothing: its text is JSON without any value, or its query failed."""
    if _takes_sql(result) and (result.status == "failed" or _NOTHING.match(result.text)):
        return True
    try:
        values = [*walk_leaves(json.loads(result.text))]
    except (ValueError, RecursionError):
        return False
    return not values


def _takes_sql(result: ToolResult) -> bool:
    return any(isinstance(value, str) and _SQL.match(value) for value in walk_leaves(result.arguments))


def list_before_query(tools: Sequence[Tool], called: Collection[str]) -> list[Tool]:
    """Return the tools of a server that tell its tables, or else those that describe one, if they were not called."""
    describing = [tool for tool in tools if "table" in tool.name and tool.name not in called and not may_write(tool)]
    return _list_overviews(tools, called) or describing


def _list_overviews(tools: Sequence[Tool], called: Collection[str]) -> list[Tool]:
    """Return the tools that tell without arguments all that there is, if they were not called."""
    new = (tool for tool in tools if tool.name not in called and not (may_write(tool) or required_of(tool.schema)))
    return [tool for tool in new if _TELLS_ALL.search(_describe(tool))]


def takes_query(tool: Tool) -> bool:
    """Return whether a tool takes an SQL query that reads."""
    return not may_write(tool) and "SELECT" in f"{tool.description} {properties_of(tool.schema)}"


def drop_placeholders(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without optional ones whose value says that there is none: `/path/to/folder`, `<name>`."""
    required = required_of(tool.schema)
    return {name: value for name, value in arguments.items() if name in required or not _is_placeholder(value)}


def _holds_result(reply: str, text: str, evidence: Evidence) -> bool:
    """Return whether an answer has a word or a number of a result that the question has not.

    An answer in another script than the result may be a translation, which keeps the numbers.
    """
    is_translated = bool(CJK_RUN.search(reply)) != bool(CJK_RUN.search(text))
    said = Source(reply)
    asked = evidence.question.words | evidence.used.words | get_stop_words()
    told = [
        word
        for word in WORD.findall(normalize(_read_content(text)))
        if (len(word) > 2 or word.isdigit())
        and not (word in asked or (word.isalpha() and evidence.question.has(word)))  # "file" is no news of "files"
    ]
    numbers = [*filter(str.isdigit, told)]
    if is_translated:
        return not numbers or any(map(said.has, numbers))
    tells_little = len(told) < _MIN_TOLD and not numbers  # "soap is on the list now."
    return tells_little or any(map(said.has, told)) or bool(CJK_RUN.search(reply))


def _read_content(text: str) -> str:
    """Return the values of a result in JSON, and of another one its text: "entities" says nothing of who they are."""
    try:
        return "\n".join(map(str, walk_leaves(json.loads(text))))
    except (ValueError, RecursionError):  # a server may nest as deep as it likes
        return text


def _is_foreign(reply: str, question: Source) -> bool:
    """Return whether an answer is a sentence in another language than a question that speaks of none.

    A few names or numbers are of no language, and Chinese characters alone may be a Japanese answer if they are few.
    """
    asked, said = detect_text_language(question.original), detect_text_language(reply)
    if not (asked and said) or asked == said or _LANGUAGES.search(question.text):
        return False
    letters = sum(map(len, CJK_RUN.findall(reply)))
    is_sentence = len(WORD.findall(reply)) >= _MIN_JUDGED_WORDS
    return is_sentence and not letters if said == "en" else letters >= _MIN_FOREIGN_LETTERS


def _answers_the_rest(reply: str, evidence: Evidence, about: Sequence[str]) -> bool:
    """Return whether an answer takes up what the question asks beside what the called tools are about.

    "CPU stands for ..." is an answer although `get_load` was called before it. An apology is none, nor is what has
    little but the words of the question.

    Args:
        reply: The answer.
        evidence: What the turn knows.
        about: The descriptions of the tools.
    """
    asked, said = ({*extract_terms(text)} for text in (evidence.question.original, reply))
    rest = asked - {*extract_terms("\n".join([*about, evidence.used.original]))}
    shared, new = rest & said, said - asked

    def tell(terms: Set[str], of: Set[str]) -> bool:  # pairs of characters such as 什么 are in any sentence
        return any(term.isascii() and term.isalpha() for term in terms) or len(terms) >= MIN_SUPPORTED * len(of)

    return bool(shared and new) and tell(shared, rest) and tell(new, said) and not is_refusal(reply)


def _is_looked_up(request: str, evidence: Evidence, tools: Sequence[Tool]) -> bool:
    """Return whether a call of the turn has a value of a request, or no value and is of a tool that it speaks of."""
    asked, terms = Source(request), {*extract_question_terms(request)}
    about = {(tool.server, tool.name): {*extract_terms(_describe(tool))} for tool in tools}
    return any(
        any(map(asked.has_part, walk_leaves(result.arguments)))
        if result.arguments
        else not terms.isdisjoint(about.get((result.server, result.tool), ()))
        for result in evidence.ran_or_refused
    )


def _look_up(arguments: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Return whether a call uses one of these names."""
    values = [str(value) for value in walk_leaves(arguments)]
    spoken = [*filter(KATAKANA.fullmatch, names)]
    is_sounding = any(sounds_like(name, value) for name in spoken for value in values)
    return is_sounding or any(map(Source("\n".join(values)).has, names))


def _list_unsupported(
    tool: Tool, arguments: Mapping[str, Any], known: Source, question: Source | None = None
) -> list[str]:
    """Return the arguments with a value that stands nowhere; choices that the schema lists and its defaults do.

    A call that only reads may say "here" and "now" without being told to.

    Args:
        tool: The tool.
        arguments: The arguments of the call.
        known: Where values may stand.
        question: What the fields of an object may say in words of their own; None if they may not.
    """
    declared, reads = properties_of(tool.schema), not may_write(tool)

    def stands(name: str, leaf: object) -> bool:
        return _is_listed(leaf, declared.get(name)) or known.has(leaf) or (reads and _is_stand_in(leaf))

    unknown = {
        name: [leaf for leaf in walk_leaves(value) if not stands(name, leaf)] for name, value in arguments.items()
    }
    return [
        name
        for name, value in arguments.items()
        if _says_nothing(tool, name, value, known)
        or (unknown[name] and not (question and _says_in_fields(value, unknown[name], question)))
    ]


def _says_in_fields(value: Any, unknown: Sequence[Any], question: Source) -> bool:
    """Return whether an object says what the question does, half of it in the question's words, and no number else.

    The fields of a server ask for words of its own: {"name": "Mia", "type": "person", "facts": ["lives in Graz"]}.
    """
    leaves = list(walk_leaves(value))
    has_fields = isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(v, Mapping) for v in value))
    is_half_said = sum(map(question.has, leaves)) >= MIN_SUPPORTED * len(leaves)
    return has_fields and is_half_said and not any(map(str.isdigit, "".join(map(str, unknown))))


def _list_missing(tool: Tool, arguments: Mapping[str, Any], known: Source, question: Source | None = None) -> list[str]:
    """Return the required arguments of a call with a value that stands nowhere: nobody said what they are."""
    required = required_of(tool.schema)
    return [name for name in _list_unsupported(tool, arguments, known, question) if name in required]


def _find_reason(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, is_strict: bool = False) -> str:
    """Return the key of REASONS why a call does not run and the model answers now; "" if it may run.

    Args:
        tool: The tool.
        arguments: The arguments of the call.
        evidence: What the turn knows.
        is_strict: A first call must be about what the question speaks of, and its values not from nowhere.
    """
    question = evidence.question.original
    if not evidence.results:
        is_asked = asks_for_change(question) or _asks_for(tool, evidence.question) or not is_question(question)
        if is_strict and may_write(tool) and not is_asked:
            return "unasked"
        if is_strict and not (_is_spoken_of(tool, arguments, evidence) and _may_be_wanted(tool, arguments, evidence)):
            return "unspoken"
        is_asked_back = _asks_for_nothing(tool, arguments, evidence, is_strict)
        return "invented" if not is_asked_back and _is_made_up(tool, arguments, evidence, is_strict) else ""
    if is_strict and not arguments and not _is_spoken_of(tool, arguments, evidence):
        return "unspoken"
    of_tool = [result for result in evidence.results if (result.server, result.tool) == (tool.server, tool.name)]
    if _list_missing(tool, arguments, evidence.known) and not _is_translated(tool, of_tool, evidence):
        return "invented"
    has_new = any(map(evidence.question.has, _unused(arguments, evidence)))
    if of_tool and not (has_new or _goes_on(tool, arguments, evidence) or _is_translated(tool, of_tool, evidence)):
        return "circular"
    if may_write(tool) and not has_new and not _asks_for(tool, evidence.question):
        return "unasked"
    if any(_defines_table(value, evidence.question) for value in walk_leaves(arguments)):
        return "unasked"
    return ""


def _defines_table(value: object, question: Source) -> bool:
    """Return whether a value is SQL that makes or changes a table, and a question does not ask for that.

    Behind a query that fails, models write such a call to make it succeed.
    """
    if not (definition := _SQL_DEFINITION.match(str(value))):
        return False
    verb = definition[1].casefold()
    is_asked_in_cjk = CJK_RUN.search(question.text) and _shares_term(verb, question)
    return question.words.isdisjoint((verb, "column")) and not is_asked_in_cjk


def _may_be_wanted(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a first call may be wanted: who asks for nothing looks nothing up, but may have it remembered."""
    is_remembered = may_write(tool) and not _list_missing(tool, arguments, evidence.known, evidence.question)
    return is_remembered or not tells_only(evidence.question.original)


def _is_spoken_of(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a question is about what a tool is for: it shares a word, a synonym, a number or a file with it.

    So it is if the turn before called the tool, if an earlier call of its server was about something that the question
    names, if it is a query about that, or if the question is in a language that has no synonyms here. "Who wrote
    Hamlet?" called `get_npu`, "Hi, I'm Mira and I live in Lyon" `get_time`.
    """
    question = evidence.question
    if (tool.server, tool.name) in evidence.called_before or not _is_understood(question):
        return True
    if _SAID.search(question.text):
        return False
    if REFERENCE.search(question.text) and any(map(evidence.known.has, NUMBER.findall(str([*walk_leaves(arguments)])))):
        return True  # "What is that for a whole year?"
    used = {value for result in evidence.earlier_calls if result.server == tool.server for value in _list_words(result)}
    if not used.isdisjoint(question.words):
        return True
    values = [str(value) for value in walk_leaves(arguments)]
    if takes_query(tool) and any(question.has_part(_SQL_WORD.sub(" ", value)) for value in values):
        return True  # what a database is about, its tables say, and not the tool
    if not set(extract_terms(_describe(tool))).isdisjoint(extract_question_terms(question.original)):
        return True
    places = [value for value in values if " " not in value and not value.isalpha()]  # files, addresses
    return any(map(question.has, [*places, *NUMBER.findall(" ".join(values))]))


def _list_words(result: ToolResult) -> list[str]:
    """Return the words that tell what a call was about."""
    words = (word for value in walk_leaves(result.arguments) for word in WORD.findall(normalize(str(value))))
    return [word for word in words if len(word) >= _MIN_NAME_LENGTH and word not in get_stop_words()]


def _describe(tool: Tool) -> str:
    return f"{tool.server} {tool.name} {tool.title} {tool.description}"


def _is_understood(question: Source) -> bool:
    """Return whether a question is in a language of the thesaurus: it has characters or little words of one."""
    return bool(CJK_RUN.search(question.text)) or not question.words.isdisjoint(_ENGLISH_WORDS.split())


def _is_made_up(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, is_strict: bool) -> bool:
    """Return whether the first call of a turn looks up elsewhere what the user has said before, or asks for nothing.

    "What is my name?" looked up "John Doe": the user speaks of themselves in a conversation that has gone on, the
    question has no word of the tool's name, and no part of a required value stands anywhere. In Japanese and Chinese
    such a value may be a translation. A placeholder asks for nothing, unless the question speaks of the tool, and
    nobody makes up "here" or "now". What may change something is asked about instead.
    """
    required = [name for name in required_of(tool.schema) if name in arguments]
    values = [value for name in required for value in walk_leaves(arguments[name])]
    if not values or may_write(tool):
        return False
    if all(_says_nothing(tool, name, arguments[name], evidence.known) for name in required):
        # the error of a server that is spoken of says what there is
        return not (_is_understood(evidence.question) and _is_spoken_of(tool, {}, evidence))
    if any(evidence.known.has(value) or _is_stand_in(value) for value in values):
        return False
    is_about_user = evidence.has_earlier_turns and not _FIRST_PERSON.isdisjoint(evidence.question.words)
    is_foreign = bool(CJK_RUN.search(evidence.question.text))
    if is_foreign or any(map(evidence.known.has_part, values)) or not (is_about_user or is_strict):
        return False
    may_be_translated = not is_strict or all(_CODE.fullmatch(str(value)) for value in values)
    return not (may_be_translated and _shares_term(tool.name, evidence.question))


def _asks_for_nothing(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, is_strict: bool) -> bool:
    """Return whether a question asks for what a tool reads, and names nothing that its first call could read.

    "Read the file.", "What is the weather?": every word is one of the tool's, and no part of a value stands anywhere.
    What the user says of themselves ("What is my name?") is no such question. A value may be a translation, but no
    placeholder is; another one counts if `is_strict`, where that was measured.
    """
    question, required = evidence.question, required_of(tool.schema)
    missing = _list_missing(tool, arguments, evidence.known)
    if evidence.results or not missing or len(missing) < len(required):
        return False
    if not _FIRST_PERSON.isdisjoint(question.words) or _names_tool(tool, question):
        return False
    has_placeholders = all(_says_nothing(tool, name, arguments[name], evidence.known) for name in missing)
    may_be_said = CJK_RUN.search(question.text) or any(evidence.known.has_part(arguments[name]) for name in missing)
    is_named = CJK_RUN.search(question.text) and re.search("[a-z0-9]{2}", question.text)  # the repository "repo"
    if is_named or not (has_placeholders or (is_strict and not may_be_said)):
        return False
    own = {*extract_terms(" ".join([_describe(tool), *properties_of(tool.schema)]).replace("_", " "))}
    usual = own | {*extract_terms(_READING_VERBS)}
    words = [{*extract_terms(word)} for word in WORD.findall(question.text) if len(word) > 2 or not word.isascii()]
    is_about_tool = not own.isdisjoint(extract_terms(question.original))
    return is_about_tool and not any(terms and terms.isdisjoint(usual) for terms in words)


def _is_translated(tool: Tool, of_tool: Sequence[ToolResult], evidence: Evidence) -> bool:
    """Return whether the tool takes names in another script than the question has: one that it took stands nowhere."""
    return bool(CJK_RUN.search(evidence.question.text)) and any(
        _list_unsupported(tool, result.arguments, evidence.question) for result in of_tool
    )


def _unused(arguments: Mapping[str, Any], evidence: Evidence) -> Iterator[object]:
    """Yield the words and numbers of the arguments that no call of the turn has used."""
    for value in walk_leaves(arguments):
        if isinstance(value, int | float):
            yield from [] if evidence.used.has(value) else [value]
            continue
        for word in WORD.findall(normalize(str(value))):
            if word not in get_stop_words() and not evidence.used.has(word):
                yield word


def _goes_on(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call goes on where one before ended: with the next file of a list, or the next page."""
    required = required_of(tool.schema)
    optional = {name: value for name, value in arguments.items() if name not in required}
    names = (value for value in _unused(arguments, evidence) if isinstance(value, str) and not value.isdigit())
    return any(map(evidence.known.has, names)) or any(True for _ in _unused(optional, evidence))


def _names_tool(tool: Tool, question: Source) -> bool:
    """Return whether a question is about a tool itself: it has its name, which is no word."""
    return not tool.name.isalpha() and normalize(tool.name) in question.text


def _asks_for(tool: Tool, question: Source) -> bool:
    """Return whether a question has the first word of a tool's name, or a synonym of it."""
    return _shares_term(next(iter(WORD.findall(tool.name.replace("_", " "))), ""), question)


def _shares_term(name: str, question: Source) -> bool:
    return not {*extract_terms(name.replace("_", " "))}.isdisjoint(extract_terms(question.text))


def _is_placeholder(value: object) -> bool:
    return isinstance(value, str) and bool(_PLACEHOLDER.fullmatch(value.strip()))


def _says_nothing(tool: Tool, name: str, value: object, known: Source) -> bool:
    """Return whether the value of an argument is a placeholder: also "note title" for `title` of `read_note`."""
    if not isinstance(value, str):
        return False
    words, own, of_tool = ({*WORD.findall(normalize(_split_name(text)))} for text in (value, name, tool.name))
    repeats_name = words <= own | of_tool and not words.isdisjoint(own - known.words)
    return _is_placeholder(value) or repeats_name


def _is_stand_in(value: object) -> bool:
    """Return whether a value names what is here, now or usual, and nothing in particular."""
    words = WORD.findall(normalize(_split_name(str(value))))
    return bool(words) and {*words} <= {*_STAND_INS.split()}


def _split_name(name: str) -> str:
    return CAMEL_CASE.sub(" ", name).replace("_", " ")


def _is_listed(value: object, schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    choices = schema.get("enum")
    return (isinstance(choices, list) and value in choices) or ("default" in schema and schema["default"] == value)


def _write_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
