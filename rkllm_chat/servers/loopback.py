"""Hears where a browser is sent after a login (RFC 8252, 7.3): on this machine, once, and with the right state."""

from __future__ import annotations

import asyncio
import secrets
import socket
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from typing_extensions import Self

from ..errors import AuthError

HOST = "127.0.0.1"
PATH = "/callback"
REQUEST_S = 5.0
LONGEST_REQUEST = 16 * 1024
DONE = "The login was received. You can close this page and go back to the chat."
REFUSED = "The login was refused. You can close this page and go back to the chat."
OTHER = "This is not the end of the login that the chat waits for."


@dataclass(frozen=True, repr=False)
class Redirect:
    """What the authorization server says at the end: a code, or an error. `iss` is None where it does not say it."""

    code: str = ""
    iss: str | None = None
    error: str = ""
    description: str = ""


def read_redirect(address: str, state: str) -> Redirect | None:
    """What stands in an address, or in its query alone; None if it is not the end of the login with this `state`."""
    try:
        query = urlsplit(address.strip()).query or address.strip().lstrip("?")
        values = {name: found[0] for name, found in parse_qs(query, max_num_fields=50).items()}
    except ValueError:
        return None
    if not secrets.compare_digest(values.get("state", "").encode(), state.encode()):
        return None
    code, error = values.get("code", ""), values.get("error", "")
    if not code and not error:
        return None
    return Redirect(code, values.get("iss"), error, values.get("error_description", ""))


class Loopback:
    """A port of this machine, from entering to leaving; it listens only while `hear` runs.

    `wanted` is the URI of the configuration, `known` the one registered last time; else a free port is taken.
    Entering raises AuthError if the wanted port is in use.
    """

    def __init__(self, wanted: str = "", known: str = "") -> None:
        self._wanted, self._known = wanted, known
        self.redirect_uri = ""

    def __enter__(self) -> Self:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.redirect_uri = self._bind(self._wanted or self._known)
        except (OSError, ValueError) as error:
            if self._wanted:
                self._socket.close()
                text = f"The address {self._wanted}, where a login ends, cannot be used: {error}."
                raise AuthError(text, "Is another program using its port?") from None
            self.redirect_uri = self._bind("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def _bind(self, uri: str) -> str:
        self._socket.bind((HOST, urlsplit(uri).port or 0))
        return uri or f"http://{HOST}:{self._socket.getsockname()[1]}{PATH}"

    async def hear(self, state: str) -> Redirect:
        """Waits for the browser; whatever else comes is turned away."""
        heard: asyncio.Future[Redirect] = asyncio.get_running_loop().create_future()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                redirect = await asyncio.wait_for(self._read(reader, state), REQUEST_S)
                writer.write(page_for(redirect))
                await asyncio.wait_for(writer.drain(), REQUEST_S)
                if redirect and not heard.done():
                    heard.set_result(redirect)
            except (OSError, ValueError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError):
                pass  # no browser, or one that has left
            finally:
                writer.close()

        server = await asyncio.start_server(answer, sock=self._socket, limit=LONGEST_REQUEST)
        try:
            return await heard
        finally:
            server.close()

    async def _read(self, reader: asyncio.StreamReader, state: str) -> Redirect | None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        is_ours = method == "GET" and urlsplit(target).path == urlsplit(self.redirect_uri).path
        return read_redirect(target, state) if is_ours else None


def page_for(redirect: Redirect | None) -> bytes:
    """A plain page for the person at the browser."""
    text = OTHER if redirect is None else REFUSED if redirect.error else DONE
    status = "400 Bad Request" if redirect is None else "200 OK"
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n"
    rest = f"referrer-policy: no-referrer\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
    return f"{head}{rest}{text}".encode()
