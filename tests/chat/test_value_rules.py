"""What a call is made of decides: whether it runs, is asked about, is announced only, or ends the calling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from chat.scripted_app import backend_of
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.model_families import find_family
from rkllm_chat.chat.answer import Answer
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.tool_traits import may_write
from rkllm_chat.chat.value_rules import REASONS
from rkllm_chat.config.named_settings import make_settings
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import Generation
from rkllm_chat.core import i18n
from rkllm_chat.core.events import Event, ReplyDiscarded, Text
from rkllm_chat.core.messages import Tool
from rkllm_chat.core.protocols import ApprovalCallback, CallPosition, Consent, Decline, decline_all
from rkllm_chat.mcp_client.content import resource_tools
from rkllm_chat.tui.event_lines import describe_event
from stage import FakeToolbox, call_text, make_chat, take_turn


class Office(FakeToolbox):
    """Has tools that read and tools that may change something, with required and optional arguments."""

    TOOLS: Mapping[str, tuple[bool, str, str]] = {
        "read_note": (True, "title", ""),
        "list_events": (True, "date", ""),
        "convert_units": (True, "value unit to", ""),
        "list_folder": (True, "path", "pattern"),
        "get_clock": (True, "place", ""),
        "fetch": (False, "url", ""),  # its server does not say that it only reads
        "find_contact": (True, "name", ""),
        "add_event": (False, "title date time", ""),
        "delete_note": (False, "title", ""),
        "get_memory": (True, "", ""),
        "read_query": (True, "query", ""),
        "write_file": (False, "path content", ""),
        "create_entities": (False, "entities", ""),
        "calculate": (True, "expression", ""),
    }
    ABOUT: Mapping[str, str] = {
        "fetch": "Fetch a page",
        "list_folder": "Show the files in a folder",
        "read_query": "Execute a SELECT query on the database",
        "create_entities": "Remember entities in the knowledge graph",
        "delete_note": "Delete what is remembered in a note",
    }

    def __init__(self, is_trusted: bool = False) -> None:
        super().__init__({name: self._answer(name) for name in self.TOOLS})
        self.is_trusted = is_trusted

    @property
    def tools(self) -> Sequence[Tool]:
        return [
            Tool(
                name,
                self.ABOUT.get(name, f"Does {name}."),
                {
                    "type": "object",
                    "properties": {name: {} for name in f"{required} {optional}".split()},
                    "required": required.split(),
                },
                "box",
                read_only=reads,
                trusted=self.is_trusted,
            )
            for name, (reads, required, optional) in self.TOOLS.items()
        ]

    def _answer(self, name: str) -> Any:
        async def answer(**arguments: Any) -> str:
            if "nowhere" in str(arguments):
                raise ValueError("There is no such thing.")
            return {"list_events": "09:30 Budget review; 14:00 Dentist", "list_folder": "a.txt b.txt"}.get(
                name, f"{name} of {' '.join(map(str, arguments.values()))}: 98.6"
            )

        return answer


def answer_with(text: str) -> Any:
    """A tool that always answers so."""

    async def answer(**_arguments: Any) -> str:
        return text

    return answer


class Asked:
    """Approves or declines, and keeps what was asked."""

    def __init__(self, consent: Consent | Decline) -> None:
        self.consent, self.tools = consent, list[str]()

    async def __call__(self, tool: Tool, _arguments: Mapping[str, Any], _position: CallPosition) -> Consent | Decline:
        self.tools.append(tool.name)
        return self.consent


def open_office(
    replies: Sequence[str], approve: ApprovalCallback = decline_all, **chosen: Any
) -> tuple[Conversation, Office]:
    toolbox = Office()
    return make_chat(replies, toolbox, approve, **{"policy": Policy(allow=("*",)), **chosen}), toolbox


def read(events: Sequence[Event]) -> Answer:
    """What the model said, without the program's line on what it called."""
    answer = Answer()
    for event in events:
        if not (isinstance(event, Text) and event.is_report):
            answer.add(event)
    return answer


NOTE, EVENTS = call_text("read_note", title="wifi"), call_text("list_events", date="2026-12-01")
BUDGET = call_text("add_event", title="Budget review", date="2026-12-01", time="09:30")
PLUMBER = {"name": "98.6", "entityType": "person", "observations": ["98.6"]}
ON_THAT_DAY = "What is in my calendar on 2026-12-01?"


@pytest.mark.parametrize(
    ("question", "calls", "made", "reason"),
    [
        ("Read the note wifi.", [NOTE, call_text("find_contact", name="John Doe")], 1, "invented"),
        ("wifiというメモを読んで。", [NOTE, call_text("find_contact", name="John Doe")], 1, "invented"),
        ("Hello!", [call_text("find_contact", name="your_name")], 0, "invented"),
        (
            "What is 37 C in F?",
            [
                call_text("convert_units", value=37, unit="C", to="F"),
                call_text("convert_units", value=98.6, unit="F", to="C"),
            ],
            1,
            "circular",
        ),
        (ON_THAT_DAY, [EVENTS, BUDGET], 1, "unasked"),
        (ON_THAT_DAY, [EVENTS, call_text("delete_note", title="Dentist")], 1, "unasked"),
        ("Copy wifi into a new note.", [NOTE, call_text("create_entities", entities=[PLUMBER])], 1, "invented"),
        # what is asked for goes on
        ("Read the notes wifi and shopping.", [NOTE, call_text("read_note", title="shopping")], 2, ""),
        ("Read the note wifi and delete it.", [NOTE, call_text("delete_note", title="wifi")], 2, ""),
        (
            "What do the files in docs say?",
            [call_text("list_folder", path="docs"), call_text("read_note", title="a.txt")],
            2,
            "",
        ),
        ("Add Lunch with Tom on 9 Dec 2026, half past 12.", [call_text("find_contact", name="Tom")], 1, ""),
        ("Read the note.", [call_text("read_note", title="Plan")], 1, ""),  # other families may know of it
        ("clock, 北京现在几点？", [call_text("get_clock", place="Beijing")], 1, ""),
        ("巴黎和伦敦的日程？", [call_text("read_note", title="Paris"), call_text("read_note", title="London")], 2, ""),
        ("Who is Ana?", [call_text("find_contact", name="Ana Smith")], 1, ""),
        ("Which day is it?", [call_text("get_clock", place="local time")], 1, ""),
        ("Read wifi; what time is it?", [NOTE, call_text("get_clock", place="here")], 2, ""),
    ],
)
def test_the_values_of_a_call_decide_whether_the_model_answers_now(
    question: str, calls: list[str], made: int, reason: str
) -> None:
    chat, toolbox = open_office([*calls, "So it is.", "No call for what is left."])
    events = take_turn(chat, question)
    discarded = [event for event in events if isinstance(event, ReplyDiscarded)]
    assert (len(toolbox.called), [event.reason for event in discarded]) == (made, [reason] if reason else [])
    assert read(events).text.partition("\n\n[")[0] == "So it is."
    for event in discarded:
        assert event.reason in REASONS and event.values in describe_event(event, i18n.load())
    discarded_text = calls[-1] if reason else "\0"
    assert all(discarded_text not in message.text for prompt in backend_of(chat).prompts for message in prompt)


def test_the_values_of_a_discarded_call_are_written_as_words() -> None:
    made_up = call_text("read_note", title=["Zed", {"deep": [True, "Yan"]}])
    chat, _ = open_office([EVENTS, made_up, "So it is."])
    events = take_turn(chat, "What is on 2026-12-01?")
    assert [event.values for event in events if isinstance(event, ReplyDiscarded)] == ["read_note: Zed, true, Yan"]


def test_what_the_user_has_said_is_not_looked_up_elsewhere() -> None:
    chat, toolbox = open_office(["Hello Clara.", call_text("find_contact", name="John Doe"), "Clara."])
    take_turn(chat, "I am Clara.")
    assert read(take_turn(chat, "What is my name?")).text == "Clara." and toolbox.called == []


def test_a_change_with_a_value_from_nowhere_is_asked_about_although_it_is_allowed() -> None:
    made_up = call_text("add_event", title="Meeting with John", date="2023-04-15", time="14:00")
    asked = Asked("no")
    chat, toolbox = open_office([made_up, "Fine."], asked)
    take_turn(chat, "Add an event to my calendar.")
    assert (asked.tools, toolbox.called) == (["add_event"], [])
    chat, toolbox = open_office([made_up, "Never said.", "Never said."])
    answer = read(take_turn(chat, "Add an event to my calendar."))
    assert (answer.text, answer.end.answered_by, toolbox.called) == ("Which title, date and time?", "result", [])
    assert [result.decline_reason for result in answer.results] == ["missing"]
    said = call_text("add_event", title="Lunch with Tom", date="2026-12-09", time="12:30")
    chat.backend.replies[1:] = backend_of(make_chat([said, "Added."])).replies  # type: ignore[attr-defined]
    assert read(take_turn(chat, "Lunch with Tom on 2026-12-09 at 12:30")).text == "Added."
    assert [name for name, _ in toolbox.called] == ["add_event"]


@pytest.mark.parametrize(
    ("question", "call", "asked"),
    [
        ("Fetch the page.", {"name": "fetch", "url": "path/to/repo"}, "Which url?"),
        ("Read the note.", {"name": "read_note", "title": "note title"}, "Which title?"),
        ("读一下笔记。", {"name": "read_note", "title": "<title>"}, "请告诉我：title。"),
        ("Look up a contact.", {"name": "find_contact", "name_": "John Doe"}, "Which name?"),
        ("Please read the note of Ana.", {"name": "read_note", "title": "Plan"}, ""),
        ("What is my name?", {"name": "find_contact", "name_": "John Doe"}, ""),
        ("Hello!", {"name": "find_contact", "name_": "your_name"}, ""),
    ],
)
def test_a_call_that_reads_what_the_question_does_not_name_is_asked_back(
    question: str, call: dict[str, str], asked: str
) -> None:
    name = call.pop("name")
    written = call_text(name, **{key.rstrip("_"): value for key, value in call.items()})
    for first in (written, f"You can write it so:\n```\n{written[12:-16]}\n```\nand see."):
        chat, toolbox = open_office([first, *["So it is."] * 3], prompt_profile="qwen2.5")
        answer = read(take_turn(chat, question))
        assert toolbox.called == []
        assert answer.text == asked if asked else "Which" not in answer.text


