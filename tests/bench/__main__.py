"""`python -m tests.bench`: figures of this machine, each beside its reference of the same run and its goal.

    python -m tests.bench                 all of them, as one table
    python -m tests.bench calls starts    only those whose name holds one of the words
    python -m tests.bench --json          a JSON list, for programs
    python -m tests.bench --list          the names, with what each measures

Nothing here passes or fails: the tests check counts, this measures time, and says of each goal whether it was met. The
machine should do nothing else meanwhile.

To add one, write a function without arguments that gives a list of `Figure` (figures.py), with a docstring, and give it
a row in BENCHES. What it starts it ends; what it is compared with it measures itself, in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence

from . import oneshot, parts, servers
from .figures import COLUMNS, Figure, lay_out
from .journal import journal_costs
from .npu import npu_costs
from .screen import first_prompt, streamed_token
from .terminal import markdown_speed
from .toolcommands import tool_commands

BENCHES: dict[str, Callable[[], list[Figure]]] = {
    "help": parts.help_cost,
    "bad-models": parts.bad_model_costs,
    "scanner": parts.scanner_speed,
    "llama": parts.llama_costs,
    "npu": npu_costs,
    "markdown": markdown_speed,
    "first-prompt": first_prompt,
    "streamed-token": streamed_token,
    "huge-result": servers.huge_result,
    "flood": servers.flood,
    "slow-starts": servers.slow_starts,
    "slow-calls": servers.slow_calls,
    "overhead": servers.overhead,
    "kills": journal_costs,
    "one-shot": oneshot.one_shot_calls,
    "tool-commands": tool_commands,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Figures of this machine.")
    parser.add_argument("name", nargs="*", help="only the benches whose name holds one of these")
    parser.add_argument("--json", action="store_true", help="a JSON list in place of the table")
    parser.add_argument("--list", action="store_true", help="the names of all, and what they measure")
    chosen = parser.parse_args(arguments)
    found = [name for name in BENCHES if not chosen.name or any(word in name for word in chosen.name)]
    if not found:
        parser.error(f"no bench is named so; there are {', '.join(BENCHES)}")
    if chosen.list:
        print("\n".join(f"{name:<12} {(BENCHES[name].__doc__ or '').partition(chr(10))[0]}" for name in found))
        return 0
    figures = [figure for name in found for figure in run(name)]
    if chosen.json:
        print(json.dumps([figure.to_json() for figure in figures], ensure_ascii=False, indent=1))
    else:
        print("\n".join(lay_out([COLUMNS, *(figure.cells() for figure in figures)])))
    return 0


def run(name: str) -> list[Figure]:
    """What is written meanwhile, by libraries too, goes to standard error: standard output is for the figures."""
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        return BENCHES[name]()
    finally:
        os.dup2(output, 1)
        os.close(output)


if __name__ == "__main__":
    sys.exit(main())
