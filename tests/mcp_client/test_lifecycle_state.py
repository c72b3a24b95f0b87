"""Which state a server is in, and when one that died may be started again."""

from __future__ import annotations

import pytest

from rkllm_chat.core.errors import ConnectError
from rkllm_chat.mcp_client.lifecycle_state import LifecycleState, ServerState
from rkllm_chat.mcp_client.timing import Backoff

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


def test_each_restart_waits_twice_as_long_as_the_one_before() -> None:
    backoff = Backoff()
    waits = []
    now = 0.0
    for _ in range(5):
        backoff.record_exit(now, healthy_s=0)
        wait = backoff.remaining_s(now)
        assert wait is not None
        waits.append(wait)
        now += wait
        backoff.record_start(now)
    assert waits == [0.5, 1, 2, 4, 8]


def test_after_five_starts_in_two_minutes_it_stays_down_until_somebody_asks() -> None:
    backoff = Backoff()
    for second in range(5):
        backoff.record_start(second)
    backoff.record_exit(5, healthy_s=1)
    assert backoff.remaining_s(119) is None
    assert backoff.remaining_s(121) == 0
    backoff.record_start(121)
    backoff.reset()
    assert backoff.remaining_s(121) == 0


def test_a_minute_of_health_is_a_fresh_start() -> None:
    backoff = Backoff()
    for second in range(4):
        backoff.record_start(second)
        backoff.record_exit(second, healthy_s=1)
    backoff.record_exit(100, healthy_s=61)
    assert backoff.remaining_s(100) == 0.5


def test_no_wait_is_longer_than_half_a_minute() -> None:
    backoff = Backoff()
    for _ in range(20):
        backoff.record_exit(0, healthy_s=0)
    assert backoff.remaining_s(0) == 30
