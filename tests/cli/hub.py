"""A local server that speaks the protocol of the Hugging Face Hub, as far as a download needs it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "maker/tiny-NPU"


class Hub:
    """One repository.

    Attributes:
        repository: Its name.
        files: Path -> content.
        checksums: Path -> SHA-256 that is told instead of the right one.
        stalls_at: Number of bytes after which a file is sent no further; None for never.
        ranges: `Range` header of each request for a file, "" for none.
        is_gated: Whether its license must be accepted first.
        told: Path -> members of its row that are told instead of the right ones.
        redirects: Path -> where its requests are sent.
    """

    def __init__(self, files: Mapping[str, bytes], repository: str = REPOSITORY) -> None:
        self.files, self.checksums, self.repository = dict(files), dict[str, str](), repository
        self.stalls_at: int | None = None
        self.ranges: list[tuple[str, str]] = []
        self.is_gated = False
        self.told: dict[str, dict[str, Any]] = {}
        self.redirects: dict[str, str] = {}
        self.ended = threading.Event()
        self.url = ""

    def describe(self) -> dict[str, Any]:
        """Return the answer of /api/models/REPOSITORY?blobs=true."""
        rows: list[dict[str, Any]] = []
        for path, data in self.files.items():
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
            row: dict[str, Any] = {"rfilename": path, "size": len(data), "blobId": blob}
            if path.endswith((".gguf", ".rkllm")):
                sha256 = self.checksums.get(path) or hashlib.sha256(data).hexdigest()
                row["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 130}
            rows.append({**row, **self.told.get(path, {})})
        return {"id": self.repository, "sha": COMMIT, "siblings": rows, "cardData": {"license": "apache-2.0"}}

    def answer(self, name: str, asked: str) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of the answer to a request for a file, or for a range of it."""
        self.ranges.append((name, asked))
        if name in self.redirects:
            return 302, b"", {"Location": self.redirects[name]}
        data = self.files[name]
        if not asked:
            return 200, data, {}
        begin = int(asked.removeprefix("bytes=").partition("-")[0])
        return 206, data[begin:], {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}


@contextmanager
def serve_hub(hub: Hub) -> Iterator[Hub]:
    """Serve a hub on a free port until the end of the context."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            name = path.removeprefix(f"/{hub.repository}/resolve/{COMMIT}/")
            if hub.is_gated:
                self._answer(403, b"{}", {"X-Error-Code": "GatedRepo"})
            elif path == f"/api/models/{hub.repository}":
                self._answer(200, json.dumps(hub.describe()).encode())
            elif name in hub.files:
                self._send_file(name)
            else:
                self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        def _send_file(self, name: str) -> None:
            self._answer(*hub.answer(name, self.headers.get("Range", "")))

        def _answer(self, status: int, data: bytes, headers: Mapping[str, str] = {}) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data[: hub.stalls_at])
            if hub.stalls_at is not None and len(data) > hub.stalls_at:
                hub.ended.wait()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        hub.ended.set()
        server.shutdown()
        server.server_close()
