"""Configure the SDK's OAuth providers from a server's configuration. Sends no requests itself."""

from __future__ import annotations

import json
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import httpx2
import jwt
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import is_valid_client_metadata_url, issuers_match, union_scopes
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl

from ...config.oauth import OAuth
from ...config.settings import ServerConfig
from ...core.errors import ConfigError
from ...core.sanitize import sanitize_line
from .credentials import StoredLogin

_CLIENT_NAME = "rkllm_chat"
_METADATA_NAMES = ("oauth-authorization-server", "openid-configuration")
_MAX_SHOWN_LENGTH = 100
_BASIC: Literal["client_secret_basic"] = "client_secret_basic"
_POST: Literal["client_secret_post"] = "client_secret_post"

Provider = OAuthClientProvider | IdentityAssertionOAuthProvider
_Ask = Callable[[str], Awaitable[AuthorizationCodeResult]]


class _ConfiguredProvider(OAuthClientProvider):
    """Runs `apply_config` before the user is asked, when the authorization server's metadata are known."""

    apply_config: Callable[[OAuthContext], None]

    async def _perform_authorization(self) -> httpx2.Request:
        self.apply_config(self.context)
        return await super()._perform_authorization()


class AuthorizationCodeProvider(_ConfiguredProvider):
    """Authorization code grant: a user visits a page."""


class ClientSecretProvider(_ConfiguredProvider, ClientCredentialsOAuthProvider):
    """Client credentials grant with a client secret."""


class PrivateKeyProvider(_ConfiguredProvider, PrivateKeyJWTOAuthProvider):
    """Client credentials grant with a private key."""


def make_user_provider(
    server: ServerConfig, stored: StoredLogin, redirect_uri: str = "", ask: _Ask | None = None, is_step_up: bool = False
) -> AuthorizationCodeProvider:
    """Return a provider for the authorization code grant.

    Args:
        server: The server's configuration.
        stored: The stored login, which the provider updates.
        redirect_uri: Where the browser ends; "" for a refresh.
        ask: Has the user visit a URL; None for a refresh.
        is_step_up: Whether a wider scope is requested.
    """
    oauth = server.oauth
    urls: list[str] = []

    async def save_url(url: str) -> None:
        urls.append(url)

    async def answer() -> AuthorizationCodeResult:
        assert ask
        return await ask(urls.pop())

    if client := _configured_client(oauth, stored.metadata):
        stored.client = client
    elif redirect_uri and stored.client and AnyUrl(redirect_uri) not in (stored.client.redirect_uris or ()):
        stored.client = None  # registered for a port that another program uses now
    uris = [AnyUrl(redirect_uri)] if redirect_uri else None
    metadata = OAuthClientMetadata(client_name=_CLIENT_NAME, redirect_uris=uris)
    document = oauth.client_id if _is_metadata_document(oauth) else None
    provider = AuthorizationCodeProvider(server.url, metadata, stored, save_url, answer, document)
    provider.apply_config = partial(_apply_config, oauth, is_step_up)
    restore_discovery(provider.context, stored)
    return provider


def make_machine_provider(server: ServerConfig, stored: StoredLogin, is_step_up: bool) -> Provider:
    """Return a provider for a grant without a user. Raises ConfigError for an unreadable key."""
    oauth = server.oauth
    if oauth.grant == "identity_assertion":
        return IdentityAssertionOAuthProvider(
            server.url,
            stored,
            oauth.client_id,
            oauth.client_secret,
            oauth.issuer,
            partial(_get_assertion, oauth),
            oauth.scope or None,
            _BASIC,
        )
    scope, issuer = oauth.scope or None, oauth.issuer or None
    provider: ClientSecretProvider | PrivateKeyProvider
    with warnings.catch_warnings():  # mcp 3 will require an issuer; until then the server may name it
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        if oauth.private_key_file:
            provider = PrivateKeyProvider(
                server.url, stored, oauth.client_id, make_assertion_signer(server), scope, issuer
            )
        else:
            method = _choose_auth_method(stored.metadata)
            provider = ClientSecretProvider(
                server.url, stored, oauth.client_id, oauth.client_secret, method, scope, issuer
            )
    provider.apply_config = partial(_apply_config, oauth, is_step_up)
    restore_discovery(provider.context, stored)
    return provider


def is_discovery(request: httpx2.Request) -> bool:
    """Return whether a request asks for the metadata of an authorization server (RFC 8414, OpenID Connect)."""
    return request.method == "GET" and any(f"/.well-known/{name}" in request.url.path for name in _METADATA_NAMES)


