"""Modes of size and number: what is too long, too much, or too often."""

from __future__ import annotations

import base64
import json
import os

from .chaos_server import Message, Server, call_tool, dump, mode, notice

MB = 1_000_000
BLOCK = b"x" * MB
FLOOD = 100_000
ASKED: tuple[tuple[str, Message], ...] = (
    ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
    ("roots/list", {}),
    (
        "elicitation/create",
        {
            "message": "Your password?",
            "requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}},
        },
    ),
    ("nobody/knows", {}),
    ("ping", {}),
)


def write_around(server: Server, message: Message, megabytes: int) -> None:
    """An answer on one line, of that many megabytes, of which none is kept."""
    before, _, after = dump(server.make_text(message, "@")).partition(b"@")
    server.write(before)
    for _ in range(megabytes):
        server.write(BLOCK)
    server.write(after + b"\n")


@mode("huge-result", "call", "answers with a line of 100 MB")
def answer_huge(server: Server, message: Message) -> None:
    write_around(server, message, 100)


@mode("large-result", "call", "answers with a line of 3 MB, which is allowed")
def answer_large(server: Server, message: Message) -> None:
    write_around(server, message, 3)


@mode("endless-line", "call", "writes a line that never ends, in its first life")
def never_end(server: Server, message: Message) -> None:
    if server.life > 1:
        call_tool(server, message)
        return
    while True:
        server.write(BLOCK)


@mode("huge-blocks", "call", "answers with 100,000 small texts")
def answer_blocks(server: Server, message: Message) -> None:
    server.answer(message, {"content": [{"type": "text", "text": "x"}] * FLOOD})


@mode("huge-image", "call", "answers with a picture of 20 MB")
def answer_picture(server: Server, message: Message) -> None:
    data = base64.b64encode(bytes(20 * MB)).decode()
    server.answer(message, {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})


@mode("large-image", "call", "answers with a picture of 2 MB, which is allowed")
def answer_small_picture(server: Server, message: Message) -> None:
    data = base64.b64encode(bytes(2 * MB)).decode()
    server.answer(message, {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})


@mode("huge-error", "call", "answers with an error of 3 MB")
def fail_huge(server: Server, message: Message) -> None:
    server.fail(message, -32000, "no " * MB)


@mode("huge-structured", "call", "answers with 3 MB of structured content")
def answer_structured(server: Server, message: Message) -> None:
    server.answer(message, {"content": [], "structuredContent": {"rows": list(range(400_000))}})


@mode("notifications-flood", "call", "sends 100,000 notifications before its answer")
def flood_notices(server: Server, message: Message) -> None:
    flood(server, notice("notifications/message", level="info", data="again"))
    call_tool(server, message)


@mode("progress-flood", "call", "reports progress 100,000 times before its answer")
def flood_progress(server: Server, message: Message) -> None:
    token = message["params"].get("_meta", {}).get("progressToken", 0)
    flood(server, notice("notifications/progress", progressToken=token, progress=1, total=2, message="on it"))
    server.send(notice("notifications/progress", progressToken=token, progress=2, total=2, message="done"))
    call_tool(server, message)


@mode("progress-forever", "call", "reports progress again and again, and never answers")
def report_for_ever(server: Server, message: Message) -> None:
    token = message["params"].get("_meta", {}).get("progressToken", 0)

    def report() -> None:
        server.send(notice("notifications/progress", progressToken=token, progress=1))
        server.later(report)

    report()


def flood(server: Server, message: Message) -> None:
    lines = (dump(message) + b"\n") * 1000
    for _ in range(FLOOD // 1000):
        server.write(lines)


@mode("stderr-flood", "call", "complains in 50 MB of lines before its answer")
def complain_in_lines(server: Server, message: Message) -> None:
    complain(b"a line of no interest\n" * (MB // 22))
    call_tool(server, message)


@mode("stderr-noline", "call", "complains in one line of 50 MB before its answer")
def complain_in_one_line(server: Server, message: Message) -> None:
    complain(BLOCK)
    call_tool(server, message)


def complain(block: bytes) -> None:
    for _ in range(50):
        view = memoryview(block)
        while view:
            view = view[os.write(2, view) :]


@mode("server-request", "call", "asks for sampling, roots, a password, the unknown and a ping first", "handshake")
def ask_back(server: Server, message: Message) -> None:
    for number, (method, params) in enumerate(ASKED):
        server.send({"jsonrpc": "2.0", "id": f"ask-{number}", "method": method, "params": params})
    answers = wait_for_answers(server, len(ASKED))
    server.note("answers", answers=answers)
    server.say(message, f"unanswered: {len(ASKED) - len(answers)}")


def wait_for_answers(server: Server, number: int) -> list[Message]:
    answers: list[Message] = []
    while len(answers) < number and (line := server.read(limit_s=2)) is not None:
        answer = json.loads(line)
        if "method" not in answer:
            answers.append(answer)
    return answers


@mode("server-request-flood", "call", "asks 20,000 times for roots before its answer, and hears no reply", "handshake")
def ask_and_ask(server: Server, message: Message) -> None:
    for number in range(20):
        asks = [{"jsonrpc": "2.0", "id": f"ask-{number}-{turn}", "method": "roots/list"} for turn in range(1000)]
        server.send(*asks)
    call_tool(server, message)
