"""Which names the model is shown, and which tool it means by what it writes."""

from __future__ import annotations

from rkllm_chat.calls.tool_names import find_tools, shown_names, similar_names
from rkllm_chat.core.messages import Tool

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


def test_every_accepted_spelling_means_the_tool() -> None:
    full = ("sea__get_tide", "sea.get_tide", "sea/get_tide", "sea:get_tide", "sea_get_tide", "tools.sea/get_tide")
    bare = ("get_tide", "functions.get_tide", " get_tide\n", '"get_tide"', "'functions.get_tide' ", "“get_tide”")
    loose = ("GET_TIDE", "get tide", "Get-Tide", "getTide", "get_tide()")
    assert [name for name in (*full, *bare, *loose) if find_tools(name, TOOLS) != [TIDE]] == []


def test_any_other_name_means_no_tool() -> None:
    near = ("", '""', "_", "tide", "get_tides", "get_tide.functions")
    server = ("sea", "sea-get_tide", "land__get_tide")
    prefix = ("functions.", "functions", "beta.get_tide", "made.up.alpha::get_tide", "status.get_tide", "land::search")
    assert [name for name in (*near, *server, *prefix) if find_tools(name, TOOLS) == [TIDE]] == []


def test_a_namespace_that_no_server_has_is_no_part_of_a_name_and_nor_is_a_control_token() -> None:
    made_up = (
        "google:mcp:get_tide",
        "default_api.get_tide",
        "functions::get_tide",
        "function.get_tide",
        "a/b.get_tide",
    )
    tokens = ("get_tide<|channel|>commentary", "functions.get_tide<|constrain|>json", "get_tide<｜tool▁sep｜>")
    assert [name for name in (*made_up, *tokens) if find_tools(name, TOOLS) != [TIDE]] == []
    assert find_tools("default_api.search", TOOLS) == find_tools("search", TOOLS) != []


def test_a_name_as_it_stands_wins_over_one_that_differs_in_case_or_punctuation() -> None:
    other = Tool("getTide", server="land")
    assert find_tools("get_tide", [other, TIDE]) == [TIDE]
    assert find_tools("getTide", [other, TIDE]) == [other]
    assert find_tools("Get Tide", [other, TIDE]) == [other, TIDE]


def test_a_bare_name_on_two_servers_means_both_and_a_full_name_one() -> None:
    assert find_tools("search", TOOLS) == [SEARCH_B, SEARCH_A]
    assert find_tools("beta__search", TOOLS) == [SEARCH_B]


def test_a_tool_named_like_a_full_name_cannot_shadow_that_tool() -> None:
    impostor = Tool("git__status", server="evil")
    assert find_tools("git__status", [impostor, STATUS]) == [STATUS]
    assert find_tools("evil__git__status", [impostor, STATUS]) == [impostor]


def test_a_shown_name_means_the_tool_it_is_shown_for() -> None:
    for other in ("git_status", "git__status", "git.status"):
        tools = [STATUS, Tool(other, server="evil")]
        assert {name: find_tools(name, tools) for name in shown_names(tools)} == {
            name: [tool] for name, tool in shown_names(tools).items()
        }


def test_no_tool_vanishes_when_a_bare_name_equals_a_full_name() -> None:
    tools = [Tool("b", server="a"), Tool("b", server="c"), Tool("a__b", server="x")]
    assert sorted(tool.full_name for tool in shown_names(tools).values()) == ["a__b", "c__b", "x__a__b"]


def test_a_server_may_be_called_tools_and_a_tool_begin_with_functions() -> None:
    ours, theirs = Tool("x", server="tools"), Tool("x", server="other")
    odd = Tool("functions.x", server="other")
    assert find_tools("tools.x", [theirs, ours]) == [ours]
    assert find_tools("functions.x", [theirs, odd]) == [odd]
    assert find_tools("functions.x", [theirs, ours]) == [theirs, ours]


def test_a_name_as_it_stands_wins_over_the_same_without_what_is_around_it() -> None:
    quoted, plain = Tool('"x"', server="a"), Tool("x", server="a")
    assert find_tools('"x"', [plain, quoted]) == [quoted]
    assert find_tools("'x'", [plain, quoted]) == [plain]


BOARD = [
    Tool(name, server="board")
    for name in ("get_time", "get_temperature", "get_memory", "get_disk", "calculate", "list_files", "read_file")
]


def test_the_nearest_name_comes_first() -> None:
    first = {
        "Get_Time": "get_time",
        "current_time": "get_time",
        "board__get_tim": "get_time",
        "'calc'": "calculate",
        "readFile": "read_file",
        "delete_file": "list_files",
    }
    assert {name: similar_names(name, BOARD)[0] for name in first} == first


def test_a_name_that_is_near_no_other_has_no_nearest() -> None:
    for name in ("", "zzz", "weather", "send_email", "x" * 100_000):
        assert similar_names(name, BOARD) == []


def test_the_nearest_names_are_shown_names_and_at_most_eight() -> None:
    tools = [Tool(f"get_tide_{i}", server=server) for i in range(6) for server in ("sea", "lake")]
    near = similar_names("get_tide", tools)
    assert len(near) == 8
    assert set(near) <= set(shown_names(tools))
