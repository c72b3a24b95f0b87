"""Which addresses a server's URL may lead to. It opens no connection; names are looked up."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from ..errors import ConfigError, ConnectError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import ServerConfig

LOOK_UP_S = 10.0

Address = IPv4Address | IPv6Address


async def check_address(server: ServerConfig) -> None:
    """Raises ConnectError for a URL that leads to a link-local address, where clouds keep their secrets."""
    host, port = split_address(server)
    judge_addresses(server, host, await find_addresses(host, port))


def split_address(server: ServerConfig) -> tuple[str, int | None]:
    """Host and port of a server's URL. Raises ConfigError if it has none."""
    try:
        parts = urlsplit(server.url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f'Server "{server.name}": its url is no URL: {error}.') from error
    if not host or parts.scheme not in ("http", "https", "ws", "wss"):
        raise ConfigError(f'Server "{server.name}": its url is no URL of a server.', "Begin it with https://.")
    return host, port


def judge_addresses(server: ServerConfig, host: str, addresses: Sequence[Address]) -> None:
    """Raises ConnectError if a name leads where no server of anybody is."""
    if any(is_metadata(address) for address in addresses) or (
        addresses and all(address.is_link_local for address in addresses)
    ):
        text = f'Server "{server.name}": {host} is a link-local address ({addresses[0]}), which is never called.'
        raise ConnectError(text, "Use its address in the network.", server=server.name, url=show_url(server.url))


def show_url(url: str) -> str:
    """A URL without what in it may be secret: user, password, query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_loopback(url: str) -> bool:
    """Whether it is this machine; for that no proxy is asked."""
    host = urlsplit(url).hostname or ""
    address = read_address(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


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
