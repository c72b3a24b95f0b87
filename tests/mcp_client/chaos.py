"""A misbehaving MCP server: `python -m mcp_client.chaos MODE` in tests/; without a mode, a list of the modes."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import chaos_framing, chaos_life, chaos_lists, chaos_results, chaos_silence, chaos_sizes, chaos_tasks
from .chaos_server import MODES, Server

FAMILIES = (chaos_life, chaos_framing, chaos_sizes, chaos_lists, chaos_results, chaos_silence, chaos_tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description="A misbehaving MCP server on standard input and output.")
    parser.add_argument("mode", nargs="?", choices=MODES, metavar="MODE")
    parser.add_argument("--delay", type=float, default=0.1, metavar="S", help="of the modes that wait, in seconds")
    parser.add_argument("--log", type=Path, metavar="FILE", help="gets a line of JSON for all that happens")
    parser.add_argument("--state", type=Path, metavar="FILE", help="counts the starts; without it each is the first")
    parser.add_argument("--eras", choices=["both", "handshake", "modern"], default="")
    chosen = parser.parse_args()
    if chosen.mode:
        Server(MODES[chosen.mode], chosen.delay, chosen.log, chosen.state, chosen.eras).run()
    else:
        print("\n".join(MODES))


if __name__ == "__main__":
    main()
