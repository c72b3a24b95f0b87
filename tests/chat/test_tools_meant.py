"""Which tool a question means: what it gives where, the server it is about, and what helps where a look-up failed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from chat.scripted_app import backend_of
from rkllm_chat.calls.described_calls import asks_for_change, list_places
from rkllm_chat.chat.answer import Answer
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.config.policy import Policy
from rkllm_chat.core.events import Event, ReplyDiscarded, Text
from rkllm_chat.core.messages import Message, Status, Tool, ToolResult
from rkllm_chat.core.protocols import CallPosition, Consent, Decline, ProgressCallback, decline_all
from rkllm_chat.mcp_client.content import resource_tools
from stage import FakeToolbox, call_text, make_chat, take_turn

ALL = Policy(allow=("*",))
UNTIL_FRIDAY = (4 - date.today().weekday()) % 7
"""Days until Friday, or 0 on one."""
RESULTS: Mapping[str, str] = {
    "read_file": "The bakery opens at 07:10.",
    "list_events": "Dentist, 15:30",
    "fetch": "Closed on Mondays.",
    "get_clock": "It is 18:20.",
    "write_file": "Written.",
    "read_graph": '{"entities": [{"name": "Robo", "observations": ["is brown"]}]}',
    "search_nodes": '{\n  "entities": [],\n  "relations": []\n}',
    "list_tables": "[{'name': 'orders'}]",
    "describe_table": "[{'name': 'item'}, {'name': 'amount'}]",
    "get_load": "The load is 0.41.",
    "entry_price": "It is 9.80.",
    "convert": "It is 9.80.",
}
ROBO, SCHEMA = call_text("search_nodes", query="what Robo is like"), call_text("describe_table", table_name="orders")
GUESS = call_text("read_query", query="SELECT price FROM orders WHERE product = 'shelf'")
RIGHT = call_text("read_query", query="SELECT amount FROM orders WHERE item = 'shelf'")


class Town(FakeToolbox):
    """Tools of six servers, and those for resources."""

    TOOLS: Mapping[str, tuple[str, str, str]] = {
        "read_file": ("files", "path", "Read a file"),
        "list_folder": ("files", "path", "Show the files in a folder"),
        "read_media_file": ("files", "path", "Read a picture or a sound"),
        "write_file": ("files", "path content", "Write a file"),
        "list_events": ("desk", "date", "Show the events of a day"),
        "get_bill": ("desk", "number", "Show a bill"),
        "fetch": ("web", "url", "Fetch a page of the web"),
        "get_clock": ("board", "place", "Tell the time of a place"),
        "get_load": ("board", "", "Tell the load of the processor, how busy it is"),
        "search_nodes": ("memory", "query", "Search the knowledge graph"),
        "read_graph": ("memory", "", "Read the entire knowledge graph"),
        "create_entities": ("memory", "entities", "Create entities in the knowledge graph"),
        "read_query": ("shop", "query", "Execute a SELECT query on the database"),
        "write_query": ("shop", "query", "Execute an INSERT or UPDATE query on the database"),
        "list_tables": ("shop", "", "List all tables of the database"),
        "describe_table": ("shop", "table_name", "Describe a table of the database"),
    }
    WRITING: Sequence[str] = ("write_file", "create_entities", "write_query")

    @property
    def tools(self) -> Sequence[Tool]:
        own = [
            Tool(name, about, self.make_schema(parameters), server, read_only=name not in self.WRITING)
            for name, (server, parameters, about) in self.TOOLS.items()
        ]
        return [*own, *resource_tools(trusted=True)]

    @staticmethod
    def make_schema(parameters: str) -> Mapping[str, Any]:
        names = parameters.split()
        return {"type": "object", "properties": {name: {} for name in names}, "required": names}

    async def call(self, tool: Tool, arguments: Mapping[str, Any], _progress: ProgressCallback) -> ToolResult:
        self.called.append((tool.name, dict(arguments)))
        text, written = RESULTS.get(tool.name, "There is no such thing."), str(arguments)
        if "query" in arguments and tool.server == "shop":
            is_right = "price" not in written and "amount" in written
            text = "[{'amount': 75.5}]" if is_right else "Database error: no such column: price"
        is_known = tool.name in RESULTS or tool.server == "shop"
        status: Status = "completed" if is_known else "failed"
        return ToolResult(tool.server, tool.name, arguments, status, text)


def open_town(replies: Sequence[str], **chosen: Any) -> tuple[Conversation, Town]:
    toolbox = Town({})
    settings = {"policy": Policy(allow=("*",)), "prompt_profile": "qwen2.5", **chosen}
    return make_chat(replies, toolbox, settings.pop("approve", decline_all), **settings), toolbox


def read(events: Sequence[Event]) -> str:
    """What was answered, without the program's line on what was called."""
    answer = Answer()
    for event in events:
        if not (isinstance(event, Text) and event.is_report):
            answer.add(event)
    return answer.text


def list_reasons(events: Sequence[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, ReplyDiscarded)]


@pytest.mark.parametrize(
    ("question", "first", "meant"),
    [
        ("What does shop/bakery.txt say of 07:10?", ("get_clock", {"place": "shop/bakery.txt"}), "read_file"),
        ("What does bakery.txt say?", ("list_folder", {"path": "bakery.txt"}), "read_file"),
        ("What does bakery.txt say?", ("read_media_file", {"path": "bakery.txt"}), "read_file"),
        ("What does bakery.txt say?", ("list_resources", {}), "read_file"),
        ("My shop is in bakery.txt. When do I open?", ("get_clock", {"place": "Dundee"}), "read_file"),
        ("What does bakery.txt say?", ("read_resource", {"uri": "bakery.txt"}), "read_file"),
        ("What have I got on 2026-12-10?", ("get_bill", {"number": "2026-12-10"}), "list_events"),
        ("What is in my diary for 2026-12-10?", ("list_folder", {"path": "/home/me/diary/2026-12-10"}), "list_events"),
        ("Is http://town.example/museum open?", ("read_resource", {"uri": "http://town.example/museum"}), "fetch"),
        ("Is http://town.example/museum open?", ("read_file", {"path": "http://town.example/museum"}), "fetch"),
    ],
)
@pytest.mark.parametrize("is_described", [False, True])
def test_what_the_question_names_goes_to_a_tool_that_takes_it(
    question: str, first: tuple[str, Mapping[str, Any]], meant: str, is_described: bool
) -> None:
    name, arguments = first
    value = list_places(question)[0]
    key = next(iter(Town.TOOLS[meant][1].split()))
    written = call_text(name, **arguments)
    shown = f"You can call it so:\n```\n{written[12:-16]}\n```\nand see what it says."
    chat, toolbox = open_town([shown if is_described else written, call_text(meant, **{key: value}), RESULTS[meant]])
    assert read(take_turn(chat, question)) == RESULTS[meant]
    assert toolbox.called == [(meant, {key: value})]


