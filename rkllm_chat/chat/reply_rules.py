"""Is a reply an answer: to the question, in its language, and with something of the results?

What is found is a row of `value_rules.REASONS`; another reply is then asked for, or a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set

from ..calls.described_calls import (
    admits_failure,
    asks,
    asks_for_change,
    asks_what_was_said,
    claims_change,
    is_apology,
    is_data,
    is_question,
    is_refusal,
    lacks_information,
    lacks_live_information,
    list_places,
    repeats_question,
    tells_how,
    tells_only,
    thanks_for,
)
from ..calls.tool_names import shown_names
from ..core.events import ReplyDiscarded
from ..core.i18n import detect_text_language
from ..core.latin_languages import find_latin_language
from ..core.messages import ToolResult
from ..prompt.budget import find_last_turn
from ..prompt.tool_ranking import CJK_RUN, extract_terms
from .clock_times import is_clock_told
from .evidence import (
    FIRST_PERSON,
    MIN_SUPPORTED,
    NUMBER,
    WORD,
    Evidence,
    Source,
    found_nothing,
    get_stop_words,
    is_query,
    list_names,
    normalize,
    walk_leaves,
)
from .file_rules import FileRules
from .file_values import ADDS, EMPTIES, REPLACES
from .tool_traits import describe_tool
from .turn_rules import TurnRules

__all__ = ["ReplyRules"]

_MIN_JUDGED_WORDS = 5
"""Words from which on an answer must have something of its results, where the family was not measured."""
_MIN_RESULT_WORDS = 2
"""Words from which on a result tells something of its own, so that an answer must have one of them."""
_MIN_FOREIGN_LETTERS = 8
"""Chinese and Japanese characters from which on an answer is a sentence in one of these languages."""
_MIN_REPEATED = 12
"""Characters from which on an answer that an earlier turn has repeats it: "Yes." may be one to many questions."""
_MIN_TOLD = 4
"""Letters of a word from which on it may be what a user has told."""
_KANJI_NAME = re.compile(r"[\u4e00-\u9fff]{2,}")
_LIST_NUMBER = re.compile(r"^\s*\d+[.)、]", re.MULTILINE)
_POINTED_AT = re.compile(r"\byou can (?:use|call) the `?(\w+_\w+)`? (?:function|tool)\b", re.IGNORECASE)
_TOOL_WORD = re.compile(r"\b(?:tools?|functions?|servers?|mcp)\b|\w_\w|ツール|関数|サーバ|工具|函数|服务器")
"""What a question about the tools themselves has."""
_ASKS_HOW = re.compile(
    r"\bhow\s+(?:can|could|do|does|should|to|would)\b|\bwie\s+(?:kann|könnte|macht?|mache|soll)\b|どう(?:やって|すれば)|怎么|如何",
    re.IGNORECASE,
)
"""What a question has that asks for a way to do something."""
_OFFSET = re.compile(r"(?:UTC|GMT)?[+-]\d\d:\d\d\b")
"""The offset of a time zone, which answers leave out: its 01 is not the first of a month."""
_CLOCK_OF_DATE = re.compile(r"(?<=\d)T(?=\d\d:)")
"""The T between date and time, as in 2026-11-30T09:00."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d\S*")
_LANGUAGE_NAME = re.compile(
    r"[英译訳翻中法德韩韓日西俄][文语語]|[译訳翻]|englis|inglés|ingles|anglais|translat|language|japan|chin(?:a|ese)|kanji|hiragana|katakana"
)
"""What a question about another language has."""


