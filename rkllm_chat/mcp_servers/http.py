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
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..core.errors import StartError, UsageError
from ..core.file_writes import lock_edits, replace_file
from ..core.private_files import make_folder, read_private
from ..core.sanitize import shorten_line
from .http_limits import SessionLimit, TimedProtocol

_LOOPBACK = "127.0.0.1"
ENDPOINT_PATH = "/mcp"
_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_SESSIONS = 100
_STOP_S = 0.7
_UVICORN_LOGGER = "uvicorn.error"
TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_HTTP_PORT, _JSON, _MAX_LOGGED_NAME = 80, "application/json", 100
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
    with lock_edits(path.parent):  # two servers that start at once have one token
        try:
            token = read_private(path, _MAX_TOKEN_CHARS).decode("ascii", errors="replace")
        except FileNotFoundError:
            token = ""
        if len(token) < _MIN_TOKEN_CHARS or not TOKEN_PATTERN.fullmatch(token):
            token = make_token()
            replace_file(path, token.encode())
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
    app = server.streamable_http_app(
        streamable_http_path=ENDPOINT_PATH,
        max_request_body_size=_MAX_BODY_BYTES,
        max_sessions=_MAX_SESSIONS + 1,  # SessionLimit makes room first
        # Guard checks instead: every path, before a body is read, with the address the client connected to
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    guard = Guard(SessionLimit(app, _MAX_SESSIONS), list_allowed_hosts(host), token)
    return await serve_app(guard, listener, server.session_manager.run())


async def serve_app(
    app: ASGIApp,
    listener: socket.socket,
    lifetime: AbstractAsyncContextManager[object],
    protocol: type[TimedProtocol] = TimedProtocol,
) -> int:
    """Serve an ASGI application until cancelled, then stop within a second; open streams are cut off.

    Args:
        app: The application, with its own `Guard`.
        listener: The listening socket.
        lifetime: Entered before the first request and left after the last one.
        protocol: What a connection does.
    """
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=0,
    )
    http_server = HttpServer(config)
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


def _split_authority(text: str) -> tuple[str, int] | None:
    """Return the name, in lower case, and the port of a Host header or an origin; None if it is malformed."""
    match = _AUTHORITY.fullmatch(text)
    return (match[1].lower(), int(match[2] or _HTTP_PORT)) if match else None


def list_allowed_hosts(host: str) -> list[str]:
    """Return the host names that requests may use, besides the address of the connection."""
    names = [_LOOPBACK, "localhost", "[::1]"]
    if host:
        machine = socket.gethostname()
        names += [_bracket(host), machine, f"{machine}.local"]
    return names


class Guard:
    """ASGI middleware that authorizes requests.

    Answers 421 for a foreign Host, 403 for a foreign Origin, 401 for a missing or wrong token, and, where no token is
    required, 415 for a body of a web page that is not declared as JSON: what it may send to another site without asking
    it first. The header with the token makes a browser ask, and other programs send no Origin.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Sequence[str],
        token: str,
        render_refusal: Callable[[Request, Response], Response] = lambda _request, refusal: refusal,
        origins: Sequence[str] = (),
        open_paths: Sequence[str] = (),
    ) -> None:
        """Guard an application.

        Args:
            app: The application.
            names: Host names that requests may use, besides the address of the connection.
            token: The bearer token that requests need; "" for none.
            render_refusal: Writes a refusal as the application writes its errors.
            origins: Origins of web pages of others that may use the application; they need the token like all.
            open_paths: Paths that need no token.
        """
        self.app = app
        self.names = frozenset(name.lower() for name in names)
        self.token = token
        self._render_refusal = render_refusal
        self._origins, self._open_paths = frozenset(origins), frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request."""
        request = Request(scope)
        refusal = self.check_names(request) or self.check_token(request) or self.check_type(request)
        if refusal:
            self._log_refusal(request, refusal.status_code)
        await (self._render_refusal(request, refusal) if refusal else self.app)(scope, receive, send)

    def _log_refusal(self, request: Request, status: int) -> None:
        """Log a refused request in one line."""
        client = request.client.host if request.client else "unknown"
        names = {name: request.headers.get(name, "") for name in ("host", "origin")}
        shown = ", ".join(f"{name} {shorten_line(value, _MAX_LOGGED_NAME)}" for name, value in names.items() if value)
        log.warning("refused %s from %s with HTTP %d (%s)", request.method, client, status, shown)

    def check_names(self, request: Request) -> Response | None:
        """Return an error response if Host or Origin is not allowed.

        Host must be one of our names with any port, since a tunnel may have another. Origin, which only browsers send,
        must be one of our names with our port or that of Host.
        """
        address, port = request.scope["server"]
        names = {*self.names, _bracket(address)}
        hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
        host = _split_authority(hosts[0]) if len(hosts) == 1 else None
        if host is None or host[0] not in names:
            return PlainTextResponse("Invalid Host header", 421)
        if not origins or (len(origins) == 1 and origins[0] in self._origins):
            return None
        scheme, separator, authority = origins[0].partition("://")
        origin = _split_authority(authority) if len(origins) == 1 and f"{scheme}{separator}" == "http://" else None
        if origin is None or origin[0] not in names or origin[1] not in (port, host[1]):
            return PlainTextResponse("Invalid Origin header", 403)
        return None

    def check_type(self, request: Request) -> Response | None:
        """Return an error response if a web page may have sent a body unasked: it is not declared as JSON."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method != "POST" or kind == _JSON or self.token or "origin" not in request.headers:
            return None
        return PlainTextResponse(f"Send the body with the header Content-Type: {_JSON}.", 415)

    def check_token(self, request: Request) -> Response | None:
        """Return an error response if the bearer token is missing or wrong."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if (
            not self.token
            or request.url.path in self._open_paths
            or (scheme.lower() == "bearer" and hmac.compare_digest(credentials.encode(), self.token.encode()))
        ):
            return None
        headers = {"www-authenticate": 'Bearer error="invalid_token"' if credentials else "Bearer"}
        fault = "The bearer token is wrong." if credentials else "This server requires a bearer token."
        hint = (
            "Send the header Authorization: Bearer TOKEN. At its start the server says where the token is: "
            "on its machine, by default in ~/.local/state/rkllm-chat/tokens."
        )
        return PlainTextResponse(f"{fault} {hint}", 401, headers)
