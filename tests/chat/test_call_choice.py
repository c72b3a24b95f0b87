"""A call that the model does not make by itself is made, and one that it makes runs, if it prefers that to words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest

from chat.test_tools_meant import RESULTS, Town, list_reasons, read
from rkllm_chat.api_server.request_backend import RequestBackend
from rkllm_chat.backends.base import (
    FirstTokenScorer,
    MessageScore,
    ModelStream,
    StoppableStream,
    StreamItem,
    TokenScore,
)
from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.calls.grammar import CallGrammar, NoCalls
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core.events import CallsDetected, Text, Usage
from rkllm_chat.core.i18n import load
from rkllm_chat.core.messages import Message, Tool, ToolResult
from rkllm_chat.core.protocols import CallPosition, Consent, decline_all
from rkllm_chat.prompt.tool_ranking import extract_terms
from stage import call_text, collect, take_turn

CLOCK = call_text("get_clock", place="Vilnius")
BILL = call_text("get_bill", number="17")
BIAS = 0.6
"""Logits by which the engine prefers the first of two answers, as real models do."""


class ChoosingBackend(ScriptedBackend):
    """Plays replies, and prefers a call of one tool for some messages, and words for all others.

    Attributes:
        preferred: Message -> tool that it would call.
        likeliest: Message -> tool that it finds likelier than any other, where it is asked for one of several.
        of_before: Messages that it finds likelier of who asks for what was said before.
        unsure: Messages of which it hardly knows.
        doubtful: Messages of which it is less sure than of others.
        unwilling: Messages for which it does not prefer the likeliest tool.
        asked: The messages that it was asked about, and the tools.
        compared: The tools that it was asked to compare, of which it calls the first one.
        without_tool: What it was asked to compare with them.
        choices: What it was asked.
        forced: The grammars of the calls that it had to make.
        loses_conversation: Whether another prompt costs it the conversation.
    """

    CLOSE = -25.0
    name, parameter_count = "scripted-1.5b", 1_500_000_000
    supports_grammar = True
    loses_conversation = False

    def __init__(self, replies: Sequence[str], preferred: Mapping[str, str]) -> None:
        super().__init__(replies)
        self.preferred = preferred
        self.likeliest: dict[str, str] = {}
        self.of_before: set[str] = set()
        self.unsure: set[str] = set()
        self.doubtful: set[str] = set()
        self.unwilling: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.compared: list[list[str]] = []
        self.without_tool: list[str] = []
        self.choices: list[str] = []
        self.forced: list[str] = []

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Play the next reply."""
        if isinstance(grammar, CallGrammar) and grammar.opening:
            self.forced.append(grammar.rules)
        return super().stream(prompt, generation, tools, grammar)

    def score_first_token(self, prompt: Sequence[Message], number: int) -> ModelStream:
        """Score letters as the first token."""
        return StoppableStream(self._score(prompt[-1].text, number), lambda: None)

    def score_messages(self, prompts: Sequence[Sequence[Message]]) -> StoppableStream[MessageScore]:
        """Score a message behind each of some tools."""
        return StoppableStream(self._score_messages(prompts), lambda: None)

    async def prepare_scores(self, prompts: Sequence[Sequence[Message]]) -> None:
        """Evaluate nothing."""

    async def _score_messages(self, prompts: Sequence[Sequence[Message]]) -> AsyncGenerator[MessageScore, None]:
        message, names = prompts[-1][-1].text, []
        for prompt in prompts:
            described = re.search(r": \w+: (\w+)(.*)", prompt[0].text)
            name, about = (described[1], described[0]) if described else ("", "")
            shared = not {*extract_terms(message)}.isdisjoint(extract_terms(about))
            score = -29.0 if shared else -30.0
            score = self.CLOSE if name and name == self.preferred.get(message) else score
            score = -20.0 if name and name == self.likeliest.get(message) else score
            asks_no_tool = len(prompt) > 1 and not name
            self.without_tool += [prompt[0].text] if asks_no_tool else []
            yield MessageScore(-15.0 if asks_no_tool and message in self.of_before else score)
            names += [name] if name else []
        self.compared.append(names)

    async def _score(self, text: str, number: int) -> AsyncGenerator[StreamItem, None]:
        message = text.split('"')[1]
        first, last = text.split("A: ")[1].split(" B: ")
        calls = "call " in first
        called = re.search(r"call (?:\w+__)?(\w+)", first if calls else last)
        assert called
        name = called[1]
        self.asked.append((message, name))
        self.choices.append(text)
        is_likeliest = name == self.likeliest.get(message) and message not in self.unwilling
        is_call = is_likeliest or name == self.preferred.get(message)
        margin = 0.05 if message in self.unsure else 0.25 if message in self.doubtful else 1
        margin *= 2 if is_likeliest else 1
        logit = BIAS + (margin if is_call == calls else -margin)
        scores = (TokenScore(b"A", logit - 2), TokenScore(b"B", -2.0), TokenScore(b"The", -9.0))
        assert number >= len(scores)
        yield TokenScore(scores[0].data, scores[0].logprob, scores)
        yield Usage(10, 0, 10, 1, hit_limit=True)


def open_choosing_town(
    replies: Sequence[str], preferred: Mapping[str, str], history: Sequence[Message] = ()
) -> tuple[Conversation, Town, ChoosingBackend]:
    backend, toolbox = ChoosingBackend(replies, preferred), Town({})
    settings = Settings(policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
    return Conversation(backend, toolbox, settings, load(), decline_all, list(history)), toolbox, backend


TALKED = [Message("user", "I live in Lyon."), Message("assistant", "That is good to know.")]


@pytest.mark.parametrize("is_served", [False, True], ids=["chat", "API"])
@pytest.mark.parametrize("history", [(), TALKED], ids=["first turn", "later turn"])
def test_a_call_that_is_preferred_to_words_is_made_in_any_language(history: Sequence[Message], is_served: bool) -> None:
    question = "Kiek valandų dabar Vilnius mieste?"
    replies = ["Dabar rytas.", CLOCK, RESULTS["get_clock"], "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "get_clock"}, history)
    if is_served:
        chat.backend, chat.is_served = RequestBackend(backend, ()), True
    assert read(take_turn(chat, question)) == RESULTS["get_clock"]
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})]
    assert backend.asked == [(question, "get_clock")] * 2
    # later turns go on with the call
    assert "Dabar rytas." not in [message.text for message in backend.prompts[-1]]


@pytest.mark.parametrize("is_written", [True, False], ids=["its own call", "made to call"])
def test_the_tool_that_the_model_finds_far_likelier_is_called(is_written: bool) -> None:
    question, events = "Kas bus monday?", ("list_events", {"date": "monday"})
    bill = call_text("get_bill", number="monday")
    replies = [bill if is_written else "Well.", call_text(events[0], **events[1]), "Dentist, 15:30.", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "get_bill"}, TALKED)
    backend.likeliest, backend.doubtful = {question: "list_events"}, {question}
    assert "Dentist" in read(take_turn(chat, question)) and toolbox.called == [events]
    # with tools of all servers, and none that may change something
    assert {"get_bill", "list_events", "fetch"} <= {*backend.compared[0]} and not {*Town.WRITING} & {
        *backend.compared[0]
    }


