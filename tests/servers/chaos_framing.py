"""Modes of framing: what surrounds, splits and spoils the lines that a server writes."""

from __future__ import annotations

import json
import os
import time

from .chaos_server import Message, Server, call_tool, dump, list_tools, mode, notice

MANY_BYTES = "häuser, 家々, 🏠 " * 8
STRAY = b"Starting the server on port 1234 ...\n"
LOG_LINE = notice("notifications/message", level="info", data="a notice")


@mode("stdout-banner", "start", "greets on its standard output")
def greet(server: Server, _message: Message) -> None:
    server.write(STRAY)


@mode("garbage-stdout", "start", "prints what it does, at the start and before each answer")
@mode("garbage-stdout", "call")
def print_about(server: Server, message: Message) -> None:
    server.write(b"INFO: a line for people\n{not json}\n[1, 2\nDEBUG: another\n")
    answer_if_asked(server, message)


@mode("not-jsonrpc", "start", "writes JSON that is no JSON-RPC")
@mode("not-jsonrpc", "call")
def write_other_json(server: Server, message: Message) -> None:
    odd = ['{"level":"info"}', "42", "[]", '"text"', "null", '{"jsonrpc":"2.0"}']
    other = '{"jsonrpc":"1.0","id":1,"result":{}}'
    server.write("".join(line + "\n" for line in (*odd, other)).encode())
    answer_if_asked(server, message)


@mode("debug-echo", "call", "prints what it was asked, and answers after the delay")
def print_what_was_asked(server: Server, message: Message) -> None:
    server.write(b"DEBUG received: " + dump(message) + b"\n")
    server.later(lambda: call_tool(server, message))


@mode("blank-lines", "start", "writes empty lines")
@mode("blank-lines", "call")
def write_blank_lines(server: Server, message: Message) -> None:
    server.write(b"\n\n  \n\t\n\r\n")
    answer_if_asked(server, message)


@mode("nul-bytes", "start", "writes lines of NUL")
@mode("nul-bytes", "call")
def write_nul(server: Server, message: Message) -> None:
    server.write(b"\0\0\0\n\0\n")
    answer_if_asked(server, message)


@mode("binary-garbage", "start", "writes bytes that are no text")
@mode("binary-garbage", "call")
def write_binary(server: Server, message: Message) -> None:
    server.write(bytes(range(256)) * 64 + b"\n\xff\xfe\x00{\n")
    answer_if_asked(server, message)


@mode("bom", "start", "begins its output with a byte order mark")
def write_bom(server: Server, _message: Message) -> None:
    server.write(b"\xef\xbb\xbf")


def answer_if_asked(server: Server, message: Message) -> None:
    if message:
        call_tool(server, message)


def whole(server: Server, message: Message, text: str = "whole") -> bytes:
    """The answer to a call, without its line's end."""
    return dump(server.make_text(message, text))


@mode("crlf", "call", "ends its lines as Windows does")
def end_with_crlf(server: Server, message: Message) -> None:
    server.write(whole(server, message) + b"\r\n")


@mode("invalid-utf8", "call", "has bytes that are no UTF-8 in a text")
def write_latin(server: Server, message: Message) -> None:
    server.write(whole(server, message, "caf@").replace(b"@", b"\xe9") + b"\n")


@mode("lone-surrogate", "call", "escapes half a character")
def write_half_a_character(server: Server, message: Message) -> None:
    server.write(whole(server, message, "half: @").replace(b"@", b"\\ud83d") + b"\n")


