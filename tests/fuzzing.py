"""Number of examples of property tests: few and always the same, or as many as RKLLM_CHAT_FUZZ says.

    RKLLM_CHAT_FUZZ=10000 pytest --timeout 0 tests -k any

runs at least that many, different in every run. A test without a number of its own runs the profile's 100.
"""

from __future__ import annotations

import os

from hypothesis import settings

FUZZ = "RKLLM_CHAT_FUZZ"
BUDGET = int(os.environ.get(FUZZ) or 0)


def examples(count: int) -> int:
    """Return the number of examples of a test that runs `count` by default."""
    return max(count, BUDGET)


def load_profile() -> None:
    """Use the same examples in every run, without a time limit for each."""
    settings.register_profile("steady", max_examples=examples(100), derandomize=not BUDGET, deadline=None)
    settings.load_profile("steady")
