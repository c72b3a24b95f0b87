"""The SDK's OAuth providers, set up as a server's configuration wants them. They send nothing by themselves."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Literal

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

from ..config import ServerConfig
from ..errors import ConfigError
from ..oauth import OAuth
from .credentials import Kept

CLIENT_NAME = "rkllm_chat"
BASIC: Literal["client_secret_basic"] = "client_secret_basic"
POST: Literal["client_secret_post"] = "client_secret_post"

Provider = OAuthClientProvider | IdentityAssertionOAuthProvider
Ask = Callable[[str], Awaitable[AuthorizationCodeResult]]
Suit = Callable[[OAuthContext], None]


class Person(OAuthClientProvider):
    """Somebody who visits a page. `suit` is called before he is asked, when all is known about who will ask him."""

    suit: Suit

    async def _perform_authorization(self) -> httpx2.Request:
        self.suit(self.context)
        return await super()._perform_authorization()


class Machine(ClientCredentialsOAuthProvider):
    """A program with a secret of its own."""

    suit: Suit

    async def _perform_authorization(self) -> httpx2.Request:
        self.suit(self.context)
        return await super()._perform_authorization()


class Signer(PrivateKeyJWTOAuthProvider):
    """A program with a key of its own."""

    suit: Suit

    async def _perform_authorization(self) -> httpx2.Request:
        self.suit(self.context)
        return await super()._perform_authorization()


def make_person(
    server: ServerConfig, kept: Kept, redirect_uri: str = "", ask: Ask | None = None, is_step_up: bool = False
) -> Person:
    """A provider that knows what is kept; for a refresh, without a way to ask anybody."""
    oauth = server.oauth
    asked: list[str] = []

    async def note(url: str) -> None:
        asked.append(url)

    async def answer() -> AuthorizationCodeResult:
        assert ask
        return await ask(asked.pop())

    if fixed := fix_client(oauth, kept.metadata):
        kept.client = fixed
    elif redirect_uri and kept.client and AnyUrl(redirect_uri) not in (kept.client.redirect_uris or ()):
        kept.client = None  # it is registered for a port that another program has now
    uris = [AnyUrl(redirect_uri)] if redirect_uri else None
    metadata = OAuthClientMetadata(client_name=CLIENT_NAME, redirect_uris=uris)
    document = oauth.client_id if is_document(oauth) else None
    provider = Person(server.url, metadata, kept, note, answer, document)
    provider.suit = partial(suit, oauth, is_step_up)
    recall(provider.context, kept)
    return provider


def make_machine(server: ServerConfig, kept: Kept, is_step_up: bool) -> Provider:
    """A provider that asks nobody. Raises ConfigError for a key that cannot be read."""
    oauth = server.oauth
    if oauth.grant == "identity_assertion":
        return IdentityAssertionOAuthProvider(
            server.url,
            kept,
            oauth.client_id,
            oauth.client_secret,
            oauth.issuer,
            partial(vouch, oauth),
            oauth.scope or None,
            BASIC,
        )
    scope, issuer = oauth.scope or None, oauth.issuer or None
    provider: Machine | Signer
    with warnings.catch_warnings():  # an issuer is asked for by mcp 3; until then the server may name it
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        if oauth.private_key_file:
            provider = Signer(server.url, kept, oauth.client_id, read_key(server), scope, issuer)
        else:
            method = choose_method(kept.metadata)
            provider = Machine(server.url, kept, oauth.client_id, oauth.client_secret, method, scope, issuer)
    provider.suit = partial(suit, oauth, is_step_up)
    recall(provider.context, kept)
    return provider


def recall(context: OAuthContext, kept: Kept) -> None:
    context.oauth_metadata, context.protected_resource_metadata = kept.metadata, kept.resource
    context.auth_server_url = kept.issuer


def remember(provider: Provider, oauth: OAuth, kept: Kept) -> None:
    """Keeps what was found out on the way; what the configuration says is not kept a second time."""
    if not isinstance(provider, OAuthClientProvider):
        return
    context = provider.context
    kept.metadata, kept.resource = context.oauth_metadata, context.protected_resource_metadata
    kept.issuer = context.auth_server_url
    if oauth.client_id and not is_document(oauth):
        kept.client = None
    elif kept.client and not kept.client.redirect_uris:
        kept.client.redirect_uris = context.client_metadata.redirect_uris


def suit(oauth: OAuth, is_step_up: bool, context: OAuthContext) -> None:
    """Puts the configuration over what the server wants. Raises OAuthFlowError if it names another issuer."""
    metadata, wanted = context.oauth_metadata, context.client_metadata.scope
    if oauth.issuer and not (metadata and issuers_match(str(metadata.issuer), oauth.issuer)):
        named = metadata.issuer if metadata else "none"
        raise OAuthFlowError(f"the authorization server is {named}, and the configuration says {oauth.issuer}")
    if oauth.scope:
        is_lasting = "offline_access" in (wanted or "").split()
        more = wanted if is_step_up else "offline_access" if is_lasting else None
        context.client_metadata.scope = union_scopes(oauth.scope, more)
    if oauth.client_secret and context.client_info:
        context.client_info.token_endpoint_auth_method = choose_method(metadata)


def choose_method(metadata: OAuthMetadata | None) -> Literal["client_secret_basic", "client_secret_post"]:
    """How a secret is shown: every server must take it as HTTP Basic (RFC 6749, 2.3.1), and some do not."""
    offered = metadata.token_endpoint_auth_methods_supported if metadata else None
    return POST if offered and BASIC not in offered and POST in offered else BASIC


def fix_client(oauth: OAuth, metadata: OAuthMetadata | None) -> OAuthClientInformationFull | None:
    """The client that the configuration names, if it does."""
    if not oauth.client_id or is_document(oauth):
        return None
    method = choose_method(metadata) if oauth.client_secret else "none"
    return OAuthClientInformationFull(
        client_id=oauth.client_id, client_secret=oauth.client_secret or None, token_endpoint_auth_method=method
    )


def is_document(oauth: OAuth) -> bool:
    """Whether the client's name is the address of a document about it, which every server can read (CIMD)."""
    return not oauth.client_secret and is_valid_client_metadata_url(oauth.client_id)


def read_key(server: ServerConfig) -> Callable[[str], Awaitable[str]]:
    """Signs for whichever audience is given. Raises ConfigError, also later."""
    oauth = server.oauth
    place = f'Server "{server.name}": oauth.private_key_file {oauth.private_key_file}'
    try:
        key = Path(oauth.private_key_file).expanduser().read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place} cannot be read: {getattr(error, 'strerror', None) or 'no PEM file'}.") from None
    client, algorithm = oauth.client_id, oauth.algorithm or "RS256"
    sign = SignedJWTParameters(
        issuer=client, subject=client, signing_key=key, signing_algorithm=algorithm
    ).create_assertion_provider()

    async def sign_or_explain(audience: str) -> str:
        try:
            return await sign(audience)
        except (jwt.PyJWTError, ValueError, TypeError):
            raise ConfigError(f"{place} is no key for {algorithm}.", "It must be PEM, without a password.") from None

    return sign_or_explain


async def vouch(oauth: OAuth, _audience: str, _resource: str) -> str:
    """What the company's identity provider said; who configures it sees to it that it is still valid."""
    return oauth.assertion