def test_a_path_in_the_folder_of_a_server_is_read_by_its_tools() -> None:
    class Board(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {**Town.TOOLS, "show_file": ("board", "path", "Read a file")}

    path = {"path": "/srv/notes/wifi.txt"}
    for folder, called in (("/srv/notes", "read_file"), ("/srv/music", "show_file")):
        replies = [call_text("show_file", **path), call_text("read_file", **path), RESULTS["read_file"], "-", "-"]
        toolbox = Board({})
        chat = make_chat(replies, toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
        chat.get_folders = partial(dict, files=(folder,))
        take_turn(chat, "Read /srv/notes/wifi.txt for me.")
        assert toolbox.called[0] == (called, path)


def test_a_path_from_the_working_folder_is_read_in_the_folder_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "wifi.txt").write_text("abc", encoding="utf-8")
    (tmp_path / "notes" / "own").mkdir()
    (tmp_path / "notes" / "own" / "plan.txt").write_text("def", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for said, called in (("notes/wifi.txt", str(tmp_path / "notes/wifi.txt")), ("own/plan.txt", "own/plan.txt")):
        chat, toolbox = open_town([call_text("read_file", path=said), RESULTS["read_file"], "-", "-"])
        chat.get_folders = partial(dict, files=(str(tmp_path / "notes"),))
        take_turn(chat, f"Read {said} for me.")
        assert toolbox.called[0] == ("read_file", {"path": called})
    # a folder that a model puts before the name is none; one that the user says stays; a name may be said in words
    found = str(tmp_path / "notes" / "own" / "plan.txt")
    for said, called in (("plan.txt", found), ("/x/plan.txt", "/x/plan.txt"), ("my plan", found)):
        chat, toolbox = open_town([call_text("read_file", path="/x/plan.txt"), RESULTS["read_file"], "-", "-"])
        chat.get_folders = partial(dict, files=(str(tmp_path / "notes" / "own"),))
        take_turn(chat, f"Read {said} for me.")
        assert toolbox.called[0] == ("read_file", {"path": called})
    # so are a new file of a folder that there is, and the folder
    for name, said, called in (
        ("write_file", "own/new.txt", "own/new.txt"),
        ("write_file", "notes/new.txt", str(tmp_path / "notes/new.txt")),
        ("list_folder", "notes", str(tmp_path / "notes")),
    ):
        content = {"content": "tea"} if name == "write_file" else {}
        chat, toolbox = open_town([call_text(name, path=said, **content), *["-"] * 4])
        chat.get_folders = partial(dict, files=(str(tmp_path / "notes"),))
        take_turn(chat, f"Please write tea to {said}" if content else f"Which files are in {said}?")
        assert toolbox.called == [(name, {"path": called, **content})]


def test_a_forced_call_has_no_path_that_is_made_of_words() -> None:
    question, call = "What is on my shopping list?", call_text("list_folder", path="/home/nora/ShoppingList")
    told = [Message("user", "My name is Nora."), Message("assistant", "Hello Nora.")]
    chat, toolbox = open_town(["I'm sorry, but I don't have access to your shopping list.", *[call] * 6])
    chat.history[:] = told
    take_turn(chat, question)
    assert toolbox.called == []


def test_a_change_that_a_reply_tells_how_to_make_is_made() -> None:
    how = "To add butter to the list, you would need to append a line to bakery.txt."
    written = {"path": "bakery.txt", "content": f"{RESULTS['read_file']}\nbutter"}
    read_file, write_file = call_text("read_file", path="bakery.txt"), call_text("write_file", **written)
    chat, toolbox = open_town([read_file, how, write_file, "It is written.", "-"])
    take_turn(chat, "Please add butter to the list in bakery.txt")
    assert [name for name, _ in toolbox.called] == ["read_file", "write_file"]


def test_a_file_that_a_request_changes_is_read_before_a_forced_change(tmp_path: Path) -> None:
    (tmp_path / "bakery.txt").write_text("It opens at 07:10.", encoding="utf-8")
    path, how = {"path": "bakery.txt"}, "You would need to append it to bakery.txt."
    had = RESULTS["read_file"]
    told = "It opens at 07:10, and has butter."
    for content, is_written, reply in (
        ("butter", False, how),
        (had, False, how),
        (had, False, told),
        (f"{had}\nbutter", True, told),
        (f"{had}\nbutter", True, how),
    ):
        write_file = call_text("write_file", **path, content=content)
        replies = ["I am sorry, but I cannot do that.", call_text("read_file", **path), reply, write_file]
        chat, toolbox = open_town([*replies, *[reply] * 4])
        chat.get_folders = partial(dict, files=(str(tmp_path),))
        answer = read(take_turn(chat, "Please add butter to the list in bakery.txt"))
        assert [name for name, _ in toolbox.called] == ["read_file", *(["write_file"] if is_written else [])]
        assert answer.endswith("[Nothing was changed: the model called no tool that does it.]") is not is_written
    # one that is not there is made
    made = call_text("write_file", path="list.txt", content="butter")
    chat, toolbox = open_town(["I am sorry, but I cannot do that.", made, "-", "-", "-"])
    chat.get_folders = partial(dict, files=(str(tmp_path),))
    take_turn(chat, "Please write butter to list.txt")
    assert [name for name, _ in toolbox.called] == ["write_file"]


def test_a_file_that_a_request_adds_to_is_not_overwritten_unread(tmp_path: Path) -> None:
    (tmp_path / "bakery.txt").write_text("It opens at 07:10.", encoding="utf-8")
    path, had = {"path": "bakery.txt"}, RESULTS["read_file"]
    for content, is_written in (("butter", False), (f"{had}\nbutter", True)):
        write_file = call_text("write_file", **path, content=content)
        # it writes at once, is made to read, and writes again
        replies = [write_file, call_text("read_file", **path), write_file, *["It is written."] * 6]
        chat, toolbox = open_town(replies)
        chat.get_folders = partial(dict, files=(str(tmp_path),))
        answer = read(take_turn(chat, "Please add butter to the list in bakery.txt"))
        assert [name for name, _ in toolbox.called] == ["read_file", *(["write_file"] if is_written else [])]
        assert is_written or "hing was changed" in answer


@pytest.mark.parametrize(
    ("question", "new", "made"),
    [
        ("Please add butter to the list in bakery.txt", "butter", f"{RESULTS['read_file']}\nbutter"),
        ("Please add butter to the list in bakery.txt", f"{RESULTS['read_file']}, butter", None),
        ("Please add butter to the list in bakery.txt", f"{RESULTS['read_file']}\nbutter", None),
        ("Please add butter to the list in bakery.txt", "tea", ""),  # nobody speaks of tea
        ("In bakery.txt, put Closed for The bakery opens at 07:10.", "Closed", ""),
    ],
)
def test_an_edit_that_adds_to_a_file_keeps_what_it_has(question: str, new: str, made: str | None) -> None:
    made = f"{RESULTS['read_file']}\nbutter" if made is None else made
    edit = call_text("edit_file", path="bakery.txt", edits=[{"oldText": RESULTS["read_file"], "newText": new}])
    chat, toolbox = open_town([call_text("read_file", path="bakery.txt"), edit, *["It is done."] * 6])
    toolbox.TOOLS = {"edit_file": ("files", "path edits", "Edit a file"), **Town.TOOLS}
    toolbox.WRITING = (*Town.WRITING, "edit_file")
    answer = read(take_turn(chat, question))
    assert [arguments["edits"][0]["newText"] for _, arguments in toolbox.called[1:]] == ([made] if made else [])
    assert made or "hing was changed" in answer


@pytest.mark.parametrize(
    ("question", "is_change"),
    [
        ("Add the numbers: how many are there?", False),
        ("Please add up the amounts", False),
        ("Add the amounts to list.txt", True),
        ("Add butter to my list", True),
        ("Füge bitte Butter hinzu.", True),
        ("Wie füge ich etwas hinzu?", False),
    ],
)
def test_who_asks_for_a_sum_asks_for_no_change(question: str, is_change: bool) -> None:
    assert asks_for_change(question) is is_change


class Shelf(Town):
    """Reads and writes files of a folder."""

    folder = Path()

    async def call(self, tool: Tool, arguments: Mapping[str, Any], progress: ProgressCallback) -> ToolResult:
        result = await super().call(tool, arguments, progress)
        if tool.name == "read_file":
            return replace(result, text=(self.folder / arguments["path"]).read_text("utf-8"))
        return result


def open_shelf(folder: Path, replies: Sequence[str], **chosen: Any) -> tuple[Conversation, Shelf]:
    chat, _ = open_town(replies, **chosen)
    chat.toolbox = toolbox = Shelf({})
    toolbox.folder = folder
    chat.get_folders = partial(dict, files=(str(folder),))
    return chat, toolbox


@pytest.mark.parametrize(
    "question",
    [
        "Please add butter to list.txt",
        "list.txt の最後に「butter」という行を追加してください。",
        "请在 list.txt 末尾添加一行：butter",
        "Füge bitte die Zeile butter am Ende von list.txt hinzu.",
    ],
)
def test_a_line_is_added_to_what_the_file_has(tmp_path: Path, question: str) -> None:
    (tmp_path / "list.txt").write_text("milk\n6 eggs\n", encoding="utf-8")
    path = {"path": "list.txt"}
    replies = [
        call_text("read_file", **path),
        "It has milk and 6 eggs.",
        call_text("write_file", **path, content="butter"),
    ]
    chat, toolbox = open_shelf(tmp_path, [*replies, *["Milk, 6 eggs."] * 5])
    take_turn(chat, question)
    assert toolbox.called == [("read_file", path), ("write_file", {**path, "content": "milk\n6 eggs\nbutter\n"})]


def test_what_a_result_has_not_of_a_file_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("milk\n6 eggs\n", encoding="utf-8")
    path = {"path": "list.txt"}
    write_file = call_text("write_file", **path, content="butter")
    chat, toolbox = open_town([call_text("read_file", **path), write_file, *["It has milk."] * 6])
    chat.get_folders = partial(dict, files=(str(tmp_path),))
    take_turn(chat, "Please add butter to list.txt")
    assert toolbox.called == [("read_file", path)]  # which has another text than the file


def test_who_refuses_a_change_with_a_reason_still_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("milk\n6 eggs\n", encoding="utf-8")
    path = {"path": "list.txt"}
    entity = call_text("create_entities", entities=[{"name": "butter", "observations": ["butter"]}])
    write_file = call_text("write_file", **path, content="butter")

    async def approve(tool: Tool, _arguments: Mapping[str, Any], _position: CallPosition) -> Consent | Decline:
        return Decline("not the memory: the file list.txt") if tool.server == "memory" else "once"

    replies = [entity, call_text("read_file", **path), "It has milk and 6 eggs.", write_file, *["It has milk."] * 5]
    chat, toolbox = open_shelf(tmp_path, replies, approve=approve, policy=Policy("ask"))
    take_turn(chat, "Add butter to what I need")
    assert toolbox.called == [("read_file", path), ("write_file", {**path, "content": "milk\n6 eggs\nbutter\n"})]


@pytest.mark.parametrize(
    ("question", "is_meant"),
    [
        ("Add butter to my shopping list", True),
        ("Please put butter on the shopping list", True),
        ("Add butter to my list of shopping trips", False),
    ],
)
def test_a_line_is_added_to_the_file_that_is_said_in_words(tmp_path: Path, question: str, is_meant: bool) -> None:
    (tmp_path / "shopping_list.txt").write_text("milk\n", encoding="utf-8")
    path, entity = str(tmp_path / "shopping_list.txt"), {"name": "butter", "observations": ["butter"]}
    replies = [
        call_text("create_entities", entities=[entity]),
        call_text("read_file", path="list.txt"),
        "It has milk.",
        call_text("write_file", path=path, content="milk"),  # without what is added; it is asked for alone, then
        call_text("write_file", path="list.txt", content="butter"),
    ]
    chat, toolbox = open_shelf(tmp_path, [*(replies if is_meant else replies[:1]), *["It has butter."] * 6])
    take_turn(chat, question)
    if is_meant:
        assert toolbox.called == [
            ("read_file", {"path": path}),
            ("write_file", {"path": path, "content": "milk\nbutter\n"}),
        ]
    else:
        assert [name for name, _ in toolbox.called] == ["create_entities"]


@pytest.mark.parametrize(
    ("question", "file", "is_read"),
    [
        ("讲一个关于猫的短笑话吧。", "short_jokes.txt", False),
        ("Erzähl mir eine Geschichte von einem Fuchs!", "fuchs.txt", False),
        ("Erzähl mir eine Geschichte von einem Hasen!", "hase.txt", True),  # there is one
        ("Read short_jokes.txt", "short_jokes.txt", True),
    ],
)
def test_a_file_that_is_not_there_is_read_only_if_it_was_named(
    tmp_path: Path, question: str, file: str, is_read: bool
) -> None:
    (tmp_path / "hase.txt").write_text("A hare.", encoding="utf-8")
    chat, toolbox = open_town([call_text("read_file", path=file), RESULTS["read_file"], *["-"] * 4])
    chat.get_folders = partial(dict, files=(str(tmp_path),))
    take_turn(chat, question)
    assert [arguments["path"] for _, arguments in toolbox.called] == [file] * is_read


@pytest.mark.parametrize("others", [(), ("shopping.csv",)])
def test_a_file_whose_name_is_said_in_words_is_read(tmp_path: Path, others: Sequence[str]) -> None:
    reply = "I'm sorry, but I don't have access to your shopping list."
    for name in ("shopping.txt", "garden.md", *others):
        (tmp_path / name).write_text("milk", encoding="utf-8")
    for path in ("shopping_list.txt", "C:\\Users\\Nora\\Shopping List.docx"):
        chat, toolbox = open_town([reply, call_text("read_file", path=path), *["Milk."] * 4])
        chat.get_folders = partial(dict, files=(str(tmp_path),))
        take_turn(chat, "What is on my shopping list?")
        is_clear = not others  # else which of the two?
        assert toolbox.called == [("read_file", {"path": str(tmp_path / "shopping.txt")})] * is_clear


def test_with_nobody_to_ask_a_call_is_of_a_tool_that_may_run() -> None:
    replies = ["I am sorry, but I cannot do that.", call_text("read_file", path="bakery.txt"), *["-"] * 3]
    for pattern, name in (("files__read_file", "read_file"), ("board__show_file", "show_file")):
        chat, toolbox = open_town(replies, policy=Policy("ask", allow=(pattern,)))
        toolbox.TOOLS = {"show_file": ("board", "path", "Read a file"), **Town.TOOLS}
        take_turn(chat, "What does bakery.txt say?")
        asked = [message.call_request for prompt in backend_of(chat).prompts for message in prompt]
        assert next(filter(None, asked)) == f"Call {pattern} now." and name in pattern


def test_a_change_that_an_answer_describes_behind_the_file_is_made(tmp_path: Path) -> None:
    (tmp_path / "bakery.txt").write_text("It opens at 07:10.", encoding="utf-8")
    write = {"path": "bakery.txt", "content": f"{RESULTS['read_file']}\nbutter"}
    told = (
        f"You can write it so:\n```json\n{json.dumps({'name': 'write_file', 'arguments': write})}\n```\nThat adds it."
    )
    chat, toolbox = open_town([call_text("read_file", path="bakery.txt"), told, "It is written.", *["-"] * 4])
    chat.get_folders = partial(dict, files=(str(tmp_path),))
    take_turn(chat, "Please add butter to the list in bakery.txt")
    assert toolbox.called == [("read_file", {"path": "bakery.txt"}), ("write_file", write)]


@pytest.mark.parametrize(
    ("question", "thing"), [("Please remember that I am allergic to nuts.", "nuts"), ("请记住：我对花生过敏。", "花生")]
)
def test_who_asks_to_remember_something_deletes_nothing(question: str, thing: str) -> None:
    entity = {"entities": [{"name": thing, "observations": [thing]}]}
    replies = [call_text("delete_entities", entities=[thing]), call_text("create_entities", **entity), "Done.", "-"]
    asked = list[str]()

    async def approve(tool: Tool, _arguments: Mapping[str, Any], _position: CallPosition) -> Consent:
        asked.append(tool.name)
        return "once"

    chat, toolbox = open_town(replies, approve=approve, policy=Policy("ask"))
    toolbox.TOOLS = {"delete_entities": ("memory", "entities", "Delete entities of the knowledge graph"), **Town.TOOLS}
    toolbox.WRITING = (*Town.WRITING, "delete_entities")
    take_turn(chat, question)
    assert asked == ["create_entities"] and [name for name, _ in toolbox.called] == asked


def test_what_was_told_of_somebody_is_not_looked_up() -> None:
    chat, toolbox = open_town([call_text("get_clock", place="2004"), "Since 2004.", "-", "-"])
    chat.history[:] = [Message("user", "My brother Olaf plays chess since 2004."), Message("assistant", "Good.")]
    assert read(take_turn(chat, "Since when does Olaf play chess?")) == "Since 2004." and toolbox.called == []


def test_a_file_to_change_is_read_by_the_server_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "bakery.txt").write_text("It opens at 07:10.", encoding="utf-8")
    chat, toolbox = open_town(
        ["I am sorry, but I cannot do that.", call_text("read_file", path="bakery.txt"), *["-"] * 6]
    )
    toolbox.TOOLS = {"show_file": ("board", "path", "Read a file"), **Town.TOOLS}
    chat.get_folders = partial(dict, board=(str(tmp_path.parent),), files=(str(tmp_path),))
    take_turn(chat, "Please add butter to the list in bakery.txt")
    asked = "\n".join(message.call_request for prompt in backend_of(chat).prompts for message in prompt)
    assert "read_file" in asked and "show_file" not in asked and toolbox.called[0][0] == "read_file"


def test_a_change_of_a_file_is_no_change_of_a_memory() -> None:
    entity = call_text("create_entities", entities=[{"name": "bakery", "observations": ["butter"]}])
    written = {"path": "bakery.txt", "content": "butter"}
    chat, toolbox = open_town([entity, call_text("write_file", **written), "It is written.", "-", "-"])
    events = take_turn(chat, "Please add butter to the list in bakery.txt")
    assert toolbox.called == [("write_file", written)] and "misplaced" in list_reasons(events)
    # but it may be what stands in the file
    chat, toolbox = open_town([call_text("read_file", path="bakery.txt"), entity, "It is stored.", *["-"] * 3])
    take_turn(chat, "Create an entity bakery with butter, as bakery.txt says")
    assert [name for name, _ in toolbox.called] == ["read_file", "create_entities"]


def test_a_code_in_a_question_is_no_number_of_a_table() -> None:
    query = call_text("read_query", query="SELECT amount FROM orders WHERE item = 'shelf B0'")

    class Counted(Town):
        async def call(self, tool: Tool, arguments: Mapping[str, Any], progress: ProgressCallback) -> ToolResult:
            result = await super().call(tool, arguments, progress)
            return replace(result, text="[{'cid': 0, 'name': 'item'}]") if tool.name == "describe_table" else result

    toolbox = Counted({})
    replies = [SCHEMA, "B0.", call_text("list_tables"), "B0.", query, "75.5", "-", "-"]
    chat = make_chat(replies, toolbox, policy=ALL, prompt_profile="qwen2.5")
    take_turn(chat, "Which orders in the database have shelf B0?")
    assert [name for name, _ in toolbox.called] == ["describe_table", "list_tables", "read_query"]


def test_who_tells_a_name_asks_for_no_look_up_of_it() -> None:
    question = "My name is Jonas and my friend is Rex Miller. What does bakery.txt say?"
    chat, _ = open_town([call_text("read_file", path="bakery.txt"), "It opens at 07:10."])
    assert read(take_turn(chat, question)) == "It opens at 07:10."  # no line of what nobody looked up


def test_a_file_to_write_is_no_entity_and_a_call_about_another_part_is_none_of_these() -> None:
    entity = call_text("create_entities", entities=[{"name": "plan.txt", "entityType": "file", "observations": []}])
    written = {"path": "plan.txt", "content": "buy tea"}
    chat, toolbox = open_town([entity, call_text("write_file", **written), "It is written.", "-", "-"])
    events = take_turn(chat, "Create a file named plan.txt that says buy tea.")
    assert toolbox.called == [("write_file", written)] and "misplaced" in list_reasons(events)
    replies = [call_text("get_clock", place="Oslo"), call_text("read_file", path="bakery.txt"), "18:20 and 07:10.", "-"]
    chat, toolbox = open_town(replies)
    assert read(take_turn(chat, "What time is it in Oslo, and what does bakery.txt say?")) == "18:20 and 07:10."
    assert [name for name, _ in toolbox.called] == ["get_clock", "read_file"]
    for question in (
        "How busy is the processor, and what does bakery.txt say?",
        "处理器的load多高？bakery.txt写了什么？",
    ):
        chat, toolbox = open_town([call_text("get_load"), replies[1], "0.41, 07:10", "-"])
        assert read(take_turn(chat, question)) == "0.41, 07:10"


def test_a_resource_is_read_where_it_was_spoken_of() -> None:
    for question, uri, is_read in (
        ("What is my name?", "memory://people", False),
        ("Read the resource of the town.", "memory://people", True),
        ("Read memory://people for me.", "memory://people", True),
    ):
        chat, toolbox = open_town([call_text("read_resource", uri=uri), *["It is Ben."] * 5])
        take_turn(chat, question)
        assert bool(toolbox.called) is is_read


def test_rows_are_counted_by_a_query_behind_the_tables() -> None:
    query = call_text("read_query", query="SELECT SUM(amount) FROM orders")
    chat, toolbox = open_town([call_text("list_tables"), "2", SCHEMA, "2", query, *["It is 75.5."] * 4])
    assert read(take_turn(chat, "How many orders do the tables have?")) == "It is 75.5."
    assert [name for name, _ in toolbox.called] == ["list_tables", "describe_table", "read_query"]


def test_a_failed_query_is_made_again_with_what_the_tables_have() -> None:
    replies = [GUESS, "It cost 80.", call_text("list_tables"), "It cost 80.", SCHEMA, "It cost 80.", RIGHT, "75.5", "-"]
    chat, toolbox = open_town(replies)
    assert read(take_turn(chat, "What did the shelf cost?")) == "75.5"
    assert [name for name, _ in toolbox.called] == ["read_query", "list_tables", "describe_table", "read_query"]
    shown = [message.text for message in backend_of(chat).prompts[6]]  # a model would write the first one again
    assert not any("SELECT price" in text for text in shown) and any("'item'" in text for text in shown)
    # a query that defines a table is no way out, and each is tried only so often
    define = call_text("write_query", query="ALTER TABLE orders ADD COLUMN price REAL")
    again = [call_text("read_query", query=f"SELECT price FROM orders WHERE id = {n}") for n in range(9)]
    chat, toolbox = open_town([GUESS, define, call_text("list_tables"), define, SCHEMA, *again, *["-"] * 9])
    events = take_turn(chat, "What did the shelf cost?")
    assert [name for name, _ in toolbox.called].count("read_query") <= 3 and "unasked" in list_reasons(events)
    assert "write_query" not in dict(toolbox.called)


@pytest.mark.parametrize(
    ("question", "query", "is_made"),
    [
        ("Delete the order of Mia from the database.", "DELETE FROM orders WHERE id = 1", False),
        ("Delete order 17 from the database.", "DELETE FROM orders WHERE amount = 17", True),
        ("Update the database: the lamp is 98.", "UPDATE orders SET amount = 98 WHERE amount = 100", False),
        ("Update the database: the lamp is 98.", "UPDATE orders SET amount = 98 WHERE item = 'lamp'", True),
    ],
)
def test_rows_are_not_changed_by_a_value_that_nobody_said(question: str, query: str, is_made: bool) -> None:
    asked: list[str] = []

    async def approve(_tool: Tool, _: object, position: CallPosition) -> Literal["no"]:
        asked.extend(position.made_up)
        return "no"

    call = call_text("write_query", query=query)
    chat, toolbox = open_town([call, *["-"] * 8])
    events = take_turn(chat, question)
    assert [arguments["query"] for name, arguments in toolbox.called if name == "write_query"] == [query] * is_made
    assert is_made or ("invented" in list_reasons(events) and "Which query" not in read(events))
    # a person is asked although such calls are allowed, and told that the query has a made-up value
    take_turn(open_town([call, *["-"] * 8], approve=approve)[0], question)
    assert asked == ([] if is_made else ["query"])


def test_a_query_that_failed_is_not_said_to_have_completed() -> None:
    call = call_text("write_query", query="UPDATE orders SET price = 98 WHERE item = 'lamp'")
    chat, _ = open_town([call, *["It is 98."] * 8])
    events = take_turn(chat, "Update the database: set the price of the lamp to 98.")
    said = "".join(event.text for event in events if isinstance(event, Text))
    assert "failed: Database error" in said and "Completed shop__write_query" not in said


def test_behind_a_change_another_one_is_of_something_else() -> None:
    tea, entity = {"path": "list.txt", "content": "tea"}, {"entities": [{"name": "tea", "observations": ["tea"]}]}
    write, again = call_text("write_file", **tea), call_text("create_entities", **entity)
    # neither by the model itself nor in the place of a call that it repeats
    for replies in ([write, again], [write, write, again]):
        chat, toolbox = open_town([*replies, *["It is written."] * 4])
        take_turn(chat, "Create list.txt with the text tea.")
        assert toolbox.called == [("write_file", tea)]


@pytest.mark.parametrize(("server", "made"), [("memory", 1), ("desk", 2)])
def test_a_memory_in_which_a_note_was_made_is_not_that_of_the_board(server: str, made: int) -> None:
    note = call_text("make_note", entities="Ingrid, birthday 14 March")
    chat, toolbox = open_town([note, call_text("get_memory"), "Noted. It is 0.41.", "-", "-", "-"])
    tools = {"make_note": (server, "entities", "Create a note"), "get_memory": ("board", "", "Tell what is free")}
    toolbox.TOOLS, toolbox.WRITING = {**Town.TOOLS, **tools}, (*Town.WRITING, "make_note")
    take_turn(chat, "Make a note in the memory: Ingrid, birthday 14 March.")
    assert [name for name, _ in toolbox.called] == ["make_note", "get_memory"][:made]


def test_what_was_done_is_not_left_to_the_user() -> None:
    written, how = (
        {"path": "list.txt", "content": "tea"},
        "To create list.txt with the text tea, you can use this command:",
    )
    for replies, answer in (([how] * 3, "Written."), ([how, "It has tea now."], "It has tea now.")):
        chat, toolbox = open_town([call_text("write_file", **written), *replies, *["-"] * 2])
        said = read(take_turn(chat, "Create list.txt with the text tea."))
        assert said.splitlines()[-1] == answer and toolbox.called == [("write_file", written)]


@pytest.mark.parametrize(
    ("question", "written", "made"),
    [
        ("I pay with a 5000 yen note, what is left?", ("JPY", "USD"), None),  # nobody speaks of dollars
        ("给他200元，应该找我多少", ("CNY", "USD"), None),
        ("5000人民币能换多少日元", ("EUR", "JPY"), ("CNY", "JPY")),
        ("How many dollars are 5000 yen?", ("JPY", "USD"), ("JPY", "USD")),
        ("How many Swedish kronor are 5000 kroner?", ("NOK", "SEK"), ("NOK", "SEK")),
    ],
)
def test_a_currency_is_one_that_was_said(question: str, written: tuple[str, str], made: tuple[str, str] | None) -> None:
    def write(codes: tuple[str, str]) -> dict[str, str]:
        return {"amount": "5000", "from_currency": codes[0], "to_currency": codes[1]}

    class Bank(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {
            "convert_currency": (
                "bank",
                "amount from_currency to_currency",
                "Convert money, how much or many",
            )
        }

    call = call_text("convert_currency", **write(written))
    # its own, or made to call, for which the question must have a word of the tool
    for replies in ([call], *([["I'm sorry, but I cannot do that.", call]] if question.isascii() else [])):
        toolbox = Bank({})
        chat = make_chat([*replies, *["It is 9."] * 4], toolbox, policy=ALL, prompt_profile="qwen2.5")
        take_turn(chat, question)
        assert toolbox.called == ([("convert_currency", write(made))] if made else [])


def test_what_is_to_be_remembered_or_told_is_not_looked_up() -> None:
    noted = {"entities": [{"name": "Ingrid", "observations": ["birthday: 14 March"]}]}
    clock, create = call_text("get_clock", place="Ingrid's birthday"), call_text("create_entities", **noted)
    chat, toolbox = open_town([clock, create, "Noted.", "-", "-"])
    take_turn(chat, "Please remember that Ingrid has her birthday on 14 March.")
    assert toolbox.called == [("create_entities", noted)]
    story = "Once upon a time there was a bee who flew over the fjord to find a lighthouse with a garden."
    chat, toolbox = open_town([call_text("search_nodes", query=story), story, "-", "-"])
    assert read(take_turn(chat, "Tell a long story about a bee")) == story and toolbox.called == []


def test_what_only_reads_by_its_name_is_asked_about_once() -> None:
    class Undeclared(Town):
        @property
        def tools(self) -> Sequence[Tool]:
            return [replace(tool, read_only=False) for tool in super().tools]

    asked: list[str] = []

    async def approve(tool: Tool, *_: object) -> Literal["once"]:
        asked.append(tool.name)
        return "once"

    tables, toolbox = call_text("list_tables"), Undeclared({})
    replies = [tables, SCHEMA, tables, SCHEMA, *["It has an item and an amount."] * 4]
    take_turn(make_chat(replies, toolbox, approve, prompt_profile="qwen2.5"), "Which tables are there in the database?")
    assert asked == [name for name, _ in toolbox.called] == ["list_tables", "describe_table"]


@pytest.mark.parametrize(
    "question", ["What colour is Robo? You should have it in your memory.", "Robo是什么颜色？memory里应该有。"]
)
def test_a_memory_that_finds_nothing_is_read_whole(question: str) -> None:
    graph = call_text("read_graph")
    for first in ([ROBO, "I do not know."], ["I do not know of Robo."]):
        chat, toolbox = open_town([*first, graph, "Robo is brown."])
        assert read(take_turn(chat, question)) == "Robo is brown."
        assert toolbox.called[-1] == ("read_graph", {})


def test_a_memory_that_found_something_is_not_read_whole() -> None:
    class Found(Town):
        async def call(self, tool: Tool, arguments: Mapping[str, Any], progress: ProgressCallback) -> ToolResult:
            result = await super().call(tool, arguments, progress)
            return replace(result, text="Robo is brown.") if tool.name == "search_nodes" else result

    toolbox = Found({})
    replies = [call_text("search_nodes", query="Robo"), "Robo is brown.", call_text("read_graph"), *["Brown."] * 6]
    chat = make_chat(replies, toolbox, policy=ALL, prompt_profile="qwen2.5")
    take_turn(chat, "What colour is Robo, the dog of Tilda Brandt? It is in the memory.")
    assert ("read_graph", {}) not in toolbox.called[:2]
    assert not any("Call memory__read_graph now" in prompt[-1].text for prompt in backend_of(chat).prompts)


def test_a_server_that_is_named_is_asked_and_not_another_one() -> None:
    for first in (call_text("read_file", path="Rosa"), call_text("get_load")):
        chat, toolbox = open_town([first, call_text("search_nodes", query="Rosa"), *["-"] * 6])
        take_turn(chat, "What do you have in memory about Rosa?")
        assert toolbox.called[0] == ("search_nodes", {"query": "Rosa"})


def test_reading_does_not_begin_with_a_change() -> None:
    made_up = call_text("create_entities", entities=[{"name": "Robo", "entityType": "dog", "observations": ["Robo"]}])
    chat, toolbox = open_town([made_up, call_text("read_graph"), "Robo is brown.", "-"])
    events = take_turn(chat, "What colour is Robo? You should have it in your memory.")
    assert list_reasons(events)[0] == "unasked" and [name for name, _ in toolbox.called] == ["read_graph"]
    # nor does it end in one, in a request for something else
    known = call_text("create_entities", entities=[{"name": "Robo", "observations": ["is brown"]}])
    chat, toolbox = open_town([call_text("read_graph"), known, *["Robo is brown."] * 4])
    events = take_turn(chat, "Can you tell me what colour Robo is? It is in the memory.")
    assert "unasked" in list_reasons(events) and [name for name, _ in toolbox.called] == ["read_graph"]


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("Which files are there?", False),
        ("いくつありますか。", False),
        ("Write tea into list.txt.", True),
        ("Could you write tea into list.txt?", True),
        ("list.txtにteaと書いてもらえますか。", True),
    ],
)
def test_a_question_is_no_request_for_a_change_also_where_a_person_would_be_asked(
    question: str, is_asked: bool
) -> None:
    asked: list[str] = []

    async def approve(tool: Tool, *_: object) -> Literal["no"]:
        asked.append(tool.name)
        return "no"

    write = call_text("write_file", path="list.txt", content="tea")
    chat, _ = open_town([write, *["-"] * 5], policy=Policy(), approve=approve)
    take_turn(chat, question)
    assert asked == ["write_file"] * is_asked


