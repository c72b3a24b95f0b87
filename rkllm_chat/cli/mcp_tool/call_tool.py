"""Call one tool or show its help.

The server is started before the other modules are imported, so that both happen at the same time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...config.files import FoundServers
from ...config.servers import BOARD_SERVER, ServerConfig
from ...core.errors import ConfigError, ServerNotFoundError, UsageError
from ..json_commands.commands import (
    SEPARATORS,
    explain_target,
    find_configured_servers,
    make_tool_error,
    make_unknown_tool_error,
    select_server_to_start,
    split_target,
)
from ..json_commands.invocation import Invocation, limit_schema_time
from .options import check_combination

if TYPE_CHECKING:
    from .options import Options

MINIMAL_CONFIG = '{"mcpServers": {"board": {"command": "rkllm-chat", "args": ["serve", "board"]}}}'


def call_tool(target: str, words: Sequence[str], options: Options, invocation: Invocation) -> str:
    """Call a tool and return the text to print.

    Args:
        target: Server and tool in one word, such as SERVER__TOOL.
        words: The command line after the tool's name.
        options: The parsed options before the tool's name.
        invocation: The state of this run.

    Raises:
        ChatError: The command line is invalid, the server cannot be used, or the tool reports an error.
    """
    found = find_configured(options, invocation)
    server_name, name = split_tool_name(target, found, words)
    invocation.take_options(options)
    opened = invocation.open(select_server_to_start(found, server_name, options, invocation))
    from .flags import check_flag_arguments, load_files, merge_arguments, parse_words

    invocation.phase = "list"
    tools = opened.list_tools()
    invocation.listed_servers.append((found.get(server_name), tools))
    invocation.phase = "arguments"
    opened.check_quarantine(name)
    tool = next((tool for tool in tools if tool["name"] == name), None)
    if tool is None:
        raise make_unknown_tool_error(name, [tool["name"] for tool in tools], opened.server, f"{server_name}__")
    schema = tool["inputSchema"] if isinstance(tool.get("inputSchema"), dict) else {}
    with limit_schema_time():
        flags = parse_words([_require_utf8(word) for word in words], schema, options)
    check_combination(options)
    if options.help:
        return _explain(f"{server_name}__{name}", tool, options)
    files = _InputFiles()
    flags, base_arguments = load_files(flags, files.read), _read_all_arguments(options, files)
    with limit_schema_time():
        arguments = merge_arguments(flags, schema, base_arguments)
        if not options.no_check:
            check_flag_arguments(arguments, schema)
    invocation.phase = "call"
    result = opened.call_tool(name, arguments)
    invocation.notices += opened.call_notices
    if result.get("isError"):
        raise make_tool_error(opened, name, result)
    return format_result(invocation.secrets.redact_named(result), name, options)


def find_configured(options: Options, invocation: Invocation) -> FoundServers:
    """Return the configured servers; skipped entries are reported on standard error.

    Raises:
        ConfigError: No configuration names a server; the built-in `board` server is for the chat only.
    """
    found = find_configured_servers(options, invocation)
    if found.servers.get(BOARD_SERVER.name) == BOARD_SERVER:
        del found.servers[BOARD_SERVER.name]
    if not found.servers and not found.skipped:
        message = f"No configuration file names a server. Searched: {', '.join(found.searched)}."
        hint = f"A minimal ./mcp.json: {MINIMAL_CONFIG}"
        raise ConfigError(message, hint, searched=found.searched, lines=[message, hint])
    return found


def is_tool_name(word: str) -> bool:
    """Return whether a word names a server and its tool, rather than a server alone."""
    return any(mark in word for mark in SEPARATORS)


def find_only_server(name: str, found: FoundServers) -> ServerConfig:
    """Return the server whose help is asked for. Raises UsageError, or ConfigError if its entry cannot be used."""
    try:
        return found.get(name)
    except ServerNotFoundError:
        split_tool_name(name, found)
        raise


def split_tool_name(target: str, found: FoundServers, words: Sequence[str] = ()) -> tuple[str, str]:
    """Split a SERVER__TOOL word into server and tool; the words after it may tell what was meant. Raises UsageError."""
    if not is_tool_name(target):
        is_divided = target in found.servers and words and words[0][:1] != "-"
        meant = f" Did you mean {target}__{words[0]}?" if is_divided else explain_target(target, found, "__")
        hint = f"Write SERVER__TOOL; mcp-tool --help lists them.{meant}"
        raise UsageError(
            f'"{target}" does not name a server and its tool.', hint, got=target, available=list(found.servers)
        )
    return split_target(target, found)


def _require_utf8(word: str) -> str:
    """Check that a command-line word is valid UTF-8, as JSON requires, and return it. Raises UsageError."""
    try:
        word.encode()
    except UnicodeEncodeError:
        text = word.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")
        raise UsageError(f'"{text}" is not UTF-8.', got=text) from None
    return word


def _read_all_arguments(options: Options, files: _InputFiles) -> Mapping[str, Any]:
    """Read the arguments object of `--json`, `--json-file` or `--json-stdin`; empty without these options."""
    from ..json_commands.json_input import parse_arguments

    if options.json is not None:
        return parse_arguments(_require_utf8(options.json), "--json")
    if options.json_file is not None:
        return parse_arguments(files.read(options.json_file), options.json_file)
    return parse_arguments(files.read("-"), "standard input") if options.json_stdin else {}


class _InputFiles:
    """Reads text files, and standard input for `-`, at most once."""

    def __init__(self) -> None:
        self._is_input_read = False

    def read(self, path: str) -> str:
        """Return the text of a file. Raises UsageError."""
        from ..json_commands.json_input import STDIN_FD, decode_utf8, read_descriptor, read_file

        if path != "-":
            return decode_utf8(read_file(path), path)
        if self._is_input_read:
            raise UsageError("Standard input can be read only once.", "Read the other value from a file.")
        self._is_input_read = True
        return decode_utf8(read_descriptor(STDIN_FD, "standard input"), "standard input")


def _explain(name: str, tool: Mapping[str, Any], options: Options) -> str:
    """Return the help of a tool; with `--output json` the server's description of the tool."""
    from .help_pages import format_tool_help
    from .output_formats import FORMATTERS

    return FORMATTERS["json"](tool) if options.output == "json" else format_tool_help(name, tool)


def format_result(result: dict[str, Any], name: str, options: Options) -> str:
    """Format a result; for a text, binary data is written to files, for a document only with `--output-dir`."""
    from .output_formats import FORMATTERS, has_binary_data

    is_text = options.output != "json"
    folder = options.output_dir
    if folder is None and is_text and has_binary_data(result):
        from tempfile import mkdtemp

        folder = mkdtemp(prefix="mcp-tool-")
    if folder is not None:
        from ..json_commands.output_files import save_binary_data

        result = save_binary_data(result, folder, name)
    text = FORMATTERS["text" if is_text else "json"](result)
    if is_text:
        text = text.removesuffix("\n")
        if os.isatty(sys.stdout.fileno()):
            from ...core.sanitize import sanitize_for_terminal

            text = sanitize_for_terminal(text)
    return text
