"""The plan of a server process: command, folder, environment, and what its sandbox allows; exit codes.

One-shot commands import this before they start a server, so it imports next to nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

SANDBOX_VARIABLE = "RKLLM_CHAT_SANDBOX"
MARK_VARIABLE = "RKLLM_CHAT_SERVER"
GUARD_SCRIPT = """
cd /
send() {
    for file in $(grep -lsF "$mark" /proc/[0-9]*/environ); do
        pid=${file#/proc/}
        kill "-$1" "-${pid%/environ}"
        kill "-$1" "${pid%/environ}"
    done
    kill "-$1" "-$group"
}
mark=$1
read -r group
read -r _
send TERM
sleep 0.5
send KILL
"""
"""Shell script that waits for the end of a pipe that only this program holds open, then stops the server's processes.

The program tells it the server's group; one that was killed before could not, so groups of marked processes end too.
"""
IS_MACOS = sys.platform == "darwin"
NO_BUBBLEWRAP = "macOS has no bubblewrap" if IS_MACOS else "bubblewrap is not installed"
_KILLED = (-9, -15, 137, 143)
"""Exit codes of a program that SIGKILL or SIGTERM has ended, directly or inside bubblewrap. No sandbox sends them."""
_READ_ONLY_WORDS = ("EROFS", "Read-only file system", "read-only file system")
_NO_NETWORK_WORDS = (
    "ENETUNREACH",
    "EAI_AGAIN",
    "ENOTFOUND",
    "Network is unreachable",
    "name resolution",
    "Name or service not known",
    "dns error",
    "failed to lookup address",
    "getaddrinfo",
    "ConnectError",
    "ConnectionError",
)
"""How programs report what a sandbox without a network makes fail."""
_DENIAL_COUNTERS = ("Ip:OutNoRoutes", "Ip6OutNoRoutes", "Tcp:AttemptFails", "Udp:NoPorts", "Udp6NoPorts")


class Sandbox:
    """What a server may access.

    Attributes:
        name: The server's name.
        unavailable_reason: Why there is no sandbox although one is configured; "" if there is one.
        has_network: Whether the network is available.
        filters_calls: Whether system calls are filtered.
        reads: Readable paths.
        writes: Writable paths.
        source: File that defines the server.
        folder: Its working folder.
        words: Its arguments.
        may_offer_network: The configuration does not deny the network.
        known_name: Name under which the server is known to need more than others; "" if it is not.
        known_reason: Why, as a key of the language table "known", or as text.
    """

    def __init__(self, name: str, missing: str = "") -> None:
        self.name, self.unavailable_reason = name, missing
        self.has_network = True
        self.filters_calls = False
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.known_name = self.known_reason = self.source = self.folder = ""
        self.words: tuple[str, ...] = ()
        self.may_offer_network = True
        self._denied_packets = 0

    def explain_end(self, exit_code: int | None, stderr: str) -> str:
        """For a server that ended: what it could not access, and how to allow it; "" if nothing speaks for that.

        The counters of the kernel are gone with the process, so that what it wrote decides.
        """
        words = _READ_ONLY_WORDS if self.has_network else (*_READ_ONLY_WORDS, *_NO_NETWORK_WORDS)
        if self.unavailable_reason or exit_code in _KILLED or not any(word in stderr for word in words):
            return ""
        network = "with a network" if self.has_network else "without a network"
        written = ", ".join(["/tmp", *self.writes])
        more = "" if self.has_network else "network = true, "
        change = f"To change that, set {more}write = [...] or sandbox."
        return f"It ran in a sandbox {network} and could write to {written}. {change}"

    def may_have_denied_network(self, pids: Iterable[int]) -> bool:
        """Tell whether `has_denied_network` would be true, without counting that as a question."""
        return not self.has_network and max(map(_count_denials, pids), default=0) > self._denied_packets

    def has_denied_network(self, pids: Iterable[int]) -> bool:
        """Tell whether the sandbox has denied network packets since the last question.

        Args:
            pids: The processes in the sandbox.
        """
        before = self._denied_packets
        self._denied_packets = 0 if self.has_network else max(map(_count_denials, pids), default=0)
        return self._denied_packets > before


def _count_denials(pid: int) -> int:
    """Return how many packets failed in a process's empty network, from the kernel's counters (snmp(5))."""
    counts: dict[str, str] = {}
    lines: list[list[str]] = []
    try:
        with open(f"/proc/{pid}/net/snmp", encoding="utf-8") as file:
            lines = [line.split() for line in file]
        with open(f"/proc/{pid}/net/snmp6", encoding="utf-8") as file:
            counts |= dict(line.split()[:2] for line in file)
    except (OSError, ValueError):  # the process has ended, or there is no IPv6
        pass
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        counts |= {f"{names[0]}{name}": value for name, value in zip(names[1:], values[1:], strict=False)}
    return sum(int(counts.get(name, "0")) for name in _DENIAL_COUNTERS)


class StartPlan:
    """How to start a server.

    Attributes:
        command: Program and arguments; in a sandbox, those of bubblewrap, without its program.
        folder: Working folder; None means the current one.
        program: Path of the program.
        environment: The complete environment.
        passed: Variables of this machine's network in it (proxies, certificates, mirrors).
        sandbox: None if no sandbox is configured.
        wrapper: The command that takes `command` as its arguments; empty without a sandbox.
        system_calls: The filter of system calls that bubblewrap installs; empty for none.
        missing: Paths to create first, as mount points of the sandbox.
        kept_files: Files of the server in a folder to create first -> files of which the first that exists is copied.
        new_files: Empty files to create first.
    """

    def __init__(self, command: list[str], folder: str | None, environment: dict[str, str]) -> None:
        self.command, self.folder, self.environment = command, folder, environment
        self.program = command[0]
        self.passed: dict[str, str] = {}
        self.sandbox: Sandbox | None = None
        self.wrapper: list[str] = []
        self.system_calls = b""
        self.missing: list[str] = []
        self.kept_files: dict[str, list[str]] = {}
        self.new_files: list[str] = []

    @property
    def is_sandboxed(self) -> bool:
        """Whether the command runs in a sandbox."""
        return self.sandbox is not None and not self.sandbox.unavailable_reason

    @property
    def needs_keyring(self) -> bool:
        """Whether the command needs a session keyring of its own, because no filter denies it the user's."""
        return self.sandbox is not None and self.is_sandboxed and not self.sandbox.filters_calls

    @contextmanager
    def opened(self) -> Iterator[tuple[list[str], list[int]]]:
        """Create what the command needs; yield the complete command and the descriptors that it must inherit."""
        if self.missing:
            from .protected_paths import create_missing

            create_missing(self.missing)
        if self.kept_files:
            from .kept_files import create_kept_files

            create_kept_files(self.kept_files)
        if self.new_files:
            from .kept_files import create_new_files

            create_new_files(self.new_files)
        with opened_filter(self.system_calls) as (options, files):
            yield [*self.wrapper, *options, *self.command], files


@contextmanager
def opened_filter(system_calls: bytes) -> Iterator[tuple[list[str], list[int]]]:
    """Yield bubblewrap's option for a filter of system calls, and the descriptors that it must inherit."""
    if not system_calls:
        yield [], []
        return
    file, filled = os.pipe()
    try:
        os.write(filled, system_calls)  # less than any pipe holds
        os.close(filled)
        yield ["--seccomp", str(file)], [file]
    finally:
        os.close(file)


def decode_exit_code(code: int | None) -> int | None:
    """Return a server's exit code from its sandbox's.

    bubblewrap returns 128 plus the signal number if a signal ended the server.
    """
    return 128 - code if code is not None and 128 < code <= 128 + 64 else code
