"""List the commands for scripts: `rkllm-chat json`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..core.command_line import Parser
from . import json_commands
from .commands import RENAMED


def main(arguments: Sequence[str]) -> int:
    """Run `json COMMAND` as `COMMAND`, or print the list of the commands."""
    if arguments and arguments[0] in json_commands.SUMMARIES:
        json_commands.main(arguments)
    parser = make_parser()
    parser.parse(arguments)
    parser.print_help()
    return 0


def make_parser() -> Parser:
    """Build the argument parser of the command."""
    about = "Commands for scripts. Each prints one JSON document and exits with 0 or 1."
    names = [name for name in json_commands.SUMMARIES if name not in RENAMED]
    lines = [f"  {name:<17} {json_commands.SUMMARIES[name]}" for name in names]
    parser = Parser(
        prog="rkllm-chat json",
        description=about,
        epilog="\n".join(("commands:", *lines, "", "rkllm-chat COMMAND --help describes a command.")),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", metavar="COMMAND", nargs="?", choices=names, help="the command, and its options")
    return parser
