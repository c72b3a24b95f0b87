"""`python -m tests.bench`: figures of this machine, each beside its reference of the same run and its goal.

    python -m tests.bench                 all of them, as one table
    python -m tests.bench calls starts    only those whose name holds one of the words
    python -m tests.bench --json          a JSON list, for programs
    python -m tests.bench --list          the names, with what each measures
    python -m tests.bench --counts        only those that count and take no time; fails where a count misses its goal
    python -m tests.bench --llama-bench FOLDER    beside llama.cpp's own program, built there once (minutes; cmake, c++)
    python -m tests.bench --write         the table into the card, README.md in this folder
    python -m tests.bench soak --minutes 3    one of LONG, which run only when they are named in full

Of times nothing passes or fails: it is said of each goal whether it was met. The machine should do nothing else
meanwhile.

To add one, write a function without arguments that gives a list of `Figure` (figures.py), with a docstring, and give it
a row in BENCHES. What it starts it ends; what it is compared with it measures itself, in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper

from rkllm_chat.mcp_client.process.start import SANDBOX_VARIABLE

from . import counts, growth, oneshot, parts, prefill, servers
from .calls import scanner_speed
from .card import write_card
from .constrained import constrained_calls, grammar_costs
from .figures import COLUMNS, Figure, lay_out
from .journal import journal_costs
from .llama_source import FOLDER_VARIABLE
from .mixed import mixed_requests
from .npu import npu_costs
from .real_model import real_model_speed
from .screen import first_prompt, markdown_speed, streamed_token, typed_key
from .soak import long_soak
from .turns import turn_speed
from .warm import second_start

BENCHES: dict[str, Callable[[], list[Figure]]] = {
    "turns": turn_speed,
    "real-model": real_model_speed,
    "prefilled": prefill.prefilled,
    "first-token": prefill.first_tokens,
    "memory": growth.memory_of_history,
    "turn-costs": growth.turn_costs,
    "requests": counts.requests,
    "session-bytes": counts.session_bytes,
    "help": parts.help_cost,
    "bad-models": parts.bad_model_costs,
    "scanner": scanner_speed,
    "llama": parts.llama_costs,
    "grammar": grammar_costs,
    "constrained-calls": constrained_calls,
    "warm": second_start,
    "npu": npu_costs,
    "markdown": markdown_speed,
    "first-prompt": first_prompt,
    "streamed-token": streamed_token,
    "typed-key": typed_key,
    "huge-result": servers.huge_result,
    "flood": servers.flood,
    "slow-starts": servers.slow_starts,
    "slow-calls": servers.slow_calls,
    "overhead": servers.overhead,
    "sandbox": servers.sandbox,
    "kills": journal_costs,
    "one-shot": oneshot.one_shot_calls,
    "processor": oneshot.processor_times,
    "tool-commands": oneshot.tool_commands,
    "api-mixed": mixed_requests,
}
LONG: dict[str, Callable[[float], list[Figure]]] = {"soak": long_soak}
"""Those that take minutes, as many as they are told."""
COUNTS = ("prefilled", "requests", "session-bytes")
"""Those that give the same on any machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Figures of this machine.")
    parser.add_argument("name", nargs="*", help="only the benches whose name holds one of these")
    parser.add_argument("--json", action="store_true", help="a JSON list in place of the table")
    parser.add_argument("--list", action="store_true", help="the names of all, and what they measure")
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N", help="how long those that are long take")
    parser.add_argument("--counts", action="store_true", help="only those that count; 1 where a goal is missed")
    parser.add_argument("--write", action="store_true", help="put the table into the card beside this program, too")
    parser.add_argument("--llama-bench", metavar="FOLDER", help=f"where it is, or is to be built ({FOLDER_VARIABLE})")
    options = parser.parse_args(arguments)
    if options.llama_bench:
        os.environ[FOLDER_VARIABLE] = options.llama_bench
    os.environ[SANDBOX_VARIABLE] = "off"  # what else is measured is measured without one
    benches = BENCHES | {name: wrap(long, options.minutes) for name, long in LONG.items()}
    names = [name for name in benches if not options.counts or name in COUNTS]
    selected = [name for name in names if is_chosen(name, options.name, options.list)]
    if not selected:
        parser.error(f"unknown bench; known are {', '.join(names)}")
    if options.list:
        print("\n".join(f"{name:<17} {(benches[name].__doc__ or '').partition(chr(10))[0]}" for name in selected))
        return 0
    before = os.getloadavg()[0]
    figures = [figure for name in selected for figure in run(name, benches[name])]
    if options.write:
        write_card(figures, (before, os.getloadavg()[0]))
    if options.json:
        print(json.dumps([figure.to_json() for figure in figures], ensure_ascii=False, indent=1))
    else:
        print("\n".join(lay_out([COLUMNS, *(figure.cells() for figure in figures)])))
    return code_of(figures) if options.counts else 0


def code_of(counts: Sequence[Figure]) -> int:
    """1 where a count misses its goal."""
    return int(any(figure.is_met is False for figure in counts))


def is_chosen(name: str, words: Sequence[str], to_list: bool) -> bool:
    """Whether a bench is to be run or listed. Part of a name is enough, but for those that are long."""
    if name in LONG and not to_list:
        return name in words
    return not words or any(word in name for word in words)


def wrap(long: Callable[[float], list[Figure]], minutes: float) -> Callable[[], list[Figure]]:
    """A long bench as the others are."""
    return update_wrapper(partial(long, minutes), long)


def run(name: str, bench: Callable[[], list[Figure]]) -> list[Figure]:
    """What is written meanwhile, by libraries too, goes to standard error: standard output is for the figures."""
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        return bench()
    finally:
        os.dup2(output, 1)
        os.close(output)


if __name__ == "__main__":
    sys.exit(main())
