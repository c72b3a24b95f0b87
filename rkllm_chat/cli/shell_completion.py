"""Completion scripts for bash, zsh and fish, and what the suggestions of all programs have in common.

The scripts ask the program itself: `PROGRAM completion words -- WORD ...` prints the suggestions for the last word.
Suggestions come from servers and files and end up on a command line, so only words without shell metacharacters are
suggested.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SAFE = re.compile(r"[\w@%+./:,=-]+")

_BASH = """\
# PROGRAM completion for bash: eval "$(PROGRAM completion bash)"
FUNCTION() {
    local IFS=$'\\n'
    COMPREPLY=($(PROGRAM completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${COMPREPLY[0]-} == *__ || ${COMPREPLY[0]-} == *[=.] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F FUNCTION PROGRAM
"""
_ZSH = """\
#compdef PROGRAM
# PROGRAM completion for zsh: eval "$(PROGRAM completion zsh)"
FUNCTION() {
    local -a found
    found=("${(@f)$(PROGRAM completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( $#found )); then compadd -- "${found[@]}"; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef FUNCTION PROGRAM
"""
_FISH = r"""\
# PROGRAM completion for fish: PROGRAM completion fish | source
function _FUNCTION_words
    set -l words (commandline -opc) (commandline -ct)
    set -l found (PROGRAM completion words -- $words[2..-1] 2>/dev/null)
    if count $found >/dev/null
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c PROGRAM -f -a '(_FUNCTION_words)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
SHELLS = tuple(_SCRIPTS)


def make_script(program: str, shell: str) -> str:
    """Return the completion script of a program for one of `SHELLS`."""
    function = f"_{program.replace('-', '_')}"
    return _SCRIPTS[shell].replace("PROGRAM", program).replace("FUNCTION", function).rstrip()


def is_words_request(words: Sequence[str]) -> bool:
    """Return whether the arguments of `completion` are those that the scripts pass."""
    return list(words[:2]) == ["words", "--"]


def find_pending_value(before: Sequence[str], last: str) -> tuple[str, str, str] | None:
    """Find the option whose value is being completed.

    Bash passes `--x=v` as three words, other shells as one.

    Args:
        before: The words before the one that is being completed.
        last: The beginning of the word that is being completed.

    Returns:
        The option, the beginning of the value, and the prefix that each suggestion needs; None if no value is expected.
    """
    option, mark, text = last.partition("=")
    if mark and option.startswith("--"):
        return option, text, f"{option}="
    if last == "=" and before:
        return before[-1], "", ""
    if before[-1:] == ["="] and len(before) > 1:
        return before[-2], last, ""
    if before and before[-1].startswith("--") and not last.startswith("-"):
        return before[-1], last, ""
    return None


def is_completion(word: str, beginning: str) -> bool:
    """Return whether a word completes `beginning` and contains no shell metacharacter."""
    return word.startswith(beginning) and bool(_SAFE.fullmatch(word))
