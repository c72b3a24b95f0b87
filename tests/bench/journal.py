"""What a kill costs a session: a process that appends records is killed, again and again.

`python -m bench.journal FOLDER KILLS` (in tests/) does it, and says what was lost each time as a line of JSON. It is a
process of its own, so that a writer is a fork of it and has nothing to import.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import NoReturn

from rkllm_chat.core.messages import Message
from rkllm_chat.storage.session_files import SessionDirectory, SessionLog
from rkllm_chat.storage.session_records import TurnFinished

from .figures import Figure, Goal

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Loss:
    """What is left of a session whose writer was killed: its records were said to be written up to `said`."""

    name: str
    said: int
    lost: int
    damaged: int


def kill_writer(folder: Path, name: str = "", wait_s: float = 0.0) -> Loss:
    """Lets a process write messages with rising numbers, kills it, and reads the file. `name` is gone on with."""
    shelf = SessionDirectory(folder)
    before = len(numbers(shelf, name)) if name else 0
    ours, theirs = os.pipe()
    writer = os.fork()
    if not writer:
        write_for_ever(shelf, name, theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as said_by_writer:
        first = said_by_writer.readline()  # it is in the middle of its work
        time.sleep(wait_s)
        os.kill(writer, signal.SIGKILL)
        said = [int(line) for line in (first + said_by_writer.read()).splitlines(keepends=True) if line[-1:] == b"\n"]
    os.waitpid(writer, 0)
    name = name or shelf.list_ids()[0]
    contents = shelf.read(name)
    kept = set(numbers(shelf, name)[before:])
    return Loss(name, said[-1], sum(number not in kept for number in said), contents.damaged_lines)


def write_for_ever(shelf: SessionDirectory, name: str, said: int) -> NoReturn:
    """Writes records, and each number when its record is written, until it is killed."""
    try:
        journal = SessionLog(shelf, print)
        if name:
            journal.resume(name)
        for number in count():
            journal.append(Message("user", f"{number} " + "x" * (number % 7) ** 5))
            if number % 5 == 4:
                journal.append(TurnFinished("answered"))
            os.write(said, b"%d\n" % number)
    finally:
        os._exit(1)  # it is a fork: nothing above is its business


def kill_many(folder: Path, kills: int) -> Iterator[Loss]:
    """Half of the sessions are gone on with."""
    name = ""
    for number in range(kills):
        loss = kill_writer(folder, name, wait_s=number % 20 / 1000)
        name = "" if number % 2 else loss.name
        yield loss


def losses_of(folder: Path, kills: int) -> list[Loss]:
    """The same, by a process of its own."""
    command = [sys.executable, "-m", "bench.journal", str(folder), str(kills)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path[1:]])}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, timeout=600, check=True)
    return [Loss(**json.loads(line)) for line in done.stdout.splitlines()]


def numbers(shelf: SessionDirectory, name: str) -> list[int]:
    messages = [entry.record for entry in shelf.read(name).entries if isinstance(entry.record, Message)]
    return [int(message.text.split()[0]) for message in messages]


def journal_costs(kills: int = 200) -> list[Figure]:
    """Records lost and files damaged by 200 kills, half of them of sessions gone on with; what an append costs."""
    with tempfile.TemporaryDirectory() as folder:
        losses = losses_of(Path(folder) / "sessions", kills)
        append_s, sync_s = write_costs(Path(folder) / "cost")
    lost, damaged = max(loss.lost for loss in losses), sum(loss.damaged > 0 for loss in losses)
    return [
        Figure(f"a session killed {kills} times: most records lost by a kill", lost, "", goal=Goal(1)),
        Figure(f"a session killed {kills} times: files with a damaged line", damaged, "", goal=Goal(0)),
        Figure("a record of a session appended", append_s * 1e3, "ms", sync_s * 1e3, "a turn's end, synced"),
    ]


def write_costs(folder: Path) -> tuple[float, float]:
    """Seconds of one append, and of one with the sync at the end of a turn; the mean of many."""
    journal = SessionLog(SessionDirectory(folder), print)
    journal.append(TurnFinished("answered"))
    spent: list[float] = []
    for record, times in ((Message("user", "How deep is the harbour?"), 1000), (TurnFinished("answered"), 50)):
        begun = time.perf_counter()
        for _ in range(times):
            journal.append(record)
        spent.append((time.perf_counter() - begun) / times)
    journal.close()
    return spent[0], spent[1]


if __name__ == "__main__":
    for loss in kill_many(Path(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(asdict(loss)), flush=True)
