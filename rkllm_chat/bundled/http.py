"""An MCP server over streamable HTTP, on loopback unless an address is asked for. It knows no server by name.

A request is let in when its Host and Origin are ours, so that no web page comes in by DNS rebinding (MCP 2025-11-25
and 2026-07-28, Transports, Security Warning), and when it brings the token, where there is one.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import os
import re
import signal
import socket
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import StartError, UsageError

LOOPBACK = "127.0.0.1"
PATH = "/mcp"
LARGEST_BODY = 4 * 1024 * 1024
MOST_SESSIONS = 1000
LEAVE_S = 0.7
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1


def read_token(variable: str, environment: Mapping[str, str] = os.environ) -> str:
    """The token in an environment variable; "" where none is named. Raises UsageError."""
    token = environment.get(variable, "")
    if variable and not token:
        raise UsageError(f"The variable {variable}, which --token-env names, is not set.")
    if token and not TOKEN.fullmatch(token):
        hint = "Use letters, digits and . _ ~ + / - alone."
        raise UsageError(f"The token in {variable} has characters that a bearer token cannot have.", hint)
    return token


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; host "" is loopback, port 0 a free one. Raises StartError."""
    host = host or LOOPBACK
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise StartError(f'There is no address "{host}".') from None
    try:
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"Port {port} on {host} is in use.", "Choose another, or 0 for a free one.") from None
        raise StartError(f"Port {port} on {host} cannot be opened: {os.strerror(error.errno or 0)}.") from None


def find_url(listener: socket.socket, host: str) -> str:
    """Where a client finds it; for an address that means all addresses, by this machine's name."""
    address, port = listener.getsockname()[:2]
    name = socket.gethostname() if ip_address(address).is_unspecified else host or LOOPBACK
    return f"http://{bracket(name)}:{port}{PATH}"


def bracket(host: str) -> str:
    """A host as a URL writes it: an IPv6 address goes into brackets."""
    return f"[{host}]" if ":" in host else host


async def serve(server: MCPServer, listener: socket.socket, host: str, token: str) -> int:
    """Speaks until it is cancelled, then ends within a second: open streams are cut off."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=LARGEST_BODY,
        max_sessions=MOST_SESSIONS,
        # the guard looks: at every path, before a body is read, and it knows the address that a client came to
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    config = uvicorn.Config(
        Guard(app, own_names(host), token),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=0,
    )
    web = Web(config)
    speaking = asyncio.create_task(speak(web, server, listener))
    try:
        await asyncio.shield(speaking)
    finally:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what is cut off now is no error
        web.should_exit = True
        _, running = await asyncio.wait([speaking, *web.server_state.tasks], timeout=LEAVE_S)
        if running:
            end_process()
    return 0


class Web(uvicorn.Server):
    """The signals are the door's."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def speak(web: Web, server: MCPServer, listener: socket.socket) -> None:
    async with server.session_manager.run():
        await web.serve([listener])


def end_process() -> None:
    """A tool that sits in a thread cannot be stopped, and the interpreter would wait for it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def own_names(host: str) -> list[str]:
    """The names under which requests may come, besides the address that a connection came to."""
    names = [LOOPBACK, "localhost", "[::1]"]
    if host:
        machine = socket.gethostname()
        names += [bracket(host), machine, f"{machine}.local"]
    return names


class Guard:
    """Turns away who must not speak to the server: 421 and 403 for a Host and an Origin not ours, 401 for a token."""

    def __init__(self, app: ASGIApp, names: Sequence[str], token: str) -> None:
        self.app = app
        self.names = names
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        response = await self.check_names(request) or self.check_token(request) or self.app
        await response(scope, receive, send)

    async def check_names(self, request: Request) -> Response | None:
        address, _ = request.scope["server"]
        names = [*self.names, bracket(address)]
        settings = TransportSecuritySettings(
            allowed_hosts=[host for name in names for host in (name, f"{name}:*")],
            allowed_origins=[f"http://{host}" for name in names for host in (name, f"{name}:*")],
        )
        return await TransportSecurityMiddleware(settings).validate_request(request)

    def check_token(self, request: Request) -> Response | None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if not self.token or (scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), self.token.encode())):
            return None
        headers = {"www-authenticate": 'Bearer error="invalid_token"' if given else "Bearer"}
        return PlainTextResponse("This server needs its bearer token.", 401, headers)
