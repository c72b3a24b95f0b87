"""Real servers run as they do where nobody configured anything: in a sandbox, where there can be one."""

from __future__ import annotations

import pytest

from rkllm_chat.mcp_client.process.start import SANDBOX_VARIABLE


@pytest.fixture(autouse=True)
def in_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SANDBOX_VARIABLE)
