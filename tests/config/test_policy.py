"""Whether a call runs, is asked about, or is refused."""

from __future__ import annotations

import pytest

from rkllm_chat.config.policy import (
    SESSION_MODES,
    Decision,
    Mode,
    Policy,
    decide_call,
    exact_pattern,
    find_ambiguous,
    is_stricter,
)
from rkllm_chat.core.messages import Tool

WRITES = Tool("write_file", server="disk")
READS = Tool("read_file", server="disk", read_only=True)
READS_TRUSTED = Tool("read_file", server="disk", read_only=True, trusted=True)
WRITES_TRUSTED = Tool("write_file", server="disk", trusted=True)


@pytest.mark.parametrize(
    ("mode", "writes", "reads", "reads_trusted", "writes_trusted"),
    [
        ("ask", "ask", "ask", "run", "ask"),
        ("read-only", "ask", "run", "run", "ask"),
        ("all", "run", "run", "run", "run"),
        ("none", "refuse", "refuse", "refuse", "refuse"),
    ],
)
def test_a_claim_to_read_only_counts_where_the_user_believes_it(
    mode: Mode, writes: Decision, reads: Decision, reads_trusted: Decision, writes_trusted: Decision
) -> None:
    policy = Policy(approve=mode)
    decisions = [decide_call(tool, policy) for tool in (WRITES, READS, READS_TRUSTED, WRITES_TRUSTED)]
    assert decisions == [writes, reads, reads_trusted, writes_trusted]


@pytest.mark.parametrize(
    ("policy", "read_only", "ask", "auto"),
    [
        (Policy(), ("refuse", "ask", "run"), ("ask", "ask", "run"), ("run", "run", "run")),
        (Policy("read-only"), ("refuse", "run", "run"), ("ask", "run", "run"), ("run", "run", "run")),
        (Policy("all"), ("refuse", "ask", "run"), ("ask", "ask", "run"), ("run", "run", "run")),
        (Policy("none"), ("refuse",) * 3, ("refuse",) * 3, ("refuse",) * 3),
        (Policy(allow=("*",)), ("refuse", "run", "run"), ("run",) * 3, ("run",) * 3),
        (Policy(deny=("*",)), ("refuse",) * 3, ("refuse",) * 3, ("refuse",) * 3),
        (Policy("all", allow=("*",), max_calls=0), ("spent",) * 3, ("spent",) * 3, ("spent",) * 3),
    ],
    ids=["ask", "read-only", "all", "none", "allow", "deny", "limit"],
)
def test_no_mode_of_the_session_weakens_what_the_policy_refuses(
    policy: Policy, read_only: tuple[Decision, ...], ask: tuple[Decision, ...], auto: tuple[Decision, ...]
) -> None:
    tools = (WRITES, READS, READS_TRUSTED)
    decided = [tuple(decide_call(tool, policy, 0, mode) for tool in tools) for mode in SESSION_MODES]
    assert decided == [read_only, ask, auto]
    deletes = Tool("delete_file", server="disk", read_only=True, trusted=True)
    assert decide_call(deletes, policy, 0, "read-only") in ("refuse", "spent")


def test_a_tool_with_a_wildcard_in_its_name_is_allowed_alone() -> None:
    star = Tool("w*", server="disk")
    policy = Policy(allow=(exact_pattern(star),))
    assert [decide_call(tool, policy) for tool in (star, WRITES)] == ["run", "ask"]


@pytest.mark.parametrize(
    "pattern",
    ["write_file", "disk__write_file", "disk.write_file", "disk/write_file", "disk_write_file", "*", "[vw]rite_fil?"],
)
def test_a_pattern_names_a_tool_bare_or_with_its_server(pattern: str) -> None:
    tools = (WRITES, READS)
    assert decide_call(WRITES, Policy("none", allow=(pattern,)), tools=tools) == "run"
    assert decide_call(WRITES, Policy("all", deny=(pattern,)), tools=tools) == "refuse"


_TIME, _BOARD, _FILE = Tool("get_time", server="clock"), Tool("send", server="board"), Tool("read_resource")
_UNDERSCORE = Tool("send", server="my_board")
_EVIL = (
    *(Tool(name, server="evil") for name in ("get_time", "board__send", "read_resource")),
    Tool("board__send", server="my"),
)


