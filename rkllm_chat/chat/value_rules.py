"""Value rules: is a call made of what the question, the conversation and the results say?

A small model goes on calling tools with values that it makes up, or feeds a result back to the tool that it comes from.
Schema and grammar see nothing wrong with that; the values do. The rules decide that a turn answers now, that a call is
made in the place of a reply, that its arguments are amended, or that a person is asked; what a policy refuses stays
refused. REASONS has each, and those of `reply_rules`.

Of 59 recorded calls to English questions, 11 had a value that stands nowhere; 10 of them were wrong. Of 18 calls that
may change something, 4 had one, and none of the 8 right ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from ..calls.currencies import has_unsaid_currency, write_currencies
from ..calls.described_calls import (
    asks_again,
    asks_for_change,
    asks_for_now,
    asks_to_remember,
    drop_told,
    is_file_name,
    is_follow_up,
    is_question,
    is_taken,
    list_follow_ups,
    list_places,
    tells_only,
)
from ..calls.percentages import write_percentages
from ..calls.schema.resolve import properties_of, required_of
from ..calls.time_zones import is_time_zone, write_time_zones
from ..calls.written_values import write_as_said
from ..core.events import ReplyDiscarded
from ..core.messages import Tool, ToolResult
from ..prompt.tool_ranking import (
    CJK_RUN,
    extract_terms,
    find_domain_tools,
    index_tools,
    rank_tools,
)
from .argument_values import (
    drop_defaults,
    drop_made_up_days,
    drop_unasked,
    fill_day,
    fill_quoted,
    is_choice,
    is_generic,
    is_placeholder,
    is_uninformative,
    keep_values_before,
    list_unsupported,
    list_unsupported_optional,
    list_unsupported_required,
    may_be_translation,
    uses_name,
)
from .call_choice import can_choose, can_compare
from .conversation import Conversation
from .evidence import (
    FIRST_PERSON,
    SQL_CHANGE,
    WORD,
    Evidence,
    Source,
    count_things,
    get_stop_words,
    is_composed,
    is_statement,
    list_names,
    normalize,
    walk_leaves,
)
from .file_rules import FileRules
from .file_values import ADDS, drops_lines
from .relevance import is_about_more, is_in_known_language, is_relevant
from .tool_traits import (
    READING_VERBS,
    asks_for_nothing,
    describe_tool,
    is_search_name,
    may_be_meant,
    may_write,
    names_tool,
    names_verb,
    searches,
    shares_term,
    split_name,
    takes_query,
)
from .turn_rules import TurnRules

__all__ = ["REASONS", "ValueRules"]

REASONS: Mapping[str, str] = {
    "invented": "behind a result, or asked about the user: a value stands nowhere",
    "unspoken": "a first call, or one without values, of a tool for something that the question does not speak of",
    "circular": "the tool answered already, and the call has nothing of the question that no call has used",
    "unrelated": "an answer has no word and no number of a result that no later call was made of",
    "foreign": "an answer is in another language than the question, of those with scripts of their own",
    "echo": "an answer repeats the question, or what the model was asked",
    "misplaced": "another tool takes what the question names (a file, a date), or the model finds one far likelier",
    "refused": "an answer without a call apologizes, which models do because tools are listed",
    "unmade": "an answer says that the change was made that the question asks for, and no such call has completed",
    "data": "an answer behind calls is JSON, and the question asks for none",
    "nameless": "a call has a name of the conversation in the place of a tool's",
    "announced": "a reply has no call, and a call is made in its place",
    "missing": "an announced call reads something that the question does not name: the user is asked",
    "unasked": "the call may change something, and the question does not ask for that",
}
"""Why the calls of a reply do not run, or its text is no answer; `terminal.discarded_*` says it to the user."""

_MAX_NAME_WORDS = 3
"""Words that the name of a thing has at most."""
_RESOURCE_TOOLS = frozenset(("list_resources", "read_resource"))
"""The program's own tools for what servers have to read."""
_CODE = re.compile(r"[A-Z]{2,5}|[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)+|.{1,3}")
"""A code, an abbreviation, or a time zone: the translation of a name in the question."""
_MAX_OF_DOMAIN = 4
"""How many tools of the server that a question is about are considered."""
_TIME = re.compile(r"\d\d?:\d\d(?::\d\d)?")
_SAID_TIME = re.compile(
    r"\d|\b(?:noon|midnight|midday|half|quarter|o['’]clock|mittags?|mitternachts?)\b|正午|中午|[点點半]"
)
"""What a question has that says a time of the day."""
_SQL_PARAMETER = re.compile(r"(?:=|\bVALUES\s*\(|,)\s*(?:\?|%s)", re.IGNORECASE)
_SQL_DEFINITION = re.compile(r"\s*(CREATE|ALTER|DROP)\b", re.IGNORECASE)


