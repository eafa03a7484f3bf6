"""UNION ALL recursions whose steps are linear functions of one row: nothing is kept of them.

    X = anchor ⊎ step(X)

A step that filters and projects rows, and joins nothing, takes a change of the anchor round until
nothing is left of it. No state, and so no counters, is needed for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from tidewheel.engine.operators.linear import Rewrite
from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.state.arrangement import Counters
from tidewheel.engine.state.delta import Delta, Schema, concat, consolidate, net
from tidewheel.engine.state.rowwise import few_rows


class Repeat(Operator):
    """The anchor, what the steps make of it, what they make of that, and so on. Linear.

    `watch` is called before each round and may raise.
    """

    reached = -1
    """No round follows from anything but the one before it."""

    def __init__(
        self,
        schema: Schema,
        steps: Sequence[Rewrite],
        watch: Callable[[Counters], object],
        name: str = "recursion",
    ) -> None:
        self.schema = schema
        self.name = name
        self.watch = watch
        self.runs = 0
        self._steps = tuple(steps)
        self._last: Delta | None = None

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """All rounds of a change, added up."""
        delta = deltas[0]
        if delta is None or not len(delta):
            return []
        self.runs += 1
        found: list[Delta] = []
        for round_ in count():
            at = (*counters, round_)
            self.watch(at)
            delta = self._last = self._few(delta)
            found.append(delta)
            if self.rounds is not None:
                self.rounds.append((at, [len(delta)]))
            derived = concat([step(delta) for step in self._steps])
            # (more and more rows may be the same few)
            delta = net(derived) if len(derived) <= len(delta) else consolidate(derived)
            if not len(delta):
                break
        self._last = None
        return emit(counters, net(concat(found)))

    def left(self, counters: Counters) -> list[Delta | None]:
        """What the last round gave."""
        return [self._last]

    def _few(self, delta: Delta) -> Delta:
        rows = few_rows(self.schema.kinds, delta.cols, len(delta))
        if rows is None:
            return Delta(self.schema, delta.cols, delta.weights)
        return Delta.of_rows(self.schema, rows, delta.weights)
