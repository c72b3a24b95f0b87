"""The card beside this file: the table of a run, the machine that it was measured on, and why a goal is not met."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from .figures import COLUMNS, Figure, lay_out

CARD = Path(__file__).with_name("README.md")
BEGIN = "<!-- what follows is written by `python -m tests.bench --write` -->\n"
PACKAGES = ("llama-cpp-python", "mcp", "prompt-toolkit", "rich")

# What a row begins with -> why its goal may not be met.
REASONS: dict[str, str] = {
    "a later turn, ": "the tools are looked through, to see that they are still the same objects, a few times in a "
    "turn: half a microsecond a tool. Nothing is told, tokenized or checked anew.",
    "a turn behind ": "the prompt is a list that is put together anew for each reply, from parts that are kept: some "
    "microseconds for each turn of history, while a single new token costs an engine milliseconds.",
    "first word of turn 10": "about half is the engine's, for which the same tokens cost more behind a longer talk, "
    "see the row of the engine alone; the rest is the longer prompt put into its template, counted and compared.",
    "chat turn, ": "llama-bench samples nothing; on a busy machine the chat's two threads also wait for cores more "
    "often.",
}


def write_card(figures: Sequence[Figure], busy: tuple[float, float]) -> None:
    """Puts the figures into the card; `busy` is the load of the machine before and after."""
    head = CARD.read_text(encoding="utf-8").partition(BEGIN)[0]
    table = "\n".join(lay_out([COLUMNS, *(figure.cells() for figure in figures)]))
    parts = [f"{head}{BEGIN}", f"{conditions(busy)}\n", f"```text\n{table}\n```\n", *why_not(figures, max(busy))]
    CARD.write_text("\n".join(parts), encoding="utf-8")


def conditions(busy: tuple[float, float]) -> str:
    before, after = busy
    names = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{os.cpu_count()} cores of {processor()} ({platform.machine()}), {platform.system()}, "
        f"Python {platform.python_version()}, {names}.\nLoad of the machine (processes that want a core, mean of a "
        f"minute) {before:.1f} before the run and {after:.1f} behind it."
    )


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "an unknown kind")


def why_not(figures: Sequence[Figure], load: float) -> list[str]:
    """A line for each goal that is not met on a machine of so much load."""
    missed = [figure for figure in figures if figure.is_met is False]
    lines = [f"- **{figure.what}** ({figure.against or figure.goal}): {reason_of(figure, load)}" for figure in missed]
    return ["Goals that this run did not meet:\n", "\n".join(lines), ""] if lines else ["All goals are met.", ""]


def reason_of(figure: Figure, load: float) -> str:
    found = (reason for start, reason in REASONS.items() if figure.what.startswith(start))
    is_busy = load > (os.cpu_count() or 1)
    return next(found, "others kept the machine busy; not looked into." if is_busy else "no reason is known.")
