"""Options of `mcp-tool` itself.

They come before the tool's name; most are also recognized after it, where the tool has no property of that name.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import UsageError
from ..json_commands.options import Options, check_combination, make_default_options, take_option

__all__ = ["AFTER_TOOL", "NAMES", "Options", "check_combination", "make_options", "parse", "take_option_after_tool"]

AFTER_TOOL = ("--help", "--output", "--output-dir", "--json", "--json-file", "--json-stdin", "--no-check", "--verbose")
NAMES = (*AFTER_TOOL, "--max-result", "--timeout", "--keep-alive", "--config", "--version")


def make_options() -> Options:
    """Return the options of an empty command line."""
    return make_default_options(NAMES)


def parse(words: Sequence[str], options: Options) -> list[str]:
    """Parse the options before the tool's name and return the remaining words. Raises UsageError."""
    remaining = list(words)
    while remaining and remaining[0].startswith("-"):
        take_option(remaining.pop(0), remaining, NAMES, options)
    check_combination(options)
    return remaining


def take_option_after_tool(word: str, words: list[str], options: Options) -> None:
    """Store an option that stands after the tool's name; its value may be removed from the following `words`.

    Raises:
        UsageError: The option is invalid, or allowed only before the tool's name.
    """
    if word != "-h" and word.partition("=")[0] not in AFTER_TOOL:
        raise UsageError(f"{word.partition('=')[0]} must come before the tool's name.")
    take_option(word, words, AFTER_TOOL, options)
