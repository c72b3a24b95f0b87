"""Parse the options of the JSON commands and of `mcp-tool` by one table.

argparse only formats `--help`: it prints errors to standard error and takes 5 ms to import. An invalid command line
raises UsageError, which suggests a correction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...core.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser

Options = Any
"""One attribute for each option: its text or number, or None; for a switch, whether it is set.

The JSON commands add `command`, `target`, the positional argument or "", and `pairs`, the arguments of a tool that are
written as KEY=VALUE or KEY:=JSON.
"""

_SELECTIONS = ("structured", "text", "content", "raw")
OUTPUT_FORMATS = ("text", "json")
_TARGETS = ("--server", "--url", "--stdio")
_RENAMED = ("--url", "--uri", "--meta", "--keep-alive", "--max-result")
"""What `--server URL`, `read-resource URI` and `--verbose` do, and what is not needed. They go in version 0.3."""
_CONNECTION_OPTIONS = (*_TARGETS, "--header", "--env", "--config", "--timeout", "--keep-alive", "--meta", "--verbose")

# name: (placeholder of the value, "" for a switch; help text)
OPTIONS: dict[str, tuple[str, str]] = {
    "--server": ("NAME|URL", "the server, by its name in the configuration; or the URL of another one"),
    "--url": ("URL", ""),
    "--stdio": ("COMMAND", 'start this command instead of a configured server: --stdio "npx some-server"'),
    "--header": ("NAME: VALUE", "HTTP header for a URL; repeatable; ${VAR} keeps a secret out of the process list"),
    "--env": ("NAME=VALUE", "environment variable for --stdio; repeatable; ${VAR} as above"),
    "--config": ("FILE", "read only this configuration file"),
    "--timeout": ("SECONDS", "limit for the start, and for each reply; progress extends it, to 20 times at most"),
    "--keep-alive": ("SECONDS", ""),
    "--tool": ("NAME", "name of the tool"),
    "--args": ("JSON", "arguments as a JSON object, @FILE, or - for standard input"),
    "--uri": ("URI", ""),
    "--prompt": ("NAME", "name of the prompt"),
    "--select": ("PART", f"part of the result to print: {', '.join(_SELECTIONS)} (default: raw)"),
    "--output": ("FORM", f"{', '.join(OUTPUT_FORMATS)} (default: text)"),
    "--output-dir": ("FOLDER", "write images, audio and other binary data to files in this folder"),
    "--json": ("OBJECT", "arguments of the tool as a JSON object; flags override it"),
    "--json-file": ("FILE", "read that object from a file"),
    "--json-stdin": ("", "read that object from standard input"),
    "--max-result": ("MB", ""),
    "--no-check": ("", "send the arguments without validating them"),
    "--meta": ("", ""),
    "--verbose": (
        "",
        "print the server's standard error at the end; JSON commands also add the protocol version and times",
    ),
    "--version": ("", "show the version"),
    "--help": ("", "show this help"),
}
_POSITIONALS = {
    "SERVER.TOOL": "the tool of a configured server; SERVER__TOOL and SERVER/TOOL name it too",
    "KEY=VALUE|KEY:=JSON ...": "an argument of the tool, as a text that its schema converts, or as JSON",
    "URI": "the URI of the resource",
    "SERVER.PROMPT": "the prompt of a configured server",
    "DEST": "a new or empty folder (default: this one)",
}
_REPEATED = ("--header", "--env")
_EXCLUSIVE = (_TARGETS, ("--json", "--json-file", "--json-stdin"))
_REQUIRED = {"--header": "--url", "--env": "--stdio"}
_CHOICES = {"--select": _SELECTIONS, "--output": OUTPUT_FORMATS}

# name: (positional argument, description, options)
_COMMANDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "list-tools": ("", "List a server's tools.", _CONNECTION_OPTIONS),
    "call-tool": (
        "[SERVER.TOOL] [KEY=VALUE|KEY:=JSON ...]",
        "Call a tool.",
        (*_CONNECTION_OPTIONS, "--tool", "--args", "--select", "--output-dir", "--max-result", "--no-check"),
    ),
    "list-servers": ("", "List the servers of the configuration.", ("--config",)),
    "list-resources": ("", "List the resources of a server.", _CONNECTION_OPTIONS),
    "read-resource": ("[URI]", "Read a resource.", (*_CONNECTION_OPTIONS, "--uri", "--output-dir", "--max-result")),
    "list-prompts": ("", "List a server's prompts.", _CONNECTION_OPTIONS),
    "get-prompt": ("[SERVER.PROMPT]", "Get a prompt.", (*_CONNECTION_OPTIONS, "--prompt", "--args")),
    "init": ("[DEST]", "Create a project folder with a configuration, agent instructions and a .gitignore.", ()),
}


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command named by the first argument and its options. Raises UsageError."""
    command, words = arguments[0], list(arguments[1:])
    known = (*_COMMANDS[command][2], "--help")
    options = make_default_options(OPTIONS)
    options.command, options.target, options.pairs = command, "", []
    only_positional, positionals = False, list[str]()
    while words:
        word = words.pop(0)
        if not only_positional and word == "--":
            only_positional = True
        elif not only_positional and word.startswith("-") and word != "-":
            take_option(word, words, known, options, f"{command}: ")
        else:
            positionals.append(word)
    _take_positionals(positionals, options)
    if options.server and "://" in options.server and options.url is None:
        options.url, options.server = options.server, None
    if options.help:
        options.help = make_parser(command).format_help().rstrip()
    check_combination(options, f"{command}: ")
    return options


