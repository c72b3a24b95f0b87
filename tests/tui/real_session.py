"""Talk to a real model in the real program: how long nothing moves, how right forecasts are, and the last screen.

    python -m tests.tui.real_session [--size 80x24] [--config FILE] [--picture FILE] MODEL LANGUAGE QUESTION ...

The home is new and empty, the model answers greedily, and every approval is answered with yes. Each step prints its
time, the longest times without any change of the screen while something ran, with what it showed, and beside the
forecast of the first prompt the tokens and seconds that it took.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":  # the tests find their helpers by `pythonpath` of pytest
    sys.path.insert(0, str(Path(__file__).parents[1]))

from rkllm_chat.core.events import Usage
from rkllm_chat.storage.session_files import SessionDirectory
from stage import Screen
from tui.picture import draw

LIMIT_S, SILENCE_S, COUNTING_S = 300.0, 0.5, 1.0
LOCALES = {"en": "en_US.UTF-8", "ja": "ja_JP.UTF-8", "zh": "zh_CN.UTF-8"}
QUESTION = re.compile(r"(\[y/N\]|\[q\][^]]*[:：])$")
WORKING = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")


def watch(screen: Screen, step: str) -> None:
    """Read until the program waits for a line; print the times in which the screen did not change."""
    started = changed = time.monotonic()
    before, silences, was_asked = list[str](), list[tuple[float, str]](), False
    while not (is_idle(screen) and time.monotonic() - changed > 2 * SILENCE_S):
        assert time.monotonic() < started + LIMIT_S, screen.lines()
        screen.read_some(time.monotonic() + 0.02)
        if screen.emulator.display != before:
            now, shown = time.monotonic(), " | ".join(filter(None, map(str.strip, before)))
            if now - changed > SILENCE_S:
                silences.append((now - changed, f"at {changed - started:.1f} s: {shown[-160:]}"))
            before, changed = screen.emulator.display, now
            row = screen.emulator.cursor.y
            asks = bool(QUESTION.search(" ".join(before[max(0, row - 1) : row + 1]).rstrip()))
            if asks and not was_asked:
                screen.type("y")
            was_asked = asks
    print(f"{step}: {changed - started:.1f} s, {sum(silent for silent, _ in silences):.1f} s of silence")
    for silent, what in sorted(silences, reverse=True)[:5]:
        print(f"   {silent:.2f} s {what}")


def is_idle(screen: Screen) -> bool:
    """Whether an empty prompt waits and no line tells that something runs."""
    row = screen.emulator.cursor.y
    display = screen.emulator.display
    return display[row].rstrip() == ">" and not any(map(WORKING.search, display))


def read_first_cost(home: Path, turn: int) -> Usage | None:
    """Return the cost of the first prompt of a turn."""
    directory = SessionDirectory(home / ".local/state/rkllm-chat/sessions")
    records = [entry.record for name in directory.list_ids() for entry in directory.read(name).entries]
    ends = [-1, *(at for at, record in enumerate(records) if type(record).__name__ == "TurnFinished")]
    return next((record for record in records[ends[turn] + 1 :] if isinstance(record, Usage)), None)


def record(options: argparse.Namespace) -> None:
    columns, rows = map(int, options.size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = {**os.environ, "HOME": folder, "LANG": LOCALES[options.language], "TERM": "xterm-256color"}
        arguments = ["--model", options.model, "--set", "temperature=0"]
        if options.config:
            arguments += ["--config", options.config]
        screen = Screen(arguments, environment, home, (columns, rows), forks=False)
        try:
            watch(screen, "start")
            for turn, question in enumerate(options.question):
                screen.type(question)
                screen.wait_for_rest(COUNTING_S)
                forecast = screen.lines()[-1]
                screen.type("\r")
                watch(screen, question)
                if cost := read_first_cost(home, turn):
                    took = f"{cost.prompt_tokens} tokens, {cost.prefilled_tokens} new, {cost.prefill_s:.1f} s"
                    print(f"   forecast: {forecast}\n   it took: {took}")
            if options.picture:
                title = f"rkllm-chat, {Path(options.model).name}"
                options.picture.write_text(draw(screen.emulator, str, title), encoding="utf-8")
            print("\n".join(screen.lines()))
        finally:
            screen.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="100x40")
    parser.add_argument("--config", default="")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("model")
    parser.add_argument("language", choices=LOCALES)
    parser.add_argument("question", nargs="+")
    record(parser.parse_args())
