"""Which names the model is shown, and which tool it means by what it writes."""

from __future__ import annotations

import pytest

from rkllm_chat.messages import Tool
from rkllm_chat.names import find_tools, nearest_names, shown_names

STATUS = Tool("status", server="git")
TIDE = Tool("get_tide", server="sea")
SEARCH_A = Tool("search", server="alpha")
SEARCH_B = Tool("search", server="beta")
TOOLS = [TIDE, SEARCH_B, STATUS, SEARCH_A]


def test_a_unique_tool_is_shown_bare_and_a_shared_name_with_its_server() -> None:
    shown = shown_names(TOOLS)
    assert list(shown.items()) == [
        ("alpha__search", SEARCH_A),
        ("beta__search", SEARCH_B),
        ("status", STATUS),
        ("get_tide", TIDE),
    ]


def test_the_order_of_the_shown_names_does_not_depend_on_the_order_of_the_tools() -> None:
    assert list(shown_names(TOOLS)) == list(shown_names(TOOLS[::-1]))


@pytest.mark.parametrize("name", ["sea__get_tide", "sea.get_tide", "sea/get_tide", "sea_get_tide", "get_tide"])
def test_every_accepted_spelling_means_the_tool(name: str) -> None:
    assert find_tools(name, TOOLS) == [TIDE]


@pytest.mark.parametrize("name", ["", "tide", "GET_TIDE", "sea", "sea-get_tide", "land__get_tide", "get_tide "])
def test_anything_else_means_no_tool(name: str) -> None:
    assert find_tools(name, TOOLS) == []


def test_a_bare_name_on_two_servers_means_both_and_a_full_name_one() -> None:
    assert find_tools("search", TOOLS) == [SEARCH_B, SEARCH_A]
    assert find_tools("beta__search", TOOLS) == [SEARCH_B]


def test_a_tool_named_like_a_full_name_cannot_shadow_that_tool() -> None:
    impostor = Tool("git__status", server="evil")
    assert find_tools("git__status", [impostor, STATUS]) == [STATUS]
    assert find_tools("evil__git__status", [impostor, STATUS]) == [impostor]


@pytest.mark.parametrize(
    "other",
    [Tool("git_status", server="evil"), Tool("git__status", server="evil"), Tool("git.status", server="evil")],
    ids=lambda tool: tool.name,
)
def test_a_shown_name_means_the_tool_it_is_shown_for(other: Tool) -> None:
    tools = [STATUS, other]
    assert {name: find_tools(name, tools) for name in shown_names(tools)} == {
        name: [tool] for name, tool in shown_names(tools).items()
    }


def test_no_tool_vanishes_when_a_bare_name_equals_a_full_name() -> None:
    tools = [Tool("b", server="a"), Tool("b", server="c"), Tool("a__b", server="x")]
    assert sorted(tool.full_name for tool in shown_names(tools).values()) == ["a__b", "c__b", "x__a__b"]


def test_the_nearest_names_are_shown_names_and_at_most_three() -> None:
    tools = [Tool(f"get_tide_{i}", server="sea") for i in range(5)]
    near = nearest_names("get_tide", tools)
    assert len(near) == 3
    assert set(near) <= set(shown_names(tools))
    assert nearest_names("zzz", tools) == []
