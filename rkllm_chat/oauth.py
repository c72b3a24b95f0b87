"""How somebody logs in to a server: the table `oauth` of its configuration, and what is right in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

SECRETS = ("client_secret", "assertion")
GRANTS: dict[str, tuple[str, ...]] = {
    "authorization_code": (),
    "client_credentials": ("client_id",),
    "identity_assertion": ("client_id", "client_secret", "assertion", "issuer"),
}
"""Who logs in, and the keys that it needs: a person, a machine, or a person whom his company vouches for."""
USED_BY = {
    "redirect_uri": "authorization_code",
    "private_key_file": "client_credentials",
    "algorithm": "client_credentials",
    "assertion": "identity_assertion",
}
ALGORITHMS = (*(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)), "EdDSA")
LOOPBACK = ("127.0.0.1", "localhost")
OTHER_NAMES = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "redirectUri": "redirect_uri",
    "scopes": "scope",
}
"""Keys of other programs that write a table `oauth` into JSON."""


@dataclass(frozen=True)
class OAuth:
    """`grant` is a row of GRANTS. Without `client_id` this program registers itself, where the server lets it.

    A `client_id` that is an https URL is a client ID metadata document. `issuer` is the one authorization server that
    gets `client_secret` or what the key signs; "" the one that the server names. `redirect_uri` "" is a free port.
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


def read_other_names(table: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON table `oauth` of any program: our keys, and theirs that mean the same; the rest is theirs alone."""
    named = {OTHER_NAMES.get(key, key): value for key, value in table.items()}
    if isinstance(scopes := named.get("scope"), list):
        named["scope"] = " ".join(map(str, scopes))
    known = {entry.name for entry in fields(OAuth)}
    return {key: value for key, value in named.items() if key in known}


def find_mistake(oauth: OAuth, url: str, headers: Mapping[str, str]) -> tuple[str, str] | None:
    """The first thing that is wrong, in words that follow the table's place, and what to try; None if nothing is."""
    if oauth == OAuth():
        return None
    if not url.startswith(("http://", "https://")):
        return " is for servers with an http or https url", ""
    if "authorization" in {name.lower() for name in headers}:
        return " and an Authorization header cannot both be", "Keep one of the two."
    return find_odd_grant(oauth) or find_odd_client(oauth) or find_odd_url(oauth)


def find_odd_grant(oauth: OAuth) -> tuple[str, str] | None:
    if oauth.grant not in GRANTS:
        return f'.grant is "{oauth.grant}"', f"Known are {', '.join(GRANTS)}."
    for key in GRANTS[oauth.grant]:
        if not getattr(oauth, key):
            return f'.{key} is needed for the grant "{oauth.grant}"', ""
    for key, grant in USED_BY.items():
        if getattr(oauth, key) and oauth.grant != grant:
            return f'.{key} is not for the grant "{oauth.grant}"', f'Leave it out, or write grant = "{grant}".'
    return None


def find_odd_client(oauth: OAuth) -> tuple[str, str] | None:
    if oauth.grant == "client_credentials" and bool(oauth.client_secret) == bool(oauth.private_key_file):
        return " needs a client_secret or a private_key_file", "Write one of the two."
    if oauth.client_secret and not oauth.client_id:
        return ".client_secret needs a client_id", ""
    if oauth.algorithm and oauth.algorithm not in ALGORITHMS:
        return f'.algorithm is "{oauth.algorithm}"', f"Known are {', '.join(ALGORITHMS)}."
    return None


def find_odd_url(oauth: OAuth) -> tuple[str, str] | None:
    try:
        issuer, redirect = urlsplit(oauth.issuer), urlsplit(oauth.redirect_uri)
        is_safe = issuer.scheme == "https" or (issuer.scheme == "http" and issuer.hostname in LOOPBACK)
        is_ours = redirect.scheme == "http" and redirect.hostname in LOOPBACK and bool(redirect.port)
    except ValueError as error:
        return f" holds what is no URL: {error}", ""
    if oauth.issuer and not is_safe:
        return ".issuer must be an https URL", ""
    if oauth.redirect_uri and not is_ours:
        return ".redirect_uri must be on this machine, with a port", "Write http://127.0.0.1:8765/callback."
    return None
