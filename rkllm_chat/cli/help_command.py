"""Answer a question from the page of questions: `rkllm-chat help WORDS`."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size

from ..core.command_line import Parser
from ..core.errors import UsageError
from ..core.i18n import AUTO, load
from ..tui.markdown.cells import break_words
from ..tui.question_search import find_answer, format_found
from .output import write_output

_COMMAND = "rkllm-chat help"


def main(arguments: Sequence[str]) -> int:
    """Run the command. Raises UsageError."""
    text = " ".join(make_parser().parse(arguments).words)
    words = load(AUTO)
    answer = find_answer(text, words)
    if not answer.text:
        hint = format_found(answer, words, _COMMAND) or "rkllm-chat --help lists the commands."
        raise UsageError(f'No {"single " if answer.near else ""}topic matches "{text}".', hint)
    lines = format_found(answer, words, _COMMAND).splitlines()
    width = get_terminal_size().columns
    write_output("".join(f"{row}\n" for line in lines for row in break_words(line, width)))
    return 0


def make_parser() -> Parser:
    """Build the argument parser of the command."""
    parser = Parser(prog=_COMMAND, description="Answer a question, or describe a command.")
    parser.add_argument("words", metavar="WORD", nargs="+", help="words to search for, or the name of a command")
    return parser