class ValueRules(TurnRules):
    """What the values of the next calls of a conversation say: whether each runs, is amended, or asked about."""

    def __init__(self, chat: Conversation) -> None:
        super().__init__(chat)
        self._files = FileRules(chat)

    def apply_to(self, tool: Tool) -> bool:
        """Return whether the rules apply to a tool: not for the program's own, nor for what a client of the API runs.

        `allow` says of a tool that it may run, not what with.
        """
        return self._are_on and bool(tool.server) and not self._chat.is_run_by_client(tool)

    def find_forbidden(self, tool: Tool, arguments: Mapping[str, Any]) -> ReplyDiscarded | None:
        """Return why a call ends the calling; a person is asked about what may change something."""
        if self._are_strict and self.find_intended_tools(tool, arguments):
            return ReplyDiscarded(reason="misplaced", values=tool.name)
        evidence = self._evidence
        # before `apply_to`, since these tools are the program's own
        is_own = not self._chat.is_run_by_client(tool)
        if self._are_strict and is_own and _reads_unasked_resource(tool, arguments, evidence):
            return ReplyDiscarded(reason="unspoken", values=tool.name)
        if not self.apply_to(tool):
            return None
        if self.overwrites(tool, arguments):
            return ReplyDiscarded(reason="misplaced", values=tool.name)
        if self._are_strict and self._files.rereads(tool, arguments):
            return ReplyDiscarded(reason="circular", values=tool.name)
        if self._are_strict and self._files.makes_known_folder(tool, arguments):
            return ReplyDiscarded(reason="unasked", values=tool.name)
        if missing := self._find_missing(tool, arguments):
            return ReplyDiscarded(reason="invented", values=f"{tool.name}: {missing}")
        is_chosen = not may_write(tool) and _may_be_chosen(arguments, evidence)
        is_chosen = is_chosen and can_choose(self._chat, evidence.question.original)
        is_chosen = is_chosen or self._files.reads_meant_file(tool, arguments)
        has_changed = self._has_changed(evidence)
        reason = _find_reason(tool, arguments, evidence, self._are_strict, is_chosen, has_changed)
        # a person is asked about it; without one, "Which query?" would be no question
        if not self._chat.can_ask and _has_made_up_query(tool, arguments, evidence):
            reason = "invented"
        question = evidence.question.original
        # who asks to remember something, or to make it, asks to delete nothing
        makes = asks_to_remember(question) or shares_term("add create make write", evidence.question)
        deletes = may_write(tool) and makes and not may_be_meant(tool, question)
        # nor does who tells something; what a change lacks is asked for where one is asked for
        tells = may_write(tool) and asks_for_nothing(self._tools, question)
        tells = tells and bool(list_unsupported_required(tool, arguments, evidence.known, evidence.question))
        reason = "unasked" if (deletes or tells) and self._are_strict else reason
        # a person decides whether a request means it; a question does not
        is_decided = self._chat.can_ask and not (self._are_strict and (is_question(question) or deletes or tells))
        if not reason or (reason == "unasked" and is_decided):
            return None
        values = ", ".join(map(_write_value, walk_leaves(arguments)))
        return ReplyDiscarded(reason=reason, values=f"{tool.name}: {values}" if values else tool.name)

    def overwrites(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call writes a file anew, or as it is; see `FileRules.overwrites`."""
        return self._are_strict and self.apply_to(tool) and self._files.overwrites(tool, arguments)

    def _find_missing(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """Return what a look-up cannot find: a file nobody named, or a sum without a number; "" for nothing."""
        if not self._are_strict or may_write(tool):
            return ""
        if _calculates_nothing(tool, arguments):
            return str(arguments["expression"])
        missing = self._files.find_missing_file(tool, arguments)
        # else the user is asked
        return "" if _names_no_value(tool, arguments, self._evidence, self._are_strict) else missing

    def find_intended_tools(self, tool: Tool, arguments: Mapping[str, Any]) -> list[Tool]:
        """Return the tools for a file, an address or a date of the question that a call gives to another tool.

        A list of resources in the place of a file is such a call, too. What may change something stands in for what
        may, and what only reads for what does. Later turns would go on with the call that failed.
        """
        if not self._are_on or self._chat.is_run_by_client(tool):
            return []
        evidence, tools = self._evidence, self._tools
        question = evidence.question.original
        others = [other for other in tools if other.server and may_write(other) == may_write(tool)]
        leaves = [(name, str(leaf)) for name, value in arguments.items() for leaf in walk_leaves(value)]
        if (tool.server, tool.name) in evidence.called_before and (other := list_follow_ups(question)):
            # "and the library?" is not about the pool, but "and in yen" is of JPY, and "and back?" of "to_island"
            changed = evidence.list_changed(tool.server, tool.name, arguments)
            new, declared = [arguments.get(name) for name in changed], [*map(properties_of(tool.schema).get, changed)]
            is_translated = len(new) == 1 and (str(new[0]).isupper() or is_choice(new[0], declared[0]))
            # "And with the express service?" is of `express`
            is_translated = is_translated or (new == [True] and evidence.question.has_part(split_name(changed[0])))
            return [] if is_translated or uses_name(arguments, other) else [tool]
        if tool.server and (owning := self._files.find_owning_tools(tool, [leaf for _, leaf in leaves], others)):
            return owning
        if self._are_strict and not evidence.ran_or_refused:
            readers = self._files.find_readers_instead(tool, arguments)
            if readers and tool not in readers:
                return readers
        # "Add a line to plan.txt" changes the file that was read for it; but a note may be of what a file says
        of_tool = " ".join(split_name(tool.name).split()[1:])
        names_other = shares_term(of_tool, evidence.question)  # the folder of "a folder for plan.txt"
        is_of_file = may_write(tool) and ADDS.search(evidence.question.text) and not names_other
        used = Source("") if is_of_file and not self._has_changed(evidence) else evidence.used
        is_named = bool(tool.server) and shares_term(tool.name, evidence.question)
        is_about_question = is_named or any(evidence.question.has_part(leaf) for _, leaf in leaves)
        places = list_places(question) or self._files.list_named_files()
        if asks_for_change(question) and not may_write(tool):
            places = self._files.drop_new(places)  # what is to be made is not read instead
        takers = [
            taker
            for place in places
            if not (
                (is_about_question and (names_other or not _leaves_out_file(tool, leaves, place))) or used.has(place)
            )
            or any(place in leaf and not (tool.server and is_taken(tool, name, place)) for name, leaf in leaves)
            for taker in self._files.find_takers([place], others)
        ]
        # where the model tells what a message is likely for, words do not
        is_first = not (evidence.ran_or_refused or list_places(question) or can_compare(self._chat))
        if is_first and tool.server and not may_write(tool):
            named = [other.server for other in others if shares_term(other.server, evidence.question)]
            is_elsewhere = bool(named) and tool.server not in named and (not is_named or not leaves)
            if not is_about_question or (is_elsewhere and any(map(str.istitle, list_names(question)))):
                takers = self._find_likelier_tools(tool, others)
        failed = {(result.server, result.tool) for result in evidence.ran_or_refused if result.status != "completed"}
        meant = [taker for taker in takers if may_be_meant(taker, question)]
        return [taker for taker in meant if (taker.server, taker.name) not in failed]

    def _find_likelier_tools(self, tool: Tool, others: Sequence[Tool]) -> list[Tool]:
        """Return those of `others` of the server that the question is about, if a tool is of another and not likely."""
        question, counts = self._evidence.question.original, self._chat.tool_usage.counts
        index = index_tools(self._tools)
        domain = find_domain_tools(index, question, counts)
        if domain and domain[0].server != tool.server and tool not in rank_tools(index, question, counts):
            return [other for other in domain if other in others][:_MAX_OF_DOMAIN]
        named = [other for other in others if shares_term(other.server, self._evidence.question)]
        return [other for other in named if other.server != tool.server][:_MAX_OF_DOMAIN]

    def may_offer(self, tool: Tool, arguments: Mapping[str, Any], by_question: bool, names: Sequence[str]) -> bool:
        """Return whether a call that the reply does not make may be made: all of its values stand somewhere.

        One that reads may have translated a name, or have, beside a value that was said, a code that tools want.
        One without arguments has no values; it is made if it only reads and is not what the question is about.

        Args:
            tool: The tool.
            arguments: The arguments of the call.
            by_question: They stand in the question or in what it refers to, because the reply does not name the tool.
            names: What the call must use, and no rule forbid it; empty for any call.
        """
        evidence = self._evidence
        if self.find_intended_tools(tool, arguments) or (
            names and (self.find_forbidden(tool, arguments) or not uses_name(arguments, names))
        ):
            return False
        changes_table = any(_changes_table_unasked(value, evidence.question) for value in walk_leaves(arguments))
        if changes_table or (self._are_strict and _calculates_nothing(tool, arguments)):
            return False
        if not arguments:
            # who may choose has preferred it
            about = describe_tool(tool) if can_choose(self._chat, evidence.question.original) else tool.name
            is_named = not by_question or shares_term(about, evidence.question)
            return not may_write(tool) and is_named and not names_tool(tool, evidence.question)
        if self._repeats_earlier_call(tool, arguments, evidence) or _leaves_out_arguments(tool, arguments, evidence):
            return False
        meant = write_currencies(arguments, evidence.question.original)
        if _reads_attached(tool, arguments, evidence) or has_unsaid_currency(meant, evidence.known.original):
            return False
        if self._files.writes_unread(tool, arguments) or (may_write(tool) and drops_lines(arguments, evidence)):
            return False
        if self.overwrites(tool, arguments):
            return False
        if by_question and may_write(tool) and any(map(is_composed, walk_leaves(arguments))):
            return False
        source = self._find_asked(tool, evidence) if by_question else evidence.known
        unsupported = list_unsupported(tool, arguments, source, evidence.question)
        if not unsupported or may_write(tool):
            return not unsupported
        # ハウス1 is the argument `house`
        used = [*arguments, *(str(leaf) for result in evidence.results for leaf in walk_leaves(result.arguments))]
        has_names = any(name.isascii() and name.istitle() for name in list_names(evidence.question.original))
        has_value = any(name not in unsupported and not isinstance(arguments[name], bool) for name in arguments)
        return not any(is_placeholder(arguments[name]) for name in unsupported) and all(
            may_be_translation(name, arguments[name], evidence.question, used)
            or (has_value and str(arguments[name]).isalpha() and _CODE.fullmatch(str(arguments[name])))
            or (has_names and is_time_zone(name, arguments[name]))
            for name in unsupported
        )

    def drop_unsaid(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a look-up without optional ones that the user has not said."""
        if not self.apply_to(tool) or may_write(tool):
            return arguments
        unsaid = list_unsupported_optional(tool, arguments, self._find_asked(tool, self._evidence))
        return {name: value for name, value in arguments.items() if name not in unsaid}

    def fill_name(self, tool: Tool, arguments: Mapping[str, Any], left_over: Sequence[str]) -> Mapping[str, Any]:
        """Return the arguments of a look-up with the only name of the question in the place of one from nowhere.

        Asked for the time in ホノルル, a model wrote Tokyo five times; for that in Oslo and in Rome, Oslo twice.

        Args:
            tool: The tool.
            arguments: The arguments of the call.
            left_over: What the call must use; the only one takes the place of another name of the question.
        """
        evidence = self._evidence
        names = [name for name in list_names(drop_told(evidence.question.original)) if name[0].isalpha()]
        others = [name for name in names if name not in left_over]
        repeated = [
            name for name, value in arguments.items() if isinstance(value, str) and uses_name({name: value}, others)
        ]
        if self.apply_to(tool) and not may_write(tool) and len(left_over) == len(repeated) == 1 and others:
            return {**arguments, repeated[0]: left_over[0]}
        made_up = list_unsupported_required(tool, arguments, self._find_asked(tool, evidence), evidence.question)
        is_open = self.apply_to(tool) and not (may_write(tool) or takes_query(tool))
        if not is_open or len(names) != 1 or len(made_up) != 1 or list_places(names[0]):
            return arguments
        schema = properties_of(tool.schema).get(made_up[0])
        is_text = isinstance(arguments[made_up[0]], str) and "enum" not in json.dumps(schema)
        return {**arguments, made_up[0]: names[0]} if is_text and not uses_name(arguments, names) else arguments

    def _find_asked(self, tool: Tool, evidence: Evidence) -> Source:
        """Return the question and what it refers to, or goes on with: "and the day after?" has the city of before."""
        goes_on = (tool.server, tool.name) in evidence.called_before and is_follow_up(evidence.question.original)
        before = [str(leaf) for call in evidence.results_before for leaf in walk_leaves(call.arguments) if goes_on]
        # the folder of a server may stand before the name of a file that the question has, or has in words
        return Source("\n".join([evidence.question.original, evidence.referred, *before, *self._places]))

    def _repeats_earlier_call(self, tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
        """Return whether a call of an earlier turn is only made again: it has nothing of the question.

        Made to call, a model repeats one for "How come chains wear out?" or "What do two of us pay each?", whose result
        the conversation has.
        """
        question = evidence.question.original
        if asks_again(question) or asks_for_now(question):
            return False
        results = [message.result for message in self._chat.visible_messages if message.result]
        of_tool = [result.arguments for result in results if (result.server, result.tool) == (tool.server, tool.name)]
        values, made = drop_defaults(tool, arguments), [drop_defaults(tool, earlier) for earlier in of_tool]
        return values in made and not any(map(evidence.question.has_part, walk_leaves(values)))

    def names_another(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call looks up one more thing of those that the question joins.

        One short value differs from those of the calls of the turn. It is no part of one of them ("brake" of "brake
        pads"), and no word of what another tool does: "price and stock of a chain".
        """
        evidence = self._evidence
        used = {normalize(str(leaf)) for result in evidence.results for leaf in walk_leaves(result.arguments)}
        new = [text for leaf in walk_leaves(arguments) if (text := normalize(str(leaf))) not in used]
        if len(new) != 1 or len(WORD.findall(new[0])) > _MAX_NAME_WORDS:
            return False
        others = " ".join(split_name(other.name) for other in self._tools if other != tool)
        is_part = any(new[0] in text or text in new[0] for text in used if not text.isdigit())
        return not is_part and {*extract_terms(others)}.isdisjoint(extract_terms(new[0]))

    def is_known(self, value: str) -> bool:
        """Return whether a value stands in the question, the conversation or a result."""
        return self._evidence.known.has(value)

    def list_missing(self, tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
        """Return the required arguments from nowhere that the user is asked for.

        Of a call that may change something, or of the first one, if the question names nothing that they could be.
        """
        if not self.apply_to(tool):
            return []
        evidence = self._evidence
        if may_write(tool) or _names_no_value(tool, arguments, evidence, self._are_strict):
            return list_unsupported_required(tool, arguments, evidence.known, evidence.question)
        return []

    def list_made_up(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the arguments from nowhere of a call; who is asked about it is told. A name may be a translation."""
        if not self.apply_to(tool):
            return ()
        evidence = self._evidence
        made_up = list_unsupported(tool, arguments, evidence.known, evidence.question)
        return tuple(name for name in made_up if not may_be_translation(name, arguments[name], evidence.question))

    def find_fallback(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the arguments with which a call that only reads may run again; None if there are none.

        They are without optional ones from nowhere; and what is searched for is the only name of the question: a memory
        knows "Ana", and not "Ana likes".
        """
        if not self.apply_to(tool) or may_write(tool):
            return None
        dispensable = list_unsupported_optional(tool, arguments, self._evidence.known)
        fewer = {name: value for name, value in arguments.items() if name not in dispensable}
        names = list_names(drop_told(self._evidence.question.original))
        if self._are_strict and searches(tool) and len(names) == 1:
            fewer |= {
                key: names[0]
                for key, value in fewer.items()
                if is_search_name(key) and isinstance(value, str) and uses_name({key: value}, names)
            }
        return fewer if fewer != arguments else None

    def amend(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a call as they are meant, without optional ones that nobody asked for.

        Percentages of the question are written as such in a calculation, cities as their time zones, and the folder of
        a server in the place of a path that says nothing.
        """
        if not self.apply_to(tool):
            return arguments
        question = self._evidence.question
        arguments = write_time_zones(write_percentages(arguments, question.original))
        if self._are_strict:
            arguments = write_currencies(arguments, question.original)
            said, known = question.original, self._evidence.known.original
            found = "\n".join(result.text for result in self._evidence.results)
            # what is looked up may have been, what is changed is to come
            arguments = write_as_said(arguments, said, known, found, list_places(said), date.today(), may_write(tool))
            arguments = drop_made_up_days(tool, arguments, self._evidence)
            if may_write(tool):
                arguments = fill_quoted(arguments, question, list_places(said))
            else:
                arguments = fill_day(tool, arguments, said)
        arguments = self._files.amend(tool, arguments)
        if may_write(tool) or not self._are_strict:
            return arguments
        arguments = drop_unasked(tool, arguments, question)
        return keep_values_before(tool, arguments, self._evidence, is_follow_up(question.original))


def _leaves_out_file(tool: Tool, leaves: Sequence[tuple[str, str]], place: str) -> bool:
    """Return whether a call changes something else than the file of a question: "butter" in a memory, and not the list.

    Args:
        tool: The tool.
        leaves: Names and values of the arguments.
        place: A file, an address or a date of the question.
    """
    return may_write(tool) and is_file_name(place) and not any(place in value for _, value in leaves)


def _reads_unasked_resource(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call lists or reads resources of which nobody has spoken: models call that for anything."""
    if tool.server or tool.name not in _RESOURCE_TOOLS:
        return False
    is_known = normalize(str(arguments.get("uri", "\0"))) in evidence.known.text
    return not (is_known or shares_term("resource", evidence.question))


def _find_reason(
    tool: Tool,
    arguments: Mapping[str, Any],
    evidence: Evidence,
    is_strict: bool,
    is_chosen: bool,
    has_changed: bool,
) -> str:
    """Return the key of REASONS why a call does not run and the model answers now; "" if it may run.

    Args:
        tool: The tool.
        arguments: The arguments of the call.
        evidence: What the turn knows.
        is_strict: A first call must be about what the question speaks of, and its values not from nowhere.
        is_chosen: The model says itself whether the question asks for a first call.
        has_changed: A call of the turn has changed something.
    """
    question = evidence.question.original
    is_corrected = evidence.corrected.text and any(map(evidence.corrected.has, walk_leaves(arguments)))
    if is_corrected and not may_write(tool):
        return ""
    if not evidence.results:
        return _find_first_reason(tool, arguments, evidence, is_strict, is_chosen)
    if is_strict and not (arguments or (is_relevant(tool, arguments, evidence) and is_about_more(tool, evidence))):
        return "unspoken"
    if is_strict and _searches_for_found(tool, arguments, evidence):
        return "circular"
    of_tool = [result for result in evidence.results if (result.server, result.tool) == (tool.server, tool.name)]
    if list_unsupported_required(tool, arguments, evidence.known) and not _takes_translations(tool, of_tool, evidence):
        return "invented"
    has_new = any(map(evidence.question.has, _walk_unused(arguments, evidence)))
    goes_on = has_new or _continues_call(tool, arguments, evidence) or _takes_translations(tool, of_tool, evidence)
    if of_tool and not goes_on:
        return "circular"
    is_asked = names_verb(tool, evidence.question) or (asks_for_change(question) if is_strict else has_new)
    if is_strict and has_changed:
        # behind a change, another one is of something else, or what its server does with it: "and switch over to it"
        is_next = not of_tool and tool.server == evidence.results[-1].server and names_verb(tool, evidence.question)
        is_asked = is_asked and (has_new or is_next)
    if may_write(tool) and not (is_asked and not (is_strict and is_question(question))):
        return "unasked"
    if any(_changes_table_unasked(value, evidence.question) for value in walk_leaves(arguments)):
        return "unasked"
    return ""


def _searches_for_found(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call searches for what a result of the turn tells of, and the question does not speak of it.

    "When is Ana's birthday? See contacts.txt" is not asked of a memory, too.
    """
    if may_write(tool) or not searches(tool) or shares_term(tool.server, evidence.question):
        return False
    values = [*walk_leaves(arguments)]
    found = (result for result in evidence.results if result.status == "completed" and result.server != tool.server)
    return bool(values) and any(all(map(Source(result.text).has, values)) for result in found)


def _find_first_reason(
    tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, is_strict: bool, is_chosen: bool
) -> str:
    """Return the key of REASONS why a first call of a turn does not run; "" if it may run."""
    question = evidence.question.original
    if is_strict and may_write(tool) and is_question(question):
        return "unasked"
    is_told_of = tool.server in evidence.find_telling_servers(question) and not may_write(tool)
    is_about = is_chosen or is_told_of or is_relevant(tool, arguments, evidence)
    if is_strict and (tells_only(question) or not is_about):
        return "unspoken"  # who asks for nothing looks nothing up, and says what is to be remembered
    if is_strict and not may_write(tool) and (asks_to_remember(question) or _is_told_text(arguments, evidence)):
        return "unspoken"
    if is_strict and not may_write(tool) and _is_told(arguments, evidence):
        return "unspoken"
    if is_strict and not may_write(tool) and has_unsaid_currency(arguments, evidence.known.original):
        return "invented"
    if is_strict and _leaves_out_arguments(tool, arguments, evidence):
        return "circular"
    is_asked_back = _names_no_value(tool, arguments, evidence, is_strict)
    return "invented" if not is_asked_back and _is_invented(tool, arguments, evidence, is_strict) else ""


def _may_be_chosen(arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether what the model prefers says enough of a first call.

    One without arguments is preferred for anything ("memory" of a person), and so is what the user has said of
    themselves before.
    """
    values = [*walk_leaves(arguments)]
    is_said = all(evidence.said.has(value) and not evidence.question.has(value) for value in values)
    is_about_user = not FIRST_PERSON.isdisjoint(evidence.question.words)
    return bool(values) and not (is_said and is_about_user)


def _calculates_nothing(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Return whether an expression to calculate has no number: the tool cannot read the file of "SUM(food)"."""
    expression = arguments.get("expression")
    is_without = isinstance(expression, str) and not any(map(str.isdigit, expression))
    return is_without and shares_term("calculate", Source(split_name(tool.name)))


def _has_made_up_query(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call would change rows of a table by a value that stands nowhere, or by none: "price = ?"."""
    changes = [value for value in map(str, walk_leaves(arguments)) if SQL_CHANGE.match(value)]
    is_open = len(arguments) == 1 and any(map(_SQL_PARAMETER.search, changes))  # which nothing fills in
    return may_write(tool) and (is_open or not all(map(evidence.known.has, changes)))


def _changes_table_unasked(value: object, question: Source) -> bool:
    """Return whether a value is SQL that makes or changes a table, and a question does not ask for that.

    Behind a query that fails, models write such a call to make it succeed.
    """
    if not (definition := _SQL_DEFINITION.match(str(value))):
        return False
    verb = definition[1].casefold()
    is_asked_in_cjk = CJK_RUN.search(question.text) and shares_term(verb, question)
    return question.words.isdisjoint((verb, "column")) and not is_asked_in_cjk


def _is_invented(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, is_strict: bool) -> bool:
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
    if all(is_uninformative(tool, name, arguments[name], evidence.known) for name in required):
        # the error of a server that is spoken of says what there is
        return not (is_in_known_language(evidence.question) and is_relevant(tool, {}, evidence))
    if is_strict and any(_is_made_up_time(value, evidence) for value in values):
        return True
    if any(evidence.known.has(value) or is_generic(value) for value in values):
        return False
    is_about_user = bool(evidence.said.text) and not FIRST_PERSON.isdisjoint(evidence.question.words)
    is_foreign = bool(CJK_RUN.search(evidence.question.text))
    is_foreign = is_foreign or all(may_be_translation(name, arguments[name], evidence.question) for name in required)
    if is_foreign or any(map(evidence.known.has_part, values)) or not (is_about_user or is_strict):
        return False
    may_be_translated = not is_strict or all(_CODE.fullmatch(str(value)) for value in values)
    return not (may_be_translated and shares_term(tool.name, evidence.question))


def _is_made_up_time(value: object, evidence: Evidence) -> bool:
    """Return whether a value is a time of the day, and the question says none: it asks what time it is somewhere."""
    is_time = isinstance(value, str) and _TIME.fullmatch(value) is not None
    return is_time and not (evidence.known.has(value) or _SAID_TIME.search(evidence.question.text))


def _leaves_out_arguments(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call only makes that of the turn before with fewer arguments, and has nothing of the question.

    "What is my share of that?" is no question for the price of one.
    """
    before = [
        call.arguments for call in evidence.results_before if (call.server, call.tool) == (tool.server, tool.name)
    ]
    is_less = any(arguments and arguments.items() < earlier.items() for earlier in before)
    return is_less and not any(map(evidence.question.has_part, walk_leaves(arguments)))


def _reads_attached(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call only reads a file that the question brings with it."""
    files = (str(value) for value in walk_leaves(arguments) if is_file_name(str(value)))
    return not may_write(tool) and any(file in evidence.attached.original for file in files)


def _is_told(arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call looks up what the user told of what the question names: it is the answer."""
    values = [*walk_leaves(arguments)]
    return bool(values) and all(
        evidence.told_of_question.has(value) and not evidence.question.has(value) for value in values
    )


def _is_told_text(arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a value is a text that the model has composed: a story is no look-up, whatever it is given to."""
    composed = (str(value) for value in walk_leaves(arguments) if is_composed(value) and not is_statement(value))
    return not all(map(evidence.known.has_most, composed))


def _names_no_value(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, is_strict: bool) -> bool:
    """Return whether a question asks for what a tool reads, and names nothing that its first call could read.

    "Read the file.", "What is the weather?": every word is one of the tool's, and no part of a value stands anywhere.
    What the user says of themselves ("What is my name?") is no such question. A value may be a translation, but no
    placeholder is; another one counts if `is_strict`, where that was measured.
    """
    question, required = evidence.question, required_of(tool.schema)
    missing = list_unsupported_required(tool, arguments, evidence.known)
    if evidence.results or not missing or len(missing) < len(required):
        return False
    if not FIRST_PERSON.isdisjoint(question.words) or names_tool(tool, question):
        return False
    has_placeholders = all(is_uninformative(tool, name, arguments[name], evidence.known) for name in missing)
    may_be_said = CJK_RUN.search(question.text) or any(evidence.known.has_part(arguments[name]) for name in missing)
    is_named = CJK_RUN.search(question.text) and re.search("[a-z0-9]{2}", question.text)  # the repository "repo"
    if is_named or not (has_placeholders or (is_strict and not may_be_said)):
        return False
    own = {*extract_terms(" ".join([describe_tool(tool), *properties_of(tool.schema)]).replace("_", " "))}
    usual = own | {*extract_terms(READING_VERBS)}
    words = [{*extract_terms(word)} for word in WORD.findall(question.text) if len(word) > 2 or not word.isascii()]
    is_about_tool = not own.isdisjoint(extract_terms(question.original))
    return is_about_tool and not any(terms and terms.isdisjoint(usual) for terms in words)


def _takes_translations(tool: Tool, of_tool: Sequence[ToolResult], evidence: Evidence) -> bool:
    """Return whether the tool takes names in another script than the question has: one that it took stands nowhere.

    Once there are as many results as the question asks for things, no other name is a translation of one.
    """
    completed = [result for result in evidence.results if result.status == "completed"]
    is_open = len(completed) < count_things(evidence.question.original)
    return (
        is_open
        and bool(CJK_RUN.search(evidence.question.text))
        and any(list_unsupported(tool, result.arguments, evidence.question) for result in of_tool)
    )


def _walk_unused(arguments: Mapping[str, Any], evidence: Evidence) -> Iterator[object]:
    """Yield the words and numbers of the arguments that no call of the turn has used."""
    for value in walk_leaves(arguments):
        if isinstance(value, int | float):
            yield from [] if evidence.used.has(value) else [value]
            continue
        for word in WORD.findall(normalize(str(value))):
            if word not in get_stop_words() and not evidence.used.has(word):
                yield word


def _continues_call(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call goes on where one before ended: with the next file of a list, or the next page."""
    required = required_of(tool.schema)
    optional = {name: value for name, value in arguments.items() if name not in required}
    names = (value for value in _walk_unused(arguments, evidence) if isinstance(value, str) and not value.isdigit())
    pages = (value for value in _walk_unused(optional, evidence) if not isinstance(value, str) or value.isdigit())
    return any(map(evidence.known.has, names)) or any(True for _ in pages)


def _write_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
