"""What grows with a conversation: memory with what was said, and the processor's time for all of a turn but its engine.

The backend streams written replies at no cost, so what is measured is history, prompt, scanner, calls and results.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path
from statistics import median

from rkllm_chat.chat.context import build_prompt
from rkllm_chat.chat.conversation import Conversation

from .chats import LINE, make_chat, run_turn
from .figures import Figure, Goal, in_turn

RUNS = 9
MANY_LINES = 11
TURNS = (10, 100, 1000)
TOOLS = (10, 100, 1000)
WINDOW = 8192  # tokens, when memory is measured: older turns leave the prompt, and stay in the history


def memory_of_history() -> list[Figure]:
    """Bytes that a turn of history takes, after 10, 100 and 1,000 turns, each in a process of its own."""
    grown = {turns: measure_apart(turns, 1)[0] for turns in TURNS}
    (short, said), (long, more_said) = (measure_apart(TURNS[1], lines) for lines in (1, MANY_LINES))
    few = grown[TURNS[0]]
    rows = [
        Figure(f"memory of a turn, of {turns}", grown[turns], "bytes", few, f"of {TURNS[0]}", Goal(1.1, "ratio"))
        for turns in TURNS[1:]
    ]
    factor = (long - short) / (more_said - said)
    return [
        *rows,
        Figure("memory of a turn with one call", short, "bytes", said, "bytes said in it"),
        Figure("memory of a byte more in a result", factor, "bytes", 1, "the byte", Goal(2.1, "ratio")),
    ]


def measure_apart(turns: int, lines: int) -> tuple[float, float]:
    """Bytes of memory a turn, and bytes said in one; its result has so many lines."""
    root = Path(__file__).parents[2]
    code = f"from tests.bench.growth import measure_memory; print(*measure_memory({turns}, {lines}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    memory, said = done.stdout.split()
    return float(memory), float(said)


def measure_memory(turns: int, lines: int) -> tuple[float, float]:
    """The same, in this process. Tables that are made once are there before the counting begins."""
    make_chat(10, 2, WINDOW, lines)
    gc.collect()
    tracemalloc.start()
    chat = make_chat(10, 0, WINDOW, lines)
    begun = take_turns(chat, 1)
    taken = (take_turns(chat, turns) - begun) / turns
    tracemalloc.stop()
    return taken, sum(len(message.text.encode()) for message in chat.history) / (turns + 1)


def take_turns(chat: Conversation, turns: int) -> int:
    """Bytes that are in use behind so many more turns."""

    async def talk() -> None:
        for number in range(turns):
            await run_turn(chat, f"{LINE} ({number})")

    asyncio.run(talk())
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def turn_costs() -> list[Figure]:
    """CPU of a turn with one call, all but the engine: by 10, 100, 1,000 tools and behind 10 and 100 turns."""
    goal = Goal(1.1, "ratio")  # a turn's new tokens are the same; a tenth for the noise of a clock
    first = {tools: first_turn(tools) for tools in TOOLS}
    rows: list[Figure] = []
    for tools in TOOLS[1:]:
        grown = [first[tools][part] / first[TOOLS[0]][part] for part in (0, 1)]
        what = f"first turn, {tools} tools over {TOOLS[0]}: CPU grows by"
        rows.append(Figure(what, grown[0], "times", grown[1], "the prompt grows by", goal))
    with_tools = {tools: make_chat(tools, 1) for tools in TOOLS}
    behind = {turns: make_chat(10, turns) for turns in TURNS[:2]}
    by_tools, by_turns = (cpu_of_later_turns(chats) for chats in (with_tools, behind))
    few = by_tools[TOOLS[0]]
    rows.append(Figure(f"a later turn, {TOOLS[0]} tools: CPU", 1e3 * few, "ms"))
    for tools in TOOLS[1:]:
        rows.append(Figure(f"a later turn, {tools} tools: CPU", 1e3 * by_tools[tools], "ms", 1e3 * few, "10", goal))
    early = by_turns[TURNS[0]]
    ours = 1e3 * by_turns[TURNS[1]]
    return [*rows, Figure("a turn behind 100 turns: CPU", ours, "ms", 1e3 * early, "behind 10", goal)]


def first_turn(tools: int) -> tuple[float, int]:
    """Seconds of CPU for the first turn with so many tools that nobody has seen before; characters of its prompt."""
    spent: list[float] = []
    for _ in range(3):
        chat = make_chat(tools)
        spent.append(cpu_of_turn(chat))
    return min(spent), sum(len(message.text) for message in build_prompt(chat))


def cpu_of_later_turns(chats: dict[int, Conversation]) -> dict[int, float]:
    """The median CPU of a turn of each, in turn. Every turn makes the history longer by one."""
    ways = {size: partial(cpu_of_turn, chat) for size, chat in chats.items()}
    return {size: median(found) for size, found in in_turn(ways, RUNS, warms_up=False).items()}


def cpu_of_turn(chat: Conversation) -> float:
    async def measure() -> float:
        begun = time.process_time()
        await run_turn(chat, LINE)
        return time.process_time() - begun

    return asyncio.run(measure())
