"""The processes of this machine, as tests see them: from /proc, or from ps where there is none, as on macOS."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from macos import PROC

HAS_PROC = Path(PROC, "self").exists()


class Process(NamedTuple):
    """A process.

    Attributes:
        pid: Its number.
        parent: Its parent's.
        state: "Z" for a zombie (proc(5), ps(1)).
        command: Its program and arguments.
    """

    pid: int
    parent: int
    state: str
    command: str


def list_processes() -> Iterator[Process]:
    """Yield all processes, zombies too."""
    if not HAS_PROC:
        yield from _ask_ps("-ax")
        return
    for path in Path(PROC).glob("[0-9]*"):
        if process := _read(int(path.name)):
            yield process


def find_process(pid: int) -> Process | None:
    """Return a process, a zombie too; None if there is none of that number."""
    return _read(pid) if HAS_PROC else next(_ask_ps("-p", str(pid)), None)


def find_processes(word: str) -> list[int]:
    """Return the processes that run and have a word in their command line."""
    return [process.pid for process in list_processes() if process.state != "Z" and word in process.command]


def find_children(pid: int) -> list[int]:
    """Return the children of a process, zombies too."""
    return [process.pid for process in list_processes() if process.parent == pid]


def is_there(pid: int) -> bool:
    """Whether a process runs, or is a zombie that its parent should have reaped; init reaps when it likes."""
    process = find_process(pid)
    return process is not None and (process.state != "Z" or process.parent != 1)


def _read(pid: int) -> Process | None:
    try:
        state, parent, *_ = Path(f"{PROC}/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        words = Path(f"{PROC}/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return Process(pid, int(parent), state.decode(), b" ".join(words).decode(errors="replace"))


def _ask_ps(*which: str) -> Iterator[Process]:
    command = ["ps", "-ww", "-o", "pid=,ppid=,state=,command=", *which]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", errors="replace") as ps:
        lines = ps.communicate()[0].splitlines()
    for line in lines:
        pid, parent, state, *words = line.split(None, 3)
        if int(pid) != ps.pid:
            yield Process(int(pid), int(parent), state[0], words[0] if words else "")
