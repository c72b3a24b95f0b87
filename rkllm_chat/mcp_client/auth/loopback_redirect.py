"""Receive the redirect of a browser after a login (RFC 8252, 7.3): on this machine, once, with the right state."""

from __future__ import annotations

import asyncio
import secrets
import socket
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from typing_extensions import Self

from ...core.errors import AuthError

_HOST = "127.0.0.1"
_PATH = "/callback"
"""The URI of a free port, without the port."""
_REQUEST_S = 5.0
_MAX_REQUEST_BYTES = 16 * 1024
_RECEIVED = "The login was received. You can close this page and return to the chat."
_REFUSED = "The login was refused. You can close this page and return to the chat."
_UNRELATED = "This address does not belong to the login that the chat waits for."


@dataclass(frozen=True, repr=False)
class Redirect:
    """The authorization server's result: a code, or an error with its description.

    Attributes:
        code: The authorization code, or "".
        iss: The issuer; None if the server did not send it.
        error: The OAuth error code, or "".
        description: The error's description.
    """

    code: str = ""
    iss: str | None = None
    error: str = ""
    description: str = ""


def parse_redirect(address: str, state: str) -> Redirect | None:
    """Parse a redirect address or its query; None if it does not end the login with this `state`."""
    try:
        query = urlsplit(address.strip()).query or address.strip().lstrip("?")
        values = {name: texts[0] for name, texts in parse_qs(query, max_num_fields=50).items()}
    except ValueError:
        return None
    if not secrets.compare_digest(values.get("state", "").encode(), state.encode()):
        return None
    code, error = values.get("code", ""), values.get("error", "")
    if not code and not error:
        return None
    return Redirect(code, values.get("iss"), error, values.get("error_description", ""))


class LoopbackReceiver:
    """A reserved port on this machine, as a context manager, listening only during `wait_for_redirect`.

    Entering raises AuthError if the configured port is in use.

    Args:
        configured_uri: Redirect URI of the configuration, or "".
        registered_uri: Redirect URI registered earlier, or ""; if its port is in use, a free one is taken.

    Attributes:
        redirect_uri: The URI to register, valid inside the context.
    """

    def __init__(self, configured_uri: str = "", registered_uri: str = "") -> None:
        self._configured_uri, self._registered_uri = configured_uri, registered_uri
        self.redirect_uri = ""

    def __enter__(self) -> Self:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # connections of the last login may still hold a registered port in TIME_WAIT
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.redirect_uri = self._bind(self._configured_uri or self._registered_uri)
        except (OSError, ValueError) as error:
            if self._configured_uri:
                self._socket.close()
                text = f"The redirect address {self._configured_uri} cannot be used: {error}."
                raise AuthError(text, "Check whether another program uses its port.") from None
            self.redirect_uri = self._bind("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def _bind(self, uri: str) -> str:
        self._socket.bind((_HOST, urlsplit(uri).port or 0))
        return uri or f"http://{_HOST}:{self._socket.getsockname()[1]}{_PATH}"

    async def wait_for_redirect(self, state: str) -> Redirect:
        """Wait for the browser's redirect with this state; reject other requests."""
        received: asyncio.Future[Redirect] = asyncio.get_running_loop().create_future()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                redirect = await asyncio.wait_for(self._read(reader, state), _REQUEST_S)
                writer.write(_render_page(redirect))
                await asyncio.wait_for(writer.drain(), _REQUEST_S)
                if redirect and not received.done():
                    received.set_result(redirect)
            except (OSError, ValueError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError):
                pass  # not a browser, or one that has disconnected
            finally:
                writer.close()

        server = await asyncio.start_server(answer, sock=self._socket, limit=_MAX_REQUEST_BYTES)
        try:
            return await received
        finally:
            server.close()

    async def _read(self, reader: asyncio.StreamReader, state: str) -> Redirect | None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        is_callback = method == "GET" and urlsplit(target).path == urlsplit(self.redirect_uri).path
        return parse_redirect(target, state) if is_callback else None


def _render_page(redirect: Redirect | None) -> bytes:
    """Return a plain page for the user at the browser, as a complete HTTP response."""
    text = _UNRELATED if redirect is None else _REFUSED if redirect.error else _RECEIVED
    status = "400 Bad Request" if redirect is None else "200 OK"
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n"
    rest = f"referrer-policy: no-referrer\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
    return f"{head}{rest}{text}".encode()
