"""A pretend Claude CLI: does what the first word of its prompt says, and writes down how it was called.

It is put on a PATH as `claude`. $HOME/calls.jsonl gets a line a run: the arguments, the prompt, the folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOME = Path(os.environ["HOME"])
CALLS = HOME / "calls.jsonl"
SPENT = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1, "output_tokens": 7}


def answer(text: str, **more: Any) -> None:
    """As the CLI answers; each run has a session of its own, resumed or not."""
    session = f"session-{len(CALLS.read_text(encoding='utf-8').splitlines())}"
    said = {"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": session}
    print(json.dumps({**said, "total_cost_usd": 0.25, "usage": SPENT, **more}), flush=True)


def sleep() -> None:
    """Never ends, deaf to SIGTERM, with a child that has left its group; their numbers are in $HOME/pids."""
    wait = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", wait], start_new_session=True, stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    (HOME / "pids.new").write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    (HOME / "pids.new").rename(HOME / "pids")
    time.sleep(600)


def leave() -> None:
    """Answers, and leaves a child behind that holds its standard output."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (HOME / "pids").write_text(f"{child.pid}", encoding="utf-8")
    answer("done")


def wait() -> None:
    """Answers when somebody has written to the pipe $HOME/go."""
    answer((HOME / "go").read_text(encoding="utf-8"))


def fail() -> int:
    print("boom: the moon is full", file=sys.stderr)
    return 3


def fail_in_json() -> int:
    answer("Credit balance is too low", is_error=True)
    return 1


def forget() -> int:
    print("No conversation found with session ID: session-1", file=sys.stderr)
    return 1


WORDS: dict[str, Callable[[], int | None]] = {
    "sleep": sleep,
    "leave": leave,
    "wait": wait,
    "fail": fail,
    "fail-in-json": fail_in_json,
    "forgotten": forget,
    "error": lambda: answer("API Error: overloaded", is_error=True),
    "limit": lambda: print('{"type": "result", "subtype": "error_max_turns", "is_error": false, "session_id": "s"}'),
    "garbage": lambda: print("Welcome to Claude! " + "x" * 1000),
    "list": lambda: print("[1, 2]"),
    "verbose": lambda: print(
        '[{"type": "system"}, {"type": "result", "result": "short", "session_id": "session-of-a-list"}]'
    ),
    "option": lambda: answer("sneaky", session_id="--version"),
    "nothing": lambda: None,
    "flood": lambda: print("x" * (17 << 20)),
}


def main() -> int:
    prompt = sys.stdin.read()
    with CALLS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"arguments": sys.argv[1:], "prompt": prompt, "folder": str(Path.cwd())}) + "\n")
    return WORDS.get(prompt.split()[0], lambda: answer(f"You said: {prompt}"))() or 0


if __name__ == "__main__":
    sys.exit(main())
