"""An MCP server whose answers are damaged at random: `python -S -m mcp_client.mutated_server SEED` in tests/.

The same seed does the same damage. It answers as the chaos server does, and its tool `act` with every kind of content.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .chaos_server import TEXT, TOOLS, Message, Mode, Server, call_tool, dump, give, offer, tool

Mutate = Callable[[random.Random, bytes], bytes]

NUMBER = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
RICH: Message = {
    "content": [
        {"type": "text", "text": "seven\n"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///seven", "name": "seven", "description": "A number."},
        {"type": "resource", "resource": {"uri": "file:///seven", "mimeType": "text/plain", "text": "7"}},
    ],
    "structuredContent": {"n": 7},
}
ACT = tool("act", "Gives a number.", TEXT, readOnlyHint=True, idempotentHint=True)
ACT |= {"title": "Act", "outputSchema": NUMBER}
DEPTHS = (3, 99, 101, 900, 5000, 100_000)
SIZES = (1000, 100_000, 1_000_000, 5_000_000)
TEXTS = (
    "",
    "\x1b]0;owned\x07\x1b[2J",
    "\u202egnp.exe",
    "\x00",
    "\n" * 50,
    "e" + "\u0301" * 5000,
    "\U000e0041",
    "%s{}${HOME}",
)
SCALARS: tuple[Any, ...] = (None, True, False, 0, -1, 2**63, 10**400, 1.5, 1e308, [], {}, [None], {"": ""}, "7", *TEXTS)
RAW_VALUES = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 5000,
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\xff\xfe"',
    b'{"a":1,"a":[]}',
    b"tru",
)
MARK = "@@replaced@@"


def list_places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*place, key), *list_places(item, (*place, key)))]


def change_value(chance: random.Random, line: bytes, change: Callable[[Any, Any], object]) -> bytes:
    """Change a message at one place: `change` gets the container and the key."""
    message = json.loads(line)
    *way, key = chance.choice(list_places(message))
    container = message
    for step in way:
        container = container[step]
    change(container, key)
    return dump(message)


def replace_raw(chance: random.Random, line: bytes, raw: bytes) -> bytes:
    """Replace a value by these bytes."""
    changed = change_value(chance, line, lambda container, key: container.__setitem__(key, MARK))
    return changed.replace(json.dumps(MARK).encode(), raw, 1)


def flip_bytes(chance: random.Random, line: bytes) -> bytes:
    damaged = bytearray(line)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def cut_line(chance: random.Random, line: bytes) -> bytes:
    return line[: chance.randrange(len(line))]


def insert_bytes(chance: random.Random, line: bytes) -> bytes:
    place = chance.randrange(len(line))
    junk = chance.choice((b"\n", b"\r", b"\x00", b"{", b"}", b'"', b"\xef\xbb\xbf", chance.randbytes(20), b"[" * 500))
    return line[:place] + junk + line[place:]


def replace_value(chance: random.Random, line: bytes) -> bytes:
    value = chance.choice(SCALARS)
    return change_value(chance, line, lambda container, key: container.__setitem__(key, value))


def replace_by_raw_value(chance: random.Random, line: bytes) -> bytes:
    return replace_raw(chance, line, chance.choice(RAW_VALUES))


def replace_by_deep_value(chance: random.Random, line: bytes) -> bytes:
    depth = chance.choice(DEPTHS)
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'{"type":"object","properties":{"a":', b"}}")))
    return replace_raw(chance, line, opening * depth + b"1" + closing * depth)


def replace_by_huge_value(chance: random.Random, line: bytes) -> bytes:
    size = chance.choice(SIZES)
    item = chance.choice((b"1,", b"{},", b'"a",'))
    lists = b"[" + item * (size // len(item)) + b"1]"
    return replace_raw(chance, line, chance.choice((b'"' + b"x" * size + b'"', lists)))


def remove_member(chance: random.Random, line: bytes) -> bytes:
    return change_value(chance, line, lambda container, key: container.pop(key))


def repeat_member(chance: random.Random, line: bytes) -> bytes:
    def repeat(container: Any, key: Any) -> None:
        if isinstance(container, list):
            container.extend([container[key]] * chance.choice((1, 5, 2000)))
        else:
            container[f"{key}2"] = container[key]

    return change_value(chance, line, repeat)


def swap_values(chance: random.Random, line: bytes) -> bytes:
    """Put one value of the message in the place of another."""
    message = json.loads(line)
    value = message
    for step in chance.choice(list_places(message)):
        value = value[step]
    return replace_raw(chance, line, dump(value))


def change_id(chance: random.Random, line: bytes) -> bytes:
    message = json.loads(line)
    old = message.get("id", 0)
    message["id"] = chance.choice((str(old), None, -1, 0, 1.0, [], {}, True, "x" * 9999, 10**400, 100, 101, 102, 4711))
    return dump(message)


def spread_values(chance: random.Random, line: bytes) -> bytes:
    """Many values on the line of the answer, or many lines within it."""
    count = chance.choice((10, 1000, 100_000))
    return chance.choice((b"1 " * count + line, line[:1] + b"\n" * count + line[1:], line + b" []" * count))


MUTATORS: tuple[Mutate, ...] = (
    flip_bytes, cut_line, insert_bytes, replace_value, replace_by_raw_value, replace_by_deep_value,
    replace_by_huge_value, remove_member, repeat_member, swap_values, change_id, spread_values,
)  # fmt: skip
EVENTS = ("omit", "repeat", "delay", "exit", "exit within", "kill", "close", "complain", "ask", "notify", "flood")


class MutatedServer(Server):
    """A server that damages, by its seed, some of its messages or the moment at which it sends them."""

    def __init__(self, seed: int, log: Path | None) -> None:
        mode = Mode("mutated")
        mode.spoils["start"] = offer(lambda: [*TOOLS[:2], ACT])
        mode.spoils["call"] = give(RICH) if seed % 3 else call_tool
        self._chance = random.Random(seed)
        super().__init__(mode, 0, log, None, self._chance.choice(("handshake", "modern")))
        self._mutators = self._chance.choices(MUTATORS, k=self._chance.choice((0, 1, 1, 2)))
        self._event = self._chance.choice(EVENTS) if not self._mutators or self._chance.random() < 0.2 else ""
        self._share = self._chance.choice((0.2, 0.5, 1.0))
        self._held = b""

    def send(self, *messages: Message) -> None:
        for message in messages:
            self._send_line(dump(message))

    def _send_line(self, line: bytes) -> None:
        if self._chance.random() >= self._share:
            self.write(line + b"\n")
            return
        for mutate in self._mutators:
            try:
                line = mutate(self._chance, line)
            except (ValueError, LookupError, RecursionError):  # what is damaged already is no JSON any more
                line = flip_bytes(self._chance, line or b"x")
        self._act(line + b"\n")

    def _act(self, line: bytes) -> None:
        """Write a line, with what the seed's event does to it, before it and after it."""
        if self._event == "omit":
            line = b""
        elif self._event == "delay":  # until the next message, which comes first
            line, self._held = self._held, line
        elif self._event == "repeat":
            line *= self._chance.choice((2, 21))
        elif self._event == "exit within":
            line = line[: self._chance.randrange(len(line))]
        elif self._event in ("ask", "notify"):
            line = self._make_stray() + line
        elif self._event == "complain":
            sys.stderr.buffer.write(self._chance.randbytes(self._chance.choice((10, 200_000))))
            sys.stderr.flush()
        if self._event not in ("exit", "kill", "close"):
            self.write(line)
        self._end()

    def _make_stray(self) -> bytes:
        """A request or notification that nobody expects."""
        message: Message = {"jsonrpc": "2.0"}
        if self._event == "ask":
            method = self._chance.choice(
                ("roots/list", "sampling/createMessage", "elicitation/create", "ping", "x", "")
            )
            return dump({**message, "id": self._chance.choice((1, "a", None)), "method": method}) + b"\n"
        method = self._chance.choice(("progress", "message", "cancelled", "tools/list_changed", "x"))
        params: Any = self._chance.choice((None, {}, [], "x", {"progress": "x", "requestId": 7, "progressToken": []}))
        return dump({**message, "method": f"notifications/{method}", "params": params}) * 3 + b"\n"

    def _end(self) -> None:
        """Exit, fall silent or flood, if that is the seed's event."""
        if self._event in ("exit", "exit within"):
            os._exit(self._chance.choice((0, 1, 7, 255)))
        if self._event == "kill":
            os.kill(os.getpid(), self._chance.choice((signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)))
        if self._event == "close":
            os.close(1)
            time.sleep(30)
        while self._event == "flood":
            self.write(b'{"jsonrpc":"2.0","method":"notifications/x"}\n' * 2000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--log", type=Path)
    chosen = parser.parse_args()
    MutatedServer(chosen.seed, chosen.log).run()


if __name__ == "__main__":
    main()
