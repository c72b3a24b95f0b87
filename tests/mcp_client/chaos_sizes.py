"""Modes of size and number: what is too long, too much, or too often."""

from __future__ import annotations

import base64
import json
import os

from .chaos_server import Message, Server, call_tool, dump, in_lives, mode, notice

MB = 1_000_000
BLOCK = b"x" * MB
FLOOD = 100_000
FLOOD_VARIABLE = "CHAOS_FLOOD"
"""Another number of messages in a flood, a multiple of 1000."""
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


mode("call", "huge-result")(lambda server, message: write_around(server, message, 100))
mode("call", "large-result")(lambda server, message: write_around(server, message, 3))
mode("call", "huge-error")(lambda server, message: server.fail(message, -32000, "no " * MB))
mode("call", "huge-blocks")(
    lambda server, message: server.answer(message, {"content": [{"type": "text", "text": "x"}] * FLOOD})
)
mode("call", "huge-structured")(
    lambda server, message: server.answer(message, {"content": [], "structuredContent": {"rows": list(range(400_000))}})
)


@mode("call", "huge-image", "large-image")
def answer_picture(server: Server, message: Message) -> None:
    megabytes = 20 if server.mode.name == "huge-image" else 2
    data = base64.b64encode(bytes(megabytes * MB)).decode()
    server.answer(message, {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})


def never_end(server: Server, _message: Message) -> None:
    while True:
        server.write(BLOCK)


mode("call", "endless-line")(in_lives(1, 1, never_end, call_tool))


@mode("call", "notifications-flood")
def flood_notices(server: Server, message: Message) -> None:
    flood(server, notice("notifications/message", level="info", data="again"))
    call_tool(server, message)


@mode("call", "progress-flood")
def flood_progress(server: Server, message: Message) -> None:
    token = message["params"].get("_meta", {}).get("progressToken", 0)
    flood(server, notice("notifications/progress", progressToken=token, progress=1, total=2, message="on it"))
    server.send(notice("notifications/progress", progressToken=token, progress=2, total=2, message="done"))
    call_tool(server, message)


@mode("call", "progress-forever", "progress-ten-times")
def report_for_ever(server: Server, message: Message) -> None:
    token = message["params"].get("_meta", {}).get("progressToken", 0)

    def report(number: int) -> None:
        if number > 10 and server.mode.name == "progress-ten-times":
            call_tool(server, message)
            return
        server.send(notice("notifications/progress", progressToken=token, progress=number))
        server.later(lambda: report(number + 1))

    report(1)


def flood(server: Server, message: Message) -> None:
    lines = (dump(message) + b"\n") * 1000
    for _ in range(int(os.environ.get(FLOOD_VARIABLE, FLOOD)) // 1000):
        server.write(lines)


@mode("call", "stderr-flood", "stderr-noline")
def complain_at_length(server: Server, message: Message) -> None:
    """50 MB: in lines, or in one."""
    block = b"a line of no interest\n" * (MB // 22) if server.mode.name == "stderr-flood" else BLOCK
    for _ in range(50):
        view = memoryview(block)
        while view:
            view = view[os.write(2, view) :]
    call_tool(server, message)


@mode("call", "server-request", eras="handshake")
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


@mode("call", "server-request-flood", eras="handshake")
def ask_and_ask(server: Server, message: Message) -> None:
    for number in range(20):
        asks = [{"jsonrpc": "2.0", "id": f"ask-{number}-{turn}", "method": "roots/list"} for turn in range(1000)]
        server.send(*asks)
    call_tool(server, message)