def test_the_call_of_a_likelier_tool_must_be_preferred_more() -> None:
    question, bill = "Kas bus monday?", ("get_bill", {"number": "monday"})
    replies = [call_text(bill[0], **bill[1]), call_text("list_events", date="monday"), "Nothing.", *["-"] * 4]
    chat, toolbox, backend = open_choosing_town(replies, {question: "get_bill"}, TALKED)
    backend.likeliest, backend.doubtful, backend.unwilling = {question: "list_events"}, {question}, {question}
    take_turn(chat, question)
    assert toolbox.called[0] == bill


def test_of_a_request_for_a_change_the_tools_that_change_something_are_compared_too() -> None:
    order, write = "Įrašyk: please write thanks to thanks.txt.", {"path": "thanks.txt", "content": "thanks"}
    replies = [call_text("list_folder", path="thanks.txt"), call_text("write_file", **write), "Written.", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {order: "list_folder"}, TALKED)
    backend.likeliest = {order: "write_file"}
    take_turn(chat, order)
    assert toolbox.called == [("write_file", write)]


@pytest.mark.parametrize("question", ["Show the events of the day 2026-12-10.", "Kas bus 2026-12-10?"])
def test_a_tool_that_the_words_mean_or_the_model_clearly_prefers_is_compared_with_no_other(question: str) -> None:
    events = ("list_events", {"date": "2026-12-10"})
    replies = [call_text(events[0], **events[1]), "Dentist, 15:30.", *["-"] * 3]
    chat, toolbox, backend = open_choosing_town(replies, {question: "list_events"}, TALKED)
    backend.doubtful = {question} if "events" in question else set()
    take_turn(chat, question)
    assert toolbox.called == [events] and backend.compared == []


def test_a_call_is_made_where_a_likelier_tool_has_no_value_of_the_question() -> None:
    question, events = "Kas bus monday?", ("list_events", {"date": "monday"})
    written, invented = call_text(events[0], **events[1]), call_text("get_bill", number="4711")
    replies = [written, invented, "Dentist, 15:30.", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "list_events"}, TALKED)
    backend.likeliest, backend.doubtful = {question: "get_bill"}, {question}
    turn = take_turn(chat, question)
    assert "Dentist" in read(turn) and toolbox.called == [events] and list_reasons(turn) == []


def test_words_that_are_preferred_to_a_call_stand() -> None:
    question = "Any idea against stage fright?"
    chat, toolbox, backend = open_choosing_town(["Breathe slowly.", call_text("get_load")], {})
    assert read(take_turn(chat, question)) == "Breathe slowly."
    assert toolbox.called == [] and backend.asked == []  # it is likelier of somebody who asks for none of the tools


def test_a_first_call_of_a_tool_that_the_question_speaks_of_is_run_sooner() -> None:
    for question, is_made in (("Who has the clock of Vilnius?", True), ("Who is the boss of Vilnius?", False)):
        chat, toolbox, backend = open_choosing_town([CLOCK, *["-"] * 5], {})
        backend.doubtful = {question}
        take_turn(chat, question)
        assert bool(toolbox.called) is is_made


def test_a_question_is_followed_by_no_call_that_changes_something() -> None:
    question = "What can I add to 6 lemons?"
    call = call_text("log_harvest", crop="lemons", kg=6)
    chat, _, backend = open_choosing_town(["Sugar.", *[call] * 3, "-"], {})
    chat.toolbox = toolbox = Farm({})
    backend.unsure = {question}
    assert read(take_turn(chat, question)) == "Sugar." and toolbox.called == []
    assert not any("log_harvest" in rules for rules in backend.forced)


def test_a_first_call_is_not_run_where_words_are_preferred() -> None:
    question = "Any idea where my load of work should go?"
    chat, toolbox, _ = open_choosing_town([call_text("get_load"), "To a friend."], {})
    events = take_turn(chat, question)
    assert read(events) == "To a friend." and list_reasons(events) == ["unspoken"]
    chat, toolbox, _ = open_choosing_town([call_text("get_load"), "0.41", "-"], {question: "get_load"})
    assert read(take_turn(chat, question)) == "0.41" and toolbox.called == [("get_load", {})]


def test_the_model_is_asked_about_a_call_with_its_values_and_what_the_user_asks() -> None:
    question = "My name is Jonas and I live in Riga. How are you?"
    chat, toolbox, backend = open_choosing_town([call_text("get_clock", place="Riga"), "Fine."], {})
    assert read(take_turn(chat, question)) == "Fine." and toolbox.called == []
    of_clock = [text for text in backend.choices if "get_clock" in text]
    assert len(of_clock) == 2 and all("get_clock (place Riga)" in text for text in of_clock)
    assert {message for message, _ in backend.asked} == {"How are you?"}


@pytest.mark.parametrize(("question", "is_made"), [("Please try that again", True), ("Please be quiet", False)])
def test_who_asks_for_the_same_again_is_not_asked_for_words(question: str, is_made: bool) -> None:
    written = "Write hello into plan.txt"
    call = call_text("write_file", path="plan.txt", content="hello")
    chat, toolbox, _ = open_choosing_town([call, "Written.", call, *["Written."] * 5], {written: "write_file"})
    take_turn(chat, written)
    take_turn(chat, question)
    assert (len(toolbox.called) > 1) is is_made


@pytest.mark.parametrize(("question", "is_made"), [("じゃあリガは？", True), ("料金は？", False)])
def test_a_short_question_that_names_nothing_goes_on_only_if_that_is_preferred(question: str, is_made: bool) -> None:
    first, riga = "What time is it in Vilnius?", call_text("get_clock", place="Riga")
    replies = [CLOCK, "It is 18:20.", "Well.", *[riga] * 3, *["-"] * 4]
    chat, toolbox, _ = open_choosing_town(replies, {first: "get_clock"})
    take_turn(chat, first)
    take_turn(chat, question)
    assert (len(toolbox.called) > 1) is is_made


def test_each_open_part_of_a_question_is_asked_alone() -> None:
    first, last = "What time is it in Vilnius?", "How much is bill 17?"
    # the reply of the model leaves the second part out, and again behind its result
    replies = [CLOCK, "It is 18:20.", BILL, "It is 18:20 and 40 EUR.", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {f"{first} {last}": "get_clock", last: "get_bill"}, TALKED)
    take_turn(chat, f"{first} {last}")
    assert [name for name, _ in toolbox.called] == ["get_clock", "get_bill"]
    assert first not in dict(backend.asked)  # a call has its value
    # what has no words says nothing of the other part
    paged = call_text("fetch", url="http://town.example/museum", raw=True)
    first, last = "What does http://town.example/museum say,", "when is Mia here?"
    replies = [paged, "Closed on Mondays.", call_text("search_nodes", query="Mia"), "Closed on Mondays, Mia.", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {f"{first} and {last}": "fetch", last: "search_nodes"}, TALKED)
    take_turn(chat, f"{first} and {last}")
    assert [name for name, _ in toolbox.called] == ["fetch", "search_nodes"]


def test_nothing_is_called_for_the_day_of_a_date_nor_for_a_part_that_asks_for_nothing() -> None:
    question = "ok then show what is on at the office on Thursday 2026-12-10"
    events = call_text("list_events", date="2026-12-10")
    replies = [events, "Dentist, 15:30.", call_text("get_clock", place="Thursday"), "-", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "list_events", "ok": "get_clock"}, TALKED)
    assert "Dentist" in read(take_turn(chat, question))
    assert toolbox.called == [("list_events", {"date": "2026-12-10"})] and backend.forced == []


