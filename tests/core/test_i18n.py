"""The messages of each language have the keys, placeholders and form of English, and the code uses each key."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import rkllm_chat
from rkllm_chat.core.i18n import complete, detect_language, find_untranslated, list_languages, load
from rkllm_chat.core.messages import Status
from rkllm_chat.tui.slash_commands import COMMANDS

ENGLISH = load("en")
TABLES = {key.partition(".")[0] for key in ENGLISH.sentences}
KEY = re.compile(rf"({'|'.join(TABLES)})\.[a-z_]+")
OTHERS = [code for code in list_languages() if code != "en"]
TRANSLATED_HELP = {f"command_help.{command.names[0]}" for command in COMMANDS.values()}
"""Keys that only translations have: the English help of a command is the docstring of its function."""
ALIKE = re.compile(r"live\.waiting")
"""Keys whose sentence may be the English one: they hold no word."""
REPERTOIRES = {"ja": "shift_jis", "zh": "gb2312"}
"""Has the characters of the language and lacks those that only the others write (说 is not in JIS, 説 not in GB)."""
KANA = re.compile(r"[\u3041-\u3096\u30a1-\u30fa]")
FOREIGN_MARKS = {"ja": re.compile(r"[()，；：？！［］｛｝]"), "zh": re.compile(r"[()［］｛｝]|[\u4e00-\u9fff][,;?!]")}
ANSWERS = re.compile(r"\[\w(?:/\w)?\]")
QUESTIONS = [key for key, text in ENGLISH.sentences.items() if ANSWERS.search(text) or text.endswith(" ")]


def own_sentences(code: str) -> dict[str, str]:
    """The sentences that a language has itself."""
    lacking = find_untranslated(code)
    return {key: text for key, text in load(code).sentences.items() if key not in lacking}


@cache
def written_in_code() -> tuple[set[str], set[str]]:
    """The dotted keys in the package's code, and the tables whose keys are put together there."""
    keys: set[str] = set()
    tables: set[str] = set()
    for path in Path(rkllm_chat.__file__).parent.rglob("*.py"):
        inside: set[int] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):  # seen before its parts
                inside.update(map(id, node.values))
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if id(node) not in inside and KEY.fullmatch(node.value):
                keys.add(node.value)
            elif id(node) in inside and node.value.removesuffix(".") in TABLES:
                tables.add(node.value.removesuffix("."))
    return keys, tables


def test_a_count_of_one_has_its_own_word() -> None:
    assert [ENGLISH("status.tools", count=count) for count in (0, 1, 2)] == ["0 tools", "1 tool", "2 tools"]


def test_a_message_is_formatted_with_its_values() -> None:
    assert ENGLISH("terminal.calling", tool="get_time") == "[MCP: Calling tool 'get_time']"


def test_braces_in_a_value_are_not_formatted() -> None:
    assert ENGLISH("prompt.unknown_tool", name="{x}") == 'There is no tool "{x}".'


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="tool"):
        ENGLISH("terminal.calling")


@pytest.mark.parametrize("code", OTHERS)
def test_a_language_translates_only_what_there_is(code: str) -> None:
    assert load(code).sentences.keys() - ENGLISH.sentences.keys() - TRANSLATED_HELP == set()


def test_what_a_language_lacks_or_translates_from_an_older_text_is_english() -> None:
    """Nobody who writes a sentence must know every language; `.ci/translations` lists these."""
    english = {"a.same": "{x} of {y}", "a.new": "new", "a.changed": "{x} at {y}"}
    own = {"a.same": "{y} の {x}", "a.changed": "{x}", "help./x": "ヘルプ"}
    assert complete(own, english) == {**english, "a.same": "{y} の {x}", "help./x": "ヘルプ"}


def test_every_key_in_the_code_has_a_message() -> None:
    keys, _ = written_in_code()
    assert keys
    assert keys - ENGLISH.sentences.keys() == set()


def test_every_message_is_used() -> None:
    keys, tables = written_in_code()
    assert {key for key in ENGLISH.sentences if key.partition(".")[0] not in tables} - keys == set()


