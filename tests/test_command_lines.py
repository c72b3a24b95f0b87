"""Each command line that a text shows is one of the program: its command, its options and their choices exist there.

Texts are the pages, in all languages, the answers of help and the sentences of the program. An option that another
command has is as wrong as one that none has.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from rkllm_chat.cli import chat_options
from rkllm_chat.cli.commands import make_parser, split_command
from rkllm_chat.cli.json_commands.options import describe_options
from rkllm_chat.cli.mcp_command import split_server_command
from rkllm_chat.cli.mcp_tool.options import NAMES
from rkllm_chat.core.command_line import Parser, get_options, get_subparsers
from rkllm_chat.core.errors import UsageError

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
START = re.compile(r"(?:(?<=\s)|^)(?:rkllm-chat|mcp-tool)(?= [\w\[/@.-])")
END = re.compile(r" (?:\||[12]?>|<|;|&&|#) ?|[)\]}\\。，、]|\.$|\. (?=[A-Z])|…")
"""Ends a command within a line of a shell or of a sentence."""
PAGES = [
    *ROOT.glob("docs/*.md"),
    *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
    *ROOT.glob("*/README.md"),
    *ROOT.glob("rkllm_chat/tui/questions/*.md"),
]
SENTENCES = [*ROOT.glob("rkllm_chat/core/i18n/*.toml")]


def list_command_lines(path: Path) -> Iterator[str]:
    """The commands in blocks and in backquotes of a page, or in the sentences of a catalogue."""
    text = path.read_text(encoding="utf-8")
    if path in SENTENCES:
        blocks, codes = re.findall(r"(?<=: )rkllm-chat .*$", text, re.MULTILINE), list[str]()
    else:
        blocks = [line for block in FENCE.findall(text) for line in block.splitlines()]
        codes = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
    for line in (*blocks, *(code for code in codes if START.match(code))):
        if found := START.search(line):
            yield line[found.start() :]


def find_unknown(line: str) -> list[str]:
    """Return the words of a command line that its program does not know. Words in capitals stand for something."""
    quoted = re.sub(r"'[^']*'|\"[^\"]*\"", lambda found: "_" * len(found[0]), line)
    end = END.search(quoted)
    try:
        program, *words = shlex.split(line[: end.start() if end else None], comments=True)
    except ValueError:  # a quote of the text around it
        return []
    if program == "mcp-tool":  # what follows the tool's name is the tool's
        parser: argparse.ArgumentParser = Parser(add_help=False)
        describe_options(parser, NAMES)
        return [*_find_unknown_options(program, [*takewhile(lambda word: word[:1] == "-", words)], [parser])]
    try:
        name, rest = split_command(words, chat_options.make_parser())
    except UsageError as error:
        return [] if words[0].isupper() else [str(error)]
    if name == "help":
        return []
    parsers = [make_parser(name)]
    for word in (word for word in rest if word[:1] != "-"):
        actions = get_subparsers(parsers[0])
        if actions and word.islower() and not {*word.split("|")} <= actions.keys():
            return [f"{name} {word}"]
        parsers[:0] = [actions[part] for part in word.split("|") if part in actions]
    if parsers[0].prog.endswith("mcp add"):
        rest, _ = split_server_command(rest)
    return [*_find_unknown_options(name, rest, parsers)]


def _find_unknown_options(name: str, words: Sequence[str], parsers: Sequence[argparse.ArgumentParser]) -> Iterator[str]:
    known = {option: action for parser in parsers for option, action in get_options(parser).items()}
    for word, after in pairwise([*words, ""]):
        option, _, value = word.strip("[],").partition("=")
        if word == "--":
            return
        if word[:1] != "-" or word == "-" or re.fullmatch("-v+", word):
            continue
        action = known.get(option)
        if action is None or action.help == argparse.SUPPRESS:
            yield f"{name} {option}"
        elif action.choices and not {*(value or after).split("|")} <= {*action.choices, action.metavar, ""}:
            yield f"{name} {option} {value or after}"


@pytest.mark.parametrize("path", [*PAGES, *SENTENCES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_line_of_a_text_is_one_of_the_program(path: Path) -> None:
    assert [f"{line}: {word}" for line in list_command_lines(path) for word in find_unknown(line)] == []


def test_a_command_line_that_does_not_exist_is_found() -> None:
    wrong = {
        "rkllm-chat list-tools --server board --select text": ["list-tools --select"],
        "rkllm-chat mcp show board": ["mcp show"],
        "rkllm-chat call-tool board.x --select all | jq": ["call-tool --select all"],
        "rkllm-chat mcp list --yes": ["mcp --yes"],
        "mcp-tool --keep-alive 5 board__x --place a": ["mcp-tool --keep-alive"],
        "rkllm-chat --image a.png": ["chat --image"],
    }
    assert {line: find_unknown(line) for line in wrong} == wrong
    assert sum(len([*list_command_lines(path)]) for path in PAGES) > 200
