"""When a server that died may be started again."""

from __future__ import annotations

from rkllm_chat.mcp_client.timing import Backoff


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
