"""Modes of calls that become tasks: COURSES of the extension of 2026-07-28, and the experiment of 2025-11-25."""

from __future__ import annotations

import os
from typing import Any

from .chaos_server import HANDSHAKE, INFO, TEXT, Message, Server, discover, give, in_lives, mode, notice, tool

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
POLL_MS = 20
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTION = {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": FORM}}
NUMBER = {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}
OLD = ("old-task", "old-task-asks", "old-task-hangs")


def state(status: str, message: str = "", **more: Any) -> Message:
    """A task as its server shows it."""
    said = {"statusMessage": message} if message else {}
    times = {"createdAt": "2026-11-20T10:00:00Z", "lastUpdatedAt": "2026-11-20T10:00:00Z"}
    return {"taskId": "t-1", "status": status, **said, **times, "ttlMs": 60_000, "pollIntervalMs": POLL_MS, **more}


def done(text: str, **more: Any) -> Message:
    return state("completed", result={"content": [{"type": "text", "text": text}], **more})


def asking(**questions: Message) -> Message:
    return state("input_required", "needs a name", inputRequests=questions)


# The state that a call gives, and those that it is asked for; the last one stays.
WORKING = state("working")
COURSES: dict[str, tuple[Message, list[Message]]] = {
    "task": (state("working", "weighing anchor"), [state("working", "setting sail"), done("act is done")]),
    "task-at-once": (state("completed"), [done("act is done")]),
    "task-is-error": (WORKING, [done("the disk is full", isError=True)]),
    "task-fails": (WORKING, [state("failed", error={"code": -32603, "message": "no wind"})]),
    "task-fails-silently": (WORKING, [state("failed", "becalmed")]),
    "task-gives-up": (WORKING, [state("cancelled", "storm")]),
    "task-mismatch": (WORKING, [done("seven", structuredContent={"value": "seven"})]),
    "task-odd": (
        WORKING,
        [state("completed", result={"content": [{"type": "hologram"}, {"type": "text", "text": "known"}]})],
    ),
    "task-nonsense": (WORKING, [{"taskId": "t-1", "status": 7}]),
    "task-hangs": (WORKING, [WORKING]),
    "task-moves": (WORKING, [*(state("working", f"step {number}") for number in range(30)), done("act is done")]),
    "task-asks": (WORKING, [*[asking(who=QUESTION)] * 3, done("act is done")]),
    "task-asks-for-ever": (WORKING, [asking(**{f"who{number}": QUESTION}) for number in range(100)]),
    "task-outlives": (WORKING, []),
    "task-forgotten": (WORKING, []),
}


@mode("discover", *COURSES, eras="modern")
def offer_tasks(server: Server, message: Message) -> None:
    server.course = list(COURSES[server.mode.name][1])
    server.capabilities["extensions"] = {EXTENSION: {}}
    if server.mode.name == "task-mismatch":
        server.tools = [{**server.tools[-1], "outputSchema": NUMBER}, *server.tools[:-1]]
    discover(server, message)


@mode("call", *COURSES)
def begin_task(server: Server, message: Message) -> None:
    if EXTENSION not in message["params"]["_meta"][CAPABILITIES_KEY].get("extensions", {}):
        server.fail(message, -32021, "Missing required client capability")
        return
    server.answer(message, {"resultType": "task", **COURSES[server.mode.name][0]})


@mode("task", *COURSES, *OLD)
def show_task(server: Server, message: Message) -> None:
    now = server.course[0]
    server.course = server.course[1:] or server.course
    server.answer(message, now)


mode("task", "task-outlives")(in_lives(1, 1, lambda _server, _message: os._exit(7), give(done("act is done"))))
mode("task", "task-forgotten")(lambda server, message: server.fail(message, -32602, "Task not found"))
mode("update", *COURSES)(give({}))
mode("cancel task", *COURSES)(give({}))


def old_state(status: str, message: str = "") -> Message:
    """The same in 2025-11-25."""
    shown = state(status, message)
    del shown["ttlMs"], shown["pollIntervalMs"]
    return {**shown, "ttl": 60_000, "pollInterval": POLL_MS}


@mode("initialize", *OLD, "old-task-no-tasks", "old-task-optional", eras="handshake")
def greet_old(server: Server, message: Message) -> None:
    support = "optional" if server.mode.name == "old-task-optional" else "required"
    server.tools = [*server.tools[:2], {**tool("act", schema=TEXT), "execution": {"taskSupport": support}}]
    server.capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    if server.mode.name == "old-task-no-tasks":
        del server.capabilities["tasks"]
    about = {"protocolVersion": HANDSHAKE[-1], "capabilities": server.capabilities, "serverInfo": INFO}
    server.answer(message, about)


@mode("call", *OLD)
def begin_old(server: Server, message: Message) -> None:
    if "task" not in message["params"]:
        server.fail(message, -32601, "the tool requires task augmentation")
        return
    token = message["params"]["_meta"]["progressToken"]
    server.course = [*[old_state("working", "weighing anchor")] * 2, old_state("completed")]
    if server.mode.name == "old-task-asks":
        server.course[1:] = [old_state("input_required")]
    if server.mode.name == "old-task-hangs":
        server.course[1:] = []
    server.answer(message, {"task": server.course[0]})
    server.send(notice("notifications/progress", progressToken=token, progress=1, total=2, message="halfway"))


mode("outcome", "old-task")(lambda server, message: server.say(message, "act is done"))


@mode("outcome", "old-task-asks")
def ask_first(server: Server, message: Message) -> None:
    """The question comes while the result is waited for; its answer is in the result."""
    server.send({"jsonrpc": "2.0", "id": "q-1", **QUESTION})
    server.outcome = message


@mode("answered", "old-task-asks")
def give_answer(server: Server, message: Message) -> None:
    server.course = [old_state("completed")]
    server.say(server.outcome, f"hello, {message['result']['content']['name']}")


mode("cancel task", "old-task-hangs")(give(old_state("cancelled")))
mode("call", "old-task-optional")(
    lambda server, message: server.say(message, "as a task" if "task" in message["params"] else "plainly")
)
