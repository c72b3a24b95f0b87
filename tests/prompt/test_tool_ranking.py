"""Which tools are chosen for a question, in whatever language it is asked."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from many_tools import read_questions, read_tools
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.tool_names import shown_names
from rkllm_chat.core.messages import Tool
from rkllm_chat.prompt.budget import SIGNATURES_FRACTION
from rkllm_chat.prompt.tool_listing import render_tool
from rkllm_chat.prompt.tool_ranking import (
    CJK_RUN,
    MAX_WORD_LENGTH,
    STOP_WORDS,
    ToolIndex,
    extract_terms,
    rank_tools,
    read_thesaurus_rows,
    select_few_tools,
    stem_word,
)
from stage import make_chat

WINDOW = 4096
LEAST_RIGHT = 0.95
TIDE = Tool("get_tide", "Tide height at a harbour.", {"properties": {"harbour": {"type": "string"}}}, "sea")
SAIL = Tool("setSail", "Sets a sail.", {"properties": {"kind": {"enum": ["spinnaker", "jib"]}}}, "sea")
LOG = Tool("write_log", "Writes into the log of the harbour.", {}, "sea")
CLOCK = Tool("clock", "Tells the time.", {}, "sea")
INDEX = ToolIndex([TIDE, SAIL, LOG, CLOCK])


def test_the_right_tool_is_among_the_chosen_for_most_questions() -> None:
    tools, questions = read_tools(), list(read_questions())
    assert (len(tools), len({tool.server for tool in tools}), len(questions)) == (200, 8, 200)
    chat, index = make_chat([], context=WINDOW), ToolIndex(tools)
    forms = {tool.full_name: render_tool(name, tool, FORMATS["json"]) for name, tool in shown_names(tools).items()}
    limit = WINDOW * SIGNATURES_FRACTION
    asked, right = Counter[str](), Counter[str]()
    missed: list[str] = []
    for question in questions:
        chosen: list[str] = []
        for tool in rank_tools(index, question.text, {}):
            lines = [forms[name] for name in [*chosen, tool.full_name]]
            if chat.count_text("\n".join(lines)) > limit:
                break
            chosen.append(tool.full_name)
        asked[question.language] += 1
        right[question.language] += bool(question.right & set(chosen))
        missed += [] if question.right & set(chosen) else [question.text]
    figures = ", ".join(f"{code} {right[code]} of {asked[code]}" for code in asked)
    assert asked["ja"] + asked["zh"] >= 40
    assert right.total() >= LEAST_RIGHT * asked.total(), f"{figures}; not for {missed}"
    assert all(right[code] >= 0.9 * asked[code] for code in asked), f"{figures}; not for {missed}"


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("How high is the tide in Husum?", [TIDE]),
        ("which harbours are there?", [TIDE, LOG]),
        ("get_tide", [TIDE]),
        ("set sails", [SAIL]),
        ("/srv/db.sqliteのログ", [LOG]),
        ("查看~/notes/a.txt的日志", [LOG]),
        ("srcの中のlog.txt、帆", []),
        ("what time is it?", [CLOCK]),
        ("divide 55 by 3", []),
        ("何時ですか", [CLOCK]),
        ("ログに書いて", [LOG]),
        ("Hello!", []),
        ("", []),
    ],
)
def test_tools_are_found_by_their_words(question: str, found: list[Tool]) -> None:
    assert rank_tools(INDEX, question, {}) == found


MEMORY = Tool("get_memory", "Free and total memory.", {}, "board")
FACTS = Tool("create_entities", "Create entities in the knowledge graph", {}, "memory")
NOTES = Tool("read_note", "Read a note by its title", {}, "office")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Remember that my sister is called Mia.", [FACTS]),
        ("妹の名前はミアです。覚えておいて。", [FACTS]),
        ("请记住，我的猫叫豆豆。", [FACTS]),
        ("How much RAM is free?", [MEMORY, FACTS]),  # of a server called memory
        ("My cat is called Moss.", []),
        ("My name is Pavel.", []),
        ("I see, that's right.", []),
        ("How big is the sun? Answer well.", []),
        ("It has cooled down. Turn left now.", []),
        ("What day is it today?", [CLOCK]),
        ("今日は何曜日ですか", [CLOCK]),
    ],
)
def test_a_word_that_means_something_else_in_a_conversation_finds_no_tool(said: str, found: list[Tool]) -> None:
    assert rank_tools(ToolIndex([MEMORY, FACTS, NOTES, CLOCK]), said, {}) == found


COMMIT = Tool("git_commit", "Records changes", {}, "git")
ADD = Tool("git_add", "Adds file contents", {}, "git")
LIST = Tool("list_folder", "All in one place, one by one, with a mark that tells what each of them is", {}, "files")
LIST_ALL = Tool("list_allowed_folders", "List folders", {}, "files")
LIST_FILES = Tool("list_files", "List the files in a folder.", {}, "board")
READ = Tool("read_file", "Read a file", {}, "files")
READ_MANY = Tool("read_multiple_files", "Read files", {}, "files")
MAKE = Tool("create_directory", "", {}, "fs")
WRITE = Tool("write_file", "", {}, "fs")
CHECKOUT = Tool("git_checkout", "Switches branches", {}, "git")
NOW = Tool("get_current_time", "Get the time in a timezone", {}, "time")
CONVERT = Tool("convert_time", "Convert the time between timezones", {}, "time")


@pytest.mark.parametrize(
    ("question", "likeliest", "other"),
    [
        # values in quotes count less, short names count more
        ('commit it: "Add what was added"', COMMIT, ADD),
        ("「追加したもの」というメッセージでコミットして", COMMIT, ADD),
        ("don't commit, add the sailors' files", ADD, COMMIT),
        ("list the allowed folders", LIST_ALL, LIST),
        ("read a.txt", READ, READ_MANY),
        # how a question is asked
        ("check out develop", CHECKOUT, ADD),
        ("Tokyoの21:00はRomeでは何時", CONVERT, NOW),
        # a path is that of the folder where one is named
        ("/srv/a.txt", WRITE, MAKE),
        ("the folder /srv/a.txt", MAKE, WRITE),
    ],
)
def test_the_likelier_of_two_tools_comes_first(question: str, likeliest: Tool, other: Tool) -> None:
    assert rank_tools(ToolIndex([other, likeliest]), question, {})[:1] == [likeliest]


@pytest.mark.parametrize(
    ("question", "likeliest"),
    [
        ("What is in the file `notes.txt`?", READ),
        ("notes.txt里有什么", READ),
        ("「notes.txt」には何がありますか", READ),
        ("list notes.txt", LIST_FILES),
        ("show /etc/cron.d/", LIST_FILES),
        ("show *.txt", LIST_FILES),
    ],
)
def test_a_file_is_read_and_a_folder_is_listed(question: str, likeliest: Tool) -> None:
    assert select_few_tools(ToolIndex([LIST_FILES, READ]), question, {})[:1] == [likeliest]


def test_a_sum_is_recognized_by_its_signs() -> None:
    calculate = Tool("calculate", "", {}, "board")
    sums = ["12 * 34", "12 times 34", "513.10-84082 =?", "3加5等于多少", "12 かける 34は", "算一下64665/570"]
    sums += ("64665/570を計算して", "(8223-875.288)/55", "9 less 8258", "663.0 x 52801.90")
    others = [
        "how many times 3 people came",
        "今天加3个人",
        "on 2026-11-21",
        "11/21/2026",
        "see notes/3-4.txt",
        "v1.2-3",
    ]
    assert [said for said in sums if rank_tools(ToolIndex([calculate, LOG]), said, {}) != [calculate]] == []
    assert [said for said in others if rank_tools(ToolIndex([calculate, LOG]), said, {})] == []


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("commit with the message fix", [COMMIT]),
        ("read several files", [READ_MANY]),
        ("commit, and read a.txt and b.txt", [COMMIT, READ]),
        ("what can you do?", []),
        # in the order of the wishes
        ("commit, then list the folder docs", [COMMIT, LIST]),
        ("list the folder docs, then commit", [LIST, COMMIT]),
        ("which tide is it in Husum? Also commit", [TIDE, COMMIT]),
    ],
)
def test_few_tools_are_chosen_in_the_order_of_the_wishes(question: str, found: list[Tool]) -> None:
    index = ToolIndex([COMMIT, ADD, LIST, READ, READ_MANY, TIDE])
    assert select_few_tools(index, question, {}) == found


def test_a_long_paste_behind_a_question_does_not_change_the_few() -> None:
    index = ToolIndex([COMMIT, ADD, LIST, TIDE])
    question = "list what there is in the folder and the tide"
    assert select_few_tools(index, question, {}) == [LIST, TIDE]
    assert select_few_tools(index, f"{question}. {'and x ' * 50_000}", {}) == [LIST, TIDE]


def test_several_tools_are_chosen_where_they_are_as_likely() -> None:
    one, other = (Tool("read", "Reads a page", {}, server) for server in "ab")
    index = ToolIndex([one, other, TIDE])
    assert select_few_tools(index, "read a page", {}) == [one, other]
    assert select_few_tools(index, "read a page", {"b__read": 10**9}) == [other]


def test_earlier_use_decides_between_equal_matches_only() -> None:
    one, other = (Tool("read", "Reads a page.", server=name) for name in ("a", "b"))
    index = ToolIndex([one, other, TIDE])
    assert rank_tools(index, "read a page", {}) == [one, other]
    assert rank_tools(index, "read a page", {"b__read": 3}) == [other, one]
    assert rank_tools(index, "read a page about the tide", {"sea__get_tide": 10**9})[-1] == TIDE
    assert rank_tools(index, "hello", {"b__read": 10**9}) == []


def test_the_middle_of_a_long_question_is_ignored() -> None:
    assert rank_tools(INDEX, "Which tide? " + "x " * 500 + " sail " + "y " * 500, {}) == [TIDE]
    assert rank_tools(INDEX, "x " * 500 + "Which tide?", {}) == [TIDE]


@pytest.mark.parametrize(
    ("word", "its_stem"),
    [
        ("directories", stem_word("directory")),
        ("branches", "branch"),
        ("files", stem_word("file")),
        ("moved", stem_word("moves")),
        ("running", "run"),
        ("modified", stem_word("modifies")),
        ("news", "news"),
        ("status", "status"),
        ("is", "is"),
    ],
)
def test_words_are_stemmed(word: str, its_stem: str) -> None:
    assert stem_word(word) == its_stem


def test_names_are_split_into_words_and_japanese_into_pairs() -> None:
    assert _words_in("readTextFile") == ["read", "text", stem_word("file")]
    assert _words_in("read_text-file") == ["read", "text", stem_word("file")]
    assert _words_in("潮の高さ") == ["潮の", "の高", "高さ"]
    assert _words_in("Tideは高い") == ["tide", "は高", "高い"]


def _words_in(text: str) -> list[str]:
    return [term for term in extract_terms(text) if not term.startswith("=")]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("report.pdf", "ファイル"),
        ("~/notes/tide.txt", "file"),
        ("/srv/db", "file"),
        ("*.csv", "文件"),
        ("https://tide.example/a.html", "url"),
        ("12 * 34", "calculate"),
        ("12足す34", "計算"),
        ("9:30", "time"),
        ("How much is it?", "price"),
    ],
)
def test_a_value_means_its_kind_and_not_its_words(value: str, kind: str) -> None:
    expected = {term for term in extract_terms(kind) if term.startswith("=")}
    assert expected and set(extract_terms(value)) <= expected


FIELDS = {
    "name": Tool("get_buoy"),
    "title": Tool("get_thing", title="Buoys"),
    "description": Tool("get_thing", "Where is a buoy"),
    "parameter name": Tool("get_thing", schema={"properties": {"buoy": {"type": "string"}}}),
    "parameter value": Tool("get_thing", schema={"properties": {"kind": {"enum": ["buoy", "light"]}}}),
    "parameter description": Tool("get_thing", schema={"properties": {"id": {"description": "Number of the buoy"}}}),
    "server": Tool("get_thing", server="buoys"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_tool_is_found_by_every_field(field: str) -> None:
    assert rank_tools(ToolIndex([TIDE, FIELDS[field]]), "the buoy", {}) == [FIELDS[field]]


def test_a_word_of_the_name_counts_more_than_one_of_the_description_or_of_a_parameter() -> None:
    order = [FIELDS["name"], FIELDS["description"], FIELDS["parameter name"], FIELDS["parameter description"]]
    assert rank_tools(ToolIndex([*order[::-1], TIDE]), "the buoy", {}) == order


def test_a_row_of_the_thesaurus_has_unique_words_of_two_scripts() -> None:
    for words in read_thesaurus_rows():
        row = " ".join(words)
        assert not any(CJK_RUN.match(word) and len(word) > MAX_WORD_LENGTH for word in words), row
        assert len(set(words)) == len(words), row
        assert any(CJK_RUN.match(word) for word in words) and any(re.match("[a-z]", word) for word in words), row
        assert not set(words) & set(STOP_WORDS.split()), row


def test_the_chosen_tools_do_not_depend_on_the_order_that_servers_come_in() -> None:
    tools = [Tool("read", "Reads a page.", server=name) for name in ("c", "a", "b")]
    for order in (tools, tools[::-1]):
        assert [tool.server for tool in rank_tools(ToolIndex(order), "read a page", {})] == ["a", "b", "c"]
        assert [tool.server for tool in select_few_tools(ToolIndex(order), "read a page", {})] == ["a", "b", "c"]
