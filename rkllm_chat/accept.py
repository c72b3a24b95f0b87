"""`rkllm-chat trust NAME ...`: shows how servers would be started and how their tools have changed, and asks.

It is what the chat asks by itself, for those who use scripts alone. Nothing is started before it was accepted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from . import language
from .admission import describe_server
from .clean import clean, reveal
from .config import ServerConfig
from .discover import find_settings, state_folder
from .errors import ConfigError, ServerNotFoundError, UsageError
from .pins import Pins, read_told, show_change
from .places import TRUST_VARIABLE
from .reach import open_server
from .trust import Accepted

ACCEPTED, DECLINED = 0, 1


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 if something was not accepted. Raises ChatError."""
    parser = argparse.ArgumentParser(prog="rkllm-chat trust", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="+", help="a configured server")
    parser.add_argument("--config", metavar="FILE", default="", help="read this configuration alone")
    options = parser.parse_args(arguments)
    servers = {server.name: server for server in find_settings(options.config).servers}
    for name in options.names:
        if name not in servers:
            hint = f"Configured are {', '.join(servers)}."
            raise ServerNotFoundError(f'There is no server "{name}".', hint, available=list(servers))
    accepted = Accepted(str(state_folder()))
    return max(consider(servers[name], accepted) for name in options.names)


def consider(server: ServerConfig, accepted: Accepted) -> int:
    """One server: its start, and then its tools."""
    words = language.load()
    if not accepted.may_start(server):
        say(describe_server(server, words))
        if not agree(words("trust.start")):
            return DECLINED
        accepted.accept(server)
        if not Accepted(str(state_folder())).may_start(server):
            raise ConfigError(
                f"The answer cannot be kept: {state_folder()} cannot be written.", path=str(state_folder())
            )
    with open_server(server) as opened:
        told = {str(tool["name"]): read_told(tool) for tool in opened.list_all_tools()}
    pins = Pins(accepted, server)
    if held := pins.greet(told):
        for name, why in held.items():
            reason = words(f"hidden.{why}")
            say([words("servers.hidden", server=server.name, tool=name, reason=reason)])
            say(reveal(line) for line in show_change(pins.text_of(name), told[name]))
        if not agree(words("review.accept", server=server.name)):
            return DECLINED
        pins.accept(told)
    say([words("review.accepted", server=server.name)])
    return ACCEPTED


def say(lines: Iterable[str]) -> None:
    for line in lines:
        print(clean(line))


def agree(question: str) -> bool:
    """Whether the person at the terminal says yes. Raises UsageError where there is none."""
    if not sys.stdin or not sys.stdin.isatty():
        hint = f"Run it at a terminal. {TRUST_VARIABLE}=1 accepts what all folders name, for machines that only build."
        raise UsageError("There is nobody to be asked.", hint)
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