@mode("partial-line", "call", "writes half a line, and the rest after the delay")
def pause_in_the_line(server: Server, message: Message) -> None:
    line = whole(server, message) + b"\n"
    server.write(line[: len(line) // 2])
    time.sleep(server.delay_s)
    server.write(line[len(line) // 2 :])


@mode("partial-then-die", "call", "writes half a line and exits with 7")
def die_in_the_line(server: Server, message: Message) -> None:
    line = whole(server, message)
    server.write(line[: len(line) // 2])
    os._exit(7)


@mode("no-final-newline", "call", "does not end the line of its answer, and writes no other")
def leave_the_line_open(server: Server, message: Message) -> None:
    server.write(whole(server, message))
    while server.read() is not None:  # an answer to anything else would end the line
        pass


@mode("byte-dribble", "call", "writes an answer byte by byte")
def dribble(server: Server, message: Message) -> None:
    answer = json.dumps(server.make_text(message, MANY_BYTES), ensure_ascii=False) + "\n"
    for byte in answer.encode():
        server.write(bytes([byte]))


@mode("packed", "call", "writes an answer amid notifications, all at once")
def pack(server: Server, message: Message) -> None:
    server.send(*[LOG_LINE] * 20, server.make_text(message, "packed"), *[LOG_LINE] * 20)


@mode("pretty-json", "call", "writes an answer over many lines")
def indent(server: Server, message: Message) -> None:
    server.write(json.dumps(server.make_text(message, "whole"), indent=2).encode() + b"\n")


@mode("two-on-a-line", "call", "writes a notification and an answer on one line")
def write_two(server: Server, message: Message) -> None:
    server.write(dump(LOG_LINE) + whole(server, message) + b"\n")


@mode("batch", "call", "writes an answer as a JSON-RPC batch")
def write_batch(server: Server, message: Message) -> None:
    server.write(b"[" + dump(LOG_LINE) + b"," + whole(server, message) + b"]\n")


def write_value(server: Server, message: Message, value: bytes) -> None:
    """An answer with structured content, whose JSON no library would write."""
    content = [{"type": "text", "text": "a value"}]
    answer = dump(server.make_answer(message, {"content": content, "structuredContent": {"value": "@"}}))
    server.write(answer.replace(b'"@"', value) + b"\n")


@mode("deep-json", "call", "nests a list 100,000 deep")
def nest(server: Server, message: Message) -> None:
    write_value(server, message, b"[" * 100_000 + b"]" * 100_000)


@mode("big-int", "call", "writes a number of 6,000 digits")
def write_big_int(server: Server, message: Message) -> None:
    write_value(server, message, b"7" * 6_000)


@mode("big-float", "call", "writes a number that no float holds")
def write_big_float(server: Server, message: Message) -> None:
    write_value(server, message, b"1e999")


@mode("nan-json", "call", "writes NaN, which is no JSON")
def write_nan(server: Server, message: Message) -> None:
    write_value(server, message, b"[NaN,Infinity,-Infinity]")


@mode("dup-keys", "call", "writes two texts under one key")
def write_twice(server: Server, message: Message) -> None:
    server.write(whole(server, message, "one").replace(b'"text":"one"', b'"text":"one","text":"two"') + b"\n")


@mode("dup-result", "call", "writes a result and an error into one answer")
def write_both(server: Server, message: Message) -> None:
    server.send({**server.make_text(message, "whole"), "error": {"code": -1, "message": "and an error"}})


@mode("duplicate-ids", "call", "answers twice")
def answer_twice(server: Server, message: Message) -> None:
    server.send(server.make_text(message, "FIRST"), server.make_text(message, "SECOND"))


@mode("wrong-id-type", "call", "answers under the id as a text")
def answer_as_text(server: Server, message: Message) -> None:
    server.say({**message, "id": str(message["id"])}, "whole")


@mode("unknown-id", "call", "answers what nobody asked, then the call")
def answer_nobody(server: Server, message: Message) -> None:
    server.send(server.make_text({"id": 99_999}, "STRAY"), server.make_text({"id": "x"}, "STRAY"))
    call_tool(server, message)


@mode("null-id-error", "call", "sends an error of no call, then the answer")
def fail_nobody(server: Server, message: Message) -> None:
    server.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
    call_tool(server, message)


@mode("null-id-only", "call", "sends an error of no call instead of the answer")
def fail_and_stay_silent(server: Server, _message: Message) -> None:
    server.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})


@mode("notice-refused", "initialized", "answers a notification, which nobody may, and is slow to list", "handshake")
def refuse_notice(server: Server, message: Message) -> None:
    error = {"code": -32601, "message": f"Method not found: {message['method']}"}
    server.send({"jsonrpc": "2.0", "id": None, "error": error})


@mode("notice-refused", "list")
def list_late(server: Server, message: Message) -> None:
    server.later(lambda: list_tools(server, message))


@mode("out-of-order", "call", "answers two calls the last one first")
def answer_backwards(server: Server, _message: Message) -> None:
    if len(server.calls) == 2:
        for waiting in reversed(server.calls):
            server.say(waiting, waiting["params"]["arguments"]["text"])
        server.calls.clear()
