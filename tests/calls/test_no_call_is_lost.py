"""Whatever the scanner decides about a call: it is run, offered, told or shown. None is lost without a word."""

from __future__ import annotations

import itertools

import pytest

from calls.test_damaged_calls import TOOLS
from rkllm_chat.calls.model_families import FAMILIES, make_scanner
from rkllm_chat.core.events import CallDescribed, CallFound, CallUnreadable, Text

CITIES = ("Oslo", "Bergen")
FORMATS = {
    "bare": '{{"name": "get_weather", "arguments": {{"city": "{}"}}}}',
    "fenced": '```json\n{{"name": "get_weather", "arguments": {{"city": "{}"}}}}\n```',
    "hermes": '<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{}"}}}}\n</tool_call>',
    "default": '[TOOL_CALL]\n{{"name": "get_weather", "arguments": {{"city": "{}"}}}}\n[END_TOOL_CALL]',
    "python": 'get_weather(city="{}")',
    "unknown tool": '<tool_call>\n{{"name": "other", "arguments": {{"city": "{}"}}}}\n</tool_call>',
    "broken": '<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{}"}}\n',
}
JOINED = {
    "words": "First:\n{}\n\nSecond:\n{}",
    "a rule": "{}\n---\n{}",
    "numbers": "1. {}\n2. {}",
    "semicolons": "; {}; {}",
    "a sentence behind": "{}\nand\n{}\nThat is all.",
    "nothing": "{}{}",
}


def decide(family: str, reply: str) -> dict[str, set[str]]:
    """What is decided about the call of each city."""
    row = FAMILIES[family]
    unmarked = family == "qwen2.5"
    scanner = make_scanner(row.preferred_format, row.accepted_formats, TOOLS, writes_unmarked=unmarked)
    found: dict[str, set[str]] = {city: set() for city in CITIES}
    for event in scanner.feed(reply) + scanner.close(True):
        match event:
            case CallFound(call):
                how, where = "run", str(dict(call.arguments))
            case CallDescribed(call):
                how, where = "offered", str(dict(call.arguments))
            case CallUnreadable():
                how, where = "told", event.raw
            case Text(text):
                how, where = "shown", text
            case _:
                how, where = "invented", ""
        for city in CITIES:
            if city in where:
                found[city].add(how)
    return found


@pytest.mark.parametrize("family", ["qwen2.5", "qwen3", "llama3", "gemma4", "glm4.5", "mistral", "gpt-oss", "phi4"])
def test_each_of_two_calls_is_run_offered_told_or_shown(family: str) -> None:
    for (first, before), (second, behind), (how, joined) in itertools.product(
        FORMATS.items(), FORMATS.items(), JOINED.items()
    ):
        decided = decide(family, joined.format(before.format(CITIES[0]), behind.format(CITIES[1])))
        assert all(decided.values()), (first, second, how, decided)


@pytest.mark.parametrize("family", ["qwen2.5", "qwen3", "llama3"])
@pytest.mark.parametrize("how", ["words", "a rule", "numbers", "a sentence behind"])
def test_two_calls_in_prose_are_both_offered_or_both_run(family: str, how: str) -> None:
    for format_name in ("bare", "fenced", "hermes"):
        reply = JOINED[how].format(*(FORMATS[format_name].format(city) for city in CITIES))
        oslo, bergen = (decided & {"run", "offered"} for decided in decide(family, reply).values())
        assert oslo == bergen and oslo, (format_name, oslo, bergen)


def test_two_calls_and_what_separates_them_run() -> None:
    for format_name in ("bare", "hermes"):
        reply = JOINED["semicolons"].format(*(FORMATS[format_name].format(city) for city in CITIES))
        assert all("run" in decided for decided in decide("qwen3", reply).values()), format_name
