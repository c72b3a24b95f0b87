"""Which state a server is in, and when it may be started again."""

from __future__ import annotations

import pytest

from rkllm_chat.core.errors import ConnectError
from rkllm_chat.mcp_client.lifecycle_state import LifecycleState, ServerState

GONE = ConnectError("It is gone.")


def test_an_idle_server_stays_ready_while_it_is_restarted_and_that_is_no_news() -> None:
    state = LifecycleState("one")
    state.mark_starting()
    assert (state.state, state.is_ready, state.mark_open()) == (ServerState.STARTING, False, True)
    state.mark_idle()
    state.mark_ended(10, lasted_s=5)
    state.mark_starting()
    assert (state.state, state.is_ready, state.mark_open()) == (ServerState.IDLE, True, False)
    assert state.get_restart_delay_s(10) == 0, "an idle server has not failed"


def test_a_server_that_failed_too_often_is_not_restarted_until_the_user_asks() -> None:
    state = LifecycleState("one")
    for second in range(5):
        state.mark_restarting(second)
    assert not state.needs_user(6)
    state.mark_failed(GONE, was_open=True)
    assert state.needs_user(6) and not state.needs_user(600)
    with pytest.raises(ConnectError, match=GONE.message):
        state.get_restart_delay_s(6)
    state.reset()
    assert (state.get_restart_delay_s(6), state.state) == (0, ServerState.CLOSED)


def test_the_older_protocol_is_tried_once_and_only_by_a_server_that_was_never_open() -> None:
    state = LifecycleState("one")
    state.mark_starting()
    state.mark_failed(GONE, died_of_discover=True)
    assert state.needs_user(1), "it was never open"
    assert state.try_legacy() and state.is_legacy
    state.undo_legacy(GONE)
    assert (state.is_legacy, state.error) == (False, GONE)
    state.mark_starting()
    state.mark_open()
    state.mark_failed(GONE, died_of_discover=True)
    assert not state.try_legacy()