@pytest.mark.parametrize("status", get_args(Status))
def test_every_status_of_a_call_has_a_message(status: str) -> None:
    assert ENGLISH(f"terminal.{status}", tool="get_time", text="why").startswith("[MCP: Tool 'get_time' ")


def faults_of_characters(code: str, sentence: str) -> str:
    """The characters of a sentence that its language does not write."""
    odd = "".join(character for character in sentence if not character.encode(REPERTOIRES[code], errors="ignore"))
    kana = KANA.findall(sentence) if code == "zh" else []
    return odd + "".join(kana) + "".join(FOREIGN_MARKS[code].findall(re.sub(r"\{\w*\}", "", sentence)))


@pytest.mark.parametrize("code", OTHERS)
def test_no_message_is_left_in_english(code: str) -> None:
    sentences = own_sentences(code).items()
    same = [key for key, sentence in sentences if sentence and sentence == ENGLISH.sentences.get(key)]
    assert [key for key in same if not ALIKE.fullmatch(key)] == []


@pytest.mark.parametrize("code", OTHERS)
def test_a_message_has_only_characters_of_its_language(code: str) -> None:
    faults = {key: faults_of_characters(code, sentence) for key, sentence in own_sentences(code).items()}
    assert {key: odd for key, odd in faults.items() if odd} == {}


@pytest.mark.parametrize(
    ("code", "sentence", "odd"),
    [
        ("ja", "说明を表示", "说"),
        ("ja", "終了、（{x}）。", ""),
        ("ja", "終了 ({x})：", "()："),
        ("zh", "説明", "説"),
        ("zh", "工具のツール", "ーのツル"),
        ("zh", "工具(一个)", "()"),
        ("zh", "工具,一个", "具,"),
        ("zh", "工具：{x}，一个（二）。", ""),
    ],
)
def test_a_foreign_character_is_found(code: str, sentence: str, odd: str) -> None:
    assert faults_of_characters(code, sentence) == odd


@pytest.mark.parametrize("code", OTHERS)
def test_a_question_keeps_its_keys_and_its_end(code: str) -> None:
    assert {"question.run", "question.onward", "elicit.answer", "ask.sample"} <= set(QUESTIONS)
    words = load(code)
    for key in QUESTIONS:
        english, sentence = ENGLISH.sentences[key], words.sentences[key]
        assert ANSWERS.findall(sentence) == ANSWERS.findall(english), key
        tail = re.search(r"(\[\w/\w\])?:? ?$", english)
        assert tail and tail[0] and sentence.endswith(tail[0]), key


@pytest.mark.parametrize("code", OTHERS)
def test_the_lines_about_tools_keep_their_form(code: str) -> None:
    words = load(code)
    for key, english in ENGLISH.sentences.items():
        assert words.sentences[key].startswith("[MCP: ") == english.startswith("[MCP: "), key
        assert words.sentences[key].endswith("]") == english.endswith("]"), key
        assert words.sentences[key].count("'{") == english.count("'{"), key


@pytest.mark.parametrize(
    ("locale", "code"),
    [
        ({"LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LANG": "ja"}, "ja"),
        ({"LANG": "zh_TW.Big5"}, "zh"),
        ({"LANG": "zh_SG@hans"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "jam_JM"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "../ja"}, "en"),
        ({}, "en"),
        ({"LC_MESSAGES": "zh_CN.UTF-8", "LANG": "ja_JP.UTF-8"}, "zh"),
        ({"LC_ALL": "C", "LC_MESSAGES": "zh_CN.UTF-8", "LANG": "ja_JP.UTF-8"}, "en"),
        ({"LC_ALL": "", "LC_MESSAGES": "", "LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LC_CTYPE": "ja_JP.UTF-8", "LANG": "C"}, "en"),
    ],
)
def test_the_language_is_that_of_the_locale(locale: dict[str, str], code: str) -> None:
    assert detect_language(locale) == code


def test_auto_is_the_language_of_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert load("auto").code == "zh"
    assert load("auto")("repl.no_servers") == "无"
    assert load().code == "en"