def test_a_word_in_katakana_is_looked_up_as_it_sounds() -> None:
    first, question = "リガは何時？", "じゃあビリニュスは？"
    riga, vilnius = (call_text("get_clock", place=place) for place in ("Riga", "Vilnius"))
    other = call_text("search_nodes", query="ビリニュス")
    replies = [riga, "18:20です。", vilnius, "18:20です。", *[other] * 3, *["18:20です。"] * 2]
    chat, toolbox, _ = open_choosing_town(replies, {first: "get_clock", question: "get_clock"})
    take_turn(chat, first)
    take_turn(chat, question)
    assert toolbox.called == [("get_clock", {"place": "Riga"}), ("get_clock", {"place": "Vilnius"})]


def test_a_call_with_fewer_arguments_than_before_is_no_answer_to_a_sum() -> None:
    first, question = "How much does an adult pay at the usual rate?", "My sister pays half of that. What is my share?"
    calls = [call_text("entry_price", kind="adult", **more) for more in ({"rate": "usual"}, {})]
    chat, _, backend = open_choosing_town([calls[0], "It is 9.80.", calls[1], *["4.90."] * 4], {})
    chat.toolbox = toolbox = Farm({})
    backend.preferred = {first: "entry_price", question: "entry_price"}
    take_turn(chat, first)
    assert read(take_turn(chat, question)) == "4.90." and len(toolbox.called) == 1


@pytest.mark.parametrize(
    ("question", "is_made"),
    [("So what do two of us pay each?", False), ("What did an adult pay?", True)],
)
def test_a_call_of_the_conversation_is_not_made_again_for_a_sum(question: str, is_made: bool) -> None:
    class Rated(Farm):
        @staticmethod
        def make_schema(parameters: str) -> Mapping[str, Any]:
            schema = Farm.make_schema(parameters)
            return {**schema, "properties": {**schema["properties"], "rate": {"default": "usual"}}}

    first, call = "How much does an adult pay?", call_text("entry_price", kind="adult")
    again = call_text("entry_price", kind="adult", rate="usual")
    chat, _, backend = open_choosing_town([call, "It is 9.80.", "4.90 each.", *[again] * 3, "It is 9.80.", "-"], {})
    chat.toolbox = toolbox = Rated({})
    backend.preferred = {first: "entry_price", question: "entry_price"}
    take_turn(chat, first)
    take_turn(chat, question)
    assert (len(toolbox.called) > 1) is is_made


def test_a_part_is_asked_alone_where_all_of_the_question_is_for_words() -> None:
    question, last = "Tell me of Vilnius, and what is on 2026-12-10?", "what is on 2026-12-10?"
    events = call_text("list_events", date="2026-12-10")
    replies = ["It is old.", CLOCK, call_text("get_load"), events, "It is old. Dentist, 15:30.", "-", "-", "-", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {last: "list_events"}, TALKED)
    backend.unsure, backend.likeliest, backend.unwilling = {question}, {question: "get_clock"}, {question}
    take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == ["list_events"]
    assert dict(backend.asked)[last] == "list_events"


def test_a_part_that_does_not_say_of_what_is_called_in_the_conversation() -> None:
    first, last = "What time is it in Vilnius?", "How long is the day there?"
    toolbox = {"get_day": ("board", "place", "Tell how long a day is")}
    replies = [
        CLOCK,
        "It is 18:20.",
        call_text("get_day", place="example_place"),
        call_text("get_day", place="Vilnius"),
    ]
    chat, town, _ = open_choosing_town([*replies, "It is 18:20 and 7 hours.", "-"], {last: "get_day"}, TALKED)
    town.TOOLS = {**Town.TOOLS, **toolbox}
    chat.backend.preferred = {f"{first} {last}": "get_clock", last: "get_day"}  # type: ignore[attr-defined]
    take_turn(chat, f"{first} {last}")
    assert town.called == [("get_clock", {"place": "Vilnius"}), ("get_day", {"place": "Vilnius"})]


def test_a_call_for_a_part_that_names_nothing_is_taken_back_if_it_fails() -> None:
    first, last = "What is on at the office on 2026-12-10,", "and what did it say?"
    events, answer = call_text("list_events", date="2026-12-10"), "Dentist at 15:30."
    replies = [events, answer, *[call_text("get_bill", number="it")] * 2, *["-"] * 3]
    preferred = {f"{first} {last}": "list_events", last.removeprefix("and "): "get_bill"}
    chat, toolbox, _ = open_choosing_town(replies, preferred, TALKED)
    assert read(take_turn(chat, f"{first} {last}")) == answer
    assert [name for name, _ in toolbox.called] == ["list_events", "get_bill"]
    said = [message for message in chat.history if message.role == "assistant"]
    assert said[-1].text == answer and not said[-1].reply_kind
    assert not any(message.result and message.result.status == "failed" for message in chat.history)


def test_an_answer_that_is_shown_again_says_what_was_changed() -> None:
    first, last = "Write hello into plan.txt,", "what did it say?"
    write = call_text("write_file", path="plan.txt", content="hello")
    replies = [write, "Written.", *[call_text("get_bill", number="it")] * 2, *["-"] * 3]
    chat, toolbox, _ = open_choosing_town(replies, {f"{first} and {last}": "write_file", last: "get_bill"}, TALKED)
    events = take_turn(chat, f"{first} and {last}")
    assert [name for name, _ in toolbox.called] == ["write_file", "get_bill"]
    called = max(index for index, event in enumerate(events) if isinstance(event, CallsDetected))
    behind = "".join(event.text for event in events[called:] if isinstance(event, Text))
    assert "Completed files__write_file" in behind and "Written." in behind


def test_a_file_that_a_message_brings_is_not_read_again() -> None:
    text = "When is the meeting? See @bakery.txt\n\nContent of bakery.txt (text/plain):\n```\nMeeting: 8 May 2027\n```"
    calls = [call_text("read_file", path="bakery.txt"), call_text("list_folder", path="bakery.txt")]
    for reply in ("It is on 8 May 2027.", "I do not know."):
        chat, toolbox, backend = open_choosing_town([reply, *calls, *["-"] * 3], {}, TALKED)
        message = Message("user", text, asked="When is the meeting? See")
        backend.preferred = {message.asked: "read_file", text: "read_file"}
        events = asyncio.run(collect(Turn(chat).run([message])))
        assert read(events) == reply and toolbox.called == []


def test_a_change_is_chosen_only_where_one_is_asked_for() -> None:
    thanks, order = "Who else would help me so well?", "Write a file thanks.txt that says thank you."
    write = call_text("write_file", path="thanks.txt", content="thank you")
    chat, toolbox, backend = open_choosing_town(["You are welcome.", CLOCK, CLOCK], {thanks: "write_file"}, TALKED)
    backend.unsure, backend.likeliest, backend.unwilling = {thanks}, {thanks: "get_clock"}, {thanks}
    take_turn(chat, thanks)
    assert len(backend.forced) == 2 and not any("write_file" in rules for rules in backend.forced)
    chat, toolbox, backend = open_choosing_town(
        ["Here you are.", write, "Written.", "-"], {order: "write_file"}, TALKED
    )
    take_turn(chat, order)
    assert [name for name, _ in toolbox.called] == ["write_file"] and "write_file" in backend.forced[0]


class TwoReaders(Town):
    """Two servers have a tool of one name."""

    @property
    def tools(self) -> Sequence[Tool]:
        schema = self.make_schema("path")
        return [*super().tools, Tool("read_file", "Read a file of the board", schema, "board", read_only=True)]


