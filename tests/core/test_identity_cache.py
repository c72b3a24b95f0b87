"""Results are cached by the identity of the objects, not by their equality."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from rkllm_chat.core import i18n as language
from rkllm_chat.core.identity_cache import cache_by_identity
from rkllm_chat.core.messages import Message, Tool, ToolResult
from rkllm_chat.prompt.compose import compose_prompt
from stage import FakeToolbox, call_text, make_chat, take_turn


class Counted:
    def __init__(self, most: int) -> None:
        self.asked = 0
        self.names = cache_by_identity(most)(self._names)

    def _names(self, tools: Iterable[Tool], mark: str, end: str = "") -> list[str]:
        self.asked += 1
        return [f"{mark}{tool.name}{end}" for tool in tools]


def test_the_same_objects_are_computed_once_in_any_iterable() -> None:
    counted, tools = Counted(8), [Tool("a"), Tool("b")]
    first = counted.names(tools, "- ")
    assert first == ["- a", "- b"]
    assert counted.names(tuple(tools), "- ") is first and counted.names(iter(tools), "- ") is first
    assert counted.asked == 1


def test_other_objects_orders_and_arguments_are_computed_again() -> None:
    counted, (one, other) = Counted(8), (Tool("a"), Tool("b"))
    assert counted.names([one, other], "") == ["a", "b"]
    assert counted.names([other, one], "") == ["b", "a"]
    assert counted.names([one], "") == ["a"]
    assert counted.names([one], "* ") == ["* a"]
    assert counted.names([one], "", end="!") == ["a!"]
    assert counted.names([Tool("a")], "") == ["a"]
    assert counted.asked == 6


def test_only_the_newest_results_are_kept() -> None:
    counted = Counted(2)
    tools = [Tool(name) for name in "abc"]
    for tool in (*tools, tools[2], tools[0]):
        assert counted.names([tool], "") == [tool.name]
    assert counted.asked == 4


def test_a_change_of_language_is_not_answered_from_the_cache() -> None:
    words = language.load()
    result = Message("tool", "17", ToolResult("s", "look", {}, "completed", "17"))
    english = compose_prompt([result], (), words)[1].text
    words.set_language("ja")
    japanese = compose_prompt([result], (), words)[1].text
    words.set_language("en")
    assert english != japanese
    assert compose_prompt([result], (), words)[1].text == english


class Schema(dict[str, Any]):
    """A schema that counts how often schemas were read."""

    read = 0

    def get(self, key: str, default: Any = None) -> Any:
        Schema.read += 1
        return super().get(key, default)


class Fixed(FakeToolbox):
    """The same tools whenever it is asked, as those of a server are."""

    @cached_property
    def tools(self) -> list[Tool]:
        return list(super().tools)


def test_schemas_of_unused_tools_are_read_in_the_first_turn_only() -> None:
    async def look() -> str:
        return "17"

    schemas = {f"unused_{number}": Schema(type="object", properties={"x": {"type": "string"}}) for number in range(9)}
    toolbox = Fixed({"look": look, **dict.fromkeys(schemas, look)}, schemas=schemas)
    chat = make_chat([call_text("look"), "It is 17."] * 3, toolbox)
    take_turn(chat, "Look!")
    read = Schema.read
    assert read > 0
    take_turn(chat, "Again!")
    take_turn(chat, "And again!")
    assert Schema.read == read
    assert [call[0] for call in toolbox.called] == ["look"] * 3
