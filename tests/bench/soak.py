"""A long chat with servers that misbehave: whether memory, open files and processes of the chat stay what they were.

The program runs on a terminal with a scripted model. In every other turn a server does what its mode says; in the turn
behind it the healthy one must answer. What came of the turns is read from the session that the program saved.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression

from mcp_client.faults import TESTS
from rkllm_chat.core.messages import Message
from rkllm_chat.mcp_client.process.start import SANDBOX_VARIABLE
from rkllm_chat.storage.session_files import SessionDirectory
from rkllm_chat.storage.session_records import TurnFinished
from stage import Screen, call_text

from .figures import Figure, Goal
from .screen import resident_mb

MODES = (
    "crash-mid-call",
    "invalid-utf8",
    "hang-call",
    "partial-then-die",
    "huge-result",
    "rpc-error",
    "sigstop-self",
    "deep-json",
    "close-stdout-but-live",
    "progress-flood",
    "segv-mid-call",
    "stderr-flood",
    "late-reply",
    "die-between-calls",
    "result-no-content",
    "structured-mismatch",
    "pretty-json",
    "markers",
    "rpc-error-weird",
    "binary-garbage",
)
"""So many that none is asked five times in two minutes: a server that dies as often is not started again by itself."""
FINE = "fine"
EVERY_S = 2.0
TURN_S = 60.0
SETTLED_S = 15.0


@dataclass(frozen=True)
class Sample:
    """The program at one moment: seconds since the chat began, MB in memory, open files, and processes, its own too."""

    at_s: float
    memory_mb: float
    files: int
    processes: int


@dataclass
class SoakResult:
    """Result of a run: samples at `rest` (all servers up, nothing running), and `memory_mb` after each fault.

    `faults` counts the results of misbehaving calls by their status, `answers` those of the healthy calls, of which
    `silent` says what failed; `left` are the processes that are there when the program has ended with `code`.
    """

    turns: int = 0
    rest: list[Sample] = field(default_factory=list)
    memory_mb: list[tuple[float, float]] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    silent: list[str] = field(default_factory=list)
    left: int = 0
    code: int = 0

    @property
    def slope_mb(self) -> float:
        """Growth a minute, from the first rest on."""
        line = linear_regression(*zip(*self.memory_mb, strict=True))
        return line.slope * 60


class FaultyChat:
    """The program in a folder that is its home: by that its servers, and what they leave behind, are known."""

    def __init__(self, screen: Screen, folder: Path, modes: Sequence[str]) -> None:
        self._screen, self._folder, self._modes = screen, folder, modes
        self._begun = time.monotonic()
        self.result = SoakResult()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def take_turn(self) -> None:
        self.result.turns += 1
        self._screen.type(f"turn {self.result.turns}\r")
        self._screen.wait_for(f"Number {self.result.turns} is over.", TURN_S)
        self._screen.wait_for_prompt(TURN_S)

    def run_faults(self, count: int, every_s: float) -> None:
        """So many faults, one at most in so many seconds; behind each a call of the healthy server."""
        for _ in range(count):
            begun = time.monotonic()
            self.take_turn()
            self.take_turn()
            self.result.memory_mb.append((self.seconds, resident_mb(self._screen.process.pid)))
            while (left := begun + every_s - time.monotonic()) > 0:
                self._screen.read_some(time.monotonic() + left)

    def wait_idle(self) -> None:
        """A turn in which every server answers, and with that is up; then until nothing changes any more."""
        self.take_turn()
        end, before = time.monotonic() + SETTLED_S, (0, 0)
        while time.monotonic() < end and before != (now := self._count()):
            before = now
            self._screen.wait_for_rest(1.0, most=1.0)
        self.result.rest.append(Sample(self.seconds, resident_mb(self._screen.process.pid), *before))

    def _count(self) -> tuple[int, int]:
        """Open files of the program; processes."""
        return len(list(Path(f"/proc/{self._screen.process.pid}/fd").iterdir())), len(self.processes())

    def processes(self) -> list[int]:
        """Whoever has this home, orphans too, and dead children that nobody has reaped."""
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._owns(entry)]

    def _owns(self, entry: Path) -> bool:
        try:
            parent = entry.joinpath("stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            here = f"HOME={self._folder}".encode() in entry.joinpath("environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return here or int(parent) == self._screen.process.pid

    def quit(self) -> None:
        self._screen.type("/quit\r")
        self.result.code = self._screen.wait_for_end()
        end = time.monotonic() + 2
        while self.processes() and time.monotonic() < end:
            time.sleep(0.02)
        self.result.left = len(self.processes())
        self._read_session()

    def _read_session(self) -> None:
        directory = SessionDirectory(self._folder / ".local/state/rkllm-chat/sessions")
        for record in (entry.record for entry in directory.read(directory.list_ids()[0]).entries):
            if isinstance(record, TurnFinished):
                self.result.ended[record.reason] += 1
            if isinstance(record, Message) and record.result:
                counted = self.result.faults if record.result.tool == "act" else self.result.answers
                counted[record.result.status] += 1
                if counted is self.result.answers and record.result.status != "completed":
                    self.result.silent.append(f"{record.result.server}: {record.result.text}")


@contextmanager
def open_faulty_chat(modes: Sequence[str], faults: int) -> Iterator[FaultyChat]:
    """The program with its servers and a script that is long enough: faults, with a rest before, amid and behind."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        servers = {mode: entry_of(mode) for mode in modes} | {FINE: entry_of("ok")}
        (folder / "servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        (folder / "replies.json").write_text(json.dumps(list(replies_for(modes, faults))), encoding="utf-8")
        kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH") if key in os.environ}
        environment = {**kept, "HOME": name, "TERM": "xterm", "LANG": "C.UTF-8", SANDBOX_VARIABLE: "off"}
        # the rules about values are for what a model means: a script says what it says
        approve = ["--set", "policy.approve=all"]
        arguments = ["--model", "replies.json", "--config", "servers.json", *approve, "--context", "16384"]
        screen = Screen(arguments, environment, folder, forks=False)
        try:
            screen.wait_for("for commands, Ctrl+D to exit", TURN_S)
            screen.wait_for_prompt(TURN_S)
            yield FaultyChat(screen, folder, modes)
        finally:
            screen.close()


def entry_of(mode: str) -> dict[str, object]:
    """A server as a configuration names it. Each of its lives is its first."""
    return {
        "command": sys.executable,
        "args": ["-m", "mcp_client.chaos", mode, "--delay", "1.5"],
        "env": {"PYTHONPATH": str(TESTS)},
        "timeout_s": 1.0 if mode in ("hang-call", "sigstop-self", "late-reply") else 20.0,
        "tools_allow": ["act", "echo"],
    }


def plan(modes: Sequence[str], faults: int) -> list[int]:
    """How many faults lie between one rest and the next: each mode once, to be warm, then two halves."""
    rest = faults - len(modes)
    return [len(modes), rest // 2, rest - rest // 2]


def replies_for(modes: Sequence[str], faults: int) -> Iterator[str]:
    """What the model says, two replies a turn: its calls, and the end by which the turn is known."""
    number = fault = 0

    def turn(*calls: str) -> Iterator[str]:
        nonlocal number
        number += 1
        yield from ("\n".join(calls), f"Number {number} is over.")

    for count in plan(modes, faults):
        for _ in range(count):
            yield from turn(call_text(f"{modes[fault % len(modes)]}__act"))
            yield from turn(call_text(f"{FINE}__echo", text=f"after fault {fault}"))
            fault += 1
        yield from turn(*(call_text(f"{server}__echo", text=f"present at {number}") for server in (*modes, FINE)))


def run_soak(modes: Sequence[str], faults: int, every_s: float) -> SoakResult:
    """A whole chat with so many faults, and the program's end."""
    with open_faulty_chat(modes, faults) as chat:
        for count in plan(modes, faults):
            chat.run_faults(count, every_s)
            chat.wait_idle()
            if len(chat.result.rest) == 1:
                chat.result.memory_mb.clear()  # it was warming up
        chat.quit()
        return chat.result


def long_soak(minutes: float) -> list[Figure]:
    """A fault every two seconds for `--minutes` N (10): memory, open files, processes, and how the turns ended."""
    result = run_soak(MODES, max(2 * len(MODES), round(minutes * 60 / EVERY_S)), EVERY_S)
    first, middle, last = result.rest
    faults, answers = result.faults.total(), result.answers.total()
    print("\n".join(result.silent))
    return [
        Figure("soak: minutes", (last.at_s) / 60, "min"),
        Figure("soak: turns that ended", result.ended.total(), "", result.turns, "turns", Goal(1, "ratio", least=True)),
        Figure("soak: faults met", faults, "", result.faults["failed"], "calls that failed by them"),
        Figure(
            "soak: healthy calls answered", result.answers["completed"], "", answers, "asked", Goal(1, "ratio", True)
        ),
        Figure("soak: memory when all is warm", first.memory_mb, "MB"),
        Figure("soak: memory in the middle", middle.memory_mb, "MB", first.memory_mb, "warm"),
        Figure("soak: memory at the end", last.memory_mb, "MB", first.memory_mb, "warm"),
        Figure("soak: memory grows a minute by", result.slope_mb, "MB"),
        Figure("soak: memory grows a turn by", (last.memory_mb - first.memory_mb) * 1024 / result.turns, "kB"),
        Figure("soak: open files at the end", last.files, "", first.files, "warm", Goal(1, "ratio")),
        Figure("soak: processes at the end", last.processes, "", first.processes, "warm", Goal(1, "ratio")),
        Figure("soak: processes left when it has ended", result.left, "", goal=Goal(0)),
    ]