def test_a_call_that_was_asked_of_one_server_is_of_its_tool() -> None:
    replies = [call_text("files__read_file", path="bakery"), RESULTS["read_file"]]
    replies += ["It is empty.", call_text("read_file", path="harbour"), RESULTS["read_file"], "-"]
    chat, _, _ = open_choosing_town(replies, {"What does the file bakery say?": "read_file"})
    chat.toolbox = TwoReaders({})
    take_turn(chat, "What does the file bakery say?")
    take_turn(chat, "and the harbour?")
    read_files = [message.result for message in chat.history if message.result]
    assert [(result.server, result.arguments) for result in read_files] == [
        ("files", {"path": "bakery"}),
        ("files", {"path": "harbour"}),
    ]


def test_a_file_goes_to_a_tool_that_takes_it_whatever_is_preferred() -> None:
    question, folder = "パン.txtには何がある？", call_text("list_folder", path="パン.txt")
    replies = ["何もありません。", call_text("read_media_file", path="bread.txt"), folder, folder]
    replies += [call_text("read_file", path="bread.txt"), RESULTS["read_file"], "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "list_folder"}, TALKED)
    backend.unsure = {question}
    take_turn(chat, question)
    assert toolbox.called == [("read_file", {"path": "パン.txt"})]


def test_a_question_for_something_new_is_none_for_what_was_said() -> None:
    question, bill = "Is my bill 4711 of Lyon paid?", ("get_bill", {"number": "4711"})
    replies = ["I do not know that of Lyon.", call_text(bill[0], **bill[1]), *["Nothing."] * 6]
    chat, toolbox, _ = open_choosing_town(replies, {question: "get_bill"}, TALKED)
    take_turn(chat, question)
    assert toolbox.called[:1] == [bill]


def test_what_the_user_said_is_answered_from_the_conversation() -> None:
    for question, reply in (
        ("Which city do I live in?", "You live in Lyon, of course."),
        ("Where did I say I live?", "In a city."),
        ("What is my favourite colour?", "Your favourite colour is green."),
        ("When is Ingrid's birthday?", "Ingrid's birthday is on 14 March."),
    ):
        told = [Message("user", "Remember that I like green."), Message("assistant", "I will."), *TALKED]
        told += [Message("user", "Note this: Ingrid is my sister, birthday 14 March."), Message("assistant", "Noted.")]
        chat, toolbox, backend = open_choosing_town([reply, CLOCK], {question: "get_clock"}, told)
        assert read(take_turn(chat, question)) == reply and not (toolbox.called or backend.asked)


def test_what_a_question_before_spoke_of_is_nothing_that_the_user_told() -> None:
    before = [Message("user", "オーストラリアの首都はどこですか？"), Message("assistant", "キャンベラです。")]
    replies = ["ビリニュスはリトアニアの首都です。", *[CLOCK] * 3, RESULTS["get_clock"], "-", "-"]
    chat, toolbox, _ = open_choosing_town(replies, {"ビリニュスは何時？": "get_clock"}, before)
    take_turn(chat, "ビリニュスは何時？")
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})]


def test_an_unsure_call_that_finds_nothing_is_answered_in_words() -> None:
    question, search = "And that city, which was it?", call_text("search_nodes", query="that city")
    for unsure, answer in (({question}, "It was Lyon."), (set[str](), "Nothing.")):
        chat, toolbox, backend = open_choosing_town([search, answer, "-"], {question: "search_nodes"}, TALKED)
        backend.unsure = unsure
        assert read(take_turn(chat, question)).startswith(answer)
        told = "\n".join(message.text for message in backend.prompts[1])
        assert ("entities" in told) is (not unsure) and "Lyon" in told
    # a number from nowhere would be taken for what was found
    replies = [search, "Lyon, in 1998.", "It found nothing.", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "search_nodes"}, TALKED)
    backend.unsure = {question}
    assert "1998" not in read(take_turn(chat, question))
    # an unsure call of the model itself runs
    chat, toolbox, backend = open_choosing_town(
        [call_text("get_bill", number="17"), "Nothing.", *["-"] * 3], {}, TALKED
    )
    backend.unsure = {"Hm, bill 17?"}
    answer = read(take_turn(chat, "Hm, bill 17?"))
    assert toolbox.called == [("get_bill", {"number": "17"})] and "There is no such thing." in answer


def test_what_one_tool_fails_to_do_is_asked_of_another() -> None:
    question, bill = "Kas yra 4711?", ("get_bill", {"number": "4711"})
    events, page = ("list_events", {"date": "4711"}), ("fetch", {"url": "4711"})
    for made in (events, page):
        replies = [call_text(bill[0], **bill[1]), "Nothing.", call_text(made[0], **made[1]), "Found.", *["-"] * 3]
        chat, toolbox, backend = open_choosing_town(replies, {question: made[0]}, TALKED)
        backend.unsure, backend.likeliest = {question}, {question: made[0]}
        take_turn(chat, question)
        assert toolbox.called == [bill, made]
        # it is made to call the likeliest one: of all of them a model calls anything
        assert made[0] in backend.forced[0] and not any("get_bill" in rules for rules in backend.forced)


def test_the_likelier_tool_of_its_server_is_called_where_one_has_failed() -> None:
    question, lessons = "Who teaches boxing, and is it hard?", ("get_lesson", {"title": "boxing"})
    replies = [call_text("get_teacher", name="boxing"), "Nothing.", call_text(lessons[0], **lessons[1]), *["-"] * 6]
    chat, town, backend = open_choosing_town(replies, {question: "get_lesson"}, TALKED)
    town.TOOLS = {
        **Town.TOOLS,
        "get_room": ("gym", "room", "Show a room"),
        "get_teacher": ("gym", "name", "Show a teacher"),
        "get_lesson": ("gym", "title", "Show a lesson and who teaches it"),
    }
    backend.unsure, backend.likeliest = {question}, {question: "get_lesson"}
    take_turn(chat, question)
    assert town.called == [("get_teacher", {"name": "boxing"}), lessons]


def test_an_engine_that_would_lose_the_conversation_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "loses_conversation", True)
    chat, _, backend = open_choosing_town(["Breathe slowly."], {})
    assert read(take_turn(chat, "Any idea against stage fright?")) == "Breathe slowly." and backend.asked == []
    assert not isinstance(RequestBackend(backend, ()), FirstTokenScorer)
    monkeypatch.undo()
    assert isinstance(RequestBackend(backend, ()), FirstTokenScorer)
    long = "Is this a good text? " + "It rained. " * 400
    chat, _, backend = open_choosing_town(["Yes."], {})
    assert read(take_turn(chat, long)) == "Yes." and backend.asked == []  # it would be evaluated once more


def test_a_model_that_is_too_small_to_know_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    chat, _, backend = open_choosing_town(["Breathe slowly."], {})
    assert read(take_turn(chat, "Any idea against stage fright?")) == "Breathe slowly." and backend.asked == []


@pytest.mark.parametrize("history", [(), TALKED], ids=["first turn", "later turn"])
def test_a_small_model_is_made_to_call_the_tool_that_a_message_is_by_far_likeliest_for(
    history: Sequence[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    question = "Kiek valandų dabar Vilnius mieste?"
    chat, toolbox, backend = open_choosing_town([CLOCK, RESULTS["get_clock"], "-"], {}, history)
    backend.likeliest = {question: "get_clock"}
    assert read(take_turn(chat, question)) == RESULTS["get_clock"]  # before it replies in words
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})]
    assert "get_clock" in backend.forced[0] and "get_bill" not in backend.forced[0]


