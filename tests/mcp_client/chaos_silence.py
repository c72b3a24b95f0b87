"""Modes of silence: at any message that a client sends, at the start and at the end.

A server that is mute does not answer one kind of message, and does the rest; one that is tired answers it once and no
more; one that is frozen stops itself when it gets such a message, and does nothing any more. All offer what there is:
tools, resources, prompts, completions.
"""

from __future__ import annotations

import os
import signal

from .chaos_server import HANDSHAKE, MODERN, MOMENTS, RIGHT, Message, Server, give, mode, stay_silent

BOTH = (
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "notifications/cancelled",
)
SILENT_AT = {
    "handshake": ("start", "initialize", "resources/subscribe", "resources/unsubscribe", "eof", *BOTH),
    "modern": ("server/discover", "subscriptions/listen", *BOTH),
}
"""Era -> when a server of it can fall silent."""
NO_START = ("start", "initialize", "server/discover", "tools/list", "resources/list", "resources/templates/list")
"""When silence means that it cannot be opened."""
URI = "silent://one"
CAPABILITIES: Message = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
GIVEN: dict[str, Message] = {
    "resources/list": {"resources": [{"uri": URI, "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [{"uri": URI, "text": "read"}]},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello."}}]},
    "completion/complete": {"completion": {"values": ["one"]}},
}

ASKED: set[str] = set()
"""The methods that this process was asked."""


def offer_all(server: Server, message: Message) -> None:
    """Its greeting, in the era that is asked for."""
    info = {"name": "silence", "version": "1"}
    if message["method"] == "initialize":
        about = {"protocolVersion": HANDSHAKE[-1], "serverInfo": info}
    elif server.eras == "modern":
        server.modern = True
        about = {"supportedVersions": [MODERN], "_meta": {"io.modelcontextprotocol/serverInfo": info}}
    else:
        server.fail(message, -32601, "Method not found")
        return
    server.answer(message, {**about, "capabilities": CAPABILITIES})


def answer_once(server: Server, message: Message) -> None:
    method = message["method"]
    if method not in ASKED:
        ASKED.add(method)
        RIGHT[method](server, message)


def freeze(_server: Server, _message: Message) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


RIGHT.update({method: give(result) for method, result in GIVEN.items()})
for method in {method for methods in SILENT_AT.values() for method in methods}:
    for manner, spoil in (("mute", stay_silent), ("frozen", freeze), ("tired", answer_once)):
        name = f"{manner}-{method}"
        mode("discover", name)(offer_all)
        mode("initialize", name)(offer_all)
        if method == "notifications/cancelled":
            mode("call", name)(stay_silent)
        mode("call" if method == "tools/call" else MOMENTS.get(method, method), name)(spoil)
