"""Completion for bash, zsh and fish: the scripts, and the words they ask for. No server is started for it.

The words come from servers (tool names, enum values) and end up on a command line, so only those are offered that mean
nothing to a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ChatError, UsageError
from ..flags import kebab, locate, may_be_boolean, schema_at
from ..oneshot.commands import MARKS
from ..places import find_entries
from ..schemas import all_choices, child_of, property_names, show
from .cache import cache_path, recall
from .options import FORMS, OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .options import Options

SAFE = re.compile(r"[\w@%+./:,=-]+")

BASH = """\
# mcp-tool completion for bash: eval "$(mcp-tool completion bash)"
_mcp_tool() {
    local IFS=$'\\n'
    COMPREPLY=($(mcp-tool completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${COMPREPLY[0]-} == *__ || ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _mcp_tool mcp-tool
"""
ZSH = """\
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
FISH = r"""\
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
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def complete(words: Sequence[str], options: Options) -> str:
    """The script of a shell; for `words -- WORD ...` what the last of them may become, a line each."""
    if list(words[:2]) == ["words", "--"]:
        return "\n".join(dict.fromkeys(candidates(words[2:], options)))
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError("mcp-tool completion: which shell?", f"Write {', '.join(SHELLS)}.", available=list(SHELLS))
    return SHELLS[words[0]].rstrip()


def candidates(words: Sequence[str], options: Options) -> list[str]:
    """What the last word may become."""
    *before, last = words or [""]
    target, behind = find_target(before)
    schema = find_schema(target, options) if behind is not None else {}
    if schema is None:
        return []
    asked = find_question(before if behind is None else behind, last)
    if asked:
        flag, text, prefix = asked
        values = own_values(flag) if behind is None else values_of(flag, schema)
        if values is not None:
            return [f"{prefix}{value}" for value in values if fits(value, text)]
    known = first_words(options) if behind is None else flags_of(schema)
    return [word for word in known if fits(word, last) and (last[:1] == "-" or behind is not None or word[:1] != "-")]


def find_target(before: Sequence[str]) -> tuple[str, Sequence[str] | None]:
    """The tool, and the words behind it; None where it is not yet named."""
    waiting = list(before)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("-"):
            return word, waiting
        if word[2:] in OPTIONS and OPTIONS[word[2:]][0]:
            del waiting[: 2 if waiting[:1] == ["="] else 1]
    return "", None


def find_question(before: Sequence[str], last: str) -> tuple[str, str, str] | None:
    """The flag whose value is being written, what there is of it, and what must stand before it. Bash gives `--x=v` as
    three words, the others as one."""
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


def own_values(flag: str) -> Sequence[str] | None:
    """The values of an option of ours; empty leaves it to the shell, which knows files. None: it takes none."""
    if not OPTIONS.get(flag[2:], ("",))[0]:
        return None
    return FORMS if flag == "--output" else ()


def values_of(flag: str, schema: Mapping[str, Any]) -> Sequence[str] | None:
    """The values of a tool's flag; None if it needs none."""
    found = locate(flag[2:], schema, str) or locate(flag[2:], schema, kebab)
    if found is None or found.operator:
        return own_values(flag)
    wanted = schema_at(found.path, schema)
    if may_be_boolean(wanted, schema):
        return None
    return [show(choice) for choice in all_choices(wanted, schema)]


def first_words(options: Options) -> Iterator[str]:
    """Options of ours, and the tools of all configured servers, as far as they were listed before."""
    yield from (f"--{name}" for name in OPTIONS)
    for server, tools in remembered(options):
        yield from (f"{server}__{tool['name']}" for tool in tools)
        yield from (f"{server}__",) if not tools else ()
    yield "completion"


def remembered(options: Options) -> list[tuple[str, list[dict[str, Any]]]]:
    """The servers of the configuration and their tools; none where there is no configuration that can be read."""
    try:
        entries = find_entries(options.config or "").entries
    except ChatError:
        return []
    return [(name, recall(cache_path(entry))) for name, (entry, _) in entries.items()]


def find_schema(target: str, options: Options) -> Mapping[str, Any] | None:
    """The schema of a tool by any spelling of its name; None if it is not remembered."""
    for server, tools in sorted(remembered(options), key=lambda pair: len(pair[0]), reverse=True):
        for tool in tools:
            if target in [f"{server}{mark}{tool['name']}" for mark in MARKS]:
                schema = tool.get("inputSchema")
                return schema if isinstance(schema, dict) else {}
    return None


def flags_of(schema: Mapping[str, Any]) -> Iterator[str]:
    for name in property_names(schema, schema):
        child = child_of(schema, name, schema)
        yield f"--{name}"
        yield from (f"--no-{name}",) if may_be_boolean(child, schema) else ()
        yield from (f"--{name}.{inner}" for inner in property_names(child, schema))
    yield from (f"--{name}" for name, (_, behind, _) in OPTIONS.items() if behind)


def fits(word: str, begun: str) -> bool:
    """Whether a word continues what is begun, and means nothing to a shell."""
    return word.startswith(begun) and bool(SAFE.fullmatch(word))