def test_a_small_model_is_not_made_to_change_what_nobody_asks_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    question = "Ar kavos nereikia?"
    chat, toolbox, backend = open_choosing_town(["I do not know."], {})
    backend.likeliest = {question: "write_file"}
    assert read(take_turn(chat, question)) == "I do not know."
    assert toolbox.called == [] and backend.forced == []


def test_each_part_of_a_message_to_a_small_model_has_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    parts = {"What is open in Vilnius?": "get_clock", "What is in order 17?": "get_bill"}
    chat, toolbox, backend = open_choosing_town([CLOCK, BILL, f"{RESULTS['get_clock']} No bill.", "-"], {})
    backend.likeliest = parts
    take_turn(chat, " ".join(parts))
    assert toolbox.called == [("get_clock", {"place": "Vilnius"}), ("get_bill", {"number": "17"})]


@pytest.mark.parametrize("is_close", [True, False], ids=["two tools are likely", "no tool is likely"])
def test_a_small_model_replies_where_no_tool_is_by_far_likeliest(
    is_close: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    question = "Any idea against stage fright?"
    chat, toolbox, backend = open_choosing_town(["Breathe slowly."], {})
    if is_close:
        backend.likeliest, backend.preferred = {question: "get_clock"}, {question: "get_bill"}
        monkeypatch.setattr(ChoosingBackend, "CLOSE", -20.0)
    assert read(take_turn(chat, question)) == "Breathe slowly."
    assert toolbox.called == [] and backend.compared and backend.forced == []


@pytest.mark.parametrize("parameters", [500_000_000, 1_500_000_000])
def test_what_is_likelier_of_who_asks_for_what_was_said_is_asked_of_no_tool(
    parameters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", parameters)
    question = "Und wie teuer war das, Lyon?"
    chat, toolbox, backend = open_choosing_town(["It was 7 euros.", CLOCK, "-"], {question: "get_clock"}, TALKED)
    backend.likeliest, backend.of_before = {question: "get_clock"}, {question}
    assert read(take_turn(chat, question)) == "It was 7 euros." and toolbox.called == []
    assert backend.forced == []


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("今ホノルルは何時ですか？", "ホノルル"),
        ("ホノルルとパリは何時ですか？", ""),  # which of the two?
    ],
)
def test_the_only_name_of_a_question_is_meant_where_a_value_stands_nowhere(question: str, place: str) -> None:
    replies = ["-", *[call_text("get_clock", place="Tokyo")] * 6, *["-"] * 8]
    chat, toolbox, _ = open_choosing_town(replies, {question: "get_clock"}, TALKED)
    take_turn(chat, question)
    assert toolbox.called[:1] == ([("get_clock", {"place": place})] if place else [])


def test_what_is_to_be_remembered_is_stored() -> None:
    order = "Please remember that my sister is called Ines."
    entity = {"entities": [{"name": "Ines", "entityType": "person", "observations": ["sister"]}]}
    replies = [call_text("get_load"), call_text("create_entities", **entity), "It is stored.", *["-"] * 4]
    chat, toolbox, backend = open_choosing_town(replies, {}, TALKED)
    backend.of_before = {order}
    take_turn(chat, order)
    assert toolbox.called == [("create_entities", entity)]
    assert not any("said before" in text for text in backend.without_tool)


def test_the_word_for_another_server_is_no_reason_against_a_call_that_is_preferred() -> None:
    question = "How late is it at the desk in Vilnius?"
    chat, toolbox, _ = open_choosing_town([CLOCK, RESULTS["get_clock"], *["-"] * 6], {question: "get_clock"}, TALKED)
    turn = take_turn(chat, question)
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})] and list_reasons(turn) == []


@pytest.mark.parametrize("is_sure", [False, True])
def test_an_unsure_call_for_what_asks_for_no_tool_does_not_run(is_sure: bool) -> None:
    question = "Und wie teuer war das, Lyon?"
    replies = [call_text("get_clock", place="Lyon"), *["It is 18:20." if is_sure else "It was 7 euros."] * 3]
    chat, toolbox, backend = open_choosing_town(replies, {question: "get_clock"}, TALKED)
    backend.of_before = {question}
    backend.unsure = set() if is_sure else {question}
    take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == ["get_clock"] * is_sure


def test_a_call_of_a_small_model_for_what_asks_for_no_tool_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    question = "Und wie teuer war das, Lyon?"
    replies = [call_text("get_clock", place="Lyon"), "It was 7 euros."]
    chat, toolbox, backend = open_choosing_town(replies, {}, TALKED)
    backend.of_before = {question}
    turn = take_turn(chat, question)
    assert read(turn) == "It was 7 euros." and toolbox.called == [] and list_reasons(turn) == ["unspoken"]


@pytest.mark.parametrize("name", ["get_clok", "get_bill"], ids=["no tool", "another tool"])
def test_a_small_model_that_calls_another_tool_is_made_to_call_a_likely_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    question = "Kiek valandų dabar Vilnius mieste?"
    replies = [call_text(name, number="Vilnius"), CLOCK, RESULTS["get_clock"], "-"]
    chat, toolbox, backend = open_choosing_town(replies, {}, TALKED)
    backend.likeliest, backend.preferred = {question: "get_clock"}, {question: "list_events"}
    monkeypatch.setattr(ChoosingBackend, "CLOSE", -20.0)  # two tools are likely
    assert read(take_turn(chat, question)) == RESULTS["get_clock"]
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})]


def test_tools_of_a_server_that_told_of_what_is_named_are_likelier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    question = "How old is Dentist?"
    told = ToolResult("desk", "list_events", {"date": "monday"}, "completed", "Dentist, 15:30")
    before = [
        Message("user", "What is on monday?"),
        Message("assistant", call_text("list_events", date="monday")),
        Message("tool", told.text, result=told),
        Message("assistant", "The dentist."),
    ]
    bill = call_text("get_bill", number="Dentist")
    chat, toolbox, backend = open_choosing_town([bill, "It is 3 years old.", "-", "-"], {}, before)
    backend.likeliest, backend.preferred = {question: "get_bill"}, {question: "get_clock"}
    monkeypatch.setattr(ChoosingBackend, "CLOSE", -20.0)  # without it, the clock of another server is as likely
    take_turn(chat, question)
    assert toolbox.called == [("get_bill", {"number": "Dentist"})]
    assert "get_bill" in backend.forced[0] and "get_clock" not in backend.forced[0]


def test_a_small_model_looks_up_nothing_in_the_place_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    order, write = "Please write thanks to thanks.txt.", {"path": "thanks.txt", "content": "thanks"}
    chat, toolbox, backend = open_choosing_town([call_text("write_file", **write), "Written.", "-"], {})
    backend.likeliest = {order: "list_folder"}
    take_turn(chat, order)
    assert toolbox.called == [("write_file", write)]


def test_a_calculation_of_all_numbers_of_a_message_is_of_the_right_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    monkeypatch.setattr(Town, "TOOLS", {**Town.TOOLS, "reckon": ("desk", "expression", "Work out a number")})
    question = "Kiek yra 3 naktys po 85 EUR?"
    chat, toolbox, backend = open_choosing_town([call_text("reckon", expression="3 * 85"), *["-"] * 8], {}, TALKED)
    backend.likeliest, backend.preferred = {question: "get_clock"}, {question: "get_bill"}
    monkeypatch.setattr(ChoosingBackend, "CLOSE", -20.0)
    take_turn(chat, question)
    assert toolbox.called[0] == ("reckon", {"expression": "3 * 85"})


