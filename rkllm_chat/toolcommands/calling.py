"""One tool, called or explained. Its server is started first, and boots while the rest is imported."""

from __future__ import annotations

import os
import sys

from ..errors import ConfigError, ToolNotFoundError, UsageError
from ..oneshot.commands import MARKS, explain_failure, prepare, split_target
from ..oneshot.sitting import schema_limit
from ..places import BOARD, find_entries
from .options import OWN, take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..places import Found
    from .course import Course
    from .options import Options

SMALLEST = '{"mcpServers": {"board": {"command": "rkllm-chat", "args": ["serve", "board"]}}}'


def call(target: str, words: Sequence[str], options: Options, course: Course) -> str:
    """What the tool's answer prints. Raises ChatError."""
    found = find_configured(options)
    server_name, name = split(target, found)
    course.keep_s = options.keep_alive
    opened = course.open(prepare(found, server_name, options, course))
    from ..flags import check_arguments, join_arguments, load_files, read_words

    course.phase = "list"
    tools = opened.list_tools()
    course.listed.append((found.get(server_name)[0], tools))
    course.phase = "arguments"
    opened.check_held(name)
    tool = find_tool(name, tools, server_name)
    schema = tool["inputSchema"] if isinstance(tool.get("inputSchema"), dict) else {}
    with schema_limit():
        given, own = read_words([read_word(word) for word in words], schema, OWN)
    take(own, options)
    if options.help:
        return explain(f"{server_name}__{name}", tool, options)
    files = Files()
    given, whole = load_files(given, files.read), read_all_arguments(options, files)
    with schema_limit():
        arguments = join_arguments(given, schema, whole)
        if not options.no_check:
            check_arguments(arguments, schema)
    course.phase = "call"
    result = opened.call_tool(name, arguments)
    if result.get("isError"):
        raise explain_failure(opened, name, result)
    return show(course.secrets.hide(result), name, options)


def find_configured(options: Options) -> Found:
    """The configured servers. Raises ConfigError where there are none: the board server is for the chat."""
    found = find_entries(options.config or "")
    if [entry for entry, _ in found.entries.values()] == [BOARD]:
        tried = f"No configuration names a server. Tried: {', '.join(found.searched)}."
        smallest = f"The smallest that works, as ./mcp.json: {SMALLEST}"
        raise ConfigError(tried, smallest, searched=found.searched, lines=[tried, smallest])
    return found


def split(target: str, found: Found) -> tuple[str, str]:
    """Server and tool. Raises UsageError for a word that cannot name both."""
    if not any(mark in target for mark in MARKS):
        hint = "Write SERVER__TOOL; mcp-tool --help lists them."
        raise UsageError(f'"{target}" names no tool of a server.', hint, got=target, available=list(found.entries))
    return split_target(target, found)


def find_tool(name: str, tools: Sequence[dict[str, Any]], server: str) -> dict[str, Any]:
    for tool in tools:
        if tool["name"] == name:
            return tool
    from difflib import get_close_matches

    names = [tool["name"] for tool in tools]
    near = [f"{server}__{one}" for one in get_close_matches(name, names, n=3, cutoff=0.6)]
    hint = f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(names[:20]) or 'no tools'}."
    raise ToolNotFoundError(
        f'Server "{server}" has no tool "{name}".', hint, server=server, available=names, closest=near
    )


def read_word(word: str) -> str:
    """A word of the command line. Raises UsageError for bytes that are no text: JSON could not carry them."""
    try:
        word.encode()
    except UnicodeEncodeError:
        shown = word.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")
        raise UsageError(f'"{shown}" is not UTF-8.', got=shown) from None
    return word


def read_all_arguments(options: Options, files: Files) -> Mapping[str, Any]:
    """The arguments as one object, from where the options say; empty where they say nothing."""
    from ..flags import read_whole

    if options.json is not None:
        return read_whole(read_word(options.json), "--json")
    if options.json_file is not None:
        return read_whole(files.read(options.json_file), f"--json-file {options.json_file}")
    return read_whole(files.read("-"), "--json-stdin") if options.json_stdin else {}


class Files:
    """The texts of files, and of standard input for -, which is there only once. Raises UsageError."""

    def __init__(self) -> None:
        self._is_input_read = False

    def read(self, path: str) -> str:
        from ..oneshot.values import STANDARD_INPUT, decode, read_all, read_file

        if path != "-":
            return decode(read_file(path), path)
        if self._is_input_read:
            raise UsageError("Standard input can be read only once.", "Put one of the two into a file.")
        self._is_input_read = True
        return decode(read_all(STANDARD_INPUT, "standard input"), "standard input")


def explain(name: str, tool: Mapping[str, Any], options: Options) -> str:
    """The page of one tool; as a document the tool itself, as its server describes it."""
    from .outputs import OUTPUTS
    from .pages import show_tool

    return OUTPUTS[options.output](tool) if options.output in ("json", "yaml") else show_tool(name, tool, OWN)


def show(result: dict[str, Any], name: str, options: Options) -> str:
    """The result in the form that is wanted. In text and tables its bytes are files; in documents where it is asked."""
    from .outputs import OUTPUTS, has_bytes

    form = options.output or "text"
    folder = options.output_dir
    if folder is None and form in ("text", "table") and has_bytes(result):
        from tempfile import mkdtemp

        folder = mkdtemp(prefix="mcp-tool-")
    if folder is not None:
        from ..oneshot.files import put_into_files

        result = put_into_files(result, folder, name)
    text = OUTPUTS[form](result)
    if form in ("text", "table"):
        text = text.removesuffix("\n")
        if os.isatty(sys.stdout.fileno()):
            from ..clean import clean

            text = clean(text)
    return text
