"""The sentences of each language, against English and against the code that says them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

import rkllm_chat
from rkllm_chat.language import Words, find_language, languages, load
from rkllm_chat.messages import Status

ENGLISH = load("en")
TABLES = {key.partition(".")[0] for key in ENGLISH.sentences}
OTHERS = [code for code in languages() if code != "en"]
ALIKE = re.compile(r"examples\.\w+|live\.waiting")
"""Keys whose sentence may be the English one: they hold commands, or no word."""
REPERTOIRES = {"ja": "shift_jis", "zh": "gb2312"}
"""Has the characters of the language and lacks those that only the others write (说 is not in JIS, 説 not in GB)."""
KANA = re.compile(r"[\u3041-\u3096\u30a1-\u30fa]")
FOREIGN_MARKS = {"ja": re.compile(r"[()，；：？！［］｛｝]"), "zh": re.compile(r"[()［］｛｝]|[\u4e00-\u9fff][,;?!]")}
ANSWERS = re.compile(r"\[\w(?:/\w)?\]")
QUESTIONS = [key for key, text in ENGLISH.sentences.items() if ANSWERS.search(text) or text.endswith(" ")]


def placeholders(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}


def differences(words: Words) -> list[str]:
    """What a language lacks or has too much, and where it lost a placeholder."""
    keys = ENGLISH.sentences.keys() ^ words.sentences.keys()
    shared = ENGLISH.sentences.keys() & words.sentences.keys()
    lost = {key for key in shared if placeholders(ENGLISH.sentences[key]) != placeholders(words.sentences[key])}
    return sorted(keys | lost)


def written_in_code() -> tuple[set[str], set[str]]:
    """The dotted keys in the package's code, and the tables whose keys are put together there."""
    keys: set[str] = set()
    tables: set[str] = set()
    for path in Path(rkllm_chat.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if id(node) not in inside and re.fullmatch(rf"({'|'.join(TABLES)})\.[a-z_]+", node.value):
                keys.add(node.value)
            elif id(node) in inside and node.value.removesuffix(".") in TABLES:
                tables.add(node.value.removesuffix("."))
    return keys, tables


def test_a_sentence_is_filled_with_its_values() -> None:
    assert ENGLISH("terminal.calling", tool="get_time") == "[MCP: Calling tool 'get_time']"


def test_a_value_that_holds_braces_stays_as_it_is() -> None:
    assert ENGLISH("prompt.unknown_tool", name="{x}") == 'There is no tool "{x}".'


def test_a_lost_placeholder_is_an_error() -> None:
    with pytest.raises(KeyError, match="tool"):
        ENGLISH("terminal.calling")


def test_english_is_among_the_languages() -> None:
    assert "en" in languages()


@pytest.mark.parametrize("language", languages())
def test_a_language_has_every_sentence_and_every_placeholder(language: str) -> None:
    assert differences(load(language)) == []


def test_a_missing_sentence_and_a_lost_placeholder_are_found() -> None:
    sentences = {**ENGLISH.sentences, "terminal.calling": "no place for a value", "prompt.more": "too much"}
    del sentences["chat.steps"]
    assert differences(Words(sentences)) == ["chat.steps", "prompt.more", "terminal.calling"]


def test_every_key_in_the_code_has_a_sentence() -> None:
    keys, _ = written_in_code()
    assert keys
    assert keys - ENGLISH.sentences.keys() == set()


def test_every_sentence_is_said_somewhere() -> None:
    keys, tables = written_in_code()
    assert {key for key in ENGLISH.sentences if key.partition(".")[0] not in tables} - keys == set()


@pytest.mark.parametrize("status", get_args(Status))
def test_every_end_of_a_call_has_its_line(status: str) -> None:
    assert ENGLISH(f"terminal.{status}", tool="get_time", text="why").startswith("[MCP: Tool 'get_time' ")


def faults_of_characters(code: str, sentence: str) -> str:
    """The characters of a sentence that its language does not write."""
    odd = "".join(one for one in sentence if not one.encode(REPERTOIRES[code], errors="ignore"))
    kana = KANA.findall(sentence) if code == "zh" else []
    return odd + "".join(kana) + "".join(FOREIGN_MARKS[code].findall(re.sub(r"\{\w*\}", "", sentence)))


@pytest.mark.parametrize("code", OTHERS)
def test_no_sentence_was_left_in_english(code: str) -> None:
    same = [key for key, sentence in load(code).sentences.items() if sentence == ENGLISH.sentences.get(key)]
    assert [key for key in same if not ALIKE.fullmatch(key)] == []


@pytest.mark.parametrize("code", OTHERS)
def test_a_sentence_has_the_characters_of_its_language_alone(code: str) -> None:
    faults = {key: faults_of_characters(code, sentence) for key, sentence in load(code).sentences.items()}
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
def test_a_stray_character_is_found(code: str, sentence: str, odd: str) -> None:
    assert faults_of_characters(code, sentence) == odd


@pytest.mark.parametrize("code", OTHERS)
def test_a_question_keeps_its_keys_and_ends_with_the_place_for_the_answer(code: str) -> None:
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
        ({"LANG": "ja_JP.eucJP"}, "ja"),
        ({"LANG": "ja"}, "ja"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW.Big5"}, "zh"),
        ({"LANG": "zh_SG@hans"}, "zh"),
        ({"LANG": "en_GB.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "jam_JM"}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "../ja"}, "en"),
        ({"LANG": ""}, "en"),
        ({}, "en"),
        ({"LC_MESSAGES": "zh_CN.UTF-8", "LANG": "ja_JP.UTF-8"}, "zh"),
        ({"LC_ALL": "C", "LC_MESSAGES": "zh_CN.UTF-8", "LANG": "ja_JP.UTF-8"}, "en"),
        ({"LC_ALL": "", "LC_MESSAGES": "", "LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LC_CTYPE": "ja_JP.UTF-8", "LANG": "C"}, "en"),
    ],
)
def test_the_locale_says_the_language(locale: dict[str, str], code: str) -> None:
    assert find_language(locale) == code


def test_words_by_default_are_those_of_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert load("auto").code == "zh"
    assert load("auto")("repl.no_servers") == "无"
    assert load().code == "en"
