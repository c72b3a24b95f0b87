"""Control tokens were removed by a runtime or a service: calls are run or told, thoughts stay thoughts."""

from __future__ import annotations

from typing import Any

import pytest

from calls.test_damaged_calls import TOOLS
from rkllm_chat.calls.model_families import find_family, make_scanner
from rkllm_chat.core.events import CallDescribed, CallFound, CallUnreadable, Text, Thought

WEATHER = ("get_weather", {"city": "Oslo"})
Seen = tuple[str, Any]


def scan(model: str, reply: str) -> list[Seen]:
    """What is found in a reply of a model, the same in whatever pieces it comes, neighbouring texts as one."""
    family = find_family([model])
    found: list[list[Seen]] = []
    for size in (1, 5, len(reply)):
        scanner = make_scanner(family.preferred_format, family.accepted_formats, TOOLS)
        events = [event for at in range(0, len(reply), size) for event in scanner.feed(reply[at : at + size])]
        seen: list[Seen] = []
        for event in (*events, *scanner.close(True)):
            match event:
                case Text(text) | Thought(text):
                    kind = type(event).__name__.lower()
                    before = seen.pop()[1] if seen and seen[-1][0] == kind else ""
                    seen.append((kind, before + text))
                case CallFound(call):
                    seen.append(("run", (call.name, dict(call.arguments))))
                case CallDescribed(call):
                    seen.append(("offered", (call.name, dict(call.arguments))))
                case CallUnreadable(fault):
                    seen.append(("told", fault))
        found.append([(kind, said.strip() if isinstance(said, str) else said) for kind, said in seen])
    assert found[0] == found[1] == found[2]
    return [pair for pair in found[0] if pair[1]]


@pytest.mark.parametrize(
    ("model", "reply", "seen"),
    [
        ("gpt-oss-20b", 'commentary to=functions.get_weather json{"city":"Oslo"}', [("run", WEATHER)]),
        ("gpt-oss-20b", 'analysisI look.assistantcommentary to=functions.get_weather json{"city": "Oslo"}',
         [("thought", "I look."), ("run", WEATHER)]),
        ("gpt-oss-20b", "analysisOne word.assistantfinalfour", [("thought", "One word."), ("text", "four")]),
        ("gpt-oss-20b", "assistantfinalfour", [("text", "four")]),
        ("gpt-oss-20b", 'assistantcommentary to=get_weather code{"city": "Oslo"}', [("run", WEATHER)]),
        ("gpt-oss-20b", 'to=functions.get_weather json{"city": "Oslo"}', [("run", WEATHER)]),
        ("LFM2-1.2B", 'I look.[get_weather(city="Oslo")]', [("text", "I look."), ("run", WEATHER)]),
        ("LFM2-1.2B", "See [get_weather](https://a.example).", [("text", "See [get_weather](https://a.example).")]),
        ("GLM-4.6", "get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
         [("run", WEATHER)]),
        ("gpt-oss-20b", "analysis of the data: four", [("text", "analysis of the data: four")]),
        ("gemma-4-31b-it", "thought\nI will look.\ncall:get_weather{city:Oslo}",
         [("text", "I will look."), ("run", WEATHER)]),
        ("gemma-4-31b-it", 'call:get_weather{city:<|"|>Oslo<|"|>,days:3}',
         [("run", ("get_weather", {"city": "Oslo", "days": 3}))]),
        ("gemma-4-31b-it", "call:get_weather{city:Oslo, Norway}", [("told", "bad_json")]),
        ("gemma-4-31b-it", "thought\nOslo is a city.", [("text", "Oslo is a city.")]),
        ("Kimi-K2-Instruct", 'functions.get_weather:0{"city": "Oslo"}', [("run", WEATHER)]),
        ("Kimi-K2-Instruct", 'I look.functions.get_weather:0{"city": "Oslo"}functions.get_weather:1{"city": "Rome"}',
         [("text", "I look."), ("run", WEATHER), ("run", ("get_weather", {"city": "Rome"}))]),
        ("Ministral-3-3B-Instruct", 'get_weather{"city": "Oslo"}', [("run", WEATHER)]),
        ("DeepSeek-V3.1", 'get_weather{"city": "Oslo"}', [("run", WEATHER)]),
        ("DeepSeek-V3-0324", 'functionget_weather\n```json\n{"city": "Oslo"}\n```', [("run", WEATHER)]),
        ("LFM2-1.2B", '[get_weather(city="Oslo")]', [("run", WEATHER)]),
        ("minicpm5-2b", ' name="get_weather"> name="city">Oslo', [("told", "bad_xml")]),
        # of another family, not of a tool, in a sentence, or quoted: text
        ("Qwen3-8B", 'functions.get_weather:0{"city": "Oslo"}', [("text", 'functions.get_weather:0{"city": "Oslo"}')]),
        ("Kimi-K2-Instruct", 'functions.other:0{"city": "Oslo"}', [("text", 'functions.other:0{"city": "Oslo"}')]),
        ("Kimi-K2-Instruct", "Call functions.get_weather:0 with a city.",
         [("text", "Call functions.get_weather:0 with a city.")]),
        ("gemma-4-31b-it", "`call:get_weather{city:Oslo}`", [("text", "`call:get_weather{city:Oslo}`")]),
        ("gemma-4-31b-it", "Write call:get_weather{city:Oslo} to call it.",
         [("text", "Write call:get_weather{city:Oslo} to call it.")]),
        ("minicpm5-2b", 'name="get_weather" is the attribute.', [("text", 'name="get_weather" is the attribute.')]),
        ("Ministral-3-3B-Instruct", "get_weather is a tool.", [("text", "get_weather is a tool.")]),
    ],
)  # fmt: skip
def test_what_is_left_of_a_reply_without_its_control_tokens(model: str, reply: str, seen: list[Seen]) -> None:
    assert scan(model, reply) == seen
