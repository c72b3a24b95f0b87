"""Log in to one server with OAuth 2.1 if it requires that. `ClientHandlers.log_in` asks the user.

The SDK's providers drive the flow (MCP 2026-07-28, basic/authorization). Their own requests, to whatever addresses the
server names, are sent from here: without the server's headers, limited in size and time, over TLS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pydantic
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import AuthorizationCodeResult

from ...config.project_trust import is_project
from ...config.settings import ServerConfig
from ...core.errors import AuthError, ChatError
from ...core.sanitize import sanitize_line
from ..handlers import ClientHandlers, LoginReason
from ..timing import PausableDeadlines
from ..transports.addresses import (
    Address,
    check_new_connection,
    check_peer,
    has_proxy,
    is_loopback,
    parse_address,
    redact_url,
    resolve_url,
)
from ..transports.http_body import UnreadableBodyError, copy_response, read_whole_body
from ..transports.tls import get_tls_context
from .credentials import CredentialFile, StoredLogin
from .loopback_redirect import LoopbackReceiver, Redirect, parse_redirect
from .providers import (
    Provider,
    check_metadata,
    is_discovery,
    make_machine_provider,
    make_user_provider,
    store_discovery,
)

_FETCH_S = 20.0
_MAX_REASON_CHARS = 300
_EXPIRED_AT = 1.0
_LOGIN_HINT = (
    "Log in once with rkllm-chat mcp auth {name}, or in the chat with /mcp auth {name}. A token of your own belongs in"
    " the headers of its entry in {file}: Authorization, with the value Bearer ${{NAME}} and NAME in your environment."
)
_HEADER_HINT = "Pass a token with --header 'Authorization: Bearer ${NAME}', with NAME in your environment."
"""For a server that has no entry."""

SendRequest = Callable[[httpx2.Request], Awaitable[httpx2.Response]]

log = logging.getLogger(__name__)
# Its tracebacks contain responses, including tokens (mcp 2.3.0).
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)


class Login:
    """The tokens of one server: adds them to requests, renews them, and obtains the first ones.

    Attributes:
        error: Why the last login failed; while it is set, the user is not asked again.
        deadlines: Deadlines that pause while the user logs in.
        server_addresses: To what the server's URL led when its transport was opened.
        has_agreed: Whether the user has agreed to the next login; nothing is POSTed before.
    """

    def __init__(
        self,
        server: ServerConfig,
        folder: Path | None,
        handlers: ClientHandlers,
        deadlines: PausableDeadlines,
    ) -> None:
        self.error: ChatError | None = None
        self.has_agreed = False
        self.server_addresses: Sequence[Address] = ()
        self.deadlines = deadlines
        self._server, self._handlers = server, handlers
        self._file = CredentialFile(folder, server)
        self._stored: StoredLogin | None = None
        self._lock = asyncio.Lock()
        self._has_header = "authorization" in {name.lower() for name in server.headers}

    async def send(
        self, request: httpx2.Request, send: SendRequest, may_ask: bool = True, refusal: httpx2.Response | None = None
    ) -> httpx2.Response:
        """Send a request, logging in first if required.

        Args:
            request: The request; it receives the token.
            send: Sends it once.
            may_ask: Whether the user may be asked to log in; otherwise tokens are only renewed.
            refusal: How the server has answered the request without a token; None if it was not sent yet.

        Raises:
            AuthError: The login failed, or the server still refuses the request.
        """
        try:
            response = await self._send(request, send, may_ask, refusal)
            if may_ask and _wants_login(response):
                raise AuthError(*self._explain_refusal(response), server=self._server.name)
        except ChatError as error:
            self.error = error
            raise
        return response

    async def _send(
        self, request: httpx2.Request, send: SendRequest, may_ask: bool, refusal: httpx2.Response | None
    ) -> httpx2.Response:
        sent = "" if refusal else await self._authorize(request)
        response = refusal or await send(request)
        for attempt in (self._renew, self._log_in) if may_ask else (self._renew,):
            if self._has_header or not _wants_login(response):
                break
            if await attempt(request, response, sent):
                sent = self.add_token(request)
                response = await send(request)
        return response

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token."""
        return self._stored is not None and bool(self._stored.access_token)

    def add_token(self, request: httpx2.Request) -> str:
        """Add the stored token to the request; return it, or "" if there is none."""
        if self._has_header:
            return ""
        self._stored = self._stored or self._file.read()
        self._handlers.secrets.add(*self._stored.secrets)
        if self._stored.access_token:
            request.headers["authorization"] = f"Bearer {self._stored.access_token}"
        return self._stored.access_token

    def delete_login(self) -> bool:
        """Delete tokens and registration; return whether there were any. Raises AuthError if they cannot be deleted."""
        self._stored, self.error = None, None
        return self._file.remove()

    async def _authorize(self, request: httpx2.Request) -> str:
        sent = self.add_token(request)
        if self._stored and self._stored.is_stale and await self._renew(request, None, sent):
            return self.add_token(request)
        return sent

    async def _renew(self, request: httpx2.Request, response: httpx2.Response | None, sent: str) -> bool:
        """Return whether another token is available now: from another task or process, or by a refresh."""
        async with self._lock:
            # another task of this program may have renewed it while this one waited
            if self._has_newer_token(sent):
                return True
            # the token is valid and its scope too narrow; a refresh grants no more than before (RFC 6749, 6)
            if response is not None and response.status_code == 403:
                return False
            async with self._file.lock():
                # Another program may have; a refresh token that is used twice may cost the login. Always in this order:
                # the lock of this program, then that of the file, which is the same for all of its tasks.
                if self._has_newer_token(sent):
                    return True
                return self._can_refresh() and await self._refresh(request)

    def _has_newer_token(self, sent: str) -> bool:
        self._stored = self._file.read()
        return self._stored.access_token not in ("", sent)

    def _can_refresh(self) -> bool:
        return (
            self._stored is not None
            and bool(self._stored.refresh_token)
            and self._server.oauth.grant == "authorization_code"
        )

    async def _refresh(self, request: httpx2.Request) -> bool:
        stored = self._get_stored()
        provider = make_user_provider(self._server, stored)
        # so that the SDK's flow begins with a refresh (mcp 2.3.0)
        provider.context.token_expiry_time = _EXPIRED_AT
        async with aclosing(provider.async_auth_flow(request)) as flow:
            outgoing = await flow.__anext__()
            while outgoing is not request:
                reply = await self._fetch(outgoing)
                # else the SDK takes the refresh token for refused, and the login would be forgotten
                if reply.status_code >= 500 or reply.status_code == 429:  # the token may still be valid
                    raise AuthError(
                        f"{self._describe_need()}: {show_request_url(outgoing)} answered HTTP {reply.status_code}.",
                        "Try again.",
                    )
                outgoing = await flow.asend(reply)
        is_fresh = provider.context.current_tokens is not None
        if not is_fresh:
            stored = stored.model_copy(update={"tokens": None, "stale_at": None})
        self._store(stored)
        return is_fresh

    async def _log_in(self, request: httpx2.Request, response: httpx2.Response, sent: str) -> bool:
        """Obtain a first token, or one with a wider scope. Raises AuthError."""
        async with self._lock:
            if self._has_newer_token(sent):
                return True
            if self.error:
                raise self.error
            stored = self._get_stored()
            try:
                await self._run_flow(stored, request, response, self._choose_reason(response, sent))
            except (OAuthFlowError, ValueError) as error:
                raise AuthError(
                    f"{self._describe_need()}: {describe_flow_error(error)}.", server=self._server.name
                ) from None
            finally:
                self.has_agreed = False
                if (
                    stored.access_token in ("", sent)
                    and response.status_code == 401
                    and not self._has_newer_token(sent)
                ):
                    # The authorization server may have forgotten this client.
                    self._store(stored.model_copy(update={"client": None}))
            return True

    def _choose_reason(self, response: httpx2.Response, sent: str) -> LoginReason:
        if response.status_code == 403:
            return "more"
        return "damaged" if self._file.damaged_path else "again" if sent else "first"

    async def _run_flow(
        self, stored: StoredLogin, request: httpx2.Request, response: httpx2.Response, reason: LoginReason
    ) -> None:
        """Run the SDK's flow from the server's refusal to a new token."""
        is_step_up = response.status_code == 403
        with self._open_loopback(stored) as loopback:
            if loopback:
                ask = partial(self._ask, loopback, reason)
                provider: Provider = make_user_provider(self._server, stored, loopback.redirect_uri, ask, is_step_up)
            else:
                provider = make_machine_provider(self._server, stored, is_step_up)
            async with aclosing(provider.async_auth_flow(request)) as flow:
                await flow.__anext__()
                outgoing = await flow.asend(response)
                while outgoing is not request:
                    if loopback and outgoing.method != "GET" and not self.has_agreed:
                        await self._ask_to_agree(outgoing)
                    received = await self._fetch(outgoing)
                    if loopback and is_discovery(outgoing):
                        check_metadata(received, self._server.url)
                    outgoing = await flow.asend(received)
        self.error, self._file.damaged_path = None, ""
        self._store(stored, provider)

    def _open_loopback(self, stored: StoredLogin) -> AbstractContextManager[LoopbackReceiver | None]:
        """Open the redirect address for a user's login; None for grants without a user.

        Raises:
            AuthError: The grant needs a user and none is present.
        """
        oauth = self._server.oauth
        if oauth.grant != "authorization_code":
            return nullcontext()
        if self._handlers.log_in is None:
            damaged = f" (the stored login is damaged: {self._file.damaged_path})" if self._file.damaged_path else ""
            text = f"{self._describe_need()}, and no user is present to log in{damaged}."
            name, file = self._server.name, self._server.source
            hint = _LOGIN_HINT.format(name=name, file=file) if Path(file).is_file() else _HEADER_HINT
            raise AuthError(text, hint, server=name)
        known = stored.client.redirect_uris if stored.client else None
        return LoopbackReceiver(oauth.redirect_uri, str(known[0]) if known else "")

    async def _ask_to_agree(self, request: httpx2.Request) -> None:
        """Ask the user before anything is sent to the authorization server. Raises AuthError if the user declines."""
        with self.deadlines.pause():
            async with self._handlers.login_lock:
                # one question at a time, whichever server asks
                agree = self._handlers.agree_to_login
                with suppress(asyncio.TimeoutError):
                    asking = agree(self._server.name, show_request_url(request)) if agree else None
                    self.has_agreed = bool(asking and await asyncio.wait_for(asking, self._handlers.login_s))
        if not self.has_agreed:
            raise self._make_cancelled_error()

    def _make_cancelled_error(self) -> AuthError:
        return AuthError(
            f"{self._describe_need()}, which was cancelled.", f"/mcp auth {self._server.name} starts it again."
        )

    async def _ask(self, loopback: LoopbackReceiver, reason: LoginReason, url: str) -> AuthorizationCodeResult:
        """Ask the user to visit a URL; return the result that reaches our port or is pasted."""
        state = parse_qs(urlsplit(url).query)["state"][0]
        with self.deadlines.pause():
            async with self._handlers.login_lock:
                sources = (loopback.wait_for_redirect(state), self._read_pasted_redirects(url, state, reason))
                waits: list[asyncio.Task[Redirect | None]] = [asyncio.ensure_future(source) for source in sources]
                try:
                    done, _ = await asyncio.wait(
                        waits, timeout=self._handlers.login_s, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    for wait in waits:
                        wait.cancel()
                    await asyncio.gather(*waits, return_exceptions=True)
        if not done:
            raise AuthError(
                f"{self._describe_need()}, which was not completed within {self._handlers.login_s:g} s.",
                "Try /mcp auth again.",
            )
        redirect = done.pop().result()
        if redirect is None:
            raise self._make_cancelled_error()
        self.has_agreed = True
        if redirect.error:
            description = sanitize_line(f"{redirect.error} {redirect.description}")[:_MAX_REASON_CHARS]
            raise AuthError(f"{self._describe_need()}, which was denied: {description}.", server=self._server.name)
        return AuthorizationCodeResult(code=redirect.code, state=state, iss=redirect.iss)

    async def _read_pasted_redirects(self, url: str, state: str, reason: LoginReason) -> Redirect | None:
        """Return the redirect that the user pastes; None if the user cancels."""
        assert self._handlers.log_in
        while pasted := await self._handlers.log_in(self._server.name, url, reason):
            if redirect := parse_redirect(pasted, state):
                return redirect
            reason = "unusable"
        return None

    async def _fetch(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the SDK's flow.

        Raises:
            AuthError: The address is not allowed, or no complete response arrives.
        """
        await self._check_address(request)
        try:
            with anyio.fail_after(_FETCH_S):
                async with httpx2.AsyncClient(
                    timeout=_FETCH_S, trust_env=not is_loopback(str(request.url)), verify=get_tls_context()
                ) as client:
                    response = await client.send(request, stream=True, follow_redirects=False)
                    try:
                        return copy_response(response, await read_whole_body(response))
                    finally:
                        await response.aclose()
        except (httpx2.HTTPError, UnreadableBodyError, TimeoutError) as error:
            reason = sanitize_line(str(error) or type(error).__name__)[:_MAX_REASON_CHARS]
            raise AuthError(
                f"{self._describe_need()}, and the request to {show_request_url(request)} failed: {reason}."
            ) from None

    async def _check_address(self, request: httpx2.Request) -> None:
        """Raise AuthError if a request leads where it may not; have its connection checked for the same.

        The name may resolve to another address once more before the request is sent.
        """
        url = str(request.url)
        if request.url.scheme != "https" and self._server.url.startswith("https:") and not is_loopback(url):
            raise AuthError(
                f"{self._describe_need()} over plain HTTP ({show_request_url(request)}), which is not allowed."
            )
        target, is_allowed = replace(self._server, url=url), self._make_address_rule(url)
        for address in await resolve_url(target):
            if (not has_proxy(url) or parse_address(request.url.host)) and not is_allowed(address):
                raise AuthError(
                    f"{self._describe_need()} at {show_request_url(request)}, which leads to {address}. A server"
                    " elsewhere may not send requests into this machine or its network.",
                    "If that is your authorization server, name it as issuer in the server's oauth table.",
                    server=self._server.name,
                )

        def check(peer: str) -> None:
            address = parse_address(peer)
            if not has_proxy(url):
                check_peer(target, peer, address is not None and not is_allowed(address))

        request.extensions["trace"] = partial(check_new_connection, check=check)

    def _make_address_rule(self, url: str) -> Callable[[Address], bool]:
        """Return which addresses a URL that the server names may lead to (RFC 9728, 7.7).

        A server on this machine may name any. Another one may name its own host, and the issuer of the configuration
        outside this machine; everything else must be on the internet. The names decide, not what they resolve to,
        which their owners can change.
        """
        server, host = self._server, urlsplit(url).hostname
        if is_loopback(server.url):
            return lambda _: True
        if host == urlsplit(server.url).hostname:
            known = self.server_addresses
            if any(address.is_loopback for address in known):
                return lambda _: True
            if not all(address.is_global for address in known):
                return lambda address: not address.is_loopback
        elif server.oauth.issuer and not is_project(server) and host == urlsplit(server.oauth.issuer).hostname:
            return lambda address: not address.is_loopback
        return lambda address: address.is_global

    def _get_stored(self) -> StoredLogin:
        self._stored = self._stored or self._file.read()
        return self._stored

    def _store(self, stored: StoredLogin, provider: Provider | None = None) -> None:
        if provider:
            stored.server = redact_url(self._server.url)
            store_discovery(provider, self._server.oauth, stored)
        self._stored = stored
        self._handlers.secrets.add(*stored.secrets)
        self._file.write(stored)

    def _describe_need(self) -> str:
        return f'Server "{self._server.name}" requires a login'

    def _explain_refusal(self, response: httpx2.Response) -> tuple[str, str]:
        name, status = self._server.name, f"HTTP {response.status_code}"
        if self._has_header:
            return (
                f'Server "{name}" refuses the Authorization header of its configuration ({status}).',
                "Check that it is still valid.",
            )
        return f'Server "{name}" refuses this login ({status}).', f"/mcp auth {name} logs in again."


def _wants_login(response: httpx2.Response) -> bool:
    """Tell whether a response is 401, or says that the token's scope is insufficient (RFC 6750, 3.1)."""
    is_narrow = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401 or is_narrow


def show_request_url(request: httpx2.Request) -> str:
    """Return the URL of a request without its secret parts."""
    return redact_url(str(request.url))


def describe_flow_error(error: Exception) -> str:
    """Return the SDK's reason; of a response that it could not parse, without the content, which may be a token."""
    text = sanitize_line(str(error))
    is_unparsed = isinstance(error.__cause__ or error.__context__, pydantic.ValidationError)
    return (text.partition(":")[0] if is_unparsed else text).rstrip(".")[:_MAX_REASON_CHARS]