def test_who_is_asked_is_told_which_values_nobody_has_said() -> None:
    told: list[tuple[str, ...]] = []

    async def approve(_tool: Tool, _arguments: Mapping[str, Any], position: CallPosition) -> Consent:
        told.append(position.made_up)
        return "no"

    budget = call_text("add_event", title="Budget review", date="2026-12-02", time="09:30")
    paris = call_text("add_event", title="Paris", date="2026-12-02", time="09:30")
    for question, call in (("Add Budget review at 9:30.", budget), ("添加巴黎，9:30。", paris)):
        chat, _ = open_office([call, "No."], approve)
        take_turn(chat, question)
    assert told == [("date",), ("date",)]


def test_with_approve_all_the_calls_run_as_they_come() -> None:
    made_up = call_text("add_event", title="Meeting with John", date="2023-04-15", time="14:00")
    chat, toolbox = open_office([made_up, call_text("read_note", title="other"), "Done."], policy=Policy("all"))
    assert read(take_turn(chat, "Do what is needed.")).text == "Done."
    assert [name for name, _ in toolbox.called] == ["add_event", "read_note"]


def test_a_repeated_read_is_no_question_of_permission_and_no_result() -> None:
    one, other = call_text("read_note", title="wifi"), call_text("read_note", title="shopping")
    for approve in (decline_all, asked := Asked("no")):
        todo = call_text("read_note", title="todo")
        chat, toolbox = open_office([one, other, one + todo, "All of it."], approve)
        answer = read(take_turn(chat, "Read wifi, shopping and todo."))
        assert [result.status for result in answer.results] == ["completed"] * 3 and answer.text == "All of it."
        assert "already made" in backend_of(chat).prompts[-1][-1].text
        chat, toolbox = open_office([one, other, one, "Both."], approve)
        assert read(take_turn(chat, "Read wifi and shopping.")).text == "Both." and len(toolbox.called) == 2
    assert asked.tools == []


def test_what_a_failed_call_has_made_up_is_left_out_once() -> None:
    chat, toolbox = open_office([call_text("list_folder", path="docs", pattern="nowhere"), "There."])
    assert read(take_turn(chat, "What is in docs?")).text == "There."
    assert [arguments for _, arguments in toolbox.called] == [{"path": "docs", "pattern": "nowhere"}, {"path": "docs"}]
    chat, toolbox = open_office([call_text("list_folder", path="docs", pattern="/path/to/folder"), "There."])
    take_turn(chat, "What is in docs?")
    assert [arguments for _, arguments in toolbox.called] == [{"path": "docs"}]


def test_an_unknown_name_with_the_parameters_of_one_tool_names_it_alone() -> None:
    chat, _ = open_office([call_text("read_rename", value=3, unit="C", to="F"), "Sorry."])
    take_turn(chat, "3 C in F?")
    assert "Did you mean convert_units?" in backend_of(chat).prompts[1][-1].text


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Who is nowhere man?", "The tool failed. Say in one sentence that it failed, and why."),
        ("「nowhere」さんの連絡先は？", "ツールは失敗しました。失敗したことと、その理由を一文で答えてください。"),
        ("nowhere 的联系方式是什么？", "工具调用失败了。请用一句话说明它失败了，以及原因。"),
    ],
)
def test_a_failed_call_is_said_to_have_failed_in_the_language_of_the_question(question: str, sentence: str) -> None:
    call = call_text("find_contact", name="nowhere man")
    chat, _ = open_office([call, call, *["It failed."] * 2, "Yes."])
    assert read(take_turn(chat, question)).text == "It failed."
    asking = backend_of(chat).prompts[-1]
    assert asking[-1].text.endswith(sentence) and "in your own words" not in asking[-1].text
    take_turn(chat, "Really?")
    assert backend_of(chat).prompts[-1][: len(asking)] == asking  # what the engine has evaluated stays


@pytest.mark.parametrize("empty", ["```", "```json\n```", "**", "`` ``\n", "~~~\n~~~"])
def test_a_reply_without_a_word_is_empty(empty: str) -> None:
    chat, _ = open_office([NOTE, empty, "It is tulip."])
    assert read(take_turn(chat, "Read the note wifi.")).end.answered_by == "forced"


@pytest.mark.parametrize(
    "told",
    [
        "You need 21.1 km × 5.8 minutes/km = 123.88 minutes.",
        "Work out 21.1 * 5.8 = 123.",
        "It is \\(21.1 \\times 5.8\\).",
    ],
)
def test_what_an_answer_works_out_is_calculated_where_that_was_measured(told: str) -> None:
    call = call_text("calculate", expression="21.1 * 5.8")
    chat, toolbox = open_office([told, call, "It takes 98.6 minutes."], prompt_profile="qwen2.5")
    assert read(take_turn(chat, "My race has 21.1 km, at 5.8 minutes each?")).text == "It takes 98.6 minutes."
    assert toolbox.called == [("calculate", {"expression": "21.1 * 5.8"})]
    chat, toolbox = open_office(["On 2026-12-01 from 09:30 - so soon.", "-"], prompt_profile="qwen2.5")
    assert "soon" in read(take_turn(chat, "When does it start?")).text


WIFI = {"title": "wifi"}


@pytest.mark.parametrize(
    ("announcement", "is_read"),
    [
        ("To read it, you can use the `read_note` function.", False),
        ("You can call read_note to get it.", False),
        ('Here it is:\n```python\nread_note(title="wifi")\n```\nThis reads it.', True),
        ("Use this object:\n```\n{ name: \"read_note\", arguments: { title: 'wifi' } }\n```\nand see.", True),
        ('```python\nread_note(title="wifi")\nread_note(title="todo")\n```\nThese read.', True),
        ("{'name': 'read_note', 'arguments': {'title': 'wifi'}} is what you need.", True),
        ('Call it so:\n```json\n{"name": "read_note", "arguments": {"title": "wifi"}}\n```\nThis reads it.', True),
    ],
)
def test_an_announced_call_is_made_and_kept_instead_of_the_sentence(announcement: str, is_read: bool) -> None:
    forced = [] if is_read else [NOTE]
    chat, toolbox = open_office([announcement, *forced, "It is tulip.", "Bye."])
    events = take_turn(chat, "What does the note wifi say?")
    answer = read(events)
    assert [event.reason for event in events if isinstance(event, ReplyDiscarded)] == ["announced"]
    assert (toolbox.called, answer.text, answer.suggested) == ([("read_note", WIFI)], "It is tulip.", [])
    take_turn(chat, "Thanks.")
    said = [message.text for message in backend_of(chat).prompts[-1]]
    assert announcement not in said and any("read_note" in text and "[TOOL_CALL]" in text for text in said[2:])


@pytest.mark.parametrize(
    ("question", "reply", "call"),
    [
        ("When is http://127.0.0.1/museum.html open?", "I cannot access the internet.", ("fetch", "url")),
        ("What is in /data/docs.d?", "I don't have access to your files.", ("list_folder", "path")),
        ("What is planned on 2026-12-01?", "```sql\nSELECT * FROM events\n```", ("list_events", "date")),
    ],
)
def test_a_refusal_is_no_answer_where_a_tool_takes_a_value_of_the_question(
    question: str, reply: str, call: tuple[str, str]
) -> None:
    value = next(word for word in question.rstrip("?").split() if any(map(str.isdigit, word)) or "/" in word)
    chat, toolbox = open_office([reply, call_text(call[0], **{call[1]: value}), "So it is."])
    assert read(take_turn(chat, question)).text == "So it is."
    assert toolbox.called == [(call[0], {call[1]: value})]


class OfficeWithResources(Office):
    """Its servers have resources, which the program's own tool reads."""

    @property
    def tools(self) -> Sequence[Tool]:
        own = Tool(
            "read_resource", "", {"type": "object", "properties": {"uri": {}}, "required": ["uri"]}, read_only=True
        )
        return [own, *super().tools]


def test_an_address_is_fetched_sooner_than_read_as_a_resource_of_a_server() -> None:
    chat = make_chat(["I cannot access the internet.", "Sorry."], OfficeWithResources())
    take_turn(chat, "When is http://127.0.0.1/museum.html open?")
    asked = backend_of(chat).prompts[1][-1].text
    assert "fetch" in asked and "read_resource" not in asked


@pytest.mark.parametrize(
    ("question", "reply", "offered"),
    [
        ("What can you do?", "I have read_note, list_events and find_contact.", None),
        ("Do you know water?", "I would fetch water if I could.", None),
        ("How does read_note work?", "read_note reads a note by its title.", call_text("read_note", title="groceries")),
        ("How do I remove a note?", "Use delete_note.", call_text("delete_note", title="groceries")),
    ],
)
def test_an_answer_about_tools_stays_one_and_nothing_made_up_runs(
    question: str, reply: str, offered: str | None
) -> None:
    chat, toolbox = open_office([reply, *filter(None, [offered])])
    answer = read(take_turn(chat, question))
    assert (answer.text, toolbox.called) == (reply, [])
    assert [call.arguments for call in answer.suggested] == ([{"title": "groceries"}] if offered else [])


def test_a_question_that_clearly_means_one_tool_has_its_call_forced_where_that_was_measured() -> None:
    convert = call_text("convert_units", value=3, unit="km", to="miles")
    for profile, called in (("qwen2.5", ["convert_units"]), ("default", [])):
        chat, toolbox = open_office(["About 2.", convert, "98.6 miles."], prompt_profile=profile)
        take_turn(chat, "Convert 3 km to miles: what units?")
        assert [name for name, _ in toolbox.called] == called
        chat, toolbox = open_office(["It is fine.", call_text("read_note", title="wifi")], prompt_profile=profile)
        assert (
            read(take_turn(chat, "Write a poem on conversion of units.")).text == "It is fine." and toolbox.called == []
        )


