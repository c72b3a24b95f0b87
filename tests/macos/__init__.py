"""PROC, where tests look at processes."""

import os

PROC_VARIABLE = "RKLLM_CHAT_TEST_PROC"
PROC = os.environ.get(PROC_VARIABLE, "/proc")
"""Another folder where /proc is hidden from the program (`macos/run.py`)."""
