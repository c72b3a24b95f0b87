"""Modes of calls that become tasks: COURSES of the extension of 2026-07-28, and the experiment of 2025-11-25."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .chaos_server import HANDSHAKE, TEXT, Message, Server, discover, mode, notice, tool

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
POLL_MS = 20
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTION = {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": FORM}}
NUMBER = {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}


def state(status: str, message: str = "", **more: Any) -> Message:
    """A task as its server shows it."""
    said = {"statusMessage": message} if message else {}
    times = {"createdAt": "2026-11-20T10:00:00Z", "lastUpdatedAt": "2026-11-20T10:00:00Z"}
    return {"taskId": "t-1", "status": status, **said, **times, "ttlMs": 60_000, "pollIntervalMs": POLL_MS, **more}


def done(text: str, **more: Any) -> Message:
    return state("completed", result={"content": [{"type": "text", "text": text}], **more})


def asking(**questions: Message) -> Message:
    return state("input_required", "needs a name", inputRequests=questions)


# Mode -> what it says, the state that a call gives, and those that it is asked for; the last one stays.
COURSES: dict[str, tuple[str, Message, list[Message]]] = {
    "task": (
        "makes a task of a call, and finishes it",
        state("working", "weighing anchor"),
        [state("working", "setting sail"), done("act is done")],
    ),
    "task-at-once": ("makes a task of a call when it is done", state("completed"), [done("act is done")]),
    "task-is-error": ("makes a task whose tool fails", state("working"), [done("the disk is full", isError=True)]),
    "task-fails": (
        "makes a task that ends in an error",
        state("working"),
        [state("failed", error={"code": -32603, "message": "no wind"})],
    ),
    "task-fails-silently": (
        "makes a task that ends badly, and does not give the error",
        state("working"),
        [state("failed", "becalmed")],
    ),
    "task-gives-up": ("cancels its task itself", state("working"), [state("cancelled", "storm")]),
    "task-mismatch": (
        "makes a task whose result breaks its schema",
        state("working"),
        [done("seven", structuredContent={"value": "seven"})],
    ),
    "task-odd": (
        "makes a task whose result has a block of an unknown kind",
        state("working"),
        [state("completed", result={"content": [{"type": "hologram"}, {"type": "text", "text": "known"}]})],
    ),
    "task-nonsense": ("makes a task and describes it wrongly", state("working"), [{"taskId": "t-1", "status": 7}]),
    "task-hangs": ("makes a task that never moves", state("working"), [state("working")]),
    "task-moves": (
        "makes a task that moves for as long as 30 polls",
        state("working"),
        [*(state("working", f"step {number}") for number in range(30)), done("act is done")],
    ),
    "task-asks": (
        "makes a task that asks for a name, and shows the question until it is answered",
        state("working"),
        [asking(who=QUESTION), asking(who=QUESTION), asking(who=QUESTION), done("act is done")],
    ),
    "task-asks-for-ever": (
        "makes a task that asks again and again",
        state("working"),
        [asking(**{f"who{number}": QUESTION}) for number in range(100)],
    ),
}


def enter(name: str, says: str, begun: Message, course: list[Message]) -> None:
    @mode(name, "discover", says, "modern")
    def offer(server: Server, message: Message) -> None:
        server.course = list(course)
        server.capabilities["extensions"] = {EXTENSION: {}}
        if name == "task-mismatch":
            server.tools = [{**server.tools[-1], "outputSchema": NUMBER}, *server.tools[:-1]]
        discover(server, message)

    mode(name, "call")(give_task(begun))
    mode(name, "task")(show_task)
    mode(name, "update")(lambda server, message: server.answer(message, {}))
    mode(name, "cancel task")(lambda server, message: server.answer(message, {}))


def give_task(begun: Message) -> Callable[[Server, Message], None]:
    def give(server: Server, message: Message) -> None:
        if EXTENSION not in message["params"]["_meta"][CAPABILITIES_KEY].get("extensions", {}):
            server.fail(message, -32021, "Missing required client capability")
            return
        server.answer(message, {"resultType": "task", **begun})

    return give


def show_task(server: Server, message: Message) -> None:
    now = server.course[0]
    server.course = server.course[1:] or server.course
    server.answer(message, now)


for name, (says, begun, course) in COURSES.items():
    enter(name, says, begun, course)


@mode("task-outlives", "discover", "dies while its task runs, and knows it in its next life", "modern")
def offer_durable(server: Server, message: Message) -> None:
    server.capabilities["extensions"] = {EXTENSION: {}}
    discover(server, message)


mode("task-outlives", "call")(give_task(state("working")))


@mode("task-outlives", "task")
def die_once(server: Server, message: Message) -> None:
    if server.life == 1:
        os._exit(7)
    server.answer(message, done("act is done"))


@mode("task-forgotten", "discover", "forgets its task", "modern")
def offer_forgetful(server: Server, message: Message) -> None:
    offer_durable(server, message)


mode("task-forgotten", "call")(give_task(state("working")))


@mode("task-forgotten", "task")
def forget(server: Server, message: Message) -> None:
    server.fail(message, -32602, "Task not found")


def old_state(status: str, message: str = "") -> Message:
    """The same in 2025-11-25."""
    shown = state(status, message)
    del shown["ttlMs"], shown["pollIntervalMs"]
    return {**shown, "ttl": 60_000, "pollInterval": POLL_MS}


@mode("old-task", "initialize", "has a tool that runs as a task only, and reports its progress", "handshake")
@mode("old-task-asks", "initialize", "has such a tool, which asks for a name", "handshake")
@mode("old-task-hangs", "initialize", "has such a tool, which never ends", "handshake")
@mode("old-task-no-tasks", "initialize", "has such a tool, and does not say that it takes tasks", "handshake")
@mode("old-task-optional", "initialize", "has a tool that may run as a task", "handshake")
def greet_old(server: Server, message: Message) -> None:
    support = "optional" if server.mode.says == "has a tool that may run as a task" else "required"
    server.tools = [*server.tools[:2], {**tool("act", schema=TEXT), "execution": {"taskSupport": support}}]
    server.capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    if "does not say" in server.mode.says:
        del server.capabilities["tasks"]
    info = {"name": "chaos", "version": "1"}
    server.answer(message, {"protocolVersion": HANDSHAKE[-1], "capabilities": server.capabilities, "serverInfo": info})


@mode("old-task", "call")
@mode("old-task-asks", "call")
@mode("old-task-hangs", "call")
def begin_old(server: Server, message: Message) -> None:
    if "task" not in message["params"]:
        server.fail(message, -32601, "the tool requires task augmentation")
        return
    token = message["params"]["_meta"]["progressToken"]
    server.course = [*[old_state("working", "weighing anchor")] * 2, old_state("completed")]
    if "asks" in server.mode.says:
        server.course[1:] = [old_state("input_required")]
    if "never" in server.mode.says:
        server.course[1:] = []
    server.answer(message, {"task": server.course[0]})
    server.send(notice("notifications/progress", progressToken=token, progress=1, total=2, message="halfway"))


@mode("old-task", "task")
@mode("old-task-asks", "task")
@mode("old-task-hangs", "task")
def show_old(server: Server, message: Message) -> None:
    show_task(server, message)


@mode("old-task", "outcome")
def give_outcome(server: Server, message: Message) -> None:
    server.say(message, "act is done")


@mode("old-task-asks", "outcome")
def ask_first(server: Server, message: Message) -> None:
    """The question comes while the result is waited for; its answer is in the result."""
    server.send({"jsonrpc": "2.0", "id": "q-1", **QUESTION})
    server.outcome = message


@mode("old-task-asks", "answered")
def give_answer(server: Server, message: Message) -> None:
    server.course = [old_state("completed")]
    server.say(server.outcome, f"hello, {message['result']['content']['name']}")


mode("old-task-hangs", "cancel task")(lambda server, message: server.answer(message, old_state("cancelled")))


@mode("old-task-optional", "call")
def call_either_way(server: Server, message: Message) -> None:
    server.say(message, "as a task" if "task" in message["params"] else "plainly")
