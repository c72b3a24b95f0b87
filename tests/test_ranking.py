"""Which tools are chosen for a question: the right one is among them, whatever language it is asked in."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from many_tools import read_questions, read_tools
from rkllm_chat.budget import LATE_SHARE
from rkllm_chat.formats import FORMATS
from rkllm_chat.messages import Tool
from rkllm_chat.names import shown_names
from rkllm_chat.ranking import CJK, LONGEST_WORD, STOP_WORDS, Index, rank, rank_few, stem, thesaurus_rows, words_of
from rkllm_chat.sketch import list_tool
from stage import make_chat

WINDOW = 4096
LEAST_RIGHT = 0.95
TIDE = Tool("get_tide", "Tide height at a harbour.", {"properties": {"harbour": {"type": "string"}}}, "sea")
SAIL = Tool("setSail", "Sets a sail.", {"properties": {"kind": {"enum": ["spinnaker", "jib"]}}}, "sea")
LOG = Tool("write_log", "Writes into the log of the harbour.", {}, "sea")
CLOCK = Tool("clock", "Tells the time.", {}, "sea")
INDEX = Index([TIDE, SAIL, LOG, CLOCK])


def test_the_right_tool_is_among_the_chosen_for_95_of_100_questions() -> None:
    tools, questions = read_tools(), list(read_questions())
    assert (len(tools), len({tool.server for tool in tools}), len(questions)) == (200, 8, 200)
    chat, index = make_chat([], context=WINDOW), Index(tools)
    forms = {tool.full_name: list_tool(name, tool, FORMATS["json"]) for name, tool in shown_names(tools).items()}
    limit = WINDOW // LATE_SHARE
    asked, right = Counter[str](), Counter[str]()
    missed: list[str] = []
    for question in questions:
        chosen: list[str] = []
        for tool in rank(index, question.text, {}):
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
        ("the spinnaker!", [SAIL]),
        ("writing logs", [LOG]),
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
    assert rank(INDEX, question, {}) == found


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
HISTORY = Tool("git_log", "", {}, "git")
NOW = Tool("get_current_time", "Get the time in a timezone", {}, "time")
CONVERT = Tool("convert_time", "Convert the time between timezones", {}, "time")


@pytest.mark.parametrize(
    ("question", "likeliest", "other"),
    [
        ('commit it: "Add what was added"', COMMIT, ADD),
        ("commit it: “Add what was added”", COMMIT, ADD),
        ("「追加したもの」というメッセージでコミットして", COMMIT, ADD),
        ("don't commit, add the sailors' files", ADD, COMMIT),
        ("list the folder docs", LIST, LIST_ALL),
        ("list the allowed folders", LIST_ALL, LIST),
        ("read a.txt", READ, READ_MANY),
        ("read a.txt and b.txt", READ_MANY, READ),
    ],
)
def test_quotes_whole_names_and_how_many_files_there_are_tell_tools_apart(
    question: str, likeliest: Tool, other: Tool
) -> None:
    assert rank(Index([COMMIT, ADD, LIST, LIST_ALL, READ, READ_MANY]), question, {})[0] == likeliest
    assert rank(Index([likeliest, other]), question, {})[0] == likeliest


@pytest.mark.parametrize(
    ("question", "likeliest", "other"),
    [
        ("check out develop", CHECKOUT, ADD),
        ("commits of docs", HISTORY, ADD),
        ("which are in docs?", LIST, READ),
        ("docs里有哪些", LIST, READ),
        ("read them at once", READ_MANY, READ),
        ("the time in UTC", NOW, CONVERT),
        ("現地の時刻を教えて", NOW, CONVERT),
        ("at 9:30 in UTC, what time is it in Rome?", CONVERT, NOW),
        ("Tokyoの21:00はRomeでは何時", CONVERT, NOW),
    ],
)
def test_what_a_question_is_for_is_known_by_how_it_is_asked(question: str, likeliest: Tool, other: Tool) -> None:
    assert rank(Index([other, likeliest]), question, {})[:1] == [likeliest]


@pytest.mark.parametrize(
    ("question", "likeliest"),
    [
        ("Show notes.txt", READ),
        ("show me the first 3 lines of ./docs/notes.md", READ),
        ("What is in the file `notes.txt`?", READ),
        ("显示notes.txt", READ),
        ("查看“notes.txt”", READ),
        ("notes.txt里有什么", READ),
        ("notes.txtを表示して", READ),
        ("「notes.txt」には何がありますか", READ),
        ("list notes.txt", LIST_FILES),
        ("Show docs/", LIST_FILES),
        ("show /etc/cron.d/", LIST_FILES),
        ("show *.txt", LIST_FILES),
        ("What is in docs?", LIST_FILES),
        ("docs里有什么", LIST_FILES),
    ],
)
def test_a_file_that_is_to_be_shown_is_read_and_a_folder_is_listed(question: str, likeliest: Tool) -> None:
    assert rank_few(Index([LIST_FILES, READ]), question, {})[:1] == [likeliest]


def test_a_path_is_that_of_the_folder_where_one_is_named() -> None:
    index = Index([MAKE, WRITE])
    assert rank(index, "/srv/a.txt", {}) == [WRITE]
    assert rank(index, "the folder /srv/a.txt", {}) == [MAKE]


@pytest.mark.parametrize(
    ("said", "is_sum"),
    [
        ("12 * 34", True),
        ("12 times 34", True),
        ("how many times 3 people came", False),
        ("513.10-84082 =?", True),
        ("3加5等于多少", True),
        ("12 かける 34は", True),
        ("今天加3个人", False),
        ("算一下64665/570", True),
        ("64665/570を計算して", True),
        ("(8223-875.288)/55", True),
        ("9 less 8258", True),
        ("663.0 x 52801.90", True),
        ("on 2026-11-21", False),
        ("11/21/2026", False),
        ("see notes/3-4.txt", False),
        ("v1.2-3", False),
    ],
)
def test_a_sum_is_known_by_its_signs(said: str, is_sum: bool) -> None:
    calculate = Tool("calculate", "", {}, "board")
    assert rank(Index([calculate, LOG]), said, {}) == [calculate] * is_sum


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("commit with the message fix", [COMMIT]),
        ("read several files", [READ_MANY]),
        ("commit, and read a.txt and b.txt", [COMMIT, READ_MANY]),
        ("commit, then which tide is it in Husum?", [COMMIT, TIDE]),
        ("what can you do?", []),
    ],
)
def test_few_are_those_that_the_words_of_a_question_speak_for(question: str, found: list[Tool]) -> None:
    index = Index([COMMIT, ADD, LIST, LIST_ALL, READ, READ_MANY, TIDE])
    assert rank_few(index, question, {}) == found


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("commit, then list the folder docs", [COMMIT, LIST]),
        ("list the folder docs, then commit", [LIST, COMMIT]),
        ("which tide is it in Husum? Also commit", [TIDE, COMMIT]),
        ("list what there is in the folder and the tide", [LIST, TIDE]),
    ],
)
def test_few_stand_in_the_order_in_which_a_question_wishes_for_them(question: str, found: list[Tool]) -> None:
    index = Index([COMMIT, ADD, LIST, TIDE])
    assert rank_few(index, question, {}) == found
    assert rank_few(index, f"{question}. {'and x ' * 50_000}", {}) == found


def test_few_are_more_where_several_are_as_likely() -> None:
    one, other = (Tool("read", "Reads a page", {}, server) for server in "ab")
    index = Index([one, other, TIDE])
    assert rank_few(index, "read a page", {}) == [one, other]
    assert rank_few(index, "read a page", {"b__read": 10**9}) == [other]


def test_few_leave_out_what_fewer_words_speak_for() -> None:
    """ "open" stands in nearly all, so that both are about as likely."""
    every = Tool("list_folder", "Lists a folder", {}, "a")
    allowed = Tool("list_open_folders", "Which of them this server may use", {}, "a")
    others = [Tool(name, "Works in open folders", {}, "a") for name in ("copy", "move", "zip", "touch", "link")]
    index = Index([every, allowed, *others])
    assert rank(index, "list the open folders", {})[:2] == [allowed, every]
    assert rank_few(index, "list the open folders", {}) == [allowed]
    assert rank_few(index, "list the folder", {}) == [every]


@pytest.mark.parametrize("question", ["show me the tide of ./husum", "./husumの潮位を見せて", "显示./husum的潮位"])
def test_few_are_no_more_because_something_is_to_be_shown_or_a_path_is_named(question: str) -> None:
    tide = Tool("tide", "潮位 of a place", {"properties": {"at": {"type": "string"}}}, "sea")
    show = Tool("show_thing", "Shows a thing", {}, "other")
    touch = Tool("touch", "Makes a file", {}, "other")
    index = Index([tide, show, touch])
    assert len(rank(index, question, {})) > 1
    assert rank_few(index, question, {}) == [tide]


def test_what_has_served_turns_the_scale_but_never_outweighs_a_clear_match() -> None:
    one, other = (Tool("read", "Reads a page.", server=name) for name in ("a", "b"))
    index = Index([one, other, TIDE])
    assert rank(index, "read a page", {}) == [one, other]
    assert rank(index, "read a page", {"b__read": 3}) == [other, one]
    assert rank(index, "read a page about the tide", {"sea__get_tide": 10**9})[-1] == TIDE
    assert rank(index, "hello", {"b__read": 10**9}) == []


def test_what_is_pasted_between_the_ends_of_a_question_is_not_looked_at() -> None:
    assert rank(INDEX, "Which tide? " + "x " * 500 + " sail " + "y " * 500, {}) == [TIDE]
    assert rank(INDEX, "x " * 500 + "Which tide?", {}) == [TIDE]


@pytest.mark.parametrize(
    ("word", "its_stem"),
    [
        ("directories", "directory"),
        ("branches", "branch"),
        ("files", stem("file")),
        ("moved", stem("moves")),
        ("running", "run"),
        ("modified", stem("modify")),
        ("news", "news"),
        ("status", "status"),
        ("is", "is"),
    ],
)
def test_words_that_differ_in_their_ending_alone_are_one(word: str, its_stem: str) -> None:
    assert stem(word) == its_stem


def test_a_name_falls_into_words_and_japanese_into_pairs() -> None:
    assert words_of("readTextFile")[:3] == ["read", "text", stem("file")]
    assert words_of("潮の高さ")[:3] == ["潮の", "の高", "高さ"]
    assert words_of("report.pdf")[-1] == words_of("ファイル")[-1]


def test_no_word_stands_twice_in_a_row_and_every_row_has_three_languages() -> None:
    for words in thesaurus_rows():
        row = " ".join(words)
        assert not any(CJK.match(word) and len(word) > LONGEST_WORD for word in words), row
        assert len(set(words)) == len(words), row
        assert any(CJK.match(word) for word in words) and any(re.match("[a-z]", word) for word in words), row
        assert not set(words) & set(STOP_WORDS.split()), row


def test_the_chosen_tools_do_not_depend_on_the_order_that_servers_come_in() -> None:
    tools = [Tool("read", "Reads a page.", server=name) for name in ("c", "a", "b")]
    for order in (tools, tools[::-1]):
        assert [tool.server for tool in rank(Index(order), "read a page", {})] == ["a", "b", "c"]
        assert [tool.server for tool in rank_few(Index(order), "read a page", {})] == ["a", "b", "c"]
