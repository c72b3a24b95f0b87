"""HTTP client of a transport: restricts destinations, logs in, and bounds the bodies of failures.

No redirect to another origin is followed and TLS is always verified. It knows nothing of JSON-RPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import httpx2

from ..protocol.faults import retry_wait_s
from .addresses import Address, check_new_connection, check_peer, is_loopback, is_public
from .http_body import UnreadableBodyError, copy_response, read_body
from .tls import get_tls_context

if TYPE_CHECKING:
    from .base import Transport

_CONNECT_S = 10.0
_WRITE_S = 30.0


class ServerHttpClient:
    """An HTTP client for one server; its headers are sent to that server's origin only.

    Args:
        transport: Has the server's configuration, and its login, which adds tokens and obtains them.
        addresses: To what the server's URL leads.
        note_problem: Called with a refusal before the request is sent again.
    """

    def __init__(
        self,
        transport: Transport,
        addresses: Sequence[Address],
        note_problem: Callable[[httpx2.Response], None],
    ) -> None:
        server = transport.server
        self._client = httpx2.AsyncClient(
            headers={**server.headers, "accept-encoding": "gzip"},
            timeout=httpx2.Timeout(_CONNECT_S, write=_WRITE_S),
            limits=httpx2.Limits(max_connections=None),
            follow_redirects=False,
            verify=get_tls_context(),
            trust_env=not is_loopback(server.url),  # proxies of the environment
        )
        self._server, self._transport, self._addresses = server, transport, addresses
        self._is_public, self._note_problem = is_public(server.url, addresses), note_problem

    async def __aenter__(self) -> ServerHttpClient:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.__aexit__(*error)

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: httpx2.URL | str,
        headers: Mapping[str, Any],
        content: bytes | None = None,
        read_s: float | None = None,
        may_log_in: bool = True,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request and yield its response: of a failure with its body, of a success with one to be read.

        Redirects on the same origin that keep the method (307, 308) are followed.

        Args:
            method: The method.
            url: The address.
            headers: Headers beside those of the configuration.
            content: The body.
            read_s: Longest wait for a part of the response; None for none, where others limit it.
            may_log_in: Whether a login may begin; otherwise tokens are only renewed.

        Raises:
            httpx2.TransportError: The server cannot be reached, or broke off.
            ChatError: The address is refused, or the login failed.
        """
        request = self._client.build_request(method, url, headers=dict(headers), content=content)
        request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": read_s}
        response = await self._send(request, may_log_in)
        try:
            for _ in range(self._client.max_redirects):
                following = response.next_request
                if (
                    following is None
                    or following.method != method
                    or not has_same_origin(following.url, response.request.url)
                ):
                    break
                await response.aclose()
                response = await self._send(following, may_log_in)
            yield response
        finally:
            await response.aclose()

    async def _send(self, request: httpx2.Request, may_log_in: bool) -> httpx2.Response:
        """Send a request; a POST once more after a wait, if the server wishes that."""
        response = await self._send_with_token(request, may_log_in)
        wait_s = retry_wait_s(response.status_code, response.headers.get("retry-after", ""))
        if not wait_s or request.method != "POST":
            return response
        self._note_problem(response)
        await anyio.sleep(wait_s)
        return await self._send_with_token(request, may_log_in)

    async def _send_with_token(self, request: httpx2.Request, may_log_in: bool) -> httpx2.Response:
        login, refusal = self._transport.login, None
        if request.method == "DELETE":  # has a second: a token that is being renewed could be lost
            if login:
                login.add_token(request)
            return await self._send_once(request)
        if login is None:
            refusal = await self._send_once(request)
            if not may_log_in or not _wants_login(refusal) or self._transport.load_login is None:
                return refusal
            # only now: to import what logs in takes a second, and most servers never ask for it
            with self._transport.deadlines.pause():
                login = self._transport.login = await asyncio.to_thread(self._transport.load_login)
        login.server_addresses = self._addresses
        return await login.send(request, self._send_once, may_log_in, refusal)

    async def _send_once(self, request: httpx2.Request) -> httpx2.Response:
        request.extensions["trace"] = self._check_peer
        response = await self._client.send(request, stream=True)
        if response.is_success:
            return response
        content = b""
        try:
            with suppress(UnreadableBodyError):
                content = bytes((await read_body(response)).content)
        finally:
            await response.aclose()
        return copy_response(response, content)

    async def _check_peer(self, event: str, info: Mapping[str, Any]) -> None:
        await check_new_connection(event, info, partial(check_peer, self._server, is_public_name=self._is_public))


def _wants_login(response: httpx2.Response) -> bool:
    """Tell whether a response may ask for a login; the login itself reads it closely."""
    challenge = response.headers.get("www-authenticate", "")
    return response.status_code == 401 or (response.status_code == 403 and "insufficient_scope" in challenge)


def has_same_origin(url: httpx2.URL, other: httpx2.URL) -> bool:
    """Tell whether scheme, host and port are equal."""
    return (url.scheme, url.host, url.port) == (other.scheme, other.host, other.port)
