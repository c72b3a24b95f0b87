"""What runs of tests as on macOS share with the tests."""

import os

PROC_VARIABLE = "RKLLM_CHAT_TEST_PROC"
PROC = os.environ.get(PROC_VARIABLE, "/proc")
"""Where tests look at processes: another folder while /proc is hidden from the program (`macos/run.py`)."""
SUBSET = (  # a chat, one-shot commands, servers over stdio, the end of all their processes
    "tests/cli/test_print_mode.py",
    "tests/cli/test_json_commands_results.py",
    "tests/mcp_client/test_misbehaving_lifecycle.py",
    "tests/mcp_client/test_stdio.py",
    "tests/mcp_servers/test_claude_runs.py",
    "tests/tui/test_leaving.py",
)
"""Tests that stand for the rest where time is short."""