@pytest.mark.parametrize(
    "told",
    [
        "Good morning. My name is Ben, and my contact in the office is Lea, 7.",
        "I work at the note office and my memory is bad.",
        "Lovely. I taught in the note office for 31 years, you know. Never a dull day",
        "はじめまして。連絡先はさくらです。",
        "你好，我叫李雷，我的日历是2026-12-01。",
    ],
)
def test_who_asks_for_nothing_has_no_call_forced(told: str) -> None:
    void, no = call_text("list_folder", path="docs"), "I'm sorry, but I can't assist with that."
    contact, event = (
        call_text("find_contact", name="Lea"),
        call_text("add_event", title="X", date="2026-12-01", time="9"),
    )
    for first in (void, no, contact, event, "好。"):
        chat, toolbox = open_office([first, NOTE, "好。", "好。"], prompt_profile="qwen2.5")
        answer = read(take_turn(chat, told)).text
        assert toolbox.called == [] and answer in ("好。", NOTE)


def test_behind_a_result_a_call_without_values_is_about_something_that_was_spoken_of() -> None:
    memory = call_text("get_memory")
    for question, made in (("Read the note wifi.", 1), ("Read the note wifi; how much memory is free?", 2)):
        chat, toolbox = open_office([NOTE, memory, "98.6 and 98.6."], prompt_profile="qwen2.5")
        take_turn(chat, question)
        assert len(toolbox.called) == made


@pytest.mark.parametrize(
    ("question", "call", "is_made"),
    [
        ("What is 15 percent of 240?", call_text("calculate", expression="(15 / 100) * 240"), True),
        ("380円の15％はいくらですか。", call_text("calculate", expression="380 * 0.15"), True),
        ("12件的25%是多少？", call_text("calculate", expression="12 * 0.25"), True),
        ("What is 12.5 % off 80?", call_text("calculate", expression="80 * 0.6"), False),
        ("20 % of the people are late.", call_text("calculate", expression="20 / 100 * 250"), False),
        ("連絡先に美咲はいますか。", call_text("find_contact", name="Misaki"), True),
        ("連絡先に美咲はいますか。", call_text("find_contact", name="Misaki Sato"), True),
        ("連絡先に美咲はいますか。", call_text("find_contact", name="user 12"), False),
        ("What does plan.txt say?", call_text("list_folder", path="/home/mira/deep/notes/plan.txt"), True),
        ("What does plan.txt say?", call_text("list_folder", path="/etc/other/secret/place/plan.txt"), False),
        ("What does plan.txt say?", call_text("list_folder", path="/home/mira/deep/notes/list.txt"), False),
    ],
)
def test_a_forced_call_has_the_values_of_the_question_as_a_call_writes_them(
    question: str, call: str, is_made: bool
) -> None:
    """Shares of a percentage, names in Latin letters, and the folder that the entry of a server names."""
    fine = "It is fine." if question.isascii() else "好。"
    chat, toolbox = open_office([fine, call, "It is 98.6."], prompt_profile="qwen2.5")
    chat.get_folders = lambda: {"box": ("/home/mira/deep/notes",)}
    take_turn(chat, question)
    assert len(toolbox.called) == is_made


@pytest.mark.parametrize(
    ("question", "called"),
    [("Who wrote Hamlet?", []), ("How much memory is free?", ["get_memory"]), ("现在内存还剩多少？", ["get_memory"])],
)
def test_a_call_without_values_is_about_something_that_was_spoken_of(question: str, called: list[str]) -> None:
    chat, toolbox = open_office([call_text("get_memory"), "98.6, I think."], prompt_profile="qwen2.5")
    events = take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == called and read(events).text == "98.6, I think."
    told = [describe_event(event, i18n.load()) for event in events if isinstance(event, ReplyDiscarded)]
    assert bool(told) == (not called) and all("get_memory" in line for line in told)


@pytest.mark.parametrize(
    ("question", "called"),
    [
        ("Hi, I'm Mira and I live in Lyon.", []),
        ("What is my name?", []),
        ("我住在杭州。", []),
        ("Find the contact Mira.", ["find_contact"]),
        ("Wer ist Mira?", ["find_contact"]),  # there are no synonyms in this language
        ("And who is number 987?", ["find_contact"]),
        ("And who is it? They are in mira.vcf.", ["find_contact"]),
    ],
)
def test_a_first_call_is_of_a_tool_for_what_the_question_speaks_of(question: str, called: list[str]) -> None:
    value = next(name for name in ("Mira", "mira.vcf", "杭州", "987", "name") if name in question)
    chat, toolbox = open_office([call_text("find_contact", name=value), "It is 98.6."], prompt_profile="qwen2.5")
    events = take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == called and read(events).text == "It is 98.6."
    assert any(isinstance(event, ReplyDiscarded) and event.reason == "unspoken" for event in events) == (not called)


def test_the_next_question_may_go_on_with_the_tool_of_the_one_before() -> None:
    mira, tom, ana = (call_text("find_contact", name=name) for name in ("Mira", "Tom", "Ana"))
    replies = [mira, "It is 98.6.", tom, "It is 98.6 too.", "You are welcome.", ana, "Hello, Ana."]
    chat, toolbox = open_office(replies, prompt_profile="qwen2.5")
    for question in ("Find the contact Mira.", "And who is Tom?", "Thank you.", "I am Ana, and you?"):
        answer = read(take_turn(chat, question)).text
    assert [arguments["name"] for _, arguments in toolbox.called] == ["Mira", "Tom"] and answer == "Hello, Ana."


class Rental(Office):
    """The price of a bike."""

    TOOLS: Mapping[str, tuple[bool, str, str]] = {"get_price": (True, "model", "days helmet")}


