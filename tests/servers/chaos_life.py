"""Modes of a server's life: how it starts, greets, hangs, dies, stays, and leaves children."""

from __future__ import annotations

import os
import signal
import time
from typing import NoReturn

from .chaos_server import HANDSHAKE, Message, Server, call_tool, initialize, mode, notice

LAST_WORDS = [f"last word {number}" for number in range(1, 8)]


@mode("exit-at-start", "start", "complains in 7 lines, one with an escape sequence, and exits with 3")
def exit_at_start(server: Server, _message: Message) -> None:
    server.complain("\x1b]0;owned\x07" + "\n".join(LAST_WORDS) + "\n")
    os._exit(3)


@mode("exit-at-first-starts", "start", "exits with 3 in its first two lives", "modern")
def exit_at_first(server: Server, _message: Message) -> None:
    if server.life <= 2:
        die(server, 3)


@mode("hang-on-init", "discover", "answers neither discover nor initialize")
@mode("hang-on-init", "initialize")
@mode("hang-on-discover", "discover", "does not answer server/discover", "handshake")
@mode("hang-call", "call", "does not answer a call")
@mode("list-hang", "list", "does not answer tools/list")
def stay_silent(_server: Server, _message: Message) -> None: ...


@mode("slow-start", "start", "sleeps for the delay before it reads anything")
def sleep_first(server: Server, _message: Message) -> None:
    time.sleep(server.delay_s)


@mode("init-error", "initialize", "answers initialize with an error", "handshake")
def refuse_to_start(server: Server, message: Message) -> None:
    server.fail(message, -32603, "no licence for this machine")


@mode("init-wrong-id", "initialize", "answers initialize under another id", "handshake")
def answer_another(server: Server, message: Message) -> None:
    initialize(server, {**message, "id": 4711})


@mode("init-null-result", "initialize", "answers initialize with null", "handshake")
def answer_null(server: Server, message: Message) -> None:
    server.answer(message, None)


@mode("init-bad-version", "initialize", "speaks a revision that nobody knows", "handshake")
def speak_1999(server: Server, message: Message) -> None:
    info = {"name": "chaos", "version": "1"}
    server.answer(message, {"protocolVersion": "1999-12-31", "capabilities": {"tools": {}}, "serverInfo": info})


@mode("speaks-first", "start", "asks, tells and answers before it is asked anything")
def speak_first(server: Server, _message: Message) -> None:
    server.send(
        {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}},
        notice("notifications/tools/list_changed"),
        notice("notifications/cancelled", requestId=1),
    )


@mode("init-twice", "initialize", "answers initialize twice", "handshake")
def initialize_twice(server: Server, message: Message) -> None:
    initialize(server, message)
    initialize(server, message)


@mode("init-long-instructions", "initialize", "sends 1 MB of instructions", "handshake")
def instruct(server: Server, message: Message) -> None:
    info, text = {"name": "chaos", "version": "1"}, "Do as I say. " * 80_000
    about = {"protocolVersion": HANDSHAKE[-1], "capabilities": {"tools": {}}, "serverInfo": info}
    server.answer(message, {**about, "instructions": text})


@mode("crash-on-discover", "discover", "dies of server/discover", "handshake")
def die_of_discover(server: Server, _message: Message) -> None:
    die(server, 1)


@mode("discover-garbage", "discover", "answers server/discover with a result of another shape")
def discover_garbage(server: Server, message: Message) -> None:
    server.answer(message, {"answer": 42})


@mode("no-tools-capability", "initialize", "has no tools capability", "handshake")
def offer_nothing(server: Server, message: Message) -> None:
    info = {"name": "chaos", "version": "1"}
    server.answer(message, {"protocolVersion": HANDSHAKE[-1], "capabilities": {}, "serverInfo": info})


@mode("die-after-list", "list", "answers tools/list and exits with 4")
def die_after_list(server: Server, message: Message) -> None:
    server.answer(message, {"tools": server.tools})
    die(server, 4)


def die(server: Server, code: int) -> NoReturn:
    server.complain("I am dying\n")
    os._exit(code)


@mode("crash-mid-call", "call", "exits with 7 in the middle of a call")
@mode("crash-every", "call", "exits with 7 in every call")
def crash(server: Server, _message: Message) -> None:
    die(server, 7)


@mode("crash-once", "call", "exits with 7 in a call of its first life")
def crash_once(server: Server, message: Message) -> None:
    if server.life == 1:
        die(server, 7)
    call_tool(server, message)


@mode("crash-at-every-restart", "start", "starts once, then exits with 5 at every later start")
def start_only_once(server: Server, _message: Message) -> None:
    if server.life > 1:
        die(server, 5)