def check_metadata(response: httpx2.Response, server_url: str) -> None:
    """Refuse metadata with which a login would not be safe; the SDK would ignore them and guess an address.

    Args:
        response: The answer to a request for metadata.
        server_url: URL of the MCP server; its own host may be without TLS if it is.

    Raises:
        OAuthFlowError: The user's browser would be sent to an address that is not https, or the server's PKCE is not
            S256 (MCP 2025-11-25, Authorization, Authorization Code Protection).
    """
    try:
        metadata = json.loads(response.content) if response.status_code == 200 else None
    except (ValueError, RecursionError):
        return
    if not isinstance(metadata, dict):
        return
    endpoint, server = str(metadata.get("authorization_endpoint", "")), urlsplit(server_url)
    try:
        parts = urlsplit(endpoint)
        is_own = (parts.scheme, parts.hostname) == ("http", server.hostname) and server.scheme == "http"
    except ValueError:
        parts, is_own = urlsplit(""), False
    if endpoint and parts.scheme != "https" and not is_own:
        shown = sanitize_line(endpoint)[:_MAX_SHOWN_LENGTH]
        raise OAuthFlowError(f"its authorization endpoint is not an https address: {shown}")
    methods = metadata.get("code_challenge_methods_supported")
    if isinstance(methods, list) and methods and "S256" not in methods:
        raise OAuthFlowError("its authorization server offers no PKCE with S256, without which a code can be stolen")


def restore_discovery(context: OAuthContext, stored: StoredLogin) -> None:
    """Restore what an earlier login discovered."""
    context.oauth_metadata, context.protected_resource_metadata = stored.metadata, stored.resource
    context.auth_server_url = stored.issuer


def store_discovery(provider: Provider, oauth: OAuth, stored: StoredLogin) -> None:
    """Copy what the login discovered into `stored`, except for values that the configuration has."""
    if not isinstance(provider, OAuthClientProvider):
        return
    context = provider.context
    stored.metadata, stored.resource = context.oauth_metadata, context.protected_resource_metadata
    stored.issuer = context.auth_server_url
    if oauth.client_id and not _is_metadata_document(oauth):
        stored.client = None
    elif stored.client and not stored.client.redirect_uris:
        stored.client.redirect_uris = context.client_metadata.redirect_uris


def _apply_config(oauth: OAuth, is_step_up: bool, context: OAuthContext) -> None:
    """Apply the configuration over the server's demands. Raises OAuthFlowError if it names another issuer."""
    metadata, requested = context.oauth_metadata, context.client_metadata.scope
    if oauth.issuer and not (metadata and issuers_match(str(metadata.issuer), oauth.issuer)):
        issuer = metadata.issuer if metadata else "none"
        raise OAuthFlowError(f"the authorization server is {issuer}, but the configuration names {oauth.issuer}")
    if oauth.scope:
        is_lasting = "offline_access" in (requested or "").split()
        more = requested if is_step_up else "offline_access" if is_lasting else None
        context.client_metadata.scope = union_scopes(oauth.scope, more)
    if oauth.client_secret and context.client_info:
        context.client_info.token_endpoint_auth_method = _choose_auth_method(metadata)


def _choose_auth_method(metadata: OAuthMetadata | None) -> Literal["client_secret_basic", "client_secret_post"]:
    """Return how to send a client secret: as HTTP Basic where possible.

    RFC 6749, 2.3.1, requires every server to support it, and some do not.
    """
    offered = metadata.token_endpoint_auth_methods_supported if metadata else None
    return _POST if offered and _BASIC not in offered and _POST in offered else _BASIC


def _configured_client(oauth: OAuth, metadata: OAuthMetadata | None) -> OAuthClientInformationFull | None:
    """Return the client of the configuration; None if it has none."""
    if not oauth.client_id or _is_metadata_document(oauth):
        return None
    method = _choose_auth_method(metadata) if oauth.client_secret else "none"
    return OAuthClientInformationFull(
        client_id=oauth.client_id, client_secret=oauth.client_secret or None, token_endpoint_auth_method=method
    )


def _is_metadata_document(oauth: OAuth) -> bool:
    """Tell whether the client ID is the URL of its metadata document (CIMD)."""
    return not oauth.client_secret and is_valid_client_metadata_url(oauth.client_id)


def make_assertion_signer(server: ServerConfig) -> Callable[[str], Awaitable[str]]:
    """Return a function that signs assertions for an audience.

    Raises:
        ConfigError: The key file is unreadable; raised by the function if it does not suit the algorithm.
    """
    oauth = server.oauth
    place = f'Server "{server.name}": oauth.private_key_file {oauth.private_key_file}'
    try:
        key = Path(oauth.private_key_file).expanduser().read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{place} cannot be read: {getattr(error, 'strerror', None) or 'it is not a PEM file'}."
        ) from None
    client_id, algorithm = oauth.client_id, oauth.algorithm or "RS256"
    sign = SignedJWTParameters(
        issuer=client_id, subject=client_id, signing_key=key, signing_algorithm=algorithm
    ).create_assertion_provider()

    async def sign_or_explain(audience: str) -> str:
        try:
            return await sign(audience)
        except (jwt.PyJWTError, ValueError, TypeError):
            raise ConfigError(f"{place} is not a key for {algorithm}.", "Use a PEM file without a password.") from None

    return sign_or_explain


async def _get_assertion(oauth: OAuth, _audience: str, _resource: str) -> str:
    """Return the configured assertion of the company's identity provider; renewing it is left to the configuration."""
    return oauth.assertion
