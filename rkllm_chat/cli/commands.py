"""The subcommands of `rkllm-chat`: help lines, parsers, and where on a command line their names may stand."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from ..core.command_line import get_options, get_subparsers
from ..core.errors import UsageError
from ..core.plugins import find_plugin, find_plugins
from ..core.programs import PROGRAM_NAME
from ..mcp_servers import BUNDLED
from . import json_commands

_OTHER_PROGRAM = "mcp-tool"
"""Installed beside this one."""
_JSON_OPTIONS = "cli.json_commands.options"


class Command(NamedTuple):
    """A subcommand.

    Attributes:
        summary: Help line.
        module: Module of the package that has `make_parser()` and, but for the chat, `main(arguments) -> exit code`.
        group: Where `--help` lists it; "" lists it elsewhere.
    """

    summary: str
    module: str
    group: str = ""


COMMANDS: dict[str, Command] = {
    "chat": Command("the default; chat --help lists all options", "cli.chat_options", "chat"),
    "doctor": Command("check this machine and its configuration, measure its model", "cli.doctor", "models"),
    "models": Command("list the model files of this machine, and download models", "cli.models_command", "models"),
    "mcp": Command("list, add, test, trust, import and remove MCP servers", "cli.mcp_command", "servers"),
    "serve": Command(f"run a server: openai, {', '.join(BUNDLED)}", "cli.serve_command", "servers"),
    "new-server": Command("create an MCP server project with a test", "cli.new_project", "servers"),
    "sessions": Command("list, search, export and delete saved sessions", "cli.sessions_command", "more"),
    "json": Command("call-tool, list-tools, init ... for scripts: see json --help", "cli.json_command", "more"),
    "help": Command("describe a COMMAND, or answer a question in WORDS", "cli.help_command", "more"),
    "completion": Command("print the completion script of bash, zsh or fish", "cli.completion_command", "more"),
    **{name: Command(summary, _JSON_OPTIONS) for name, summary in json_commands.SUMMARIES.items()},
}
RENAMED = {
    "trust": ("mcp", "trust"),
    "list-servers": ("mcp", "list", "--json"),
    "bench": ("doctor", "--speed"),
    "plugins": ("doctor", "--only", "plugin"),
}
"""Commands that became parts of others -> what to write now. They are not shown, and go in version 0.3."""
_SHOWN_OPTIONS = (
    ("-p TEXT", "run one turn and exit; - stands for standard input"),
    ("--model PATH|URL", "a .gguf or .rkllm file, or the URL of a service"),
    ("--server NAME", "use only this server; --no-servers: none"),
    ("--allow PATTERN", "run matching tools without asking; --deny PATTERN: never"),
    ("--continue", "resume the newest session; --resume picks one"),
)
"""The options of the chat that `--help` shows."""

EXIT_CODES = {
    0: "success",
    1: "the model or a tool failed, the turn has no answer, doctor found a fault, or trust was declined",
    2: "the command line is invalid, or arguments do not match the schema of a tool",
    3: "a configuration file is missing or invalid",
    4: "a server or a service requires a login or a key",
    5: "a model or a server cannot be started or reached",
    6: "no server or tool has that name, or a server violated the protocol",
    7: "a time limit passed",
    8: "internal error, or the output cannot be written",
    130: "interrupted by Ctrl+C",
    141: "the reader of the output closed it",
    143: "terminated by SIGTERM",
}
"""Exit codes of all commands but those for scripts that print one JSON document, which exit with 0 or 1."""


def format_help() -> str:
    """Return the text of `--help`, which fits a screen of 24 lines."""
    lines = ["Usage: rkllm-chat [OPTIONS] [COMMAND ...]", "Chat with an on-device model that calls MCP tools.", ""]
    for group in dict.fromkeys(command.group for command in COMMANDS.values() if command.group):
        rows = [(name, command.summary) for name, command in COMMANDS.items() if command.group == group]
        rows += _SHOWN_OPTIONS if group == "chat" else ()
        lines += [f"{group}:", *(f"  {name:<17} {summary}" for name, summary in rows)]
    return "".join(f"{line}\n" for line in lines)


def make_parser(name: str) -> argparse.ArgumentParser:
    """Build the parser of a subcommand, which describes its options."""
    module = import_module(f"...{COMMANDS[name].module}", __name__)
    parser: argparse.ArgumentParser = (
        module.make_parser(name) if name in json_commands.SUMMARIES else module.make_parser()
    )
    return parser


def split_command(arguments: Sequence[str], parser: argparse.ArgumentParser) -> tuple[str, list[str]]:
    """Find the subcommand of a command line; options may stand before it.

    Args:
        arguments: The command line.
        parser: The parser of the chat, whose options tell which words are values.

    Returns:
        The subcommand, "chat" if there is none, and the other arguments in their order. A word with a blank, or with
        letters beyond ASCII, is a message for the chat.

    Raises:
        UsageError: The first word that is no option is no subcommand.
        ConfigError: It is a plugin that cannot be loaded.
    """
    options = get_options(parser)
    is_value = may_be_value = has_unknown = False
    for i, word in enumerate(arguments):
        is_option = word.startswith("-") and word != "-"
        if is_value or (may_be_value and not is_option):
            is_value = may_be_value = False
        elif is_option:
            may_be_value = word in options and options[word].nargs == "?"
            is_value = word in options and options[word].nargs != 0 and not may_be_value
            has_unknown = has_unknown or word.partition("=")[0] not in options
        elif word == "help":
            asked = next(iter(arguments[i + 1 :]), "-")
            is_question = not asked.startswith("-") and not _is_command(arguments[i + 1 :])
            rest = [*arguments[:i], *arguments[i + 1 :]]
            return ("help", rest) if is_question else split_command([*rest, "--help"], parser)
        elif word in COMMANDS:
            return word, [*arguments[:i], *arguments[i + 1 :]]
        elif word in RENAMED:
            command, *more = RENAMED[word]
            return command, [*more, *arguments[:i], *arguments[i + 1 :]]
        elif has_unknown or " " in word or not word.isascii():  # maybe its value: the parser reports it; or a message
            break
        elif word == _OTHER_PROGRAM:
            what = f"{word} is a program of its own, not a command of {PROGRAM_NAME}."
            raise UsageError(what, f"Write: {shlex.join([word, *(arguments[i + 1 :] or ['--help'])])}")
        else:
            find_plugin("commands", word, COMMANDS)
            return word, [*arguments[:i], *arguments[i + 1 :]]
    return "chat", list(arguments)


def _is_command(words: Sequence[str]) -> bool:
    """Return whether words name a command and, if there are more, one of its own commands: "mcp list"."""
    name, *more = words
    if name not in COMMANDS or not more or more[0].startswith("-"):
        return name in {*COMMANDS, *RENAMED, *find_plugins("commands")}
    own = get_subparsers(make_parser(name))
    return not own or more[0] in own