class ReplyRules(TurnRules):
    """What makes a reply no answer to the last question of a conversation, and what it leaves out."""

    def find_unrelated(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer is asked for once more: it leaves results out, or is in another language.

        Where that was not measured for the family, a short answer stands ("Yes.", "Done.").
        """
        evidence = self._evidence
        if self._chat.answers_json:
            return None
        if self._are_strict and _is_in_other_language(reply, evidence):
            return ReplyDiscarded(reason="foreign")
        is_short = len(WORD.findall(reply)) < _MIN_JUDGED_WORDS and not self._are_strict
        mentioned = self._find_mentioned(reply)
        has_failed = all(result.status == "failed" for result in evidence.results)
        if evidence.failures and has_failed and self._are_strict:
            return None if admits_failure(reply) else ReplyDiscarded(reason="unrelated")
        if self._tells_other_time(reply, [*mentioned]):
            return ReplyDiscarded(reason="unrelated")
        if mentioned and self._are_strict and thanks_for(reply):
            return ReplyDiscarded(reason="unrelated")
        if is_short or all(mentioned.values()):
            return None
        if any(mentioned.values()):
            return ReplyDiscarded(reason="unrelated")
        called = {(result.server, result.tool) for result in evidence.results}
        about = [describe_tool(tool) for tool in self._tools if (tool.server, tool.name) in called]
        if any(NUMBER.fullmatch(evidence.results[index].text.strip()) for index in mentioned):
            return ReplyDiscarded(reason="unrelated")  # what was calculated is the answer, whatever the reply takes up
        return None if _answers_the_rest(reply, evidence, about) else ReplyDiscarded(reason="unrelated")

    def find_left_out(self, reply: str) -> list[ToolResult]:
        """Return the results, and the failures beside them, that an answer has nothing of."""
        evidence, mentioned = self._evidence, self._find_mentioned(reply)
        if not (any(mentioned.values()) or self.find_unrelated(reply)):  # it is about something else
            return []
        left_out = [evidence.results[index] for index, is_mentioned in mentioned.items() if not is_mentioned]
        return left_out + ([] if admits_failure(reply) else evidence.failures)

    def find_unfit(self, reply: str) -> ReplyDiscarded | None:
        """Return why a reply is no answer, whatever it tells of results; JSON is one where the question asks for it."""
        evidence = self._evidence
        # without tools, a model that repeats something may be asked to
        question = evidence.question.original
        if self._are_strict and self._tools and repeats_question(reply, question):
            return ReplyDiscarded(reason="echo")
        # what was done, or is to be told of a result, is not to be done by the user
        asks_how = is_question(question) if self._has_changed(evidence) else _ASKS_HOW.search(question) is not None
        if self._are_strict and evidence.results and tells_how(reply) and not asks_how:
            return ReplyDiscarded(reason="unrelated")
        is_prose = evidence.ran_or_refused and not self._chat.answers_json and "json" not in evidence.question.text
        return ReplyDiscarded(reason="data") if is_prose and is_data(reply) else self.find_unmade(reply)

    def find_repeated(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer is asked for once more: it is one of an earlier turn to the letter, and tells no result.

        If the last prompt yields it again, it is kept. What the user has said may be the answer.
        """
        evidence = self._evidence
        question = evidence.question.original
        if not (self._are_strict and self._tools and asks(question)):
            return None
        visible = self._chat.visible_messages
        earlier = visible[: find_last_turn(visible)]
        said = [message.text.strip() for message in earlier if message.role == "assistant"]
        is_new = question not in [message.text for message in earlier if message.role == "user"]
        is_told = normalize(reply.strip()) in evidence.said.text
        is_repeated = is_new and len(reply.strip()) >= _MIN_REPEATED and reply.strip() in said and not is_told
        if not is_repeated or not evidence.ran_or_refused:
            return ReplyDiscarded(reason="echo") if is_repeated else None
        # "The tent was added." of another change is about this one, too
        found = Source("\n".join(result.text for result in evidence.results))
        about = {*extract_terms(question), *extract_terms(found.original)}
        tells_result = not about.isdisjoint(extract_terms(reply))
        return None if tells_result else ReplyDiscarded(reason="echo")

    def find_unmade(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer does not stand: it says that a change was made, and no call has made one."""
        if not (self._are_on and self._tools) or self._chat.answers_json:
            return None
        evidence = self._evidence
        question = evidence.question.original
        is_claimed = asks_for_change(question) and claims_change(reply, question)
        return ReplyDiscarded(reason="unmade") if is_claimed and not self._has_changed(evidence) else None

    def is_change_open(self, reply: str) -> bool:
        """Return whether a change that the question asks for is claimed, or told how to make, and no call made it."""
        # "To add butter to the list in shopping.txt, you would need to append a line", or what the file has
        evidence = self._evidence
        places = list_places(f"{evidence.question.original}\n{evidence.corrected.original}")
        is_file_read = any(map(evidence.used.has, [*places, *FileRules(self._chat).list_named_files()]))
        is_no_answer = is_refusal(reply) or tells_how(reply) or thanks_for(reply)
        # "Write a summary" is answered in words, "put honey on it" is not
        is_act = any(verbs.search(evidence.question.text) for verbs in (ADDS, EMPTIES, REPLACES))
        is_only_told = (is_no_answer or is_file_read or is_act) and self.is_change_pending()
        return is_only_told or bool(self.find_unmade(reply)) or self._has_failed_change()

    def tells_what_was_said(self, reply: str, values: Sequence[str]) -> bool:
        """Return whether a question asks for what the user said before, by its form or by what is told or looked up.

        "Which city do I work in?" Made to call, a model asks for the time there. Japanese leaves the pronoun out.

        Args:
            reply: A reply to it.
            values: The values of the calls of a reply.
        """
        evidence = self._evidence
        question = evidence.question
        is_about_user = not FIRST_PERSON.isdisjoint(question.words) or CJK_RUN.search(question.text)
        told = [*list_names(reply), *_KANJI_NAME.findall(reply), *values]
        if not FIRST_PERSON.isdisjoint(question.words):  # "Your favourite colour is green."
            told += (word for word in WORD.findall(normalize(reply)) if len(word) >= _MIN_TOLD and word.isalpha())
        new = [name for name in told if not question.has(name)]
        said = [name for name in new if evidence.told.has(name)]
        # "Is my order CO-784 ready?" asks for something new
        is_of_before = all(map(evidence.said.has, list_names(question.original)))
        is_told = bool(is_about_user and said) and not any(map(NUMBER.search, {*new} - {*said})) and is_of_before
        is_told = is_told or bool(new and all(map(evidence.told_of_question.has, new)))
        is_told = is_told or any(map(evidence.attached.has, new))  # what it brings is not looked up
        return (is_told and not is_refusal(reply)) or asks_what_was_said(question.text)

    def find_refused(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer is asked for without the tools, where that was measured: later ones apologize, too."""
        is_judged = self._are_strict and self._tools and not self._chat.answers_json
        # asked once more, a model makes up what it said that it does not know, of somebody or of tomorrow's weather
        is_honest = lacks_information(reply) and bool(list_names(self._evidence.question.original))
        is_honest = is_honest or lacks_live_information(reply)
        return ReplyDiscarded(reason="refused") if is_judged and is_apology(reply) and not is_honest else None

    def find_pointing(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer is requested again without the tools: it tells the user to call one, who cannot.

        "To help against seasickness, you can use the room_climate function." A question about the tools may have it.
        The tool need not exist: "To find the capital of Kenya, you can use the get_resource function ...".
        """
        names = [name for name in shown_names(self._tools) if "_" in name and name in reply]
        names += _POINTED_AT.findall(reply)
        is_about_tools = _TOOL_WORD.search(self._evidence.question.text) is not None
        is_judged = self._are_strict and not (self._chat.answers_json or is_about_tools)
        return ReplyDiscarded(reason="refused") if is_judged and names else None

    def find_refused_fact(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer does not stand that apologizes to who only tells something."""
        return self.find_refused(reply) if tells_only(self._evidence.question.original) else None

    def find_guessed(self, reply: str) -> ReplyDiscarded | None:
        """Return why an answer in words behind a look-up that found nothing does not stand: it apologizes, or guesses.

        A number from nowhere would be taken for what was looked up.
        """
        numbers = NUMBER.findall(normalize(_LIST_NUMBER.sub("", reply)))
        if all(map(self._evidence.known.has, numbers)):
            return self.find_refused(reply)
        return ReplyDiscarded(reason="unrelated")

    def is_about_user(self) -> bool:
        """Return whether the question is about the user, and has no number of which an answer could be made."""
        question = self._evidence.question
        return not (FIRST_PERSON.isdisjoint(question.words) or NUMBER.search(question.text))

    def apologizes(self, reply: str) -> bool:
        """Return whether an answer without any call apologizes, where that was measured: later ones would repeat it."""
        is_first = self._are_strict and not self._evidence.ran_or_refused
        return is_first and bool(self._tools) and is_apology(reply)

    def _find_mentioned(self, reply: str) -> dict[int, bool]:
        """Return the indices of the results that an answer is to mention, and whether it has something of each.

        None that failed, nor one of which a later call was made, nor a change beside other results: the program says
        what was changed. "Thank you for the information!", and a refusal that a conversation has once, are repeated
        behind every result; of two results a model often tells one.
        """
        evidence = self._evidence
        if not self._are_on or self._chat.answers_json:
            return {}
        writing, results = self._list_writing(), evidence.results
        tried = {result.server for result in results if found_nothing(result)}  # of these the last one tells
        last = {result.server: index for index, result in enumerate(results)}
        queried = {result.server for result in results if is_query(result) and not found_nothing(result)}
        completed = [
            index
            for index in evidence.final_results
            if results[index].status == "completed"
            and (results[index].server not in tried or index == last[results[index].server])
            and (results[index].server not in queried or is_query(results[index]))  # the tables were told for it
        ]
        read = [index for index in completed if (results[index].server, results[index].tool) not in writing]
        told = {index: results[index].text for index in read or completed[-1:]}
        # the year of two times tells neither of them, nor do the minutes of two of one clock
        dates = {index: " ".join(_DATE.findall(text)) for index, text in told.items()}

        def find_common(index: int, other: int) -> str:
            return told[other] if results[other].tool == results[index].tool else dates[other]

        others = {index: "\n".join(find_common(index, other) for other in told if other != index) for index in told}
        return {index: _mentions_result(reply, text, evidence, others[index]) for index, text in told.items()}

    def _tells_other_time(self, reply: str, results: Sequence[int]) -> bool:
        """Return whether an answer tells times of the day, and none that a result has: 5 o'clock for 18:48."""
        texts = [_OFFSET.sub("", self._evidence.results[index].text) for index in results]
        return any(is_clock_told(reply, text) is False for text in texts)

    def is_change_pending(self) -> bool:
        """Return whether the question asks for a change, and the turn has only looked something up for it."""
        evidence = self._evidence
        question = evidence.question.original
        is_found = any(result.status == "completed" for result in evidence.results)
        # who refuses a call with a reason ("not the memory, the file") still asks for the change
        refused = [result for result in evidence.refused if result.decline_reason != "because"]
        is_open = is_found and not (refused or self._has_changed(evidence))
        is_asked = asks_for_change(question) and not is_question(question)
        return self._are_strict and is_open and is_asked

    def _has_failed_change(self) -> bool:
        """Return whether the question asks for a change, and of its calls one has failed and none has made a change."""
        evidence = self._evidence
        is_asked = self._are_strict and asks_for_change(evidence.question.original)
        writing = self._list_writing()
        failed = [result for result in evidence.failures if (result.server, result.tool) in writing]
        return is_asked and len(failed) == 1 and not self._has_changed(evidence)


def _mentions_result(reply: str, text: str, evidence: Evidence, others: str) -> bool:
    """Return whether an answer has a word or a number of a result that the question has not, nor `others`.

    Of a time of the day it has the time itself: models write 5 o'clock for 18:48. An answer or a result in Japanese or
    Chinese may be a translation.
    """
    if (is_told := is_clock_told(reply, _OFFSET.sub("", text), _OFFSET.sub("", others))) is not None:
        return is_told
    said, told_by_others = Source(reply), Source(_CLOCK_OF_DATE.sub(" ", others))
    known = evidence.question, evidence.used, told_by_others
    asked = get_stop_words().union(*(source.words for source in known))
    values = normalize(_CLOCK_OF_DATE.sub(" ", _OFFSET.sub("", _read_values(text))))
    words = [
        word
        for word in WORD.findall(values)
        if len(word) > 2
        and not word.isdigit()
        # "file" is no news of "files", nor "Friday" of another date on a Friday
        and not (word in asked or (word.isalpha() and (evidence.question.has(word) or told_by_others.has(word))))
    ]
    asked_numbers = {number for source in known for number in NUMBER.findall(source.text)}
    # 16:00 and 36.00 have their zeros in common
    numbers = [number for number in NUMBER.findall(values) if number.strip("0.,") and number not in asked_numbers]
    is_told = any(map(said.has, [*words, *numbers]))
    # a translation keeps the numbers, and some names: "酒店叫 Aurore。"
    tells_little = not numbers and (bool(CJK_RUN.search(f"{reply}\n{text}")) or len(words) < _MIN_RESULT_WORDS)
    return is_told or tells_little  # "soap is on the list now."


def _read_values(text: str) -> str:
    """Return the values of a result in JSON, and of another one its text: "entities" says nothing of who they are."""
    try:
        return "\n".join(map(str, walk_leaves(json.loads(text))))
    except (ValueError, RecursionError):  # a server may nest as deep as it likes
        return text


def _is_in_other_language(reply: str, evidence: Evidence) -> bool:
    """Return whether an answer is a sentence in another language than a question that speaks of none.

    A few names or numbers are of no language, and Chinese characters alone may be a Japanese answer if they are few.
    """
    question = evidence.question
    asked, said = detect_text_language(question.original), detect_text_language(reply)
    if not (asked and said) or _LANGUAGE_NAME.search(question.text):
        return False
    is_sentence = len(WORD.findall(reply)) >= _MIN_JUDGED_WORDS
    if asked == said:
        is_english = is_sentence and asked == "en" and find_latin_language(reply) == "en"
        return is_english and find_latin_language(question.original) not in ("", "en")
    letters = sum(len(run) for run in CJK_RUN.findall(reply) if said != "en" or run not in evidence.known.original)
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
