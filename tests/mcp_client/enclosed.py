"""Where sandboxes are tested: a user with secrets, a project with a probing server, and the program run by that user.

For a user other than ours the package is copied, since that user may not reach it, and another Python may be needed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rkllm_chat
from fork_server import start
from rkllm_chat.config.files import TRUST_VARIABLE

PROBE = Path(__file__).with_name("probe.py")
OWN, NOBODY = os.getuid(), 65534
USERS = [
    pytest.param(OWN, id="own user"),
    *([pytest.param(NOBODY, id="nobody", marks=pytest.mark.slow)] if OWN == 0 else []),
]
LIMIT_S = 40
SECRET = "k33p-m3-t0-y0urs3lf"
SECRET_NAMES = tuple(f"{word}_{kind}" for word in ("OPENAI", "AWS", "GH", "DB", "MY") for kind in (
    "API_KEY", "TOKEN", "SECRET", "PASSWORD"
))  # fmt: skip


@dataclass
class Stage:
    """A home with secrets, a project, a folder outside of it; `uid` is who runs the program there.

    `before` is a command that runs the program.
    """

    folder: Path
    uid: int
    environment: dict[str, str] = field(default_factory=dict[str, str])
    before: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("home/.ssh", "home/notes", "project/data", "outside"):
            (self.folder / name).mkdir(parents=True)
        (self.home / ".ssh/id_ed25519").write_text(SECRET, encoding="utf-8")
        (self.folder / "outside/diary.txt").write_text(SECRET, encoding="utf-8")
        shutil.copy(PROBE, self.project / "probe.py")
        python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
        if self.uid != OWN:
            ignored = shutil.ignore_patterns("__pycache__", "*.gguf")
            shutil.copytree(Path(rkllm_chat.__file__).parent, self.folder / "package/rkllm_chat", ignore=ignored)
            package = [str(self.folder / "package"), *filter(None, [os.environ.get("PYTHONPATH")])]
            python["PYTHONPATH"] = os.pathsep.join(package)
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, self.uid, -1)
        self.folder.chmod(0o755)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **python}
        self.environment |= {**dict.fromkeys(SECRET_NAMES, SECRET), TRUST_VARIABLE: "1"}

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def add(self, **entry: Any) -> None:
        """Configure the probing server, and one with a secret in its entry."""
        probe = {"command": find_python(self.uid), "args": ["probe.py"], **entry}
        servers = {"probe": probe, "other": {"command": "other", "env": {"KEY": SECRET}}}
        (self.project / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """The program as this user, in the project."""
        command = [*self.before, find_python(self.uid), "-m", "rkllm_chat", *arguments]
        who = {"user": self.uid, "group": self.uid, "extra_groups": [], "forks": False} if self.uid != OWN else {}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return start(command, env=self.environment, cwd=self.project, **{**pipes, **who, **options})

    def call(self, *probes: list[Any], **arguments: Any) -> dict[str, Any]:
        """The document of one call of the probing server."""
        given = json.dumps({"probes": probes, **arguments})
        with self.start("call-tool", "probe.do", "--args", given) as process:
            output, errors = process.communicate(timeout=LIMIT_S)
        assert errors == b"", errors.decode()
        document: dict[str, Any] = json.loads(output)
        return document

    def try_out(self, *probes: list[Any]) -> list[Any]:
        """The result of each probe."""
        document = self.call(*probes)
        assert document["ok"], document
        results: list[Any] = json.loads(document["result"]["content"][0]["text"])
        return results


@contextmanager
def staged(uid: int) -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="sandbox-"))  # not pytest's, which other users cannot enter
    try:
        yield Stage(folder, uid)
    finally:
        shutil.rmtree(folder)


@cache
def find_python(uid: int) -> str:
    """A Python that a user can start: ours, or another of a supported release."""
    if uid == OWN:
        return sys.executable
    check = "import sys; sys.exit(sys.version_info < (3, 10))"
    for found in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with suppress(OSError):
            done = subprocess.run([found, "-c", check], cwd="/", user=uid, group=uid, extra_groups=[], check=False)
            if done.returncode == 0:
                return found
    raise AssertionError(f"no Python from 3.10 on that user {uid} can start")


@contextmanager
def listening() -> Iterator[tuple[int, int]]:
    """A TCP and a UDP port of this machine where a word is answered."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))

        def greet() -> None:
            while True:
                try:
                    connection, _ = tcp.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"heard")

        def answer() -> None:
            while True:
                data, sender = udp.recvfrom(100)
                if data == b"stop":
                    return
                udp.sendto(b"heard", sender)

        threads = [threading.Thread(target=work) for work in (greet, answer)]
        for thread in threads:
            thread.start()
        try:
            yield tcp.getsockname()[1], udp.getsockname()[1]
        finally:
            tcp.shutdown(socket.SHUT_RDWR)
            udp.sendto(b"stop", udp.getsockname())
            for thread in threads:
                thread.join(5)