def _take_positionals(words: list[str], options: Options) -> None:
    """Store the target and the pairs; without a target, `--tool` names the tool. Raises UsageError."""
    command, takes_pairs = options.command, "KEY=VALUE" in _COMMANDS[options.command][0]
    if words and not (takes_pairs and options.tool is not None and "=" in words[0]):
        options.target = words.pop(0)
    for word in words:
        if not takes_pairs or "=" not in word:
            raise UsageError(f'{command}: "{word}" is an unexpected argument.', format_usage(command), got=word)
    if options.target and not _COMMANDS[command][0]:
        target = options.target
        takes_server = "--server" in _COMMANDS[command][2]
        hint = f"Write rkllm-chat {command} --server {target}" if takes_server else format_usage(command)
        raise UsageError(f'{command}: "{target}" is an unexpected argument.', hint, got=target)
    options.pairs = words


def is_shown(name: str) -> bool:
    """Return whether an option is one for users; a former one still works and is in no help."""
    return name not in _RENAMED


def make_default_options(names: Iterable[str]) -> Options:
    """Return the options of an empty command line."""
    return SimpleNamespace(**{_attribute_name(name): _default_value(name) for name in names})


def take_option(word: str, words: list[str], known: Sequence[str], options: Options, prefix: str = "") -> None:
    """Store the option of a word in `options`; its value may be removed from the following `words`.

    Args:
        word: The word, `--name`, `--name=value` or `-h`.
        words: The words after it.
        known: Options that may be given.
        options: Where the value is stored.
        prefix: Begins the message of an error.

    Raises:
        UsageError: The option is unknown, repeated, contradicts another one, or its value is missing or invalid.
    """
    name, has_value, value = word.partition("=")
    name = "--help" if name == "-h" else name
    if name not in known:
        from difflib import get_close_matches

        shown = [*filter(is_shown, known)]
        others = [command for command, (_, _, options_of) in _COMMANDS.items() if name in options_of and is_shown(name)]
        matches = [] if others else get_close_matches(name, shown, n=1)
        hint = f"Did you mean {matches[0]}?" if matches else f"Known options: {', '.join(shown)}."
        hint = f"It is an option of rkllm-chat {', '.join(others)}. {hint}" if others else hint
        if prefix and name in OPTIONS and not others and is_shown(name):
            matches, hint = [], f"It is an option of mcp-tool. This command always prints JSON. {hint}"
        text = f'{prefix}"{name}" is an unknown option.'
        raise UsageError(text, hint, got=name, closest=matches, available=shown)
    if has_value and not OPTIONS[name][0]:
        raise UsageError(f"{prefix}{name} takes no value.", got=word)
    if OPTIONS[name][0] and not has_value:
        if not words or words[0].startswith("--"):
            hint = f"Write a value that begins with -- as {name}={words[0]}." if words else ""
            raise UsageError(f"{prefix}{name} needs a value.", hint, expected=OPTIONS[name][0])
        value = words.pop(0)
    _store(name, value, options, prefix)


