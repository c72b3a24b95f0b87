"""List, export and delete saved sessions: `rkllm-chat sessions ACTION ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from ..config.loader import state_folder
from ..core import i18n
from ..core.command_line import Parser
from ..core.errors import ConfigError, UsageError
from ..core.sanitize import sanitize_for_terminal, sanitize_line
from ..storage.export import EXPORTS, export_conversation, has_export, list_exports, write_export
from ..storage.session_files import SessionDirectory
from ..storage.session_index import SessionSummary, list_sessions, summarize
from .output import write_output, write_result

_ACTIONS = {
    "list": "list the newest sessions, or those that contain all of the words; this is the default",
    "export": f"print a conversation, or write it to a file, as {', '.join(EXPORTS)}",
    "delete": "delete sessions",
}
_RENAMED = {"search": "list", "show": "export"}
"""Actions that became parts of others -> what to write now. They are not shown, and go in version 0.3."""
_DEFAULT_LIMIT = 50
_DESCRIPTION = "List and manage saved sessions. The beginning of an ID is enough where it is unique."


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 1 if the user declined to delete. Raises ChatError."""
    words = list(arguments)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "list")
    words[0] = _RENAMED.get(words[0], words[0])
    options = make_parser().parse(words)
    directory = SessionDirectory(state_folder() / "sessions")
    if options.action == "list":
        return _list(directory, options)
    if options.action == "delete":
        return _delete(directory, [directory.find_id(name) for name in options.ids], options.yes)
    name = directory.find_id(options.id)
    return _export(directory, name, options)


def make_parser() -> Parser:
    """Build the argument parser of the command."""
    parser = Parser(prog="rkllm-chat sessions", description=_DESCRIPTION)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    parsers = {name: actions.add_parser(name, help=text, description=text) for name, text in _ACTIONS.items()}
    add = parsers["list"].add_argument
    add("words", metavar="WORD", nargs="*", help="word of a message or of a title")
    add("--here", action="store_true", help=argparse.SUPPRESS)  # goes in version 0.3: --json has the folder
    add("--limit", metavar="N", type=int, default=_DEFAULT_LIMIT, help="maximum number (default: %(default)s)")
    add("--json", action="store_true", help="print one JSON document")
    parsers["export"].add_argument("id", metavar="ID", help="a session")
    output = f"{', '.join(EXPORTS)}, to print it so; or a new file, in the format of its suffix (default: md)"
    parsers["export"].add_argument("-o", "--output", metavar="FORMAT|FILE", default="md", help=output)
    parsers["export"].add_argument("--format", choices=EXPORTS, help=argparse.SUPPRESS)  # goes in version 0.3
    parsers["delete"].add_argument("ids", metavar="ID", nargs="+", help="a session")
    parsers["delete"].add_argument("-y", "--yes", action="store_true", help="delete without asking")
    return parser


def _list(directory: SessionDirectory, options: argparse.Namespace) -> int:
    """Print the sessions, newest first."""
    if options.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {options.limit}.")
    search = " ".join(options.words)
    summaries = list_sessions(directory, search, options.limit, str(Path.cwd()) if options.here else "")
    if options.json:
        write_result([asdict(summary) for summary in summaries])
        return 0
    write_output("".join(f"{_describe(summary)}\n" for summary in summaries))
    if not summaries:
        print("No session was found." if search or options.here else "No session is saved.", file=sys.stderr)
    return 0


def _describe(session: SessionSummary) -> str:
    """Return the line of a session in the list."""
    when = datetime.fromtimestamp(session.updated_at).astimezone()
    turns = f"{session.turns} {'turn' if session.turns == 1 else 'turns'}"
    title = session.title or "(no message)"
    return f"{session.name}  {when:%Y-%m-%d %H:%M}  {turns:>9}  {title}  [{sanitize_line(session.folder)}]"


def _export(directory: SessionDirectory, name: str, options: argparse.Namespace) -> int:
    """Write a conversation to standard output, or to a new file. Raises ConfigError."""
    path = None if has_export(options.output) else Path(options.output)
    suffix = path.suffix.removeprefix(".") if path else options.output
    format_name = options.format or suffix or "md"
    if not has_export(format_name):
        raise UsageError(f"Unknown export format {format_name}.", f"Available formats: {', '.join(list_exports())}.")
    text = export_conversation(format_name, name, directory.read(name).entries, i18n.load(i18n.AUTO))
    if path is None:
        write_output(sanitize_for_terminal(text) if sys.stdout.isatty() else text)
        return 0
    try:
        write_export(path, text)
    except OSError as error:
        hint = "Existing files are not overwritten." if isinstance(error, FileExistsError) else ""
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint) from None
    return 0


def _delete(directory: SessionDirectory, names: Sequence[str], is_confirmed: bool) -> int:
    """Delete sessions after a question. Raises UsageError if nobody can be asked."""
    if not is_confirmed:
        if not sys.stdin or not sys.stdin.isatty():
            raise UsageError("Deleting needs a confirmation, and standard input is not a terminal.", "Add --yes.")
        write_output("".join(f"{_describe(summarize(name, directory.read(name).entries))}\n" for name in names))
        print(f"Delete {'this session' if len(names) == 1 else 'these sessions'}? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return 1
    for name in dict.fromkeys(names):
        directory.delete(name)
    return 0
