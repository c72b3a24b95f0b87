"""The options of the chat, which may stand before every subcommand.

It imports no module that `--help` does not need: `dataclasses`, `logging` and `pathlib` would take a fifth of its time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ..core.command_line import Parser
from ..core.version import __version__
from .setting_options import add_setting_options

PICK_SESSION = "pick"
"""Value of `--resume` without an id."""
_DESCRIPTION = "Chat with an on-device model that calls MCP tools."
_OUTPUT_FORMATS = ("text", "json", "stream-json", "prompt")


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
    add("--output-dir", metavar="DIR", default="", help="save the pictures, sounds and other data of tools here")
    output = "output format of -p (default: text); prompt prints the prompt as it would be sent, and sends nothing"
    add("--output-format", choices=_OUTPUT_FORMATS, default="text", help=output)
    add("-q", "--quiet", action="store_true", help="with -p: print the answer and errors alone")
    schema = "with -p: the answer is a JSON value that matches this JSON Schema, a file or the JSON itself"
    add("--json-schema", metavar="FILE|JSON", help=schema)
    add("--timeout", metavar="SECONDS", type=parse_seconds, help="with -p: end after this time, with exit code 7")
    model = "a .gguf or .rkllm file, or the URL of an OpenAI-compatible service (default: the bundled small model)"
    add("-m", "--model", metavar="PATH|URL", help=model)
    add("--config", metavar="FILE", default="", help="read only this configuration file")
    add("--server", metavar="NAME", action="append", help="use only this server; repeatable")
    add("--no-servers", action="store_true", help="use no servers")
    add("--system", metavar="TEXT", help="system prompt: the role of the model")
    add("--allow", metavar="PATTERN", action="append", help="run matching tools without asking; repeatable")
    add("--deny", metavar="PATTERN", action="append", help="never run matching tools; repeatable")
    session = parser.add_mutually_exclusive_group()
    session.add_argument("--continue", action="store_true", dest="newest", help="resume the newest session")
    resume = "resume this session; a unique prefix of its id is enough; without ID, pick one"
    session.add_argument("--resume", metavar="ID", nargs="?", const=PICK_SESSION, help=resume)
    plain = "line by line, without moving the cursor and without colours: for screen readers and logs"
    add("--plain", action="store_true", help=plain)
    add_setting_options(parser)
    log = "write a log of starts, stops, errors, and sizes and times of calls, as JSON lines (default: no log)"
    add("--log-file", metavar="FILE", help=log)
    log = "log more details; twice: also what is sent and received, with secrets hidden"
    add("-v", "--verbose", action="count", default=0, help=log)
    add("--version", action="version", version=f"rkllm-chat {__version__}")
    _add_renamed(add)
    return parser


def _add_renamed(add: Callable[..., object]) -> None:
    """Add what others replace, which goes in version 0.3, and `--json`, which other commands have; none is shown."""
    add("--max-cost-s", dest="timeout", metavar="SECONDS", type=parse_seconds, help=argparse.SUPPRESS)
    add("--json", dest="output_format", action="store_const", const="json", help=argparse.SUPPRESS)
    add("--image", action="append", default=[], help=argparse.SUPPRESS)
    for name in ("--no-color", "--no-stream", "--print-prompt", "--log-bodies"):
        add(name, action="store_true", help=argparse.SUPPRESS)


def parse_seconds(text: str) -> float:
    """Parse a positive number of seconds, at most one day, for argparse, whose own message would name this function."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text!r}") from None
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 86400, not {text}")
    return number
