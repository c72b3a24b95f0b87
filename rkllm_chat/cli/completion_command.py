"""Shell completion of `rkllm-chat`: the scripts, and the words that complete a command line.

Options and choices come from the parsers of the commands, names from the configuration, the cached lists of tools, the
models folders and the stored sessions. No server is started.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..config.loader import state_folder
from ..core import i18n
from ..core.command_line import Parser, get_options, get_positionals, get_subparsers
from ..core.errors import ChatError
from ..core.plugins import find_plugins
from . import chat_options
from .commands import COMMANDS, RENAMED
from .commands import make_parser as make_command_parser
from .mcp_tool.shell_completion import list_cached_tools
from .shell_completion import SHELLS, find_pending_value, is_completion, is_words_request, make_script


class _Position(NamedTuple):
    """Where a command line stands after its first words.

    Attributes:
        parser: Parser of the innermost subcommand.
        command: The subcommand; "" before there is one.
        arguments: Number of positional arguments after it.
        options: Values of the options before, by option string.
    """

    parser: argparse.ArgumentParser
    command: str
    arguments: int
    options: dict[str, str]


def main(arguments: Sequence[str]) -> int:
    """Print the completion script of a shell, or the suggestions for `words -- WORD ...`, one per line."""
    if is_words_request(arguments):
        print("\n".join(dict.fromkeys(_list_candidates(arguments[2:]))))
        return 0
    print(make_script("rkllm-chat", make_parser().parse(arguments).shell))
    return 0


def make_parser() -> Parser:
    """Build the argument parser of the command."""
    about = "Print the completion script of a shell, which completes commands, options, servers, tools and models."
    epilog = 'For bash: eval "$(rkllm-chat completion bash)" in ~/.bashrc'
    parser = Parser(prog="rkllm-chat completion", description=about, epilog=epilog)
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def _list_candidates(words: Sequence[str]) -> list[str]:
    """Return the completions of the last word."""
    *before, last = words or [""]
    position = _find_position(before)
    pending = find_pending_value(before, last)
    if pending:
        option, text, prefix = pending
        action = get_options(position.parser).get(option)
        if action is not None and action.nargs != 0:
            values = action.choices or _list_values(option, position)
            return [f"{prefix}{value}" for value in values if is_completion(str(value), text)]
    known = _list_options(position.parser) if last.startswith("-") else _list_arguments(position)
    return [word for word in known if is_completion(word, last)]


def _list_options(parser: argparse.ArgumentParser) -> list[str]:
    return [name for name, action in get_options(parser).items() if action.help != argparse.SUPPRESS]


def _find_position(words: Sequence[str]) -> _Position:
    """Walk over the words of a command line."""
    position = _Position(chat_options.make_parser(), "", 0, {})
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
        elif not position.command and word in COMMANDS:
            position = position._replace(command=word, parser=make_command_parser(word))
        elif subparser := get_subparsers(position.parser).get(word):
            position = position._replace(parser=subparser, arguments=0)
        else:
            position = position._replace(arguments=position.arguments + 1)
    return position


def _list_arguments(position: _Position) -> Iterable[str]:
    """Return the known values of the next positional argument; empty leaves it to the shell."""
    if not position.command:
        return [*(name for name in COMMANDS if name not in RENAMED), *find_plugins("commands")]
    actions = get_positionals(position.parser)
    if not actions:
        return ()
    action = actions[min(position.arguments, len(actions) - 1)]
    if position.arguments >= len(actions) and action.nargs not in ("*", "+"):
        return ()
    values = action.choices or _list_values(str(action.metavar or action.dest), position)
    return [*values, *find_plugins("servers")] if position.command == "serve" and not position.arguments else values


def _list_values(name: str, position: _Position) -> Iterable[str]:
    """Return the known values of an option, or of a positional argument by its placeholder."""
    function = _VALUES.get(name)
    try:
        return function(position) if function else ()
    except (ChatError, OSError):
        return ()


def _list_servers(position: _Position) -> Iterator[str]:
    return (name for name, _ in list_cached_tools(position.options.get("--config", "")))


def _list_tools(position: _Position) -> Iterator[str]:
    """Yield the tools of the server that `--server` names."""
    for name, tools in list_cached_tools(position.options.get("--config", "")):
        if name == position.options.get("--server"):
            yield from (tool["name"] for tool in tools)


def _list_targets(position: _Position) -> Iterator[str]:
    """Yield all tools with their servers, and the beginning of the name for a server whose tools are unknown."""
    for name, tools in list_cached_tools(position.options.get("--config", "")):
        yield from (f"{name}.{tool['name']}" for tool in tools)
        yield from () if tools else (f"{name}.",)


def _list_sessions(_position: _Position) -> list[str]:
    from ..storage.session_files import SessionDirectory

    return SessionDirectory(state_folder() / "sessions").list_ids()


def _list_models(position: _Position) -> list[str]:
    from ..backends.shared.model_files import find_models
    from ..config.loader import load_settings

    folder = load_settings(position.options.get("--config", "")).models_folder
    return [file.name if file.is_shipped else str(file.path) for file in find_models(folder)]


def _list_languages(_position: _Position) -> list[str]:
    return [i18n.AUTO, *i18n.list_languages()]


def _list_settings(_position: _Position) -> list[str]:
    from ..config.named_settings import TABLE_OF

    return [f"{key}=" for key in TABLE_OF]


def _list_backends(_position: _Position) -> list[str]:
    from ..backends import BACKENDS

    return ["auto", *BACKENDS, *find_plugins("backends")]


def _list_formats(_position: _Position) -> list[str]:
    from ..calls.formats import FORMATS

    return ["auto", *FORMATS, *find_plugins("formats")]


def _list_profiles(_position: _Position) -> list[str]:
    from ..prompt.profiles import PROFILES

    return ["auto", *PROFILES]


_VALUES: dict[str, Callable[[_Position], Iterable[str]]] = {
    "--set": _list_settings,
    "--server": _list_servers,
    "--tool": _list_tools,
    "--resume": _list_sessions,
    "--model": _list_models,
    "--language": _list_languages,
    "--backend": _list_backends,
    "--tool-format": _list_formats,
    "--prompt-profile": _list_profiles,
    "NAME": _list_servers,
    "SERVER.TOOL": _list_targets,
    "ID": _list_sessions,
}
