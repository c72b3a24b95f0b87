"""Run one JSON command: install signal handlers, execute it, print one document and close the server.

Signals, errors and a closed output pipe also end the server, after the document that reports them is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...core.errors import ChatError, InterruptedByUserError
from ...core.standard_streams import open_missing_streams
from .invocation import Invocation, StoppedBySignal, ignore_signals, listen_for_signals, make_internal_error


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code: 1 if it failed or its document could not be written."""
    invocation = Invocation()
    open_missing_streams()
    try:
        listen_for_signals()
        document = run_json_command(arguments, invocation)
        ignore_signals()
    except StoppedBySignal as stop:
        document = _interrupted_document(stop.name, invocation)
    except KeyboardInterrupt:
        document = _interrupted_document("SIGINT", invocation)
    from .envelope import write_document

    write_error = write_document(_add_notices(document, invocation))
    if (opened := invocation.opened) is not None:
        if invocation.is_verbose and (stderr_text := opened.client.stderr_tail):
            from ...core.sanitize import sanitize_for_terminal

            sys.stderr.write(f"{sanitize_for_terminal(invocation.secrets.redact_all(stderr_text))}\n")
            sys.stderr.flush()
        with suppress(Exception):  # the document is already written, so an error cannot be reported
            opened.close()
    return 0 if write_error is None and document.get("ok", True) else 1


def run_json_command(arguments: Sequence[str], invocation: Invocation) -> dict[str, Any]:
    """Execute the command and return its document."""
    try:
        from .commands import COMMANDS
        from .options import parse

        options = parse(arguments)
        invocation.command = options.command
        if options.help:
            return {"help": options.help}
        invocation.take_options(options)
        invocation.wants_meta = options.meta or options.verbose
        result = COMMANDS[options.command](options, invocation)
        document = {"ok": True, "result": invocation.secrets.redact_named(result)}
        return {**document, "meta": invocation.meta()} if invocation.wants_meta else document
    except ChatError as error:
        return make_failure(error, invocation)
    except Exception as error:  # callers always get a document, also for internal errors
        return make_failure(make_internal_error(error), invocation)


def _add_notices(document: dict[str, Any], invocation: Invocation) -> dict[str, Any]:
    """Add what the user should know about the run; without a notice the document stays as it is."""
    opened = invocation.opened
    message = document.get("error", {}).get("message", "\0")  # of a skipped entry, it is the notice itself
    notices = [notice for notice in invocation.notices if not notice.startswith(message)]
    notices += [*filter(None, [opened.sandbox_notice] if opened else [])]
    notices += opened.call_notices if opened else []
    if opened and invocation.command.startswith("list-"):
        notices += opened.list_notices
    return {**document, "notices": notices} if notices else document


def make_failure(error: ChatError, invocation: Invocation) -> dict[str, Any]:
    """Build the document of an error."""
    from .envelope import make_error_document

    return make_error_document(error, invocation.secrets.redact_all)


def _interrupted_document(name: str, invocation: Invocation) -> dict[str, Any]:
    """Build the document of a command that a signal has ended."""
    return make_failure(InterruptedByUserError(f"Stopped by {name}.", phase=invocation.phase, signal=name), invocation)
