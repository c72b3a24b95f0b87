"""Calls that need more than a request and its response: a task, a form for the user, an answer of a model."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from shell import Shell
from stage import Screen

ASKING_SERVER = """
import json, sys
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTIONS = {
    "greet": ("elicitation/create", {"mode": "form", "message": "Who?", "requestedSchema": FORM}),
    "think": ("sampling/createMessage", {"messages": [], "maxTokens": 9}),
}

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        about = {"serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}}}
        send(id=message["id"], result={"protocolVersion": params["protocolVersion"], **about})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in QUESTIONS]
        send(id=message["id"], result={"tools": tools})
    elif method == "tools/call":
        asked, about = QUESTIONS[params["name"]]
        send(id="q", method=asked, params=about)
        answer = json.loads(sys.stdin.readline())
        text = json.dumps(answer.get("result", "nobody answers"))
        send(id=message["id"], result={"content": [{"type": "text", "text": text}], "isError": "error" in answer})
"""


@pytest.fixture
def asking(shell: Shell) -> Shell:
    (shell.folder / "asking.py").write_text(ASKING_SERVER, encoding="utf-8")
    shell.add("asking", command=sys.executable, args=["asking.py"])
    return shell


@pytest.mark.parametrize("options", [(), ("--no-check",)])
@pytest.mark.parametrize("mode", ["old-task", "task"])
def test_a_tool_that_must_be_called_as_a_task_is(mode: str, options: tuple[str, ...], shell: Shell) -> None:
    shell.add_chaos(mode)
    result = shell.result("call-tool", "chaos.act", *options)
    assert result["content"] == [{"type": "text", "text": "act is done"}]


def test_a_form_is_shown_at_the_terminal_and_answered(asking: Shell) -> None:
    screen = Screen(["call-tool", "asking.greet"], asking.environment, asking.folder)
    try:
        screen.wait_for("Server 'asking' asks: Who?")
        screen.wait_for("[y/N]")
        screen.say("y\r", "name:")
        screen.type("Åsa\r")
        assert screen.wait_for_end() == 0
        document = json.loads("".join(line for line in screen.lines() if line.strip()).partition("name: Åsa")[2])
    finally:
        screen.close()
    answer = json.loads(document["result"]["content"][0]["text"])
    assert answer == {"action": "accept", "content": {"name": "Åsa"}}


@pytest.mark.parametrize(("tool", "needed"), [("greet", "no terminal"), ("think", "a language model")])
def test_what_nobody_can_answer_here_is_said(tool: str, needed: str, asking: Shell) -> None:
    error: dict[str, Any] = asking.error("call-tool", f"asking.{tool}")
    assert error["type"] == "ToolError" and "nobody answers" in error["message"]
    assert needed in error["details"]["hint"]
