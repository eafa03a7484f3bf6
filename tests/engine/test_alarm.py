"""Deadlines: one rings when it is missed, and only then."""

from __future__ import annotations

import threading
import time

from tidewheel.engine.alarm import Alarm, _due


def test_only_what_is_late_rings() -> None:
    rung: list[str] = []
    late = threading.Event()
    with Alarm(60.0, lambda: rung.append("far")):
        with Alarm(0.02, late.set), Alarm(30.0, lambda: rung.append("outer")):
            assert late.wait(20)
        with Alarm(5.0, lambda: rung.append("met")):
            pass
    assert rung == []


def test_a_sooner_deadline_wakes_it() -> None:
    first, second = threading.Event(), threading.Event()
    with Alarm(30.0, first.set), Alarm(0.05, second.set):
        assert second.wait(20)
    assert not first.is_set()


def test_from_many_threads_and_after_an_error() -> None:
    rung = [threading.Event() for _ in range(20)]

    def wait(event: threading.Event) -> None:
        with Alarm(0.01, event.set):
            event.wait(20)

    def fail() -> None:
        raise ValueError("of the ring, not of the thread that waits")

    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        with Alarm(0.0, fail):
            time.sleep(0.1)
        threads = [threading.Thread(target=wait, args=(event,)) for event in rung]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    finally:
        threading.excepthook = hook
    assert all(event.is_set() for event in rung)


def test_time_that_does_not_count() -> None:
    late = threading.Event()
    with Alarm(0.05, late.set) as alarm:
        with alarm.stopped():
            assert not late.wait(0.3)
        assert late.wait(20)
        with alarm.stopped():  # it has rung
            late.clear()
        assert not late.wait(0.1)
    with Alarm(60.0, late.set) as met:
        pass
    with met.stopped():
        pass
    assert met not in _due
