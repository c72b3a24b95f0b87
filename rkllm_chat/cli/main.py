"""Dispatch the `rkllm-chat` command line to a subcommand or to the chat, and map errors and signals to exit codes.

A module that a command needs is imported when the command runs, so that `--help` stays fast.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from ..core.errors import ChatError
from ..core.plugins import find_plugin
from ..core.redact import Redactor
from ..core.sanitize import sanitize_for_terminal
from ..core.standard_streams import WRITE_ERROR_CODE, describe_write_error, open_missing_streams, write_error_text
from . import json_commands
from .chat_options import make_parser
from .commands import COMMANDS, format_help, split_command
from .process_end import discard_unwritable_output, flush_output, is_output_broken


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rkllm-chat` and return the exit code.

    Args:
        argv: The arguments without the program's name; defaults to `sys.argv[1:]`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_missing_streams()
    try:
        try:
            return _dispatch(arguments)
        finally:  # also after the exit that argparse raises for --help
            flush_output()
    except ChatError as error:
        write_error_text(f"rkllm-chat: {sanitize_for_terminal(str(Redactor().redact_error(error)))}")
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of the pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None or not is_output_broken():
            raise
        print(f"rkllm-chat: {describe_write_error(error)}", file=sys.stderr)
        return WRITE_ERROR_CODE
    finally:
        discard_unwritable_output()


def _dispatch(arguments: list[str]) -> int:
    """Run the subcommand that the arguments name, or the chat."""
    if arguments and arguments[0] in json_commands.SUMMARIES:
        json_commands.main(arguments)
    parser = make_parser()
    name, rest = split_command(arguments, parser)
    if name in json_commands.SUMMARIES:
        json_commands.main([name, *rest])
    if name == "chat" and "chat" not in arguments and not {"-h", "--help"}.isdisjoint(rest):
        print(format_help(), end="")
        return 0
    if name == "chat":
        options = parser.parse(rest)  # before the import: this may be --help
        from .chat_command import open_chat

        return open_chat(options)
    is_built_in = name in COMMANDS
    module = import_module(f"...{COMMANDS[name].module}", __name__) if is_built_in else find_plugin("commands", name)
    code: int = module.main(rest)
    return code
