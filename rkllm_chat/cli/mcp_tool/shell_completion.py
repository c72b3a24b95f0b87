"""Shell completion for bash, zsh and fish: the scripts, and the suggestions that they request. No server is started.

Suggestions come from servers (tool names, enum values) and end up on a command line, so only words without shell
metacharacters are suggested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...calls.schema.resolve import Node
from ...calls.schema.wording import format_value
from ...config.files import find_servers
from ...core.errors import ChatError, UsageError
from ..json_commands.commands import SEPARATORS
from .flags import find_property, list_properties, may_be_boolean, node_at, to_kebab_case
from .options import OPTIONS, OUTPUT_FORMATS
from .schema_cache import cache_path, load_tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .options import Options

_SAFE = re.compile(r"[\w@%+./:,=-]+")

_BASH = """\
# mcp-tool completion for bash: eval "$(mcp-tool completion bash)"
_mcp_tool() {
    local IFS=$'\\n'
    COMPREPLY=($(mcp-tool completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${COMPREPLY[0]-} == *__ || ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _mcp_tool mcp-tool
"""
_ZSH = """\
#compdef mcp-tool
# mcp-tool completion for zsh: eval "$(mcp-tool completion zsh)"
_mcp_tool() {
    local -a found
    found=("${(@f)$(mcp-tool completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( $#found )); then compadd -- "${found[@]}"; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _mcp_tool mcp-tool
"""
_FISH = r"""\
# mcp-tool completion for fish: mcp-tool completion fish | source
function __mcp_tool_words
    set -l words (commandline -opc) (commandline -ct)
    set -l found (mcp-tool completion words -- $words[2..-1] 2>/dev/null)
    if count $found >/dev/null
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mcp-tool -f -a '(__mcp_tool_words)'
"""
_SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def complete(words: Sequence[str], options: Options) -> str:
    """Return the completion script of a shell, or the suggestions for `words -- WORD ...`, one per line.

    Raises:
        UsageError: The shell is unknown.
    """
    if list(words[:2]) == ["words", "--"]:
        return "\n".join(dict.fromkeys(_candidates(words[2:], options)))
    if len(words) != 1 or words[0] not in _SHELLS:
        raise UsageError(
            "mcp-tool completion needs one shell.", f"Known shells: {', '.join(_SHELLS)}.", available=list(_SHELLS)
        )
    return _SHELLS[words[0]].rstrip()


def _candidates(words: Sequence[str], options: Options) -> list[str]:
    """Return the completions of the last word."""
    *before, last = words or [""]
    target, words_after = _find_target(before)
    schema = _find_schema(target, options) if words_after is not None else {}
    if schema is None:
        return []
    pending = _find_pending_value(before if words_after is None else words_after, last)
    if pending:
        flag, text, prefix = pending
        values = _own_option_values(flag) if words_after is None else _flag_values(flag, schema)
        if values is not None:
            return [f"{prefix}{value}" for value in values if _is_completion(value, text)]
    known = _initial_words(options) if words_after is None else _flags_of(schema)
    return [
        word
        for word in known
        if _is_completion(word, last) and (last[:1] == "-" or words_after is not None or word[:1] != "-")
    ]


def _find_target(words: Sequence[str]) -> tuple[str, Sequence[str] | None]:
    """Return the tool and the words after it; the words are None if no tool is named yet."""
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if not word.startswith("-"):
            return word, remaining
        if word[2:] in OPTIONS and OPTIONS[word[2:]][0]:
            del remaining[: 2 if remaining[:1] == ["="] else 1]
    return "", None


def _find_pending_value(before: Sequence[str], last: str) -> tuple[str, str, str] | None:
    """Find the flag whose value is being completed.

    Bash passes `--x=v` as three words, other shells as one.

    Returns:
        The flag, the beginning of the value, and the prefix that each suggestion needs; None if no value is expected.
    """
    flag, mark, text = last.partition("=")
    if mark and flag.startswith("--"):
        return flag, text, f"{flag}="
    if last == "=" and before:
        return before[-1], "", ""
    if before[-1:] == ["="] and len(before) > 1:
        return before[-2], last, ""
    if before and before[-1].startswith("--") and not last.startswith("-"):
        return before[-1], last, ""
    return None


def _own_option_values(flag: str) -> Sequence[str] | None:
    """Return the values of an option of `mcp-tool`.

    Empty leaves the completion to the shell, which completes file names; None means that the option takes no value.
    """
    if not OPTIONS.get(flag[2:], ("",))[0]:
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
    yield from (f"--{name}" for name in OPTIONS)
    for server, tools in _cached_tools(options):
        yield from (f"{server}__{tool['name']}" for tool in tools)
        yield from (f"{server}__",) if not tools else ()
    yield "completion"


def _cached_tools(options: Options) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the configured servers with their cached tools; empty if the configuration cannot be read."""
    try:
        servers = find_servers(options.config or "").servers
    except ChatError:
        return []
    return [(name, load_tools(cache_path(server))) for name, server in servers.items()]


def _find_schema(target: str, options: Options) -> Mapping[str, Any] | None:
    """Return the cached schema of a tool by any spelling of its name, or None."""
    for server, tools in sorted(_cached_tools(options), key=lambda pair: len(pair[0]), reverse=True):
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
    yield from (f"--{name}" for name, (_, is_after_tool, _) in OPTIONS.items() if is_after_tool)


def _is_completion(word: str, beginning: str) -> bool:
    """Return whether a word completes `beginning` and contains no shell metacharacter."""
    return word.startswith(beginning) and bool(_SAFE.fullmatch(word))
