"""How many examples the tests that try anything are given: few and always the same, or as many as you say.

    RKLLM_CHAT_FUZZ=10000 pytest --timeout 0 tests -k any

gives each of them so many at least, and others in every run. A test that names no number gets the profile's 100.
"""

from __future__ import annotations

import os

from hypothesis import settings

FUZZ = "RKLLM_CHAT_FUZZ"
BUDGET = int(os.environ.get(FUZZ) or 0)


def examples(count: int) -> int:
    """The number of examples of a test that is content with `count` in every run of all tests."""
    return max(count, BUDGET)


def load_profile() -> None:
    """From here on tests are given the same examples in every run, and as long as they need for each."""
    settings.register_profile("steady", max_examples=examples(100), derandomize=not BUDGET, deadline=None)
    settings.load_profile("steady")
