"""The general keyed operators: a function of a group's rows, evaluated for all touched groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.state.delta import Delta, Int64s, Schema, consolidate

Evaluate = Callable[[Delta], Delta]
"""Rows of some groups (each once, weight 1) → the output of these groups. Usually a kernel: one
DuckDB statement with GROUP BY or PARTITION BY over the same columns as the operator's key."""


class Regroup(Keyed):
    """Any aggregate or window function: evaluated again for each touched group. Law: keyed.

    `evaluate` sees all rows of all touched groups at once, so it is one statement per time. Two
    groups whose keys' hashes collide are touched together, which costs a little and changes nothing
    since the statement tells them apart by their values.

    An input row's multiplicity is given by repeating it.
    """

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

    def evaluate(self, keys: Int64s, rows: Delta) -> Delta:
        """One call of the function for all touched groups."""
        if not len(rows) and self.input.key.indices:
            return Delta.empty(self.schema)
        out = self._evaluate(rows.repeated())
        return consolidate(Delta(self.schema, out.cols, out.weights))
