"""All tools of all configured servers, a line each. The servers start side by side; one that fails is told so."""

from __future__ import annotations

from threading import Thread

from ..clean import clean_line
from ..errors import ChatError, UsageError
from ..oneshot.commands import prepare
from ..oneshot.sitting import explain_fault, held_back
from ..reach import open_server
from .calling import find_configured
from .options import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..config import ServerConfig
    from ..reach import Opened
    from .course import Course
    from .options import Options

USAGE = """\
Usage: mcp-tool [OPTIONS] SERVER__TOOL [FLAGS]

Calls one tool of a configured MCP server. SERVER.TOOL and SERVER/TOOL mean the same. What comes before the tool's name
is for us, what comes behind it for the tool; there our options are understood where the tool has no argument of that
name. mcp-tool SERVER__TOOL --help shows a tool's flags; mcp-tool completion bash|zsh|fish prints a completion script.

Options:"""
EXIT_CODES = """\
Exit codes: 0 ok, 1 the tool failed, 2 usage or arguments, 3 configuration, 4 authentication, 5 cannot start or connect,
6 protocol, unknown server or tool, 7 timeout, 8 internal, 130 interrupted, 143 terminated."""


def list_all(options: Options, course: Course) -> str:
    """The page of everything; an error without --help, for then a tool was meant to be named."""
    found = None
    try:
        found = find_configured(options)
    except ChatError as error:
        if not options.help or options.output in ("json", "yaml"):
            raise
        nothing = "\n".join(error.details.get("lines", [str(error)]))
    if found is None:
        return f"{show_usage()}\n\n{nothing}\n\n{EXIT_CODES}"
    if not options.help:
        raise UsageError("No tool is named.", "mcp-tool --help lists them.")
    asked = [Asked(name, options, course, found) for name in found.entries]
    for one in asked:
        one.start()
    for one in asked:
        one.ask()
    for one in asked:
        one.wait()
    course.listed += [(found.get(one.name)[0], one.tools) for one in asked if one.error is None]
    return show_all(asked, options)


class Asked:
    """One server that is asked for its tools. `error` says why it did not tell."""

    def __init__(self, name: str, options: Options, course: Course, found: Any) -> None:
        self.name = name
        self.tools: list[dict[str, Any]] = []
        self.error: ChatError | None = None
        self._course, self._options, self._found = course, options, found
        self._server: ServerConfig | None = None
        self._opened: Opened | None = None
        self._secrets = course.secrets
        self._thread: Thread | None = None

    def start(self) -> None:
        """Starts its process without waiting. All are started before the first thread: one that starts stands in its
        folder for a moment, and so do we."""
        try:
            self._server = prepare(self._found, self.name, self._options, self._course)
            self._secrets = self._course.secrets
            if self._server.command:
                self._open(self._server)
        except ChatError as error:
            self.error = error

    def _open(self, server: ServerConfig) -> Opened:
        with held_back():
            self._opened = open_server(server)
            self._course.others.append(self._opened)
        return self._opened

    def ask(self) -> None:
        if self._server and not self.error:
            self._thread = Thread(target=self._list, args=(self._server,))
            self._thread.start()

    def _list(self, server: ServerConfig) -> None:
        try:
            self.tools = (self._opened or self._open(server)).list_tools()
        except ChatError as error:
            self.error = error
        except Exception as error:  # whatever it is, the other servers are listed all the same
            self.error = explain_fault(error)

    def wait(self) -> None:
        if self._thread:
            self._thread.join()

    @property
    def reason(self) -> str:
        """Why it did not tell, without secrets."""
        return self._secrets.hide_all(str(self.error))


def show_all(asked: list[Asked], options: Options) -> str:
    if options.output in ("json", "yaml"):
        from .outputs import OUTPUTS

        result = [{"server": one.name, "ok": one.error is None, **contents_of(one)} for one in asked]
        return OUTPUTS[options.output]({"servers": result})
    from .pages import show_server

    parts = [show_usage()]
    for one in asked:
        lines = [f"  (not available: {clean_line(one.reason)})"] if one.error else show_server(one.name, one.tools)
        parts.append("\n".join([f"{one.name}:", *(lines or ["  (no tools)"])]))
    return "\n\n".join([*parts, EXIT_CODES])


def contents_of(one: Asked) -> dict[str, Any]:
    if one.error is None:
        return {"tools": one.tools}
    return {"error": {"type": one.error.type_word, "message": one.reason}}


def show_usage() -> str:
    from .pages import layout

    rows = [(" ".join(filter(None, (f"--{name}", value))), said) for name, (value, _, said) in OPTIONS.items()]
    return "\n".join([USAGE, *layout(rows)])
