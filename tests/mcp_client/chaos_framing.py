"""Modes of framing: what surrounds, splits and spoils the lines that a server writes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from .chaos_server import Message, Server, Spoil, call_tool, dump, list_tools, mode, notice

MANY_BYTES = "häuser, 家々, 🏠 " * 8
LOG_LINE = notice("notifications/message", level="info", data="a notice")
PARSE_ERROR: Message = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}

# Modes that write bytes at the start and before each answer.
STRAY = {
    "garbage-stdout": b'INFO: a line for people\n{not json}\n[1, 2\n{"a":\nDEBUG: another\n',
    "not-jsonrpc": b'{"level":"info"}\n42\n[]\n"text"\nnull\n{"jsonrpc":"2.0"}\n{"jsonrpc":"1.0","id":1,"result":{}}\n',
    "blank-lines": b"\n\n  \n\t\n\r\n",
    "nul-bytes": b"\0\0\0\n\0\n",
    "binary-garbage": bytes(range(256)) * 64 + b"\n\xff\xfe\x00{\n",
}
# Modes that write bytes before the answer to a call: much JSON that is no message.
MUCH = {"many-values": b"0 " * 500_000 + b"\n", "many-lines": b"[\n" + b"0,\n" * 200_000}
# Modes that write bytes at the start only.
BANNERS = {"stdout-banner": b"Starting the server on port 1234 ...\n", "bom": b"\xef\xbb\xbf"}
# Modes that answer with a value as structured content, in JSON that no library would write.
VALUES = {
    "deep-json": b"[" * 100_000 + b"]" * 100_000,
    "deepest-json": b"[" * 98 + b"]" * 98,
    "too-deep-json": b"[" * 99 + b"]" * 99,
    "big-int": b"7" * 6_000,
    "big-float": b"1e999",
    "nan-json": b"[NaN,Infinity,-Infinity]",
}


def write_stray(data: bytes) -> Spoil:
    def spoil(server: Server, message: Message) -> None:
        server.write(data)
        if message:
            call_tool(server, message)

    return spoil


def write_value(value: bytes) -> Spoil:
    def spoil(server: Server, message: Message) -> None:
        content = [{"type": "text", "text": "a value"}]
        answer = dump(server.make_answer(message, {"content": content, "structuredContent": {"value": "@"}}))
        server.write(answer.replace(b'"@"', value) + b"\n")

    return spoil


for name, data in {**STRAY, **BANNERS}.items():
    mode("start", name)(write_stray(data))
for name, data in {**STRAY, **MUCH}.items():
    mode("call", name)(write_stray(data))
for name, data in VALUES.items():
    mode("call", name)(write_value(data))


def whole(server: Server, call: Message, text: str = "whole", old: bytes = b"", new: bytes = b"") -> bytes:
    """The answer to a call, without its line's end, in which `new` stands for `old`."""
    return dump(server.make_text(call, text)).replace(old or b"\0", new)


