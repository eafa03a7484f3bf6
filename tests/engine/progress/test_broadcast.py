"""One participant of the progress protocol; whole runs are in dataflow/test_simulator.py."""

from __future__ import annotations

from tidewheel.engine.progress.broadcast import Participant
from tidewheel.engine.progress.change_batch import Pointstamp
from tidewheel.engine.progress.path_summary import identity
from tidewheel.engine.progress.reachability import Topology
from tidewheel.engine.progress.timestamp import Timestamp

T = Timestamp(0)
A, B, C = Pointstamp(0, T), Pointstamp(1, T), Pointstamp(2, T)


def topology() -> Topology:
    made = Topology()
    for location in range(3):
        made.add(location, 0)
    made.connect(0, 1, identity(0))
    made.connect(1, 2, identity(0))
    return made


def test_without_accumulation_all_is_sent_positives_first() -> None:
    worker = Participant(topology(), accumulate=False)
    assert worker.produce([(A, -1), (B, 1)]) == [(B, 1), (A, -1)]


def test_what_an_earlier_event_covers_is_held_back_and_cancels() -> None:
    worker = Participant(topology(), accumulate=True)
    worker.receive([(A, 1)], own=False)
    assert worker.produce([(B, 1)]) == []
    assert worker.produce([(C, 1), (B, -1)]) == []
    assert dict(worker.held) == {C: 1}
    assert worker.rest() == [], "still covered by A, so nobody waits for it"
    assert worker.produce([(A, -1)]) == [(C, 1), (A, -1)], "A is not covered by anything"


def test_a_positive_count_is_held_back_until_there_is_nothing_to_do() -> None:
    worker = Participant(topology(), accumulate=True)
    worker.receive([(A, 2)], own=False)
    assert worker.produce([(A, -1)]) == []
    assert worker.rest() == [(A, -1)]
    assert worker.produce([(A, -1)]) == [(A, -1)], "what is sent but not received counts"


def test_a_view_that_moves_on_sets_free_what_it_covered() -> None:
    worker = Participant(topology(), accumulate=True)
    worker.receive([(A, 1), (B, 1)], own=False)
    assert worker.produce([(B, -1)]) == []
    worker.receive([(A, -1)], own=False)
    assert worker.poll() == [(B, -1)]
