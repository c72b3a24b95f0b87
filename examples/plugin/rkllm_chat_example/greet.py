"""A subcommand: `rkllm-chat greet NAME`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def make_parser() -> argparse.ArgumentParser:
    """Build the argument parser of the command."""
    parser = argparse.ArgumentParser(prog="rkllm-chat greet", description="Greet somebody.")
    parser.add_argument("name", metavar="NAME", help="who is greeted")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    print(f"Hello, {make_parser().parse_args(arguments).name}!")
    return 0
