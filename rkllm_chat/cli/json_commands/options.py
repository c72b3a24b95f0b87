"""Parse the command line of the JSON commands from tables of options.

argparse only formats `--help`: it prints errors to standard error and takes 5 ms to import. An invalid command line
raises UsageError, which suggests a correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...core.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser

    Options = Any
    """One attribute for each option, by its name; `command`; `target`, the positional argument or ""; and `pairs`,
    the arguments of a tool that are written as KEY=VALUE or KEY:=JSON."""

_SELECTIONS = ("structured", "text", "content", "raw")
_TARGETS = ("--server", "--url", "--stdio")
_CONNECTION_OPTIONS = (*_TARGETS, "--header", "--env", "--config", "--timeout", "--keep-alive", "--meta", "--verbose")

# name: (placeholder of the value, "" for a switch; help text)
OPTIONS: dict[str, tuple[str, str]] = {
    "--server": ("NAME", "the server, by its name in the configuration"),
    "--url": ("URL", "connect to this URL instead of a configured server"),
    "--stdio": ("COMMAND", 'start this command instead of a configured server: --stdio "npx some-server"'),
    "--header": ("NAME: VALUE", "HTTP header for --url; repeatable; ${VAR} keeps a secret out of the process list"),
    "--env": ("NAME=VALUE", "environment variable for --stdio; repeatable; ${VAR} as above"),
    "--config": ("FILE", "read only this configuration file"),
    "--timeout": (
        "SECONDS",
        "limit for the start, and for each reply; progress extends it, to 20 times at most",
    ),
    "--keep-alive": ("SECONDS", "keep the server running this long for later calls with this option; 0 stops it"),
    "--tool": ("NAME", "name of the tool"),
    "--args": ("JSON", "arguments as a JSON object, @FILE, or - for standard input"),
    "--uri": ("URI", "URI of the resource"),
    "--prompt": ("NAME", "name of the prompt"),
    "--select": ("PART", f"part of the result to print: {', '.join(_SELECTIONS)} (default: raw)"),
    "--output-dir": ("FOLDER", "write images, audio and other binary data to files in this folder"),
    "--max-result": ("MB", "largest reply that is read, in MB (default: 64)"),
    "--no-check": ("", "send the arguments without validating them"),
    "--meta": ("", "add the server, the protocol version and the time of each phase"),
    "--start": ("", "start each enabled server, one by one, and add its protocol version and instructions"),
    "--verbose": ("", "print the server's standard error at the end"),
    "--help": ("", "show this help"),
}
_REPEATED = ("--header", "--env")

# name: (positional argument, description, options)
_COMMANDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "list-tools": ("", "List a server's tools.", _CONNECTION_OPTIONS),
    "call-tool": (
        "[SERVER.TOOL] [KEY=VALUE|KEY:=JSON ...]",
        "Call a tool.",
        (*_CONNECTION_OPTIONS, "--tool", "--args", "--select", "--output-dir", "--max-result", "--no-check"),
    ),
    "list-servers": (
        "",
        "List the servers of the configuration, by default without starting any.",
        ("--config", "--start"),
    ),
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
    options = SimpleNamespace(
        command=command, target="", pairs=[], **{_attribute_name(name): default_value(name) for name in OPTIONS}
    )
    only_positional, positionals = False, list[str]()
    while words:
        word = words.pop(0)
        if not only_positional and word == "--":
            only_positional = True
        elif not only_positional and word.startswith("-") and word != "-":
            _take_option(word, words, known, options)
        else:
            positionals.append(word)
    _take_positionals(positionals, options)
    if options.help:
        options.help = make_parser(command).format_help().rstrip()
    _validate(options)
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
        raise UsageError(f'{command}: "{target}" is an unexpected argument.', format_usage(command), got=target)
    options.pairs = words


def _take_option(word: str, words: list[str], known: tuple[str, ...], options: Options) -> None:
    """Store one option in `options`; its value may be removed from `words`. Raises UsageError."""
    name, has_value, value = word.partition("=")
    name = "--help" if name == "-h" else name
    if name not in known:
        from difflib import get_close_matches

        matches = get_close_matches(name, known, n=1)
        hint = f"Did you mean {matches[0]}?" if matches else f"Known options: {', '.join(known)}."
        raise UsageError(
            f'{options.command}: unknown option "{name}".', hint, got=name, closest=matches, available=list(known)
        )
    if not OPTIONS[name][0]:
        if has_value:
            raise UsageError(f"{options.command}: {name} takes no value.", got=word)
        setattr(options, _attribute_name(name), True)
        return
    if not has_value:
        if not words or words[0].partition("=")[0] in OPTIONS:
            raise UsageError(f"{options.command}: {name} needs a value.", expected=OPTIONS[name][0])
        value = words.pop(0)
    if name in _REPEATED:
        getattr(options, _attribute_name(name)).append(value)
    elif getattr(options, _attribute_name(name)) is not None:
        raise UsageError(f"{options.command}: {name} is given more than once.", got=value)
    else:
        setattr(options, _attribute_name(name), value)


def _validate(options: Options) -> None:
    """Check the combination and the values of the options, and convert the numbers. Raises UsageError."""
    selected = [name for name in _TARGETS if getattr(options, _attribute_name(name)) is not None]
    if len(selected) > 1:
        raise UsageError(f"{options.command}: {' and '.join(selected)} cannot be combined.", "Pass only one of them.")
    if options.header and options.url is None:
        raise UsageError(
            f"{options.command}: --header requires --url.",
            "Headers of configured servers belong in the configuration file.",
        )
    if options.env and options.stdio is None:
        raise UsageError(
            f"{options.command}: --env requires --stdio.",
            "Variables of configured servers belong in the configuration file.",
        )
    if options.select is not None and options.select not in _SELECTIONS:
        raise UsageError(
            f'{options.command}: --select "{options.select}" is not a known part.',
            f"Known parts: {', '.join(_SELECTIONS)}.",
            got=options.select,
            available=list(_SELECTIONS),
        )
    if options.timeout is not None:
        options.timeout = read_seconds(f"{options.command}: --timeout", options.timeout, minimum=0.001)
    if options.keep_alive is not None:
        options.keep_alive = read_seconds(f"{options.command}: --keep-alive", options.keep_alive, minimum=0)
    if options.max_result is not None:
        options.max_result = read_megabytes(f"{options.command}: --max-result", options.max_result)


def read_seconds(option: str, text: str, minimum: float) -> float:
    """Parse a number of seconds from `minimum` to 86,400. Raises UsageError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not minimum <= seconds <= 86_400:
        raise UsageError(
            f'{option} "{text}" is not a valid number of seconds.',
            f"Pass a number from {minimum:g} to 86400.",
            got=text,
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
    """Return the attribute name of an option: `--keep-alive` is `keep_alive`."""
    return name[2:].replace("-", "_")


def default_value(name: str) -> Any:
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
        parser.add_argument(f"target{number}", metavar=metavar.strip("[]"), nargs="?")
    for name in OPTIONS:
        placeholder, help_text = OPTIONS[name]
        if name in known:
            argument: dict[str, Any] = {"metavar": placeholder} if placeholder else {"action": "store_true"}
            parser.add_argument(name, help=help_text, **argument)
    return parser
