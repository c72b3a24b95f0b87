"""The options of the chat, which may stand before every subcommand.

It imports no module that `--help` does not need: `dataclasses`, `logging` and `pathlib` would take a fifth of its time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from ..core.command_line import Parser
from ..core.version import __version__

_Number = TypeVar("_Number", int, float)
PICK_SESSION = "pick"
"""Value of `--resume` without an id."""
_DESCRIPTION = "Chat with an on-device model that calls MCP tools."
_OUTPUT_FORMATS = ("text", "json", "stream-json")
_THEMES = ("auto", "light", "dark", "none")


def make_parser() -> Parser:
    """Build the argument parser of the chat."""
    parser = Parser(
        prog="rkllm-chat",
        usage="rkllm-chat [OPTIONS] [COMMAND ...]",
        description=_DESCRIPTION,
        epilog="rkllm-chat --help lists the commands.",
    )
    add = parser.add_argument
    prompt = (
        "run one turn and exit; repeatable; - stands for standard input; a pipe is attached; @FILE, @URI attach too"
    )
    add("message", nargs="?", metavar="MESSAGE", help="begin the chat with this message; in a pipe, as -p MESSAGE")
    add("-p", "--prompt", metavar="TEXT", action="append", help=prompt)
    image = "with -p: attach this picture or sound; repeatable"
    add("--image", metavar="FILE", action="append", default=[], help=image)
    add("--output-dir", metavar="DIR", default="", help="save the pictures, sounds and other data of tools here")
    add("--output-format", choices=_OUTPUT_FORMATS, default="text", help="output format of -p (default: text)")
    add("-q", "--quiet", action="store_true", help="with -p: print the answer and errors alone")
    add("--no-stream", action="store_true", help="with -p: print the answer when it is complete")
    add("--print-prompt", action="store_true", help="with -p: print the prompt as it would be sent, and send nothing")
    schema = "with -p: the answer is a JSON value that matches this JSON Schema, a file or the JSON itself"
    add("--json-schema", metavar="FILE|JSON", help=schema)
    add("--timeout", metavar="SECONDS", type=parse_seconds, help="with -p: end after this time, with exit code 7")
    model = "a .gguf or .rkllm file, or the URL of an OpenAI-compatible service (default: the bundled small model)"
    add("--model", metavar="PATH|URL", help=model)
    add("--config", metavar="FILE", default="", help="read only this configuration file")
    add("--server", metavar="NAME", action="append", help="use only this server; repeatable")
    add("--no-servers", action="store_true", help="use no servers")
    profile = "how the model is asked: a row of docs/small-models.md (default: auto, by its file or family)"
    add("--prompt-profile", metavar="NAME", help=profile)
    add("--system", metavar="TEXT", help="system prompt: the role of the model")
    add("--allow", metavar="PATTERN", action="append", help="run matching tools without asking; repeatable")
    add("--deny", metavar="PATTERN", action="append", help="never run matching tools; repeatable")
    session = parser.add_mutually_exclusive_group()
    session.add_argument("--continue", action="store_true", dest="newest", help="resume the newest session")
    resume = "resume this session; a unique prefix of its id is enough; without ID, pick one"
    session.add_argument("--resume", metavar="ID", nargs="?", const=PICK_SESSION, help=resume)
    add("--language", metavar="CODE", help="language of the interface: en, ja or zh (default: auto, by the locale)")
    add("--max-tokens", metavar="N", type=parse_positive, help="maximum tokens of one reply (default: 1024)")
    add(
        "--temperature",
        metavar="X",
        type=parse_temperature,
        help="sampling temperature; 0 is greedy (default: that of the model, else 0.6)",
    )
    add("--context", metavar="N", type=parse_positive, help="context size in tokens (default: that of the model)")
    plain = "line by line, without moving the cursor and without colours: for screen readers and logs"
    add("--plain", action="store_true", help=plain)
    setting = "set a setting, such as seed=7, theme=none, backend=llama; repeatable; /set in the chat lists them"
    add("--set", metavar="KEY=VALUE", action="append", default=[], help=setting)
    log = "write a log of starts, stops, errors, and sizes and times of calls, as JSON lines (default: no log)"
    add("--log-file", metavar="FILE", help=log)
    add("--log-bodies", action="store_true", help="include sent and received content in the log, with secrets hidden")
    add("-v", "--verbose", action="store_true", help="log more details")
    add("--version", action="version", version=f"rkllm-chat {__version__}")
    _add_renamed(add)
    return parser


def _add_renamed(add: Callable[..., object]) -> None:
    """Add the options that `--set` and `--timeout` replace; they are not shown, and go in version 0.3."""
    add("--max-cost-s", dest="timeout", metavar="SECONDS", type=parse_seconds, help=argparse.SUPPRESS)
    for name in ("--backend", "--tool-format"):
        add(name, metavar="NAME", help=argparse.SUPPRESS)
    add("--max-steps", metavar="N", type=parse_positive, help=argparse.SUPPRESS)
    add("--seed", metavar="N", type=parse_integer, help=argparse.SUPPRESS)
    add("--theme", choices=_THEMES, help=argparse.SUPPRESS)
    add("--no-color", action="store_true", help=argparse.SUPPRESS)


def parse_positive(text: str) -> int:
    """Parse an integer from 1 to 1,000,000 for argparse."""
    number = parse_integer(text)
    if not 0 < number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"must be from 1 to 1000000, not {text}")
    return number


def parse_integer(text: str) -> int:
    """Parse an integer for argparse, whose own message would name this function."""
    return _parse(int, text, "a whole number")


def parse_seconds(text: str) -> float:
    """Parse a positive number of seconds, at most one day, for argparse."""
    number = _parse(float, text, "a number of seconds")
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 86400, not {text}")
    return number


def parse_temperature(text: str) -> float:
    """Parse a sampling temperature from 0 to 100 for argparse."""
    number = _parse(float, text, "a number")
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"must be from 0 to 100, not {text}")
    return number


def _parse(convert: Callable[[str], _Number], text: str, what: str) -> _Number:
    try:
        return convert(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}") from None