def test_another_likely_tool_is_called_where_one_has_no_value_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    question = "Kas buvo tada Vilnius mieste?"
    replies = ["In the town.", call_text("get_bill", number="4711"), CLOCK, RESULTS["get_clock"], "-"]
    chat, toolbox, backend = open_choosing_town(replies, {}, TALKED)
    backend.likeliest, backend.preferred = {question: "get_clock"}, {question: "get_bill"}
    monkeypatch.setattr(ChoosingBackend, "CLOSE", -20.0)
    assert read(take_turn(chat, question)) == RESULTS["get_clock"]
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})]
    compared = [name for names in backend.compared for name in names]
    assert len(compared) == len({*compared})  # once, also where it is asked twice


@pytest.mark.parametrize(
    ("question", "parameter", "is_compared"),
    [
        ("Ist es zusammen viel?", "number", True),
        ("Ist es zusammen viel?", "expression", False),  # a calculator knows it better
        ("Ist 820 + 64 viel?", "number", False),  # the message has the amounts itself
    ],
)
def test_a_sum_is_told_from_what_tools_do_where_none_calculates(
    question: str, parameter: str, is_compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    monkeypatch.setattr(Town, "TOOLS", {**Town.TOOLS, "reckon": ("desk", parameter, "Work out a number")})
    chat, _, backend = open_choosing_town(["It is 7.", "-"], {}, TALKED)
    take_turn(chat, question)
    assert any("a sum" in text for text in backend.without_tool) == is_compared


def test_an_optional_value_that_nobody_said_is_left_out_of_a_call_that_a_model_is_made_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    monkeypatch.setattr(Town, "make_schema", staticmethod(lambda _names: {"properties": {"place": {}, "genre": {}}}))
    question = "Kiek valandų dabar Vilnius mieste?"
    replies = [call_text("get_clock", place="Vilnius", genre="fiction"), RESULTS["get_clock"], "-"]
    chat, toolbox, backend = open_choosing_town(replies, {})
    backend.likeliest = {question: "get_clock"}
    assert read(take_turn(chat, question)) == RESULTS["get_clock"]
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})]


def test_a_call_that_a_user_declines_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChoosingBackend, "parameter_count", 500_000_000)
    question = "Kiek valandų dabar Vilnius mieste?"
    _, toolbox, backend = open_choosing_town([CLOCK, "I do not know.", "-"], {})
    backend.likeliest = {question: "get_clock"}
    asked = list[tuple[str, bool]]()

    async def decline(tool: Tool, _arguments: Mapping[str, Any], position: CallPosition) -> Consent:
        asked.append((tool.name, position.is_described))
        return "no"

    settings = Settings(policy=Policy(approve="ask"), prompt_profile="qwen2.5")
    assert read(take_turn(Conversation(backend, toolbox, settings, load(), decline), question)) == "I do not know."
    assert toolbox.called == [] and asked == [("get_clock", False)]  # no answer describes it


@pytest.mark.parametrize(("place", "is_made"), [("桜橋駅", True), ("桜橋線", False), ("松橋駅", False)])
def test_a_place_is_said_also_without_what_it_is(place: str, is_made: bool) -> None:
    question = "桜橋は今何時ですか？"
    replies = ["18時です。", *[call_text("get_clock", place=place)] * 3, *["18:20です。"] * 3]
    chat, toolbox, _ = open_choosing_town(replies, {question: "get_clock"}, TALKED)
    take_turn(chat, question)
    assert toolbox.called == [("get_clock", {"place": place})] * is_made


def test_a_name_may_be_translated_for_a_call_that_is_preferred() -> None:
    question = "那维尔纽斯还有多久天亮？"
    replies = ["天快亮了。", call_text("get_clock", place="Vilnius"), RESULTS["get_clock"], "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "get_clock"}, TALKED)
    take_turn(chat, question)
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})]
    assert {message for message, _ in backend.asked} == {question}  # 还有 joins nothing here


@pytest.mark.parametrize(
    ("question", "first", "further", "made"),
    [
        ("How much do an adult and a kid pay?", "adult", ["child"], ["adult", "child"]),
        ("老人票和成人票各多少钱？", "senior", ["adult", "child"], ["senior", "adult"]),  # as many as it asks for
        ("How much does an adult pay, and a dog?", "adult", ["horse"], ["adult"]),  # nobody speaks of a horse
        ("What are price and kind of an adult entry?", "adult entry", ["adult"], ["adult entry"]),
        ("What are price and reading of an adult?", "adult", ["reading"], ["adult"]),  # another tool tells that
        ("How much does an adult pay?", "adult", ["child"], ["adult"]),
    ],
)
def test_each_thing_that_a_question_joins_is_looked_up_by_one_tool(
    question: str, first: str, further: Sequence[str], made: Sequence[str]
) -> None:
    calls = [call_text("entry_price", kind=kind) for kind in (first, *further)]
    replies = [calls[0], *(reply for call in calls[1:] for reply in ("It is 9.80.", call)), *["-"] * 8]
    chat, _, _ = open_choosing_town(replies, {question: "entry_price"}, TALKED)
    chat.toolbox = toolbox = Farm({})
    take_turn(chat, question)
    assert [arguments["kind"] for _, arguments in toolbox.called] == made


def test_another_choice_that_nobody_named_is_no_next_page() -> None:
    class Choices(Farm):
        @staticmethod
        def make_schema(parameters: str) -> Mapping[str, Any]:
            return {**Farm.make_schema(parameters), "required": []}

    question, calls = (
        "How much does an adult pay?",
        [call_text("entry_price", kind=kind) for kind in ("adult", "senior")],
    )
    chat, _, _ = open_choosing_town([*calls, *["It is 9.80."] * 4], {question: "entry_price"}, TALKED)
    chat.toolbox = toolbox = Choices({})
    take_turn(chat, question)
    assert [arguments["kind"] for _, arguments in toolbox.called] == ["adult"]


def test_a_part_that_only_names_another_thing_is_asked_alone_of_the_tool() -> None:
    question, (adult, child) = (
        "How much does an adult pay and a kid?",
        (call_text("entry_price", kind=kind) for kind in ("adult", "child")),
    )
    replies = [adult, "It is 9.80.", child, "It is 9.80 each.", *["-"] * 4]
    chat, _, backend = open_choosing_town(replies, {question: "entry_price"}, TALKED)
    chat.toolbox = toolbox = Farm({})
    take_turn(chat, question)
    assert [arguments["kind"] for _, arguments in toolbox.called] == ["adult", "child"]
    # in the conversation, the model would repeat the first call
    assert backend.prompts[2][-1].text == "a kid?"


def test_a_part_that_refers_to_another_is_called_in_the_conversation() -> None:
    first, last = "Who is at the desk on 2026-12-03,", "what is on that day?"
    events = [call_text("list_events", date=date) for date in ("today", "2026-12-03")]
    replies = [call_text("search_nodes", query="2026-12-03"), "Lio.", *events, *["-"] * 6]
    preferred = {f"{first} and {last}": "search_nodes", last: "list_events"}
    chat, toolbox, _ = open_choosing_town(replies, preferred, TALKED)
    take_turn(chat, f"{first} and {last}")
    assert toolbox.called[1:] == [("list_events", {"date": "2026-12-03"})]


