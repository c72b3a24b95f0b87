"""What a server needs of this machine's network: proxies, certificates and mirrors of package registries.

One-shot commands import this module before they start a server, so it imports little.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
CERTIFICATE_FILES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables that name a file or a folder, which a sandbox makes readable."""
_REGISTRY = "npm_config_registry"
_MIRRORS = (
    _REGISTRY,
    "NPM_CONFIG_REGISTRY",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_PYTHON_INSTALL_MIRROR",
    "PIP_INDEX_URL",
)
NETWORK_VARIABLES = (*_PROXIES, *(name.lower() for name in _PROXIES), *CERTIFICATE_FILES, *_MIRRORS)
"""Passed on to a server that has the network."""
_NPM_RUNNERS = ("npx", "npm", "pnpm", "pnpx", "bunx", "yarn")
_NPM_CONFIG = ".npmrc"
_MAX_BYTES = 1 << 16
_HINTS = {
    (
        "CERTIFICATE_VERIFY_FAILED",
        "UnknownIssuer",
        "unable to get local issuer",
        "self-signed certificate",
        "self signed certificate",
        "SELF_SIGNED_CERT",
        "UNABLE_TO_VERIFY_LEAF",
        "UNABLE_TO_GET_ISSUER_CERT",
    ): "A certificate was not accepted. Behind a company's proxy, set SSL_CERT_FILE (Python, uv) or NODE_EXTRA_CA_CERTS"
    " (Node) to the file with its certificate.",
    (
        "407 Proxy",
        "Proxy Authentication Required",
        "ProxyError",
        "proxy connect",
        "tunneling socket",
        "Tunnel connection failed",
        "UNABLE_TO_CONNECT_TO_PROXY",
    ): "A proxy refused the connection. Check HTTPS_PROXY and NO_PROXY.",
    (
        "EAI_AGAIN",
        "ENOTFOUND",
        "Temporary failure in name resolution",
        "Name or service not known",
        "dns error",
        "failed to lookup address",
        "getaddrinfo failed",
        "nodename nor servname",
    ): "A name could not be resolved. Check the network; behind a proxy, set HTTPS_PROXY.",
}
"""Words of the errors of common programs -> what a user can do."""


def find_network_variables(environment: Mapping[str, str], command: str) -> dict[str, str]:
    """Return the variables of this machine's network that a server with a network gets.

    Args:
        environment: The environment of this program.
        command: The server's program. For one of npm, the registry of ~/.npmrc counts, without its tokens: a sandbox
            hides that file.
    """
    found = {name: environment[name] for name in NETWORK_VARIABLES if environment.get(name)}
    if os.path.basename(command) in _NPM_RUNNERS and not {_REGISTRY, _REGISTRY.upper()} & found.keys():
        registry = _read_registry(environment)
        found |= {_REGISTRY: registry} if registry else {}
    return found


def _read_registry(environment: Mapping[str, str]) -> str:
    """Return the registry of npm's configuration; "" if it names none, or one by a variable."""
    home = environment.get("HOME") or "/nonexistent"
    path = environment.get("NPM_CONFIG_USERCONFIG") or os.path.join(home, _NPM_CONFIG)
    try:
        with open(path, "rb") as file:
            lines = file.read(_MAX_BYTES).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition("=")
        value = value.strip().strip("\"'")
        if key.strip() == "registry" and value.startswith(("https://", "http://")) and "${" not in value:
            return value
    return ""


def find_network_hint(text: str) -> str:
    """Return what a user can do about an error of the network that a program has written; "" for another text."""
    return next((hint for words, hint in _HINTS.items() if any(word in text for word in words)), "")
