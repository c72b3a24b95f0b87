"""Argument parser whose usage errors are one line and name the closest known option or command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import IO, Any, NoReturn

from .sanitize import sanitize_for_terminal
from .standard_streams import write_error_text


class Parser(argparse.ArgumentParser):
    """Argument parser that suggests the closest known option for an unknown one."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.allow_abbrev = False  # a new option would change what an abbreviation means
        self.color = False  # Python 3.14 colors help at a terminal, also with --no-color

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments; an unknown option exits with code 2 and a suggestion."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            message = f"unrecognized arguments: {' '.join(unknown)}"
            suggestion = self._suggest_options(unknown)
            self.error(f"{message}. Did you mean {suggestion}?" if suggestion else message)
        return options

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with code 2."""
        write_error_text(sanitize_for_terminal(f"{self.prog}: {message}"))
        self.exit(2)

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        """Return how many words belong to an option; the error for one that lacks its value shows how to write it."""
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            if action.nargs is not None or not action.option_strings:
                raise
            value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
            text = f"it needs a value: {action.option_strings[0]} {value}"
            raise argparse.ArgumentError(action, text) from None

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:  # type: ignore[override]
        """Write a message; argparse ignores that it cannot be written."""
        (file or sys.stderr).write(message)

    def _suggest_options(self, unknown: Sequence[str]) -> str:
        """Return the closest known options, joined by "or"; "" if none is close."""
        options = list(_list_all_options(self))
        names = [word.partition("=")[0] for word in unknown if word.startswith("-") and word not in options]
        matches = [match for name in names for match in get_close_matches(name, options, n=1)]
        return " or ".join(dict.fromkeys(matches))


def get_options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the options of a parser by their names."""
    return parser._option_string_actions  # noqa: SLF001  # argparse has no other way to list them


def get_positionals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the positional arguments of a parser in order."""
    return [action for action in parser._actions if not action.option_strings]  # noqa: SLF001


def get_subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the subcommands of a parser by their names."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in get_positionals(parser):
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found |= action.choices
    return found


def _list_all_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the names of the options of a parser and of its subcommands."""
    yield from get_options(parser)
    for subparser in get_subparsers(parser).values():
        yield from _list_all_options(subparser)