def test_a_reply_that_only_speaks_of_a_change_is_replaced_by_it() -> None:
    class Shop(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {
            **Town.TOOLS,
            "order_product": ("shop", "product quantity", "Order"),
        }
        WRITING: Sequence[str] = (*Town.WRITING, "order_product")

    order = {"product": "tents", "quantity": "two"}
    for question, is_made in (
        ("Order two of those tents, would you.", True),
        ("Are two tents enough for five?", False),
    ):
        toolbox = Shop({})
        replies = ["Yes, I would order two tents.", call_text("order_product", **order), "-", "-"]
        take_turn(make_chat(replies, toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5"), question)
        assert (("order_product", order) in toolbox.called) is is_made


@pytest.mark.parametrize(
    ("question", "is_made"),
    [("Until what time is my house open?", False), ("How busy is the processor?", True), ("What is up, board?", True)],
)
def test_a_call_without_arguments_is_of_a_tool_that_is_named(question: str, is_made: bool) -> None:
    chat, toolbox = open_town([call_text("get_load"), *["It is 0.41."] * 4])
    take_turn(chat, question)
    assert (toolbox.called[:1] == [("get_load", {})]) is is_made


def test_optional_arguments_that_the_question_says_are_kept() -> None:
    class Lists(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {
            "list_log": ("files", "path lines max_count children recursive", "Show a log")
        }

        @staticmethod
        def make_schema(parameters: str) -> Mapping[str, Any]:
            return {**Town.make_schema(parameters), "required": ["path"]}

    for question, kept in (
        ("Show 3 lines of the log of notes, recursively.", {"lines": 3, "recursive": True}),
        ("Show the log of notes.", {"recursive": True}),
        ("Show the last one of the log of notes.", {"recursive": True}),
        ("Show the last entry in the log of notes.", {"max_count": 1, "recursive": True}),
        ("Show the entries in the log of notes.", {"recursive": True}),
        ("Show the log of notes for one child.", {"children": 1, "recursive": True}),
    ):
        toolbox = Lists({})
        count = "max_count" if "entr" in question else "children" if "child" in question else "lines"
        call = call_text("list_log", path="notes", **{count: kept.get(count, 1)}, recursive=True)
        chat = make_chat([call, *["-"] * 4], toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
        take_turn(chat, question)
        assert toolbox.called[:1] == [("list_log", {"path": "notes", **kept})]


@pytest.mark.parametrize(
    ("question", "call", "is_made"),
    [
        ("And in Lima?", {"place": "Lima"}, True),
        ("and the library?", {"place": "library"}, True),
        ("and for Lima", {"place": "Lima"}, True),
        ("what about lima", {"place": "lima"}, True),
        ("and for now thank you very much", {"place": "Lima"}, False),
        ("and the library?", {"place": "pool"}, False),
        ("And in Lima?", {"place": "Oslo"}, False),
        ("じゃあマドリードは？", {"place": "Europe/Madrid"}, True),
        ("じゃあマドリードは？", {"place": "London"}, False),  # it does not sound like that
        ("那利马呢？", {"place": "利马"}, True),
    ],
)
def test_a_question_that_goes_on_is_asked_of_the_tool_before(
    question: str, call: Mapping[str, str], is_made: bool
) -> None:
    oslo = [call_text("get_clock", place="Oslo"), "18:20"]
    chat, toolbox = open_town([*oslo, "It is noon.", call_text("get_clock", **call), "18:20", "-", "-"])
    take_turn(chat, "What time is it in Oslo?")
    take_turn(chat, question)
    assert (("get_clock", call) in toolbox.called[1:]) is is_made


def test_what_the_user_said_before_is_not_looked_up() -> None:
    chat, toolbox = open_town(["Good.", call_text("get_bill", number="penicillin"), "Penicillin."])
    take_turn(chat, "I am allergic to penicillin.")
    assert read(take_turn(chat, "Which medicine did I say I can't take?")) == "Penicillin." and toolbox.called == []


@pytest.mark.parametrize(
    ("said", "replies", "answer"),
    [
        ("你还记得我喜欢吃什么吗？", ["你喜欢吃面。"], "你喜欢吃面。"),
        ("你还记得我喜欢吃什么吗？", [], "你好，小玲！很高兴认识你。"),  # kept where no prompt brings another one
        ("谢谢你！", ["你喜欢吃面。"], "你好，小玲！很高兴认识你。"),
    ],
)
def test_the_answer_of_an_earlier_turn_answers_no_other_question(
    said: str, replies: Sequence[str], answer: str
) -> None:
    greeting = "你好，小玲！很高兴认识你。"
    # two requests are for a call
    chat, _ = open_town([greeting, greeting, "-", "-", *replies, *[greeting] * 2])
    take_turn(chat, "你好，我叫小玲，喜欢吃面")
    assert read(take_turn(chat, said)) == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What helps against stage fright?", "Breathe slowly."),
        ("What can your tools tell me of stage fright?", "You can use the `get_clock` and `list_events` functions."),
    ],
)
def test_an_answer_that_points_to_tools_is_none(question: str, answer: str) -> None:
    pointing = "You can use the `get_clock` and `list_events` functions."
    chat, toolbox = open_town([pointing, *(["-"] if answer != pointing else []), "Breathe slowly."])
    assert read(take_turn(chat, question)) == answer and toolbox.called == []


@pytest.mark.parametrize(
    ("told", "noted"),
    [
        ("by the way I have a cat, she's called Tiger", "I will keep that in mind in this conversation."),
        ("My cat is called Tiger.", "I will keep that in mind in this conversation."),
        ("私の猫はトラです。", "この会話の間、覚えておきます。"),
        ("我的猫叫小虎。", "好的，我会在这次对话中记住。"),
    ],
)
def test_who_tells_something_is_not_refused(told: str, noted: str) -> None:
    sorry = "I'm sorry, but I can't assist with that."
    chat, _ = open_town([sorry] * 3)
    assert read(take_turn(chat, told)) == noted


def test_a_refusal_is_shown_and_not_repeated_by_later_replies() -> None:
    sorry = "I'm sorry, but I can't assist with that."
    chat, _ = open_town([sorry, sorry, sorry, sorry, "Why did the gull cross the harbour?"])
    assert read(take_turn(chat, "Tell me a joke.")) == sorry
    sent = len(backend_of(chat).prompts)
    take_turn(chat, "Another one, of gulls.")
    assert all(sorry not in message.text for prompt in backend_of(chat).prompts[sent:] for message in prompt)
    assert any(sorry in message.text and message.reply_kind == "refusal" for message in chat.history)


@pytest.mark.parametrize("is_told", [True, False])
def test_an_answer_of_an_earlier_turn_stands_if_the_user_has_said_it(is_told: bool) -> None:
    answer = "The dog of the family is called Koro."
    chat, _ = open_town([answer, "Another one."])
    chat.history[:] = [Message("user", answer if is_told else "Hi, Koro!"), Message("assistant", answer)]
    events = take_turn(chat, "What is the name of my dog?")
    assert list_reasons(events) == ([] if is_told else ["echo"])


def test_an_answer_behind_failed_calls_says_that_they_failed() -> None:
    made_up, honest = "The bill 7013 is over 80 EUR, and it is paid.", "The bill could not be read."
    chat, _ = open_town([call_text("get_bill", number="7013"), made_up, honest])
    events = take_turn(chat, "How much is bill 7013?")
    assert read(events) == honest and list_reasons(events) == ["unrelated"]


@pytest.mark.parametrize(
    ("question", "call", "said"),
    [
        ("買い物.txtに何と書いてある？", ("read_file", {"path": "shopping.txt"}), {"path": "買い物.txt"}),
        ("「旅行.txt」を読んで。", ("read_file", {"path": "/home/me/travel.txt"}), {"path": "/home/me/旅行.txt"}),
        ("请读一下菜单.txt。", ("read_file", {"path": "menu.txt"}), {"path": "菜单.txt"}),
        ("ファイル plan.txt を読んで。", ("read_file", {"path": "file plan.txt"}), {"path": "plan.txt"}),
        ("今ホノルルは何時ですか？", ("get_clock", {"place": "今ホノルル"}), {"place": "ホノルル"}),
        (
            "卵を買うもの.txtに書いて。",
            ("write_file", {"path": "buying.txt", "content": "卵"}),
            {"path": "買うもの.txt"},
        ),
        (
            "Is it open (http://town.example/a)?",
            ("fetch", {"url": "http://town.example/a)?"}),
            {"url": "http://town.example/a"},
        ),
        ("What does notes.txt say?", ("read_file", {"path": "notes.txt", "tail": ""}), {"path": "notes.txt"}),
    ],
)
def test_files_and_addresses_are_written_as_they_were_said(
    question: str, call: tuple[str, Mapping[str, Any]], said: Mapping[str, str]
) -> None:
    class Tails(Town):
        @staticmethod
        def make_schema(parameters: str) -> Mapping[str, Any]:
            names = parameters.split()
            return {"type": "object", "properties": {name: {} for name in [*names, "tail"]}, "required": names}

    name, arguments = call
    toolbox = Tails({})
    chat = make_chat([call_text(name, **arguments), *["-"] * 5], toolbox, policy=ALL, prompt_profile="qwen2.5")
    take_turn(chat, question)
    assert toolbox.called[0] == (name, {key: said.get(key, value) for key, value in arguments.items() if value})


def test_a_day_without_a_year_is_the_next_one_or_of_the_last_month() -> None:
    for days in (3, 300, -2):
        day = date.today() + timedelta(days=days)
        written = call_text("list_events", date=f"2023-{day:%m-%d}")
        chat, toolbox = open_town([written, *["Dentist, 15:30"] * 6])
        assert read(take_turn(chat, f"What have I got on {day.day} {day:%B}?")) == "Dentist, 15:30"
        assert toolbox.called == [("list_events", {"date": str(day)})]  # and nothing more for the name of the month
    chat, toolbox = open_town([call_text("list_events", date="2023-04-05"), *["Dentist, 15:30"] * 6])
    take_turn(chat, "What was there on 5 April 2023?")
    assert toolbox.called == [("list_events", {"date": "2023-04-05"})]


@pytest.mark.parametrize("days", [3, -2])
def test_who_changes_something_on_a_day_need_not_say_its_year(days: int) -> None:
    class Desk(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {
            **Town.TOOLS,
            "add_event": ("desk", "date title", "Add an event"),
        }
        WRITING = (*Town.WRITING, "add_event")

    day = date.today() + timedelta(days=days)
    coming = day if days > 0 else day.replace(year=day.year + 1)
    written = call_text("add_event", date=f"2023-{day:%m-%d}", title="Dentist")
    toolbox = Desk({})  # nobody is there to be asked
    chat = make_chat([written, *["-"] * 6], toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
    take_turn(chat, f"Add the event Dentist on {day:%B} {day.day}.")
    assert toolbox.called == [("add_event", {"date": str(coming), "title": "Dentist"})]


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What have I got tomorrow?", 1),
        ("Anything in the calendar of events for the day after tomorrow?", 2),
        ("What events were there yesterday?", -1),
        ("明後日の予定を見せて", 2),
        ("しあさっての予定を見せて", 3),
        ("昨天有什么活动？", -1),
        ("What have I got on Friday?", UNTIL_FRIDAY),
        ("金曜日の予定を見せて", UNTIL_FRIDAY),
        ("星期五有什么活动？", UNTIL_FRIDAY),
        ("What events were there on Friday?", UNTIL_FRIDAY - 7),
        ("上周五有什么活动？", UNTIL_FRIDAY - 7),
    ],
)
def test_a_day_that_is_said_from_today_on_is_not_the_one_that_the_model_makes_up(question: str, days: int) -> None:
    day = str(date.today() + timedelta(days=days))
    for written, meant in (("2023-04-05", day), ("2023-04-05T09:00", f"{day}T09:00")):
        chat, toolbox = open_town([call_text("list_events", date=written), *["Dentist, 15:30"] * 6])
        take_turn(chat, question)
        assert toolbox.called[0] == ("list_events", {"date": meant})
    chat, toolbox = open_town([call_text("list_events", date="2023-04-05"), *["Dentist, 15:30"] * 6])
    take_turn(chat, "I ask today: which events were there on 5 April 2023?")
    assert toolbox.called[0] == ("list_events", {"date": "2023-04-05"})


@pytest.mark.parametrize(("question", "days"), [("and tomorrow?", 1), ("What about Friday?", UNTIL_FRIDAY)])
def test_a_question_goes_on_with_another_day(question: str, days: int) -> None:
    events = [call_text("list_events", date=day) for day in ("2027-03-03", "2023-04-05")]
    chat, toolbox = open_town([events[0], "Dentist, 15:30", events[1], *["Dentist, 15:30"] * 4])
    take_turn(chat, "What is on 2027-03-03?")
    take_turn(chat, question)
    assert toolbox.called[1:] == [("list_events", {"date": str(date.today() + timedelta(days=days))})]


@pytest.mark.parametrize(
    ("question", "written", "meant"),
    [("那星期天呢？", "Saturday", "Sunday"), ("And on Sunday?", "Saturday", "Sunday"), ("日曜は？", "土曜", "日曜")],
)
def test_the_day_of_the_week_that_a_question_names_is_looked_up(question: str, written: str, meant: str) -> None:
    chat, toolbox = open_town([call_text("list_events", date=written), "Dentist, 15:30"] * 2 + ["-"] * 3)
    take_turn(chat, f"Which events are there on {written}?")
    take_turn(chat, question)
    assert toolbox.called[-1] == ("list_events", {"date": meant})


def test_what_was_looked_up_before_is_there_for_a_question_that_refers_to_it() -> None:
    chat, _ = open_town(
        [call_text("list_events", date="2026-12-10"), "Dentist, 15:30", "I'm sorry, I can't.", "15:30."]
    )
    take_turn(chat, "What is on 2026-12-10?")
    assert read(take_turn(chat, "When is it?")) == "15:30."
    assert "Dentist, 15:30" in backend_of(chat).prompts[-1][-1].text


def test_a_call_of_an_earlier_turn_is_not_made_again_for_another_question() -> None:
    search, made = call_text("search_nodes", query="Mia"), {"query": "Mia"}
    chat, toolbox = open_town(["Nobody knows.", *[search] * 3, "Nobody knows.", "-"])
    chat.history += [
        Message("user", "What is in the memory of Mia?"),
        Message("assistant", search),
        Message("tool", "A cook.", ToolResult("memory", "search_nodes", made, "completed", "A cook.")),
        Message("assistant", "Mia is a cook."),
    ]
    assert read(take_turn(chat, "How come a memory gets worse?")) == "Nobody knows." and toolbox.called == []


@pytest.mark.parametrize(
    ("question", "time", "is_kept"),
    [
        ("Show the log of notes.", "2026-11-30T11:42:00", False),
        ("Show the log of notes since 2026-11-30 11:42.", "2026-11-30T11:42:00", True),
        ("Show the log of notes.", "2 weeks ago", False),
        ("Show the log of notes from 2 weeks ago.", "2 weeks ago", True),
    ],
)
def test_a_time_that_nobody_said_is_left_out_of_a_look_up(question: str, time: str, is_kept: bool) -> None:
    class Logs(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {"list_log": ("files", "path since", "Show a log")}

        @staticmethod
        def make_schema(parameters: str) -> Mapping[str, Any]:
            return {**Town.make_schema(parameters), "required": ["path"]}

    toolbox = Logs({})
    call = call_text("list_log", path="notes", since=time)
    chat = make_chat([call, *["-"] * 4], toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
    chat.history += [
        Message("user", "What time is it in Tokyo?"),
        Message("assistant", call_text("get_clock", place="Tokyo")),
        Message("tool", time, ToolResult("board", "get_clock", {"place": "Tokyo"}, "completed", time)),
        Message("assistant", f"It is {time}."),
    ]
    take_turn(chat, question)
    assert toolbox.called == [("list_log", {"path": "notes", **({"since": time} if is_kept else {})})]


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("What events are there tomorrow?", {"date": "2027-03-03"}),  # of the turn before
        ("明日の予定は？", {"date": "today"}),
        ("What events are there tomorrow?", {}),
    ],
)
def test_the_day_that_is_said_is_looked_up_whatever_the_call_has(question: str, written: Mapping[str, str]) -> None:
    class Days(Town):
        @staticmethod
        def make_schema(parameters: str) -> Mapping[str, Any]:
            return {**Town.make_schema(parameters), "required": []}

    toolbox = Days({})
    replies = [call_text("list_events", date="2027-03-03"), "Dentist, 15:30", call_text("list_events", **written)]
    chat = make_chat([*replies, *["-"] * 4], toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
    take_turn(chat, "What is on 2027-03-03?")
    take_turn(chat, question)
    assert toolbox.called[1:] == [("list_events", {"date": str(date.today() + timedelta(days=1))})]


def test_a_sum_in_latex_is_worked_out_by_the_tool() -> None:
    class Sums(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {
            **Town.TOOLS,
            "calculate": ("board", "expression", "Calculate a sum"),
        }

    sum_up = {"expression": "540 / 100 * 7.8"}
    for shown in (r"\[ \frac{540 \text{ km}}{100 \text{ km}} \]", r"\[ 7.8 \text{ litres} \times 5.4 \]"):
        toolbox = Sums({})
        replies = [f"The petrol is {shown}", call_text("calculate", **sum_up), "42.12 litres", "-"]
        chat = make_chat(replies, toolbox, policy=ALL, prompt_profile="qwen2.5")
        take_turn(chat, "At 7.8 litres per 100 km, how much petrol do 540 km need?")
        assert toolbox.called == [("calculate", sum_up)]


@pytest.mark.parametrize("is_named", [False, True])
def test_a_time_zone_called_after_another_city_is_that_of_the_one_named(is_named: bool) -> None:
    class Clocks(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {"get_clock": ("clock", "timezone", "Tell the time")}

    question = f"What time is it in Porto{' and in Lisbon' if is_named else ''}?"
    replies = [call_text("get_clock", timezone="Europe/Lisbon"), "It is 18:20.", *["It is 18:20."] * 9]
    toolbox = Clocks({})
    chat = make_chat(replies, toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
    told = "[No tool was called for Porto: the answer is not based on a look-up of that.]"
    assert (told in read(take_turn(chat, question))) is is_named
    assert toolbox.called[0] == ("get_clock", {"timezone": "Europe/Lisbon"})


def test_a_city_is_written_as_its_time_zone() -> None:
    class Zones(Town):
        TOOLS: Mapping[str, tuple[str, str, str]] = {"get_time": ("clock", "timezone", "Tell the time")}

    for city, zone in (("Auckland", "Pacific/Auckland"), ("new york", "America/New_York"), ("Springfield",) * 2):
        toolbox = Zones({})
        replies = [call_text("get_time", timezone=city), "It failed.", "It failed.", "It failed."]
        chat = make_chat(replies, toolbox, policy=Policy(allow=("*",)), prompt_profile="qwen2.5")
        take_turn(chat, f"What time is it in {city}?")
        assert toolbox.called[0] == ("get_time", {"timezone": zone})


def test_the_places_of_a_question_are_its_files_addresses_and_dates() -> None:
    question = "See (http://a.example/b.html)? And notes/c.txt for 2026-12-10."
    assert sorted(list_places(question)) == ["2026-12-10", "http://a.example/b.html", "notes/c.txt"]