@pytest.mark.parametrize(
    ("question", "second", "made"),
    [
        ("With a helmet?", {"model": "Volt", "helmet": True}, {"model": "Volt", "days": 3, "helmet": True}),
        ("Thanks! And the Tandem?", {"model": "Tandem"}, {"model": "Tandem", "days": 3}),
        ("And for 2 days?", {"model": "Volt", "days": 2}, {"model": "Volt", "days": 2}),
        ("And the Tandem?", {"model": "Tandem", "helmet": "tandem"}, {"model": "Tandem", "days": 3}),
        (
            "What does the Volt cost with a helmet?",
            {"model": "Volt", "helmet": True},
            {"model": "Volt", "helmet": True},
        ),
        ("What does the Tandem cost?", {"model": "Tandem"}, {"model": "Tandem"}),
    ],
)
def test_a_question_that_goes_on_with_a_look_up_keeps_its_other_values(
    question: str, second: Mapping[str, Any], made: Mapping[str, Any]
) -> None:
    price = call_text("get_price", model="Volt", days=3)
    toolbox = Rental()
    replies = [price, "It is 98.6.", call_text("get_price", **second), "It is 98.6, too.", "-"]
    chat = make_chat(replies, toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
    take_turn(chat, "What does the Volt cost for 3 days?")
    take_turn(chat, question)
    assert [arguments for _, arguments in toolbox.called][1:] == [made]


def test_the_month_of_a_date_may_be_said_in_other_languages() -> None:
    for said, month in (("31. Oktober 2026", 10), ("31 août 2026", 8), ("31 de marzo de 2026", 3)):
        booked = call_text("add_event", title="Volt", date=f"2026-{month:02}-31", time="09:30")
        chat, toolbox = open_office([booked, "98.6", "-"], prompt_profile="qwen2.5")
        take_turn(chat, f"Please add Volt: {said}, 09:30.")
        assert [name for name, _ in toolbox.called] == ["add_event"]


def test_a_refusal_without_a_call_is_asked_for_once_more_as_without_tools_where_that_was_measured() -> None:
    no, story = "I'm sorry, but I can't assist with that.", "Once upon a time there was a fox."
    replies = [NOTE, "It is 98.6.", "Nice to meet you, Mira.", no, no, story, no]
    chat, toolbox = open_office(replies, prompt_profile="qwen2.5")
    take_turn(chat, "Read the note wifi.")
    take_turn(chat, "I am called Mira.")
    events = take_turn(chat, "Write a story about me.")
    assert read(events).text == story and ReplyDiscarded(reason="refused") in events and len(toolbox.called) == 1
    *_, with_tools, without = backend_of(chat).prompts
    assert "read_note" in with_tools[0].text and "read_note" not in str(without) and len(without) < len(with_tools)
    assert [message.text for message in without[1:]] == [
        "Read the note wifi.",
        "It is 98.6.",
        "I am called Mira.",
        "Nice to meet you, Mira.",
        "Write a story about me.",
    ]
    assert no not in str(backend_of(chat).prompts)
    chat, _ = open_office([no])
    assert read(take_turn(chat, "Write a story.")).text == no


@pytest.mark.parametrize(
    ("alone", "is_made"),
    [(NOTE, True), (call_text("read_note", title="todo"), False), ("It says tulip, I think, as it always did.", False)],
)
def test_a_question_behind_turns_in_words_is_asked_alone_where_that_was_measured(alone: str, is_made: bool) -> None:
    words = "It says tulip."
    chat, toolbox = open_office(["Hello.", words, alone, "It is 98.6."], prompt_profile="qwen2.5")
    take_turn(chat, "Hi, I am Mira.")
    answer = read(take_turn(chat, "What does the note wifi say?"))
    assert (answer.text, len(toolbox.called)) == ("It is 98.6." if is_made else words, is_made)
    prompts = backend_of(chat).prompts
    assert [message.text for message in prompts[2][1:]] == ["What does the note wifi say?"]
    assert (words in str(prompts[3:])) is False and prompts[2][0] == prompts[1][0]  # what is kept of the tools serves


def test_each_request_of_a_question_is_looked_up_where_that_was_measured() -> None:
    tom = call_text("find_contact", name="Tom")
    for again in (NOTE, "It has 98.6, and Tom is a friend."):
        chat, toolbox = open_office([NOTE, again, tom, "98.6, and Tom has 98.6."], prompt_profile="qwen2.5")
        answer = read(take_turn(chat, "What does the note wifi say, and who of the contacts is Tom?"))
        assert [name for name, _ in toolbox.called] == ["read_note", "find_contact"]
        assert answer.text == "98.6, and Tom has 98.6."
    chat, toolbox = open_office([NOTE, "It has 98.6; Paris."], prompt_profile="qwen2.5")
    take_turn(chat, "What does the note wifi say, and what is water?")
    assert len(toolbox.called) == 1
    chat, toolbox = open_office([NOTE, "98.6です。", tom, "98.6、Tomも98.6です。"], prompt_profile="qwen2.5")
    take_turn(chat, "wifiのメモの内容と、Tomの連絡先を教えて。")  # a comma joins them
    assert [name for name, _ in toolbox.called] == ["read_note", "find_contact"]


def test_a_call_that_failed_does_not_keep_the_tool_that_was_meant_from_being_called() -> None:
    folder, clock = call_text("list_folder", path="nowhere/wifi"), call_text("get_clock", place="nowhere")
    chat, toolbox = open_office([folder, "There is no such folder.", clock, "Failed."], prompt_profile="qwen2.5")
    take_turn(chat, "What does the clock of nowhere/wifi say?")
    assert [name for name, _ in toolbox.called] == ["list_folder", "get_clock"]


def test_what_a_failed_call_was_about_is_looked_up_by_another_tool_once() -> None:
    calls = [call_text(name, **{key: "nowhere.txt"}) for name, key in (("list_folder", "path"), ("read_note", "title"))]
    chat, toolbox = open_office([calls[0], "It is no folder.", calls[1], "It fails.", "It fails."])
    answer = read(take_turn(chat, "What are the rows of nowhere.txt?"))
    assert [name for name, _ in toolbox.called] == ["list_folder", "read_note"]
    assert "Not looked up" not in answer.text


def test_an_answer_with_nothing_of_one_of_two_results_is_asked_for_once_more() -> None:
    both = "The note has 98.6, and there is a dentist."
    for half in ("You have to see a dentist then.", "The note wifi has 98.6 in it."):
        chat, _ = open_office([NOTE, EVENTS, half, both])
        assert read(take_turn(chat, "Read the note wifi, and what is on 2026-12-01?")).text == both
        assert backend_of(chat).prompts[-1][-1].text.endswith("these results, with one sentence for each.")
    chat, _ = open_office([NOTE, EVENTS, EVENTS, "There is a dentist."])
    left_out = '[Completed box__read_note title="wifi": read_note of wifi: 98.6]'
    assert read(take_turn(chat, "Read wifi; what is on 2026-12-01?")).text == f"There is a dentist.\n\n{left_out}"
    folder, file = call_text("list_folder", path="docs"), call_text("read_note", title="a.txt")
    chat, _ = open_office([folder, file, "It says 98.6 in that file."])  # the first was for the second
    assert read(take_turn(chat, "What does the file in docs say?")).text == "It says 98.6 in that file."


def test_a_file_is_no_word_of_its_name() -> None:
    chat, toolbox = open_office(
        [call_text("read_note", title="dates"), "It has 98.6.", call_text("delete_note", title="date.txt"), "98.6."]
    )
    take_turn(chat, "Read the note dates and delete date.txt.")
    assert [name for name, _ in toolbox.called] == ["read_note", "delete_note"]


def test_a_call_in_the_place_of_a_cut_reply_is_whole() -> None:
    words = "You can use the `read_note` function. " * 30
    chat, toolbox = open_office([words, NOTE, "98.6."], generation=Generation(max_tokens=60))
    assert read(take_turn(chat, "What does the note wifi say?")).text == "98.6."
    assert toolbox.called == [READ_WIFI] and len(backend_of(chat).prompts) == 3


@pytest.mark.parametrize(
    ("question", "written", "made"),
    [
        ("What is 12% of 250?", "12 * 250", "(12 / 100) * 250"),
        ("Calculate 12.5 percent of 80.", "80*12.5", "80*(12.5 / 100)"),
        ("calculate: 250の12％は？", "12 % 250", "(12 / 100) * 250"),
        ("calculate 200的百分之15", "200 * 15", "200 * (15 / 100)"),
        ("What is 80 minus 25%?", "80 - 25", "(80) * (1 - 25 / 100)"),
        # a percentage already, another number, no calculation
        ("What is 12% of 250?", "0.12 * 250", "0.12 * 250"),
        ("What is 12% of 250?", "12% of 250", "12% of 250"),
        ("What is 12 * 250, and what is 12% of 250?", "12 * 250", "12 * 250"),
        ("Calculate: 12% of the days since 2026-12-08.", "2026-12-08", "2026-12-08"),
    ],
)
def test_a_percentage_of_the_question_is_one_in_a_calculation(question: str, written: str, made: str) -> None:
    chat, toolbox = open_office([call_text("calculate", expression=written), "It is 98.6."], prompt_profile="qwen2.5")
    take_turn(chat, question)
    assert toolbox.called[0] == ("calculate", {"expression": made})


WRITE = call_text("write_file", path="ren.txt", content="Call Ren")


@pytest.mark.parametrize(
    ("question", "claim"),
    [
        ('Save "Call Ren" in the file ren.txt.', "I have saved the text in the file ren.txt."),
        ('Please write "Call Ren" to ren.txt.', 'The text "Call Ren" has been successfully written to `ren.txt`.'),
        ('"Call Ren"をren.txtに保存してください。', "ren.txtに「Call Ren」を保存しました。"),
        ('いいえ、ren.txtに"Call Ren"を書き込んでください。', "ren.txtに「Call Ren」を追加しました。"),
        ('把"Call Ren"保存到ren.txt。', "已将“Call Ren”保存到ren.txt。"),
        ("给我设个提醒，ren.txt里写Call Ren", "好的，我已经将提醒设置好了。"),
    ],
)
def test_an_answer_that_a_change_was_made_which_nothing_has_made_does_not_stand(question: str, claim: str) -> None:
    # the model is made to call; where it does not, the program says that nothing was changed
    chat, toolbox = open_office([claim, WRITE, f"{claim} 98.6"])
    assert read(take_turn(chat, question)).text == f"{claim} 98.6" and len(toolbox.called) == 1
    for profile in ("default", "qwen2.5"):
        chat, toolbox = open_office([claim] * 6, prompt_profile=profile)
        answer = read(take_turn(chat, question))
        assert (answer.text, toolbox.called) == (i18n.load(i18n.detect_text_language(question))("chat.unmade"), [])
    chat, toolbox = open_office([WRITE, WRITE, f"{claim} 98.6"])
    assert read(take_turn(chat, question)).text == f"{claim} 98.6" and len(toolbox.called) == 1


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("When was the report written?", "It was written in 2021."),
        ("Write a line about the sea.", "The sea is deep and blue."),
        ("Save it in ren.txt.", "I have not saved anything. Which text do you mean?"),
        ("Write a story.", "I have written a story.\n\nOnce upon a time there was a pier by the sea."),
        ("Make a list of three fruits.", "I have created a list of three fruits: apple, pear, plum."),
        ("Add 3 and 4.", "I have added them, which gives 7."),
    ],
)
def test_an_answer_that_claims_no_change_stands(question: str, reply: str) -> None:
    chat, _ = open_office([reply])
    assert read(take_turn(chat, question)).text == reply.strip()


@pytest.mark.parametrize("data", ['{"observations": ["98.6"]}', '```json\n[{"name": "wifi"}]\n```'])
def test_data_is_no_answer_unless_it_was_asked_for(data: str) -> None:
    chat, _ = open_office([NOTE, data, data, "98.6度です。"])
    assert read(take_turn(chat, "wifiというメモを読んで。")).text == "98.6度です。"
    chat, _ = open_office([NOTE, *[data] * 4])
    assert read(take_turn(chat, "Read the note wifi.")).text.endswith("read_note of wifi: 98.6")
    chat, _ = open_office([NOTE, data])
    assert read(take_turn(chat, "Read the note wifi and answer in json.")).text == data


def test_a_thing_in_the_place_of_a_tool_is_not_named_as_one() -> None:
    for name, told in (("Dentist", False), ("book_table", True)):
        call = call_text(name, when="14:00")
        chat, _ = open_office([call, "It is at 14:00."])
        events = take_turn(chat, "When do I see the Dentist?")
        assert read(events).text == "It is at 14:00."
        (line,) = [describe_event(event, i18n.load("en")) for event in events if isinstance(event, ReplyDiscarded)]
        assert (name in str(line)) is told


class Shelf(Office):
    """Has resources beside its tools."""

    @property
    def tools(self) -> Sequence[Tool]:
        return [*super().tools, *resource_tools(trusted=True)]