# Modes that write other bytes than the line of an answer.
LINES: dict[str, Callable[[Server, Message], bytes]] = {
    "crlf": lambda server, call: whole(server, call) + b"\r",
    "invalid-utf8": lambda server, call: whole(server, call, "caf@", b"@", b"\xe9"),
    "lone-surrogate": lambda server, call: whole(server, call, "half: @", b"@", b"\\ud83d"),
    "pretty-json": lambda server, call: json.dumps(server.make_text(call, "whole"), indent=2).encode(),
    "too-many-on-a-line": lambda server, call: whole(server, call) + b" 0" * 1000,
    "two-on-a-line": lambda server, call: dump(LOG_LINE) + whole(server, call),
    "batch": lambda server, call: b"[" + dump(LOG_LINE) + b"," + whole(server, call) + b"]",
    "dup-keys": lambda server, call: whole(server, call, "one", b'"text":"one"', b'"text":"one","text":"two"'),
    "null-error": lambda server, call: whole(server, call)[:-1] + b',"error":null}',
    "surrogate-pair": lambda server, call: whole(server, call, "@", b"@", b"\\ud83c\\udf0d"),
    "pretty-batch": lambda server, call: b"[\n%b\n]" % json.dumps(server.make_text(call, "whole"), indent=2).encode(),
    "cut-short": lambda server, call: whole(server, call)[:-9],
    "cut-pretty": lambda server, call: json.dumps(server.make_text(call, "whole"), indent=2).encode()[:-2],
    "broken": lambda server, call: whole(server, call).replace(b":", b";", 1),
    "no-id": lambda _server, _call: b'{"jsonrpc":"2.0","result":{broken}',
    "id-last": lambda server, call: dump({**(said := server.make_text(call, "x" * (5 << 20))), "id": said.pop("id")}),
}
# Modes that send other messages than the answer.
MESSAGES: dict[str, Callable[[Server, Message], list[Message]]] = {
    "packed": lambda server, call: [*[LOG_LINE] * 20, server.make_text(call, "packed"), *[LOG_LINE] * 20],
    "dup-result": lambda server, call: [{**server.make_text(call, "whole"), "error": {"code": -1, "message": "x"}}],
    "duplicate-ids": lambda server, call: [server.make_text(call, "FIRST"), server.make_text(call, "SECOND")],
    "float-id": lambda server, call: [server.make_text({"id": 1.0 * call["id"]}, "whole")],
    "odd-error-first": lambda server, call: [
        {**PARSE_ERROR, "error": {"code": 1, "message": "odd"}},
        server.make_text(call, "whole"),
    ],
    "other-id": lambda server, _call: [server.make_text({"id": 4711}, "FOR NOBODY")],
    "wrong-id-type": lambda server, call: [server.make_text({"id": str(call["id"])}, "whole")],
    "unknown-id": lambda server, call: [
        *(server.make_text({"id": other}, "STRAY") for other in (99_999, "x")),
        server.make_text(call, "act is done"),
    ],
    "null-id-error": lambda server, call: [PARSE_ERROR, server.make_text(call, "act is done")],
    "null-id-only": lambda _server, _call: [PARSE_ERROR],
}


def write_line(line: Callable[[Server, Message], bytes]) -> Spoil:
    return lambda server, message: server.write(line(server, message) + b"\n")


def send_messages(messages: Callable[[Server, Message], list[Message]]) -> Spoil:
    return lambda server, message: server.send(*messages(server, message))


for name, line in LINES.items():
    mode("call", name)(write_line(line))
for name, messages in MESSAGES.items():
    mode("call", name)(send_messages(messages))


@mode("call", "no-jsonrpc-first")
def answer_twice_and_rightly_at_last(server: Server, message: Message) -> None:
    server.write(b'{"id":%d,"result":1}\n' % message["id"])
    server.later(lambda: server.send(server.make_text(message, "whole")))


@mode("call", "as-asked")
def answer_in_the_form_that_is_asked_for(server: Server, message: Message) -> None:
    server.write(LINES[message["params"]["arguments"]["text"]](server, message) + b"\n")


@mode("call", "no-id-later")
def be_silent_at_first(server: Server, message: Message) -> None:
    if len(server.calls) > 1:
        server.write(LINES["no-id"](server, message) + b"\n")


@mode("call", "debug-echo")
def print_what_was_asked(server: Server, message: Message) -> None:
    server.write(b"DEBUG received: " + dump(message) + b"\n")
    server.later(lambda: call_tool(server, message))


@mode("call", "partial-line", "partial-then-die")
def break_in_the_line(server: Server, message: Message) -> None:
    line = whole(server, message) + b"\n"
    server.write(line[: len(line) // 2])
    if server.mode.name == "partial-then-die":
        os._exit(7)
    time.sleep(server.delay_s)
    server.write(line[len(line) // 2 :])


@mode("call", "message-flood")
def send_for_ever(server: Server, _message: Message) -> None:
    data = (dump(LOG_LINE) + b"\n") * 2000
    while True:
        server.write(data)


@mode("call", "byte-dribble")
def dribble(server: Server, message: Message) -> None:
    answer = json.dumps(server.make_text(message, MANY_BYTES), ensure_ascii=False) + "\n"
    for byte in answer.encode():
        server.write(bytes([byte]))


@mode("initialized", "notice-refused", eras="handshake")
def refuse_notice(server: Server, message: Message) -> None:
    server.fail({"id": None}, -32601, f"Method not found: {message['method']}")


mode("list", "notice-refused")(lambda server, message: server.later(lambda: list_tools(server, message)))


@mode("call", "out-of-order")
def answer_backwards(server: Server, _message: Message) -> None:
    if len(server.calls) == 2:
        for waiting in reversed(server.calls):
            server.say(waiting, waiting["params"]["arguments"]["text"])
        server.calls.clear()
