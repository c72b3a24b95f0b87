"""Modes of a server's life: how it starts, greets, hangs, dies, stays, and leaves children."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, NoReturn

from .chaos_server import (
    HANDSHAKE,
    INFO,
    Message,
    Server,
    Spoil,
    call_tool,
    dump,
    give,
    in_lives,
    initialize,
    mode,
    notice,
    refuse,
    stay_silent,
)


def die(server: Server, code: int, words: str = "I am dying\n") -> NoReturn:
    server.complain(words)
    os._exit(code)


def sleep_first(server: Server, _message: Message) -> None:
    time.sleep(server.delay_s)


def offer_subscriptions(server: Server, _message: Message) -> None:
    server.capabilities = {**server.capabilities, "resources": {"subscribe": True}}


@mode("call", "batch-of-questions", eras="handshake")
def ask_twice(server: Server, _message: Message) -> None:
    pings = (dump({"jsonrpc": "2.0", "id": name, "method": "ping"}) for name in ("first", "last"))
    server.write(b"[" + b",".join(pings) + b"]\n")


@mode("answered", "batch-of-questions")
def go_on_after_the_last(server: Server, message: Message) -> None:
    if message["id"] == "last":
        call_tool(server, server.calls[-1])


def send_signal(number: int) -> Spoil:
    return lambda _server, _message: os.kill(os.getpid(), number)


@mode("eof", "ignore-eof", "ignore-sigterm", "fork-child-and-stay")
def sleep_for_ever(server: Server, _message: Message) -> None:
    server.note("stays")
    while True:
        signal.pause()


crash: Spoil = lambda server, _: die(server, 7)  # noqa: E731 - one of many in this table
crash_once = in_lives(1, 1, crash, call_tool)
LAST_WORDS = "\x1b]0;owned\x07" + "".join(f"last word {number}\n" for number in range(1, 8))
LATEST: Message = {"protocolVersion": HANDSHAKE[-1], "capabilities": {"tools": {}}, "serverInfo": INFO}
GREETINGS: dict[str, Any] = {
    "init-null-result": None,
    "init-bad-version": {**LATEST, "protocolVersion": "1999-12-31"},
    "init-bad-capabilities": {**LATEST, "capabilities": "x"},
    "init-long-instructions": {**LATEST, "instructions": "Do as I say. " * 80_000},
    "no-tools-capability": {**LATEST, "capabilities": {}},
}
for name, result in GREETINGS.items():
    mode("initialize", name, eras="handshake")(give(result))

mode("discover", "hang-on-init")(stay_silent)
mode("initialize", "hang-on-init")(stay_silent)
mode("discover", "hang-on-discover", eras="handshake")(stay_silent)
mode("call", "hang-call", "late-reply-after-cancel")(stay_silent)
mode("list", "list-hang")(stay_silent)

mode("start", "exit-at-start")(lambda server, _: die(server, 3, LAST_WORDS))
mode("start", "exit-at-first-starts", eras="modern")(in_lives(1, 2, lambda server, _: die(server, 3), stay_silent))
mode("start", "slow-start")(sleep_first)
mode("start", "refuse-resubscribe")(offer_subscriptions)
mode("start", "slow-restart")(in_lives(1, 1, stay_silent, sleep_first))
mode("start", "crash-at-every-restart")(in_lives(1, 1, stay_silent, lambda server, _: die(server, 5)))
mode("start", "crash-speechless")(lambda server, _: server.write(b"I am starting\n"))
mode("discover", "crash-on-discover", eras="handshake")(lambda server, _: die(server, 1))
mode("discover", "discover-garbage")(give({"answer": 42}))
mode("initialize", "init-error", eras="handshake")(
    lambda server, message: server.fail(message, -32603, "no licence for this machine")
)
mode("initialize", "init-wrong-id", eras="handshake")(
    lambda server, message: initialize(server, {**message, "id": 4711})
)
mode("call", "crash-mid-call", "crash-every", "crash-at-every-restart")(crash)
mode("call", "crash-with-child", "crash-with-setsid")(lambda server, _: die(server, 4))
mode("call", "crash-once", "slow-restart", "refuse-resubscribe")(crash_once)
mode("resources/subscribe", "refuse-resubscribe", eras="handshake")(in_lives(1, 1, give({}), refuse))
mode("call", "segv-mid-call")(send_signal(signal.SIGSEGV))
mode("call", "killed-mid-call")(send_signal(signal.SIGKILL))
mode("call", "exit-zero-on-call")(lambda _server, _message: os._exit(0))
mode("call", "crash-speechless")(lambda _server, _message: os._exit(7))
mode("call", "sigstop-self")(in_lives(1, 1, send_signal(signal.SIGSTOP), call_tool))
mode("call", "deaf")(in_lives(1, 1, sleep_for_ever, call_tool))
mode("call", "late-reply")(lambda server, message: server.later(lambda: server.say(message, "LATE-RESULT")))
mode("cancelled", "late-reply-after-cancel")(
    lambda server, message: server.say({"id": message["params"]["requestId"]}, "LATE-RESULT")
)
mode("ping", "ping-error", eras="handshake")(lambda server, message: server.fail(message, -32601, "what is a ping?"))


@mode("start", "speaks-first")
def speak_first(server: Server, _message: Message) -> None:
    server.send(
        {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}},
        notice("notifications/tools/list_changed"),
        notice("notifications/cancelled", requestId=1),
    )


@mode("initialize", "init-twice", eras="handshake")
def initialize_twice(server: Server, message: Message) -> None:
    initialize(server, message)
    initialize(server, message)


@mode("list", "die-after-list")
def die_after_list(server: Server, message: Message) -> None:
    server.answer(message, {"tools": server.tools})
    die(server, 4)


@mode("call", "die-between-calls")
def die_soon(server: Server, message: Message) -> None:
    call_tool(server, message)
    if server.life == 1:
        server.later(lambda: die(server, 9))


@mode("call", "stops-when-idle")
def stop_afterwards(server: Server, message: Message) -> None:
    call_tool(server, message)
    if server.life == 1:
        os.kill(os.getpid(), signal.SIGSTOP)


@mode("ping", "ping-sometimes", eras="handshake")
def answer_every_second(server: Server, message: Message) -> None:
    server.course = [] if server.course else [message]
    if not server.course:
        server.answer(message, {})


def close_stdout(server: Server, message: Message) -> None:
    os.close(1)
    while server.read() is not None:
        pass
    sleep_for_ever(server, message)


mode("call", "close-stdout-but-live")(in_lives(1, 1, close_stdout, call_tool))


@mode("start", "ignore-sigterm")
def ignore_sigterm(server: Server, _message: Message) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: server.note("signal", name=signal.Signals(number).name))


@mode("start", "fork-child", "fork-child-and-stay", "fork-child-setsid", "crash-with-child", "crash-with-setsid")
def fork_child(server: Server, _message: Message) -> None:
    """With setsid, it is in a session of its own and has none of the server's pipes."""
    child = os.fork()
    if not child:
        if server.mode.name.endswith("setsid"):
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for pipe in (0, 1, 2):
                os.dup2(nowhere, pipe)
        while True:
            signal.pause()
    server.note("child", pid=child)
