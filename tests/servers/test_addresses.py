"""Where a server's URL may lead, and what must be there: over each transport, and by the small client too."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
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

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import ChatError, ConfigError, ConnectError
from rkllm_chat.reach import open_server
from rkllm_chat.servers.addresses import check_address, judge_peer, leads_out, read_address
from rkllm_chat.servers.toolbox import Toolbox

from .chaos_http import Listener, open_site
from .chaos_websocket import open_exchange
from .faults import Trial

HEADERS = {"X-Api-Key": "secret"}
FAR = "93.184.215.14"


def act_small(server: ServerConfig, _folder: Path) -> str:
    with open_server(server) as opened:
        opened.list_tools()
        return "".join(block["text"] for block in opened.call_tool("act", {})["content"])


def act_in_toolbox(server: ServerConfig, folder: Path) -> str:
    async def go() -> str:
        async with Toolbox([server], folder / "logs") as toolbox:
            trial = Trial(toolbox, folder)
            if "chaos" in toolbox.failures:
                raise toolbox.failures["chaos"]
            return (await trial.act()).text

    return asyncio.run(go())


@dataclass(frozen=True)
class Door:
    """A way to a server: by whom, over what, and a server that listens there."""

    act: Callable[[ServerConfig, Path], str]
    open: Callable[[str], Any]
    transport: str


DOORS = {
    "the small client": Door(act_small, open_site, "http"),
    "streamable HTTP": Door(act_in_toolbox, open_site, "http"),
    "WebSocket": Door(act_in_toolbox, open_exchange, "websocket"),
}
EVERY_DOOR = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


def heard(site: Listener) -> list[Any]:
    """All that came to a site."""
    return getattr(site, "requests", None) or getattr(site, "messages", [])


def at(door: Door, url: str, **options: Any) -> ServerConfig:
    return ServerConfig("chaos", url=url, transport=door.transport, timeout_s=10, connect_s=10, **options)


def by_name(monkeypatch: pytest.MonkeyPatch, name: str, *answers: str) -> list[str]:
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


@EVERY_DOOR
def test_a_name_of_the_internet_that_comes_to_lead_to_this_machine_is_sent_nothing(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with door.open("ok") as site:
        url = site.url.replace("127.0.0.1", "rebound.example")
        given = by_name(monkeypatch, "rebound.example", FAR, "127.0.0.1")
        with pytest.raises(ChatError, match=r"rebound\.example has come to lead to 127\.0\.0\.1") as caught:
            door.act(at(door, url, headers=HEADERS, allow_insecure=True), tmp_path)
    assert "Nothing was sent there" in caught.value.message and heard(site) == []
    assert given[:2] == [FAR, "127.0.0.1"]


@EVERY_DOOR
def test_a_name_that_led_here_from_the_beginning_is_called(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with door.open("ok") as site:
        by_name(monkeypatch, "desk.example", "127.0.0.1")
        server = at(door, site.url.replace("127.0.0.1", "desk.example"))
        assert door.act(server, tmp_path) == "act is done"
    assert heard(site)


@pytest.mark.parametrize(
    ("peer", "is_out", "is_refused"),
    [
        ("169.254.169.254", False, True),
        ("::ffff:169.254.169.254", False, True),
        ("127.0.0.1", True, True),
        ("10.0.0.1", True, True),
        ("fe80::1%eth0", True, True),
        ("127.0.0.1", False, False),
        ("10.0.0.1", False, False),
        (FAR, True, False),
    ],
)
def test_the_other_end_of_a_connection_is_judged_by_its_own_address(peer: str, is_out: bool, is_refused: bool) -> None:
    server = ServerConfig("web", url="https://name.example/mcp")
    if is_refused:
        with pytest.raises(ConnectError, match=r"name\.example has come to lead to"):
            judge_peer(server, peer, is_out)
    else:
        judge_peer(server, peer, is_out)


def test_behind_a_proxy_the_other_end_is_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    address = read_address(FAR)
    assert address
    assert leads_out("https://name.example/mcp", [address]) and leads_out("wss://name.example/mcp", [address])
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:3128")
    assert not leads_out("https://name.example/mcp", [address])
    assert not leads_out("wss://name.example/mcp", [address])
    assert leads_out("http://name.example/mcp", [address])


BAD_URLS = {
    "another scheme": ("ftp://127.0.0.1/", "is no URL of a server"),
    "a script": ("javascript:alert(1)", "is no URL of a server"),
    "a file": ("file:///etc/passwd", "is no URL of a server"),
    "a user and a password": ("http://me:pass-0815@127.0.0.1:1/", "holds a user or a password"),
    "a user": ("https://pass-0815@127.0.0.1:1/", "holds a user or a password"),
    "10 kB": (f"http://127.0.0.1:1/{'x' * 10_000}", "10019 characters, at most 2000"),
    "a port that is none": ("http://127.0.0.1:65536/", "is no URL"),
}


@pytest.mark.parametrize(("url", "cause"), BAD_URLS.values(), ids=BAD_URLS)
@pytest.mark.parametrize("act", [act_small, act_in_toolbox])
def test_a_url_that_should_not_be_called_is_not(act: Callable[..., str], url: str, cause: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=cause) as caught:
        act(ServerConfig("chaos", url=url), tmp_path)
    assert "0815" not in str(caught.value) and len(str(caught.value)) < 300


@EVERY_DOOR
def test_headers_leave_this_machine_only_encrypted_or_by_leave(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with door.open("ok") as site:
        by_name(monkeypatch, "desk.example", "127.0.0.1")
        server = at(door, site.url.replace("127.0.0.1", "desk.example"), headers=HEADERS)
        with pytest.raises(ConfigError, match=r"its headers would go unencrypted to desk\.example") as caught:
            door.act(server, tmp_path)
        assert "allow_insecure = true" in caught.value.hint and "secret" not in str(caught.value)
        assert heard(site) == []
        assert door.act(replace(server, allow_insecure=True), tmp_path) == "act is done"
        assert door.act(replace(server, url=site.url), tmp_path) == "act is done"


CERTIFICATES = {
    "good": ("127.0.0.1", timedelta(1), ""),
    "expired": ("127.0.0.1", timedelta(hours=-1), "expired"),
    "of another host": ("127.0.0.2", timedelta(1), "mismatch|not valid for"),
}

CRITICAL = (x509.BasicConstraints, x509.KeyUsage)


def write_certificates(folder: Path, host: str, valid: timedelta) -> ssl.SSLContext:
    """An authority in `authority.pem`, and what a server shows whose certificate it has signed."""
    now = datetime.now(timezone.utc)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in ("authority", host)]

    def sign(which: int, until: datetime, *extensions: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder(
            names[0],
            names[which],
            keys[which].public_key(),
            x509.random_serial_number(),
            now - timedelta(2),
            until,
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
def encrypted(door: Door, context: ssl.SSLContext) -> Iterator[Any]:
    """A good server that speaks TLS."""
    with door.open("ok") as site:
        site.socket = context.wrap_socket(site.socket, server_side=True)
        site.url = site.url.replace("http:", "https:").replace("ws:", "wss:")
        yield site


@EVERY_DOOR
@pytest.mark.parametrize(("host", "valid", "cause"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_only_a_certificate_that_is_valid_for_this_host_now_is_taken(
    host: str, valid: timedelta, cause: str, door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = write_certificates(tmp_path, host, valid)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    with encrypted(door, context) as site:
        server = at(door, site.url, headers=HEADERS)
        if not cause:
            assert door.act(server, tmp_path) == "act is done"
            return
        with pytest.raises(ChatError, match=f"certificate verify failed.*({cause})"):
            door.act(server, tmp_path)
    assert heard(site) == []


def test_a_look_up_says_whether_a_name_leads_to_the_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name(monkeypatch, "far.example", FAR)
    assert asyncio.run(check_address(ServerConfig("web", url="https://far.example/")))
    assert not asyncio.run(check_address(ServerConfig("web", url="https://127.0.0.1/")))
