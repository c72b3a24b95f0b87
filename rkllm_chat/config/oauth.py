"""The `oauth` table of a server's configuration and its validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.records import field, fields, record

_GRANTS: dict[str, tuple[str, ...]] = {
    "authorization_code": (),
    "client_credentials": ("client_id",),
    "identity_assertion": ("client_id", "client_secret", "assertion", "issuer"),
}
"""OAuth grants and the keys they need; the subject is a user, a machine, or a user vouched for by an identity provider.
"""
_GRANT_OF_KEY = {
    "redirect_uri": "authorization_code",
    "private_key_file": "client_credentials",
    "algorithm": "client_credentials",
    "assertion": "identity_assertion",
}
"""Keys that only one grant uses."""
_ALGORITHMS = (*(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)), "EdDSA")
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost")
_KEY_ALIASES = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "redirectUri": "redirect_uri",
    "scopes": "scope",
}
"""Keys of other programs in a JSON `oauth` table -> our keys."""


@record(frozen=True)
class OAuth:
    """OAuth settings of a server.

    Attributes:
        grant: Who logs in: "authorization_code" (you, in a browser), "client_credentials" (this machine) or
            "identity_assertion" (you, by the login of your company).
        client_id: Name under which the server knows this program, or the https URL of a document that describes it.
            Left out: the program registers itself, where the server permits that.
        client_secret: Password that belongs to `client_id`.
        private_key_file: File of the private key that proves who this machine is, in place of a secret.
        algorithm: Signature algorithm of that key, such as "ES256".
        assertion: What the login of your company says about you (an identity assertion).
        issuer: The only authorization server that receives `client_secret` or a signed assertion. Left out: the one
            that the server names.
        scope: Rights that are asked for, separated by spaces.
        redirect_uri: URL of this machine to which the browser returns, with a fixed port. Left out: any free port.
    """

    grant: str = "authorization_code"
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    private_key_file: str = ""
    algorithm: str = ""
    assertion: str = field(default="", repr=False)
    issuer: str = ""
    scope: str = ""
    redirect_uri: str = ""


def translate_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the `oauth` table of any program to our keys; unknown keys are dropped."""
    renamed = {_KEY_ALIASES.get(key, key): value for key, value in table.items()}
    if isinstance(scopes := renamed.get("scope"), list):
        renamed["scope"] = " ".join(map(str, scopes))
    if isinstance(port := table.get("callbackPort"), int):  # of Claude Code
        renamed.setdefault("redirect_uri", f"http://localhost:{port}/callback")
    known = {entry.name for entry in fields(OAuth)}
    return {key: value for key, value in renamed.items() if key in known}


def find_oauth_error(oauth: OAuth, url: str, headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first error as (text that follows the table's place, hint); None if the settings are consistent."""
    if oauth == OAuth():
        return None
    if not url.startswith(("http://", "https://")):
        return " is only valid for servers with an http or https url", ""
    if "authorization" in {name.lower() for name in headers}:
        return " and an Authorization header exclude each other", "Keep one of the two."
    return _check_grant(oauth) or _check_client(oauth) or _check_urls(oauth)


def _check_grant(oauth: OAuth) -> tuple[str, str] | None:
    if oauth.grant not in _GRANTS:
        return f'.grant is "{oauth.grant}"', f"Known grants: {', '.join(_GRANTS)}."
    for key in _GRANTS[oauth.grant]:
        if not getattr(oauth, key):
            return f'.{key} is required for the grant "{oauth.grant}"', ""
    for key, grant in _GRANT_OF_KEY.items():
        if getattr(oauth, key) and oauth.grant != grant:
            return f'.{key} is not valid for the grant "{oauth.grant}"', f'Remove it, or set grant = "{grant}".'
    return None


def _check_client(oauth: OAuth) -> tuple[str, str] | None:
    if oauth.grant == "client_credentials" and bool(oauth.client_secret) == bool(oauth.private_key_file):
        return " needs a client_secret or a private_key_file", "Set one of the two."
    if oauth.client_secret and not oauth.client_id:
        return ".client_secret needs a client_id", ""
    if oauth.algorithm and oauth.algorithm not in _ALGORITHMS:
        return f'.algorithm is "{oauth.algorithm}"', f"Known algorithms: {', '.join(_ALGORITHMS)}."
    return None


def _check_urls(oauth: OAuth) -> tuple[str, str] | None:
    from urllib.parse import urlsplit  # 2 ms, which servers without OAuth need not spend

    try:
        issuer, redirect = urlsplit(oauth.issuer), urlsplit(oauth.redirect_uri)
        is_safe = issuer.scheme == "https" or (issuer.scheme == "http" and issuer.hostname in _LOOPBACK_HOSTS)
        is_loopback = redirect.scheme == "http" and redirect.hostname in _LOOPBACK_HOSTS and bool(redirect.port)
    except ValueError as error:
        return f" contains an invalid URL: {error}", ""
    if oauth.issuer and not is_safe:
        return ".issuer must be an https URL", ""
    if oauth.redirect_uri and not is_loopback:
        return ".redirect_uri must be a loopback URL with a port", "Example: http://127.0.0.1:8765/callback."
    return None
