"""Which addresses a server's URL may lead to, and certificates: over each transport and by the direct client."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cpu_time import allow_s
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ChatError, ConfigError, ConnectError
from rkllm_chat.mcp_client.direct.open_server import open_server
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.mcp_client.transports.addresses import (
    MAX_URL_LENGTH,
    check_peer,
    check_url,
    is_public,
    parse_address,
    redact_url,
)

from .chaos_http import Listener, open_site
from .chaos_websocket import open_exchange
from .faults import Trial

HEADERS = {"X-Api-Key": "secret"}
FAR = "93.184.215.14"


def call_directly(server: ServerConfig, _folder: Path) -> str:
    with open_server(server) as opened:
        opened.list_tools()
        return "".join(block["text"] for block in opened.call_tool("act", {})["content"])


def call_through_toolbox(server: ServerConfig, folder: Path) -> str:
    async def go() -> str:
        async with Toolbox([server], folder / "logs") as toolbox:
            trial = Trial(toolbox, folder)
            if "chaos" in toolbox.failures:
                raise toolbox.failures["chaos"]
            return (await trial.act()).text

    return asyncio.run(go())


@dataclass(frozen=True)
class Route:
    """A way to reach a server: the client, a server that listens there, and its transport."""

    act: Callable[[ServerConfig, Path], str]
    open: Callable[[str], Any]
    transport: str


ROUTES = {
    "the direct client": Route(call_directly, open_site, "http"),
    "streamable HTTP": Route(call_through_toolbox, open_site, "http"),
    "WebSocket": Route(call_through_toolbox, open_exchange, "websocket"),
}
EACH_ROUTE = pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)


def heard(site: Listener) -> list[Any]:
    """All that came to a site."""
    return getattr(site, "requests", None) or getattr(site, "messages", [])


def at(route: Route, url: str, **options: Any) -> ServerConfig:
    return ServerConfig("chaos", url=url, transport=route.transport, timeout_s=10, connect_s=10, **options)


def resolve_name(monkeypatch: pytest.MonkeyPatch, name: str, *answers: str) -> list[str]:
    """Has a name lead to one address after another, to the last one from then on; gives what was answered."""
    look_up, given, lock = socket.getaddrinfo, list[str](), threading.Lock()

    def answer(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if (host.decode() if isinstance(host, bytes) else host) != name:
            return look_up(host, port, *rest, **more)
        with lock:
            given.append(answers[min(len(given), len(answers) - 1)])
            return look_up(given[-1], port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return given


@EACH_ROUTE
def test_nothing_is_sent_to_a_name_of_the_internet_that_now_leads_to_this_machine(
    route: Route, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with route.open("ok") as site:
        url = site.url.replace("127.0.0.1", "rebound.example")
        given = resolve_name(monkeypatch, "rebound.example", FAR, "127.0.0.1")
        with pytest.raises(ChatError, match=r"rebound\.example now resolves to 127\.0\.0\.1") as caught:
            route.act(at(route, url, headers=HEADERS, allow_insecure=True), tmp_path)
    assert "Nothing was sent there" in caught.value.message and heard(site) == []
    assert given[:2] == [FAR, "127.0.0.1"]


@EACH_ROUTE
def test_a_name_that_always_led_to_this_machine_is_called(
    route: Route, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with route.open("ok") as site:
        resolve_name(monkeypatch, "desk.example", "127.0.0.1")
        server = at(route, site.url.replace("127.0.0.1", "desk.example"))
        assert route.act(server, tmp_path) == "act is done"
    assert heard(site)


@pytest.mark.parametrize(
    ("peer", "is_out", "is_refused"),
    [
        ("::ffff:169.254.169.254", False, True),
        ("10.0.0.1", True, True),
        ("fe80::1%eth0", True, True),
        ("10.0.0.1", False, False),
        (FAR, True, False),
    ],
)
def test_the_peer_of_a_connection_is_judged_by_its_own_address(peer: str, is_out: bool, is_refused: bool) -> None:
    server = ServerConfig("web", url="https://name.example/mcp")
    if is_refused:
        with pytest.raises(ConnectError, match=r"name\.example now resolves to"):
            check_peer(server, peer, is_out)
    else:
        check_peer(server, peer, is_out)


def test_behind_a_proxy_no_peer_is_expected_to_be_of_the_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    address = parse_address(FAR)
    assert address
    assert is_public("https://name.example/mcp", [address]) and is_public("wss://name.example/mcp", [address])
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:3128")
    assert not is_public("https://name.example/mcp", [address])
    assert not is_public("wss://name.example/mcp", [address])
    assert is_public("http://name.example/mcp", [address])


BAD_URLS = {
    "another scheme": ("ftp://127.0.0.1/", "not the URL of a server"),
    "no host": ("http:///mcp", "not the URL of a server"),
    "a user and a password": ("http://me:pass-0815@127.0.0.1:1/", "user name or a password"),
    "a user": ("https://pass-0815@127.0.0.1:1/", "user name or a password"),
    "one character too many": (f"http://127.0.0.1:1/{'x' * (MAX_URL_LENGTH - 18)}", f"{MAX_URL_LENGTH + 1} characters"),
    "no port": ("http://127.0.0.1:65536/", "invalid"),
}


@pytest.mark.parametrize("act", [call_directly, call_through_toolbox])
def test_an_invalid_url_is_rejected(act: Callable[..., str], tmp_path: Path) -> None:
    for url, cause in BAD_URLS.values():
        with pytest.raises(ConfigError, match=cause) as caught:
            act(ServerConfig("chaos", url=url), tmp_path)
        assert "0815" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert redact_url("https://me:secret@host.example:8443/mcp?key=secret#secret") == "https://host.example:8443/mcp"


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/mcp",
        "http://2852039166/mcp",
        "http://[::ffff:169.254.169.254]/mcp",
        "http://[fe80::1%25lo]/mcp",
        "ws://169.254.169.254/mcp",
    ],
)
def test_a_link_local_address_is_never_called(url: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    for act in (call_directly, call_through_toolbox):
        with pytest.raises(ConnectError, match="link-local"):
            act(ServerConfig("chaos", url=url), tmp_path)
    assert time.monotonic() - begun < allow_s(0.5)


@pytest.mark.parametrize(
    ("addresses", "is_refused", "is_out"),
    [
        (["10.0.0.1", "169.254.169.254"], True, False),
        (["fe80::1"], True, False),
        (["192.168.0.2", "fe80::1"], False, False),
        ([FAR, "10.0.0.1"], False, False),
        ([FAR], False, True),
        ([], False, False),
    ],
    ids=["one of two link-local", "IPv6", "local network", "both", "internet", "unknown here"],
)
def test_all_addresses_of_a_name_are_judged(
    addresses: list[str], is_refused: bool, is_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        if not addresses:
            raise socket.gaierror(f"{host} is unknown")
        return [(socket.AF_UNSPEC, socket.SOCK_STREAM, 0, "", (address, 80)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    server = ServerConfig("web", url="http://name.example/mcp")
    if is_refused:
        with pytest.raises(ConnectError, match="link-local"):
            asyncio.run(check_url(server))
    else:
        assert asyncio.run(check_url(server)) == is_out


@EACH_ROUTE
def test_headers_leave_this_machine_encrypted_or_by_permission_only(
    route: Route, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with route.open("ok") as site:
        resolve_name(monkeypatch, "desk.example", "127.0.0.1")
        server = at(route, site.url.replace("127.0.0.1", "desk.example"), headers=HEADERS)
        with pytest.raises(ConfigError, match=r"unencrypted to desk\.example") as caught:
            route.act(server, tmp_path)
        assert "allow_insecure = true" in caught.value.hint and "secret" not in str(caught.value)
        assert heard(site) == []
        assert route.act(replace(server, allow_insecure=True), tmp_path) == "act is done"
        assert route.act(replace(server, url=site.url), tmp_path) == "act is done"


# Kind -> the host that it names, for how long it is valid, a part of why it is refused.
CERTIFICATES = {
    "good": ("127.0.0.1", timedelta(1), ""),
    "expired": ("127.0.0.1", timedelta(hours=-1), "expired"),
    "of another host": ("127.0.0.2", timedelta(1), "mismatch|not valid for"),
    "of an unknown authority": ("127.0.0.1", timedelta(1), "local issuer"),
}

CRITICAL = (x509.BasicConstraints, x509.KeyUsage)


def write_certificates(folder: Path, host: str, valid: timedelta) -> ssl.SSLContext:
    """An authority in `authority.pem`, and what a server shows whose certificate it has signed."""
    now = datetime.now(timezone.utc)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in ("authority", host)]

    def sign(which: int, until: datetime, *extensions: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder(
            names[0], names[which], keys[which].public_key(), x509.random_serial_number(), now - timedelta(2), until
        )
        for extension in (x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()), *extensions):
            builder = builder.add_extension(extension, critical=isinstance(extension, CRITICAL))
        return builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority = sign(
        0,
        now + timedelta(1),
        x509.BasicConstraints(True, None),
        x509.SubjectKeyIdentifier.from_public_key(keys[0].public_key()),
        x509.KeyUsage(False, False, False, False, False, True, False, False, False),  # it signs certificates
    )
    (folder / "authority.pem").write_bytes(authority)
    own = sign(1, now + valid, x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]))
    key = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(own + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem")
    return context


@contextmanager
def encrypted(route: Route, context: ssl.SSLContext) -> Iterator[Any]:
    """A good server that speaks TLS."""
    with route.open("ok") as site:
        site.socket = context.wrap_socket(site.socket, server_side=True)
        site.url = site.url.replace("http:", "https:").replace("ws:", "wss:")
        yield site


@pytest.mark.parametrize(
    ("route", "kind"), [*((route, "good") for route in ROUTES), *zip(ROUTES, [*CERTIFICATES][1:], strict=True)]
)
def test_only_a_certificate_that_is_valid_for_this_host_now_is_taken(
    route: str, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host, valid, cause = CERTIFICATES[kind]
    context = write_certificates(tmp_path, host, valid)
    if kind != "of an unknown authority":
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    with encrypted(ROUTES[route], context) as site:
        server = at(ROUTES[route], site.url, headers=HEADERS)
        if not cause:
            assert ROUTES[route].act(server, tmp_path) == "act is done"
            return
        with pytest.raises(ChatError, match=f"certificate verify failed.*({cause})"):
            ROUTES[route].act(server, tmp_path)
    assert heard(site) == []
