"""What a kill costs a session: a process that appends records is killed, again and again."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rkllm_chat.journal import Journal, Shelf
from rkllm_chat.messages import Message
from rkllm_chat.records import TurnDone

from .figures import Figure, Goal

WRITER = """
import sys
from pathlib import Path
from rkllm_chat.journal import Journal, Shelf
from rkllm_chat.messages import Message
from rkllm_chat.records import TurnDone

journal = Journal(Shelf(Path(sys.argv[1])), print)
if len(sys.argv) > 2:
    journal.resume(sys.argv[2])
number = 0
while True:
    journal.keep(Message("user", f"{number} " + "x" * (number % 7) ** 5))
    if number % 5 == 4:
        journal.keep(TurnDone("answered"))
    print(number, flush=True)
    number += 1
"""


@dataclass(frozen=True)
class Loss:
    """What is left of a session whose writer was killed: its records were said to be written up to `said`."""

    name: str
    said: int
    lost: int
    damaged: int


def kill_writer(folder: Path, name: str = "", wait_s: float = 0.0) -> Loss:
    """Lets a process write messages with rising numbers, kills it, and reads the file."""
    shelf = Shelf(folder)
    before = len(numbers(shelf, name)) if name else 0
    command = [sys.executable, "-c", WRITER, str(folder), *([name] if name else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        first = writer.stdout.readline()  # it is in the middle of its work
        time.sleep(wait_s)
        writer.send_signal(signal.SIGKILL)
        said = [int(line) for line in (first + writer.stdout.read()).splitlines(keepends=True) if line.endswith("\n")]
    name = name or shelf.ids()[0]
    contents = shelf.read(name)
    kept = set(numbers(shelf, name)[before:])
    return Loss(name, said[-1], sum(number not in kept for number in said), contents.damaged)


def numbers(shelf: Shelf, name: str) -> list[int]:
    messages = [one.record for one in shelf.read(name).entries if isinstance(one.record, Message)]
    return [int(message.text.split()[0]) for message in messages]


def journal_costs(kills: int = 200) -> list[Figure]:
    """Records lost and files damaged by 200 kills, half of them of sessions gone on with; what an append costs."""
    losses: list[Loss] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(kills):
            name = losses[-1].name if number % 2 else ""
            losses.append(kill_writer(Path(folder) / "sessions", name, wait_s=number % 20 / 1000))
        append_s, sync_s = write_costs(Path(folder) / "cost")
    lost, damaged = max(loss.lost for loss in losses), sum(loss.damaged > 0 for loss in losses)
    return [
        Figure(f"a session killed {kills} times: most records lost by a kill", lost, "", goal=Goal(1)),
        Figure(f"a session killed {kills} times: files with a damaged line", damaged, "", goal=Goal(0)),
        Figure("a record of a session appended", append_s * 1e3, "ms", sync_s * 1e3, "a turn's end, synced"),
    ]


def write_costs(folder: Path) -> tuple[float, float]:
    """Seconds of one append, and of one with the sync at the end of a turn; the mean of many."""
    journal = Journal(Shelf(folder), print)
    journal.keep(TurnDone("answered"))
    spent: list[float] = []
    for record, times in ((Message("user", "How deep is the harbour?"), 1000), (TurnDone("answered"), 50)):
        begun = time.perf_counter()
        for _ in range(times):
            journal.keep(record)
        spent.append((time.perf_counter() - begun) / times)
    journal.close()
    return spent[0], spent[1]