def test_what_a_japanese_part_leaves_out_is_called_in_the_conversation() -> None:
    question, last = "ビリニュスは何時？昼の長さは？", "昼の長さは？"
    calls = [call_text("get_day", place=place) for place in ("Berlin", "Vilnius")]
    chat, town, backend = open_choosing_town([CLOCK, "18:20です。", *calls, *["18:20と7時間です。"] * 4], {}, TALKED)
    town.TOOLS = {**Town.TOOLS, "get_day": ("board", "place", "Tell how long a day is")}
    backend.preferred = {question: "get_clock", last: "get_day"}
    take_turn(chat, question)
    assert town.called == [("get_clock", {"place": "Vilnius"}), ("get_day", {"place": "Vilnius"})]


@pytest.mark.parametrize(("value", "to", "is_made"), [(250, "JPY", True), (100, "JPY", False), (250, "SEK", False)])
def test_a_call_goes_on_with_the_one_before_that_differs_in_one_value(value: int, to: str, is_made: bool) -> None:
    question, call = "How much is 250 EUR in SEK?", convert(value, "EUR", to)
    replies = [convert(250, "EUR", "SEK"), "It is 9.80.", "About 40,000.", *[call] * 3, "It is 9.80.", *["-"] * 4]
    chat, _, backend = open_choosing_town(replies, {question: "convert"})
    chat.toolbox = toolbox = Farm({})
    backend.unsure = {"and in yen"}
    take_turn(chat, question)
    take_turn(chat, "and in yen")
    assert (len(toolbox.called) > 1) is is_made


@pytest.mark.parametrize(
    ("question", "way", "is_unsure", "is_made"),
    [
        ("and back?", "to_town", True, True),  # it says the choice of the schema in its own words
        ("and back?", "to_town", False, False),
        ("Und mit der Rückfahrt?", "to_town", True, True),
        ("and back?", "to_island", True, False),  # of the same way again
    ],
)
def test_a_question_goes_on_with_another_choice_of_the_one_before(
    question: str, way: str, is_unsure: bool, is_made: bool
) -> None:
    told = ToolResult("desk", "list_ferries", {"way": "to_island"}, "completed", "9:20")
    history = [Message("user", "When do the ferries go?"), Message("assistant", "-"), Message("tool", "9:20", told)]
    call = call_text("list_ferries", way=way)
    replies = ["At 10:15.", *[call] * 3, "It is 9:20.", *["-"] * 6]
    chat, _, backend = open_choosing_town(replies, {}, [*history, *TALKED[1:]])
    chat.toolbox = toolbox = Harbour({})
    backend.unsure = {question} if is_unsure else set()
    take_turn(chat, question)
    assert toolbox.called == [("list_ferries", {"way": way})] * is_made


@pytest.mark.parametrize(
    ("message", "is_kept"), [("and in vilnius", True), ("what about vilnius so far", True), ("vilnius is nice", False)]
)
def test_a_call_that_goes_on_with_another_value_is_kept_without_a_question_mark(message: str, is_kept: bool) -> None:
    told = ToolResult("board", "get_clock", {"place": "Oslo"}, "completed", "18:20")
    history = [Message("user", "What time is it in Oslo?"), Message("assistant", "-"), Message("tool", "18:20", told)]
    replies = [call_text("get_clock", place="vilnius"), "It is 18:20.", *["-"] * 6]
    chat, town, _ = open_choosing_town(replies, {}, [*history, *TALKED[1:]])
    take_turn(chat, message)
    assert town.called == [("get_clock", {"place": "vilnius"})] * is_kept


@pytest.mark.parametrize("message", ["And with the express service?", "und mit express?"])
def test_what_is_made_true_by_a_question_that_goes_on_is_called(message: str) -> None:
    told = ToolResult("desk", "get_price", {"item": "suit", "express": False}, "completed", "9.80")
    history = [Message("user", "Price of a suit?"), Message("assistant", "-"), Message("tool", "9.80", told)]
    call = {"item": "suit", "express": True}
    chat, town, _ = open_choosing_town(
        [call_text("get_price", **call), "9.80", *["-"] * 8], {}, [*history, *TALKED[1:]]
    )
    town.TOOLS = {"get_price": ("desk", "item express", "Price of a cleaning"), **Town.TOOLS}
    take_turn(chat, message)
    assert town.called == [("get_price", call)]


def test_what_is_true_is_not_what_a_question_goes_on_with() -> None:
    told = ToolResult("board", "get_clock", {"place": "Oslo"}, "completed", "18:20")
    history = [Message("user", "What time is it?"), Message("assistant", "-"), Message("tool", "18:20", told)]
    replies = ["Later.", *[call_text("get_clock", place=True)] * 3, *["-"] * 6]
    chat, town, _ = open_choosing_town(replies, {}, [*history, *TALKED[1:]])
    take_turn(chat, "and back?")
    assert town.called == []


@pytest.mark.parametrize(
    ("question", "is_near"), [("when does it close?", True), ("它几点关门", True), ("Kas bus?", False)]
)
def test_what_refers_to_the_turn_before_is_asked_of_its_server_first(question: str, is_near: bool) -> None:
    told = ToolResult("desk", "get_bill", {"number": "7"}, "completed", "The gym, 19.50")
    history = [Message("user", "Which gym is bill 7 of?"), Message("assistant", "-"), Message("tool", told.text, told)]
    replies = ["At ten.", call_text("list_events", date="7"), "Dentist, 15:30.", *["-"] * 8]
    chat, _, backend = open_choosing_town(replies, {question: "list_events"}, [*history, *TALKED[1:]])
    take_turn(chat, question)
    assert ("get_bill" in backend.forced[0] and "get_clock" not in backend.forced[0]) is is_near


class Harbour(Town):
    """A tool whose argument is one of two choices."""

    TOOLS: Mapping[str, tuple[str, str, str]] = {**Town.TOOLS, "list_ferries": ("desk", "way", "List the ferries")}

    @staticmethod
    def make_schema(parameters: str) -> Mapping[str, Any]:
        schema = Town.make_schema(parameters)
        ways = {"way": {"enum": ["to_island", "to_town"]}}
        return {**schema, "properties": ways} if parameters == "way" else schema


def test_two_things_that_are_compared_are_no_two_questions() -> None:
    question = "What's the difference between a clock and a sun dial?"
    replies = ["The sun.", call_text("get_load"), *[call_text("get_clock", place="sun dial")] * 3, "-", "-"]
    chat, toolbox, _ = open_choosing_town(replies, {"a sun dial?": "get_clock"}, TALKED)
    assert read(take_turn(chat, question)) == "The sun." and toolbox.called == []


class Farm(Town):
    """Tools as somebody writes them for themselves."""

    TOOLS: Mapping[str, tuple[str, str, str]] = {
        **Town.TOOLS,
        "convert": ("desk", "value unit to", "Convert units"),
        "entry_price": ("farm", "kind", "Price of an entry, kind: adult, child or senior"),
        "snack_price": ("farm", "item", "Price of a snack"),
        "sensor_reading": ("farm", "house sensor", "Reading of a sensor in a green house"),
        "log_harvest": ("farm", "crop kg date", "Log what was harvested"),
    }
    WRITING = (*Town.WRITING, "log_harvest")

    @staticmethod
    def make_schema(parameters: str) -> Mapping[str, Any]:
        return {**Town.make_schema(parameters), "required": [name for name in parameters.split() if name != "date"]}


