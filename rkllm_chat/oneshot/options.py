"""The command line of the one-shot commands, by a table. argparse prints to standard error, and costs 5 ms to import.

A wrong command line raises UsageError, which names what would be right.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Options = Any
    """One attribute for each option, by its name; `command`, and `target`: what stands there without an option."""

SELECTIONS = ("structured", "text", "content", "raw")
TARGETS = ("--server", "--url", "--stdio")
REACH = (*TARGETS, "--header", "--env", "--config", "--timeout", "--keep-alive", "--meta", "--verbose")

# name: (what its value is, "" for a switch; what it says in the help)
OPTIONS: dict[str, tuple[str, str]] = {
    "--server": ("NAME", "the server, by its name in the configuration"),
    "--url": ("URL", "the server at this URL instead"),
    "--stdio": ("COMMAND", 'the server that this command starts instead: --stdio "npx some-server"'),
    "--header": ("NAME: VALUE", "for --url, may be repeated; write ${VAR} for what no process list should show"),
    "--env": ("NAME=VALUE", "for --stdio, may be repeated; ${VAR} as above"),
    "--config": ("FILE", "read this configuration alone"),
    "--timeout": ("SECONDS", "how long the start may take, and how long the answer"),
    "--keep-alive": ("SECONDS", "let the server stay so long for the next call that says this too; 0 ends it"),
    "--tool": ("NAME", "the tool"),
    "--args": ("JSON", "its arguments as a JSON object; @FILE and - (standard input) are read"),
    "--uri": ("URI", "the resource"),
    "--prompt": ("NAME", "the prompt"),
    "--select": ("PART", f"what of the result: {', '.join(SELECTIONS)} (default: raw, all of it)"),
    "--output-dir": ("FOLDER", "images, sound and other data go into files there"),
    "--no-check": ("", "send the arguments without looking at the tool's schema first"),
    "--meta": ("", "say also what was spoken with whom, and how long it took"),
    "--verbose": ("", "the server's standard error on standard error, at the end"),
    "--help": ("", "this text"),
}
REPEATED = ("--header", "--env")

# name: (what stands there without an option, what it does, its own options)
COMMANDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "list-tools": ("", "List a server's tools.", REACH),
    "call-tool": (
        "[SERVER.TOOL]",
        "Call a tool.",
        (*REACH, "--tool", "--args", "--select", "--output-dir", "--no-check"),
    ),
    "list-servers": ("", "List the servers of the configuration, without starting any.", ("--config",)),
    "list-resources": ("", "List what a server has to read.", REACH),
    "read-resource": ("[URI]", "Read a resource.", (*REACH, "--uri", "--output-dir")),
    "list-prompts": ("", "List a server's prompts.", REACH),
    "get-prompt": ("[SERVER.PROMPT]", "Get a prompt.", (*REACH, "--prompt", "--args")),
    "init": ("[DEST]", "Lay out a folder that works at once: configuration, instructions, .gitignore.", ()),
}


def parse(arguments: Sequence[str]) -> Options:
    """The options of the command that the arguments begin with. Raises UsageError."""
    command, words = arguments[0], list(arguments[1:])
    known = (*COMMANDS[command][2], "--help")
    options = SimpleNamespace(command=command, target="", **{attribute(name): default(name) for name in OPTIONS})
    is_over = False
    while words:
        word = words.pop(0)
        if not is_over and word == "--":
            is_over = True
        elif not is_over and word.startswith("-") and word != "-":
            take_option(word, words, known, options)
        elif options.target or not COMMANDS[command][0]:
            raise UsageError(f'{command}: "{word}" is one word too many.', usage(command), got=word)
        else:
            options.target = word
    if options.help:
        options.help = describe(command)
    check(options)
    return options


def take_option(word: str, words: list[str], known: tuple[str, ...], options: Options) -> None:
    name, has_value, value = word.partition("=")
    name = "--help" if name == "-h" else name
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}."
        raise UsageError(
            f'{options.command}: there is no option "{name}".', hint, got=name, closest=near, available=list(known)
        )
    if not OPTIONS[name][0]:
        if has_value:
            raise UsageError(f"{options.command}: {name} takes no value.", got=word)
        setattr(options, attribute(name), True)
        return
    if not has_value:
        if not words or words[0].partition("=")[0] in OPTIONS:
            raise UsageError(f"{options.command}: {name} needs a value.", expected=OPTIONS[name][0])
        value = words.pop(0)
    if name in REPEATED:
        getattr(options, attribute(name)).append(value)
    elif getattr(options, attribute(name)) is not None:
        raise UsageError(f"{options.command}: {name} is given twice.", got=value)
    else:
        setattr(options, attribute(name), value)


def check(options: Options) -> None:
    """What the options say of each other. Raises UsageError."""
    given = [name for name in TARGETS if getattr(options, attribute(name)) is not None]
    if len(given) > 1:
        raise UsageError(f"{options.command}: {' and '.join(given)} cannot be combined.", "Keep one of them.")
    if options.header and options.url is None:
        raise UsageError(f"{options.command}: --header goes with --url.", "Write other headers into the configuration.")
    if options.env and options.stdio is None:
        raise UsageError(f"{options.command}: --env goes with --stdio.", "Write it into the configuration instead.")
    if options.select is not None and options.select not in SELECTIONS:
        raise UsageError(
            f'{options.command}: --select "{options.select}" is unknown.',
            f"Known are {', '.join(SELECTIONS)}.",
            got=options.select,
            available=list(SELECTIONS),
        )
    if options.timeout is not None:
        options.timeout = read_seconds(options.command, "--timeout", options.timeout, least=0.001)
    if options.keep_alive is not None:
        options.keep_alive = read_seconds(options.command, "--keep-alive", options.keep_alive, least=0)


def read_seconds(command: str, option: str, text: str, least: float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not least <= seconds <= 86_400:
        raise UsageError(
            f'{command}: {option} "{text}" is no number of seconds.', f"From {least:g} to 86400.", got=text
        )
    return seconds


def attribute(name: str) -> str:
    return name[2:].replace("-", "_")


def default(name: str) -> Any:
    if name in REPEATED:
        return []
    return None if OPTIONS[name][0] else False


def usage(command: str) -> str:
    target, _, known = COMMANDS[command]
    return f"Usage: rkllm-chat {' '.join(filter(None, (command, target)))}{' [options]' if known else ''}"


def describe(command: str) -> str:
    """The help of a command."""
    rows = [(" ".join(filter(None, (name, OPTIONS[name][0]))), OPTIONS[name][1]) for name in OPTIONS]
    shown = [row for name, row in zip(OPTIONS, rows, strict=True) if name in (*COMMANDS[command][2], "--help")]
    lines = [f"  {left:<22} {right}" for left, right in shown]
    return "\n".join((usage(command), "", COMMANDS[command][1], "It prints one JSON document.", "", *lines))
