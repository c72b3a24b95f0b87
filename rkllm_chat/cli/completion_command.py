"""Shell completion of `rkllm-chat`: the scripts, and the words that complete a command line.

Options and choices come from the parsers of the commands, names from the configuration, the cached lists of tools, the
models folders and the stored sessions. No server is started.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..config.loader import state_folder
from ..core.command_line import Parser, get_positionals
from ..core.errors import ChatError
from ..core.plugins import find_plugins
from . import chat_options
from .commands import COMMANDS, RENAMED
from .commands import make_parser as make_command_parser
from .mcp_tool.shell_completion import list_cached_tools
from .shell_completion import SHELLS, Position, complete, is_words_request, make_script


def main(arguments: Sequence[str]) -> int:
    """Print the completion script of a shell, or the suggestions for `words -- WORD ...`, one per line."""
    if is_words_request(arguments):
        print(complete(arguments[2:], chat_options.make_parser(), _find_command, _list_arguments, _list_values))
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


def _find_command(word: str) -> argparse.ArgumentParser | None:
    return make_command_parser(word) if word in COMMANDS else None


def _list_arguments(position: Position) -> Iterable[str]:
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


def _list_values(name: str, position: Position) -> Iterable[str]:
    """Return the known values of an option, or of a positional argument by its placeholder."""
    function = _VALUES.get(name)
    try:
        return function(position) if function else ()
    except (ChatError, OSError):
        return ()


def _list_servers(position: Position) -> Iterator[str]:
    return (name for name, _ in list_cached_tools(position.options.get("--config", "")))


def _list_tools(position: Position) -> Iterator[str]:
    """Yield the tools of the server that `--server` names."""
    for name, tools in list_cached_tools(position.options.get("--config", "")):
        if name == position.options.get("--server"):
            yield from (tool["name"] for tool in tools)


def _list_targets(position: Position) -> Iterator[str]:
    """Yield all tools with their servers, and the beginning of the name for a server whose tools are unknown."""
    for name, tools in list_cached_tools(position.options.get("--config", "")):
        yield from (f"{name}.{tool['name']}" for tool in tools)
        yield from () if tools else (f"{name}.",)


def _list_sessions(_position: Position) -> list[str]:
    from ..storage.session_files import SessionDirectory

    return SessionDirectory(state_folder() / "sessions").list_ids()


def _list_models(position: Position) -> list[str]:
    from ..backends.shared.model_files import find_models
    from ..config.loader import load_settings

    folder = load_settings(position.options.get("--config", "")).models_folder
    return [file.name if file.is_shipped else str(file.path) for file in find_models(folder)]


def _list_settings(position: Position) -> list[str]:
    """Return the keys, or the pairs of a key that is written."""
    from ..config.named_settings import TABLE_OF

    key, equals, _ = position.text.partition("=")
    if not equals:
        return [f"{key}=" for key in TABLE_OF]
    from ..chat.setting_choices import list_choices

    plugins = {"backend": find_plugins("backends"), "tool_format": find_plugins("formats")}
    return [f"{key}={value}" for value in (*list_choices().get(key, ()), *plugins.get(key, ()))]


_VALUES: dict[str, Callable[[Position], Iterable[str]]] = {
    "--set": _list_settings,
    "--server": _list_servers,
    "--tool": _list_tools,
    "--resume": _list_sessions,
    "--model": _list_models,
    "NAME": _list_servers,
    "SERVER.TOOL": _list_targets,
    "ID": _list_sessions,
}
