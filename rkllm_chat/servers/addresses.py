"""Which addresses a server's URL may lead to. It opens no connection; names are looked up."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from ..errors import ConfigError, ConnectError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import ServerConfig

LOOK_UP_S = 10.0
LONGEST_URL = 2000

Address = IPv4Address | IPv6Address


async def check_address(server: ServerConfig) -> bool:
    """Whether a URL leads to the internet, and there alone, which `judge_peer` wants to know.

    Raises ConnectError if it leads to a link-local address, where clouds keep their secrets.
    """
    host, port = split_address(server)
    addresses = await find_addresses(host, port)
    judge_addresses(server, host, addresses)
    return leads_out(server.url, addresses)


def split_address(server: ServerConfig) -> tuple[str, int | None]:
    """Host and port of a server's URL. Raises ConfigError if it has none, or is none that should be called."""
    if len(server.url) > LONGEST_URL:
        text = f'Server "{server.name}": its url is no URL: {len(server.url)} characters, at most {LONGEST_URL}.'
        raise ConfigError(text, path=server.source)
    try:
        parts = urlsplit(server.url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f'Server "{server.name}": its url is no URL: {error}.') from error
    if not host or parts.scheme not in ("http", "https", "ws", "wss"):
        raise ConfigError(f'Server "{server.name}": its url is no URL of a server.', "Begin it with https://.")
    if parts.username or parts.password:
        hint = "A URL is shown and logged: write them into headers, as Authorization."
        raise ConfigError(f'Server "{server.name}": its url holds a user or a password.', hint, path=server.source)
    return host, port


def check_headers(server: ServerConfig) -> None:
    """Raises ConfigError if headers, which may be secret, would go to another machine for everybody to read."""
    if not server.headers or server.allow_insecure or is_loopback(server.url) or is_encrypted(server.url):
        return
    hint = "Use https (wss), or write allow_insecure = true if the network is yours alone."
    text = f'Server "{server.name}": its headers would go unencrypted to {urlsplit(server.url).hostname}.'
    raise ConfigError(text, hint, path=server.source)


def is_encrypted(url: str) -> bool:
    return urlsplit(url).scheme in ("https", "wss")


def judge_addresses(server: ServerConfig, host: str, addresses: Sequence[Address]) -> None:
    """Raises ConnectError if a name leads where no server of anybody is."""
    if any(is_metadata(address) for address in addresses) or (
        addresses and all(address.is_link_local for address in addresses)
    ):
        text = f'Server "{server.name}": {host} is a link-local address ({addresses[0]}), which is never called.'
        raise ConnectError(text, "Use its address in the network.", server=server.name, url=show_url(server.url))


def leads_out(url: str, addresses: Sequence[Address]) -> bool:
    """Whether all addresses of a name are of the internet. Through a proxy nobody here knows."""
    return bool(addresses) and all(address.is_global for address in addresses) and not has_proxy(url)


def judge_peer(server: ServerConfig, peer: str, is_out: bool) -> None:
    """Raises ConnectError if a connection came out where it must not, before anything is sent on it.

    A name is looked up again for each connection, and its owner may answer otherwise then (DNS rebinding): one that
    led to the internet must not come to lead into this machine or its network.
    """
    address = read_address(peer)
    if address and (is_metadata(address) or (is_out and not address.is_global)):
        text = f'Server "{server.name}": {urlsplit(server.url).hostname} has come to lead to {address}.'
        raise ConnectError(f"{text} Nothing was sent there.", server=server.name, url=show_url(server.url))


def show_url(url: str) -> str:
    """A URL without what in it may be secret: user, password, query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_loopback(url: str) -> bool:
    """Whether it is this machine; for that no proxy is asked."""
    host = urlsplit(url).hostname or ""
    address = read_address(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def has_proxy(url: str) -> bool:
    """Whether the environment wants such URLs to go through a proxy."""
    scheme = urlsplit(url).scheme
    names = (f"{scheme}_proxy", f"{scheme.replace('ws', 'http')}_proxy", "socks_proxy", "all_proxy")
    return not is_loopback(url) and any(os.environ.get(name) or os.environ.get(name.upper()) for name in names)


async def find_addresses(host: str, port: int | None) -> list[Address]:
    """All addresses of a name; none where it is not known here, as behind a proxy."""
    import asyncio

    if address := read_address(host):
        return [address]
    loop = asyncio.get_running_loop()
    try:
        found = await asyncio.wait_for(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM), LOOK_UP_S)
    except (OSError, asyncio.TimeoutError, UnicodeError):
        return []
    addresses = (read_address(str(entry[4][0])) for entry in found)
    return [address for address in addresses if address]


def read_address(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_metadata(address: Address) -> bool:
    return isinstance(address, IPv4Address) and address.is_link_local
