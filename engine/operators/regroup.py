"""The general keyed operators: a function of a group's rows, evaluated for all touched groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tidewheel.engine.operators.asked import Ask
from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.operator import Emission
from tidewheel.engine.state.arrangement import Counters
from tidewheel.engine.state.delta import Delta, Schema

FEW: Final = 64
LARGE: Final = 100_000
"""Rows of one change's groups, of so few groups, that take longer than tables to be read."""
Evaluate = Callable[[Delta], Delta]
"""Rows of some groups (each once, weight 1) → the output of these groups. Usually a kernel: one
DuckDB statement with GROUP BY or PARTITION BY over the same columns as the operator's key."""


class Regroup(Keyed):
    """Any aggregate or window function: evaluated again for each touched group. Law: keyed.

    `evaluate` sees all rows of all touched groups at once, so it is one statement per time. Two
    groups whose keys' hashes collide are touched together, which costs a little and changes nothing
    since the statement tells them apart by their values.

    An input row's multiplicity is given by repeating it.

    Of few and large groups it keeps no rows if tables can be asked for those that change (`look`).
    """

    as_they_come = True
    tables: Ask | None = None
    """Gives groups as tables have them; what is asked once is asked from then on."""

    def __init__(
        self,
        input_schema: Schema,
        key: Sequence[int],
        evaluate: Evaluate,
        schema: Schema,
        output_key: Sequence[int],
        depth: int = 0,
        name: str = "reduce",
    ) -> None:
        super().__init__(input_schema, key, schema, output_key, depth, name)
        self._evaluate = evaluate
        self._asks = self._crowded = False

    def look(self) -> None:
        """From now on ask `tables`: if there are so few groups, and the rows of some are many."""
        self._crowded = False
        if self.tables is not None and len(self.output) <= FEW:
            self._asks = self.looks = True
            self.input = self._arrange(self.input.schema, self.input.key.indices, 0)

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New output − output so far, of all touched groups."""
        delta = deltas[0]
        if not self._asks or self.tables is None:
            emissions = super().step(counters, deltas)
            if self._crowded:
                self.look()  # as the next change finds them
            return emissions
        if delta is None or not len(delta):
            return []
        return self._from_tables(counters, delta, self.tables)

    def evaluated(self, rows: Delta) -> Delta:
        """One call of the function for all touched groups."""
        if not len(rows) and self.input.key.indices:
            return Delta.empty(self.schema)
        each = rows.repeated()
        if len(each) > LARGE:
            self._crowded = True
        out = self._evaluate(each)
        return Delta(self.schema, out.cols, out.weights)
