"""The sentences of each language, against English and against the code that says them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

import rkllm_chat
from rkllm_chat.language import Words, languages, load
from rkllm_chat.messages import Status

ENGLISH = load("en")
TABLES = {key.partition(".")[0] for key in ENGLISH.sentences}


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
