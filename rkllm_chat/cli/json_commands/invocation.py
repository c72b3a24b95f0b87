"""State of one run of a JSON command or of `mcp-tool`: its servers, its signal handlers and its time limits.

The signal handlers are installed before a server is started.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...config.servers import ServerConfig
from ...core.errors import ChatError, TimeLimitError

if TYPE_CHECKING:
    from ...core.redact import Redactor
    from ...mcp_client.direct.open_server import OpenServer
    from ...mcp_client.protocol.dialog import AskForm

_SCHEMA_LIMIT_S = 2.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedBySignal(BaseException):
    """A signal that ends the command. `name` is the signal's name."""

    def __init__(self, number: int) -> None:
        self.name = signal.Signals(number).name


class Invocation:
    """State of one command run.

    Attributes:
        command: Name of the command, once it is known.
        phase: Current step ("arguments", "start", "list", "call", ...), reported in errors.
        opened: The open server, once it is started.
        selected_servers: Each selected server, and as its file defines it, by name.
        listed_servers: Each server that was listed, as its file defines it, and its tools, for the completion cache.
        other_opened: Open servers besides `opened`, when all servers are listed.
        limits: The limit of a message, if an option sets it.
        notices: What the user should know, with secrets hidden.
        wants_meta: Whether the document includes `meta()`.
        is_verbose: Whether the server's standard error is printed at the end.
    """

    def __init__(self) -> None:
        self.command = ""
        self.phase = "arguments"
        self.opened: OpenServer | None = None
        self.selected_servers: dict[str, tuple[ServerConfig, ServerConfig]] = {}
        self.listed_servers: list[tuple[ServerConfig, list[dict[str, Any]]]] = []
        self.other_opened: list[OpenServer] = []
        self.limits: dict[str, int] = {}
        self.notices: list[str] = []
        self.wants_meta = self.is_verbose = False

    @property
    def secrets(self) -> Redactor:
        """A redactor that hides the secrets of the server that was selected last."""
        from ...core.redact import Redactor

        if not self.selected_servers:
            return Redactor()
        from ...config.secrets import make_redactor

        return make_redactor(*[*self.selected_servers.values()][-1], os.environ)

    def select_server(self, server: ServerConfig, written: ServerConfig) -> None:
        """Use a server for the rest of the run; `written` is the server as its file defines it."""
        self.selected_servers.pop(server.name, None)
        self.selected_servers[server.name] = server, written

    def hide_secrets(self, value: Any, server: str | None) -> Any:
        """Hide the secrets of a server in a JSON value, or those of all servers if it is None or not selected."""
        from ...config.secrets import make_redactor
        from ...core.redact import Redactor

        names = [server] if server in self.selected_servers else self.selected_servers
        value = Redactor().redact_all(value) if not names else value
        for name in names:
            value = make_redactor(*self.selected_servers[name], os.environ).redact_all(value)
        return value

    def take_options(self, options: Any) -> None:
        """Apply the options that decide how a server is opened and reported."""
        self.is_verbose = options.verbose
        if options.max_result is not None:
            self.limits["max_bytes"] = options.max_result << 20

    def open(self, server: ServerConfig, ask_form: AskForm | None = None) -> OpenServer:
        """Start or connect to the server; `ask_form` answers its forms.

        Signals are blocked while a process starts, so that none arrives before `opened` refers to it.
        """
        from ...mcp_client.direct.open_server import open_server

        self.phase = "start"
        with block_signals() if server.command else _signals_unblocked():
            self.opened = open_server(server, ask_form=ask_form, **self.limits)
        return self.opened

    def meta(self) -> dict[str, Any]:
        """Return the server's name and version, the protocol version and the seconds of each phase."""
        if self.opened is None:
            return {}
        client = self.opened.client
        return {
            "server": self.opened.server.name,
            "serverInfo": client.info,
            "protocolVersion": client.version,
            "seconds": {phase: round(seconds, 6) for phase, seconds in client.phase_seconds.items()},
        }


def make_internal_error(error: Exception) -> ChatError:
    """Convert an unexpected exception into a ChatError with the file and line of its origin."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    location = f"{frame.tb_frame.f_code.co_filename.rpartition('/')[2]}:{frame.tb_lineno}" if frame else ""
    return ChatError(
        f"{type(error).__name__}: {error}", "This is a bug in rkllm-chat; please report it.", where=location
    )


def listen_for_signals() -> None:
    """Raise StoppedBySignal on SIGINT, SIGTERM and SIGHUP, except for signals ignored at the start (nohup)."""

    def stop(number: int, _frame: object) -> None:
        ignore_signals()
        raise StoppedBySignal(number)

    for number in _STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def ignore_signals() -> None:
    """Ignore further signals; shutting down the server has its own time limits."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def block_signals() -> Iterator[None]:
    """Block the signals that end a command until the context is left."""
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


@contextmanager
def limit_schema_time(seconds: float = _SCHEMA_LIMIT_S) -> Iterator[None]:
    """Limit the evaluation of a server's schema, which may hold a regular expression of exponential cost.

    Raises:
        TimeLimitError: The limit of `seconds` is exceeded.
    """

    def stop(_number: int, _frame: object) -> None:
        message = f"Validating the arguments against the tool's schema took longer than {seconds:g} s."
        raise TimeLimitError(message, "Pass the arguments as JSON and add --no-check.", phase="arguments")

    previous_handler = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)


@contextmanager
def _signals_unblocked() -> Iterator[None]:
    yield