@pytest.mark.parametrize(
    ("pattern", "own"),
    [
        ("board__*", _BOARD),
        ("board__send", _BOARD),
        ("my_board__send", _UNDERSCORE),
        ("my_board__*", _UNDERSCORE),
        ("*oard__send", _BOARD),
        ("clock__get_time", _TIME),
        ("read_resource", _FILE),
    ],
)
def test_a_right_of_one_servers_tool_is_no_right_of_anothers(pattern: str, own: Tool) -> None:
    policy, tools = Policy(allow=(pattern,)), (_TIME, _BOARD, _UNDERSCORE, _FILE, *_EVIL)
    assert [decide_call(tool, policy, tools=tools) for tool in _EVIL] == ["ask"] * 4
    assert decide_call(own, policy, tools=tools) == "run"
    assert decide_call(own, Policy("all", deny=(pattern,))) == "refuse"
    assert find_ambiguous((exact_pattern(own),), tools) == {}


@pytest.mark.parametrize("pattern", ["get_time", "board_send", "board.send"])
def test_a_pattern_that_may_name_a_server_allows_nothing_while_it_may_mean_two_tools(pattern: str) -> None:
    tools = (Tool(pattern, server="clock"), Tool("time", server="get") if pattern == "get_time" else _BOARD)
    policy = Policy(allow=(pattern,))
    assert [decide_call(tool, policy, tools=tools) for tool in tools] == ["ask", "ask"]
    assert find_ambiguous((pattern,), tools) == {pattern: [tool.full_name for tool in tools]}
    assert [decide_call(tool, policy, tools=[tool]) for tool in tools] == ["run", "run"]
    assert [decide_call(tool, Policy("all", deny=(pattern,)), tools=tools) for tool in tools] == ["refuse", "refuse"]


def test_a_bare_name_is_allowed_while_one_server_offers_it() -> None:
    policy = Policy(allow=("get_time",))
    assert decide_call(_TIME, policy, tools=(_TIME, _BOARD)) == "run"
    assert decide_call(_TIME, policy, tools=(_TIME, *_EVIL)) == decide_call(_TIME, policy) == "ask"
    assert find_ambiguous(policy.allow, (_TIME, *_EVIL)) == {"get_time": ["clock__get_time", "evil__get_time"]}
    assert find_ambiguous(policy.allow, (_TIME, _BOARD)) == {}


@pytest.mark.parametrize("pattern", ["", "write", "WRITE_FILE", "disk", "other__*"])
def test_a_pattern_that_names_another_tool_changes_nothing(pattern: str) -> None:
    assert decide_call(WRITES, Policy("ask", allow=(pattern,))) == "ask"
    assert decide_call(WRITES, Policy("all", deny=(pattern,))) == "run"


def test_deny_is_stronger_than_everything() -> None:
    assert decide_call(READS_TRUSTED, Policy("all", allow=("*",), deny=("disk__read_*",))) == "refuse"
    assert decide_call(WRITES_TRUSTED, Policy("all", allow=("*",), deny=("disk__read_*",))) == "run"
    others = [decide_call(tool, Policy("all", deny=("board__*",))) for tool in _EVIL]
    assert others == ["run", "refuse", "run", "refuse"]


@pytest.mark.parametrize("name", ["delete_file", "removeUser", "drop-table", "wipe", "kill", "taskkill", "processkill"])
def test_no_claim_to_read_only_lets_a_tool_run_whose_name_says_that_it_deletes(name: str) -> None:
    tool = Tool(name, server="disk", read_only=True, trusted=True)
    assert decide_call(tool, Policy()) == decide_call(tool, Policy("read-only")) == "ask"
    assert decide_call(READS_TRUSTED, Policy()) == "run"
    assert decide_call(tool, Policy(allow=("disk__*",))) == "run"  # the user himself may say so


@pytest.mark.parametrize("name", ["read_skill", "skill", "list-skills"])
def test_a_skill_does_not_kill(name: str) -> None:
    assert decide_call(Tool(name, server="disk", read_only=True, trusted=True), Policy()) == "run"


def test_the_limit_of_calls_comes_behind_deny_and_before_everything_else() -> None:
    policy = Policy("all", allow=("*",), deny=("write_*",), max_calls=3)
    assert [decide_call(READS, policy, called) for called in (0, 2, 3, 4)] == ["run", "run", "spent", "spent"]
    assert decide_call(WRITES, policy, 3) == "refuse"


def test_modes_are_known_by_how_much_they_let_run() -> None:
    assert is_stricter("none", "ask") and is_stricter("ask", "read-only") and is_stricter("read-only", "all")
    assert not is_stricter("ask", "ask") and not is_stricter("all", "none")
