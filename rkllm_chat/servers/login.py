"""Logs in to one server with OAuth 2.1, where the server wants that. It knows no terminal: `Asks.log_in` is the person.

The SDK's providers lead the way (MCP 2026-07-28, basic/authorization). Their own requests, to whatever addresses the
server names, are sent from here: apart from the server's headers, bounded in size and time, over TLS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import AuthorizationCodeResult

from ..clean import clean_line
from ..config import ServerConfig
from ..errors import AuthError, ChatError
from .addresses import check_address, is_loopback, show_url
from .asks import Asks
from .caller import Body, UnreadableError, remake
from .clock import Clock
from .credentials import CredentialFile, Kept
from .loopback import Loopback, Redirect, read_redirect
from .providers import Provider, make_machine, make_person, remember

FETCH_S = 20.0
LONGEST_REASON = 300
LONG_AGO = 1.0
HINT = "Log in once in the chat with /mcp auth {name}, or give it headers or an oauth table in its configuration."

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]

log = logging.getLogger(__name__)
# its tracebacks hold what a server answered, tokens among it (mcp 2.3.0)
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)


class Login:
    """One server's tokens: puts them on requests, renews them, and gets them in the first place.

    `error` is why it last failed; until it is taken away nobody is asked again.
    """

    def __init__(self, server: ServerConfig, folder: Path | None, asks: Asks, clock: Clock | None = None) -> None:
        self.error: ChatError | None = None
        self.clock = clock or Clock()
        self._server, self._asks = server, asks
        self._file = CredentialFile(folder, server)
        asks.secrets.learn_server(server)
        self._kept: Kept | None = None
        self._lock = asyncio.Lock()
        self._has_header = "authorization" in {name.lower() for name in server.headers}

    async def send(self, request: httpx2.Request, send: Send, may_ask: bool = True) -> httpx2.Response:
        """Sends a request, after a login if need be. Raises AuthError if the server still refuses it."""
        try:
            response = await self._send(request, send, may_ask)
            if may_ask and wants_login(response):
                raise AuthError(*self._explain_refusal(response), server=self._server.name)
        except ChatError as error:
            self.error = error
            raise
        return response

    async def _send(self, request: httpx2.Request, send: Send, may_ask: bool) -> httpx2.Response:
        sent = await self._authorize(request)
        response = await send(request)
        for attempt in (self._renew, self._log_in) if may_ask else (self._renew,):
            if self._has_header or not wants_login(response):
                break
            if await attempt(request, response, sent):
                sent = self.put_token(request)
                response = await send(request)
        return response

    @property
    def is_used(self) -> bool:
        """Whether requests carry a token."""
        return self._kept is not None and bool(self._kept.access)

    def put_token(self, request: httpx2.Request) -> str:
        """The token that the request has now; "" where there is none."""
        if self._has_header:
            return ""
        self._kept = self._kept or self._file.read()
        self._asks.secrets.add(*self._kept.secrets)
        if self._kept.access:
            request.headers["authorization"] = f"Bearer {self._kept.access}"
        return self._kept.access

    def forget(self) -> bool:
        """Forgets tokens and registration; says whether there were any. Raises AuthError if they cannot be removed."""
        self._kept, self.error = None, None
        return self._file.remove()

    async def _authorize(self, request: httpx2.Request) -> str:
        sent = self.put_token(request)
        if self._kept and self._kept.is_stale and await self._renew(request, None, sent):
            return self.put_token(request)
        return sent

    async def _renew(self, request: httpx2.Request, response: httpx2.Response | None, sent: str) -> bool:
        """Whether there is another token now: a task or a program beside this one has got it, or it was refreshed."""
        async with self._lock:
            if self._has_other(sent):
                return True
            if response is not None and response.status_code == 403:
                return False
            async with self._file.locked():
                if self._has_other(sent):
                    return True
                return self._can_refresh() and await self._refresh(request)

    def _has_other(self, sent: str) -> bool:
        self._kept = self._file.read()
        return self._kept.access not in ("", sent)

    def _can_refresh(self) -> bool:
        return self._kept is not None and bool(self._kept.refresh) and self._server.oauth.grant == "authorization_code"

    async def _refresh(self, request: httpx2.Request) -> bool:
        kept = self._get_kept()
        provider = make_person(self._server, kept)
        provider.context.token_expiry_time = LONG_AGO
        async with aclosing(provider.async_auth_flow(request)) as flow:
            outgoing = await flow.__anext__()
            while outgoing is not request:
                reply = await self._fetch(outgoing)
                if reply.status_code >= 500 or reply.status_code == 429:  # says nothing about the token
                    raise AuthError(
                        f"{self._begin()}: {show(outgoing)} answered HTTP {reply.status_code}.", "Try again."
                    )
                outgoing = await flow.asend(reply)
        is_fresh = provider.context.current_tokens is not None
        if not is_fresh:
            kept = kept.model_copy(update={"tokens": None, "stale_at": None})
        self._keep(kept)
        return is_fresh

    async def _log_in(self, request: httpx2.Request, response: httpx2.Response, sent: str) -> bool:
        """Gets a token for the first time, or one for more. Raises AuthError."""
        async with self._lock:
            if self._has_other(sent):
                return True
            if self.error:
                raise self.error
            kept = self._get_kept()
            try:
                await self._follow(kept, request, response, self._find_reason(response, sent))
            except (OAuthFlowError, ValueError) as error:
                raise AuthError(f"{self._begin()}: {explain(error)}.", server=self._server.name) from None
            finally:
                if kept.access in ("", sent) and response.status_code == 401 and not self._has_other(sent):
                    # the authorization server may have forgotten this client
                    self._keep(kept.model_copy(update={"client": None}))
            return True

    def _find_reason(self, response: httpx2.Response, sent: str) -> str:
        if response.status_code == 403:
            return "more"
        return "damaged" if self._file.damaged else "again" if sent else "first"

    async def _follow(self, kept: Kept, request: httpx2.Request, response: httpx2.Response, reason: str) -> None:
        """Goes the SDK's way from the server's refusal to a new token."""
        is_step_up = response.status_code == 403
        with self._open_loopback(kept) as loopback:
            if loopback:
                ask = partial(self._ask, loopback, reason)
                provider: Provider = make_person(self._server, kept, loopback.redirect_uri, ask, is_step_up)
            else:
                provider = make_machine(self._server, kept, is_step_up)
            async with aclosing(provider.async_auth_flow(request)) as flow:
                await flow.__anext__()
                outgoing = await flow.asend(response)
                while outgoing is not request:
                    outgoing = await flow.asend(await self._fetch(outgoing))
        self.error, self._file.damaged = None, ""
        self._keep(kept, provider)

    def _open_loopback(self, kept: Kept) -> AbstractContextManager[Loopback | None]:
        """A place for the browser to end at, where a person logs in. Raises AuthError if there is none to ask."""
        oauth = self._server.oauth
        if oauth.grant != "authorization_code":
            return nullcontext()
        if self._asks.log_in is None:
            aside = f" (what was kept of one is damaged: {self._file.damaged})" if self._file.damaged else ""
            text = f"{self._begin()}, and nobody is here to log in{aside}."
            raise AuthError(text, HINT.format(name=self._server.name), server=self._server.name)
        known = kept.client.redirect_uris if kept.client else None
        return Loopback(oauth.redirect_uri, str(known[0]) if known else "")

    async def _ask(self, loopback: Loopback, reason: str, url: str) -> AuthorizationCodeResult:
        """Has the person visit a URL, and waits for where it ends: at our port, or pasted."""
        state = parse_qs(urlsplit(url).query)["state"][0]
        with self.clock.paused():
            async with self._asks.one_login:
                hearing = (loopback.hear(state), self._hear_person(url, state, reason))
                ways: list[asyncio.Task[Redirect | None]] = [asyncio.ensure_future(way) for way in hearing]
                try:
                    done, _ = await asyncio.wait(ways, timeout=self._asks.login_s, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
        if not done:
            raise AuthError(
                f"{self._begin()}, which did not end within {self._asks.login_s:g} s.", "Try /mcp auth again."
            )
        redirect = done.pop().result()
        if redirect is None:
            raise AuthError(f"{self._begin()}, which was given up.", f"/mcp auth {self._server.name} begins it again.")
        if redirect.error:
            said = clean_line(f"{redirect.error} {redirect.description}")[:LONGEST_REASON]
            raise AuthError(f"{self._begin()}, which was refused: {said}.", server=self._server.name)
        return AuthorizationCodeResult(code=redirect.code, state=state, iss=redirect.iss)

    async def _hear_person(self, url: str, state: str, reason: str) -> Redirect | None:
        """What the person pastes; None if he gives up."""
        assert self._asks.log_in
        while pasted := await self._asks.log_in(self._server.name, url, reason):
            if redirect := read_redirect(pasted, state):
                return redirect
            reason = "unusable"
        return None

    async def _fetch(self, request: httpx2.Request) -> httpx2.Response:
        """Sends a request of the SDK's. Raises AuthError if it may not be sent, or no whole answer comes."""
        url = str(request.url)
        await check_address(replace(self._server, url=url))
        if request.url.scheme != "https" and self._server.url.startswith("https:") and not is_loopback(url):
            raise AuthError(f"{self._begin()} over plain HTTP ({show(request)}), which is refused.")
        try:
            with anyio.fail_after(FETCH_S):
                async with httpx2.AsyncClient(timeout=FETCH_S, trust_env=not is_loopback(url)) as client:
                    response = await client.send(request, stream=True, follow_redirects=False)
                    try:
                        return remake(response, content=await Body(response).read_all())
                    finally:
                        await response.aclose()
        except (httpx2.HTTPError, UnreadableError, TimeoutError) as error:
            said = clean_line(str(error) or type(error).__name__)[:LONGEST_REASON]
            raise AuthError(f"{self._begin()}, and {show(request)} cannot be used: {said}.") from None

    def _get_kept(self) -> Kept:
        self._kept = self._kept or self._file.read()
        return self._kept

    def _keep(self, kept: Kept, provider: Provider | None = None) -> None:
        if provider:
            kept.server = show_url(self._server.url)
            remember(provider, self._server.oauth, kept)
        self._kept = kept
        self._asks.secrets.add(*kept.secrets)
        self._file.write(kept)

    def _begin(self) -> str:
        return f'Server "{self._server.name}" wants a login'

    def _explain_refusal(self, response: httpx2.Response) -> tuple[str, str]:
        name, status = self._server.name, f"HTTP {response.status_code}"
        if self._has_header:
            return (
                f'Server "{name}" refuses the Authorization header of its configuration ({status}).',
                "Is it still valid?",
            )
        return f'Server "{name}" refuses this login ({status}).', f"/mcp auth {name} logs in again."


def wants_login(response: httpx2.Response) -> bool:
    """Whether it says 401, or that this token allows too little (RFC 6750, 3.1)."""
    is_narrow = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401 or is_narrow


def show(request: httpx2.Request) -> str:
    return show_url(str(request.url))


def explain(error: Exception) -> str:
    """The SDK's reason, without what was answered where that may be a token."""
    said = clean_line(str(error))
    return (said.partition(":")[0] if said.startswith("Invalid") else said).rstrip(".")[:LONGEST_REASON]
