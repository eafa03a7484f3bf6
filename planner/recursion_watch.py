"""Looks after the loop of a recursive view: it ends with an error where it would not end."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidewheel.engine.operators.budget import BOUNDS, DEFAULT_ITERATIONS, Meter
from tidewheel.engine.operators.circuit import Loop
from tidewheel.engine.operators.cycle import Bags, Cycle, Drift, changes
from tidewheel.engine.operators.operator import Operator
from tidewheel.engine.operators.repeat import Repeat
from tidewheel.engine.state.columns import FixedType
from tidewheel.engine.state.delta import Delta
from tidewheel.planner import logical as L

_AT_ONCE = 256  # counters between two looks at the bounds, where each changes few rows


class Watch:
    """Stops a loop that goes on for too long, or whose statement is asked to end.

    The bounds are those of the statement that changes the view (`BOUNDS`). `heads` tell how many
    rows each counter changed, in `Operator.rounds`.
    """

    def __init__(self, binding: L.Binding) -> None:
        self.heads: list[Operator] = []
        self._label = binding.label
        self._kind = binding.kind
        self._width = 8 * len(binding.columns)
        self._meter: Meter | None = None
        self.closed: Loop | Repeat | None = None
        """A loop whose rows at one counter follow from those at the last one, and nothing else."""
        self.most = DEFAULT_ITERATIONS
        """Iterations, where the statement has no bound for them."""
        self.whole: Loop | None = None
        """A loop whose tables at one counter follow likewise."""
        self.deciding: tuple[int, ...] = ()
        """Where some columns of the rows of `closed` say nothing of the next rows: the others."""
        self.rising: int | None = None
        """The column by which rows of UNION are always new ones, if it has no NULL."""
        self._names = tuple(c.label for c in binding.columns)
        self._seen: tuple[int, Cycle | Drift] = -1, Cycle()
        self._known: dict[int, tuple[object, int]] = {}

    def __call__(self, counters: tuple[int, ...]) -> int:
        """Before each time, or at the latest at the counter that it gave.

        Raises RecursionLimitError or Interrupted.
        """
        bounds = BOUNDS.get()
        rows = self._changed()
        if bounds.watch is not None:
            bounds.watch(self._label, counters, rows)
        meter = self._meter
        if meter is None or meter.asked is not bounds:
            name = f'"{self._label}" of a maintained view'
            budget = bounds.filled(self.most)
            meter = self._meter = Meter(budget, name, self._kind, reports=False, asked=bounds)
        since = self._since(counters)
        if since is not None:
            raise meter.endless(since, [self._names[i] for i in self.deciding])
        bound = meter.spend(counters[-1], rows, rows * self._width)
        if bound is not None:
            raise meter.error(bound)
        following = counters[-1] + _AT_ONCE
        limit = meter.budget.iterations
        return following if limit is None else min(following, max(limit, counters[-1]) + 1)

    def _since(self, counters: tuple[int, ...]) -> int | None:
        """An earlier counter that changed what the last one did, or had its tables (`whole`).

        None where earlier runs of the loop, too, have a part in that.
        """
        loop = self.whole if self.closed is None else self.closed
        if loop is None:
            return None
        run, seen = self._seen
        if run != loop.runs:
            seen = Drift() if self.closed is None else Cycle()
            self._seen = loop.runs, seen
        behind, last = loop.reached + 1, counters[-1] - 1
        if last <= behind:
            return None
        state = loop.left((*counters[:-1], last))
        if isinstance(seen, Drift):
            since = seen.since(last - behind, state)
        else:
            rows = [0 if d is None else len(d) for d in state]
            since = seen.since(last - behind, rows, lambda: self._bags(state))
        return None if since is None else since + behind

    def _bags(self, state: Sequence[Delta | None]) -> Bags | None:
        """What of the rows of a counter decides those of the next ones."""
        if not self.deciding:
            return changes(state)
        (delta,) = state
        if delta is None or not (self.rising is None or _rise(delta, self.rising)):
            return None
        found = changes([delta.select(self.deciding, delta.schema.select(self.deciding))])
        return found if found is not None and found[0] else None  # what cancels out proves nothing

    def _changed(self) -> int:
        """The rows that the heads changed since the last call."""
        total = 0
        for head in self.heads:
            rounds = head.rounds or []
            last, seen = self._known.get(id(head), (None, 0))
            seen = seen if last is rounds else 0
            total += sum(sum(rows) for _, rows in rounds[seen:])
            self._known[id(head)] = (rounds, len(rounds))
        return total


def _rise(delta: Delta, at: int) -> bool:
    """Are there rows that came, each with a number in the column?"""
    kind = delta.schema.kinds[at]
    if not (isinstance(kind, FixedType) and pa.types.is_integer(delta.schema.types[at])):
        return False
    nulls = kind.split(delta.cols[at])[1]
    return bool((delta.weights > 0).all()) and (nulls is None or not nulls.any())
