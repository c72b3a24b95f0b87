"""What a question says of its files: that one is moved, deleted, made or added to, and whose it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chat.scripted_app import backend_of
from chat.test_call_choice import open_choosing_town
from chat.test_tools_meant import RESULTS, Shelf, Town, list_reasons, open_shelf, open_town, read
from rkllm_chat.calls.described_calls import asks, list_places
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.meant_files import find_meant_file
from rkllm_chat.config.policy import Policy
from rkllm_chat.core.events import Text
from rkllm_chat.core.messages import Message, Tool, ToolResult
from rkllm_chat.core.protocols import CallPosition, Consent, ProgressCallback
from stage import call_text, take_turn

REFUSAL = "I am sorry, but I cannot do that."
LINES = "tent\nstove\n"


class Mover(Shelf):
    """A shelf whose files can be moved, and whose folders can be made."""

    TOOLS: Mapping[str, tuple[str, str, str]] = {
        **Town.TOOLS,
        "edit_file": ("files", "path edits", "Make edits to a text file"),
        "move_file": ("files", "source destination", "Move or rename files and directories"),
        "create_directory": ("files", "path", "Create a new directory"),
    }
    WRITING: Sequence[str] = (*Town.WRITING, "edit_file", "move_file", "create_directory")


def open_mover(folder: Path, replies: Sequence[str]) -> tuple[Conversation, Mover]:
    chat, _ = open_shelf(folder, replies)
    chat.toolbox = toolbox = Mover({})
    toolbox.folder = folder
    return chat, toolbox


def list_call_requests(chat: Conversation) -> list[str]:
    return [text for prompt in backend_of(chat).prompts for message in prompt if (text := message.call_request)]


@pytest.fixture
def packing(tmp_path: Path) -> Path:
    (tmp_path / "packing.txt").write_text(LINES, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "question", ["Rename packing.txt to bag.txt", "packing.txt を bag.txt に名前を変えて", "把packing.txt改名为bag.txt"]
)
def test_a_file_that_is_only_moved_is_not_read_first(packing: Path, question: str) -> None:
    moved = {"source": "packing.txt", "destination": "bag.txt"}
    chat, toolbox = open_mover(packing, [REFUSAL, call_text("move_file", **moved), "It is renamed.", *["-"] * 4])
    take_turn(chat, question)
    asked = list_call_requests(chat)[0]
    assert "move_file" in asked and "write_file" not in asked
    assert toolbox.called == [("move_file", moved)]


@pytest.mark.parametrize(
    "question",
    [
        "Delete packing.txt",
        "please get rid of the file packing.txt, i dont need it",
        "packing.txt を削除してください",
        "请删除packing.txt",
        "Lösch bitte packing.txt",
    ],
)
@pytest.mark.parametrize("content", ["", LINES, "deleted"])
def test_a_file_to_delete_is_not_written(packing: Path, question: str, content: str) -> None:
    write = call_text("write_file", path="packing.txt", content=content)
    chat, toolbox = open_shelf(packing, [write, *[write] * 2, *["packing.txt was deleted."] * 5])
    answer = read(take_turn(chat, question))
    assert toolbox.called == [] and "deleted" not in answer


@pytest.mark.parametrize(
    ("question", "content", "is_written"),
    [
        ("Write nothing much into packing.txt", "", False),
        ("Please empty packing.txt", "", True),
        ("Save the list in packing.txt", LINES, False),  # it is as it was
        ("Please replace all of packing.txt by: boots", "boots", True),
    ],
)
def test_a_file_keeps_what_nobody_takes_from_it(packing: Path, question: str, content: str, is_written: bool) -> None:
    path = {"path": "packing.txt"}
    write = call_text("write_file", **path, content=content)
    chat, toolbox = open_shelf(packing, [call_text("read_file", **path), write, write, *["-"] * 5])
    take_turn(chat, question)
    assert ("write_file" in dict(toolbox.called)) is is_written


@pytest.mark.parametrize("question", ["trag Regenjacke in packing.txt ein", "Regenjacke muss auch in packing.txt"])
def test_a_file_that_was_not_read_is_not_written_anew(packing: Path, question: str) -> None:
    path = {"path": "packing.txt"}
    write = call_text("write_file", **path, content="Regenjacke")
    chat, toolbox = open_shelf(packing, [write, call_text("read_file", **path), *["-"] * 6])
    assert "misplaced" in list_reasons(take_turn(chat, question))
    assert toolbox.called == [("read_file", path)]


def test_a_new_file_is_written_and_not_edited(packing: Path) -> None:
    question = "Copy the first line of packing.txt into a new file first.txt"
    read_file = call_text("read_file", path="packing.txt")
    chat, _, backend = open_choosing_town([read_file, REFUSAL, *["-"] * 6], {question: "read_file"})
    chat.toolbox = toolbox = Mover({})
    toolbox.folder, chat.get_folders = packing, partial(dict, files=(str(packing),))
    take_turn(chat, question)
    changing = [rules for rules in backend.forced if "write_file" in rules and "read_file" not in rules]
    assert changing and not any("edit_file" in rules for rules in changing)


def test_a_file_keeps_its_name_in_another_folder(packing: Path) -> None:
    (packing / "trips").mkdir()
    move = call_text("move_file", source="packing.txt", destination="trips")
    chat, toolbox = open_mover(packing, [move, *["It failed."] * 8])
    take_turn(chat, "Move packing.txt into the folder trips.")
    assert toolbox.called[0] == ("move_file", {"source": "packing.txt", "destination": "trips/packing.txt"})


def test_a_folder_that_is_there_is_not_made(packing: Path) -> None:
    made = call_text("create_directory", path=str(packing))
    chat, toolbox = open_mover(packing, [made, *["-"] * 6])
    take_turn(chat, "Make a new note with the word tent")
    assert toolbox.called == []


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("算了，把“水壶”写进新文件 todo.txt", "水壶"),
        ("Write 'buy a kettle' into the new file todo.txt", "buy a kettle"),
    ],
)
def test_the_text_that_a_question_quotes_is_written(packing: Path, question: str, quoted: str) -> None:
    story = "讲个关于熊猫的长故事"
    write = call_text("write_file", path="todo.txt", content=story)
    chat, toolbox = open_shelf(packing, [write, "It is written.", *["-"] * 4])
    chat.history[:] = [Message("user", story), Message("assistant", "很久以前。")]
    take_turn(chat, question)
    assert toolbox.called == [("write_file", {"path": "todo.txt", "content": quoted})]


def test_who_names_no_file_is_asked_for_it(packing: Path) -> None:
    chat, toolbox = open_shelf(packing, [call_text("read_file", path="/path/to/file.txt"), *["-"] * 4])
    assert read(take_turn(chat, "Read the file.")) == "Which path?" and toolbox.called == []


def test_a_file_is_read_by_a_server_that_has_it_although_another_one_may_run(packing: Path) -> None:
    chat, _ = open_town([REFUSAL, *["-"] * 5], policy=Policy("ask", allow=("board__show_file",)))
    chat.toolbox = toolbox = Shelf({})
    toolbox.TOOLS = {"show_file": ("board", "path", "Read a file"), **Town.TOOLS}
    chat.get_folders = partial(dict, files=(str(packing),))
    take_turn(chat, "What does packing.txt say?")
    asked = list_call_requests(chat)
    assert "read_file" in asked[0] and "show_file" not in asked[0]


@pytest.mark.parametrize(
    ("question", "name", "key"),
    [
        ("How much did I spend in total according to packing.txt?", "read_file", "path"),
        ("Kada dirba http://town.example/museum ?", "fetch", "url"),
    ],
)
def test_a_file_or_an_address_is_read_whatever_else_is_likely(question: str, name: str, key: str) -> None:
    place = next(word for word in question.replace("?", " ").split() if "." in word)
    replies = ["You can sum it with a script.", call_text(name, **{key: place}), RESULTS[name], *["-"] * 4]
    chat, toolbox, backend = open_choosing_town(replies, {question: name})
    backend.CLOSE = -40.0  # it is likelier of somebody who asks for none of the tools
    take_turn(chat, question)
    assert toolbox.called == [(name, {key: place})]


def test_a_part_of_a_question_that_a_file_answers_is_not_looked_up() -> None:
    question = "When and where is the bakery open? It is in bakery.txt."
    replies = [call_text("read_file", path="bakery.txt"), "The bakery opens at 07:10.", call_text("get_load"), "-"]
    chat, toolbox, backend = open_choosing_town(replies, {question: "read_file"})
    take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == ["read_file"] and backend.forced == []


@pytest.mark.parametrize(
    "question",
    [
        "妹の誕生日は5月2日、覚えといて",
        "Merk dir bitte: mein Zug fährt freitags",
        "记一下，妹妹的生日是5月2日",
        "小周养了一只猫，名字叫豆豆，你替我记着",
        "Tobias has stopped eating fish, keep that in mind will you",
    ],
)
def test_what_is_to_be_remembered_is_looked_up_nowhere(question: str) -> None:
    clock, stored = call_text("get_clock", place="5月2日"), [{"name": question, "observations": [question]}]
    entity = call_text("create_entities", entities=stored)
    chat, _, backend = open_choosing_town([clock, entity, *["-"] * 5], {question: "get_clock"})
    chat.toolbox = toolbox = Mover({})
    take_turn(chat, question)
    assert "get_clock" not in dict(toolbox.called)
    others = ("get_clock", "create_directory", "move_file")
    assert backend.forced and all("create_entities" in rules for rules in backend.forced)
    assert not any(name in rules for rules in backend.forced for name in others)


def test_a_file_is_read_once(packing: Path) -> None:
    path = {"path": "packing.txt"}
    replies = [call_text("read_file", **path), call_text("read_aloud", **path), *["A tent and a stove."] * 4]
    chat, toolbox = open_shelf(packing, replies)
    toolbox.TOOLS = {"read_aloud": ("files", "path", "Read a file as text"), **Town.TOOLS}
    assert read(take_turn(chat, "What does packing.txt say?")) == "A tent and a stove."
    assert toolbox.called == [("read_file", path)]


def test_a_folder_for_a_file_is_made(packing: Path) -> None:
    made, moved = {"path": "trips"}, {"source": "packing.txt", "destination": "trips/packing.txt"}
    replies = [call_text("create_directory", **made), call_text("move_file", **moved), *["It failed."] * 8]
    chat, toolbox = open_mover(packing, replies)
    take_turn(chat, "Create a folder trips and move packing.txt into it.")
    assert toolbox.called[:1] == [("create_directory", made)]


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        ("I'm sorry, but I don't have any information about Robo.", "Robo likes"),
        (call_text("get_bill", number="Robo"), "Robo"),  # where it is not
    ],
)
def test_a_name_is_searched_for_that_a_reply_knows_nothing_of(reply: str, query: str) -> None:
    question = "What does Robo like?"
    search = call_text("search_nodes", query=query)
    chat, toolbox, backend = open_choosing_town([reply, search, "Nothing is known.", *["-"] * 6], {})
    backend.unwilling = {question}
    take_turn(chat, question)
    # what finds nothing is searched for by the name alone
    assert toolbox.called[:2] == [("search_nodes", {"query": text}) for text in dict.fromkeys((query, "Robo"))]


def test_who_says_what_is_not_known_of_somebody_is_not_asked_again() -> None:
    reply = "I'm sorry, but I don't have any information about Robo."
    chat, _ = open_town([reply, "Robo likes books."])
    chat.toolbox = Town({})
    chat.toolbox.TOOLS = {"get_load": Town.TOOLS["get_load"]}
    assert read(take_turn(chat, "What does Robo like?")) == reply


def test_what_a_reply_would_need_is_called() -> None:
    question, reply = "How many orders are there?", "To answer this, I would need to query the database for its orders."
    chat, toolbox, _ = open_choosing_town([reply, call_text("list_tables"), *["-"] * 8], {})
    take_turn(chat, question)
    assert toolbox.called[0] == ("list_tables", {})


@pytest.mark.parametrize(
    ("question", "is_made"), [("What time is it in Oslo?", False), ("What time is it in Oslo at noon?", True)]
)
def test_a_time_that_nobody_said_is_not_looked_up(question: str, is_made: bool) -> None:
    made = {"place": "Oslo", "time": "12:00"}
    chat, toolbox = open_town([call_text("convert_time", **made), *["It is 18:20."] * 6])
    toolbox.TOOLS = {"convert_time": ("board", "place time", "Tell the time of a place"), **Town.TOOLS}
    take_turn(chat, question)
    assert (("convert_time", made) in toolbox.called) is is_made


@pytest.mark.parametrize(
    ("written", "added"),
    [
        ("tent\nstove\n", "buy stamps"),
        ("buy stamps\nstove", "buy stamps"),
        ("stamps", "buy stamps"),
        ("buy stamps by Friday\nstove", "buy stamps by Friday"),
    ],
)
def test_the_line_that_a_question_quotes_is_added(packing: Path, written: str, added: str) -> None:
    path = {"path": "packing.txt"}
    replies = [call_text("read_file", **path), call_text("write_file", **path, content=written), *["-"] * 6]
    chat, toolbox = open_shelf(packing, replies)
    take_turn(chat, 'add "buy stamps" by Friday at the end of packing.txt')
    assert toolbox.called[1] == ("write_file", {**path, "content": f"{LINES}{added}\n"})


def test_a_change_is_asked_for_whole() -> None:
    question = "Make a new file bag.txt with tent, torch and wool socks, one per line."
    call = call_text("write_file", path="bag.txt", content="tent\ntorch\nwool socks")
    chat, toolbox, backend = open_choosing_town(["Well.", call, "It is written.", *["-"] * 6], {question: "write_file"})
    take_turn(chat, question)
    assert toolbox.called[0][1]["content"] == "tent\ntorch\nwool socks"
    assert not any("read_file" in rules for rules in backend.forced)


@pytest.mark.parametrize(
    ("question", "is_asked"), [("ugh classic me, still got there 10 mins late", False), ("Please book a table", True)]
)
def test_who_tells_something_is_not_asked_what_a_change_lacks(question: str, is_asked: bool) -> None:
    chat, toolbox = open_town([call_text("book_table", hour="18"), *["That is good."] * 6])
    toolbox.TOOLS = {"book_table": ("desk", "hour", "Book a table"), **Town.TOOLS}
    toolbox.WRITING = (*Town.WRITING, "book_table")
    assert (read(take_turn(chat, question)) == "Which hour?") is is_asked


@pytest.mark.parametrize(
    ("message", "is_question"),
    [
        ("and are the ferries on time today", True),
        ("is it open", True),
        ("明天杭州天气咋样", True),
        ("he is it", False),
        ("have a nice day", False),
        ("了解、ありがとう！", False),
    ],
)
def test_a_question_needs_no_question_mark(message: str, is_question: bool) -> None:
    assert asks(message) is is_question


def test_two_files_of_one_name_are_both_read(packing: Path) -> None:
    (packing / "old").mkdir()
    (packing / "old" / "packing.txt").write_text("torch", encoding="utf-8")
    paths = [{"path": "packing.txt"}, {"path": "old/packing.txt"}]
    chat, toolbox = open_shelf(packing, [*[call_text("read_file", **path) for path in paths], *["Tent, torch."] * 6])
    take_turn(chat, "Compare packing.txt and old/packing.txt")
    assert toolbox.called == [("read_file", path) for path in paths]


def test_a_file_that_nothing_reads_may_be_written(packing: Path) -> None:
    chat, toolbox = open_shelf(packing, [call_text("write_file", path="packing.txt", content="boots"), *["Done."] * 6])
    toolbox.TOOLS = {"write_file": Town.TOOLS["write_file"]}
    take_turn(chat, "Save boots in packing.txt")
    assert [name for name, _ in toolbox.called] == ["write_file"]


@pytest.mark.parametrize(("question", "is_kept"), [("What is the total in", False), ("How can I sum up", True)])
def test_what_a_result_tells_is_not_to_be_worked_out_by_the_user(packing: Path, question: str, is_kept: bool) -> None:
    how, told = "To calculate the total of the tent, you would need to sum up.", "The tent and the stove."
    chat, _ = open_shelf(packing, [call_text("read_file", path="packing.txt"), how, *[told] * 5])
    assert read(take_turn(chat, f"{question} packing.txt?")) == (how if is_kept else told)


def test_a_file_that_may_not_be_read_is_told(packing: Path) -> None:
    question = "How many stoves are in packing.txt?"
    reply = "You would use a tool for it."
    replies = [reply, call_text("read_file", path="packing.txt"), *["-"] * 4]
    chat, toolbox, _ = open_choosing_town(replies, {question: "read_file"})
    chat.settings = replace(chat.settings, policy=Policy("ask"))
    chat.get_folders = partial(dict, files=(str(packing),))
    answer = "".join(event.text for event in take_turn(chat, question) if isinstance(event, Text))
    assert toolbox.called == [] and "--allow files__read_file" in answer


def test_what_a_change_names_is_not_searched_for() -> None:
    question = "What would an Italian cook?"
    entity = call_text("create_entities", entities=[{"name": "Italian", "observations": ["cook"]}])
    chat, toolbox, backend = open_choosing_town([entity, call_text("search_nodes", query="Italian"), *["-"] * 6], {})
    backend.unwilling = {question}
    take_turn(chat, question)
    assert toolbox.called == []


@pytest.mark.parametrize(
    ("question", "is_unsure", "is_read"),
    [
        ("How long does the batter of the waffles rest?", False, False),  # the file is called otherwise
        ("How long does the batter of the pancakes rest?", False, True),
        ("How long does the batter of the pancackes rest?", True, True),  # as users type
    ],
)
def test_the_file_that_a_question_has_in_words_is_read_if_the_model_prefers_it(
    tmp_path: Path, question: str, is_unsure: bool, is_read: bool
) -> None:
    (tmp_path / "pancakes.txt").write_text("Let the batter rest for 25 minutes.", encoding="utf-8")
    replies = ["It rests for 5 minutes.", call_text("read_file", path="grandma.txt"), "25 minutes.", *["-"] * 4]
    chat, _, backend = open_choosing_town(replies, {} if is_unsure else {question: "read_file"})
    backend.unsure = {question}
    chat.toolbox = toolbox = Shelf({})
    toolbox.folder, chat.get_folders = tmp_path, partial(dict, files=(str(tmp_path),))
    take_turn(chat, question)
    assert toolbox.called == [("read_file", {"path": str(tmp_path / "pancakes.txt")})] * is_read


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("put honey on the shoping list pls", "Thank you for providing the updated shopping list."),
        ("what? honey is not in the file. please write it in", "No, honey is not in the file."),
        ("Pack honey auf die Liste in shopping.txt", "Die Liste hat Milch."),
        ("i need honey, pls put it at the end of shopping.txt", "It has been added to the end of the file."),
        ("shopping.txtにhoneyを足しといて", "honeyを足しました。"),
        ("把honey加到shopping.txt里", "已经把honey加到文件里了。"),
    ],
)
def test_a_file_that_is_only_read_for_a_change_is_changed(packing: Path, question: str, reply: str) -> None:
    path = {"path": str(packing / "shopping.txt")}
    (packing / "shopping.txt").write_text("milk\n", encoding="utf-8")
    write = call_text("write_file", **path, content="milk\nhoney")
    chat, toolbox = open_shelf(packing, [call_text("read_file", **path), reply, write, "It has honey.", *["-"] * 4])
    chat.history[:] = [Message("user", "Read shopping.txt"), Message("assistant", "It has milk.")]
    take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == ["read_file", "write_file"]


@pytest.mark.parametrize("offer", ["", " Is there anything else I can help you with?"])
def test_thanks_for_a_result_are_asked_for_again(packing: Path, offer: str) -> None:
    thanks, path = f"Thank you for providing the packing list.{offer}", {"path": "packing.txt"}
    chat, _ = open_shelf(packing, [call_text("read_file", **path), thanks, "A tent and a stove.", *["-"] * 4])
    assert read(take_turn(chat, "Read the packing list, packing.txt")) == "A tent and a stove."


def test_who_lacks_a_body_looks_nothing_up() -> None:
    reply = "As a model of language, I don't have a day. May I query the tables of a database for you?"
    chat, toolbox, _ = open_choosing_town([reply, *[call_text("list_tables")] * 6], {})
    assert read(take_turn(chat, "hows your day going?")) == reply and toolbox.called == []


@pytest.mark.parametrize("is_preferred", [False, True])
def test_a_tool_without_arguments_that_a_reply_describes_is_called_if_the_model_prefers_it(is_preferred: bool) -> None:
    question = "How long does the batter rest?"
    shown = call_text("get_load").splitlines()[1]
    reply = f"To find out how long the batter rests, you can use it so:\n```\n{shown}\n```\nand see what it says."
    replies = [reply, *([RESULTS["get_load"]] if is_preferred else ["25 minutes."]), *["-"] * 6]
    chat, toolbox, _ = open_choosing_town(replies, {question: "get_load"} if is_preferred else {})
    take_turn(chat, question)
    assert toolbox.called == [("get_load", {})] * is_preferred


def test_an_answer_of_an_earlier_turn_is_asked_for_again_also_without_the_tools() -> None:
    failed = "The tool failed because it tried to read a directory."
    history = [Message("user", "Read it."), Message("assistant", failed, reply_kind="forced")]
    chat, *_ = open_choosing_town(["I am sorry, but I cannot do that.", failed, "Rain falls."], {}, history)
    assert read(take_turn(chat, "Tell me something about rain")) == "Rain falls."


@pytest.mark.parametrize(
    ("question", "is_found"), [("when does my flight leave? see the trip folder", True), ("when is the flight?", False)]
)
def test_a_file_of_a_folder_that_a_question_has_in_words_is_read(tmp_path: Path, question: str, is_found: bool) -> None:
    (tmp_path / "trip").mkdir()
    (tmp_path / "trip" / "flight.txt").write_text("07:25", encoding="utf-8")
    assert bool(find_meant_file(question, [str(tmp_path)])) is is_found


def test_a_folder_that_is_not_there_is_not_listed_for_a_file_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "trip").mkdir()
    flight = tmp_path / "trip" / "flight.txt"
    flight.write_text("07:25", encoding="utf-8")
    read_file = call_text("read_file", path="trip/folder/flight.txt")
    chat, toolbox = open_shelf(tmp_path, [call_text("list_folder", path="trip/folder"), read_file, "07:25", "-"])
    assert "misplaced" in list_reasons(take_turn(chat, "When does my flight leave? It is in the trip folder."))
    assert toolbox.called == [("read_file", {"path": str(flight)})]


@pytest.mark.parametrize("expression", ["SUM(food)", "sum(packing.txt['amount'])"])
def test_a_calculation_without_a_number_is_none(packing: Path, expression: str) -> None:
    call = call_text("calculate", expression=expression)
    chat, toolbox = open_shelf(packing, [call, *["A tent and a stove."] * 6])
    toolbox.TOOLS = {"calculate": ("board", "expression", "Calculate"), **Town.TOOLS}
    take_turn(chat, "How much did I spend on food?")
    assert toolbox.called == []


@pytest.mark.parametrize(
    ("question", "call", "is_made"),
    [
        ("Make a file birds.txt, and tell me the time in Lisbon", ("delete_entities", {"names": ["birds"]}), False),
        ("Delete birds from what you know", ("delete_entities", {"names": ["birds"]}), True),
    ],
)
def test_who_asks_to_make_something_asks_to_delete_nothing(
    packing: Path, question: str, call: tuple[str, Mapping[str, Any]], is_made: bool
) -> None:
    clock = [call_text("get_clock", place="Lisbon")] * (not is_made)
    chat, toolbox = open_shelf(packing, [*clock, call_text(call[0], **call[1]), *["It is done."] * 6])
    toolbox.TOOLS = {"delete_entities": ("memory", "names", "Delete entities"), **Town.TOOLS}
    toolbox.WRITING = (*Town.WRITING, "delete_entities")
    take_turn(chat, question)
    assert (call in toolbox.called) is is_made


@pytest.mark.parametrize("first", [REFUSAL, call_text("get_clock", place="Lisbon")])
def test_a_new_file_is_made_by_a_tool_that_takes_its_text(packing: Path, first: str) -> None:
    question = "Make a file called birds.txt with the words robin and wren"
    chat, _, backend = open_choosing_town([first, *["-"] * 8], {})
    chat.toolbox = toolbox = Shelf({})
    toolbox.folder, chat.get_folders = packing, partial(dict, files=(str(packing),))
    toolbox.TOOLS = {"git_add": ("git", "repo_path files", "Add the contents of a file to be made"), **Town.TOOLS}
    toolbox.WRITING = (*Town.WRITING, "git_add")
    take_turn(chat, question)
    asked = backend.forced[0]
    assert "write_file" in asked and not ("git_add" in asked or "read_file" in asked)


@pytest.mark.parametrize("question", ["ちゃんと旅行メモ.txtに書き込んで", "打开我的旅行メモ.txt"])
def test_words_before_the_name_of_a_file_are_no_part_of_it(question: str) -> None:
    assert list_places(question) == ["旅行メモ.txt"]


def test_what_the_user_asks_about_themselves_is_not_guessed(packing: Path) -> None:
    made_up, guess = call_text("read_file", path="/srv/nora/flight.txt"), "Your flight leaves at 10:00."
    chat, toolbox = open_shelf(packing, [made_up, *[made_up] * 2, *[guess] * 3])
    assert read(take_turn(chat, "When does my flight leave?")).startswith("I do not know")
    assert toolbox.called == []


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("whats the weather tomorow in bremen", "I'm sorry, but I don't have real-time weather data."),
        ("明日の天気は?", "申し訳ありませんが、リアルタイムの天気はわかりません。"),
    ],
)
def test_who_says_what_no_model_knows_is_not_asked_again(question: str, reply: str) -> None:
    chat, _ = open_town([reply, *["It will be sunny.", "晴れです。"] * 2])
    chat.toolbox = Town({})
    chat.toolbox.TOOLS = {"get_load": Town.TOOLS["get_load"]}
    assert read(take_turn(chat, question)) == reply


def test_an_answer_of_an_earlier_turn_tells_no_result(packing: Path) -> None:
    weather, path = "The weather in Bremen will be sunny.", {"path": "packing.txt"}
    chat, _ = open_shelf(packing, [call_text("read_file", **path), *[weather] * 6])
    chat.history[:] = [Message("user", "Weather?"), Message("assistant", weather, reply_kind="forced")]
    answer = read(take_turn(chat, "What does packing.txt say?"))
    assert "tent" in answer and weather not in answer


def test_two_changes_that_call_for_each_other_come_to_an_end(packing: Path) -> None:
    async def approve(_tool: Tool, _arguments: Mapping[str, Any], _position: CallPosition) -> Consent:
        return "once"

    note, file = call_text("add_note", name="4471", text="4471"), call_text("write_file", path="4471", content="4471")
    replies = [*[note, file] * 6, *["It failed."] * 6]
    chat, toolbox = open_shelf(packing, replies, approve=approve, policy=Policy("ask"))
    toolbox.TOOLS = {"add_note": ("memory", "name text", "Add a note"), **Town.TOOLS}
    toolbox.WRITING = (*Town.WRITING, "add_note")
    take_turn(chat, "Please write a file, and add the note 4471")
    assert 0 < len(toolbox.called) <= 4


def test_a_file_that_has_what_is_to_be_written_is_not_written_again(packing: Path) -> None:
    write = call_text("write_file", path="birds.txt", content="robin")
    asked = list[str]()

    async def approve(tool: Tool, _arguments: Mapping[str, Any], _position: CallPosition) -> Consent:
        asked.append(tool.name)
        if tool.name == "write_file":
            (packing / "birds.txt").write_text("robin", encoding="utf-8")
        return "once"

    listing = call_text("list_birds", path="birds")
    chat, toolbox = open_shelf(
        packing, [*[write, listing] * 6, *["It is done."] * 6], approve=approve, policy=Policy("ask")
    )
    toolbox.TOOLS = {"list_birds": ("files", "path", "Show a folder"), **Town.TOOLS}
    toolbox.WRITING = (*Town.WRITING, "list_birds")
    take_turn(chat, "Make a new file birds.txt with the word robin")
    assert asked.count("write_file") == 1


def test_what_one_tool_of_a_server_could_not_change_is_tried_with_another_one_of_it(packing: Path) -> None:
    add = call_text("add_observations", name="number", text="4471")
    question = "Create and remember: my number is 4471"
    chat, _, backend = open_choosing_town([add, "It failed.", *["-"] * 8], {question: "add_observations"})
    chat.toolbox = toolbox = Mover({})
    toolbox.folder, chat.get_folders = packing, partial(dict, files=(str(packing),))
    toolbox.TOOLS = {"add_observations": ("memory", "name text", "Add observations to entities"), **Mover.TOOLS}
    toolbox.WRITING = (*Mover.WRITING, "add_observations")
    take_turn(chat, question)
    assert [name for name, _ in toolbox.called] == ["add_observations"]
    changing = [rules for rules in backend.forced if "create_entities" in rules]
    assert changing and "create_directory" not in changing[0]


class Repository(Shelf):
    """A repository in which nothing is staged until `git_add` is called."""

    TOOLS: Mapping[str, tuple[str, str, str]] = {
        **Town.TOOLS,
        "git_commit": ("git", "message", "Record changes to the repository"),
        "git_add": ("git", "files", "Add the contents of files to the staging area"),
    }
    WRITING: Sequence[str] = (*Town.WRITING, "git_commit", "git_add")

    async def call(self, tool: Tool, arguments: Mapping[str, Any], progress: ProgressCallback) -> ToolResult:
        result = await super().call(tool, arguments, progress)
        if tool.name == "git_add" or (tool.name == "git_commit" and "git_add" in dict(self.called)):
            return replace(result, status="completed", text="Done.")
        staged = "No changes staged for commit. Use git_add to stage changes first; git_status shows what is staged."
        return replace(result, text=staged) if tool.name == "git_commit" else result


def test_what_an_error_says_is_done_and_the_call_made_again(packing: Path) -> None:
    question = "commit my change of packing.txt with the message 'Add a stove'"
    commit, add = ("git_commit", {"message": "Add a stove"}), ("git_add", {"files": ["packing.txt"]})
    failed = "Nothing is staged."
    replies = [call_text(*commit[:1], **commit[1]), failed, call_text("git_add", **add[1]), "It is staged."]
    chat, _, _ = open_choosing_town([*replies, call_text("git_commit", **commit[1]), "Done."], {question: "git_commit"})
    chat.toolbox = toolbox = Repository({})
    toolbox.folder, chat.get_folders = packing, partial(dict, git=(str(packing),))
    assert "Done" in read(take_turn(chat, question))
    assert toolbox.called == [commit, add, commit]


def test_a_second_change_of_what_was_just_made_is_made(packing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    branch, switch = ("git_branch", {"name": "june"}), ("git_checkout", {"name": "june"})
    replies = [call_text(branch[0], name="june"), call_text(switch[0], name="june"), *["-"] * 4]
    chat, toolbox = open_shelf(packing, replies)
    toolbox.TOOLS = {
        "git_branch": ("git", "name", "Create a branch"),
        "git_checkout": ("git", "name", "Switch branches"),
        **Town.TOOLS,
    }
    toolbox.WRITING = (*Town.WRITING, "git_branch", "git_checkout")
    monkeypatch.setitem(RESULTS, "git_branch", "Created june.")
    take_turn(chat, "create a branch june and switch over to it")
    assert toolbox.called == [branch, switch]


@pytest.mark.parametrize(
    ("question", "is_made"), [("need shoes, do you know my size?", False), ("What is in /home/user/shoes?", True)]
)
def test_a_path_out_of_the_folders_of_a_server_is_not_listed(packing: Path, question: str, is_made: bool) -> None:
    replies = [call_text("list_folder", path="/home/user/shoes"), *["I do not know."] * 6]
    chat, _, _ = open_choosing_town(replies, {question: "list_folder"})
    chat.toolbox = toolbox = Shelf({})
    chat.get_folders = partial(dict, files=(str(packing),))
    take_turn(chat, question)
    assert bool(toolbox.called) is is_made


def test_a_list_of_resources_that_a_reply_describes_is_no_answer() -> None:
    call = '{"name": "list_resources", "arguments": {}}'
    reply = f"You can use the `list_resources` function:\n```json\n{call}\n```\nThis will help."
    chat, _, _ = open_choosing_town([reply, *["Portuguese."] * 4], {})
    assert read(take_turn(chat, "which language do ppl speak in brazil")) == "Portuguese."


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("a customer wants a pump, any left? products are in the database", True),
        ("ポンプの在庫は？データベースで調べて", True),
        ("how many pumps have we got left in the shop database", True),
        ("any pumps left for a customer of the database team?", False),
    ],
)
def test_what_is_said_to_be_in_a_database_is_looked_up_there(question: str, is_asked: bool) -> None:
    chat, toolbox, _ = open_choosing_town(["Pumps are nice.", *[call_text("list_tables")] * 2, *["-"] * 8], {})
    take_turn(chat, question)
    assert (toolbox.called[:1] == [("list_tables", {})]) is is_asked


def test_a_call_that_a_reply_describes_with_another_value_is_asked_for() -> None:
    question, right = "what time is it in vilnius", call_text("get_clock", place="vilnius")
    shown = call_text("get_clock", place="Riga").splitlines()[1]
    reply = f"You can use it so:\n```\n{shown}\n```\nand see what it says."
    chat, toolbox, _ = open_choosing_town([reply, right, RESULTS["get_clock"], *["-"] * 4], {})
    take_turn(chat, question)
    assert toolbox.called == [("get_clock", {"place": "vilnius"})]


def test_a_tool_that_is_called_by_another_name_is_asked_for_first(packing: Path) -> None:
    question = "packing.txt is a silly name, call it bag.txt instead"
    arguments = {"source": "packing.txt", "destination": "bag.txt"}
    replies = [call_text("rename_file", **arguments), call_text("move_file", **arguments), "It is renamed.", *["-"] * 6]
    chat, _, backend = open_choosing_town(replies, {})
    chat.toolbox = toolbox = Mover({})
    toolbox.folder, chat.get_folders = packing, partial(dict, files=(str(packing),))
    take_turn(chat, question)
    assert "move_file" in backend.forced[0] and "read_file" not in backend.forced[0]
    assert toolbox.called == [("move_file", arguments)]


def test_what_a_page_is_compared_with_is_looked_up_where_the_question_says() -> None:
    page = "http://town.example/museum"
    asked, told = f"is {page} dearer than ours?", "our prices are in the database"
    fetch, query = call_text("fetch", url=page), call_text("read_query", query="SELECT amount FROM orders")
    tables, table = call_text("list_tables"), call_text("describe_table", table_name="orders")
    replies = [fetch, "Theirs is dearer.", "-", tables, "It has orders.", table, "It has amounts.", query]
    chat, toolbox, backend = open_choosing_town([*replies, *["Closed, 75.5."] * 6], {f"{asked} {told}": "fetch"})
    backend.preferred = {f"{asked} {told}": "fetch", asked: "fetch"}
    take_turn(chat, f"{asked} {told}")
    assert [name for name, _ in toolbox.called] == ["fetch", "list_tables", "describe_table", "read_query"]


def test_a_change_of_a_table_whose_values_nobody_fills_in_is_not_made() -> None:
    question, query = "put the new price in the database pls", "UPDATE orders SET amount = ? WHERE item = ?"
    replies = [call_text("write_query", query=query), *["Which price?"] * 6]
    chat, toolbox, _ = open_choosing_town(replies, {question: "write_query"})
    take_turn(chat, question)
    assert "write_query" not in dict(toolbox.called)


@pytest.mark.parametrize(
    ("old", "new", "is_made"), [("tent on Tuesday", "boots", False), ("tent", "tent", False), ("tent", "boots", True)]
)
def test_an_edit_that_changes_nothing_is_not_made(packing: Path, old: str, new: str, is_made: bool) -> None:
    path, edits = {"path": "packing.txt"}, [{"oldText": old, "newText": new}]
    edit = call_text("edit_file", **path, edits=edits)
    chat, toolbox = open_mover(packing, [call_text("read_file", **path), edit, *["It failed."] * 8])
    take_turn(chat, "In packing.txt, change the tent on Tuesday to boots")
    assert ("edit_file" in dict(toolbox.called)) is is_made


def test_what_the_user_told_before_is_looked_up_in_the_memory_that_is_named() -> None:
    question = "which days does Tom work from home? i told you once, look in your memory"
    chat, toolbox, _ = open_choosing_town(["I do not know.", call_text("read_graph"), "Brown.", *["-"] * 8], {})
    take_turn(chat, question)
    assert toolbox.called[:1] == [("read_graph", {})]
