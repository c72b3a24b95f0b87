"""Run one `mcp-tool` command: install signal handlers, execute it, print its output and close the servers.

The output is written before the servers have stopped. Errors, signals and a closed output pipe also end the servers.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...core.errors import ChatError, InterruptedByUserError
from ...core.standard_streams import WRITE_ERROR_CODE, describe_write_error, open_missing_streams
from ..json_commands.envelope import HELP_KEY, escape_control_characters, make_error_document, write_document
from ..json_commands.invocation import (
    Invocation,
    StoppedBySignal,
    ignore_signals,
    listen_for_signals,
    make_internal_error,
)
from .options import make_options, parse

if TYPE_CHECKING:
    from ...mcp_client.direct.open_server import OpenServer
    from .options import Options


def run(words: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    invocation, options = Invocation(), make_options()
    open_missing_streams()
    try:
        listen_for_signals()
        text, code = _execute(words, options, invocation)
        ignore_signals()
    except (StoppedBySignal, KeyboardInterrupt) as stop:
        name = stop.name if isinstance(stop, StoppedBySignal) else "SIGINT"
        error = InterruptedByUserError(f"Stopped by {name}.", phase=invocation.phase, signal=name)
        text, code = report_error(error, options, invocation), 128 + signal.Signals[name]
    write_error = write_document({HELP_KEY: text}) if text else None
    if write_error and not isinstance(write_error, BrokenPipeError):
        invocation.notices.append(describe_write_error(write_error))
    _write_stderr(invocation, options.verbose)
    for server, tools in invocation.listed_servers:
        from .schema_cache import cache_path, save_tools

        save_tools(cache_path(server), tools)
    if (opened := invocation.opened) is not None:
        with suppress(Exception):  # the output is written already
            opened.close()
    if invocation.other_opened:
        from ..json_commands.ask_servers import close_servers

        close_servers(invocation.other_opened)
    return code or (WRITE_ERROR_CODE if write_error else 0)


def _execute(words: Sequence[str], options: Options, invocation: Invocation) -> tuple[str, int]:
    """Execute the command; return the text for standard output and the exit code."""
    try:
        remaining = parse(words, options)
        if options.version:
            from ...core.version import __version__

            return f"mcp-tool {__version__}", 0
        if remaining[:1] == ["completion"]:
            from .shell_completion import complete_words

            return complete_words(remaining[1:], options), 0
        if remaining:
            from .call_tool import call_tool, is_tool_name

            names = [word for word in remaining if word not in ("-h", "--help")]
            if len(names) == 1 and (options.help or names != remaining) and not is_tool_name(names[0]):
                from .list_tools import list_all_tools

                options.help = True
                return list_all_tools(options, invocation, names[0]), 0
            return call_tool(remaining[0], remaining[1:], options, invocation), 0
        from .list_tools import list_all_tools

        return list_all_tools(options, invocation), 0
    except ChatError as error:
        return report_error(error, options, invocation), error.exit_code
    except Exception as error:  # internal errors are reported like others, and the server is closed
        fault = make_internal_error(error)
        return report_error(fault, options, invocation), fault.exit_code


def report_error(error: ChatError, options: Options, invocation: Invocation) -> str:
    """Queue an error for standard error and return its document if the output is JSON, else ""."""
    server = error.details.get("server")
    lines = error.details.get("lines") or error.details.get("faults") or [str(error)]
    invocation.notices += [invocation.hide_secrets(str(line), server) for line in lines]
    if options.output != "json":
        return ""
    import json

    document = make_error_document(error, lambda value: invocation.hide_secrets(value, server))
    return escape_control_characters(json.dumps(document, ensure_ascii=False, default=str))


def _write_stderr(invocation: Invocation, is_verbose: bool) -> None:
    """Write the queued errors, which servers have no sandbox and, with `--verbose`, what they wrote to standard error.

    Secrets are hidden.
    """
    all_opened = [opened for opened in (invocation.opened, *invocation.other_opened) if opened]
    notices = [*invocation.notices, *filter(None, [opened.sandbox_notice for opened in all_opened])]
    if not (notices or is_verbose):
        return
    from ...core.sanitize import sanitize_for_terminal, sanitize_line  # 2 ms, measured

    lines = [f"mcp-tool: {sanitize_line(line)}" for line in notices]
    if is_verbose and invocation.opened is not None:
        lines.append(sanitize_for_terminal(_read_stderr(invocation, invocation.opened)))
    for opened in invocation.other_opened if is_verbose else ():
        name = opened.server.name
        text = sanitize_for_terminal(_read_stderr(invocation, opened))
        lines += [f"{sanitize_line(name)}: {line}" for line in text.splitlines()]
    if lines:
        with suppress(OSError):
            data = "".join(f"{line}\n" for line in lines if line)
            os.write(sys.stderr.fileno(), data.encode("utf-8", errors="replace"))


def _read_stderr(invocation: Invocation, opened: OpenServer) -> str:
    """Return the end of a server's standard error with its secrets hidden."""
    return str(invocation.hide_secrets(opened.client.stderr_tail, opened.server.name))
