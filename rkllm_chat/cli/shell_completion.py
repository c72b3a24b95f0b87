"""Shell completion of programs: scripts for bash, zsh and fish, and suggestions from the parsers of a command line.

The scripts ask the program itself: `PROGRAM completion words -- WORD ...` prints the suggestions for the last word.
Suggestions come from servers and files and end up on a command line, so only words without shell metacharacters are
suggested.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..core.command_line import get_options, get_subparsers

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


class Position(NamedTuple):
    """Where a command line stands after its first words.

    Attributes:
        parser: Parser of the innermost subcommand.
        command: The subcommand; "" before there is one.
        arguments: Number of positional arguments after it.
        options: Values of the options before, by option string.
        text: The beginning of the value that is being completed.
    """

    parser: argparse.ArgumentParser
    command: str
    arguments: int
    options: dict[str, str]
    text: str = ""


def complete(
    words: Sequence[str],
    parser: argparse.ArgumentParser,
    find_command: Callable[[str], argparse.ArgumentParser | None],
    list_arguments: Callable[[Position], Iterable[str]],
    list_values: Callable[[str, Position], Iterable[str]],
) -> str:
    """Return the suggestions for the last word, one per line.

    Args:
        words: The words of `completion words --`.
        parser: The parser before a subcommand.
        find_command: Returns the parser of a subcommand, None for another word.
        list_arguments: Returns the known values of the next positional argument; empty leaves it to the shell.
        list_values: Returns the known values of an option that has no choices.
    """
    *before, last = words or [""]
    position, prefix, text, known = _find_position(before, parser, find_command), "", last, None
    if pending := _find_pending_value(before, last):
        action = get_options(position.parser).get(pending[0])
        if action is not None and action.nargs != 0:
            _, text, prefix = pending
            known = action.choices or list_values(action.option_strings[-1], position._replace(text=text))
    if known is None:
        known = list_options(position.parser) if last.startswith("-") else list_arguments(position)
    found = [f"{prefix}{word}" for word in map(str, known) if word.startswith(text) and _SAFE.fullmatch(word)]
    return "\n".join(dict.fromkeys(found))


def list_options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the options that `--help` shows."""
    return [name for name, action in get_options(parser).items() if action.help != argparse.SUPPRESS]


def _find_position(
    words: Sequence[str],
    parser: argparse.ArgumentParser,
    find_command: Callable[[str], argparse.ArgumentParser | None],
) -> Position:
    """Walk over the words of a command line."""
    position = Position(parser, "", 0, {})
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word.startswith("-") and word != "-":
            option, has_value, value = word.partition("=")
            action = get_options(position.parser).get(option)
            if not has_value and action is not None and action.nargs != 0 and remaining:
                value = remaining.pop(0)
                if value == "=" and remaining:  # bash passes --x=v as three words
                    value = remaining.pop(0)
            position.options[option] = value
        elif not position.command and (command := find_command(word)):
            position = position._replace(command=word, parser=command)
        elif subparser := get_subparsers(position.parser).get(word):
            position = position._replace(parser=subparser, arguments=0)
        else:
            position = position._replace(arguments=position.arguments + 1)
    return position


def _find_pending_value(before: Sequence[str], last: str) -> tuple[str, str, str] | None:
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
    if before and before[-1].startswith("-") and not last.startswith("-"):
        return before[-1], last, ""
    return None
