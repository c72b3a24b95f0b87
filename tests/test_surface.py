"""The commands, options, settings and slash commands that a user meets, whose numbers only fall.

Not counted is what every program has (`help`, `--help`, `--version`, `/help`, `/quit`), the command `json`, which only
lists others, a group beside its default action, the names of servers that `serve` runs, and former or second words.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from rkllm_chat.cli import chat_options
from rkllm_chat.cli.commands import COMMANDS, RENAMED, make_parser
from rkllm_chat.cli.json_commands.options import OPTIONS, describe_options
from rkllm_chat.cli.mcp_tool.options import NAMES
from rkllm_chat.core.command_line import Parser, get_options, get_positionals, get_subparsers
from rkllm_chat.mcp_servers import BUNDLED
from rkllm_chat.tui.slash_commands.registry import COMMANDS as SLASH_COMMANDS

MOST = {"commands": 26, "options": 51, "settings": 61, "settings of engines": 27, "slash commands": 22}
SETTINGS_PAGE = Path(__file__).parents[1] / "docs/settings.md"
EVERYWHERE = {"help", "json", "serve", "--help", "--version", "/help", "/quit"}


def list_parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command line with its name; that of `mcp-tool` too."""
    yield "chat", chat_options.make_parser()
    for name in COMMANDS.keys() - RENAMED.keys() - {"chat"}:
        parser = make_parser(name)
        yield name, parser
        for action, subparser in get_subparsers(parser).items():
            yield f"{name} {action}", subparser
    mcp_tool = Parser(add_help=False)
    describe_options(mcp_tool, NAMES)
    yield "mcp-tool", mcp_tool


def list_commands() -> set[str]:
    names = {re.sub(" list$", "", name) for name, _ in list_parsers()} - EVERYWHERE - {"mcp-tool"}
    servers = {f"serve {name}" for name in BUNDLED}
    return {"serve NAME" if name in servers else name for name in names}


def list_options() -> set[str]:
    shown = {
        option
        for _, parser in list_parsers()
        for option, action in get_options(parser).items()
        if action.help != argparse.SUPPRESS and option.startswith("--")
    }
    return shown - EVERYWHERE


def list_settings() -> tuple[list[str], list[str]]:
    """Those of the reference before and from `[expert]` on; a table within a table counts by its keys."""
    parts = SETTINGS_PAGE.read_text(encoding="utf-8").partition("## [expert]")
    common, rare = (re.findall(r"^\| `(\w+)` \| (?!table, below)", parts[i], re.MULTILINE) for i in (0, 2))
    return common, rare


def test_a_user_meets_no_more_than_this() -> None:
    common, rare = list_settings()
    found = {
        "commands": len(list_commands()),
        "options": len(list_options()),
        "settings": len(common),
        "settings of engines": len(rare),
        "slash commands": len({command.names[0] for command in SLASH_COMMANDS.values()} - EVERYWHERE),
    }
    assert found == MOST, "lower the number where there are fewer; more needs a reason"


def test_every_command_and_every_word_of_it_has_a_help_text() -> None:
    """A line of `--help` that only names an option tells nobody what it does."""
    silent = [
        f"{name} {action.metavar or action.option_strings or action.dest}"
        for name, parser in list_parsers()
        for action in [*get_options(parser).values(), *get_positionals(parser)]
        if not (get_subparsers(parser) if action.nargs == argparse.PARSER else action.help)
    ]
    silent += [name for name, parser in list_parsers() if not parser.description and name not in ("chat", "mcp-tool")]
    assert silent == []


def test_the_lists_are_those_of_the_program() -> None:
    commands, options = list_commands(), list_options()
    assert {"chat", "mcp", "mcp add", "models pull", "serve NAME", "serve openai", "call-tool"} < commands
    assert {"--model", "--set", "--server", "--json-stdin"} < options and options & {"--keep-alive", "--url"} == set()
    assert set(OPTIONS) > options & {"--server", "--stdio", "--args"}
    assert {"model", "temperature", "client_secret"} < set(list_settings()[0]) and "cpus" in list_settings()[1]
