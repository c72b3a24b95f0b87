"""Serve an MCP server over streamable HTTP, on loopback by default.

Requests need a known Host and Origin, which prevents DNS rebinding by web pages (MCP 2025-11-25 and 2026-07-28,
Transports, Security Warning), and a bearer token, also on loopback: other users of the machine reach that too.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import os
import re
import secrets
import signal
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..core.errors import StartError, UsageError
from ..core.private_files import make_folder, open_private
from ..core.sanitize import sanitize_line
from ..mcp_client.timing import RateLimit
from .http_limits import SessionLimit, TimedProtocol

_LOOPBACK = "127.0.0.1"
ENDPOINT_PATH = "/mcp"
_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_SESSIONS = 100
_STOP_S = 0.7
_MAX_LOGS_PER_SECOND = 10
_UVICORN_LOGGER = "uvicorn.error"
_SDK_GUARD_LOGGER = "mcp.server.transport_security"
TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1

_MIN_TOKEN_CHARS, _MAX_TOKEN_CHARS = 20, 200

log = logging.getLogger(__name__)


def read_token(variable: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the token in an environment variable; "" if no variable is named.

    Raises:
        UsageError: The variable is unset or its value is not a bearer token.
    """
    token = environment.get(variable, "")
    if variable and not token:
        raise UsageError(f"The environment variable {variable}, named by --token-env, is not set.")
    if token and not TOKEN_PATTERN.fullmatch(token):
        hint = "Use only letters, digits and . _ ~ + / -."
        raise UsageError(f"The token in {variable} contains characters that a bearer token must not contain.", hint)
    return token


def load_token(path: Path) -> str:
    """Return the token in a file that only this user can read; create both where they are missing.

    Raises:
        OSError: The file cannot be read or created.
    """
    make_folder(path.parent)
    with os.fdopen(open_private(path, os.O_RDWR | os.O_CREAT), "r+", encoding="ascii", errors="replace") as file:
        token = file.read(_MAX_TOKEN_CHARS)
        if len(token) < _MIN_TOKEN_CHARS or not TOKEN_PATTERN.fullmatch(token):
            token = make_token()
            file.seek(0)
            file.truncate()
            file.write(token)
    return token


def make_token() -> str:
    """Return a new token."""
    return secrets.token_urlsafe(32)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket. Host "" is loopback; port 0 selects a free port.

    Raises:
        StartError: The address is unknown or the port is unavailable.
    """
    host = host or _LOOPBACK
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise StartError(f'The address "{host}" is unknown.') from None
    try:
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"Port {port} on {host} is in use.", "Choose another port, or 0 for a free one.") from None
        raise StartError(f"Port {port} on {host} cannot be opened: {os.strerror(error.errno or 0)}.") from None


def find_url(listener: socket.socket, host: str, path: str = ENDPOINT_PATH) -> str:
    """Return the URL for clients; a wildcard address is replaced by the machine's name."""
    address, port = listener.getsockname()[:2]
    name = socket.gethostname() if ip_address(address).is_unspecified else host or _LOOPBACK
    return f"http://{_bracket(name)}:{port}{path}"


