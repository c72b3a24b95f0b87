"""Decide which addresses a server's URL may lead to. Resolves names but opens no connection."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from ...config.servers import ServerConfig
from ...core.errors import ChatError, ConfigError, ConnectError

LOOKUP_TIMEOUT_S = 10.0
MAX_URL_LENGTH = 2000

Address = IPv4Address | IPv6Address


async def check_url(server: ServerConfig) -> bool:
    """Tell whether a URL leads to the internet only, an argument of `check_peer`.

    Raises:
        ConfigError: The URL is invalid.
        ConnectError: It leads to a link-local address, where clouds serve their metadata and credentials.
    """
    return is_public(server.url, await resolve_url(server))


async def resolve_url(server: ServerConfig) -> list[Address]:
    """Return the addresses of a URL's host; empty if they cannot be found here, as behind a proxy.

    Raises:
        ConfigError: The URL is invalid.
        ConnectError: It leads to a link-local address.
    """
    import asyncio

    host, port = split_url(server)
    addresses = await asyncio.to_thread(resolve, host, port, LOOKUP_TIMEOUT_S)
    check_resolved_addresses(server, host, addresses)
    return addresses


def split_url(server: ServerConfig) -> tuple[str, int | None]:
    """Return host and port of a server's URL.

    Raises:
        ConfigError: The URL is too long, invalid, not of a supported scheme, or contains credentials.
    """
    if len(server.url) > MAX_URL_LENGTH:
        text = (
            f'Server "{server.name}": its url has {len(server.url)} characters; at most {MAX_URL_LENGTH} are allowed.'
        )
        raise ConfigError(text, path=server.source)
    try:
        parts = urlsplit(server.url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f'Server "{server.name}": its url is invalid: {error}.') from error
    if not host or parts.scheme not in ("http", "https", "ws", "wss"):
        raise ConfigError(f'Server "{server.name}": its url is not the URL of a server.', "Start it with https://.")
    if parts.username or parts.password:
        hint = "URLs are shown and logged. Put the credentials into headers, as Authorization."
        raise ConfigError(
            f'Server "{server.name}": its url contains a user name or a password.', hint, path=server.source
        )
    return host, port


def check_headers(server: ServerConfig) -> None:
    """Raise ConfigError if headers, which may be secret, would be sent unencrypted to another machine."""
    if not server.headers or server.allow_insecure or is_loopback(server.url) or _is_encrypted(server.url):
        return
    hint = "Use https (wss), or set allow_insecure = true if only you use the network."
    text = f'Server "{server.name}": its headers would be sent unencrypted to {urlsplit(server.url).hostname}.'
    raise ConfigError(text, hint, path=server.source)


def _is_encrypted(url: str) -> bool:
    return urlsplit(url).scheme in ("https", "wss")


def check_resolved_addresses(server: ServerConfig, host: str, addresses: Sequence[Address]) -> None:
    """Raise ConnectError if a name resolves to a metadata address, or to link-local addresses only."""
    if any(_is_metadata(address) for address in addresses) or (
        addresses and all(address.is_link_local for address in addresses)
    ):
        text = f'Server "{server.name}": {host} is a link-local address ({addresses[0]}), which is not allowed.'
        raise ConnectError(
            text, "Use the server's address in the local network.", server=server.name, url=redact_url(server.url)
        )


def is_public(url: str, addresses: Sequence[Address]) -> bool:
    """Tell whether all addresses of a name are global; False behind a proxy, which resolves it itself."""
    return bool(addresses) and all(address.is_global for address in addresses) and not has_proxy(url)


def check_peer(server: ServerConfig, peer: str, is_public_name: bool) -> None:
    """Check the peer of a new connection before anything is sent.

    A name is resolved again for each connection and its owner may answer differently (DNS rebinding): a name that led
    to the internet must not lead into this machine or its network.

    Args:
        server: The server's configuration.
        peer: The connected IP address.
        is_public_name: The result of `check_url`.

    Raises:
        ConnectError: The peer is a metadata address, or not global although `is_public_name`.
    """
    address = parse_address(peer)
    if address and (_is_metadata(address) or (is_public_name and not address.is_global)):
        text = f'Server "{server.name}": {urlsplit(server.url).hostname} now resolves to {address}.'
        raise ConnectError(f"{text} Nothing was sent there.", server=server.name, url=redact_url(server.url))


async def check_new_connection(event: str, info: Mapping[str, Any], check: Callable[[str], None]) -> None:
    """Check the address of a new connection before anything is sent (httpx, Extensions, "trace")."""
    if event == "connection.connect_tcp.complete":
        stream = info["return_value"]
        try:
            check(str(stream.get_extra_info("server_addr")[0]))
        except ChatError:
            await stream.aclose()
            raise


def redact_url(url: str) -> str:
    """Return a URL without its possibly secret parts: user, password, query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_loopback(url: str) -> bool:
    """Tell whether a URL leads to this machine; no proxy is used then."""
    host = urlsplit(url).hostname or ""
    address = parse_address(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def has_proxy(url: str) -> bool:
    """Tell whether the environment configures a proxy for a URL."""
    scheme = urlsplit(url).scheme
    names = (f"{scheme}_proxy", f"{scheme.replace('ws', 'http')}_proxy", "socks_proxy", "all_proxy")
    return not is_loopback(url) and any(os.environ.get(name) or os.environ.get(name.upper()) for name in names)


def resolve(host: str, port: int | None, limit_s: float) -> list[Address]:
    """Return all addresses of a name; empty if it cannot be resolved here, as behind a proxy."""
    if address := parse_address(host):
        return [address]
    try:
        entries = look_up(host, port, limit_s)
    except (OSError, UnicodeError):
        return []
    return [address for entry in entries if (address := parse_address(str(entry[4][0])))]


def look_up(host: str, port: int | None, limit_s: float) -> list[Any]:
    """Return the entries of `getaddrinfo`; in a thread, because the system's resolver has no timeout.

    Raises:
        OSError: The name cannot be resolved, or not in time.
        UnicodeError: It is not a name.
    """
    if parse_address(host):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    import threading

    entries: list[Any] = []
    errors: list[Exception] = []

    def look_up() -> None:
        try:
            entries.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            errors.append(error)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(limit_s)
    if errors:
        raise errors[0]
    if not entries:
        raise TimeoutError
    return entries


def parse_address(text: str) -> Address | None:
    """Parse an IP address; an IPv4-mapped IPv6 address becomes IPv4, anything else None."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_metadata(address: Address) -> bool:
    return isinstance(address, IPv4Address) and address.is_link_local