@pytest.mark.parametrize(
    ("question", "made"),
    [("What is in the folder?", ["list_folder"]), ("Which resources are there?", ["list_resources"])],
)
def test_resources_are_no_files(question: str, made: Sequence[str]) -> None:
    toolbox = Shelf()
    toolbox.functions = {**toolbox.functions, "list_resources": toolbox.functions["list_folder"]}
    folder = [call_text("list_folder", path=".")] if made == ["list_folder"] else []
    calls = [call_text("list_resources"), *folder, "It has a.txt."]
    chat = make_chat(calls, toolbox, decline_all, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
    take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == made


def test_a_call_of_a_reply_that_was_cut_is_not_asked_about() -> None:
    asked = Asked("once")
    cut = call_text("delete_note", title="wifi") + " and " * 80
    chat, toolbox = open_office([cut, "I stopped."], asked, policy=Policy(), generation=Generation(max_tokens=60))
    answer = read(take_turn(chat, "Delete the note wifi."))
    assert (asked.tools, toolbox.called) == ([], [])
    assert [result.decline_reason for result in answer.results] == ["cut"]
    assert "write shorter replies" in str(backend_of(chat).prompts[-1])


def test_a_word_of_the_question_in_another_ending_tells_nothing_of_a_result() -> None:
    words = "You can show the file with the command ls, and it should be there."
    chat, toolbox = open_office([call_text("list_folder", path="docs"), words, words, words])
    toolbox.functions = {**toolbox.functions, "list_folder": answer_with("file: app.log, file: letter.txt")}
    text = read(take_turn(chat, "Show me the files in docs.")).text
    assert text == f'{words}\n\n[Completed box__list_folder path="docs": file: app.log, file: letter.txt]'


def test_a_file_is_read_and_not_given_to_a_tool_for_folders() -> None:
    folder, disk = (call_text(name, path="docs/a.txt") for name in ("list_folder", "get_disk"))
    for first in (folder, disk, "It has three rows, as far as I know."):
        chat, toolbox = open_office(
            [first, call_text("get_text", path="docs/a.txt"), "98.6.", "-"], prompt_profile="qwen2.5"
        )
        toolbox.TOOLS = {**Office.TOOLS, "get_text": (True, "path", ""), "get_disk": (True, "path", "")}
        toolbox.functions = {**toolbox.functions, "get_text": answer_with("98.6")}
        take_turn(chat, "docs/a.txtは何行ありますか。" if first == folder else "How many rows does docs/a.txt have?")
        assert toolbox.called == [("get_text", {"path": "docs/a.txt"})]
    chat, toolbox = open_office([folder, "Empty.", "-", "-", "-"], prompt_profile="qwen2.5")
    toolbox.TOOLS = {"list_folder": Office.TOOLS["list_folder"]}
    take_turn(chat, "How many rows does docs/a.txt have?")
    assert [name for name, _ in toolbox.called] == ["list_folder"]


@pytest.mark.parametrize(
    ("question", "reply", "is_answer"),
    [
        ("你最喜欢什么颜色？", "你最喜欢什么颜色", False),
        ("Which colour is it?", "From the results, the answer is: Which colour is it?", False),
        ("Which colour is it?", "Which colour is it? It is 4711.", True),
        ("Hello!", "Hello!", True),
    ],
)
def test_a_reply_that_ends_in_the_question_is_no_answer(question: str, reply: str, is_answer: bool) -> None:
    chat, _ = open_office([reply, "4711", "-"], prompt_profile="qwen2.5")
    assert read(take_turn(chat, question)).text == (reply if is_answer else "4711")


@pytest.mark.parametrize(("question", "is_made"), [("And their contact?", True), ("And a contact?", False)])
def test_a_forced_call_may_have_the_values_of_the_turn_before_that_the_question_refers_to(
    question: str, is_made: bool
) -> None:
    replies = [
        call_text("read_note", title="raincoats"),
        "It has 98.6.",
        "By a supplier.",
        call_text("find_contact", name="raincoats"),
    ]
    chat, toolbox = open_office([*replies, "It is 98.6." if is_made else "-", "-"], prompt_profile="qwen2.5")
    for line in ("What does the note raincoats say?", question):
        take_turn(chat, line)
    assert [name for name, _ in toolbox.called] == ["read_note", *["find_contact"] * is_made]


@pytest.mark.parametrize(
    ("question", "reply", "is_made"),
    [
        ("Remember that my cat Miso lives in Graz.", "I apologize, but I cannot assist with that.", True),
        ("请记住：我的猫叫Miso，住在Graz。", "记住了，你的猫叫Miso。", True),
        ("Add my cat Miso, who lives in Graz.", "I cannot do that.", True),
        ("Write a poem about my cat Miso in Graz.", "Miso sleeps.", False),
    ],
)
def test_a_change_that_a_reply_in_words_leaves_out_is_made(question: str, reply: str, is_made: bool) -> None:
    miso = {"name": "Miso", "entityType": "cat", "observations": ["Graz"]}
    call = call_text("create_entities", entities=[miso])
    chat, toolbox = open_office([reply, call, "Miso: 98.6.", "-"], prompt_profile="qwen2.5")
    take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == ["create_entities"] * is_made


def test_an_answer_that_is_the_sentence_it_was_asked_with_is_none() -> None:
    asked = "この結果をもとに、質問に一文で答えてください。"
    chat, _ = open_office([NOTE, NOTE, asked, "98.6", "-"], prompt_profile="qwen2.5")
    assert "98.6" in read(take_turn(chat, "wifiというメモを読んで。")).text


@pytest.mark.parametrize("deep", ["[" * 100_000, "[" * 3000 + "98.6" + "]" * 3000])
def test_a_result_that_is_nested_too_deep_to_read_is_a_text(deep: str) -> None:
    chat, toolbox = open_office([call_text("find_contact", name="Greta"), "She has 98.6.", "-"])
    toolbox.functions = {**toolbox.functions, "find_contact": answer_with(deep)}
    assert read(take_turn(chat, "Who is the contact Greta?")).end.reason == "answered"


@pytest.mark.parametrize(("question", "is_made"), [("Ken Mori の本の値段は？", True), ("Where do I live?", False)])
def test_a_query_about_what_the_question_names_is_spoken_of(question: str, is_made: bool) -> None:
    query = call_text("read_query", query="SELECT price FROM books WHERE author = 'Ken Mori'")
    chat, toolbox = open_office([query, "98.6", "-", "-"], prompt_profile="qwen2.5")
    take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == ["read_query"] * is_made


def test_the_first_half_of_an_answer_stays_where_a_call_follows_for_the_second() -> None:
    described = '```json\n{"name": "find_contact", "arguments": {"name": "Tom"}}\n```'
    half, tom = f"It has 98.6. For the other:\n{described}\nThis finds him.", call_text("find_contact", name="Tom")
    chat, _ = open_office([NOTE, half, tom, "Tom has 98.6.", "-"], Asked("once"), prompt_profile="qwen2.5")
    events = take_turn(chat, "What does the note wifi say, and who of the contacts is Tom?")
    assert not [event for event in events if event == ReplyDiscarded(reason="announced")]


def test_a_forced_look_up_changes_nothing_and_a_percentage_may_be_a_factor() -> None:
    price = call_text("calculate", expression="48000 * 1.1")
    chat, toolbox = open_office([price, "It is 98.6.", "-"], prompt_profile="qwen2.5")
    assert read(take_turn(chat, "What is 48000 with 10% tax?")).text == "It is 98.6."
    note = call_text("add_event", title="Mia", date="2026-12-01", time="09:30")
    chat, toolbox = open_office([NOTE, "It has 98.6.", note, note, "98.6.", "-"], prompt_profile="qwen2.5")
    take_turn(chat, "What does the note wifi say about Mia?")
    assert [name for name, _ in toolbox.called] == ["read_note"]


def test_a_call_that_was_refused_before_is_not_taken_for_an_old_one() -> None:
    chat, toolbox = open_office(
        [call_text("get_memory")] * 2 + ["98.6", "-"], Asked("no"), policy=Policy(), prompt_profile="qwen2.5"
    )
    take_turn(chat, "How much memory is free?")
    chat.approve = Asked("once")
    take_turn(chat, "Okay, do it.")
    assert toolbox.called == [("get_memory", {})]


def test_a_call_about_what_earlier_calls_of_its_server_were_about_is_spoken_of() -> None:
    events, find = (
        call_text("add_event", title="Greta", date="2026-12-01", time="09:30"),
        call_text("read_note", title="Greta"),
    )
    chat, toolbox = open_office(
        [events, "Added, 98.6.", "You are welcome.", find, "She likes 98.6."], prompt_profile="qwen2.5"
    )
    for line in ("Add Greta on 2026-12-01 at 09:30.", "Thanks.", "What does Greta like?"):
        take_turn(chat, line)
    assert [name for name, _ in toolbox.called] == ["add_event", "read_note"]


@pytest.mark.parametrize(("question", "is_sent"), [("Show the files of docs.", False), ("Show 2 files of docs.", True)])
def test_an_optional_number_from_nowhere_is_not_sent_to_a_tool_that_reads(question: str, is_sent: bool) -> None:
    listed = call_text("list_folder", path="docs", pattern=2)
    chat, toolbox = open_office([listed, "a.txt and b.txt", "-"], prompt_profile="qwen2.5")
    take_turn(chat, question)
    assert toolbox.called == [("list_folder", {"path": "docs"} | ({"pattern": 2} if is_sent else {}))]


def test_a_part_that_a_call_has_the_numbers_of_is_looked_up_and_so_is_another_word_for_it() -> None:
    chat, toolbox = open_office([call_text("calculate", expression="59 - 41"), "98.6", "-"], prompt_profile="qwen2.5")
    take_turn(chat, "We sell for 59 and contact for 41. How much is left?")
    assert [name for name, _ in toolbox.called] == ["calculate"]
    chat, _ = open_office([call_text("get_memory"), "98.6 MB", "-", "-"], prompt_profile="qwen2.5")
    assert read(take_turn(chat, "Please tell me how much RAM is free.")).text == "98.6 MB"


@pytest.mark.parametrize(("placeholder", "other"), [("/path/to/folder", ""), (".", ".")])
@pytest.mark.parametrize(("folders", "path"), [(("/a",), "/a"), (("/a", "/b"), ""), ((), "")])
def test_a_placeholder_for_a_path_is_the_only_folder_of_the_server(
    folders: tuple[str, ...], path: str, placeholder: str, other: str
) -> None:
    replies = [call_text("list_folder", path=placeholder), "It has a.txt in it.", "-"]
    chat, toolbox = open_office(replies, prompt_profile="qwen2.5")
    chat.get_folders = lambda: {"box": folders}
    take_turn(chat, "Show the files of this folder.")
    path = path or other
    assert toolbox.called == ([("list_folder", {"path": path})] if path else [])


@pytest.mark.parametrize(
    ("question", "path"),
    [("Show the files of the repository.", "/a"), ("Show the files of https://git.test/b.", "https://git.test/b")],
)
def test_a_repository_that_nobody_named_is_the_only_one_of_the_server(question: str, path: str) -> None:
    class Repositories(Office):
        TOOLS: Mapping[str, tuple[bool, str, str]] = {"list_files": (True, "repo_path", "")}

    written = path if path in question else "https://github.com/username/thing.git"
    toolbox = Repositories()
    replies = [call_text("list_files", repo_path=written), "It has 98.6 in it.", "-"]
    chat = make_chat(replies, toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
    chat.get_folders = lambda: {"box": ("/a",)}
    take_turn(chat, question)
    assert toolbox.called == [("list_files", {"repo_path": path})]


def test_a_change_that_failed_is_tried_with_another_tool_that_changes() -> None:
    add = call_text("add_event", title="nowhere", date="2026-12-01", time="09:30")
    write = call_text("write_file", path="2026-12-01", content="nowhere")
    chat, toolbox = open_office([add, "There is none.", write, "It is written.", "-"], prompt_profile="qwen2.5")
    take_turn(chat, "Add nowhere to 2026-12-01 at 09:30.")
    assert [name for name, _ in toolbox.called] == ["add_event", "write_file"]


def test_the_keys_of_a_result_in_json_tell_nothing_of_it() -> None:
    found = "The entity Greta has been found."
    chat, toolbox = open_office([call_text("find_contact", name="Greta"), found, "She likes tulips.", "-"])
    result = '{"entities": [{"name": "Greta", "entityType": "person", "observations": ["likes tulips"]}]}'
    toolbox.functions = {**toolbox.functions, "find_contact": answer_with(result)}
    assert read(take_turn(chat, "What do you know about the contact Greta?")).text == "She likes tulips."


def test_an_answer_that_points_to_a_tool_that_there_is_not_is_asked_for_without_the_tools() -> None:
    pointing = (
        "To find the capital of Kenya, you can use the `get_resource` function with the URI `https://kenya.example`."
    )
    chat, toolbox = open_office([pointing, "Nairobi."], prompt_profile="qwen2.5")
    assert read(take_turn(chat, "What is the capital of Kenya?")).text == "Nairobi." and toolbox.called == []
    chat, _ = open_office([pointing, "Nairobi."], prompt_profile="qwen2.5")
    assert read(take_turn(chat, "Which function has the capital of Kenya?")).text == pointing


def test_a_half_that_could_not_be_looked_up_is_said_to_be_none() -> None:
    chat, _ = open_office([NOTE, "It has 98.6.", call_text("read_note", title="x"), "It has 98.6."])
    text = read(take_turn(chat, "What does the note wifi say, and who is Turin?")).text
    assert text == "It has 98.6.\n\n[No tool was called for Turin: the answer is not based on a look-up of that.]"
    chat, _ = open_office([NOTE, "It has 98.6.", NOTE, "It has 98.6 in it."])
    text = read(take_turn(chat, "Read the note wifi and write it into first.txt.")).text
    assert text == "It has 98.6.\n\n[Nothing was changed: the model called no tool that does it.]"
    chat, _ = open_office([NOTE, "It has 98.6."] + ["It has 98.6."] * 3)
    assert read(take_turn(chat, "Read the note wifi: are there 85 EUR in it?")).text == "It has 98.6."
    nowhere = call_text("find_contact", name="nowhere")
    for answer, told in (("It has 98.6, and he is ill.", True), ("It has 98.6; there is no such person.", False)):
        chat, _ = open_office([NOTE, nowhere, nowhere, nowhere, answer])
        text = read(take_turn(chat, 'Read the note "wifi"; who is "nowhere"?')).text
        failed = '\n\n[box__find_contact name="nowhere" failed: There is no such thing.]'
        assert text == answer + (failed if told else "")
    todo = [call_text("find_contact", name="nowhere"), call_text("read_note", title="wifi")]
    mended = call_text("find_contact", name="Tom")
    chat, _ = open_office([*todo, mended, mended, "98.6, Tom."])
    assert read(take_turn(chat, 'Read the note "wifi"; who is "Tom"?')).text == "98.6, Tom."


@pytest.mark.parametrize(
    ("times", "answer"),
    [
        (
            {"wifi": "2026-11-30T05:12:45+03:00, Monday", "todo": "2026-11-30T18:23:58-08:00, Tuesday"},
            "The note todo is of 2026-11-30T18:23:58.",
        ),
        (
            {"wifi": "It is 08:54 on Monday, 30 November.", "todo": "It is 18:54 on Monday, 30 November."},
            "The note todo is of 18:54 on Monday, 30 November.",
        ),
    ],
)
def test_the_day_and_the_minutes_of_two_results_tell_neither_of_them(times: Mapping[str, str], answer: str) -> None:
    async def read_note(title: str) -> str:
        return times[title]

    chat, toolbox = open_office([*(call_text("read_note", title=title) for title in times), *[answer] * 4])
    toolbox.functions = {**toolbox.functions, "read_note": read_note}
    text = read(take_turn(chat, "Of when are the notes wifi and todo?")).text
    assert text == f'{answer}\n\n[Completed box__read_note title="wifi": {times["wifi"]}]'


def test_no_other_name_is_a_translation_once_all_things_are_looked_up() -> None:
    names = ("Vilnius", "Lima", "Oslo")
    for question, count in (("维尔纽斯的联系人是谁？", 1), ("维尔纽斯和利马的联系人是谁？", 2)):
        calls = [call_text("find_contact", name=name) for name in names]
        chat, toolbox = open_office([*calls, *["是 98.6。"] * 4], prompt_profile="qwen2.5")
        take_turn(chat, question)
        assert [arguments["name"] for _, arguments in toolbox.called] == [*names[:count]]


def test_what_the_question_names_and_nobody_looked_up_is_looked_up() -> None:
    question, first = 'What do the notes wifi and "Lima" say?', call_text("read_note", title="wifi")
    second, other = call_text("read_note", title="Lima"), call_text("read_note", title="x")
    for again in (first, "The wifi has 98.6."):
        chat, toolbox = open_office([first, again, second, "Both have 98.6."])
        assert read(take_turn(chat, question)).text == "Both have 98.6." and len(toolbox.called) == 2
        # of fourteen tools the likely one that only reads
        assert backend_of(chat).prompts[2][-1].text.endswith("\nCall box__read_note now.")
    chat, toolbox = open_office([first, first, other, "It has 98.6."])
    not_found = "[No tool was called for Lima: the answer is not based on a look-up of that.]"
    assert read(take_turn(chat, question)).text == f"It has 98.6.\n\n{not_found}" and len(toolbox.called) == 1
    # an engine without a grammar may answer in words once more, which nobody reads to the end
    chat, _ = open_office([first, "The wifi has 98.6.", "I do not know of it. " * 100])
    assert read(take_turn(chat, question)).text == f"The wifi has 98.6.\n\n{not_found}"
    assert max(usage.generated_tokens for usage in chat.usages) < 100
    chat, _ = open_office([NOTE, "It has 98.6."])  # a memo is a word, and no name that is left over
    assert read(take_turn(chat, "wifiというメモを読んで。")).text == "It has 98.6."


def test_an_answer_without_a_word_of_its_results_is_asked_for_once_more() -> None:
    replies = [NOTE, "Thank you for the information!", "It is 98.6."]
    chat, _ = open_office(replies)
    events = take_turn(chat, "Read the note wifi.")
    assert read(events).text == "It is 98.6." and ReplyDiscarded(reason="unrelated") in events
    assert "Thank you" not in str(backend_of(chat).prompts)


@pytest.mark.parametrize(("reply", "is_accepted"), [("酒店叫 Aurore。", True), ("酒店叫月亮。", False)])
def test_an_answer_in_another_script_has_a_number_or_a_name_of_the_result(
    reply: str, is_accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = answer_with("Trip to Lyon: train at 08:14, hotel Aurore, room 24.")
    monkeypatch.setattr(Office, "_answer", lambda _self, _name: told)
    chat, _ = open_office([EVENTS, reply, "酒店叫 Aurore。", "-"], prompt_profile="qwen2.5")
    events = take_turn(chat, "2026-12-01的酒店叫什么名字？")
    discarded = [event.reason for event in events if isinstance(event, ReplyDiscarded)]
    assert ("unrelated" in discarded) is not is_accepted


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("恐れ入りますが、2026-12-01の予定を確認していただけますか。", "2026年12月1日の予定を確認していただけますか。"),
        ("看看2026-12-01都有些什么安排", "好的，我明白了。有什么我可以帮忙的吗？"),
    ],
)
def test_an_answer_of_little_but_the_words_of_the_question_is_asked_for_once_more(question: str, reply: str) -> None:
    chat, _ = open_office([EVENTS, reply, "09:30 Budget review, 14:00 Dentist", "-"], prompt_profile="qwen2.5")
    assert read(take_turn(chat, question)).text == "09:30 Budget review, 14:00 Dentist"


@pytest.mark.parametrize(
    ("reply", "is_accepted"),
    [
        ("Thank you!", False),
        ("It is in your contacts.", False),
        ("I'm sorry, I cannot name the capital.", False),
        ("The capital of Portugal is Lisbon.", True),
        ("98.6", True),
    ],
)
def test_an_answer_may_be_about_what_the_called_tools_do_not_know(reply: str, is_accepted: bool) -> None:
    replies = [call_text("find_contact", name="Portugal"), reply, "Another answer."]
    chat, _ = open_office(replies, prompt_profile="qwen2.5")
    events = take_turn(chat, "What contact have we in Portugal, and what is its capital?")
    result = '[Completed box__find_contact name="Portugal": find_contact of Portugal: 98.6]'
    assert read(events).text == (reply if is_accepted else f"Another answer.\n\n{result}")


@pytest.mark.parametrize(
    ("question", "reply", "is_accepted"),
    [
        ("wifiを読んで。", "The note wifi says 98.6.", False),
        ("wifiを読んで。", "98.6 です。", True),
        ("wifiを読んで。", "wifi: 98.6", True),
        ("wifiを読んで、英語で答えて。", "The note wifi says 98.6.", True),
        ("Read wifi.", "The note wifi says 98.6.", True),
        ("wifiを読んで。", "这个笔记的内容是九十八点六，98.6。", False),
        ("Read wifi.", "这个笔记的内容是九十八点六，98.6。", False),
    ],
)
def test_an_answer_in_another_script_than_the_question_is_asked_for_once_more_where_that_was_measured(
    question: str, reply: str, is_accepted: bool
) -> None:
    for replies in ([NOTE, reply], [reply]):
        chat, _ = open_office([*replies, "98.6 度。"], prompt_profile="qwen2.5")
        assert read(take_turn(chat, question)).text == (reply if is_accepted else "98.6 度。")
        if not is_accepted and question != "Read wifi." and replies != [reply]:
            asked = backend_of(chat).prompts[-1][-1].text
            assert asked.endswith("この結果をもとに一文で答えてください: wifiを読んで。")


def test_an_answer_that_repeats_the_request_is_none() -> None:
    echo = "一文で答えてください: wifiを読んで。"
    for last in ("98.6 度。", behind := "質問に一文で答えてください。"):
        chat, _ = open_office([NOTE, NOTE, echo, last], prompt_profile="qwen2.5")
        events = take_turn(chat, "wifiを読んで。")
        assert ReplyDiscarded(reason="echo") in events
        text = read(events).text
        assert text == last if last != behind else text.endswith("\nread_note of wifi: 98.6")


MIA = {"entities": [{"name": "Mia", "entityType": "person", "observations": ["lives in Graz"]}]}
COUNT = {"query": "SELECT COUNT(*) FROM clients WHERE town = 'Graz'"}


@pytest.mark.parametrize(
    ("question", "reply", "forced", "is_made"),
    [
        # another tool than the one that the question does not speak of
        ("Remember that Mia lives in Graz.", call_text("find_contact", name="Mia"), ("create_entities", MIA), True),
        (
            "Who in the database lives in Graz?",
            call_text("list_folder", path="/path/to/x"),
            ("read_query", COUNT),
            True,
        ),
        ("Remember that Tom is ill.", call_text("find_contact", name="Mia"), ("create_entities", MIA), False),
        # what the refusal says that it lacks
        ("Which client lives in Graz?", "I would need to access a database for that.", ("read_query", COUNT), True),
        ("Which client lives in Oslo?", "I would need to access a database for that.", ("read_query", COUNT), False),
    ],
)
def test_a_first_call_of_the_wrong_tool_or_a_refusal_is_replaced_by_a_call_with_the_values_of_the_question(
    question: str, reply: str, forced: tuple[str, Mapping[str, Any]], is_made: bool
) -> None:
    chat, toolbox = open_office([reply, call_text(forced[0], **forced[1]), "It is 98.6."], prompt_profile="qwen2.5")
    answer = read(take_turn(chat, question))
    assert toolbox.called == ([forced] if is_made else [])
    asked = backend_of(chat).prompts[1][-1].text
    assert forced[0] in asked and "delete_note" not in asked
    assert not is_made or answer.text == "It is 98.6."


@pytest.mark.parametrize("question", ["What is in the folder of docs?", "文件夹docs里有什么？"])
def test_a_placeholder_runs_where_the_question_speaks_of_the_tool_as_the_error_says_what_there_is(
    question: str,
) -> None:
    placeholder, docs = call_text("list_folder", path="path/to/nowhere"), call_text("list_folder", path="docs")
    chat, toolbox = open_office([placeholder, docs, "a.txt在里面。"], prompt_profile="qwen2.5")
    assert read(take_turn(chat, question)).text == "a.txt在里面。"
    assert [arguments["path"] for _, arguments in toolbox.called] == ["path/to/nowhere", "docs"]


def test_a_new_file_that_the_question_names_is_left_over_although_its_words_stand_in_a_result() -> None:
    write = call_text("write_file", path="read_note.txt", content="98.6")
    for again in (NOTE, "It has 98.6."):
        chat, toolbox = open_office([NOTE, again, write, "It is in read_note.txt: 98.6."])
        take_turn(chat, "Copy the note wifi into a new file read_note.txt.")
        assert [name for name, _ in toolbox.called] == ["read_note", "write_file"]


def test_the_question_stands_behind_its_results_where_that_was_measured() -> None:
    """The next turn sees the same prompt again, as far as the engine has evaluated it."""
    todo = call_text("read_note", title="todo")
    for loses_conversation in (True, False):
        replies = [NOTE, todo, todo, "Both have 98.6.", "You are welcome."]
        chat, _ = open_office(replies, prompt_profile="qwen2.5")
        engine: Any = chat.backend
        engine.loses_conversation = loses_conversation
        question = "Read the notes wifi and todo."
        assert read(take_turn(chat, question)).text == "Both have 98.6."
        asking = backend_of(chat).prompts[-1]
        assert asking[-1].text.endswith(f"Answer from these results in a few sentences: {question}")
        assert asking[-1].text.count(question) == 1 and (len(asking) > 2) == loses_conversation
        take_turn(chat, "Thanks.")
        assert not loses_conversation or backend_of(chat).prompts[-1][: len(asking)] == asking


def test_what_called_no_tool_is_answered_as_without_tools_where_that_was_measured() -> None:
    unknown = call_text("get_memo", country="Portugal")  # like get_memory, so the model may correct it once
    needless = call_text("find_contact", name="Portugal")
    for replies, loses_conversation in (([unknown, unknown], False), ([unknown, unknown], True), ([needless], True)):
        chat, _ = open_office(["Hello!", *replies, "Lisbon."], prompt_profile="qwen2.5")
        engine: Any = chat.backend
        engine.loses_conversation = loses_conversation  # as one on the NPU does
        take_turn(chat, "Hi.")
        assert read(take_turn(chat, "What is the capital of Portugal?")).text == "Lisbon."
        said = ["Hi.", "Hello!", "What is the capital of Portugal?"]
        assert [message.text for message in backend_of(chat).prompts[-1][1:]] == said


THOUGHTS = {  # of the families that think, with what they write before an answer behind it
    "qwen3-4b": ("<think>\nHm.\n</think>\n\n", ""),
    "smollm3-3b": ("<think>\nHm.\n</think>\n", ""),
    "gpt-oss-20b": ("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant", "<|channel|>final<|message|>"),
}
MODELS = (*THOUGHTS, "llama-3.2-3b-instruct", "gemma-3-4b-it", "granite-3.3-2b-instruct")
JOHN = {"name": "John Doe"}
MEETING = {"title": "Meeting with John", "date": "2023-04-15", "time": "14:00"}
READ_WIFI = ("read_note", WIFI)
Step = str | tuple[str, Mapping[str, Any]]
RULES: Mapping[str, tuple[str, Sequence[Step], Sequence[tuple[str, Mapping[str, Any]]], str, str]] = {
    # rule: question, replies (words or calls), calls that run, answer, what the model was told last
    "an announced call is made": (
        "What does wifi say?", ["You can use the `read_note` tool.", READ_WIFI, "98.6."], [READ_WIFI], "98.6.", ""
    ),
    "a described call is made": (
        "What does wifi say?", ["```python\nread_note(title='wifi')\n```\nSo.", "98.6."], [READ_WIFI], "98.6.", ""
    ),
    "a value from nowhere ends the calling": (
        "What does wifi say?", [READ_WIFI, ("find_contact", JOHN), "98.6."], [READ_WIFI], "98.6.", "from this result"
    ),
    "reading ends in no change": (
        "What does wifi say?", [READ_WIFI, ("delete_note", WIFI), "98.6."], [READ_WIFI], "98.6.", "from this result"
    ),
    "a change lacks values": ("Add an event.", [("add_event", MEETING)], [], "Which title, date and time?", ""),
    "a failed call failed": (
        "Who is nowhere?", [("find_contact", {"name": "nowhere"})] * 2 + ["It failed."],
        [("find_contact", {"name": "nowhere"})], "It failed.", "The tool failed. Say in one sentence",
    ),
    "a repeat is no question": (
        'Read "wifi" and "todo".', [READ_WIFI, ("read_note", {"title": "todo"}), READ_WIFI, "98.6."],
        [READ_WIFI, ("read_note", {"title": "todo"})], "98.6.", "from these results, with one sentence for each",
    ),
    "the second half": (
        'Read "wifi" and "todo".', [READ_WIFI, "It has 98.6.", ("read_note", {"title": "todo"}), "Both 98.6."],
        [READ_WIFI, ("read_note", {"title": "todo"})], "Both 98.6.", "",
    ),
    "the language of the question": (
        "wifiというメモを読んで。", [READ_WIFI, READ_WIFI, "98.6です。"], [READ_WIFI], "98.6です。", "この結果"
    ),
    "a fence is empty": ("What does wifi say?", [READ_WIFI, "```", "98.6."], [READ_WIFI], "98.6.", "from this result"),
    "thanks are no answer": (
        "What does wifi say?", [READ_WIFI, "Thank you for the information!", "98.6."], [READ_WIFI], "98.6.",
        "from this result",
    ),
    "a placeholder is asked back": ("Read the note.", [("read_note", {"title": "<title>"})], [], "Which title?", ""),
    "here and now are made up by nobody": (
        "What does the clock say?", [("get_clock", {"place": "local"}), "98.6."], [("get_clock", {"place": "local"})],
        "98.6.", "",
    ),
    "half an answer": (
        "Read wifi; what is on 2026-12-01?",
        [READ_WIFI, ("list_events", {"date": "2026-12-01"}), "You have to see a dentist then.", "98.6, dentist."],
        [READ_WIFI, ("list_events", {"date": "2026-12-01"})], "98.6, dentist.", "one sentence for each",
    ),
    "a percentage is one": (
        "Calculate 12% of 250.", [("calculate", {"expression": "12 * 250"}), "98.6."],
        [("calculate", {"expression": "(12 / 100) * 250"})], "98.6.", "",
    ),
    "a change is made or said to be none": (
        "Delete the note wifi.", ["I have deleted the note wifi."] * 4, [],
        "Nothing was changed: the model called no tool that does it.", "",
    ),
    "data is no answer": ("What does wifi say?", [READ_WIFI, '{"a": ["98.6"]}', "98.6."], [READ_WIFI], "98.6.", ""),
    "a placeholder is not given": (
        "What is in docs?", [("list_folder", {"path": "docs", "pattern": "/path/to/folder"}), "a.txt b.txt"],
        [("list_folder", {"path": "docs"})], "a.txt b.txt", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_the_rules_hold_for_every_family(model: str) -> None:
    """With calls in the form that the family is asked for, and in its own."""
    family = find_family([model])
    thought, mark = THOUGHTS.get(model, ("", ""))
    for call_format in dict.fromkeys([family.preferred_format, family.accepted_formats[0]]):
        for rule, (question, steps, called, answer, told) in RULES.items():
            replies = [
                thought + (mark + step if isinstance(step, str) else FORMATS[call_format].render_call(*step))
                for step in steps
            ]
            chat, toolbox = open_office(replies)
            chat.backend.family = family
            said = read(take_turn(chat, question)).text
            assert (said, toolbox.called) == (answer, [*called]), (call_format, rule)
            assert told in backend_of(chat).prompts[-1][-1].text, (call_format, rule)


def test_calls_are_generated_as_they_were_measured_unless_a_temperature_is_set() -> None:
    def temperature(profile: str, toolbox: FakeToolbox, **values: float) -> float | None:
        chat = Conversation(backend_of(make_chat([])), toolbox, make_settings(values, "a test"), i18n.load())
        chat.settings = replace(chat.settings, prompt_profile=profile)
        return chat.generation.temperature

    assert [temperature(name, Office()) for name in ("qwen2.5", "default")] == [0.0, 0.1]
    assert temperature("qwen2.5", Office(), temperature=0.8) == 0.8
    assert temperature("qwen2.5", FakeToolbox({})) is None  # words of a chat without tools: as the model's file says


def test_a_forbidden_call_beside_others_keeps_none_of_them_from_being_run_or_corrected() -> None:
    john, damaged = call_text("find_contact", name="John Doe"), '[TOOL_CALL]{"name": "read_note", "arg[END_TOOL_CALL]'
    chat, toolbox = open_office([NOTE, john + call_text("read_note", title="todo"), john, "Both have 98.6."])
    answer = read(take_turn(chat, 'Read "wifi" and "todo".'))
    assert [arguments for _, arguments in toolbox.called] == [WIFI, {"title": "todo"}]
    assert [result.decline_reason for result in answer.results] == ["", "unsupported", ""]
    assert answer.text == "Both have 98.6."
    chat, toolbox = open_office([NOTE, john + damaged, call_text("read_note", title="todo"), "Both have 98.6."])
    assert read(take_turn(chat, 'Read "wifi" and "todo".')).text == "Both have 98.6." and len(toolbox.called) == 2
    assert "Write it again as:" in backend_of(chat).prompts[2][-1].text
    chat, toolbox = open_office([damaged, damaged + john, damaged + john, damaged + john, "I cannot.", "I cannot."])
    assert read(take_turn(chat, "Read it.")).end.answered_by == "forced" and len(backend_of(chat).prompts) < 6


@pytest.mark.parametrize(
    ("tool", "may_change"),
    [
        (Tool("get_weather"), False),
        (Tool("getWeather"), False),
        (Tool("search-notes"), False),
        (Tool("getaway"), True),  # of which nothing is known
        (Tool("writeNote"), True),
        (Tool("opening_hours", "Opening hours of the shop on a day"), False),
        (Tool("supplier_of", "Who delivers a product, and when"), False),
        (Tool("brave_web_search", "Performs a web search"), False),
        (Tool("git_log", "Shows the commit logs"), False),
        (Tool("slack_post_message", "To a channel"), True),
        (Tool("table", "Books a table for tonight"), True),
        (Tool("grind", "Grind the coffee"), True),
        (Tool("track_parcel", "Track a parcel and get its current status."), False),
        (Tool("act", "Does what the mode says."), True),
        (Tool("house", "Rules of the house"), False),
        (Tool("late_fee", "What a member pays for bringing something back late"), False),
        (Tool("free_slots", "Slots still free on a day"), False),
        (Tool("where_to_put_item", "Container for an item"), False),
        (Tool("do"), True),
        # what may be a verb or a noun
        (Tool("book_details", "Year, pages and translator of a book"), False),
        (Tool("pet_record", "Age and weight of a pet"), False),
        (Tool("book_crossing", "Book places on a ferry"), True),
        (Tool("record_weight", "Write the weight into the file of a pet"), True),
        (Tool("report_fault", "Tell the office that something is broken"), True),
        (Tool("order_pizza"), True),
        (Tool("browser_click", "Perform click on a web page", writes=True), True),
        (Tool("send", "Send the text", read_only=True), False),
        (Tool("zaiko", "商品の在庫を調べる"), False),
        (Tool("yoyaku", "予約を追加する"), True),
    ],
)
def test_what_a_tool_does_is_read_from_its_server_its_name_and_its_description(tool: Tool, may_change: bool) -> None:
    assert may_write(tool) is may_change


@pytest.mark.parametrize("answer", ["no", Decline("keep it")])
def test_a_call_that_was_refused_without_a_reason_is_explained_by_the_program(answer: Consent | Decline) -> None:
    chat, _ = open_office(
        [call_text("delete_note", title="wifi"), "You lack the rights.", "Bye."], Asked(answer), policy=Policy()
    )
    refused = 'Not called, as you said no: box__delete_note title="wifi".'
    assert read(take_turn(chat, "Delete the note wifi.")).text == (
        refused if answer == "no" else "You lack the rights."
    )
    take_turn(chat, "Thanks.")
    assert "The user did not allow this call" in str(backend_of(chat).prompts[-1])


@pytest.mark.parametrize(
    ("reason", "call"),
    [
        ("use find_contact", call_text("find_contact", name="wifi")),
        ("the note is called lan.txt", call_text("read_note", title="lan.txt")),
        ("it is Sunday", None),
    ],
)
def test_a_call_that_a_reason_asks_for_is_made(reason: str, call: str | None) -> None:
    asked = Asked(Decline(reason))
    words = f"You said: {reason}."
    chat, toolbox = open_office(
        [NOTE, words, call or "-", "98.6", "-"], asked, policy=Policy(), prompt_profile="qwen2.5"
    )
    original = asked.__call__

    async def approve(tool: Tool, arguments: Mapping[str, Any], position: CallPosition) -> Consent | Decline:
        return await original(tool, arguments, position) if not asked.tools else "once"

    chat.approve = approve
    text = read(take_turn(chat, "What does the note wifi say?")).text
    assert (len(toolbox.called), text) == ((1, "98.6") if call else (0, words))


def test_what_lacks_a_permission_is_said_before_the_answer_from_other_results() -> None:
    delete = call_text("delete_note", title="wifi")
    chat, toolbox = open_office([NOTE, delete, "It has 98.6."], policy=Policy(allow=("read_note",)))
    answer = Answer()
    for event in take_turn(chat, "Read the note wifi and delete it."):
        answer.add(event)
    needed = "Allow it with --allow box__delete_note, or in [policy] of the configuration."
    lacking = f'Not called, as it needs your permission: box__delete_note title="wifi". {needed}'
    assert (answer.text, len(toolbox.called)) == (f"{lacking}\n\nIt has 98.6.", 1)
    assert "did not allow" not in str(backend_of(chat).prompts)
    chat, toolbox = open_office([NOTE, delete, "It has 98.6."], Asked("no"), policy=Policy(allow=("read_note",)))
    assert read(take_turn(chat, "Read the note wifi and delete it.")).text == "It has 98.6."
    assert "The user did not allow this call." in str(backend_of(chat).prompts)


@pytest.mark.parametrize(
    ("question", "first", "is_asked_again"),
    [
        ("Wie ist die Nummer von Greta?", "The number of Greta is 98.6.", True),
        ("¿Cuál es el número de Greta?", "The number of Greta is 98.6.", True),
        ("Wie ist die Nummer von Greta?", "Die Nummer von Greta ist 98.6.", False),
        ("Wie ist die Nummer von Greta, auf Englisch?", "The number of Greta is 98.6.", False),
        ("What is the number of Greta?", "The number of Greta is 98.6.", False),
        # what a result has in another script is of no language
        ("グレタの連絡先は何番ですか？", "The number of 佐々木健 is 98.6.", True),
    ],
)
def test_an_answer_is_in_the_language_of_the_question(question: str, first: str, is_asked_again: bool) -> None:
    replies = [call_text("find_contact", name="Greta"), first, *["98.6"] * 4]
    chat, toolbox = open_office(replies, prompt_profile="qwen2.5")
    toolbox.functions = {**toolbox.functions, "find_contact": answer_with("佐々木健: 98.6")}
    events = take_turn(chat, question)
    assert ("foreign" in [event.reason for event in events if isinstance(event, ReplyDiscarded)]) is is_asked_again


@pytest.mark.parametrize(
    ("question", "place", "made"),
    [
        ("Wie warm ist es im Arbeitszimmer?", "workroom", True),
        ("Wie warm ist es im Arbeitszimmer?", "Tokyo", False),
        ("How warm is it in the kitchen?", "workroom", False),
    ],
)
def test_a_common_word_of_a_question_in_another_language_may_be_translated(
    question: str, place: str, made: bool
) -> None:
    chat, toolbox = open_office([call_text("get_clock", place=place), *["98.6"] * 4], prompt_profile="qwen2.5")
    toolbox.ABOUT = {**Office.ABOUT, "get_clock": "Tell how warm a place is, and the time"}
    take_turn(chat, question)
    assert toolbox.called == [("get_clock", {"place": place})] * made


def test_a_german_noun_is_no_name() -> None:
    for question, names in (
        ("Was steht in der Notiz wifi, und wo liegt der Bahnhof?", ""),
        ("What does the note wifi say, and where is Turin?", "Turin"),
    ):
        chat, _ = open_office([NOTE, *["98.6"] * 5], prompt_profile="qwen2.5")
        told = f"\n\n[No tool was called for {names}: the answer is not based on a look-up of that.]" if names else ""
        assert read(take_turn(chat, question)).text == f"98.6{told}"


def test_who_tells_of_themselves_in_german_has_nothing_looked_up() -> None:
    for question, count in (("Guten Tag, ich heiße Lena und wohne in Graz.", 0), ("Wie spät ist es in Graz?", 1)):
        chat, toolbox = open_office([call_text("get_clock", place="Graz"), *["98.6"] * 4], prompt_profile="qwen2.5")
        take_turn(chat, question)
        assert len(toolbox.called) == count


def test_the_hour_of_a_date_is_something_of_a_result() -> None:
    answer = "The time in Boston is 09:00."
    chat, toolbox = open_office([call_text("convert_units", value="15:00", unit="Oslo", to="Boston"), answer, "-"])
    toolbox.functions = {**toolbox.functions, "convert_units": answer_with('{"target": "2026-11-30T09:00:00-05:00"}')}
    assert read(take_turn(chat, "Convert 15:00 in Oslo to the time in Boston.")).text == answer


def test_what_was_calculated_is_in_the_answer_or_below_it() -> None:
    told = "There are 40 bulbs, and the heater costs 75 EUR."
    for answers, text in (
        ([told, "It is 115."], "It is 115."),
        ([told] * 4, f'{told}\n\n[Completed box__calculate expression="40 + 75": 115]'),
    ):
        chat, toolbox = open_office([call_text("calculate", expression="40 + 75"), *answers])
        toolbox.functions = {**toolbox.functions, "calculate": answer_with("115")}
        assert read(take_turn(chat, "No, it is 40 bulbs. What is 40 plus 75 EUR for the heater?")).text == text


def test_a_word_in_letters_is_found_beside_chinese_ones() -> None:
    calls = [call_text("read_note", title="WEB"), call_text("get_clock", place="北京")]
    chat, toolbox = open_office([*calls, "98.6"], prompt_profile="qwen2.5")
    assert read(take_turn(chat, "WEBというメモを読んで。北京は今何時？")).text == "98.6"  # nothing is asked again
    assert [name for name, _ in toolbox.called] == ["read_note", "get_clock"]
