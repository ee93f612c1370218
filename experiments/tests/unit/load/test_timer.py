"""Waits of the load generator: never early, and nobody else waits with them."""

from __future__ import annotations

import time

import gevent

from experiments.load.workers.locust.timer import Alarm


def test_a_wait_never_ends_early_and_one_for_the_past_ends() -> None:
    alarm = Alarm()
    for wait_s in (0.0005, 0.01, 0.05, -5.0, 0.002):
        due_s = time.monotonic() + wait_s
        alarm.wait_until(due_s)
        assert time.monotonic() >= due_s
    alarm.wait_until(0.0)
    alarm.close()


def test_other_greenlets_run_during_a_wait_and_a_killed_one_leaves_an_alarm_that_works() -> None:
    alarm = Alarm()
    waiting = gevent.spawn(alarm.wait_until, time.monotonic() + 600.0)
    gevent.sleep(0)
    gevent.spawn(lambda: None).get()
    assert not waiting.dead
    waiting.kill()
    assert waiting.dead
    due_s = time.monotonic() + 0.01
    alarm.wait_until(due_s)
    assert time.monotonic() >= due_s
    alarm.close()
