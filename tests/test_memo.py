"""What was said of the very same objects is said again without asking; of others that are equal it is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rkllm_chat import language
from rkllm_chat.memo import by_identity
from rkllm_chat.messages import Message, Tool, ToolResult
from rkllm_chat.prompt import compose
from stage import Box, call_text, make_chat, take_turn


class Counted:
    def __init__(self, most: int) -> None:
        self.asked = 0
        self.names = by_identity(most)(self._names)

    def _names(self, tools: Iterable[Tool], mark: str, end: str = "") -> list[str]:
        self.asked += 1
        return [f"{mark}{tool.name}{end}" for tool in tools]


def test_the_same_tools_are_asked_about_once_in_whatever_list_they_come() -> None:
    counted, tools = Counted(8), [Tool("a"), Tool("b")]
    first = counted.names(tools, "- ")
    assert first == ["- a", "- b"]
    assert counted.names(tuple(tools), "- ") is first and counted.names(iter(tools), "- ") is first
    assert counted.asked == 1


def test_other_tools_another_order_and_other_arguments_are_asked_about_anew() -> None:
    counted, (one, other) = Counted(8), (Tool("a"), Tool("b"))
    assert counted.names([one, other], "") == ["a", "b"]
    assert counted.names([other, one], "") == ["b", "a"]
    assert counted.names([one], "") == ["a"]
    assert counted.names([one], "* ") == ["* a"]
    assert counted.names([one], "", end="!") == ["a!"]
    assert counted.names([Tool("a")], "") == ["a"]
    assert counted.asked == 6


def test_only_the_newest_answers_are_kept() -> None:
    counted = Counted(2)
    tools = [Tool(name) for name in "abc"]
    for tool in (*tools, tools[2], tools[0]):
        assert counted.names([tool], "") == [tool.name]
    assert counted.asked == 4


def test_a_result_is_framed_in_the_language_that_is_spoken_now() -> None:
    words = language.load()
    result = Message("tool", "17", ToolResult("s", "look", {}, "completed", "17"))
    english = compose([result], (), words)[1].text
    words.speak("ja")
    japanese = compose([result], (), words)[1].text
    words.speak("en")
    assert english != japanese
    assert compose([result], (), words)[1].text == english


class Schema(dict[str, Any]):
    """A schema that knows how often it was read."""

    read = 0

    def _note(self) -> None:
        type(self).read += 1

    def __getitem__(self, key: str) -> Any:
        self._note()
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._note()
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        self._note()
        return super().__iter__()


class Fixed(Box):
    """The same tools whenever it is asked, as those of a server are."""

    @property
    def tools(self) -> list[Tool]:
        return self._tools

    def keep(self) -> None:
        self._tools = list(super().tools)


def test_behind_the_first_turn_nobody_reads_the_schemas_of_tools_that_are_not_called() -> None:
    async def look() -> str:
        return "17"

    schemas = {f"unused_{number}": Schema(type="object", properties={"x": {"type": "string"}}) for number in range(9)}
    box = Fixed({"look": look, **dict.fromkeys(schemas, look)}, schemas=schemas)
    box.keep()
    chat = make_chat([call_text("look"), "It is 17."] * 3, box)
    take_turn(chat, "Look!")
    read = Schema.read
    assert read > 0
    take_turn(chat, "Again!")
    take_turn(chat, "And again!")
    assert Schema.read == read
    assert [call[0] for call in box.called] == ["look"] * 3
