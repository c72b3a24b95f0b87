"""Whether a call runs, is asked about, or is refused."""

from __future__ import annotations

import pytest

from rkllm_chat.messages import Tool
from rkllm_chat.policy import Decision, Mode, Policy, decide

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
    decisions = [decide(tool, policy) for tool in (WRITES, READS, READS_TRUSTED, WRITES_TRUSTED)]
    assert decisions == [writes, reads, reads_trusted, writes_trusted]


@pytest.mark.parametrize(
    "pattern",
    [
        "write_file",
        "disk__write_file",
        "disk.write_file",
        "disk/write_file",
        "disk_write_file",
        "disk__*",
        "write_*",
        "*",
        "[vw]rite_fil?",
    ],
)
def test_a_pattern_names_a_tool_bare_or_with_its_server(pattern: str) -> None:
    assert decide(WRITES, Policy("none", allow=(pattern,))) == "run"
    assert decide(WRITES, Policy("all", deny=(pattern,))) == "refuse"


@pytest.mark.parametrize("pattern", ["", "write", "WRITE_FILE", "disk", "other__*", "disk__write", "file"])
def test_a_pattern_that_names_another_tool_changes_nothing(pattern: str) -> None:
    assert decide(WRITES, Policy("ask", allow=(pattern,))) == "ask"
    assert decide(WRITES, Policy("all", deny=(pattern,))) == "run"


def test_deny_is_stronger_than_everything() -> None:
    assert decide(READS_TRUSTED, Policy("all", allow=("*",), deny=("disk__read_*",))) == "refuse"
    assert decide(WRITES_TRUSTED, Policy("all", allow=("*",), deny=("disk__read_*",))) == "run"
