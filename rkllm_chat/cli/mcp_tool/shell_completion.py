"""The words that complete a command line of `mcp-tool`, from the cached tools. No server is started."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ...calls.schema.resolve import Node
from ...calls.schema.wording import format_value
from ...config.files import find_servers
from ...config.servers import BOARD_SERVER
from ...core.command_line import Parser, get_options
from ...core.errors import ChatError, UsageError
from ..json_commands.commands import SEPARATORS
from ..json_commands.options import describe_options
from ..shell_completion import SHELLS, Position, complete, is_words_request, list_options, make_script
from .flags import list_properties, may_be_boolean, to_kebab_case
from .options import AFTER_TOOL, NAMES, Options
from .schema_cache import cache_path, load_tools


def complete_words(words: Sequence[str], options: Options) -> str:
    """Return the completion script of a shell, or the suggestions for `words -- WORD ...`, one per line.

    Raises:
        UsageError: The shell is unknown.
    """
    config = options.config or ""
    if is_words_request(words):
        parser = Parser(add_help=False)
        describe_options(parser, NAMES)
        list_arguments = partial(_list_arguments, config)
        return complete(words[2:], parser, partial(_make_tool_parser, config), list_arguments, lambda *_: ())
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError(
            "mcp-tool completion needs one shell.", f"Known shells: {', '.join(SHELLS)}.", available=list(SHELLS)
        )
    return make_script("mcp-tool", words[0])


def _list_arguments(config: str, position: Position) -> Iterator[str]:
    """Yield the flags of the tool; without one, the cached tools of all configured servers."""
    if position.command:
        yield from list_options(position.parser)
        return
    for server, tools in list_cached_tools(config, with_built_in=False):
        yield from (f"{server}__{tool['name']}" for tool in tools)
        yield from (f"{server}__",) if not tools else ()
    yield "completion"


def list_cached_tools(config: str = "", with_built_in: bool = True) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the configured servers with their cached tools; empty if the configuration cannot be read.

    `mcp-tool` leaves out the built-in server, see `find_configured`.
    """
    try:
        servers = find_servers(config).servers
    except ChatError:
        return []
    kept = [server for server in servers.values() if with_built_in or server != BOARD_SERVER]
    return [(server.name, load_tools(cache_path(server))) for server in kept]


def _make_tool_parser(config: str, target: str) -> argparse.ArgumentParser:
    """Build a parser of the flags of a tool, by any spelling of its name; one without options if it is not cached."""
    parser = Parser(add_help=False, conflict_handler="resolve")
    for server, tools in sorted(list_cached_tools(config), key=lambda pair: len(pair[0]), reverse=True):
        for tool in tools:
            if target in [f"{server}{mark}{tool['name']}" for mark in SEPARATORS]:
                schema = tool.get("inputSchema")
                _describe_flags(parser, Node(schema if isinstance(schema, dict) else {}))
                return parser
    return parser


def _describe_flags(parser: argparse.ArgumentParser, root: Node) -> None:
    for path, node in list_properties(root):
        flag, is_switch = f"--{'.'.join(path)}", may_be_boolean(node)
        values: dict[str, Any] = {"choices": list(map(format_value, node.choices())) or None}
        argument = {"action": "store_true"} if is_switch else values
        if (kebab := to_kebab_case(flag)) != flag:
            parser.add_argument(kebab, help=argparse.SUPPRESS, **argument)
        parser.add_argument(flag, **argument)
        if is_switch and len(path) == 1:
            parser.add_argument(f"--no-{path[0]}", action="store_true")
    describe_options(parser, [name for name in AFTER_TOOL if name not in get_options(parser)])