@mode("crash-at-every-restart", "call")
def crash_too(server: Server, _message: Message) -> None:
    die(server, 7)


@mode("slow-restart", "start", "sleeps for the delay at every start but the first")
def sleep_again(server: Server, _message: Message) -> None:
    if server.life > 1:
        time.sleep(server.delay_s)


@mode("slow-restart", "call")
def crash_first(server: Server, message: Message) -> None:
    crash_once(server, message)


@mode("segv-mid-call", "call", "dies of SIGSEGV in a call")
def segfault(_server: Server, _message: Message) -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


@mode("killed-mid-call", "call", "is killed in a call, as by a machine without memory")
def be_killed(_server: Server, _message: Message) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@mode("exit-zero-on-call", "call", "exits with 0 in a call, and says nothing")
def leave(_server: Server, _message: Message) -> None:
    os._exit(0)


@mode("die-between-calls", "call", "answers, and exits with 9 when the delay has passed")
def die_soon(server: Server, message: Message) -> None:
    call_tool(server, message)
    if server.life == 1:
        server.later(lambda: die(server, 9))


@mode("sigstop-self", "call", "stops itself in a call of its first life")
def stop_self(server: Server, message: Message) -> None:
    if server.life == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    call_tool(server, message)


@mode("stops-when-idle", "call", "does what it is asked in its first life, and stops itself then")
def stop_afterwards(server: Server, message: Message) -> None:
    call_tool(server, message)
    if server.life == 1:
        os.kill(os.getpid(), signal.SIGSTOP)


@mode("ping-error", "ping", "answers a ping with an error", "handshake")
def refuse_ping(server: Server, message: Message) -> None:
    server.fail(message, -32601, "what is a ping?")


@mode("ping-sometimes", "ping", "answers every second ping", "handshake")
def answer_sometimes(server: Server, message: Message) -> None:
    server.course = [] if server.course else [message]
    if not server.course:
        server.answer(message, {})


@mode("crash-speechless", "start", "writes no message to its output, and dies in a call without a word")
def babble(server: Server, _message: Message) -> None:
    server.write(b"I am starting\n")


@mode("crash-speechless", "call")
def die_speechless(_server: Server, _message: Message) -> None:
    os._exit(7)


@mode("late-reply", "call", "answers when the delay has passed, and serves on meanwhile")
def answer_late(server: Server, message: Message) -> None:
    server.later(lambda: server.say(message, "LATE-RESULT"))


@mode("late-reply-after-cancel", "call", "answers a call only once it is cancelled")
def wait_for_cancel(_server: Server, _message: Message) -> None: ...


@mode("late-reply-after-cancel", "cancelled")
def answer_cancelled(server: Server, message: Message) -> None:
    server.say({"id": message["params"]["requestId"]}, "LATE-RESULT")


@mode("deaf", "call", "reads no more, in its first life")
def be_deaf(server: Server, message: Message) -> None:
    if server.life == 1:
        sleep_for_ever(server, message)
    call_tool(server, message)


@mode("close-stdout-but-live", "call", "closes its output in a call of its first life, and lives on")
def close_stdout(server: Server, message: Message) -> None:
    if server.life > 1:
        call_tool(server, message)
        return
    os.close(1)
    while server.read() is not None:
        pass
    sleep_for_ever(server, message)


@mode("close-stdin-but-live", "call", "answers, closes its input, and lives on, in its first life")
def close_stdin(server: Server, message: Message) -> None:
    call_tool(server, message)
    if server.life == 1:
        os.close(0)
        server.note("deaf")
        sleep_for_ever(server, message)


@mode("ignore-eof", "eof", "lives on when its input ends")
@mode("ignore-sigterm", "eof", "lives on when its input ends and on SIGTERM")
@mode("fork-child-and-stay", "eof", "leaves a child and lives on when its input ends")
def sleep_for_ever(server: Server, _message: Message) -> None:
    server.note("stays")
    while True:
        signal.pause()


@mode("ignore-sigterm", "start")
def ignore_sigterm(server: Server, _message: Message) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: server.note("signal", name=signal.Signals(number).name))


@mode("fork-child", "start", "leaves a child in its own process group")
@mode("fork-child-and-stay", "start")
def fork_child(server: Server, _message: Message) -> None:
    child = os.fork()
    if not child:
        while True:
            signal.pause()
    server.note("child", pid=child)


@mode("fork-child-setsid", "start", "leaves a child in a session of its own, with none of its pipes")
def fork_daemon(server: Server, _message: Message) -> None:
    child = os.fork()
    if not child:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for pipe in (0, 1, 2):
            os.dup2(nowhere, pipe)
        while True:
            signal.pause()
    server.note("child", pid=child)