def _store(name: str, text: str, options: Options, prefix: str) -> None:
    """Store the value of an option, a number as such. Raises UsageError."""
    attribute, value = _attribute_name(name), getattr(options, _attribute_name(name))
    if name in _REPEATED:
        value.append(text)
        return
    if OPTIONS[name][0] and value is not None:
        raise UsageError(f"{prefix}{name} is given more than once.", got=text)
    if text not in _CHOICES.get(name, (text,)):
        known = _CHOICES[name]
        text_error = f'{prefix}{name} "{text}" is not known.'
        raise UsageError(text_error, f"Known: {', '.join(known)}.", got=text, available=list(known))
    number = None
    if name == "--timeout":
        number = read_seconds(f"{prefix}{name}", text)
    elif name == "--max-result":
        number = read_megabytes(f"{prefix}{name}", text)
    setattr(options, attribute, (text if number is None else number) if OPTIONS[name][0] else True)


def check_combination(options: Options, prefix: str = "") -> None:
    """Raise UsageError for options that cannot be combined, or that need another one."""
    given = [name for name in OPTIONS if getattr(options, _attribute_name(name), None) not in (None, False, [])]
    for names in _EXCLUSIVE:
        selected = [name for name in names if name in given]
        if len(selected) > 1:
            raise UsageError(f"{prefix}{' and '.join(selected)} cannot be combined.", "Pass only one of them.")
    for name, other in _REQUIRED.items():
        if name in given and other not in given:
            what = "Headers" if name == "--header" else "Variables"
            hint = f"{what} of configured servers belong in the configuration file."
            raise UsageError(f"{prefix}{name} requires {other.replace('--url', '--server URL')}.", hint)


def read_seconds(option: str, text: str) -> float:
    """Parse a number of seconds from 0.001 to 86,400. Raises UsageError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.001 <= seconds <= 86_400:
        raise UsageError(
            f'{option} "{text}" is not a valid number of seconds.', "Pass a number from 0.001 to 86400.", got=text
        )
    return seconds


def read_megabytes(option: str, text: str) -> int:
    """Parse a whole number of MB from 1 to 1024. Raises UsageError."""
    megabytes = int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 0
    if not 1 <= megabytes <= 1024:
        text_error = f'{option} "{text}" is not a valid number of MB.'
        raise UsageError(text_error, "Pass a whole number from 1 to 1024.", got=text)
    return megabytes


def _attribute_name(name: str) -> str:
    """Return the attribute name of an option: `--output-dir` is `output_dir`."""
    return name[2:].replace("-", "_")


def _default_value(name: str) -> Any:
    """Return the value of an option that is not on the command line."""
    if name in _REPEATED:
        return []
    return None if OPTIONS[name][0] else False


def format_usage(command: str) -> str:
    """Return the usage line of a command."""
    target, _, known = _COMMANDS[command]
    return f"Usage: rkllm-chat {' '.join(filter(None, (command, target)))}{' [options]' if known else ''}"


def make_parser(command: str) -> ArgumentParser:
    """Build an argparse parser that describes a command; it does not parse."""
    from argparse import ArgumentParser

    target, about, known = _COMMANDS[command]
    parser = ArgumentParser(prog=f"rkllm-chat {command}", description=f"{about} Prints one JSON document.")
    for number, metavar in enumerate(target.replace("] [", "]|[").split("|[") if target else ()):
        shown = metavar.strip("[]")
        parser.add_argument(f"target{number}", metavar=shown, nargs="?", help=_POSITIONALS[shown])
    describe_options(parser, [name for name in OPTIONS if name in known])
    return parser


def describe_options(parser: ArgumentParser, names: Iterable[str]) -> None:
    """Add options of the table to an argparse parser."""
    for name in filter(is_shown, names):
        placeholder, help_text = OPTIONS[name]
        argument: dict[str, Any] = {"metavar": placeholder, "choices": _CHOICES.get(name)}
        parser.add_argument(name, help=help_text, **(argument if placeholder else {"action": "store_true"}))
