"""Deadlines: one rings when it is missed, and only then."""

from __future__ import annotations

import threading
import time

from tidewheel.engine.alarm import alarm


def test_only_what_is_late_rings() -> None:
    rung: list[str] = []
    late = threading.Event()
    with alarm(60.0, lambda: rung.append("far")):
        with alarm(0.02, late.set), alarm(30.0, lambda: rung.append("outer")):
            assert late.wait(20)
        with alarm(5.0, lambda: rung.append("met")):
            pass
    assert rung == []


def test_a_sooner_deadline_wakes_it() -> None:
    first, second = threading.Event(), threading.Event()
    with alarm(30.0, first.set), alarm(0.05, second.set):
        assert second.wait(20)
    assert not first.is_set()


def test_from_many_threads_and_after_an_error() -> None:
    rung = [threading.Event() for _ in range(20)]

    def wait(event: threading.Event) -> None:
        with alarm(0.01, event.set):
            event.wait(20)

    def fail() -> None:
        raise ValueError("of the ring, not of the thread that waits")

    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        with alarm(0.0, fail):
            time.sleep(0.1)
        threads = [threading.Thread(target=wait, args=(event,)) for event in rung]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    finally:
        threading.excepthook = hook
    assert all(event.is_set() for event in rung)
