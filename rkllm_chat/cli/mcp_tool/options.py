"""Options of `mcp-tool` itself.

They come before the tool's name; most are also recognized after it, where the tool has no property of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ...core.errors import UsageError
from ..json_commands.options import read_megabytes, read_seconds

Options = Any
"""One attribute for each option: its text, or None; for a switch, whether it is set."""

OUTPUT_FORMATS = ("text", "json", "yaml", "table")

# name: (placeholder of the value, "" for a switch; whether it is recognized after the tool's name; help text)
OPTIONS: dict[str, tuple[str, bool, str]] = {
    "help": ("", True, "show this help; with a tool, its description, flags, an example and its schema"),
    "output": ("FORM", True, f"{', '.join(OUTPUT_FORMATS)} (default: text)"),
    "output-dir": (
        "FOLDER",
        True,
        "write images, audio and other binary data to this folder (default: a new temporary one)",
    ),
    "json": ("OBJECT", True, "arguments of the tool as a JSON object; flags override it"),
    "json-file": ("FILE", True, "read that object from a file"),
    "json-stdin": ("", True, "read that object from standard input"),
    "no-check": ("", True, "send the arguments without validating them"),
    "verbose": ("", True, "print the server's standard error at the end"),
    "max-result": ("MB", False, "largest reply that is read, in MB (default: 64)"),
    "timeout": (
        "SECONDS",
        False,
        "limit for the start, and for each reply; progress extends it, to 20 times at most",
    ),
    "keep-alive": ("SECONDS", False, "keep the server running this long for later calls with this option; 0 stops it"),
    "config": ("FILE", False, "read only this configuration file"),
    "version": ("", False, "show the version"),
}
_ARGUMENT_SOURCES = ("json", "json-file", "json-stdin")
_MIN_SECONDS = {"timeout": 0.001, "keep-alive": 0}
OPTIONS_AFTER_TOOL = {
    name: bool(value) if is_after_tool else None for name, (value, is_after_tool, _) in OPTIONS.items()
}


def make_default_options() -> Options:
    """Return the options of an empty command line."""
    return SimpleNamespace(**{_attribute_name(name): None if value else False for name, (value, *_) in OPTIONS.items()})


def parse(words: Sequence[str], options: Options) -> list[str]:
    """Parse the options before the tool's name and return the remaining words. Raises UsageError."""
    remaining = list(words)[::-1]
    while remaining and remaining[-1].startswith("-"):
        word = remaining.pop()
        name, has_text, text = ("help", "", "") if word == "-h" else word.removeprefix("--").partition("=")
        if name not in OPTIONS or not word.startswith("-"):
            raise UsageError(f"Unknown option {word}.", suggest_option(name), got=word)
        if OPTIONS[name][0] and not has_text:
            if not remaining:
                raise UsageError(f"--{name} needs a value.", expected=OPTIONS[name][0])
            text = remaining.pop()
        elif has_text and not OPTIONS[name][0]:
            raise UsageError(f"--{name} takes no value.", got=word)
        store_options({name: text}, options)
    return remaining[::-1]


def suggest_option(name: str) -> str:
    """Suggest the closest option to an unknown one."""
    from difflib import get_close_matches

    matches = get_close_matches(name, OPTIONS, n=1)
    return f"Did you mean --{matches[0]}?" if matches else "Flags of a tool come after its name."


def store_options(texts: dict[str, str], options: Options) -> None:
    """Store options by name. Raises UsageError for a repeated option or an invalid value."""
    for name, text in texts.items():
        takes_value = bool(OPTIONS[name][0])
        if takes_value and getattr(options, _attribute_name(name)) is not None:
            raise UsageError(f"--{name} is given more than once.", got=text)
        if name == "output" and text not in OUTPUT_FORMATS:
            raise UsageError(
                f'"{text}" is not an output format.',
                f"Known formats: {', '.join(OUTPUT_FORMATS)}.",
                available=list(OUTPUT_FORMATS),
            )
        value: float | str = text
        if name in _MIN_SECONDS:
            value = read_seconds(f"--{name}", text, _MIN_SECONDS[name])
        elif name == "max-result":
            value = read_megabytes("--max-result", text)
        setattr(options, _attribute_name(name), value if takes_value else True)
    sources = [name for name in _ARGUMENT_SOURCES if getattr(options, _attribute_name(name)) not in (None, False)]
    if len(sources) > 1:
        raise UsageError(f"--{sources[0]} and --{sources[1]} cannot be combined.", "Pass only one of them.")


def _attribute_name(name: str) -> str:
    """Return the attribute name of an option: `keep-alive` is `keep_alive`."""
    return name.replace("-", "_")
