"""A row for each key, which a later one replaces: what USING KEY has found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.operator import Emission
from tidewheel.engine.operators.unkept import Unkept
from tidewheel.engine.state.arrangement import Counters
from tidewheel.engine.state.delta import Delta, Int64s, Schema, concat, unique


class Latest(Keyed):
    """The rows of the first input, and those of the second whose keys it has not. Law: keyed.

    Raises Unkept where the first has several rows of one key, as nothing tells which one counts.
    """

    arity = 2
    some_rows = True

    def __init__(self, schema: Schema, key: Sequence[int], depth: int, name: str) -> None:
        both = Schema((*schema.names, "__tw_new"), (*schema.types, pa.int64()))
        super().__init__(both, key, schema, key, depth, name)

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New output − output so far, of all touched keys."""
        schema = self.input.schema
        marked = [
            Delta(schema, [*d.cols, np.full(len(d), new, np.int64)], d.weights)
            for d, new in zip(deltas, (1, 0), strict=True)
            if d is not None
        ]
        return super().step(counters, [concat(marked) if marked else None])

    def evaluate(self, keys: Int64s, rows: Delta) -> Delta:
        """The row of each key."""
        of, new = self.input.key.keys(rows.cols, len(rows)), rows.cols[-1] == 1
        found = of[new]
        if len(unique(found)) < len(found):
            raise Unkept(
                "a step of USING KEY with several rows of one key, of which the last counts"
            )
        kept = Delta(self.schema, rows.cols[:-1], np.ones(len(rows), np.int64))
        return kept.where(new | ~np.isin(of, found))
