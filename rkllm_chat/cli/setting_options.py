"""Options that set settings: `--set KEY=VALUE`, and those that such pairs replace, which go in version 0.3."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.errors import ConfigError, UsageError

_FORMER_KEYS = (
    "backend",
    "family",
    "key_env",
    "language",
    "max_steps",
    "max_tokens",
    "prompt_profile",
    "seed",
    "temperature",
    "theme",
    "tool_format",
)
_FORMER = {"--context": "context_tokens", **{f"--{key.replace('_', '-')}": key for key in _FORMER_KEYS}}


class _FormerPair(str):
    """A pair that was written as an option of its own, which errors name."""

    option = ""


class _StorePair(argparse.Action):
    """Append `KEY=VALUE` to a list of pairs, where KEY is `const`."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        """Append the pair."""
        pair = _FormerPair(f"{self.const}={values}")
        pair.option = option or ""
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), pair])


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """Add `--set`, whose pairs are in the attribute `set`, and the options that it replaces."""
    about = "set a setting, such as language=ja, temperature=0 or max_tokens=500; repeatable; docs/settings.md has all"
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help=about)
    add_former_options(parser, "set", _FORMER)


def add_former_options(parser: argparse.ArgumentParser, dest: str, keys: Mapping[str, str]) -> None:
    """Add hidden options that store pairs in the list `dest`, with the keys that they stand for."""
    for name, key in keys.items():
        parser.add_argument(name, dest=dest, action=_StorePair, const=key, help=argparse.SUPPRESS)


def parse_settings(pairs: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Parse the pairs of `--set`, whose keys may have their table before them. Raises UsageError."""
    from ..config.named_settings import find_key, parse_value  # takes longer than the rest of --help

    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f'--set: "{pair}" has no "=".', "Write KEY=VALUE.", got=pair)
        try:
            key = find_key(name.strip(), "--set")
            yield key, parse_value(key, text.strip(), "--set")
        except ConfigError as error:
            message = error.message
            if isinstance(pair, _FormerPair):
                message = message.replace(f"--set: {error.details.get('place', '')}", pair.option, 1)
            raise UsageError(message, error.hint, got=pair) from None
