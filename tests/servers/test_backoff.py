"""When a server that died may be started again."""

from __future__ import annotations

from rkllm_chat.servers.backoff import Backoff


def test_each_restart_waits_twice_as_long_as_the_one_before() -> None:
    backoff = Backoff()
    waits = []
    now = 0.0
    for _ in range(5):
        backoff.died(now, healthy_s=0)
        wait = backoff.wait_s(now)
        assert wait is not None
        waits.append(wait)
        now += wait
        backoff.started(now)
    assert waits == [0.5, 1, 2, 4, 8]


def test_after_five_starts_in_two_minutes_it_stays_down_until_somebody_asks() -> None:
    backoff = Backoff()
    for second in range(5):
        backoff.started(second)
    backoff.died(5, healthy_s=1)
    assert backoff.wait_s(119) is None
    assert backoff.wait_s(121) == 0
    backoff.started(121)
    backoff.reset()
    assert backoff.wait_s(121) == 0


def test_a_minute_of_health_is_a_fresh_start() -> None:
    backoff = Backoff()
    for second in range(4):
        backoff.started(second)
        backoff.died(second, healthy_s=1)
    backoff.died(100, healthy_s=61)
    assert backoff.wait_s(100) == 0.5


def test_no_wait_is_longer_than_half_a_minute() -> None:
    backoff = Backoff()
    for _ in range(20):
        backoff.died(0, healthy_s=0)
    assert backoff.wait_s(0) == 30
