"""An MCP server that requires a login, and its authorization server: two real HTTP servers on two ports.

The authorization server implements RFC 6749, 7591, 7636, 8414 and 9207. A refresh token can be used once; a second use
revokes all tokens (RFC 9700, 4.14.2).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from .chaos_http import Listener, Replier, serving

MACHINE = ("machine", "a:secret%of the machine")
TOGETHER_S = 1.0


@dataclass
class Visit:
    """One request: its method, path, form or query, headers by small names."""

    method: str
    path: str
    values: dict[str, str]
    headers: dict[str, str]


@dataclass
class Gate:
    """The state of the two servers, and how they behave.

    `lasts_s`: how long an access token is said to last. `denies`: the user says no at the authorization server.
    `together`: a refresh waits for another one. `needs` is the scope of the tool "deep". `has_oauth`: not a bare
    401. `endless`: a path whose answer does not end. `leads_to`: an authorization server other than ours.
    `metadata_url`: where its own metadata are said to be. `endpoints`: other addresses in the authorization server's
    metadata. `moved`: paths that redirect, and where to.
    `documents`: client ID metadata documents by URL, as it would fetch them; a redirect may have any port (RFC 8252).
    `is_silent`: with a token nothing is answered, until `can_end`. `garbles`: a token response lacks the token.
    """

    lasts_s: int | None = None
    denies: bool = False
    together: threading.Barrier | None = None
    refuses_refresh: int = 0
    needs: str = "deep"
    has_oauth: bool = True
    endless: str = ""
    leads_to: str = ""
    metadata_url: str = ""
    endpoints: dict[str, str] = field(default_factory=dict[str, str])
    moved: dict[str, str] = field(default_factory=dict[str, str])
    documents: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    is_silent: bool = False
    garbles: bool = False
    can_end: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    issuer: str = ""
    visits: list[Visit] = field(default_factory=list[Visit])
    clients: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, "dict[str, str]"])
    access: dict[str, str] = field(default_factory=dict[str, str])
    refresh: dict[str, str] = field(default_factory=dict[str, str])
    used: set[str] = field(default_factory=set[str])
    secrets: list[str] = field(default_factory=list[str])

    def paths(self) -> list[str]:
        return [visit.path for visit in self.visits]

    def grants(self) -> list[str]:
        return [visit.values["grant_type"] for visit in self.visits if visit.path == "/token"]

    def revoke(self) -> None:
        """Make all tokens invalid."""
        self.access.clear()
        self.refresh.clear()

    def make_tokens(self, scope: str, lasting: bool = True) -> dict[str, Any]:
        access, refresh = (self.make_secret() for _ in range(2))
        self.access[access] = scope
        more: dict[str, Any] = {} if self.lasts_s is None else {"expires_in": self.lasts_s}
        if lasting:
            self.refresh[refresh] = scope
            more["refresh_token"] = refresh
        return {"access_token": access, "token_type": "bearer", "scope": scope, **more}

    def make_secret(self) -> str:
        self.secrets.append(secrets.token_urlsafe(24))
        return self.secrets[-1]


class Answerer(Replier):
    """Both servers: read a request whole, record it, and serve its path."""

    gate: ClassVar[Gate]

    def handle_one_request(self) -> None:
        with suppress(OSError):
            super().handle_one_request()

    def answer(self) -> None:
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        is_form = self.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        values = {name: found[0] for name, found in parse_qs(body.decode() if is_form else query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        visit = Visit(self.command, path, values, headers)
        self.gate.visits.append(visit)
        if self.gate.endless == path:
            self.flood()
            return
        if path in self.gate.moved:
            self.reply(302, location=self.gate.moved[path])
            return
        self.serve(visit, {} if is_form or not body else json.loads(body))

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the names that the standard library looks for

    def serve(self, visit: Visit, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def reply(self, status: int, body: Any = None, **headers: str) -> None:
        self.give(status, b"" if body is None else json.dumps(body).encode(), "application/json", **headers)

    def flood(self) -> None:
        self.begin_response(200, "application/json")
        self.close_connection = True
        while not self.gate.can_end.is_set():
            self.wfile.write(b" " * 65536)


class Resource(Answerer):
    """The MCP server, of 2025-11-25."""

    def serve(self, visit: Visit, body: dict[str, Any]) -> None:
        gate = self.gate
        if visit.path == "/.well-known/oauth-protected-resource/mcp" and gate.has_oauth:
            self.reply(200, {"resource": gate.url, "authorization_servers": [gate.leads_to or gate.issuer]})
        elif visit.path != "/mcp":
            self.reply(404)
        elif (scope := gate.access.get(visit.headers.get("authorization", "").removeprefix("Bearer "))) is None:
            place = gate.metadata_url or gate.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
            self.reply(401, www_authenticate=f'Bearer resource_metadata="{place}", scope="shallow"')
        elif visit.method != "POST":
            self.reply(405)
        elif body.get("params", {}).get("name") == "deep" and gate.needs not in scope.split():
            self.reply(403, www_authenticate=f'Bearer error="insufficient_scope", scope="{gate.needs}"')
        else:
            if gate.is_silent:
                gate.can_end.wait()
            self.speak(body)

    def speak(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self.reply(202)
            return
        named = [{"name": name, "inputSchema": {"type": "object"}} for name in ("act", "deep")]
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "gate", "version": "1"},
            },
            "tools/list": {"tools": named},
            "tools/call": {"content": [{"type": "text", "text": "fine"}]},
        }
        result = results.get(message["method"])
        error = {"code": -32601, "message": "Method not found"}
        said = {"error": error} if result is None else {"result": result}
        self.reply(200, {"jsonrpc": "2.0", "id": message["id"], **said})


class Authorization(Answerer):
    """The authorization server."""

    def serve(self, visit: Visit, body: dict[str, Any]) -> None:
        match visit.path:
            case "/.well-known/oauth-authorization-server":
                self.reply(200, self.describe())
            case "/register":
                client = f"client-{len(self.gate.clients)}"
                self.gate.clients[client] = body["redirect_uris"]
                self.reply(201, {**body, "client_id": client, "token_endpoint_auth_method": "none"})
            case "/authorize":
                self.authorize(visit.values)
            case "/token":
                self.give_token(visit)
            case _:
                self.reply(404)

    def describe(self) -> dict[str, Any]:
        issuer = self.gate.issuer
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "registration_endpoint": f"{issuer}/register",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": bool(self.gate.documents),
            **self.gate.endpoints,
        }

    def authorize(self, wanted: dict[str, str]) -> None:
        """The user is known and agrees, unless the gate `denies`."""
        document = self.gate.documents.get(wanted["client_id"], {})
        published = document["redirect_uris"] if document.get("client_id") == wanted["client_id"] else ()
        uri = re.sub(r":\d+(?=/)", "", wanted["redirect_uri"])
        if uri not in published and wanted["redirect_uri"] not in self.gate.clients.get(wanted["client_id"], ()):
            self.reply(400, {"error": "invalid_client"})
            return
        code = self.gate.make_secret()
        self.gate.codes[code] = wanted
        denied = {"error": "access_denied", "error_description": "Not today"}
        answer = denied if self.gate.denies else {"code": code}
        query = urlencode({**answer, "iss": self.gate.issuer, "state": wanted["state"]})
        self.reply(302, location=f"{wanted['redirect_uri']}?{query}")

    def give_token(self, visit: Visit) -> None:
        gate, values = self.gate, visit.values
        match values["grant_type"]:
            case "authorization_code":
                asked = gate.codes.pop(values["code"], {})
                digest = hashlib.sha256(values["code_verifier"].encode()).digest()
                proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
                same = all(values[key] == asked.get(key) for key in ("client_id", "redirect_uri", "resource"))
                self.give_tokens(same and proof == asked.get("code_challenge"), asked.get("scope", ""))
            case "refresh_token":
                self.refresh(values["refresh_token"])
            case "client_credentials":
                pair = "machine:a%3Asecret%25of%20the%20machine"
                known = visit.headers.get("authorization") == f"Basic {base64.b64encode(pair.encode()).decode()}"
                self.give_tokens(known, values.get("scope", ""), lasting=False)

    def refresh(self, token: str) -> None:
        gate = self.gate
        if gate.refuses_refresh:
            self.reply(gate.refuses_refresh, {"error": "temporarily_unavailable"})
            return
        if gate.together:
            with suppress(threading.BrokenBarrierError):
                gate.together.wait(TOGETHER_S)
        if token in gate.used:
            gate.revoke()
        scope = gate.refresh.pop(token, None)
        gate.used.add(token)
        self.give_tokens(scope is not None, scope or "")

    def give_tokens(self, is_known: bool, scope: str, lasting: bool = True) -> None:
        if is_known:
            tokens = self.gate.make_tokens(scope, lasting)
            self.reply(200, {"refresh": tokens["access_token"]} if self.gate.garbles else tokens)
        else:
            self.reply(400, {"error": "invalid_grant"})


@contextmanager
def open_gate(tls: ssl.SSLContext | None = None, **wanted: Any) -> Iterator[Gate]:
    """Both servers, on free ports of this machine; with `tls` the MCP server is at an https address."""
    gate = Gate(**wanted)
    kinds = [type("Ours", (kind,), {"gate": gate}) for kind in (Resource, Authorization)]
    with serving(Listener(0, kinds[0])) as resource, serving(Listener(0, kinds[1])) as authorization:
        gate.url, gate.issuer = f"http://127.0.0.1:{resource.port}/mcp", f"http://127.0.0.1:{authorization.port}"
        if tls:
            resource.socket = tls.wrap_socket(resource.socket, server_side=True)
            gate.url = gate.url.replace("http:", "https:")
        try:
            yield gate
        finally:
            gate.can_end.set()
