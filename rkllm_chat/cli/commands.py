"""The subcommands of `rkllm-chat`: their help lines, and where on a command line their names may stand."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches

from ..core.errors import UsageError
from ..mcp_servers import BUNDLED

COMMANDS: dict[str, str] = {
    "chat": "chat with the model; this is the default",
    "doctor": "check this machine, its model and its configuration",
    "bench": "measure the speed of the model",
    "trust": "review and approve servers of this folder",
    "serve": f"run a bundled MCP server: {', '.join(BUNDLED)}",
    "new-server": "create an MCP server project with a test",
    "list-tools": "list a server's tools",
    "call-tool": "call a tool",
    "list-servers": "list the configured servers",
    "list-resources": "list a server's resources",
    "read-resource": "read a resource",
    "list-prompts": "list a server's prompts",
    "get-prompt": "get a prompt of a server",
    "init": "create a project folder with a configuration",
}
"""Name and help line of each subcommand; those from `list-tools` on print one JSON document."""
_FIRST_JSON_COMMAND = "list-tools"


def format_commands() -> str:
    """Return the list of the subcommands for `--help`."""
    lines = ["commands:"]
    for name, summary in COMMANDS.items():
        lines += ["", "commands for scripts, which print one JSON document:"] if name == _FIRST_JSON_COMMAND else []
        lines.append(f"  {name:<16} {summary}")
    return "\n".join((*lines, "", "rkllm-chat COMMAND --help describes a command."))


def split_command(arguments: Sequence[str], parser: argparse.ArgumentParser) -> tuple[str, list[str]]:
    """Find the subcommand of a command line; options may stand before it.

    Args:
        arguments: The command line.
        parser: The parser of the chat, whose options tell which words are values.

    Returns:
        The subcommand, "chat" if there is none, and the other arguments in their order.

    Raises:
        UsageError: The first word that is no option is no subcommand.
    """
    values = {name for action in parser._actions if action.nargs != 0 for name in action.option_strings}  # noqa: SLF001  # argparse has no other way to list the options
    is_value = has_unknown = False
    for i, word in enumerate(arguments):
        if is_value:
            is_value = False
        elif word.startswith("-") and word != "-":
            is_value = word in values
            has_unknown = has_unknown or word.partition("=")[0] not in parser._option_string_actions  # noqa: SLF001
        elif word == "help":
            return split_command([*arguments[:i], *arguments[i + 1 :], "--help"], parser)
        elif word in COMMANDS:
            return word, [*arguments[:i], *arguments[i + 1 :]]
        elif has_unknown:  # the word may be its value; the parser reports the option
            break
        else:
            matches = get_close_matches(word, COMMANDS, n=1)
            hint = f"Did you mean {matches[0]}?" if matches else "rkllm-chat --help lists the commands."
            raise UsageError(f'There is no command "{word}".', hint, got=word, closest=matches)
    return "chat", list(arguments)