def _bracket(host: str) -> str:
    """Return the host as a URL writes it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


async def serve(server: MCPServer, listener: socket.socket, host: str, token: str) -> int:
    """Serve until cancelled, then stop within a second; open streams are cut off."""
    logging.getLogger(_SDK_GUARD_LOGGER).setLevel(logging.ERROR)  # Guard logs the same with the client's address
    app = server.streamable_http_app(
        streamable_http_path=ENDPOINT_PATH,
        max_request_body_size=_MAX_BODY_BYTES,
        max_sessions=_MAX_SESSIONS + 1,  # SessionLimit makes room first
        # Guard checks instead: every path, before a body is read, with the address the client connected to
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    guard = Guard(SessionLimit(app, _MAX_SESSIONS), list_allowed_hosts(host), token)
    return await serve_app(guard, listener, server.session_manager.run())


async def serve_app(app: ASGIApp, listener: socket.socket, lifetime: AbstractAsyncContextManager[object]) -> int:
    """Serve an ASGI application until cancelled, then stop within a second; open streams are cut off.

    Args:
        app: The application, with its own `Guard`.
        listener: The listening socket.
        lifetime: Entered before the first request and left after the last one.
    """
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=0,
    )
    http_server = HttpServer(config)
    log_rate = RateLimit(_MAX_LOGS_PER_SECOND, 1.0)  # a client that sends no HTTP must not fill the log
    logging.getLogger(_UVICORN_LOGGER).addFilter(lambda _: log_rate.try_acquire())
    serving = asyncio.create_task(run_server(http_server, lifetime, listener))
    try:
        await asyncio.shield(serving)
    finally:
        logging.getLogger(_UVICORN_LOGGER).setLevel(logging.CRITICAL)  # connections cut off from here on are expected
        http_server.should_exit = True
        _, running = await asyncio.wait([serving, *http_server.server_state.tasks], timeout=_STOP_S)
        if running:
            end_process()
    return 0


class HttpServer(uvicorn.Server):
    """uvicorn server that leaves signal handling to the caller."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Install no signal handlers."""
        yield


async def run_server(
    http_server: HttpServer, lifetime: AbstractAsyncContextManager[object], listener: socket.socket
) -> None:
    """Run the HTTP server inside a context, such as the session manager of an MCP server."""
    async with lifetime:
        await http_server.serve([listener])


def end_process() -> None:
    """End the process by SIGTERM.

    A tool that blocks in a thread cannot be cancelled, and the interpreter would wait for it.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def list_allowed_hosts(host: str) -> list[str]:
    """Return the host names that requests may use, besides the address of the connection."""
    names = [_LOOPBACK, "localhost", "[::1]"]
    if host:
        machine = socket.gethostname()
        names += [_bracket(host), machine, f"{machine}.local"]
    return names


class Guard:
    """ASGI middleware that authorizes requests.

    Answers 421 for a foreign Host, 403 for a foreign Origin and 401 for a missing or wrong token.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Sequence[str],
        token: str,
        render_refusal: Callable[[Response], Response] = lambda refusal: refusal,
    ) -> None:
        """Guard an application.

        Args:
            app: The application.
            names: Host names that requests may use, besides the address of the connection.
            token: The bearer token that requests need; "" for none.
            render_refusal: Writes a refusal as the application writes its errors.
        """
        self.app = app
        self.names = names
        self.token = token
        self._render_refusal = render_refusal
        self._log_rate = RateLimit(_MAX_LOGS_PER_SECOND, 1.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request."""
        request = Request(scope)
        refusal = await self.check_names(request) or self.check_token(request)
        if refusal:
            self._log_refusal(request, refusal.status_code)
        await (self._render_refusal(refusal) if refusal else self.app)(scope, receive, send)

    def _log_refusal(self, request: Request, status: int) -> None:
        """Log a refused request in one line, at most 10 a second."""
        if self._log_rate.try_acquire():
            client = request.client.host if request.client else "unknown"
            names = {name: request.headers.get(name, "") for name in ("host", "origin")}
            shown = ", ".join(f"{name} {sanitize_line(value)[:100]}" for name, value in names.items() if value)
            log.warning("refused %s from %s with HTTP %d (%s)", request.method, client, status, shown)

    async def check_names(self, request: Request) -> Response | None:
        """Return an error response if Host or Origin is not allowed."""
        address, _ = request.scope["server"]
        names = [*self.names, _bracket(address)]
        settings = TransportSecuritySettings(
            allowed_hosts=[host for name in names for host in (name, f"{name}:*")],
            allowed_origins=[f"http://{host}" for name in names for host in (name, f"{name}:*")],
        )
        return await TransportSecurityMiddleware(settings).validate_request(request)

    def check_token(self, request: Request) -> Response | None:
        """Return an error response if the bearer token is missing or wrong."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if not self.token or (
            scheme.lower() == "bearer" and hmac.compare_digest(credentials.encode(), self.token.encode())
        ):
            return None
        headers = {"www-authenticate": 'Bearer error="invalid_token"' if credentials else "Bearer"}
        return PlainTextResponse("This server requires a bearer token.", 401, headers)