def convert(value: int, unit: str, to: str) -> str:
    return call_text("convert", value=value, unit=unit, to=to)


@pytest.mark.parametrize(
    ("question", "is_unsure", "replies", "made"),
    [
        # a choice that the description lists
        ("A ticket for a kid, please?", False, [call_text("entry_price", kind="child")], {"kind": "child"}),
        # ハウス is what the argument is called, and 湿度 may be translated
        (
            "ハウス3の湿度を教えて",
            False,
            [call_text("sensor_reading", house=3, sensor="humidity")],
            {"house": 3, "sensor": "humidity"},
        ),
        # a number of the message speaks for the call
        ("5000円は何ユーロですか", True, [convert(5000, "JPY", "EUR")], {"value": 5000, "unit": "JPY", "to": "EUR"}),
        # of the likely tools the model takes one, where it prefers none of its own
        (
            "What is the price of the snack with salt?",
            False,
            [call_text("get_load"), call_text("snack_price", item="salt")],
            {"item": "salt"},
        ),
    ],
)
def test_a_look_up_that_is_preferred_is_made(
    question: str, is_unsure: bool, replies: Sequence[str], made: Mapping[str, object]
) -> None:
    name = next(name for name, (_, names, _) in Farm.TOOLS.items() if names == " ".join(made))
    chat, _, backend = open_choosing_town(
        ["Well.", *replies, *["-"] * 6], {} if is_unsure else {question: name}, TALKED
    )
    chat.toolbox = toolbox = Farm({})
    backend.unsure, backend.likeliest = {question} if is_unsure else set(), {question: name}
    take_turn(chat, question)
    assert toolbox.called == [(name, made)]


def test_a_call_that_the_model_is_made_to_write_may_have_the_count_of_one_and_the_folder_of_its_server() -> None:
    class Repository(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {
            **Town.TOOLS,
            "git_log": ("git", "repo_path max_count", "Show commits"),
        }

    question = "What is the last commit in the project?"
    call = call_text("git_log", repo_path="path/to/project", max_count=1)
    chat, _, _ = open_choosing_town(["By user123.", call, "98.6", *["-"] * 4], {question: "git_log"}, TALKED)
    chat.toolbox, chat.get_folders = (toolbox := Repository({})), lambda: {"git": ("/srv/project",)}
    take_turn(chat, question)
    assert toolbox.called == [("git_log", {"repo_path": "/srv/project", "max_count": 1})]


def test_a_change_has_names_as_they_sound_and_no_day_that_nobody_said() -> None:
    harvest = call_text("log_harvest", crop="tomato", kg=12.5, date="2023-04-01")
    chat, _, _ = open_choosing_town([harvest, *["-"] * 6], {"トマトを12.5キロ記録して": "log_harvest"}, TALKED)
    chat.toolbox = toolbox = Farm({})  # nobody is there to be asked
    take_turn(chat, "トマトを12.5キロ記録して")
    assert toolbox.called == [("log_harvest", {"crop": "tomato", "kg": 12.5})]


def test_a_part_may_have_a_unit_as_tools_want_it() -> None:
    question, last = "What are 26 miles in km, and what are 68 kg in pounds?", "what are 68 kg in pounds?"
    again, rest = convert(26, "mi", "km"), convert(68, "kg", "lb")
    replies = [again, "42.", again, rest, rest, rest, "42 and 150.", "-", "-"]
    chat, _, _ = open_choosing_town(replies, {question: "convert", last: "convert"}, TALKED)
    chat.toolbox = toolbox = Farm({})
    take_turn(chat, question)
    assert [arguments["to"] for _, arguments in toolbox.called] == ["km", "lb"]


def test_each_tool_is_preferred_by_itself() -> None:
    question = "Who is at bill 17?"
    replies = ["Nobody.", call_text("get_clock", place="Riga"), call_text("list_folder", path="17"), "-", "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "get_clock"}, TALKED)
    take_turn(chat, question)
    assert toolbox.called == []  # the values of the one stand nowhere, and nothing speaks for the other
    assert {name for _, name in backend.asked} == {"get_clock", "list_folder", "get_bill"}


@pytest.mark.parametrize(
    "question", ["Do you remember my town?", "你还记得我的城市吗？", "どの町って言ったっけ？", "So what was my name?"]
)
def test_who_asks_what_was_said_calls_nothing(question: str) -> None:
    chat, toolbox, backend = open_choosing_town(["Lyon."], {question: "get_clock"}, TALKED)
    assert read(take_turn(chat, question)) == "Lyon." and toolbox.called == [] and backend.asked == []


@pytest.mark.parametrize("history", [(), TALKED], ids=["first turn", "later turn"])
def test_what_the_words_mean_is_asked_where_another_call_was_not_preferred(history: Sequence[Message]) -> None:
    question = "How much time is there in Vilnius, by the clock of the place?"
    replies = [call_text("search_nodes", query="Vilnius"), *[CLOCK, RESULTS["get_clock"], "-"]]
    chat, toolbox, backend = open_choosing_town(replies, {question: "get_clock"}, history)
    take_turn(chat, question)
    assert toolbox.called == [("get_clock", {"place": "Vilnius"})]
    # the clock is far likelier than what else shares a word with it
    assert {name for _, name in backend.asked} == {"search_nodes", "get_clock"}


def test_a_file_of_the_question_is_read_behind_a_call_that_failed() -> None:
    question = "How many bulbs are there in the 2 rows of plan.txt, in total?"
    calls = [call_text("calculate", expression="sum(2)"), call_text("get_load")]
    replies = [calls[0], "It failed.", calls[1], call_text("read_file", path="plan.txt"), *["It failed: 07:10."] * 5]
    chat, town, backend = open_choosing_town(replies, {question: "calculate"})
    town.TOOLS = {**Town.TOOLS, "calculate": ("desk", "expression", "Calculate how many")}
    backend.likeliest = {question: "get_load"}
    backend.unwilling = {question}  # it would clearly rather answer in words than tell the load
    take_turn(chat, question)
    assert [name for name, _ in town.called] == ["calculate", "read_file"]


def test_a_name_that_is_left_over_takes_the_place_of_the_one_that_was_looked_up() -> None:
    question = "whats the time in Vilnius and in Oslo right now"
    replies = [CLOCK, "It is 18:20.", *[CLOCK] * 2, "It is 18:20 in both.", *["-"] * 4]
    chat, toolbox, _ = open_choosing_town(replies, {question: "get_clock"})
    take_turn(chat, question)
    assert toolbox.called == [("get_clock", {"place": "Vilnius"}), ("get_clock", {"place": "Oslo"})]


def test_a_day_that_a_question_goes_on_with_is_looked_up_and_not_that_of_before() -> None:
    told = ToolResult("desk", "list_events", {"date": "Monday"}, "completed", "Dentist, 15:30")
    history = [
        Message("user", "月曜の予定は?"),
        Message("assistant", "-"),
        Message("tool", told.text, told),
        *TALKED[1:],
    ]
    question = "火曜は?"
    replies = ["予定はありません。", *[call_text("list_events", date="Monday")] * 2, "Dentist, 15:30.", *["-"] * 5]
    chat, town, backend = open_choosing_town(replies, {}, history)
    backend.unwilling = {question}
    take_turn(chat, question)
    assert town.called == [("list_events", {"date": "Tuesday"})]
