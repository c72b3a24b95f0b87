"""The words that complete a command line of `mcp-tool`, from the cached tools. No server is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...calls.schema.resolve import Node
from ...calls.schema.wording import format_value
from ...config.files import find_servers
from ...core.errors import ChatError, UsageError
from ..json_commands.commands import SEPARATORS
from ..json_commands.options import OPTIONS, OUTPUT_FORMATS
from ..shell_completion import SHELLS, find_pending_value, is_completion, is_words_request, make_script
from .flags import find_property, list_properties, may_be_boolean, node_at, to_kebab_case
from .options import AFTER_TOOL, NAMES, Options
from .schema_cache import cache_path, load_tools


def complete(words: Sequence[str], options: Options) -> str:
    """Return the completion script of a shell, or the suggestions for `words -- WORD ...`, one per line.

    Raises:
        UsageError: The shell is unknown.
    """
    if is_words_request(words):
        return "\n".join(dict.fromkeys(_candidates(words[2:], options)))
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError(
            "mcp-tool completion needs one shell.", f"Known shells: {', '.join(SHELLS)}.", available=list(SHELLS)
        )
    return make_script("mcp-tool", words[0])


def _candidates(words: Sequence[str], options: Options) -> list[str]:
    """Return the completions of the last word."""
    *before, last = words or [""]
    target, words_after = _find_target(before)
    schema = _find_schema(target, options) if words_after is not None else {}
    if schema is None:
        return []
    pending = find_pending_value(before if words_after is None else words_after, last)
    if pending:
        flag, text, prefix = pending
        values = _own_option_values(flag) if words_after is None else _flag_values(flag, schema)
        if values is not None:
            return [f"{prefix}{value}" for value in values if is_completion(value, text)]
    known = _initial_words(options) if words_after is None else _flags_of(schema)
    return [
        word
        for word in known
        if is_completion(word, last) and (last[:1] == "-" or words_after is not None or word[:1] != "-")
    ]


def _find_target(words: Sequence[str]) -> tuple[str, Sequence[str] | None]:
    """Return the tool and the words after it; the words are None if no tool is named yet."""
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if not word.startswith("-"):
            return word, remaining
        if word in NAMES and OPTIONS[word][0]:
            del remaining[: 2 if remaining[:1] == ["="] else 1]
    return "", None


def _own_option_values(flag: str) -> Sequence[str] | None:
    """Return the values of an option of `mcp-tool`.

    Empty leaves the completion to the shell, which completes file names; None means that the option takes no value.
    """
    if flag not in NAMES or not OPTIONS[flag][0]:
        return None
    return OUTPUT_FORMATS if flag == "--output" else ()


def _flag_values(flag: str, schema: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the values of a tool's flag; None if it needs none."""
    root = Node(schema)
    match = find_property(flag[2:], root, str) or find_property(flag[2:], root, to_kebab_case)
    if match is None or match.operator:
        return _own_option_values(flag)
    node = node_at(match.path, root)
    return None if may_be_boolean(node) else list(map(format_value, node.choices()))


def _initial_words(options: Options) -> Iterator[str]:
    """Yield the options of `mcp-tool` and the cached tools of all configured servers."""
    yield from NAMES
    for server, tools in list_cached_tools(options.config or ""):
        yield from (f"{server}__{tool['name']}" for tool in tools)
        yield from (f"{server}__",) if not tools else ()
    yield "completion"


def list_cached_tools(config: str = "") -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the configured servers with their cached tools; empty if the configuration cannot be read."""
    try:
        servers = find_servers(config).servers
    except ChatError:
        return []
    return [(name, load_tools(cache_path(server))) for name, server in servers.items()]


def _find_schema(target: str, options: Options) -> Mapping[str, Any] | None:
    """Return the cached schema of a tool by any spelling of its name, or None."""
    for server, tools in sorted(list_cached_tools(options.config or ""), key=lambda pair: len(pair[0]), reverse=True):
        for tool in tools:
            if target in [f"{server}{mark}{tool['name']}" for mark in SEPARATORS]:
                schema = tool.get("inputSchema")
                return schema if isinstance(schema, dict) else {}
    return None


def _flags_of(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the flags of a tool, then the options of `mcp-tool` that are recognized after its name."""
    for path, node in list_properties(Node(schema)):
        yield f"--{'.'.join(path)}"
        if len(path) == 1 and may_be_boolean(node):
            yield f"--no-{path[0]}"
    yield from AFTER_TOOL
