"""What a model reads does not change: conversations sent to a service are compared byte for byte with a recording.

The shipped model was trained on these sentences. `pytest --record tests/chat/test_recorded_prompts.py` records anew.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.openai.service import MODES, Handler, Service
from mcp_client.chaos_http import serving
from rkllm_chat.chat.app import open_app
from rkllm_chat.chat.attachments import send_message
from rkllm_chat.config.loader import load_settings
from rkllm_chat.core.i18n import load
from stage import PROGRAM, Run, collect_emitted

RECORDED = Path(__file__).with_name("recorded_prompts.json")
WEATHER = {"name": "get_weather", "arguments": {"city": "Oslo"}}


def marked(*calls: dict[str, Any]) -> str:
    return "".join(f"[TOOL_CALL]\n{json.dumps(call)}\n[END_TOOL_CALL]\n" for call in calls)


def tagged(*calls: dict[str, Any]) -> str:
    return "".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>\n" for call in calls)


XML = "<tool_call>\n<function=add>\n<parameter=a>2</parameter>\n<parameter=b>3</parameter>\n</function>\n</tool_call>"
ADD = {"name": "add", "arguments": {"a": 2, "b": "3"}}
TURN = [
    ("How is the weather in Oslo?", [f"I look.\n{marked(WEATHER)}", "It is 12 °C."]),
    ("Thanks", ["You are welcome."]),
]

# Name -> configuration of the chat, and turns: what the user says, what the model replies to each request.
CONVERSATIONS: dict[str, tuple[str, list[tuple[str, list[str]]]]] = {
    "a call and a second turn": ("", TURN),
    "Japanese": ('language = "ja"', TURN),
    "Chinese": ('language = "zh"', TURN),
    "system text": ('system = "Be brief."', TURN),
    "two calls at once": ("", [("Weather, and 2 + 3?", [marked(WEATHER, ADD), "12 °C and 5."])]),
    "a failed tool, hostile text": (
        "",
        [("Fail and inject", [marked({"name": "fail", "arguments": {}}, {"name": "inject", "arguments": {}}), "So."])],
    ),
    "corrections": (
        "",
        [
            ("Weather?", ['[TOOL_CALL]\n{"name": "get_weather", "arguments": {"city": \n[END_TOOL_CALL]', "I cannot."]),
            ("Again", [marked({"name": "get_wether", "arguments": {"city": "Oslo"}}), "No."]),
            ("Again", [marked({"name": "get_weather", "arguments": {"unit": "kelvin", "town": "Oslo"}}), "No."]),
            ("What is 2 and 3?", [marked({"name": "add", "arguments": {"a": "two"}}), marked(ADD), "5"]),
        ],
    ),
    "a long result in pages": (
        "context_tokens = 3000",
        [("Read the log", [marked({"name": "read_log", "arguments": {}}), "Calm.", "Calm."]), ("And now?", ["Calm."])],
    ),
    "a small window, tools by name": (
        "context_tokens = 500",
        [
            (
                "Write a note about boats",
                [marked({"name": "describe_tool", "arguments": {"name": "note_boats"}}), "Yes."],
            ),
            ("Weather?", [marked(WEATHER), "12 °C."]),
        ],
    ),
    "the shipped model": ('prompt_profile = "tiny-tools"', TURN),
    "an old part that no longer fits": (
        "context_tokens = 1500",
        [(f"{n} {'word ' * 150}", [f"Reply {n}."]) for n in range(6)],
    ),
    "hermes": ('tool_format = "hermes"', [("2 + 3?", [tagged(ADD), "5"])]),
    "xml": ('tool_format = "xml"', [("2 + 3?", [XML, "5"])]),
}


def reply_from_script(handler: Handler) -> None:
    handler.begin()
    handler.say(handler.server.replies.pop(0))  # type: ignore[attr-defined]
    handler.end()


class ScriptedService(Service):
    """Streams the replies one by one, and says nothing about its model."""

    def __init__(self, replies: list[str]) -> None:
        super().__init__("scripted")
        self.replies, self.answers = replies, {"/v1/models": {"data": [{"id": "recorded"}]}}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[..., list[dict[str, Any]]]:
    """Have a conversation held by a function of the service's URL and what is said; return the requests."""
    server = Path(__file__).with_name("recorded_server.py")
    command = f"command = {json.dumps(PROGRAM[0])}\nargs = {json.dumps(['-S', str(server)])}"
    monkeypatch.setitem(MODES, "scripted", reply_from_script)

    def record(name: str, hold: Callable[[str, list[str]], None]) -> list[dict[str, Any]]:
        chat, turns = CONVERSATIONS[name]
        text = f'[chat]\n{chat}\n[policy]\nallow = ["*"]\n[[servers]]\nname = "harbour"\n{command}\n'
        (folder / "chat.toml").write_text(text, encoding="utf-8")
        with serving(ScriptedService([reply for _, replies in turns for reply in replies])) as service:
            hold(service.url, [line for line, _ in turns])
        return [{key: asked.body[key] for key in ("messages", "tools") if key in asked.body} for asked in service.asked]

    return record


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_each_prompt_is_sent_as_recorded(
    name: str, sent: Callable[..., list[dict[str, Any]]], folder: Path, pytestconfig: pytest.Config
) -> None:
    def hold(url: str, lines: list[str]) -> None:
        async def talk() -> None:
            settings = replace(load_settings(str(folder / "chat.toml"), {}), model=url)
            async with open_app(settings, folder / "state", words=load(settings.language)) as app:
                for line in lines:
                    await collect_emitted(send_message, app, line)

        asyncio.run(talk())

    requests = sent(name, hold)
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    if pytestconfig.getoption("--record"):
        recorded[name] = requests
        RECORDED.write_text(json.dumps(recorded, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    assert requests == recorded[name]


def test_a_script_that_continues_a_session_sends_the_same_prompts(
    sent: Callable[..., list[dict[str, Any]]], program: Run
) -> None:
    def hold(url: str, lines: list[str]) -> None:
        for line in lines:
            program("-p", line, "--model", url, "--config", "chat.toml", "--continue")

    (name, *_) = CONVERSATIONS
    assert sent(name, hold) == json.loads(RECORDED.read_text(encoding="utf-8"))[name]
