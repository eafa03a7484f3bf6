"""The two orders of time. Confusing them is the classic mistake, so neither is called `leq`.

* The *progress* order (Naiad, section 2.1): epochs by ≤ and counters lexicographically. It says
  what may still arrive, and so when a vertex may be notified.
* The *data* order (differential dataflow): the product order. What changed at (e, c) counts at
  (e', c') iff e ≤ e' and every counter of c is ≤ its partner in c'.

Laws (tests/engine/progress/test_order.py): both are partial orders; the data order implies the
progress order; Python's tuple order on timestamps extends both; each `lub` is the least upper
bound of its own order.

>>> a, b = Timestamp(0, (0, 5)), Timestamp(0, (1, 0))
>>> progress_leq(a, b), data_leq(a, b)
(True, False)
>>> progress_lub(a, b), data_lub(a, b)
(Timestamp(epoch=0, counters=(1, 0)), Timestamp(epoch=0, counters=(1, 5)))
"""

from __future__ import annotations

from tidewheel.engine.progress.timestamp import Timestamp


def progress_leq(a: Timestamp, b: Timestamp) -> bool:
    """Can something at `a` still lead to something at `b` at the same place? Equal depths only."""
    return a[0] <= b[0] and a[1] <= b[1]


def progress_lub(a: Timestamp, b: Timestamp) -> Timestamp:
    """The least time that both can lead to."""
    return Timestamp(max(a[0], b[0]), max(a[1], b[1]))


def data_leq(a: Timestamp, b: Timestamp) -> bool:
    """Does a change made at `a` count in the collection at `b`? Equal depths only."""
    return a[0] <= b[0] and all(x <= y for x, y in zip(a[1], b[1], strict=True))


def data_lub(a: Timestamp, b: Timestamp) -> Timestamp:
    """The first time at which changes made at `a` and at `b` both count."""
    return Timestamp(max(a[0], b[0]), tuple(map(max, a[1], b[1])))


def data_glb(a: Timestamp, b: Timestamp) -> Timestamp:
    """The last time whose changes count at both `a` and `b`."""
    return Timestamp(min(a[0], b[0]), tuple(map(min, a[1], b[1])))
